//! What a program brings along: the functions that runs are started from, the language they are written in, and what one run may use.

pub(crate) mod language;
pub(crate) mod registry;
pub(crate) mod run_limits;
mod schema;
