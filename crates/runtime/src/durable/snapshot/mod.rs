//! A run of state machines as a whole: `tables.rs` is its text, `taking.rs` begins a generation with it, `restoring.rs` makes a run of it again.

pub(crate) mod restoring;
pub(crate) mod tables;
pub(crate) mod taking;
