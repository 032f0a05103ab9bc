//! Bringing runs back: `script.rs` is a log read back, `replay.rs` compares what a run does with it, `resuming.rs` lets the run
//! go through it and on from its end, `divergence.rs` says why one does not fit, `halt.rs` is where one
//! stops that is looked at on its way.

pub(in crate::durable) mod divergence;
pub(in crate::durable) mod halt;
pub(in crate::durable) mod proposal;
pub(in crate::durable) mod rehearsal;
pub(in crate::durable) mod replay;
pub(in crate::durable) mod resuming;
pub(in crate::durable) mod script;
#[cfg(feature = "cli")]
pub(in crate::durable) mod survey;
pub(in crate::durable) mod verdict;
