//! Files that are being written: synced a few at a time, so that no sync has much to do and nobody else waits long
//! for the disk.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::disk::{Barrier, DirLock, Disk, DiskFile, OpenMode};
use super::super::error::{Doing, LogError};

/// More files than this are synced by one sync of the file system.
const SINGLE: usize = 16;
/// After so many bytes and files what was written is synced, where others want the disk too...
const SHARED_DISK_BATCH: (u64, usize) = (4 << 20, 512);
/// ...and where nobody does.
const IDLE_DISK_BATCH: (u64, usize) = (64 << 20, 4096);
const MAX_REST: Duration = Duration::from_secs(2);

pub(super) struct Sink {
    disk: Arc<dyn Disk>,
    dir_lock: Arc<dyn DirLock>,
    /// Open files that were written; more than a few are closed and counted only.
    open: Vec<Arc<dyn DiskFile>>,
    closed: usize,
    bytes: u64,
    /// After a sync, the disk is left to others for so many times as long as that took.
    rests: u32,
}

impl Sink {
    pub(super) fn new(disk: Arc<dyn Disk>, dir_lock: Arc<dyn DirLock>, rests: u32) -> Sink {
        Sink { disk, dir_lock, open: Vec::new(), closed: 0, bytes: 0, rests }
    }

    /// A file that is to be written from this place on. What is behind that goes.
    pub(super) fn open(&self, path: &Path, from: u64) -> Result<Arc<dyn DiskFile>, LogError> {
        let file = self.disk.open(path, OpenMode::Create).doing("make", path)?;
        if file.size().doing("look at", path)? > from {
            file.set_size(from).doing("cut", path)?;
        }
        Ok(file)
    }

    /// Writes to a file. A large one is synced on the way.
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

    /// All of a file is written: it is synced soon.
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

    /// Makes all that was written durable.
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

    /// Makes all that was written durable, with the names in these directories.
    pub(super) fn finish(&mut self, dirs: &[&Path]) -> Result<(), LogError> {
        self.sync()?;
        dirs.iter()
            .try_for_each(|dir| self.disk.sync_dir(dir, Barrier::CopiedNames).doing("sync", dir))
    }
}
