//! Forks: another run that has been what a run was up to a record, and goes its own way from there. What its parent was answered it is answered too;
//! what nobody has answered is refused until it is allowed by name, so that a fork does nothing to the world unasked.
//!
//! `copy.rs` writes the fork's log, `shape.rs` compares an answer with the one it replaces, `inheritance.rs` has what the parent was answered, and
//! `branch.rs` is what becomes of a fork's effects while it goes on.

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
