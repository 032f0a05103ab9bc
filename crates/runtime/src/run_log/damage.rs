//! Damaged runs that their owner gives up: what can still be read of one. Retention rules never do
//! this; it takes a person's explicit request.

use std::collections::BTreeSet;
use std::path::Path;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use tiffany_log::{Disk, LogError, RunReader, blob_names, read_blob};
use tiffany_records::errors::log_failed;
use tiffany_records::request::Lost;

/// A run that was refused when the log was opened.
pub(crate) struct Damaged {
    pub(crate) error: LogError,
    /// Whether it is finished according to the index.
    pub(crate) is_over: bool,
}

/// Reads a run and the blobs it names, and reports what is lost with it. `known` is the damage that was found before.
/// Fails if the run isn't damaged, or can't be read for another reason.
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

pub(crate) fn not_damaged(run: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NotDamaged, format!("run {run} is not damaged"))
}
