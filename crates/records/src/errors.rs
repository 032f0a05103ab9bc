//! Errors about runs that can't be read any more.

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

/// The error for a run of which only the beginning and the end are left.
pub fn compacted(run: Uuid) -> TaskError {
    let message = format!("run {run} was compacted: only its beginning and its end are left");
    TaskError::new(ErrorKind::RunCompacted, message)
}

/// The error for a run that was removed.
pub fn run_removed(uuid: Uuid) -> TaskError {
    let message = format!("run {uuid} was removed, and what came of it is gone");
    TaskError::new(ErrorKind::RunRemoved, message)
}

/// The error for a run that was never there.
pub fn no_such_run(uuid: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NoSuchRun, format!("there is no run {uuid}"))
}
