//! Unix sockets, in a directory that goes away with the test.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::bounded::check;
use tiffany::net::{UnixDatagram, UnixListener, UnixStream};
use tiffany::testing::TestScheduler;
use tiffany::{Runtime, gather, sleep, try_spawn};

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("tiffany-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_megabyte_there_and_back() {
    check(async {
        let directory = Directory::new("unix-echo");
        let listener = UnixListener::bind(directory.path("sock"))?;
        let server = try_spawn(async move {
            let stream = listener.accept().await?;
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await?;
            stream.write_all(&all).await
        })
        .await;
        let stream = UnixStream::connect(directory.path("sock")).await?;
        let sent: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 249) as u8).collect();
        let (reader, writer) = stream.split();
        writer.write_all(&sent).await?;
        drop(writer);
        let mut back = Vec::new();
        reader.read_to_end(&mut back).await?;
        assert!(back == sent);
        server.await.unwrap();
        Ok(())
    });
}

#[test]
fn nobody_listens() {
    check(async {
        let directory = Directory::new("unix-nobody");
        let error = UnixStream::connect(directory.path("sock")).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        drop(UnixListener::bind(directory.path("sock"))?);
        let error = UnixStream::connect(directory.path("sock")).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        Ok(())
    });
}

#[test]
fn a_full_listener_is_waited_for() {
    check(async {
        let directory = Directory::new("unix-full");
        let listener = UnixListener::bind(directory.path("sock"))?;
        rustix::net::listen(&listener, 1)?;
        let mut clients = Vec::new();
        for _ in 0..10 {
            let path = directory.path("sock");
            clients.push(try_spawn(async move { UnixStream::connect(path).await.map(drop) }).await);
        }
        sleep(Duration::from_millis(5)).await;
        for _ in 0..10 {
            listener.accept().await?;
        }
        gather(clients).await.unwrap();
        Ok(())
    });
}

#[test]
fn datagrams_wait_for_room() {
    check(async {
        let directory = Directory::new("unix-datagram");
        let receiver = UnixDatagram::bind(directory.path("sock"))?;
        let path = directory.path("sock");
        let connected = try_spawn(async move {
            let sender = UnixDatagram::unbound()?;
            sender.connect(path)?;
            for number in 0..100u8 {
                sender.send(&[number]).await?;
            }
            Ok::<(), io::Error>(())
        })
        .await;
        let path = directory.path("sock");
        let unconnected = try_spawn(async move {
            let sender = UnixDatagram::unbound()?;
            for number in 100..200u8 {
                sender.send_to(&[number], &path).await?;
            }
            Ok::<(), io::Error>(())
        })
        .await;
        sleep(Duration::from_millis(5)).await;
        let mut numbers = Vec::new();
        let mut bytes = [0; 8];
        while numbers.len() < 200 {
            let (count, _) = receiver.recv_from(&mut bytes).await?;
            assert_eq!(count, 1);
            numbers.push(bytes[0]);
        }
        connected.await.unwrap();
        unconnected.await.unwrap();
        numbers.sort();
        assert!(numbers == (0..200).collect::<Vec<u8>>());
        Ok(())
    });
}

#[test]
fn a_refusal_of_the_system_names_the_path_and_the_line() {
    check(async {
        let directory = Directory::new("refusal");
        let path = directory.path("no/such/socket");
        let bind = UnixListener::bind(&path).map(drop).unwrap_err();
        let receive = UnixDatagram::bind(&path).map(drop).unwrap_err();
        let connect = UnixStream::connect(&path).await.map(drop).unwrap_err();
        let line = line!() - 3;
        for (error, verb, line) in
            [(bind, "bind", line), (receive, "bind", line + 1), (connect, "connect", line + 2)]
        {
            let text = error.to_string();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{text}");
            assert!(text.starts_with(&format!("cannot {verb} {path:?}: ")), "{text}");
            assert!(text.ends_with(&format!("in `{verb}` at {}:{line}", file!())), "{text}");
        }
    });
}

/// An error, and no file at the path.
#[test]
fn a_durable_task_makes_no_socket() {
    let directory = Directory::new("durable");
    let path = directory.path("socket");
    let mut test = TestScheduler::durable_rules(Runtime::builder());
    let at = path.clone();
    let errors = test.run(async move {
        [UnixListener::bind(&at).map(drop), UnixDatagram::bind(&at).map(drop)]
            .map(Result::unwrap_err)
    });
    for error in errors.unwrap() {
        assert!(error.to_string().contains("[TFY0020]"), "{error}");
        assert!(error.to_string().contains(file!()), "{error}");
    }
    assert!(!path.exists());
}
