//! Errors about runs and their log that several crates report.

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use tiffany_log::LogError;

/// The error for a run of which only the beginning and the end are left.
pub fn compacted(run: Uuid) -> TaskError {
    let message = format!("run {run} was compacted: only its input and its outcome are left");
    TaskError::new(ErrorKind::RunCompacted, message)
}

/// The error for a run that was removed.
pub fn run_removed(uuid: Uuid) -> TaskError {
    let message = format!("run {uuid} was removed, and its outcome no longer exists");
    TaskError::new(ErrorKind::RunRemoved, message)
}

/// The error for a run that was never there.
pub fn no_such_run(uuid: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NoSuchRun, format!("there is no run {uuid}"))
}

/// The error for a run that was changed between reading it and acting on it.
pub fn read_too_early(run: Uuid) -> TaskError {
    let message = format!("run {run} was changed since it was read");
    TaskError::new(ErrorKind::ReadTooEarly, message)
}

/// The log's error, as a task sees it.
pub fn log_failed(error: LogError) -> TaskError {
    TaskError::new(ErrorKind::LogFailed, error.to_string())
}

/// The error for a run that has ended.
pub fn run_over(uuid: Uuid) -> TaskError {
    TaskError::new(ErrorKind::RunOver, format!("run {uuid} is finished"))
}

/// The error for a run that has not ended.
pub fn not_over(run: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NotOver, format!("run {run} is not finished"))
}

/// The error for a step that cannot be decided on.
pub fn not_in_doubt(key: &str) -> TaskError {
    let message = format!("no step with the key `{key}` is in doubt; see which are by `doubts`");
    TaskError::new(ErrorKind::BadArgument, message)
}
