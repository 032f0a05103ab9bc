//! The first half of the log: writes a batch as a block of the commit log, with one sync. It knows
//! the end of every run, but accesses none of the run files.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tiffany_kernel::Uuid;

use super::batch::{Batch, LinesPart};
use super::block::{self, Head};
use super::disk::{DirLock, Disk};
use super::error::{Doing, LogError};
use super::index::{RunEntry, RunState};
use super::segments::{Segment, Segments};
use super::settings::{Settings, SyncWhen};
use crate::observe::{Commit, CommitObserver};

/// A batch that is in the commit log and not yet in the files of its runs.
pub(crate) struct Committed {
    pub(crate) batch: Batch,
    /// The offset of each part in the file of its run.
    pub(crate) offsets: Vec<u64>,
    /// The number of its block.
    pub(crate) block: u64,
}

pub(crate) struct Committer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) segments: Segments,
    /// The lock of the directory, and the path of its file.
    pub(crate) dir_lock: Arc<dyn DirLock>,
    pub(crate) lock: PathBuf,
    pub(crate) runs: HashMap<Uuid, RunEntry>,
    pub(crate) refused: HashMap<Uuid, LogError>,
    pub(crate) salt: u32,
    /// The number of the last block written, and of the last one synced.
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// The bytes of the last block; the buffer is reused.
    pub(crate) block: Vec<u8>,
    pub(crate) observer: Option<Arc<dyn CommitObserver>>,
}

impl Committer {
    /// Returns whether there is room for this batch without a new segment.
    pub(crate) fn has_room(&self, batch: &Batch) -> bool {
        self.segments.fits(block::size(batch)) || self.segments.free() > 0
    }

    /// Returns the name and size of a segment that should be made soon. Each is returned only once.
    pub(crate) fn wanted_segment(&mut self) -> Option<(u32, u64)> {
        let segments = &mut self.segments;
        let few = segments.count() < self.settings.segments.max(2);
        if few && segments.free() + segments.under_way == 0 && segments.is_half_full() {
            return Some(segments.new_name());
        }
        None
    }

    /// Writes the block of a batch, syncs it if the settings say so, and returns its number. There
    /// must be room for it. The offsets of its parts are put into `offsets`.
    pub(crate) fn append(
        &mut self,
        batch: &Batch,
        offsets: &mut Vec<u64>,
    ) -> Result<u64, LogError> {
        let begun = Instant::now();
        let size = block::size(batch);
        if !self.segments.fits(size) {
            // All blocks in a segment must be durable before the next one is used, so that later
            // syncs concern one segment only.
            self.sync()?;
            assert!(self.segments.turn(), "there is a segment to turn to");
        }
        self.place(batch, offsets)?;
        let number = self.written + 1;
        let head = Head { generation: self.segments.generation, number, durable: self.synced };
        block::encode(&mut self.block, self.salt, head, batch, offsets);
        debug_assert_eq!(self.block.len() as u64, size);
        self.segments.write(&self.block, number)?;
        self.block.shrink_to(256 << 10);
        self.written = number;
        let never = self.settings.sync == SyncWhen::Never;
        if self.settings.sync == SyncWhen::Commit || (never && batch.replaces()) {
            self.sync()?;
        }
        // Data in a directory that was moved or replaced is not safe.
        self.dir_lock.check().doing("find", &self.lock)?;
        if let Some(observer) = &self.observer {
            let records = |part: &LinesPart| part.last_seq + 1 - part.first_seq;
            let records = batch.parts.iter().map(records).sum();
            observer.committed(Commit { time: begun.elapsed(), bytes: size, records });
        }
        Ok(number)
    }

    /// Returns the first block of the current segment if it is durable; 0 otherwise.
    pub(crate) fn durable_first_block(&self) -> u64 {
        Some(self.segments.first_block()).filter(|first| *first <= self.synced).unwrap_or(0)
    }

    /// Makes all blocks durable.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        if self.synced < self.written {
            self.segments.sync()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Makes a segment at once, on this thread.
    pub(crate) fn add_segment(&mut self) -> Result<(), LogError> {
        let (name, size) = self.segments.new_name();
        let segment = Segment::make(&*self.disk, &self.dir, name, size)?;
        self.segments.add(segment);
        Ok(())
    }

    /// Finds the offsets of a batch's lines in their files, and advances the ends of their runs.
    fn place(&mut self, batch: &Batch, offsets: &mut Vec<u64>) -> Result<(), LogError> {
        offsets.clear();
        for part in &batch.parts {
            if let Some(error) = self.refused.get(&part.run) {
                return Err(error.clone());
            }
            let entry = self.runs.entry(part.run).or_insert_with(|| RunEntry::unborn(part.run));
            entry.follow(part)?;
            offsets.push(entry.len - part.len as u64);
        }
        for run in &batch.removed {
            // A damaged run may be known by its UUID only.
            if self.refused.remove(run).is_some() {
                self.runs.entry(*run).or_insert_with(|| RunEntry::unborn(*run));
            }
            let entry = self.runs.get_mut(run).ok_or(LogError::UnknownRun(*run))?;
            entry.remove();
        }
        Ok(())
    }
}

impl RunEntry {
    /// A run of which nothing is written yet.
    pub fn unborn(run: Uuid) -> RunEntry {
        let crc = super::line::seed(run, 1);
        RunEntry { state: RunState::Live, generation: 1, len: 0, seq: 0, crc }
    }

    /// Marks the run as removed. Only the UUID and the last generation are kept.
    pub(crate) fn remove(&mut self) {
        self.state = RunState::Removed;
        self.len = 0;
    }

    /// Advances the end of the run by some lines. Fails if they do not follow it.
    fn follow(&mut self, part: &LinesPart) -> Result<(), LogError> {
        let (run, generation) = (part.run, part.generation);
        let starts_generation = generation == self.generation + 1 && part.first_seq == 1;
        let is_accepted = match self.state {
            RunState::Live => true,
            // A finished run can only be replaced by a complete generation that is finished as
            // well.
            RunState::Finished => starts_generation && part.finishes,
            RunState::Removed => false,
        };
        if starts_generation && is_accepted {
            let crc = super::line::seed(run, generation);
            *self = RunEntry { generation, len: 0, seq: 0, crc, ..*self };
        }
        let follows = generation == self.generation
            && part.first_seq == self.seq + 1
            && part.crc_before == self.crc
            && is_accepted;
        if !follows {
            return Err(LogError::OutOfOrder { run, generation: self.generation, seq: self.seq });
        }
        self.take(part, self.len);
        Ok(())
    }

    /// Sets the end of the run to the end of these lines, which begin at `offset` in its file.
    pub(crate) fn take(&mut self, part: &LinesPart, offset: u64) {
        self.generation = part.generation;
        self.len = offset + part.len as u64;
        self.seq = part.last_seq;
        self.crc = part.crc_after;
        if part.finishes {
            self.state = RunState::Finished;
        }
    }
}
