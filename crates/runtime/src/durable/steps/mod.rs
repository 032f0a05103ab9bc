//! Steps: work that a durable run does in the world. `step.rs` is what a task says, `effects.rs` what becomes of it, `attempt.rs`
//! one attempt at the work.

pub(crate) mod checkpoint;
pub(crate) mod doubt;
pub(crate) mod effects;
pub(crate) mod queue;
