//! Finds and removes the directories that an interrupted restore leaves next to the log: parts of
//! the log that it replaced, or of the new one. It knows nothing of their contents.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::disk::{Barrier, Disk};
use super::error::{Doing, LogError};

/// The directories of a log, and the suffixes of their temporary names.
pub(crate) const PARTS: [&str; 2] = ["commit", "wal"];
pub(crate) const NEW: &str = ".restoring";
pub(crate) const OLD: &str = ".replaced";

/// Returns the leftover directories that exist.
pub(crate) fn leftovers(disk: &dyn Disk, root: &Path) -> Result<Vec<PathBuf>, LogError> {
    let mut there = Vec::new();
    for part in PARTS {
        for suffix in [NEW, OLD] {
            let dir = root.join(format!("{part}{suffix}"));
            if list(disk, &dir)?.is_some() {
                there.push(dir);
            }
        }
    }
    Ok(there)
}

/// Removes the leftover directories. The caller has the lock of the log, and no restore is half
/// done in it.
pub(crate) fn clear_leftovers(disk: &dyn Disk, root: &Path) -> Result<(), LogError> {
    let there = leftovers(disk, root)?;
    if there.is_empty() {
        return Ok(());
    }
    let sync = || disk.sync_dir(root, Barrier::Restored).doing("sync", root);
    // The marker of the restore must not reappear after a crash when what it needs is gone.
    sync()?;
    for dir in &there {
        for dir in [&dir.join("blobs"), dir] {
            remove_dir(disk, dir)?;
        }
    }
    sync()
}

fn remove_dir(disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
    let Some(files) = list(disk, dir)? else { return Ok(()) };
    for (name, _) in files {
        let path = dir.join(name);
        disk.remove(&path).doing("remove", &path)?;
    }
    disk.remove_dir(dir).doing("remove", dir)
}

/// Lists the files of a directory; `None` if it does not exist.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Option<Vec<(String, u64)>>, LogError> {
    match disk.list(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        files => files.doing("list", dir).map(Some),
    }
}
