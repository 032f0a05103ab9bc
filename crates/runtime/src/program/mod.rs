//! The program of a runtime: the functions that runs are started from, their language, and the
//! limits of one run.

pub(crate) mod language;
pub(crate) mod registry;
pub(crate) mod run_limits;
mod schema;
