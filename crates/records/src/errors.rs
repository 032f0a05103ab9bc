//! Errors about runs and their log that several crates use.

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use tiffany_log::LogError;

/// Makes the error for a run of which only the input and the outcome are left.
pub fn compacted(run: Uuid) -> TaskError {
    let message = format!("run {run} was compacted: only its input and its outcome are left");
    TaskError::new(ErrorKind::RunCompacted, message)
}

/// Makes the error for a run that was removed.
pub fn run_removed(uuid: Uuid) -> TaskError {
    let message = format!("run {uuid} was removed, and its outcome no longer exists");
    TaskError::new(ErrorKind::RunRemoved, message)
}

/// Makes the error for a run that never existed.
pub fn no_such_run(uuid: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NoSuchRun, format!("there is no run {uuid}"))
}

/// Makes the error for a run that was changed between reading it and acting on it.
pub fn read_too_early(run: Uuid) -> TaskError {
    let message = format!("run {run} was changed since it was read");
    TaskError::new(ErrorKind::ReadTooEarly, message)
}

/// Converts an error of the log to one that a task can get.
pub fn log_failed(error: LogError) -> TaskError {
    TaskError::new(ErrorKind::LogFailed, error.to_string())
}

/// Makes the error for a run that is finished already.
pub fn run_over(uuid: Uuid) -> TaskError {
    TaskError::new(ErrorKind::RunOver, format!("run {uuid} is finished"))
}

/// Makes the error for a run that is not finished yet.
pub fn not_over(run: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NotOver, format!("run {run} is not finished"))
}

/// Makes the error for a key that doesn't belong to a step in doubt.
pub fn not_in_doubt(key: &str) -> TaskError {
    let message = format!("no step with the key `{key}` is in doubt; see which are by `doubts`");
    TaskError::new(ErrorKind::BadArgument, message)
}
