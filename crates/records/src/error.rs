//! Errors of runs as the program sees them. What a task sees is a `TaskError`.

use std::fmt;

use tiffany_kernel::{DeadlockError, RunFailure, TaskError};

use crate::redact::shown;
use tiffany_log::LogError;

/// The error of a run that did not start or did not return a value. Its text is redacted with the
/// [rules](crate::redact) of this process; the [task's error](RunError::task_error) is not.
#[derive(Clone)]
#[non_exhaustive]
pub enum RunError {
    /// The root task failed.
    Failed(TaskError),
    /// The root task was cancelled.
    Cancelled(TaskError),
    /// No task can continue, because nothing is left that could wake one.
    Deadlock(DeadlockError),
    /// The run exceeded one of its limits.
    Limit(TaskError),
    /// The run belongs to another runtime, or had finished before.
    UnknownRun(TaskError),
    /// A runtime was started inside a task of another one.
    Nested(TaskError),
    /// The log could not be opened or written.
    Log(LogError),
    /// The operating system refused something that the runtime needs.
    System {
        /// The operation that was refused.
        what: &'static str,
        /// The message of the system.
        why: String,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Failed(error)
            | RunError::Cancelled(error)
            | RunError::Limit(error)
            | RunError::UnknownRun(error)
            | RunError::Nested(error) => shown(error).fmt(f),
            RunError::Deadlock(error) => shown(error).fmt(f),
            RunError::Log(error) => error.fmt(f),
            RunError::System { what, why } => {
                write!(f, "the system refused {what}: {why} [TFY0029]; see the system's message")
            }
        }
    }
}

/// The same text as `Display`, because this is what `fn main() -> Result<_, RunError>` prints.
impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RunError {}

impl RunError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            RunError::Failed(error)
            | RunError::Cancelled(error)
            | RunError::Limit(error)
            | RunError::UnknownRun(error)
            | RunError::Nested(error) => error.code(),
            RunError::Deadlock(error) => error.code(),
            RunError::Log(error) => error.code(),
            RunError::System { .. } => tiffany_kernel::ErrorKind::Host.code(),
        }
    }

    /// Returns the task's error if it is one. A deadlock is not, because it concerns many tasks.
    pub fn task_error(&self) -> Option<&TaskError> {
        match self {
            RunError::Failed(error)
            | RunError::Cancelled(error)
            | RunError::Limit(error)
            | RunError::UnknownRun(error)
            | RunError::Nested(error) => Some(error),
            RunError::Deadlock(_) | RunError::Log(_) | RunError::System { .. } => None,
        }
    }

    /// Makes the error for a refusal of the operating system.
    pub fn system(what: &'static str, why: &std::io::Error) -> RunError {
        RunError::System { what, why: why.to_string() }
    }
}

impl From<LogError> for RunError {
    fn from(error: LogError) -> RunError {
        RunError::Log(error)
    }
}

impl From<RunFailure> for RunError {
    fn from(failure: RunFailure) -> RunError {
        match failure {
            RunFailure::Root(error) if is_roots_own(&error) && error.is_cancelled() => {
                RunError::Cancelled(error)
            }
            RunFailure::Root(error) => RunError::Failed(error),
            RunFailure::Deadlock(error) => RunError::Deadlock(error),
            RunFailure::Limit(error) => RunError::Limit(error),
            other => RunError::System { what: "an unknown failure", why: format!("{other:?}") },
        }
    }
}

/// Returns whether an error happened in the root itself, not in a task that the root waited for.
fn is_roots_own(error: &TaskError) -> bool {
    error.task().is_some_and(|task| task.tid == tiffany_kernel::Tid(1))
}
