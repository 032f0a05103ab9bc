//! The threat: a log is read while a process writes it. Listing must not read whole files, and must
//! not start over again and again because the log changes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tiffany::wal::{
    Barrier, Batch, Chain, Disk, DiskFile, Locking, OpenMode, RealDisk, RecordType, RunState,
    Settings, Stamp, View, Writer,
};
use tiffany::{Tid, Uuid};

use crate::durable_kit::Dir;

const RUN: Uuid = Uuid(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);

/// A process that writes one run, and does more of it whenever it is asked to.
struct Busy {
    writer: Writer,
    chain: Chain,
}

impl Busy {
    fn write(&mut self, lines: usize) {
        let mut batch = Batch::new();
        for _ in 0..lines {
            let now = Stamp::from_unix_nanos(self.chain.seq());
            let line = batch.line(&mut self.chain, &now, RecordType::Message, Tid(1));
            line.str("text", &"x".repeat(1_000)).end();
        }
        self.writer.commit(&mut batch, |_| ()).unwrap();
    }
}

/// What the process does when a file is opened, by the name of the file.
type Act = Box<dyn FnMut(&Path) + Send>;

/// The disk of the one that looks. It counts what is read of files of runs.
struct Watched {
    act: Mutex<Act>,
    read: Arc<AtomicU64>,
}

struct Counted(Arc<dyn DiskFile>, Option<Arc<AtomicU64>>);

impl DiskFile for Counted {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.0.read_at(buf, offset)?;
        if let Some(read) = &self.1 {
            read.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        panic!("a view writes")
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn set_size(&self, _: u64) -> io::Result<()> {
        panic!("a view writes")
    }

    fn sync(&self, _: Barrier) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for Watched {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        panic!("a view writes")
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        (self.act.lock().unwrap())(path);
        let is_run = path.extension().is_some_and(|end| end == "wal");
        let read = is_run.then(|| Arc::clone(&self.read));
        Ok(Arc::new(Counted(RealDisk.open(path, mode)?, read)))
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        panic!("a view writes")
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        panic!("a view writes")
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        RealDisk.list(dir)
    }

    fn others(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.others(dir)
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        panic!("a view writes")
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.resolve(path)
    }

    fn sync_dir(&self, _: &Path, _: Barrier) -> io::Result<()> {
        Ok(())
    }

    fn random(&self) -> io::Result<u32> {
        RealDisk.random()
    }

    fn lock(&self, _: &Path, _: &str) -> io::Result<Locking> {
        panic!("a view takes no lock")
    }
}

/// A process with a run of some megabytes, most of which the index has.
fn busy(dir: &Dir) -> Busy {
    let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
    let (writer, _) = Writer::open(Arc::new(RealDisk), &dir.0, settings).unwrap();
    let mut busy = Busy { writer, chain: Chain::new(RUN) };
    for _ in 0..8 {
        busy.write(1_000);
        busy.writer.background().unwrap();
    }
    busy
}

#[test]
fn lines_that_come_while_the_log_is_read_do_not_cost_the_whole_file() {
    let dir = Dir::new();
    let mut busy = busy(&dir);
    busy.write(10);
    let read = Arc::new(AtomicU64::new(0));
    let size = || std::fs::metadata(dir.0.join(format!("wal/{RUN}.wal"))).unwrap().len();
    let act = move |path: &Path| {
        // The commit log was read already.
        if path.extension().is_some_and(|end| end == "wal") {
            busy.write(1);
        }
    };
    let disk = Watched { act: Mutex::new(Box::new(act)), read: Arc::clone(&read) };
    let view = View::open(Arc::new(disk), &dir.0).unwrap();
    let entry = view.run(RUN).unwrap();
    assert!(view.refused(RUN).is_none() && entry.state == RunState::Live);
    assert!(entry.seq > 8_010, "lines that came meanwhile are left out: {entry:?}");
    let read = read.load(Ordering::Relaxed);
    assert!(read < 4 << 20, "{read} bytes were read of a file of {}", size());
}

#[test]
fn a_log_that_changes_all_the_time_is_shown_soon() {
    let dir = Dir::new();
    let mut busy = busy(&dir);
    let act = move |path: &Path| {
        if path.ends_with("index") {
            busy.write(1_000);
            busy.writer.background().unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let disk = Watched { act: Mutex::new(Box::new(act)), read: Arc::default() };
    let begun = Instant::now();
    let view = View::open(Arc::new(disk), &dir.0).unwrap();
    let took = begun.elapsed();
    assert!(view.run(RUN).unwrap().seq >= 8_000);
    assert!(took < Duration::from_secs(3), "{took:?}");
}
