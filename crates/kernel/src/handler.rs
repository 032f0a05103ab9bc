//! Handlers, which sit between a task's calls and the kernel. They form a chain, innermost first.

use std::any::Any;

use crate::call::{Reply, SystemCall};
use crate::coroutine::BoxCoroutine;
use crate::id::Tid;

/// Handles the calls of the tasks that it is installed for, except internal calls of the scheduler.
///
/// A handler must be pure: it runs again when a run is replayed. It reaches the outside world only
/// through effects.
pub trait Handler {
    /// The handler's name in errors and traces.
    fn name(&self) -> &str;

    /// The handler as `Any`, for code that may know its type.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Handles a call. It may change the call in place and pass it on.
    fn handle(&self, call: &mut SystemCall, caller: Tid) -> Verdict;
}

/// The decision of a handler about a call.
pub enum Verdict {
    /// Passes the call on to the next handler, or from the outermost one to the kernel.
    Pass,
    /// Answers the call.
    Answer(Reply),
    /// Refuses the call with this reason.
    Refuse(String),
    /// Answers the call with the result of this coroutine. The coroutine's calls are seen only by
    /// the handlers outside this one.
    Run(BoxCoroutine),
}
