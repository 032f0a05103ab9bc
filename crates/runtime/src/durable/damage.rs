//! Damaged runs that their owner gives up: what can still be read of one, and its removal. Rules never come here; it
//! takes a person's explicit request.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::resume::resuming::log_failed;
use super::runs::Known;
use crate::control::{Answer, Job};
use crate::runtime::Runtime;
use tiffany_log::{Disk, LogError, RunReader, blob_names, read_blob};
use tiffany_records::errors::{no_such_run, run_removed};

/// A run that was refused when the log was opened.
pub(crate) struct Damaged {
    pub(crate) error: LogError,
    /// Whether the index says that it is over.
    pub(crate) is_over: bool,
}

/// What is lost with a damaged run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lost {
    /// What was wrong with the run.
    pub damage: String,
    /// How many of its records could still be read.
    pub records: u64,
    /// Its unfinished forks. They pause where they need an answer that the run had.
    pub forks: BTreeSet<String>,
}

/// Reads a run and the blobs it names, and says what is lost with it. `known` is what was found before. An error if it
/// isn't damaged, or can't be read for another reason.
pub(crate) fn lost(
    (disk, root): (&dyn Disk, &Path),
    run: Uuid,
    known: Option<&LogError>,
    forks: BTreeSet<Uuid>,
) -> Result<Lost, TaskError> {
    let mut records = 0;
    let read = count(disk, root, run, &mut records);
    let error = known.cloned().or(read.err());
    match error {
        Some(error) if error.is_damage() => Ok(Lost {
            damage: error.to_string(),
            records,
            forks: forks.iter().map(Uuid::to_string).collect(),
        }),
        Some(error) => Err(log_failed(error)),
        None => Err(not_damaged(run)),
    }
}

/// Counts the records up to the first that can't be read.
fn count(disk: &dyn Disk, root: &Path, run: Uuid, records: &mut u64) -> Result<(), LogError> {
    let mut reader = RunReader::open(disk, root, run, None)?;
    let mut named = BTreeSet::new();
    while let Some(record) = reader.next() {
        blob_names(record?.json.as_bytes(), |hash| {
            named.insert(hash);
        });
        *records += 1;
    }
    named.into_iter().try_for_each(|hash| read_blob(disk, root, hash).map(drop))
}

fn not_damaged(run: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NotDamaged, format!("run {run} is not damaged"))
}

impl Runtime {
    /// Removes a run that is damaged, whether it is over or not.
    pub(super) fn remove_damaged(&mut self, run: Uuid) -> Result<Answer, TaskError> {
        let forks = self.needed_by_forks().forks_of(run);
        let durable = self.durable_mut();
        match durable.runs.get(&run) {
            Some(Known::Over(..) | Known::Paused(..)) => {}
            Some(Known::Live(_)) => return Err(not_damaged(run)),
            Some(Known::Removed) => return Err(run_removed(run)),
            None => return Err(no_such_run(run)),
        }
        durable.log.catch_up().map_err(log_failed)?;
        let known = durable.damaged.get(&run).map(|damaged| &damaged.error);
        let lost = lost((&*durable.disk, &durable.root), run, known, forks)?;
        tracing::warn!(target: "tiffany", %run, "a damaged run is removed: {}", lost.damage);
        durable.page.batch.remove(run);
        durable.runs.insert(run, Known::Removed);
        durable.damaged.remove(&run);
        durable.shelf.tell(|| Job::Removed(vec![run]));
        Ok(Answer::Lost(lost))
    }
}
