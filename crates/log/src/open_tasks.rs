//! Finds out whether a run is finished from its lines alone, for files whose end neither the index
//! nor the commit log knows. It counts tasks that began and ended, and ignores everything else.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;

use super::disk::Disk;
use super::index::RunState;
use super::line::RecordType;
use super::read::{LogLine, Payload};
use super::run_reader::read_blob;

const ROOT: u64 = 1;

/// The tasks of a run that have not ended.
pub(super) struct OpenTasks<'a> {
    disk: &'a dyn Disk,
    root: &'a Path,
    open: BTreeSet<u64>,
    /// Whether the last recorded end of the root task is the end of the run. If the root was
    /// cancelled without a request, it is not: a deadlock or a limit makes it fail afterwards.
    root_is_over: bool,
    is_cancelled: bool,
    is_compacted: bool,
    /// Whether the tables of its snapshot can't be read, so that it may have more tasks.
    is_unknown: bool,
}

/// The part of a snapshot's tables that is needed here.
#[derive(Deserialize)]
struct Tables {
    tasks: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    tid: u64,
}

impl<'a> OpenTasks<'a> {
    /// Makes the state before the first line of a run in the log at `root`.
    pub(super) fn new(disk: &'a dyn Disk, root: &'a Path) -> OpenTasks<'a> {
        OpenTasks {
            disk,
            root,
            open: BTreeSet::new(),
            root_is_over: false,
            is_cancelled: false,
            is_compacted: false,
            is_unknown: false,
        }
    }

    pub(super) fn take(&mut self, record: &LogLine<'_>) {
        let tid = record.tid.0;
        match record.record_type() {
            Some(RecordType::RunStart) => self.open = BTreeSet::from([ROOT]),
            Some(RecordType::Snapshot) => {
                let tables = self.tables(record);
                self.is_unknown = tables.is_none();
                if let Some(tables) = tables {
                    self.open = tables.tasks.iter().map(|task| task.tid).collect();
                    self.root_is_over = !self.open.contains(&ROOT);
                }
            }
            Some(RecordType::TaskSpawn) if record.get("error").is_none() => {
                self.open.extend(record.uint("child"));
            }
            Some(RecordType::TaskWake) => {
                self.is_cancelled |= record.str("why").as_deref() == Some("cancel");
            }
            Some(RecordType::TaskExit | RecordType::TaskAbort) => self.end(tid, true),
            Some(RecordType::TaskCancel) => self.end(tid, self.is_cancelled),
            // Only finished runs are compacted.
            Some(RecordType::Compacted) => self.is_compacted = true,
            _ => {}
        }
    }

    fn end(&mut self, tid: u64, is_last: bool) {
        self.open.remove(&tid);
        if tid == ROOT {
            self.root_is_over = is_last;
        }
    }

    /// Returns the state of the run after the lines so far.
    pub(super) fn state(&self) -> RunState {
        let is_over = self.root_is_over && self.open.is_empty() && !self.is_unknown;
        match self.is_compacted || is_over {
            true => RunState::Finished,
            false => RunState::Live,
        }
    }

    fn tables(&self, record: &LogLine<'_>) -> Option<Tables> {
        match record.payload("tables")? {
            Payload::Json(json) => serde_json::from_str(json).ok(),
            Payload::Bytes(_) => None,
            Payload::Blob { hash, .. } => {
                let bytes = read_blob(self.disk, self.root, hash).ok()?;
                serde_json::from_slice(&bytes).ok()
            }
        }
    }
}
