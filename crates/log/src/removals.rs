//! The list of removed runs: the only trace of them besides the index. A run that goes on or is over is known from its
//! file as well, so an index that loses its last frames is completed from the files. Of a removed run no file is left;
//! this list keeps its UUID from being used again, and its steps from being done twice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::disk::{Barrier, Disk, DiskFile, OpenMode, empty, read_from};
use super::error::{Doing, LogError};

/// A UUID and the checksum of it and the log's salt.
const ENTRY: usize = 20;

/// The name of the list in `commit/`.
pub(crate) const NAME: &str = "removed";

/// The list while the log is open.
pub(crate) struct Removals {
    path: PathBuf,
    salt: u32,
    /// `None` until a run is removed.
    file: Option<Arc<dyn DiskFile>>,
    len: u64,
    /// Runs that the next checkpoint adds.
    unlisted: BTreeSet<Uuid>,
    /// Where its first entry is that can't be read, if there is one: the next checkpoint writes the list again, with
    /// all runs in `unlisted`.
    damaged_at: Option<u64>,
}

impl Removals {
    /// Reads the list. Damaged entries are left out: the index has them too.
    pub(crate) fn load(
        disk: &dyn Disk,
        commit_dir: &Path,
        salt: u32,
    ) -> Result<(Removals, BTreeSet<Uuid>), LogError> {
        let path = commit_dir.join(NAME);
        let file = match disk.open(&path, OpenMode::Write) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(LogError::io("open", &path, &error)),
        };
        let bytes = match &file {
            Some(file) => read_from(&**file, 0).doing("read", &path)?,
            None => Vec::new(),
        };
        let entries: Vec<Option<Uuid>> =
            bytes.chunks(ENTRY).map(|entry| decode(entry, salt)).collect();
        let damaged_at = entries.iter().position(Option::is_none).map(|at| (at * ENTRY) as u64);
        let listed = entries.into_iter().flatten().collect();
        let (len, unlisted) = (bytes.len() as u64, BTreeSet::new());
        Ok((Removals { path, salt, file, len, unlisted, damaged_at }, listed))
    }

    /// What is wrong with the list, if something is.
    pub(crate) fn damage(&self) -> Option<LogError> {
        let path = &self.path;
        self.damaged_at.map(|offset| LogError::DamagedEnd { path: path.clone(), offset })
    }

    /// Takes note of removed runs that the list may lack.
    pub(crate) fn complete(
        &mut self,
        listed: &BTreeSet<Uuid>,
        removed: impl Iterator<Item = Uuid>,
    ) {
        let is_damaged = self.damaged_at.is_some();
        self.unlisted.extend(removed.filter(|run| is_damaged || !listed.contains(run)));
    }

    /// The next checkpoint adds this run.
    pub(crate) fn note(&mut self, run: Uuid) {
        self.unlisted.insert(run);
    }

    /// Makes the list durable with what was noted.
    pub(crate) fn sync(&mut self, disk: &dyn Disk) -> Result<(), LogError> {
        if self.unlisted.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.unlisted.len() * ENTRY);
        self.unlisted.iter().for_each(|run| bytes.extend_from_slice(&encode(*run, self.salt)));
        match self.file.take().filter(|_| self.damaged_at.is_none()) {
            Some(file) => {
                file.write_at(&bytes, self.len).doing("write", &self.path)?;
                file.sync(Barrier::Removals).doing("sync", &self.path)?;
                self.file = Some(file);
            }
            None => {
                self.file = Some(self.replace(disk, &bytes)?);
                (self.len, self.damaged_at) = (0, None);
            }
        }
        self.len += bytes.len() as u64;
        self.unlisted.clear();
        Ok(())
    }

    /// Writes the list beside the old one, which it then replaces.
    fn replace(&self, disk: &dyn Disk, whole: &[u8]) -> Result<Arc<dyn DiskFile>, LogError> {
        let new = self.path.with_extension("new");
        let file = disk.open(&new, OpenMode::Create).doing("make", &new)?;
        empty(&*file).doing("empty", &new)?;
        file.write_at(whole, 0).doing("write", &new)?;
        file.sync(Barrier::Removals).doing("sync", &new)?;
        disk.rename(&new, &self.path).doing("rename", &new)?;
        let dir = self.path.parent().expect("it is in a directory");
        disk.sync_dir(dir, Barrier::RemovalsName).doing("sync", dir)?;
        Ok(file)
    }
}

fn encode(run: Uuid, salt: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..16].copy_from_slice(&run.0.to_be_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&entry[..16]), &salt.to_le_bytes());
    entry[16..].copy_from_slice(&crc.to_le_bytes());
    entry
}

fn decode(entry: &[u8], salt: u32) -> Option<Uuid> {
    let uuid: [u8; 16] = entry.get(..16)?.try_into().expect("sixteen bytes");
    let run = Uuid(u128::from_be_bytes(uuid));
    (entry == encode(run, salt)).then_some(run)
}
