//! Serializable state machines of another language.

use tiffany_kernel::{BoxCoroutine, Reply, SystemCall, TaskError, Time};

use crate::calls::call::TryCall;
pub use crate::calls::durable_agent::Agent;
use crate::calls::durable_agent::foreign;

/// A coroutine for the kernel that runs the state machine. If it is restored and was asleep, it
/// sleeps until `until`.
#[track_caller]
pub fn agent(agent: impl Agent, until: Option<Time>) -> BoxCoroutine {
    foreign(agent, until)
}

/// The request of a call that was not made yet, for a state machine that returns it.
pub fn request(call: TryCall<Reply>) -> Result<SystemCall, TaskError> {
    call.into_request()
}
