//! Bringing runs back: `decoded_log.rs` is a log read back, `matcher.rs` compares what a run does with it, `resume.rs` of the loop lets the run
//! go through it and on from its end, `divergence.rs` says why one does not fit, `halt.rs` is where one
//! stops that is looked at on its way.

pub(crate) mod decoded_log;
pub(crate) mod divergence;
pub(crate) mod dry_run;
pub(crate) mod halt;
pub(crate) mod matcher;
pub(crate) mod proposal;
pub(crate) mod read;
pub(crate) mod verdict;
