//! Verifies a backup: every line, and every blob that the manifest names.

use std::path::Path;

use super::super::blob::BlobHash;
use super::super::disk::{Disk, OpenMode, read_from};
use super::super::error::{Doing, LogError};
use super::super::index::RunState;
use super::FinishedRuns;
use super::copy::Lines;
use super::error::BackupError;
use super::manifest::{End, Kept, Manifest};
use super::pace::Pace;
use tiffany_kernel::Uuid;

/// The contents of a complete backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// When the backup began, as RFC 3339.
    pub taken: String,
    /// The number of runs in it, not counting removed ones.
    pub runs: u64,
    /// The number of records in these runs.
    pub records: u64,
    /// The number of blobs in it.
    pub blobs: u64,
    /// The size of all run files in it, in bytes.
    pub bytes: u64,
    /// The number of runs that were damaged in the log when the backup was taken.
    pub damaged: u64,
}

/// Reads the whole backup. Fails if anything differs from what the manifest says.
pub fn check(disk: &dyn Disk, from: &Path) -> Result<Checked, BackupError> {
    let none = || BackupError::NoBackup(from.into());
    let manifest = Manifest::load(disk, from)?.ok_or_else(none)?;
    check_all(disk, &FinishedRuns::new(from), &manifest)
}

pub(super) fn check_all(
    disk: &dyn Disk,
    shelf: &FinishedRuns,
    manifest: &Manifest,
) -> Result<Checked, BackupError> {
    let mut checked = Checked { taken: manifest.taken.clone(), ..Checked::default() };
    for (run, kept) in &manifest.runs {
        checked.damaged += u64::from(kept.damaged.is_some());
        if kept.entry.state == RunState::Removed {
            continue;
        }
        check_run(disk, &shelf.run_file(*run, kept.entry.generation), *run, kept)?;
        checked.runs += 1;
        checked.records += kept.end.seq;
        checked.bytes += kept.end.len;
    }
    for hash in manifest.blobs() {
        match read_whole_blob(disk, &shelf.blob_file(hash), hash) {
            Ok(_) => checked.blobs += 1,
            // The blob was already missing when the backup was taken, as the manifest says.
            Err(_) if is_excused(manifest, hash) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(checked)
}

/// Returns whether all runs that reference a blob are known to be damaged.
pub(super) fn is_excused(manifest: &Manifest, hash: BlobHash) -> bool {
    let mut naming = manifest.runs.values().filter(|kept| kept.blobs.contains(&hash));
    naming.all(|kept| kept.damaged.is_some())
}

/// Checks that the file holds all the lines of a run that the manifest lists.
pub(super) fn check_run(
    disk: &dyn Disk,
    path: &Path,
    run: Uuid,
    kept: &Kept,
) -> Result<(), BackupError> {
    if kept.end.len == 0 {
        return Ok(());
    }
    let damaged = |what: String| BackupError::Damaged { path: path.into(), what };
    let file = match disk.open(path, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(damaged("all".into()));
        }
        other => other.doing("open", path)?,
    };
    let from = End { len: 0, seq: 0, crc: 0 };
    let (generation, to) = (kept.entry.generation, kept.end);
    let lines = Lines { run, generation, from, to, file: &*file, path };
    match lines.pass(&mut Pace::full(), |_, _| Ok(()))?.broken {
        Some(broken) => Err(damaged(broken.to_string())),
        None => Ok(()),
    }
}

/// Reads a blob and checks its hash.
pub(super) fn read_whole_blob(
    disk: &dyn Disk,
    path: &Path,
    hash: BlobHash,
) -> Result<Vec<u8>, BackupError> {
    let damaged = |what: &str| BackupError::Damaged { path: path.into(), what: what.into() };
    let file = match disk.open(path, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(damaged("all")),
        other => other.map_err(|error| LogError::io("open", path, &error))?,
    };
    let bytes = read_from(&*file, 0).doing("read", path)?;
    match BlobHash::of(&bytes) == hash {
        true => Ok(bytes),
        false => Err(damaged("the content")),
    }
}
