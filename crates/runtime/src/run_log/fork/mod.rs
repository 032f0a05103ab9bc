//! Forks: another run that has been what a run was up to a record, and goes its own way from there. What its parent was answered it is answered too;
//! what nobody has answered is refused until it is allowed by name, so that a fork does nothing to the world unasked.
//!
//! `copy.rs` writes the fork's log, `shape.rs` compares an answer with the one it replaces, `inheritance.rs` has what the parent was answered, and
//! `branch.rs` is what becomes of a fork's effects while it goes on.

pub(crate) mod copy;
pub(crate) mod inheritance;
pub(crate) mod shape;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

/// Allows every effect.
pub(crate) const ALL: &str = "*";

/// An error if a run is no fork.
pub(crate) fn no_fork(run: Uuid) -> TaskError {
    let message = format!("run {run} is no fork: its effects need nobody's leave");
    TaskError::new(ErrorKind::BadArgument, message)
}
