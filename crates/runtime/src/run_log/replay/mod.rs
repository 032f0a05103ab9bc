//! Bringing runs back: `script.rs` is a log read back, `replay.rs` compares what a run does with it, `resuming.rs` lets the run
//! go through it and on from its end, `divergence.rs` says why one does not fit, `halt.rs` is where one
//! stops that is looked at on its way.

pub(crate) mod divergence;
pub(crate) mod halt;
pub(crate) mod proposal;
pub(crate) mod reading;
pub(crate) mod rehearsal;
pub(crate) mod replay;
pub(crate) mod script;
pub(crate) mod verdict;
