//! The log as a state machine without threads: a batch goes to the commit log with one sync, then to the
//! files of its runs without any. The background is handed out as work; whoever likes does it. After the first
//! failure everything fails.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::batch::{Batch, LinesPart};
use super::block::{self, Head};
use super::checkpoint::{Checkpoint, Work, WorkDone};
use super::disk::{Disk, DiskFile, Hold, OpenMode, empty, read_from};
use super::error::{Doing, LogError};
use super::handles::Handles;
use super::index::{IndexFile, RunEntry, RunState};
use super::segments::{Segment, Segments};
use super::settings::{Settings, SyncWhen};

/// The directories of a log.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) root: PathBuf,
    pub(crate) commit: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) blobs: PathBuf,
}

impl Places {
    pub(crate) fn new(root: &Path) -> Places {
        let wal = root.join("wal");
        Places {
            root: root.to_path_buf(),
            commit: root.join("commit"),
            blobs: wal.join("blobs"),
            wal,
        }
    }

    pub(crate) fn run_file(&self, run: Uuid) -> PathBuf {
        self.wal.join(format!("{run}.wal"))
    }
}

/// A batch that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// The number of its block in the commit log; 0 if there was nothing to commit.
    pub block: u64,
}

/// Whose bytes the next checkpoint has to sync.
#[derive(Default)]
pub(crate) struct Touched {
    pub(crate) runs: Vec<Uuid>,
    pub(crate) run_names: bool,
    /// Open blobs; more than a few are closed again and counted only.
    pub(crate) blobs: Vec<Arc<dyn DiskFile>>,
    pub(crate) closed_blobs: usize,
}

/// A run as the writer knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) entry: RunEntry,
    /// Is it among the touched ones?
    pub(crate) touched: bool,
}

/// Writes a log. There is one for a directory at a time.
///
/// ```
/// # use std::sync::Arc;
/// # use tiffany::wal::sim::SimDisk;
/// # use tiffany::wal::{Batch, Chain, RecordType, Settings, Stamp, Writer};
/// # use tiffany::{Tid, Uuid};
/// let disk = Arc::new(SimDisk::new());
/// let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
/// let (mut writer, _) = Writer::open(disk, "/log".as_ref(), settings)?;
/// let mut batch = Batch::new();
/// let mut chain = Chain::new(Uuid::from_random(7));
/// let now = Stamp::from_unix_nanos(0);
/// batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("name", "greet").end();
/// writer.commit(&batch, |durable| println!("durable in block {}", durable.block))?;
/// writer.close()?;
/// # Ok::<(), tiffany::wal::LogError>(())
/// ```
pub struct Writer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) places: Places,
    pub(crate) settings: Settings,
    pub(crate) hold: Arc<dyn Hold>,
    pub(crate) runs: HashMap<Uuid, Known>,
    pub(crate) refused: HashMap<Uuid, LogError>,
    pub(crate) segments: Segments,
    pub(crate) index: IndexFile,
    pub(crate) index_entries: usize,
    pub(crate) salt: u32,
    pub(crate) life: u64,
    /// The last block written, the last one synced, the last one in the run files.
    pub(crate) written: u64,
    pub(crate) synced: u64,
    pub(crate) applied: u64,
    pub(crate) handles: Handles,
    pub(crate) touched: Touched,
    /// Batches that wait for the next sync before they go to the run files, with their places there.
    pub(crate) deferred: Vec<(Batch, Vec<u64>)>,
    pub(crate) work_under_way: bool,
    pub(crate) poison: Option<Arc<LogError>>,
    pub(crate) block: Vec<u8>,
    pub(crate) offsets: Vec<u64>,
}

impl Writer {
    /// Makes a batch durable, says so, and then copies its lines to the files of their runs.
    ///
    /// An error before `durable` was called leaves it open whether the batch is in the log. Any error stops the
    /// log: all later calls fail with [`LogError::Poisoned`].
    pub fn commit(&mut self, batch: &Batch, durable: impl FnOnce(Durable)) -> Result<(), LogError> {
        self.check_poison()?;
        if batch.is_empty() {
            durable(Durable { block: 0 });
            return Ok(());
        }
        let done = self.append(batch);
        self.guard(done)?;
        durable(Durable { block: self.written });
        let done = self.copy_to_runs(batch);
        self.guard(done)
    }

    /// Makes all commits durable, where the settings let them wait.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check_poison()?;
        let done = self.sync_deferred();
        self.guard(done)
    }

    /// Work for the background, if there is some and none is under way: to sync what a full segment covers, or
    /// to prepare the next segment.
    pub fn work(&mut self) -> Result<Option<Work>, LogError> {
        self.check_poison()?;
        if self.work_under_way {
            return Ok(None);
        }
        let made = self.make_work();
        self.guard(made)
    }

    /// Takes in work that was done. A failure in it stops the log.
    pub fn work_done(&mut self, done: WorkDone) -> Result<(), LogError> {
        self.work_under_way = false;
        self.check_poison()?;
        self.guard(done.outcome).map(|outcome| {
            if let Some(checkpoint) = outcome.checkpoint {
                self.index = checkpoint.index;
                self.index_entries = checkpoint.index_entries;
                self.segments.release(checkpoint.upto);
            }
            if let Some(segment) = outcome.segment {
                self.segments.add(segment);
            }
        })
    }

    /// True if there are commits that a loss of power would undo.
    pub fn needs_sync(&self) -> bool {
        self.synced < self.written
    }

    /// True if this batch should wait until the work under way comes back, because it needs a segment that is
    /// not ready. Committed all the same, it gets one segment more than the settings say.
    pub fn should_wait(&self, batch: &Batch) -> bool {
        self.work_under_way && !self.segments.fits(block::size(batch)) && self.segments.free() == 0
    }

    /// Syncs everything and writes the index, so that the next opening has nothing to do. While work is under
    /// way it leaves the index to that.
    pub fn close(mut self) -> Result<(), LogError> {
        self.check_poison()?;
        if self.work_under_way { self.sync_deferred() } else { self.checkpoint_here() }
    }

    /// True while work was handed out and has not come back.
    pub fn is_work_under_way(&self) -> bool {
        self.work_under_way
    }

    /// All runs that are known, in no order.
    pub fn runs(&self) -> impl Iterator<Item = (Uuid, RunEntry)> + '_ {
        self.runs.iter().map(|(run, known)| (*run, known.entry))
    }

    /// Where a run stands.
    pub fn run(&self, run: Uuid) -> Option<RunEntry> {
        self.runs.get(&run).map(|known| known.entry)
    }

    /// How many files of runs are open.
    pub fn open_files(&self) -> usize {
        self.handles.len()
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn check_poison(&self) -> Result<(), LogError> {
        match &self.poison {
            Some(first) => Err(LogError::Poisoned(Arc::clone(first))),
            None => Ok(()),
        }
    }

    /// Remembers the first failure.
    fn guard<T>(&mut self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error) = &outcome
            && self.poison.is_none()
        {
            self.poison = Some(Arc::new(error.clone()));
        }
        outcome
    }

    /// Writes the block of a batch, and syncs it if that is to be done at once.
    fn append(&mut self, batch: &Batch) -> Result<(), LogError> {
        let size = block::size(batch);
        if !self.segments.fits(size) {
            self.next_segment()?;
        }
        // After the turn: a checkpoint made there must not know of lines that are in no block yet.
        self.place(batch)?;
        let number = self.written + 1;
        let head = Head { generation: self.segments.generation, number, durable: self.synced };
        block::encode(&mut self.block, self.salt, head, batch, &self.offsets);
        debug_assert_eq!(self.block.len() as u64, size);
        self.segments.write(&self.block, number)?;
        self.block.shrink_to(1 << 20);
        self.written = number;
        if self.settings.sync == SyncWhen::Commit {
            self.segments.sync()?;
            self.synced = number;
        }
        Ok(())
    }

    /// Finds the places of a batch's lines in their files, and moves the ends of their runs.
    fn place(&mut self, batch: &Batch) -> Result<(), LogError> {
        self.offsets.clear();
        for part in &batch.parts {
            if let Some(error) = self.refused.get(&part.run) {
                return Err(error.clone());
            }
            let known = self.runs.entry(part.run).or_insert_with(|| Known::unborn(part.run));
            known.entry.follow(part)?;
            self.offsets.push(known.entry.len - part.len as u64);
            if !std::mem::replace(&mut known.touched, true) {
                self.touched.runs.push(part.run);
            }
        }
        for run in &batch.removed {
            let known = self.runs.get_mut(run).ok_or(LogError::UnknownRun(*run))?;
            known.entry.state = RunState::Removed;
            known.entry.len = 0;
            if !std::mem::replace(&mut known.touched, true) {
                self.touched.runs.push(*run);
            }
            self.refused.remove(run);
        }
        Ok(())
    }

    /// Leaves a full segment for one that may be used, which is made if the background has none ready.
    fn next_segment(&mut self) -> Result<(), LogError> {
        // A segment is left only when all in it is durable, so that no later sync has to reach back.
        self.sync_deferred()?;
        if self.segments.turn() {
            return Ok(());
        }
        if !self.work_under_way && self.segments.count() >= self.settings.segments.max(2) {
            self.checkpoint_here()?;
        }
        if !self.segments.turn() {
            let name = self.segments.new_name();
            let size = self.segments.size();
            let segment = Segment::make(&*self.disk, &self.places.commit, name, size)?;
            self.segments.add(segment);
            self.segments.turn();
        }
        Ok(())
    }

    fn copy_to_runs(&mut self, batch: &Batch) -> Result<(), LogError> {
        let offsets = std::mem::take(&mut self.offsets);
        if let SyncWhen::Interval(_) = self.settings.sync {
            // What is in a run's file must be durable in the commit log before.
            self.deferred.push((batch.clone(), offsets));
            return Ok(());
        }
        let done = self.apply(batch, &offsets);
        self.offsets = offsets;
        self.applied = self.written;
        done
    }

    pub(crate) fn sync_deferred(&mut self) -> Result<(), LogError> {
        if self.synced < self.written {
            self.segments.sync()?;
            self.synced = self.written;
        }
        for (batch, offsets) in std::mem::take(&mut self.deferred) {
            self.apply(&batch, &offsets)?;
        }
        self.applied = self.written;
        Ok(())
    }

    fn apply(&mut self, batch: &Batch, offsets: &[u64]) -> Result<(), LogError> {
        let mut blobs = batch.blob_bytes.as_slice();
        for (hash, len) in &batch.blobs {
            let (content, rest) = blobs.split_at(*len);
            blobs = rest;
            self.store_blob(&hash.to_string(), content)?;
        }
        let mut lines = batch.lines.as_slice();
        for (part, offset) in batch.parts.iter().zip(offsets) {
            let (content, rest) = lines.split_at(part.len);
            lines = rest;
            self.write_lines(part, *offset, content)?;
        }
        for run in &batch.removed {
            self.handles.forget(*run);
            let path = self.places.run_file(*run);
            match self.disk.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(LogError::io("remove", &path, &error));
                }
                _ => self.touched.run_names = true,
            }
        }
        Ok(())
    }

    fn write_lines(&mut self, part: &LinesPart, offset: u64, lines: &[u8]) -> Result<(), LogError> {
        let path = self.places.run_file(part.run);
        let file = if offset == 0 {
            self.touched.run_names = true;
            let file = begin_run_file(&*self.disk, &path, part.generation, lines)?;
            self.handles.put(part.run, Arc::clone(&file));
            return Ok(());
        } else {
            let open = || self.disk.open(&path, OpenMode::Write).doing("open", &path);
            self.handles.get(part.run, open)?
        };
        file.write_at(lines, offset).doing("write", &path)
    }

    pub(crate) fn store_blob(&mut self, name: &str, content: &[u8]) -> Result<(), LogError> {
        let path = self.places.blobs.join(name);
        let file = self.disk.open(&path, OpenMode::Create).doing("make", &path)?;
        // The same content has the same name: what is there and whole need not be written again.
        let same_size = file.size().doing("look at", &path)? == content.len() as u64;
        if !same_size || read_from(&*file, 0).doing("read", &path)? != content {
            empty(&*file).doing("empty", &path)?;
            file.write_at(content, 0).doing("write", &path)?;
        }
        self.touched.add_blob(file, self.settings.single_syncs);
        Ok(())
    }

    fn make_work(&mut self) -> Result<Option<Work>, LogError> {
        let checkpoint = if self.segments.full() > 0 {
            self.sync_deferred()?;
            Some(self.make_checkpoint()?)
        } else {
            None
        };
        let want_segment = self.segments.free() == 0
            && self.segments.is_half_full()
            && self.segments.count() < self.settings.segments.max(2);
        if checkpoint.is_none() && !want_segment {
            return Ok(None);
        }
        self.work_under_way = true;
        let segment = want_segment.then(|| (self.segments.new_name(), self.segments.size()));
        Ok(Some(Work {
            disk: Arc::clone(&self.disk),
            dir: self.places.commit.clone(),
            checkpoint,
            segment,
        }))
    }

    pub(crate) fn checkpoint_here(&mut self) -> Result<(), LogError> {
        self.sync_deferred()?;
        let done = self.make_checkpoint()?.run(&*self.disk)?;
        self.index = done.index;
        self.index_entries = done.index_entries;
        self.segments.release(done.upto);
        Ok(())
    }

    /// Collects what the run files, the blobs and the index still lack.
    fn make_checkpoint(&mut self) -> Result<Checkpoint, LogError> {
        let touched = std::mem::take(&mut self.touched);
        let blobs = touched.blobs.len() + touched.closed_blobs;
        let everything = touched.runs.len() + blobs > self.settings.single_syncs;
        let mut entries = Vec::with_capacity(touched.runs.len());
        let mut run_files = Vec::new();
        for run in touched.runs {
            let known = self.runs.get_mut(&run).expect("a touched run is known");
            known.touched = false;
            let entry = known.entry;
            entries.push((run, entry));
            if !everything && entry.state != RunState::Removed && !self.refused.contains_key(&run) {
                let path = self.places.run_file(run);
                let open = || self.disk.open(&path, OpenMode::Write).doing("open", &path);
                run_files.push((path.clone(), self.handles.get(run, open)?));
            }
        }
        let limit = 2 * self.runs.len() + self.settings.index_slack;
        let whole = self.index_entries + entries.len() > limit;
        if whole {
            entries = self.runs().collect();
        }
        entries.sort_unstable_by_key(|(run, _)| *run);
        Ok(Checkpoint {
            places: self.places.clone(),
            hold: everything.then(|| Arc::clone(&self.hold)),
            run_files,
            run_names: touched.run_names,
            blobs: touched.blobs,
            any_blobs: blobs > 0,
            index: self.index.clone(),
            index_entries: self.index_entries,
            whole,
            entries,
            upto: self.applied,
            life: self.life,
            salt: self.salt,
            segments: self.segments.count() as u32,
        })
    }
}

/// Puts the first lines of a generation into the file of their run. A later generation takes the place of the
/// file that is there at once, so that nobody reads half of it.
pub(crate) fn begin_run_file(
    disk: &dyn Disk,
    path: &Path,
    generation: u32,
    lines: &[u8],
) -> Result<Arc<dyn DiskFile>, LogError> {
    if generation == 1 {
        let file = disk.open(path, OpenMode::Create).doing("make", path)?;
        empty(&*file).doing("empty", path)?;
        file.write_at(lines, 0).doing("write", path)?;
        return Ok(file);
    }
    let new = path.with_extension("wal.new");
    let file = disk.open(&new, OpenMode::Create).doing("make", &new)?;
    empty(&*file).doing("empty", &new)?;
    file.write_at(lines, 0).doing("write", &new)?;
    disk.rename(&new, path).doing("rename", &new)?;
    Ok(file)
}

impl Touched {
    pub(crate) fn add_blob(&mut self, file: Arc<dyn DiskFile>, keep: usize) {
        // Too many to be synced one by one: then they need not stay open.
        if self.blobs.len() < keep {
            self.blobs.push(file);
        } else {
            self.closed_blobs += 1;
        }
    }
}

impl Known {
    pub(crate) fn unborn(run: Uuid) -> Known {
        let crc = super::line::seed(run, 1);
        let entry = RunEntry { state: RunState::Live, generation: 1, len: 0, seq: 0, crc };
        Known { entry, touched: false }
    }
}

impl RunEntry {
    /// Goes on by some lines, if they follow.
    fn follow(&mut self, part: &LinesPart) -> Result<(), LogError> {
        let (run, generation) = (part.run, part.generation);
        if generation == self.generation + 1 && part.first_seq == 1 {
            let crc = super::line::seed(run, generation);
            *self = RunEntry { generation, len: 0, seq: 0, crc, ..*self };
        }
        let follows = generation == self.generation
            && part.first_seq == self.seq + 1
            && part.crc_before == self.crc
            && self.state == RunState::Live;
        if !follows {
            return Err(LogError::OutOfOrder { run, generation: self.generation, seq: self.seq });
        }
        self.len += part.len as u64;
        self.seq = part.last_seq;
        self.crc = part.crc_after;
        if part.finishes {
            self.state = RunState::Finished;
        }
        Ok(())
    }
}
