//! Handlers: what stands between a task's calls and the kernel. They form a chain, innermost first.

use std::any::Any;

use crate::call::{Reply, SystemCall};
use crate::coroutine::BoxCoroutine;
use crate::id::Tid;

/// Sees the calls of the tasks it is installed for, except the scheduling ones.
///
/// A handler is pure: it runs again when a run is replayed, so work goes through effects.
pub trait Handler {
    /// What it is called in errors and traces.
    fn name(&self) -> &str;

    /// The handler itself, for those who may know its type.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Looks at a call. It may change the call in place and pass it on.
    fn handle(&self, call: &mut SystemCall, caller: Tid) -> Verdict;
}

/// What a handler does about a call.
pub enum Verdict {
    /// Ask the next one; after the outermost, the kernel.
    Pass,
    /// Answer it.
    Answer(Reply),
    /// Refuse it, saying why.
    Refuse(String),
    /// Answer it with what this coroutine returns. The calls it makes see only the handlers outside
    /// this one.
    Run(BoxCoroutine),
}
