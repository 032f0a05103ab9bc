//! State machines of another language whose state can be written down.

use tiffany_kernel::{BoxCoroutine, Frame, Reply, Site, SystemCall, TaskError, Time};

use crate::calls::agent_task::TaskStatus;
use crate::calls::call::TryCall;
use crate::durable::agent::foreign;

/// A state machine of a durable run, as [`DurableAgent`](crate::durable::agent::DurableAgent) is one in Rust.
pub trait Agent: 'static {
    /// What the log calls this kind of state machine.
    fn name(&self) -> &str;

    /// What it wants in the state it is in; its value is JSON.
    fn wants(&self) -> TaskStatus<String>;

    /// It has what it wanted: takes the answer, and moves to its next state. With an error the task ends.
    fn take(&mut self, answer: Reply) -> Result<(), TaskError>;

    /// Its whole state, as JSON.
    fn state(&self) -> Result<String, TaskError>;

    /// The line it stands at.
    fn line(&self) -> Option<Site>;

    /// Its state, for who looks at it.
    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

/// What the kernel runs for it. If it is made again and slept, it sleeps until then.
#[track_caller]
pub fn agent(agent: impl Agent, until: Option<Time>) -> BoxCoroutine {
    foreign(agent, until)
}

/// A call that was not made yet, for a state machine that wants it.
pub fn request(call: TryCall<Reply>) -> Result<SystemCall, TaskError> {
    call.into_request()
}
