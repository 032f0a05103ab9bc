//! Takes a backup: all runs at one moment, the lines and blobs that the backup does not have yet,
//! and then the manifest. The log is only read, and may be in use.
//!
//! A run's file only grows, unless a new generation replaces it or it is removed. If that happens
//! while the run is being copied, the backup moves on to a later moment and adds what its copies
//! lack of that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tiffany_kernel::Uuid;

use super::super::applier::Places;
use super::super::blob::BlobHash;
use super::super::disk::{Barrier, Disk, OpenMode};
use super::super::error::{Doing, LogError};
use super::super::index::{RunEntry, RunState};
use super::super::lock::LockTerm;
use super::super::stamp::Stamp;
use super::super::view::View;
use super::copy::Lines;
use super::error::BackupError;
use super::manifest::{End, Kept, Manifest};
use super::pace::Pace;
use super::sink::Sink;
use super::{FinishedRuns, lock, parent, run_name};

/// How often the backup moves on to a later moment before it fails.
const PASSES: usize = 20;

const NOTHING: End = End { len: 0, seq: 0, crc: 0 };

/// The result of a backup.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Taken {
    /// When the backup began, as RFC 3339: everything that was durable then is in it.
    pub taken: String,
    /// The number of runs in it, not counting removed ones.
    pub runs: u64,
    /// The number of records in these runs.
    pub records: u64,
    /// The number of blobs in it.
    pub blobs: u64,
    /// The size of all run files in it, in bytes.
    pub bytes: u64,
    /// The number of runs of which this backup copied something.
    pub copied_runs: u64,
    /// The number of blobs that this backup copied.
    pub copied_blobs: u64,
    /// The number of bytes that this backup copied.
    pub copied_bytes: u64,
    /// The number of files of earlier backups that were removed.
    pub removed_files: u64,
    /// Runs that are damaged in the log itself. The backup has what could be read of them.
    pub damaged: Vec<DamagedRun>,
}

/// A run that is damaged in its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRun {
    /// The run.
    pub run: Uuid,
    /// A description of the damage.
    pub what: String,
}

/// Copies the log at `root`, which may be in use, to the directory `dest`. The directory must not
/// be inside the log; it is made if it does not exist, but its parent must exist. If it already has
/// a backup of the same log, only what is new is copied.
pub fn take(
    disk: Arc<dyn Disk>,
    root: &Path,
    dest: &Path,
    pace: &mut Pace<'_>,
) -> Result<Taken, BackupError> {
    let taken = now();
    // The log comes first: if it cannot be read, no directory is made.
    let mut view = View::open_at_once(Arc::clone(&disk), root)?;
    if is_inside(&*disk, root, dest) {
        return Err(BackupError::Inside { dest: dest.into(), root: root.into() });
    }
    let mut taking = Taking::begin(Arc::clone(&disk), dest, view.salt(), pace.rests())?;
    taking.report.taken.clone_from(&taken);
    let mut moved = BTreeSet::new();
    for _ in 0..PASSES {
        let before = std::mem::take(&mut moved);
        taking
            .pass(&view, &before, &mut moved, pace)
            .map_err(|error| BackupError::backup(&error))?;
        if moved.is_empty() {
            return taking.finish(&view, taken).map_err(|error| BackupError::backup(&error));
        }
        view = View::open_at_once(Arc::clone(&disk), root)?;
    }
    Err(BackupError::Restless(moved.len()))
}

/// Returns whether a directory, which need not exist yet, is anywhere inside another one.
fn is_inside(disk: &dyn Disk, root: &Path, dest: &Path) -> bool {
    let above = match disk.resolve(dest) {
        Ok(dest) => dest.parent().map(Path::to_path_buf),
        Err(_) => disk.resolve(parent(dest)).ok(),
    };
    above.zip(disk.resolve(root).ok()).is_some_and(|(above, root)| above.starts_with(root))
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    Stamp::from_unix_nanos(nanos).as_str().to_owned()
}

/// A run that was replaced or removed during the copy, with its generation.
type Moved = (Uuid, u32);

struct Taking {
    disk: Arc<dyn Disk>,
    shelf: FinishedRuns,
    sink: Sink,
    /// What the backup has of each run, according to the last manifest and to what was copied
    /// since.
    kept: BTreeMap<Uuid, Kept>,
    stored: BTreeSet<BlobHash>,
    report: Taken,
}

impl Taking {
    fn begin(
        disk: Arc<dyn Disk>,
        dest: &Path,
        salt: u32,
        rests: u32,
    ) -> Result<Taking, BackupError> {
        let shelf = FinishedRuns::new(dest);
        let old = Manifest::load(&*disk, dest)?;
        match &old {
            Some(old) if old.salt != salt => return Err(BackupError::OtherLog(dest.into())),
            Some(_) => {}
            None => is_free(&*disk, &shelf)?,
        }
        let made = || {
            for dir in [&shelf.root, &shelf.runs, &shelf.blobs] {
                disk.create_dir(dir).doing("make", dir)?;
            }
            for dir in [parent(&shelf.root), &shelf.root] {
                disk.sync_dir(dir, Barrier::BackupTree).doing("sync", dir)?;
            }
            Ok(())
        };
        made().map_err(|error| BackupError::backup(&error))?;
        let lock = lock(&*disk, dest, LockTerm::Lasting)?;
        // The manifest is read again, now that the lock keeps others from changing it.
        let old = Manifest::load(&*disk, dest)?.unwrap_or_default();
        let sink = Sink::new(Arc::clone(&disk), lock, rests);
        let (kept, stored) = still_there(&*disk, &shelf, old)?;
        Ok(Taking { disk, shelf, sink, kept, stored, report: Taken::default() })
    }

    /// Updates the copies to match a view. Runs whose files differ from the view are put into
    /// `moved`; those that differed before, in the same generation, are damaged.
    fn pass(
        &mut self,
        view: &View,
        before: &BTreeSet<Moved>,
        moved: &mut BTreeSet<Moved>,
        pace: &mut Pace<'_>,
    ) -> Result<(), LogError> {
        let todo = |run: Uuid, entry: &RunEntry| match self.kept.get(&run) {
            Some(kept) if kept.entry.generation == entry.generation => {
                entry.len.saturating_sub(kept.end.len)
            }
            _ => entry.len,
        };
        pace.expect(view.runs().map(|(run, entry)| todo(run, &entry)).sum());
        // Runs that were replaced or removed before are copied first, because it may happen again.
        let is_restless = |run: &Uuid| before.iter().any(|(restless, _)| restless == run);
        let (first, rest): (Vec<_>, Vec<_>) =
            view.runs().partition(|(run, _)| !before.is_empty() && is_restless(run));
        for (run, entry) in first.into_iter().chain(rest) {
            let kept = self.run(view, run, entry, pace)?;
            let is_known = before.contains(&(run, entry.generation));
            if kept.damaged.is_some() && !is_known {
                moved.insert((run, entry.generation));
            }
            self.kept.insert(run, kept);
        }
        Ok(())
    }

    /// Copies what the backup lacks of a run.
    fn run(
        &mut self,
        view: &View,
        run: Uuid,
        entry: RunEntry,
        pace: &mut Pace<'_>,
    ) -> Result<Kept, LogError> {
        let to = End::of(&entry);
        if entry.state == RunState::Removed {
            return Ok(Kept { entry, end: to, blobs: Vec::new(), damaged: None });
        }
        let same = |kept: &&Kept| kept.entry.generation == entry.generation && kept.end.len > 0;
        let before = self.kept.get(&run).cloned();
        let old = before.as_ref().filter(same).cloned();
        let (from, mut blobs) = match old {
            Some(old) if old.end.len > entry.len => {
                let what = "the log has less of it than its backup".to_owned();
                return Ok(Kept { damaged: Some(what), ..old });
            }
            Some(old) => (old.end, old.blobs),
            None => (NOTHING, Vec::new()),
        };
        let mut kept = Kept { entry, end: from, blobs: Vec::new(), damaged: None };
        if from != to {
            let new = self.lines(view, run, &mut kept, pace)?;
            let known: BTreeSet<BlobHash> = blobs.iter().copied().collect();
            blobs.extend(new.difference(&known));
        }
        for hash in &blobs {
            if !self.stored.contains(hash)
                && let Err(error) = self.blob(view, *hash, pace)?
            {
                kept.damaged.get_or_insert_with(|| error.to_string());
            }
        }
        kept.blobs = blobs;
        Ok(match before {
            // A generation that can't be copied does not replace one that was.
            Some(before) if kept.damaged.is_some() && is_whole_and_earlier(&before, &entry) => {
                Kept { damaged: kept.damaged, ..before }
            }
            _ => kept,
        })
    }

    /// Appends the lines that the copy of a run lacks, and returns the blobs that they reference.
    fn lines(
        &mut self,
        view: &View,
        run: Uuid,
        kept: &mut Kept,
        pace: &mut Pace<'_>,
    ) -> Result<BTreeSet<BlobHash>, LogError> {
        let path = Places::new(view.root()).run_file(run);
        let file = match view.disk().open(&path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                kept.damaged = Some("its file is not there".into());
                return Ok(BTreeSet::new());
            }
            other => other.doing("open", &path)?,
        };
        let (generation, from, to) = (kept.entry.generation, kept.end, End::of(&kept.entry));
        let lines = Lines { run, generation, from, to, file: &*file, path: &path };
        let copy = self.shelf.run_file(run, generation);
        let mut target = None;
        let passed = lines.pass(pace, |bytes, at| {
            let target = match &mut target {
                Some(target) => target,
                none => none.insert(self.sink.open(&copy, at)?),
            };
            self.sink.write(target, &copy, bytes, at)
        })?;
        if let Some(target) = target {
            self.sink.wrote(target)?;
            self.report.copied_runs += 1;
            self.report.copied_bytes += passed.end.len - from.len;
        }
        kept.end = passed.end;
        if let Some(broken) = passed.broken {
            let path = std::path::PathBuf::from(format!("{run}.wal"));
            kept.damaged = Some(LogError::run(run, &path, broken).to_string());
        }
        Ok(passed.blobs)
    }

    /// Copies a blob. The inner error means that the blob is missing or damaged in the log.
    fn blob(
        &mut self,
        view: &View,
        hash: BlobHash,
        pace: &mut Pace<'_>,
    ) -> Result<Result<(), LogError>, LogError> {
        let bytes = match view.blob(hash) {
            Ok(bytes) => bytes,
            Err(error @ (LogError::MissingBlob(_) | LogError::DamagedBlob(_))) => {
                return Ok(Err(error));
            }
            Err(error) => return Err(error),
        };
        let path = self.shelf.blob_file(hash);
        let file = self.sink.open(&path, 0)?;
        self.sink.write(&file, &path, &bytes, 0)?;
        self.sink.wrote(file)?;
        pace.expect(bytes.len() as u64);
        pace.did(bytes.len() as u64).doing("copy", &path)?;
        self.stored.insert(hash);
        self.report.copied_blobs += 1;
        self.report.copied_bytes += bytes.len() as u64;
        Ok(Ok(()))
    }

    fn finish(mut self, view: &View, taken: String) -> Result<Taken, LogError> {
        self.kept.retain(|run, _| view.run(*run).is_some());
        self.sink.finish(&[&self.shelf.runs, &self.shelf.blobs])?;
        let manifest = Manifest { salt: view.salt(), taken, runs: std::mem::take(&mut self.kept) };
        manifest.store(&*self.disk, &self.shelf.root)?;
        self.prune(&manifest)?;
        let report = &mut self.report;
        report.blobs = manifest.blobs().len() as u64;
        for (run, kept) in &manifest.runs {
            if kept.entry.state != RunState::Removed {
                report.runs += 1;
                report.records += kept.end.seq;
                report.bytes += kept.end.len;
            }
            if let Some(what) = kept.damaged.clone() {
                report.damaged.push(DamagedRun { run: *run, what });
            }
        }
        Ok(self.report)
    }

    /// Removes files that the manifest doesn't list.
    fn prune(&mut self, manifest: &Manifest) -> Result<(), LogError> {
        let there = manifest.runs.iter().filter(|(_, kept)| kept.end.len > 0);
        let runs = there.map(|(run, kept)| run_name(*run, kept.entry.generation)).collect();
        let blobs = manifest.blobs().iter().map(BlobHash::to_string).collect();
        let named: [(&Path, BTreeSet<String>); 2] =
            [(&self.shelf.runs, runs), (&self.shelf.blobs, blobs)];
        for (dir, named) in named {
            for (name, _) in self.disk.list(dir).doing("list", dir)? {
                if !named.contains(&name) {
                    let path = dir.join(name);
                    self.disk.remove(&path).doing("remove", &path)?;
                    self.report.removed_files += 1;
                }
            }
        }
        Ok(())
    }
}

/// Returns whether the backup has a complete earlier generation of a run.
fn is_whole_and_earlier(kept: &Kept, entry: &RunEntry) -> bool {
    kept.end.len > 0 && kept.end == End::of(&kept.entry) && kept.entry.generation < entry.generation
}

/// Returns the parts of an earlier backup that still exist: the runs and the blobs.
fn still_there(
    disk: &dyn Disk,
    shelf: &FinishedRuns,
    old: Manifest,
) -> Result<(BTreeMap<Uuid, Kept>, BTreeSet<BlobHash>), LogError> {
    let list = |dir: &Path| disk.list(dir).doing("list", dir);
    let runs: BTreeMap<String, u64> = list(&shelf.runs)?.into_iter().collect();
    let blobs: BTreeSet<String> = list(&shelf.blobs)?.into_iter().map(|(name, _)| name).collect();
    let stored = old.blobs().into_iter().filter(|hash| blobs.contains(&hash.to_string())).collect();
    let mut kept = old.runs;
    kept.retain(|run, kept| {
        let size = runs.get(&run_name(*run, kept.entry.generation));
        size.is_some_and(|size| *size >= kept.end.len)
    });
    Ok((kept, stored))
}

/// Fails if a directory without a manifest contains anything but an unfinished backup.
fn is_free(disk: &dyn Disk, shelf: &FinishedRuns) -> Result<(), BackupError> {
    let is_ours = |name: &str| matches!(name, "lock" | "manifest.new");
    let files = disk.list(&shelf.root).unwrap_or_default();
    let other = files.into_iter().map(|(name, _)| name).find(|name| !is_ours(name));
    let log = ["commit", "wal"].into_iter().find(|name| disk.list(&shelf.root.join(name)).is_ok());
    match other.or(log.map(str::to_owned)) {
        Some(found) => Err(BackupError::NotEmpty { dir: shelf.root.clone(), found }),
        None => Ok(()),
    }
}
