//! The disk usage of a log, and the free space. No reader waits long for it.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiffany_log::sync::{Condvar, Mutex};

/// The minimum time between two walks of the directory.
const EVERY: Duration = Duration::from_secs(60);
/// How long the first reader waits for the first walk.
const FIRST_TIMEOUT: Duration = Duration::from_millis(50);

/// The directory of a log.
#[derive(Debug)]
pub(crate) struct Disk(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    known: Mutex<Known>,
    walked: Condvar,
}

#[derive(Debug, Default)]
struct Known {
    last: Option<(Instant, Used)>,
    is_walking: bool,
}

/// The bytes of a log, by kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) runs: u64,
    pub(crate) blobs: u64,
    pub(crate) rest: u64,
}

/// The bytes of a disk.
pub(crate) struct Space {
    pub(crate) size: u64,
    pub(crate) free: u64,
}

impl Disk {
    pub(crate) fn new(dir: PathBuf) -> Disk {
        Disk(Arc::new(Shared { dir, known: Mutex::default(), walked: Condvar::new() }))
    }

    /// The disk usage of the log, as last measured. A thread of its own measures it, because there
    /// may be many files, and the loop may be the reader.
    pub(crate) fn used(&self) -> Option<Used> {
        let mut known = self.0.known.lock();
        let is_old = known.last.is_none_or(|(when, _)| when.elapsed() >= EVERY);
        if is_old && !known.is_walking {
            let shared = Arc::clone(&self.0);
            let walk = move || {
                let used = walk(&shared.dir);
                let mut known = shared.known.lock();
                *known = Known { last: Some((Instant::now(), used)), is_walking: false };
                shared.walked.notify_all();
            };
            let thread = std::thread::Builder::new().name("tiffany-disk".into());
            known.is_walking = thread.spawn(walk).is_ok();
        }
        let until = Instant::now() + FIRST_TIMEOUT;
        while known.last.is_none()
            && known.is_walking
            && !self.0.walked.wait_until(&mut known, until)
        {}
        known.last.map(|(_, used)| used)
    }

    /// The size of the disk, and the free space for this user.
    pub(crate) fn space(&self) -> Option<Space> {
        let found = rustix::fs::statvfs(&self.0.dir).ok()?;
        let size = found.f_blocks.saturating_mul(found.f_frsize);
        Some(Space { size, free: found.f_bavail.saturating_mul(found.f_frsize) })
    }
}

/// Files come and go meanwhile; a file that is gone does not count.
fn walk(dir: &Path) -> Used {
    let mut used = Used::default();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    let part = match (is_run(&entry), dir.ends_with("blobs")) {
                        (true, _) => &mut used.runs,
                        (_, true) => &mut used.blobs,
                        _ => &mut used.rest,
                    };
                    // Blocks, because a segment is longer than its contents.
                    *part += entry.metadata().map_or(0, |found| found.blocks() * 512);
                }
                _ => {}
            }
        }
    }
    used
}

fn is_run(entry: &DirEntry) -> bool {
    entry.path().extension().is_some_and(|extension| extension == "wal")
}
