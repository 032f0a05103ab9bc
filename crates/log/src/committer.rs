//! The first half of the log: a batch becomes a block of the commit log, with one sync. It knows where every run
//! stands, but touches none of their files.

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

/// A batch that is in the commit log, on its way to the files of its runs.
pub(crate) struct Committed {
    pub(crate) batch: Batch,
    /// Where each of its parts belongs in the file of its run.
    pub(crate) offsets: Vec<u64>,
    /// The number of its block.
    pub(crate) block: u64,
}

pub(crate) struct Committer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) segments: Segments,
    /// The directory, and the file by which it is held.
    pub(crate) dir_lock: Arc<dyn DirLock>,
    pub(crate) lock: PathBuf,
    pub(crate) runs: HashMap<Uuid, RunEntry>,
    pub(crate) refused: HashMap<Uuid, LogError>,
    pub(crate) salt: u32,
    /// The last block written, and the last one synced.
    pub(crate) written: u64,
    pub(crate) synced: u64,
    /// The bytes of the last block, to be used again.
    pub(crate) block: Vec<u8>,
    pub(crate) observer: Option<Arc<dyn CommitObserver>>,
}

impl Committer {
    /// Is there room for this batch without a new segment?
    pub(crate) fn has_room(&self, batch: &Batch) -> bool {
        self.segments.fits(block::size(batch)) || self.segments.free() > 0
    }

    /// A segment that should be made soon, by its name and size. It is asked for once.
    pub(crate) fn wanted_segment(&mut self) -> Option<(u32, u64)> {
        let segments = &mut self.segments;
        let few = segments.count() < self.settings.segments.max(2);
        if few && segments.free() + segments.under_way == 0 && segments.is_half_full() {
            return Some(segments.new_name());
        }
        None
    }

    /// Writes the block of a batch, and syncs it if that is to be done at once. There must be room. The places of
    /// its parts go into `offsets`.
    pub(crate) fn append(
        &mut self,
        batch: &Batch,
        offsets: &mut Vec<u64>,
    ) -> Result<u64, LogError> {
        let begun = Instant::now();
        let size = block::size(batch);
        if !self.segments.fits(size) {
            // A segment is left only when all in it is durable, so that no later sync has to reach back.
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
        // What is in a directory that nobody will find again is not safe.
        self.dir_lock.check().doing("find", &self.lock)?;
        if let Some(observer) = &self.observer {
            let records = |part: &LinesPart| part.last_seq + 1 - part.first_seq;
            let records = batch.parts.iter().map(records).sum();
            observer.committed(Commit { time: begun.elapsed(), bytes: size, records });
        }
        Ok(number)
    }

    /// The first block of the current segment, if it is durable; 0 if there is none.
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

    /// Makes a segment here and now.
    pub(crate) fn add_segment(&mut self) -> Result<(), LogError> {
        let (name, size) = self.segments.new_name();
        let segment = Segment::make(&*self.disk, &self.dir, name, size)?;
        self.segments.add(segment);
        Ok(())
    }

    /// Finds the places of a batch's lines in their files, and moves the ends of their runs.
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
            // Of a damaged run nothing may be known but its name.
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

    /// Only the UUID and the last generation stay known.
    pub(crate) fn remove(&mut self) {
        self.state = RunState::Removed;
        self.len = 0;
    }

    /// Goes on by some lines, if they follow.
    fn follow(&mut self, part: &LinesPart) -> Result<(), LogError> {
        let (run, generation) = (part.run, part.generation);
        let begins_anew = generation == self.generation + 1 && part.first_seq == 1;
        let goes_on = match self.state {
            RunState::Live => true,
            // One that is over is written anew as a whole, and stays over.
            RunState::Finished => begins_anew && part.finishes,
            RunState::Removed => false,
        };
        if begins_anew && goes_on {
            let crc = super::line::seed(run, generation);
            *self = RunEntry { generation, len: 0, seq: 0, crc, ..*self };
        }
        let follows = generation == self.generation
            && part.first_seq == self.seq + 1
            && part.crc_before == self.crc
            && goes_on;
        if !follows {
            return Err(LogError::OutOfOrder { run, generation: self.generation, seq: self.seq });
        }
        self.take(part, self.len);
        Ok(())
    }

    /// Where the run stands after these lines, which begin at `offset` of its file.
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
