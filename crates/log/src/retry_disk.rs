//! A disk on top of another one that repeats calls which a signal interrupted or which found no
//! free file descriptor. In the second case, it first closes the run files that the log keeps open,
//! and then waits for a while in case others close theirs. Other errors are passed on: a failed
//! write or sync is not repeated.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::disk::{Barrier, DirLock, Disk, DiskFile, Locking, OpenMode};
use super::handles::Handles;

/// The first and the longest pause before it asks again for a descriptor.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Returns whether a call failed because the process or the system has no file descriptor left.
pub(crate) fn lacks_descriptor(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

pub(crate) struct RetryDisk {
    below: Arc<dyn Disk>,
    handles: Arc<Handles>,
    /// How long it waits for a descriptor in total.
    timeout: Duration,
}

impl RetryDisk {
    pub(crate) fn new(below: Arc<dyn Disk>, handles: Arc<Handles>, timeout: Duration) -> RetryDisk {
        RetryDisk { below, handles, timeout }
    }

    fn call<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let (mut waits_since, mut pause) = (None, FIRST_PAUSE);
        loop {
            let error = match uninterrupted(&mut call) {
                Err(error) if lacks_descriptor(&error) => error,
                other => return other,
            };
            if self.handles.close_all() {
                continue;
            }
            let since = *waits_since.get_or_insert_with(|| {
                tracing::warn!(target: "tiffany", "the log waits for a file descriptor: {error}");
                Instant::now()
            });
            if since.elapsed() >= self.timeout {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// Repeats a call that a signal interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl Disk for RetryDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.call(|| self.below.create_dir(path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.call(|| self.below.open(path, mode))?;
        Ok(Arc::new(RetryFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|| self.below.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(|| self.below.remove(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        self.call(|| self.below.list(dir))
    }

    fn others(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.call(|| self.below.others(dir))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call(|| self.below.remove_dir(path))
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.call(|| self.below.resolve(path))
    }

    fn sync_dir(&self, dir: &Path, barrier: Barrier) -> io::Result<()> {
        self.call(|| self.below.sync_dir(dir, barrier))
    }

    fn random(&self) -> io::Result<u32> {
        self.call(|| self.below.random())
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking> {
        Ok(match self.call(|| self.below.lock(path, owner))? {
            Locking::Ours(lock) => Locking::Ours(Box::new(RetryLock(lock))),
            theirs @ Locking::Theirs(_) => theirs,
        })
    }
}

/// A file that repeats interrupted calls. It is open already, so it needs no descriptor.
struct RetryFile(Arc<dyn DiskFile>);

impl DiskFile for RetryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        uninterrupted(|| self.0.read_at(buf, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        uninterrupted(|| self.0.write_at(bytes, offset))
    }

    fn size(&self) -> io::Result<u64> {
        uninterrupted(|| self.0.size())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        uninterrupted(|| self.0.set_size(size))
    }

    fn sync(&self, barrier: Barrier) -> io::Result<()> {
        uninterrupted(|| self.0.sync(barrier))
    }
}

struct RetryLock(Box<dyn DirLock>);

impl DirLock for RetryLock {
    fn sync_everything(&self, barrier: Barrier) -> io::Result<()> {
        uninterrupted(|| self.0.sync_everything(barrier))
    }

    fn note(&self, owner: &str) -> io::Result<()> {
        uninterrupted(|| self.0.note(owner))
    }

    fn check(&self) -> io::Result<()> {
        uninterrupted(|| self.0.check())
    }
}
