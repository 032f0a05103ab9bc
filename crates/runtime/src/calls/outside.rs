//! Work that begins on the loop's thread and ends anywhere: a coroutine on a foreign event loop, or
//! a function in a foreign thread pool. The kernel knows it as an effect.

use std::panic::Location;
use std::sync::Arc;

use tiffany_kernel::{CallRef, EffectWork, ErrorKind, Reply, SystemCall, TaskError, Value};

use crate::calls::call::TryCall;
use crate::calls::sys::blocking_work;
use crate::calls::work::{Origin, Work};
use crate::host::inbox::{Inbox, LoopMessage};

/// The function that begins the work.
pub(crate) struct Outside(Box<dyn FnOnce(Finish)>);

impl Outside {
    pub(crate) fn begin(self, call: CallRef, inbox: &Arc<Inbox>) {
        (self.0)(Finish { call, inbox: Some(Arc::clone(inbox)) });
    }
}

/// Reports the result of the work to the loop, from any thread. If it is dropped unused, the work
/// has failed.
pub struct Finish {
    call: CallRef,
    /// The inbox to report to, until that was done.
    inbox: Option<Arc<Inbox>>,
}

impl Finish {
    /// Reports the result. The value is built on the loop's thread. If no task waits for it any
    /// more, it is counted and dropped.
    pub fn tell(mut self, result: impl FnOnce() -> Result<Value, TaskError> + Send + 'static) {
        if let Some(inbox) = self.inbox.take() {
            inbox.send(LoopMessage::Done(self.call, Box::new(result)));
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox.take() {
            let error = TaskError::new(ErrorKind::Host, "the work was abandoned before its end");
            inbox.send(LoopMessage::Done(self.call, Box::new(move || Err(error))));
        }
    }
}

/// A call that is answered with the result of such work. Dropping the call must end the work, if
/// there is a way to end it.
#[track_caller]
pub fn outside(
    name: &'static str,
    origin: Origin,
    begin: impl FnOnce(Finish) + 'static,
) -> TryCall<Reply> {
    let work = Work::Outside(Outside(Box::new(begin))).boxed(Some(origin));
    TryCall::new(SystemCall::Effect(EffectWork { name, about: None, work }))
}

/// A call that is answered with the result of a function, which runs on a thread of the runtime.
#[track_caller]
pub fn blocking<T, F>(origin: Origin, function: F) -> TryCall<Reply>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let effect = blocking_work(function, Some(origin), Location::caller());
    TryCall::new(SystemCall::Effect(effect))
}
