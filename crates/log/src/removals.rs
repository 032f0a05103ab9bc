//! The list of removed runs, which are recorded only here and in the index. A live or finished run
//! is also known from its file, so an index that loses its last frames is completed from the files.
//! A removed run has no file; this list keeps its UUID from being reused, and its steps from being
//! repeated.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::disk::{Barrier, Disk, DiskFile, OpenMode, empty, read_from};
use super::error::{Doing, LogError};

/// The length of an entry: a UUID, and a checksum of it and the log's salt.
const ENTRY: usize = 20;

/// The name of the list in `commit/`.
pub(crate) const NAME: &str = "removed";

/// The open list of removed runs.
pub(crate) struct Removals {
    path: PathBuf,
    salt: u32,
    /// The file; `None` until a run is removed.
    file: Option<Arc<dyn DiskFile>>,
    len: u64,
    /// Runs that the next checkpoint adds to the list.
    unlisted: BTreeSet<Uuid>,
    /// The offset of the first unreadable entry, if there is one. The next checkpoint then rewrites
    /// the list, with all runs in `unlisted`.
    damaged_at: Option<u64>,
}

impl Removals {
    /// Loads the list. Damaged entries are left out, because the index has them too.
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

    /// Returns the damage of the list, if it has any.
    pub(crate) fn damage(&self) -> Option<LogError> {
        let path = &self.path;
        self.damaged_at.map(|offset| LogError::DamagedEnd { path: path.clone(), offset })
    }

    /// Notes removed runs that the list may lack.
    pub(crate) fn complete(
        &mut self,
        listed: &BTreeSet<Uuid>,
        removed: impl Iterator<Item = Uuid>,
    ) {
        let is_damaged = self.damaged_at.is_some();
        self.unlisted.extend(removed.filter(|run| is_damaged || !listed.contains(run)));
    }

    /// Notes a run for the next checkpoint to add.
    pub(crate) fn note(&mut self, run: Uuid) {
        self.unlisted.insert(run);
    }

    /// Writes the noted runs to the list, and makes it durable.
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

    /// Writes a complete list next to the old one, and then replaces it.
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
