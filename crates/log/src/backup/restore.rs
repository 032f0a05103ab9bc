//! Restores a log from a backup. It first verifies the backup, then writes the files and the index
//! next to an existing log, reads them back, and only then replaces the existing log.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::super::applier::Places;
use super::super::disk::{Barrier, Disk, OpenMode};
use super::super::error::{Doing, LogError};
use super::super::index::{Frame, IndexFile, RunEntry, RunState};
use super::super::leftovers::list;
use super::super::lock::LockTerm;
use super::super::view::View;
use super::check::{check_all, check_run, is_excused, read_whole_blob};
use super::copy::Lines;
use super::error::BackupError;
use super::manifest::{End, Kept, Manifest};
use super::pace::Pace;
use super::replace::{Replacing, is_of_daemon, stranger};
use super::sink::Sink;
use super::{FinishedRuns, lock};
use crate::backup::check::Checked;

/// What a restore may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Nothing: the directory must be empty or not exist yet.
    Nothing,
    /// A log that is not in use. It is removed once the new one is in place.
    OldLog,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The contents of the backup, all of which are now in the log.
    pub backup: Checked,
}

/// Makes a log at `root` from the backup in `from`. The directory is locked meanwhile. If the
/// restore fails, an existing log stays as it was.
///
/// A restored log is a step back in time: whatever its runs did after the backup, they do again,
/// with the same idempotency keys for their steps.
pub fn restore(
    disk: Arc<dyn Disk>,
    from: &Path,
    root: &Path,
    over: Over,
) -> Result<Restored, BackupError> {
    let none = || BackupError::NoBackup(from.into());
    let shelf = FinishedRuns::new(from);
    Manifest::load(&*disk, from)?.ok_or_else(none)?;
    // This keeps others from writing to the backup. On a read-only medium, nothing can.
    let _lock = match lock(&*disk, from, LockTerm::Lasting) {
        Err(LogError::ReadOnly { .. }) => None,
        other => Some(other?),
    };
    let manifest = Manifest::load(&*disk, from)?.ok_or_else(none)?;
    let backup = check_all(&*disk, &shelf, &manifest)?;

    let files = list(&*disk, root)?.unwrap_or_default();
    if !files.iter().any(|(name, _)| name == "lock" || name == "restoring") {
        look_for_room(&*disk, root, over)?;
    }
    disk.create_dir(root).doing("make", root)?;
    let lock = lock(&*disk, root, LockTerm::Lasting)?;
    let mut replacing = Replacing::new(Arc::clone(&disk), root)?;
    if replacing.is_marked() {
        look_for_room(&*disk, root, Over::OldLog)?;
        replacing.undo().map_err(|error| BackupError::half(&error))?;
    }
    look_for_room(&*disk, root, over)?;
    let places = replacing.places();
    let sink = Sink::new(Arc::clone(&disk), lock, 0);
    let mut restoring = Restoring { disk, shelf, places, manifest, sink };
    let outcome = restoring.replace(root, &mut replacing);
    if let Err(error) = outcome {
        // If that fails too, the marker stays, and the next restore undoes this one.
        replacing.undo().map_err(|error| BackupError::half(&error))?;
        return Err(error);
    }
    replacing.clear().map_err(|error| BackupError::leftovers(&error))?;
    Ok(Restored { backup })
}

/// Fails if the restore would overwrite anything that `over` doesn't allow.
fn look_for_room(disk: &dyn Disk, root: &Path, over: Over) -> Result<(), BackupError> {
    let inside = match over {
        Over::Nothing => first_file(disk, root)?,
        Over::OldLog => None,
    };
    let shown = |path: PathBuf| path.strip_prefix(root).unwrap_or(&path).display().to_string();
    let found = match inside {
        Some(inside) => Some(inside),
        None => stranger(disk, root)?.map(shown),
    };
    match found {
        Some(found) => Err(BackupError::NotEmpty { dir: root.into(), found }),
        None => Ok(()),
    }
}

/// Returns the name of a file in the directories of the log at `root`; `None` if there is none.
fn first_file(disk: &dyn Disk, root: &Path) -> Result<Option<String>, LogError> {
    let Places { commit, wal, blobs, .. } = Places::new(root);
    for dir in [root, &commit, &wal, &blobs] {
        let names = list(disk, dir)?.unwrap_or_default().into_iter().map(|(name, _)| name);
        let is_log = |name: &String| dir != root || (name != "lock" && !is_of_daemon(name));
        if let Some(found) = names.into_iter().find(is_log) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

struct Restoring {
    disk: Arc<dyn Disk>,
    shelf: FinishedRuns,
    places: Places,
    manifest: Manifest,
    sink: Sink,
}

impl Restoring {
    /// Returns the runs that have lines.
    fn runs(&self) -> impl Iterator<Item = (Uuid, &Kept)> {
        let there = self
            .manifest
            .runs
            .iter()
            .filter(|(_, kept)| kept.entry.state != RunState::Removed && kept.end.len > 0);
        there.map(|(run, kept)| (*run, kept))
    }

    /// Writes the new log, and replaces what is at `root` with it.
    fn replace(&mut self, root: &Path, replacing: &mut Replacing) -> Result<(), BackupError> {
        let stopped = |error: LogError| BackupError::restore(&error);
        replacing.clear().map_err(stopped)?;
        if first_file(&*self.disk, root).map_err(stopped)?.is_none() {
            // Keeps other processes from making an empty log here meanwhile.
            replacing.mark().map_err(stopped)?;
        }
        self.write()?;
        self.check()?;
        replacing.replace().map_err(stopped)?;
        self.compare(&View::open(Arc::clone(&self.disk), root)?)
    }

    fn write(&mut self) -> Result<(), BackupError> {
        let stopped = |error: LogError| BackupError::restore(&error);
        self.make().map_err(stopped)?;
        let runs: Vec<(Uuid, Kept)> = self.runs().map(|(run, kept)| (run, kept.clone())).collect();
        for (run, kept) in runs {
            self.run(run, &kept)?;
        }
        for hash in self.manifest.blobs() {
            let path = self.places.blobs.join(hash.to_string());
            match read_whole_blob(&*self.disk, &self.shelf.blob_file(hash), hash) {
                Ok(bytes) => self.file(&path, &bytes).map_err(stopped)?,
                Err(_) if is_excused(&self.manifest, hash) => {}
                Err(error) => return Err(error),
            }
        }
        self.sink.finish(&[&self.places.wal, &self.places.blobs]).map_err(stopped)?;
        self.index().map_err(stopped)
    }

    /// Makes the directories of the new log.
    fn make(&self) -> Result<(), LogError> {
        let Places { root, commit, wal, blobs } = &self.places;
        for dir in [commit, wal, blobs] {
            self.disk.create_dir(dir).doing("make", dir)?;
        }
        for dir in [root, wal] {
            self.disk.sync_dir(dir, Barrier::BackupTree).doing("sync", dir)?;
        }
        Ok(())
    }

    fn run(&mut self, run: Uuid, kept: &Kept) -> Result<(), BackupError> {
        let stopped = |error: LogError| BackupError::restore(&error);
        let source = self.shelf.run_file(run, kept.entry.generation);
        let file = self.disk.open(&source, OpenMode::Read).doing("open", &source)?;
        let path = self.places.run_file(run);
        let target = self.sink.open(&path, 0).map_err(stopped)?;
        let from = End { len: 0, seq: 0, crc: 0 };
        let (generation, to) = (kept.entry.generation, kept.end);
        let lines = Lines { run, generation, from, to, file: &*file, path: &source };
        let write = |bytes: &[u8], at| self.sink.write(&target, &path, bytes, at);
        let passed = lines.pass(&mut Pace::full(), write).map_err(stopped)?;
        if let Some(broken) = passed.broken {
            return Err(BackupError::Damaged { path: source, what: broken.to_string() });
        }
        self.sink.wrote(target).map_err(stopped)
    }

    fn file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), LogError> {
        let file = self.sink.open(path, 0)?;
        self.sink.write(&file, path, bytes, 0)?;
        self.sink.wrote(file)
    }

    /// Writes the index with the end of every run. The commit log is empty, so the index alone
    /// decides. A damaged run keeps the end it had, and is refused again.
    fn index(&self) -> Result<(), LogError> {
        let entries: Vec<(Uuid, RunEntry)> =
            self.manifest.runs.iter().map(|(run, kept)| (*run, kept.entry)).collect();
        let salt = self.disk.random().doing("draw random bits for", &self.places.root)?;
        // A backup contains nothing of removed runs.
        let unerased = &BTreeSet::new();
        let (upto, life, segments, expected) = (0, 0, 0, 0);
        let frame = Frame { upto, life, salt, segments, expected, entries: &entries, unerased };
        IndexFile::replace(&*self.disk, &self.places.commit, &frame.encode()).map(drop)
    }

    /// Verifies the new log, with its files already in place.
    fn check(&self) -> Result<(), BackupError> {
        for (run, kept) in self.runs() {
            check_run(&*self.disk, &self.places.run_file(run), run, kept)?;
        }
        for hash in self.manifest.blobs() {
            let path = self.places.blobs.join(hash.to_string());
            match read_whole_blob(&*self.disk, &path, hash) {
                Err(error) if !is_excused(&self.manifest, hash) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares the runs in the new log, as opening it shows them, with the manifest.
    fn compare(&self, view: &View) -> Result<(), BackupError> {
        let wanted = self.manifest.runs.iter().map(|(run, kept)| (*run, kept.entry));
        match view.runs().eq(wanted) {
            true => Ok(()),
            false => Err(BackupError::Damaged {
                path: self.places.root.clone(),
                what: "the list of runs".into(),
            }),
        }
    }
}
