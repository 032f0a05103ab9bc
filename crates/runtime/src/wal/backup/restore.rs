//! Making a log of a backup. The backup is read through first; then a mark says that the directory is half restored,
//! which every opening respects; then come the files, their index, one more reading, and the end of the mark.

use std::path::Path;
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::super::applier::Places;
use super::super::disk::{Barrier, Disk, OpenMode};
use super::super::error::{Doing, LogError};
use super::super::index::{Frame, IndexFile, RunEntry, RunState};
use super::super::lock::Holding;
use super::super::view::View;
use super::check::{check_all, check_run, is_excused, read_whole_blob};
use super::copy::Lines;
use super::error::BackupError;
use super::manifest::{End, Kept, Manifest};
use super::pace::Pace;
use super::sink::Sink;
use super::{Checked, Shelf, lock, parent};

/// What may be in the way of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Nothing: the directory must be empty or new.
    Nothing,
    /// A log that no process has. It is removed.
    OldLog,
}

/// A log that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// What the backup has, all of which is in the log now.
    pub backup: Checked,
}

/// Makes a log at `root` of the backup in `from`. Nobody else can have the directory meanwhile.
///
/// A restored log goes back in time: what its runs did after the backup they do again, steps with the same keys.
pub fn restore(
    disk: Arc<dyn Disk>,
    from: &Path,
    root: &Path,
    over: Over,
) -> Result<Restored, BackupError> {
    let none = || BackupError::NoBackup(from.into());
    let shelf = Shelf::new(from);
    Manifest::load(&*disk, from)?.ok_or_else(none)?;
    // No backup is taken to it meanwhile. On a medium that cannot be written, none can be.
    let _hold = match lock(&*disk, from, Holding::ForLong) {
        Err(LogError::ReadOnly { .. }) => None,
        other => Some(other?),
    };
    let manifest = Manifest::load(&*disk, from)?.ok_or_else(none)?;
    let backup = check_all(&*disk, &shelf, &manifest)?;

    let places = Places::new(root);
    let files = disk.list(root).unwrap_or_default();
    if !files.iter().any(|(name, _)| name == "lock") {
        look_for_room(&*disk, &places, over)?;
    }
    disk.create_dir(root).doing("make", root)?;
    let hold = lock(&*disk, root, Holding::ForLong)?;
    look_for_room(&*disk, &places, over)?;
    let sink = Sink::new(Arc::clone(&disk), hold, 0);
    let mut restoring = Restoring { disk: Arc::clone(&disk), shelf, places, manifest, sink };
    restoring.write()?;
    restoring.check()?;
    restoring.unmark().map_err(|error| BackupError::restore(&error))?;
    restoring.compare(&View::open(disk, root)?)?;
    Ok(Restored { backup })
}

/// An error if something would be lost.
fn look_for_room(disk: &dyn Disk, places: &Places, over: Over) -> Result<(), BackupError> {
    if over == Over::OldLog || disk.open(&places.restoring(), OpenMode::Read).is_ok() {
        return Ok(());
    }
    let files = |dir: &Path| disk.list(dir).unwrap_or_default().into_iter().map(|(name, _)| name);
    let inside =
        [&places.commit, &places.wal, &places.blobs].into_iter().flat_map(|dir| files(dir));
    let mut all = files(&places.root).filter(|name| name != "lock").chain(inside);
    match all.next() {
        Some(found) => Err(BackupError::NotEmpty { dir: places.root.clone(), found }),
        None => Ok(()),
    }
}

struct Restoring {
    disk: Arc<dyn Disk>,
    shelf: Shelf,
    places: Places,
    manifest: Manifest,
    sink: Sink,
}

impl Restoring {
    /// The runs that have lines.
    fn runs(&self) -> impl Iterator<Item = (Uuid, &Kept)> {
        let there = self
            .manifest
            .runs
            .iter()
            .filter(|(_, kept)| kept.entry.state != RunState::Removed && kept.end.len > 0);
        there.map(|(run, kept)| (*run, kept))
    }

    fn write(&mut self) -> Result<(), BackupError> {
        let stopped = |error: LogError| BackupError::restore(&error);
        self.mark().map_err(stopped)?;
        self.clear().map_err(stopped)?;
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

    /// Says that what is here is not a log yet.
    fn mark(&self) -> Result<(), LogError> {
        let (mark, root) = (self.places.restoring(), &self.places.root);
        let file = self.disk.open(&mark, OpenMode::Create).doing("make", &mark)?;
        file.sync(Barrier::Restoring).doing("sync", &mark)?;
        for dir in [parent(root), root] {
            self.disk.sync_dir(dir, Barrier::Restoring).doing("sync", dir)?;
        }
        Ok(())
    }

    fn unmark(&self) -> Result<(), LogError> {
        let (mark, root) = (self.places.restoring(), &self.places.root);
        self.disk.remove(&mark).doing("remove", &mark)?;
        self.disk.sync_dir(root, Barrier::Restored).doing("sync", root)
    }

    /// Makes the directories, and removes the files of a log that is there.
    fn clear(&self) -> Result<(), LogError> {
        let Places { commit, wal, blobs, .. } = &self.places;
        for dir in [commit, wal, blobs] {
            self.disk.create_dir(dir).doing("make", dir)?;
            for (name, _) in self.disk.list(dir).doing("list", dir)? {
                let path = dir.join(name);
                self.disk.remove(&path).doing("remove", &path)?;
            }
        }
        for dir in [&self.places.root, wal, commit] {
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

    /// Where every run stands. The commit log is empty, so nothing else has a say. A run that is not whole keeps the
    /// end it had, and so is refused as it was.
    fn index(&self) -> Result<(), LogError> {
        let entries: Vec<(Uuid, RunEntry)> =
            self.manifest.runs.iter().map(|(run, kept)| (*run, kept.entry)).collect();
        let salt = self.disk.random().doing("draw random bits for", &self.places.root)?;
        let frame = Frame { upto: 0, life: 0, salt, segments: 0, entries: &entries }.encode();
        IndexFile::replace(&*self.disk, &self.places.commit, &frame).map(drop)
    }

    /// Reads everything again, from where it is now.
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

    /// The log as its program will find it.
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
