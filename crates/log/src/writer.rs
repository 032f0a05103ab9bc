//! The log as a state machine without threads: a batch is written to the commit log with one sync,
//! and then to the files of its runs without any. After the first failure, all calls fail.
//! `thread.rs` runs the same two halves concurrently.

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

/// How long closing a log may spend on looking for blobs.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A batch that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// The number of its block in the commit log; 0 if there was nothing to commit.
    pub block: u64,
}

/// Writes a log. Each directory has at most one writer at a time.
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

    /// Makes a batch durable, calls `durable`, and then copies the lines to the files of their
    /// runs. The batch is empty afterwards.
    ///
    /// If an error occurs before `durable` was called, the batch may or may not be in the log. Any
    /// error stops the log: all later calls fail with [`LogError::Poisoned`].
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
            // Lines must be durable in the commit log before they are written to a run file.
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

    /// Makes all commits durable that the settings allow to wait.
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

    /// Does the work that a log thread leaves to the background: prepares the next segment, and
    /// makes full ones reusable.
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

    /// Syncs everything and writes the index, so that the next opening has nothing to do. Also
    /// erases what removed and compacted runs left behind, as
    /// [`collect_blobs`](Writer::collect_blobs) does.
    pub fn close(mut self) -> Result<(), LogError> {
        self.check_poison()?;
        // Everything is in the run files now, so nothing is lost if the segments are.
        self.applier.expected = 0;
        self.checkpoint()?;
        match self.applier.unerased.is_empty() {
            true => Ok(()),
            false => self.collect_blobs().map(drop),
        }
    }

    /// Erases what removed and compacted runs left behind, after the last checkpoint. If the search
    /// for blobs takes too long, it is left to the next opening.
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

    /// Removes blobs that no run references, and overwrites parts of the commit log that may
    /// contain lines of removed or compacted runs. Blobs that a live, forked or damaged run
    /// references are kept.
    ///
    /// An error during the search for blobs ends only the search: the contents of the log can still
    /// be read, and the log continues to work.
    pub fn collect_blobs(&mut self) -> Result<Collected, LogError> {
        self.check_poison()?;
        // Lines that are not in the files yet reference blobs too.
        self.sync()?;
        let unerased = self.applier.unerased.clone();
        let mut collected = loop {
            if let Some(done) = self.applier.collect_some() {
                break done?;
            }
        };
        // While a run is damaged, blobs that the removed runs referenced are kept, so they stay
        // listed.
        let erased = if collected.damaged == 0 { unerased } else { BTreeSet::new() };
        let done = self.erase_segments(&erased);
        collected.segments = self.guard(done)?;
        Ok(collected)
    }

    /// Overwrites all segments, and records that nothing is left of these runs.
    fn erase_segments(&mut self, erased: &BTreeSet<Uuid>) -> Result<u64, LogError> {
        self.applier.expected = 0;
        self.checkpoint()?;
        let count = self.committer.segments.erase_all()?;
        self.applier.note_erased(erased);
        self.checkpoint()?;
        Ok(count)
    }

    /// Returns the runs that were removed or compacted and whose lines or blobs may not have been
    /// erased yet.
    pub fn unerased(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.applier.unerased.iter().copied()
    }

    /// Returns all known runs, in any order.
    pub fn runs(&self) -> impl Iterator<Item = (Uuid, RunEntry)> + '_ {
        self.committer.runs.iter().map(|(run, entry)| (*run, *entry))
    }

    /// Returns the end of a run, if it is known.
    pub fn run(&self, run: Uuid) -> Option<RunEntry> {
        self.committer.runs.get(&run).copied()
    }

    /// Returns the lock of the directory, which is held for as long as a clone of it exists.
    pub fn lock(&self) -> Arc<dyn DirLock> {
        Arc::clone(&self.committer.dir_lock)
    }

    /// Reports every commit to `observer`.
    pub fn observe(&mut self, observer: Arc<dyn CommitObserver>) {
        self.committer.observer = Some(observer);
    }

    /// Notifies `followers` when run files grow.
    pub fn tell_followers(&mut self, followers: Arc<Followers>) {
        self.applier.followers = followers;
    }

    /// Returns the disk as the log uses it; see `retry_disk.rs`.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.applier.disk)
    }

    /// Returns the number of open run files.
    pub fn open_files(&self) -> usize {
        self.applier.handles.len()
    }

    /// Returns the settings that the log was opened with.
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
