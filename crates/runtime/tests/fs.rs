//! Files through the pool.

use std::io::{ErrorKind, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use crate::bounded::check;
use tiffany::fs::{self, File};
use tiffany::{blocking, cancel, gather, sleep, spawn, try_spawn};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("tiffany-fs-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn whole_files_and_directories() {
    check(async {
        let directory = Directory::new("whole");
        let deep = directory.0.join("a/b/c");
        fs::create_dir_all(&deep).await?;
        fs::write(deep.join("two"), "two").await?;
        fs::write(deep.join("one"), b"one").await?;
        assert_eq!(fs::read_dir(&deep).await?, [deep.join("one"), deep.join("two")]);
        fs::rename(deep.join("one"), deep.join("three")).await?;
        assert_eq!(fs::read_to_string(deep.join("three")).await?, "one");
        assert_eq!(fs::metadata(deep.join("three")).await?.len(), 3);
        fs::remove_file(deep.join("three")).await?;
        let error = fs::read(deep.join("three")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        Ok(())
    });
}

#[test]
fn an_open_file_is_read_written_and_sought() {
    check(async {
        let directory = Directory::new("open");
        let path = directory.0.join("file");
        let file = File::create(&path).await?;
        file.write_all(&vec![5; 3 << 20]).await?;
        file.seek(SeekFrom::End(-2)).await?;
        file.write_all(&[1, 2, 3]).await?;
        file.sync_all().await?;
        assert_eq!(file.metadata().await?.len(), (3 << 20) + 1);

        let file = File::open(&path).await?;
        file.seek(SeekFrom::Start((3 << 20) - 3)).await?;
        let mut bytes = [0; 16];
        assert_eq!(file.read(&mut bytes).await?, 4);
        assert_eq!(bytes[..4], [5, 1, 2, 3]);
        assert_eq!(file.read(&mut bytes).await?, 0);
        let error = file.read_exact(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        file.seek(SeekFrom::Start(1)).await?;
        let mut rest = vec![9];
        assert_eq!(file.read_to_end(&mut rest).await?, 3 << 20);
        assert_eq!(rest.len(), (3 << 20) + 1);
        assert!(file.write(b"x").await.is_err(), "opened to read");
        Ok(())
    });
}

#[test]
fn many_files_at_once_and_the_loop_goes_on() {
    check(async {
        let directory = Directory::new("many");
        let mut tasks = Vec::new();
        for number in 0..100 {
            let path = directory.0.join(number.to_string());
            tasks.push(
                try_spawn(async move {
                    fs::write(&path, number.to_string()).await?;
                    fs::read_to_string(&path).await
                })
                .await,
            );
        }
        let texts = gather(tasks).await.unwrap();
        assert_eq!(texts[42], "42");
        assert_eq!(fs::read_dir(&directory.0).await?.len(), 100);
        Ok(())
    });
}

#[test]
fn work_that_is_withdrawn_before_it_began_never_runs() {
    check(async {
        // More work than threads: what is at the back of the queue is taken back in time.
        let mut busy = Vec::new();
        for _ in 0..64 {
            busy.push(spawn(blocking(|| std::thread::sleep(Duration::from_millis(20)))).await);
        }
        let ran = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = std::sync::Arc::clone(&ran);
        let last =
            spawn(blocking(move || flag.store(true, std::sync::atomic::Ordering::SeqCst))).await;
        sleep(Duration::from_millis(1)).await;
        cancel(&last).await;
        for task in busy {
            task.await.unwrap().unwrap();
        }
        assert!(!ran.load(std::sync::atomic::Ordering::SeqCst));
        Ok(())
    });
}
