//! Forks: a fork is another run with the history of its parent up to a record, and continues on its
//! own from there. It gets the answers that its parent got. Calls without an answer are refused
//! until they are allowed by name, so that a fork changes nothing in the outside world unasked.
//!
//! `copy.rs` writes the fork's log, `shape.rs` compares an answer with the one that it replaces,
//! `inheritance.rs` has the answers of the parent, and `runtime/branch.rs` handles the effects of a
//! fork in memory.

pub(crate) mod copy;
pub(crate) mod inheritance;
pub(crate) mod shape;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

/// Allows every step.
pub(crate) const ALL: &str = "*";

/// The error for a run that is not a fork.
pub(crate) fn no_fork(run: Uuid) -> TaskError {
    let message = format!("run {run} is not a fork: its steps need no permission");
    TaskError::new(ErrorKind::BadArgument, message)
}
