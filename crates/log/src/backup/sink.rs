//! Writes the files of a copy and syncs them a few at a time, so that each sync is short and other
//! users of the disk don't wait long.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::disk::{Barrier, DirLock, Disk, DiskFile, OpenMode};
use super::super::error::{Doing, LogError};

/// Up to this many files are synced one by one; more are synced with one sync of the file system.
const SINGLE: usize = 16;
/// The bytes and files after which written data is synced, if others use the disk too.
const SHARED_DISK_BATCH: (u64, usize) = (4 << 20, 512);
/// The bytes and files after which written data is synced, if nothing else uses the disk.
const IDLE_DISK_BATCH: (u64, usize) = (64 << 20, 4096);
const MAX_REST: Duration = Duration::from_secs(2);

pub(super) struct Sink {
    disk: Arc<dyn Disk>,
    dir_lock: Arc<dyn DirLock>,
    /// Open files that were written. Beyond a small number, files are closed and only counted.
    open: Vec<Arc<dyn DiskFile>>,
    closed: usize,
    bytes: u64,
    /// How many times as long as each sync took the sink then pauses.
    rests: u32,
}

impl Sink {
    pub(super) fn new(disk: Arc<dyn Disk>, dir_lock: Arc<dyn DirLock>, rests: u32) -> Sink {
        Sink { disk, dir_lock, open: Vec::new(), closed: 0, bytes: 0, rests }
    }

    /// Opens a file to be written from this offset, and cuts off everything beyond it.
    pub(super) fn open(&self, path: &Path, from: u64) -> Result<Arc<dyn DiskFile>, LogError> {
        let file = self.disk.open(path, OpenMode::Create).doing("make", path)?;
        if file.size().doing("look at", path)? > from {
            file.set_size(from).doing("cut", path)?;
        }
        Ok(file)
    }

    /// Writes to a file. A large file is synced before it is complete.
    pub(super) fn write(
        &mut self,
        file: &Arc<dyn DiskFile>,
        path: &Path,
        bytes: &[u8],
        at: u64,
    ) -> Result<(), LogError> {
        file.write_at(bytes, at).doing("write", path)?;
        self.bytes += bytes.len() as u64;
        if self.is_full() { self.wrote(Arc::clone(file)) } else { Ok(()) }
    }

    /// Takes over a file that is completely written, to sync it soon.
    pub(super) fn wrote(&mut self, file: Arc<dyn DiskFile>) -> Result<(), LogError> {
        match self.open.len() < SINGLE {
            true => self.open.push(file),
            false => self.closed += 1,
        }
        if self.is_full() { self.sync() } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        let (bytes, files) = if self.rests > 0 { SHARED_DISK_BATCH } else { IDLE_DISK_BATCH };
        self.bytes >= bytes || self.open.len() + self.closed >= files
    }

    /// Makes everything that was written durable.
    pub(super) fn sync(&mut self) -> Result<(), LogError> {
        let open = std::mem::take(&mut self.open);
        let closed = std::mem::take(&mut self.closed);
        self.bytes = 0;
        let (here, began) = (Path::new("the copies"), Instant::now());
        match closed {
            0 => open.iter().try_for_each(|file| file.sync(Barrier::Copied)),
            _ => self.dir_lock.sync_everything(Barrier::CopiedAll),
        }
        .doing("sync", here)?;
        if self.rests > 0 {
            std::thread::sleep((began.elapsed() * self.rests).min(MAX_REST));
        }
        Ok(())
    }

    /// Makes everything that was written durable, and the file names in these directories.
    pub(super) fn finish(&mut self, dirs: &[&Path]) -> Result<(), LogError> {
        self.sync()?;
        dirs.iter()
            .try_for_each(|dir| self.disk.sync_dir(dir, Barrier::CopiedNames).doing("sync", dir))
    }
}
