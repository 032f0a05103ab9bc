//! Steps: work that a durable run does in the world. `step.rs` is what a task says, `effects.rs` what becomes of it, `attempt.rs`
//! one attempt at the work.

pub(in crate::durable) mod attempt;
pub(in crate::durable) mod checkpoint;
pub(in crate::durable) mod chunks;
mod doubt;
pub(in crate::durable) mod effects;
mod outward;
pub(in crate::durable) mod queue;
pub(in crate::durable) mod retry;
pub(in crate::durable) mod saga;
pub(in crate::durable) mod showing;
pub(in crate::durable) mod slots;
pub(in crate::durable) mod step;
