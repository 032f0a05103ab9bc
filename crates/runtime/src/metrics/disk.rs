//! What a log takes of its disk, and what is left there. It is looked up by those who read the metrics, never by the loop.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::lock::Mutex;

/// A directory is walked at most this often.
const EVERY: Duration = Duration::from_secs(60);

/// A log's directory.
#[derive(Debug)]
pub(crate) struct Disk {
    dir: PathBuf,
    last: Mutex<Option<(Instant, Used)>>,
}

/// Bytes of a log, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) runs: u64,
    pub(crate) blobs: u64,
    pub(crate) rest: u64,
}

/// Bytes of a disk.
pub(crate) struct Space {
    pub(crate) size: u64,
    pub(crate) free: u64,
}

impl Disk {
    pub(crate) fn new(dir: PathBuf) -> Disk {
        Disk { dir, last: Mutex::new(None) }
    }

    /// What the log takes.
    pub(crate) fn used(&self) -> Used {
        let mut last = self.last.lock();
        match *last {
            Some((when, used)) if when.elapsed() < EVERY => used,
            _ => {
                let used = walk(&self.dir);
                *last = Some((Instant::now(), used));
                used
            }
        }
    }

    /// How large the disk is, and what is left for this user.
    pub(crate) fn space(&self) -> Option<Space> {
        let found = rustix::fs::statvfs(&self.dir).ok()?;
        let size = found.f_blocks.saturating_mul(found.f_frsize);
        Some(Space { size, free: found.f_bavail.saturating_mul(found.f_frsize) })
    }
}

/// Files come and go meanwhile: what is gone does not count.
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
                    // Blocks, because a segment is longer than what is in it.
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
