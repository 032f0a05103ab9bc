//! The log as a state machine without threads: a batch goes to the commit log with one sync, then to the files of
//! its runs without any. After the first failure everything fails. `thread.rs` runs the same two halves side by
//! side.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiffany_kernel::Uuid;

use super::applier::Applier;
use super::batch::Batch;
use super::committer::{Committed, Committer};
use super::disk::{DirLock, Disk};
use super::error::LogError;
use super::growth::Followers;
use super::index::RunEntry;
use super::observe::CommitObserver;
use super::settings::{Settings, SyncWhen};
use crate::blob_gc::Collected;

/// So long blobs are looked for when a log is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A batch that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// The number of its block in the commit log; 0 if there was nothing to commit.
    pub block: u64,
}

/// Writes a log. There is one for a directory at a time.
///
/// ```
/// # use std::sync::Arc;
/// # use tiffany_log::sim::SimDisk;
/// # use tiffany_log::{Batch, Chain, RecordType, Settings, Stamp, Writer};
/// # use tiffany_kernel::{Tid, Uuid};
/// let disk = Arc::new(SimDisk::new());
/// let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
/// let (mut writer, _) = Writer::open(disk, "/log".as_ref(), settings)?;
/// let mut batch = Batch::new();
/// let mut chain = Chain::new(Uuid::from_random(7));
/// let now = Stamp::from_unix_nanos(0);
/// batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("name", "greet").end();
/// writer.commit(&mut batch, |durable| println!("durable in block {}", durable.block))?;
/// assert!(batch.is_empty()); // ready for more
/// writer.close()?;
/// # Ok::<(), tiffany_log::LogError>(())
/// ```
pub struct Writer {
    pub(crate) committer: Committer,
    pub(crate) applier: Applier,
    /// Batches that wait for the next sync before they go to the files of their runs.
    unsynced: Vec<Committed>,
    poison: Option<Arc<LogError>>,
}

impl Writer {
    pub(crate) fn new(committer: Committer, applier: Applier) -> Writer {
        Writer { committer, applier, unsynced: Vec::new(), poison: None }
    }

    /// Makes a batch durable, says so, and then copies its lines to the files of their runs. The batch is empty
    /// afterwards.
    ///
    /// An error before `durable` was called leaves it open whether the batch is in the log. Any error stops the
    /// log: all later calls fail with [`LogError::Poisoned`].
    pub fn commit(
        &mut self,
        batch: &mut Batch,
        durable: impl FnOnce(Durable),
    ) -> Result<(), LogError> {
        self.check_poison()?;
        if batch.is_empty() {
            durable(Durable { block: 0 });
            return Ok(());
        }
        let done = self.try_commit(batch, durable);
        self.guard(done)
    }

    fn try_commit(
        &mut self,
        batch: &mut Batch,
        durable: impl FnOnce(Durable),
    ) -> Result<(), LogError> {
        if !self.committer.has_room(batch) {
            self.make_room(batch)?;
        }
        let mut offsets = Vec::new();
        let block = self.committer.append(batch, &mut offsets)?;
        durable(Durable { block });
        let empty = batch.another();
        let batch = std::mem::replace(batch, empty);
        let committed = Committed { batch, offsets, block };
        if let SyncWhen::Interval(_) = self.committer.settings.sync {
            // What is in the file of a run must be durable in the commit log before.
            self.unsynced.push(committed);
            return Ok(());
        }
        self.applier.apply(std::iter::once(&committed))
    }

    fn make_room(&mut self, batch: &Batch) -> Result<(), LogError> {
        if self.committer.segments.count() >= self.committer.settings.segments.max(2) {
            self.checkpoint()?;
        }
        if !self.committer.has_room(batch) {
            self.committer.add_segment()?;
        }
        Ok(())
    }

    /// Makes all commits durable, where the settings let them wait.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.check_poison()?;
        let done = self.try_sync();
        self.guard(done)
    }

    fn try_sync(&mut self) -> Result<(), LogError> {
        self.committer.sync()?;
        let unsynced = std::mem::take(&mut self.unsynced);
        self.applier.apply(unsynced.iter())
    }

    /// Does what the log thread leaves to the background: prepares the next segment, and makes full ones ready to
    /// be used again.
    pub fn background(&mut self) -> Result<(), LogError> {
        self.check_poison()?;
        let done = self.try_background();
        self.guard(done)
    }

    fn try_background(&mut self) -> Result<(), LogError> {
        if let Some((name, size)) = self.committer.wanted_segment() {
            let Committer { disk, dir, .. } = &self.committer;
            let segment = super::segments::Segment::make(&**disk, dir, name, size)?;
            self.committer.segments.add(segment);
        }
        if let first @ 1.. = self.committer.durable_first_block() {
            self.applier.expect(first)?;
        }
        if self.committer.segments.full() > 0 { self.checkpoint() } else { Ok(()) }
    }

    fn checkpoint(&mut self) -> Result<(), LogError> {
        self.try_sync()?;
        let upto = self.applier.checkpoint(self.committer.segments.count() as u32)?;
        self.committer.segments.release(upto)
    }

    /// Syncs everything and writes the index, so that the next opening has nothing to do. What removed and compacted
    /// runs left behind is erased, as by [`collect_blobs`](Writer::collect_blobs).
    pub fn close(mut self) -> Result<(), LogError> {
        self.check_poison()?;
        // All is in the files now: if the segments are lost, nothing is.
        self.applier.expected = 0;
        self.checkpoint()?;
        match self.applier.unerased.is_empty() {
            true => Ok(()),
            false => self.collect_blobs().map(drop),
        }
    }

    /// Erases the same after the last checkpoint. If the search for blobs takes long, it is left to the next opening.
    pub(crate) fn close_quickly(mut self) -> Result<(), LogError> {
        if self.applier.unerased.is_empty() {
            return Ok(());
        }
        let (begun, unerased) = (Instant::now(), self.applier.unerased.clone());
        let mut is_whole = !self.applier.may_leave_blobs();
        while !is_whole && begun.elapsed() < CLOSE_TIMEOUT {
            match self.applier.collect_some() {
                None => {}
                Some(Ok(collected)) if collected.damaged == 0 => is_whole = true,
                Some(_) => break,
            }
        }
        let erased = if is_whole { unerased } else { BTreeSet::new() };
        self.erase_segments(&erased).map(drop)
    }

    /// Removes blobs that no run names, and overwrites the commit log where removed or compacted runs may have left lines
    /// in it. Blobs that a live, forked or damaged run names stay.
    ///
    /// An error while blobs are looked for ends that and nothing else: what was written can be read as before, and
    /// the log goes on.
    pub fn collect_blobs(&mut self) -> Result<Collected, LogError> {
        self.check_poison()?;
        // What is not in the files yet has its names too.
        self.sync()?;
        let unerased = self.applier.unerased.clone();
        let mut collected = loop {
            if let Some(done) = self.applier.collect_some() {
                break done?;
            }
        };
        // While a run is damaged, what the others named stays.
        let erased = if collected.damaged == 0 { unerased } else { BTreeSet::new() };
        let done = self.erase_segments(&erased);
        collected.segments = self.guard(done)?;
        Ok(collected)
    }

    /// Overwrites all segments, and notes that nothing is left of these runs.
    fn erase_segments(&mut self, erased: &BTreeSet<Uuid>) -> Result<u64, LogError> {
        self.applier.expected = 0;
        self.checkpoint()?;
        let count = self.committer.segments.erase_all()?;
        self.applier.note_erased(erased);
        self.checkpoint()?;
        Ok(count)
    }

    /// Runs that were removed or compacted, and may have left lines or blobs behind.
    pub fn unerased(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.applier.unerased.iter().copied()
    }

    /// All runs that are known, in no order.
    pub fn runs(&self) -> impl Iterator<Item = (Uuid, RunEntry)> + '_ {
        self.committer.runs.iter().map(|(run, entry)| (*run, *entry))
    }

    /// Where a run stands.
    pub fn run(&self, run: Uuid) -> Option<RunEntry> {
        self.committer.runs.get(&run).copied()
    }

    /// The lock of the directory: it is kept for as long as anyone has a copy of this.
    pub fn lock(&self) -> Arc<dyn DirLock> {
        Arc::clone(&self.committer.dir_lock)
    }

    /// Reports every commit to `observer`.
    pub fn observe(&mut self, observer: Arc<dyn CommitObserver>) {
        self.committer.observer = Some(observer);
    }

    /// Tells `followers` that files of runs have grown.
    pub fn tell_followers(&mut self, followers: Arc<Followers>) {
        self.applier.followers = followers;
    }

    /// The disk as the log uses it: see `retry_disk.rs`.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.applier.disk)
    }

    /// How many files of runs are open.
    pub fn open_files(&self) -> usize {
        self.applier.handles.len()
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.committer.settings
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
}
