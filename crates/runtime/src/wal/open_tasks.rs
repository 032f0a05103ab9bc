//! Whether a run is over, from its lines alone: for files whose end neither the index nor the commit log knows. It
//! counts tasks that began and ended, and knows nothing else of what they did.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use tiffany_kernel::ErrorKind;

use super::disk::Disk;
use super::index::RunState;
use super::line::RecordType;
use super::read::{Payload, Record};
use super::run_reader::read_blob;

const ROOT: u64 = 1;

/// The tasks of a run that have not ended.
pub(super) struct OpenTasks<'a> {
    disk: &'a dyn Disk,
    root: &'a Path,
    open: BTreeSet<u64>,
    has_begun: bool,
    /// The run ended as a whole, whatever its tasks did.
    is_over: bool,
}

/// What is read of the tables of a snapshot.
#[derive(Deserialize)]
struct Tables {
    tasks: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    tid: u64,
}

/// What is read of an error.
#[derive(Deserialize)]
struct Failure {
    kind: ErrorKind,
}

impl<'a> OpenTasks<'a> {
    /// Of a run in the log in `root`, before its first line.
    pub(super) fn new(disk: &'a dyn Disk, root: &'a Path) -> OpenTasks<'a> {
        OpenTasks { disk, root, open: BTreeSet::new(), has_begun: false, is_over: false }
    }

    pub(super) fn take(&mut self, record: &Record<'_>) {
        let tid = record.tid.0;
        match record.record_type() {
            Some(RecordType::RunStart) => {
                self.has_begun = true;
                self.open = BTreeSet::from([ROOT]);
            }
            Some(RecordType::Snapshot) => {
                if let Some(tables) = self.tables(record) {
                    self.open = tables.tasks.iter().map(|task| task.tid).collect();
                }
            }
            Some(RecordType::TaskSpawn) if record.get("error").is_none() => {
                self.open.extend(record.uint("child"));
            }
            Some(RecordType::TaskExit | RecordType::TaskCancel) => drop(self.open.remove(&tid)),
            Some(RecordType::TaskAbort) => {
                self.open.remove(&tid);
                self.is_over |= tid == ROOT && is_deadlock(record);
            }
            // Only finished runs are compacted.
            Some(RecordType::Compacted) => self.is_over = true,
            _ => {}
        }
    }

    /// The state of a run whose last line was taken in.
    pub(super) fn state(&self) -> RunState {
        match self.is_over || (self.has_begun && self.open.is_empty()) {
            true => RunState::Finished,
            false => RunState::Live,
        }
    }

    fn tables(&self, record: &Record<'_>) -> Option<Tables> {
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

/// The tasks of a run in a deadlock have no end.
fn is_deadlock(record: &Record<'_>) -> bool {
    let failure = record.get("error").map(serde_json::from_str::<Failure>);
    failure.is_some_and(|failure| failure.is_ok_and(|failure| failure.kind == ErrorKind::Deadlock))
}
