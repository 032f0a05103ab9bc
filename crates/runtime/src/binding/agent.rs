//! State machines of another language whose state can be written down.

use tiffany_kernel::{BoxCoroutine, Reply, SystemCall, TaskError, Time};

use crate::calls::call::TryCall;
pub use crate::calls::durable_agent::Agent;
use crate::calls::durable_agent::foreign;

/// What the kernel runs for it. If it is made again and slept, it sleeps until then.
#[track_caller]
pub fn agent(agent: impl Agent, until: Option<Time>) -> BoxCoroutine {
    foreign(agent, until)
}

/// A call that was not made yet, for a state machine that wants it.
pub fn request(call: TryCall<Reply>) -> Result<SystemCall, TaskError> {
    call.into_request()
}
