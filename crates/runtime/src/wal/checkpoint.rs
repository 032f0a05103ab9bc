//! The work of the background: to sync what the run files have, to note it in the index, and to prepare
//! segments. It can be done on any thread, while commits go on.

use std::path::PathBuf;
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::disk::{Barrier, Disk, DiskFile, Hold, OpenMode};
use super::error::{Doing, LogError};
use super::index::{Frame, IndexFile, RunEntry};
use super::segments::Segment;
use super::writer::Places;

/// Work for the background, from `Writer::work`. It goes back by `Writer::work_done`.
#[must_use = "the writer waits for its work to come back"]
pub struct Work {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) segment: Option<(u32, u64)>,
}

/// Work that was done, well or not.
#[must_use = "the writer waits for its work to come back"]
pub struct WorkDone {
    pub(crate) outcome: Result<Outcome, LogError>,
}

pub(crate) struct Outcome {
    pub(crate) checkpoint: Option<CheckpointDone>,
    pub(crate) segment: Option<Segment>,
}

impl Work {
    /// Does it.
    pub fn run(self) -> WorkDone {
        WorkDone { outcome: self.try_run() }
    }

    fn try_run(self) -> Result<Outcome, LogError> {
        // First the segment: commits may need it soon.
        let segment = match self.segment {
            Some((name, size)) => Some(Segment::make(&*self.disk, &self.dir, name, size)?),
            None => None,
        };
        let checkpoint = match self.checkpoint {
            Some(checkpoint) => Some(checkpoint.run(&*self.disk)?),
            None => None,
        };
        Ok(Outcome { checkpoint, segment })
    }
}

/// All that must be durable before blocks up to `upto` can be overwritten.
pub(crate) struct Checkpoint {
    pub(crate) places: Places,
    /// There, if one sync of everything takes the place of many.
    pub(crate) hold: Option<Arc<dyn Hold>>,
    pub(crate) run_files: Vec<(PathBuf, Arc<dyn DiskFile>)>,
    pub(crate) run_names: bool,
    pub(crate) blobs: Vec<Arc<dyn DiskFile>>,
    pub(crate) any_blobs: bool,
    pub(crate) index: IndexFile,
    pub(crate) index_entries: usize,
    /// Are the entries all there are, or those that changed?
    pub(crate) whole: bool,
    pub(crate) entries: Vec<(Uuid, RunEntry)>,
    pub(crate) upto: u64,
    pub(crate) life: u64,
    pub(crate) salt: u32,
    pub(crate) segments: u32,
}

pub(crate) struct CheckpointDone {
    pub(crate) index: IndexFile,
    pub(crate) index_entries: usize,
    pub(crate) upto: u64,
}

impl Checkpoint {
    pub(crate) fn run(mut self, disk: &dyn Disk) -> Result<CheckpointDone, LogError> {
        self.sync_files(disk)?;
        let Checkpoint { upto, life, salt, segments, .. } = self;
        let frame = Frame { upto, life, salt, segments, entries: &self.entries }.encode();
        let (index, index_entries) = if self.whole {
            let index = IndexFile::replace(disk, &self.places.commit, &frame)?;
            (index, self.entries.len())
        } else {
            // An index whose directory is gone would still take the frame.
            disk.open(&self.index.path, OpenMode::Read).doing("open", &self.index.path)?;
            self.index.append(&frame)?;
            (self.index, self.index_entries + self.entries.len())
        };
        Ok(CheckpointDone { index, index_entries, upto })
    }

    fn sync_files(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let Places { root, wal, blobs, .. } = &self.places;
        if let Some(hold) = &self.hold {
            return hold.sync_everything(Barrier::Everything).doing("sync all files of", root);
        }
        for (path, file) in &self.run_files {
            file.sync(Barrier::RunFile).doing("sync", path)?;
        }
        for file in &self.blobs {
            file.sync(Barrier::BlobFile).doing("sync a blob in", blobs)?;
        }
        if self.run_names {
            disk.sync_dir(wal, Barrier::RunNames).doing("sync", wal)?;
        }
        if self.any_blobs {
            disk.sync_dir(blobs, Barrier::BlobNames).doing("sync", blobs)?;
        }
        Ok(())
    }
}
