//! A system call as a future: it leaves its request in the port when first polled and takes the reply
//! at a later poll. Dropped in between, it is withdrawn.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tiffany_kernel::{
    CallId, CallKind, ErrorKind, Handler, Reply, SystemCall, TaskError, TaskRef, Tid, Time, Value,
};

use crate::context;
use crate::waker::TASK_WAKER;

/// A call that can hardly go wrong. If it does after all (a limit, a handler that refuses), the task
/// ends with that error at this line; [`checked`](Call::checked) gives it to the caller instead.
#[must_use = "a system call does nothing until it is awaited"]
pub struct Call<R, D = Direct> {
    raw: RawCall,
    reply: PhantomData<fn() -> (R, D)>,
}

/// A call that can go wrong in ways its caller should think of.
#[must_use = "a system call does nothing until it is awaited"]
pub struct TryCall<R, D = Direct> {
    raw: RawCall,
    reply: PhantomData<fn() -> (R, D)>,
}

impl<R, D> Call<R, D> {
    #[track_caller]
    pub(crate) fn new(call: SystemCall) -> Call<R, D> {
        Call { raw: RawCall::new(call), reply: PhantomData }
    }

    /// A call whose arguments have no meaning.
    #[track_caller]
    pub(crate) fn bad(kind: CallKind, error: TaskError) -> Call<R, D> {
        Call { raw: RawCall::bad_call(kind, error), reply: PhantomData }
    }

    /// The same call, with its error as a result.
    ///
    /// ```
    /// use tiffany::{ErrorKind, sleep};
    /// use std::time::Duration;
    ///
    /// tiffany::run(async {
    ///     let error = sleep(Duration::MAX).checked().await.unwrap_err();
    ///     assert_eq!(error.kind(), ErrorKind::BadDuration);
    /// })?;
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn checked(self) -> TryCall<R, D> {
        TryCall { raw: self.raw, reply: PhantomData }
    }

    pub(crate) fn request_mut(&mut self) -> Option<&mut SystemCall> {
        self.raw.request_mut()
    }
}

impl<R, D> TryCall<R, D> {
    #[track_caller]
    pub(crate) fn new(call: SystemCall) -> TryCall<R, D> {
        TryCall { raw: RawCall::new(call), reply: PhantomData }
    }
}

impl<R, D: Decode<R>> Future for Call<R, D> {
    type Output = R;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        match self.raw.poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(reply) => match self.raw.read::<R, D>(reply) {
                Ok(value) => Poll::Ready(value),
                Err(error) => throw(error),
            },
        }
    }
}

impl<R, D: Decode<R>> Future for TryCall<R, D> {
    type Output = Result<R, TaskError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.raw.poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(reply) => Poll::Ready(self.raw.read::<R, D>(reply)),
        }
    }
}

/// Ends the task with an error that nobody in it catches.
#[cold]
fn throw<R>(error: TaskError) -> Poll<R> {
    context::with(|context| match context.port.task() {
        Some(_) => context.throw(error),
        None => panic!("{error}"),
    });
    Poll::Pending
}

/// A call before its reply is given a type.
pub(crate) struct RawCall {
    state: State,
    kind: CallKind,
    combined: bool,
    at: &'static Location<'static>,
}

enum State {
    New(SystemCall),
    /// It has no meaning, so it is never made.
    Bad(TaskError),
    Made(CallId, TaskRef),
    Over,
}

impl RawCall {
    #[track_caller]
    pub(crate) fn new(call: SystemCall) -> RawCall {
        RawCall {
            kind: call.kind(),
            state: State::New(call),
            combined: false,
            at: Location::caller(),
        }
    }

    /// A call whose arguments have no meaning: it fails without being made.
    #[track_caller]
    fn bad_call(kind: CallKind, error: TaskError) -> RawCall {
        RawCall { kind, state: State::Bad(error), combined: false, at: Location::caller() }
    }

    pub(crate) fn request_mut(&mut self) -> Option<&mut SystemCall> {
        match &mut self.state {
            State::New(call) => Some(call),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        context::with(|context| match self.state {
            State::Made(id, task) => {
                if context.port.task() != Some(task) {
                    return self.moved(task);
                }
                match context.port.take_reply(id) {
                    Some(reply) => {
                        self.state = State::Over;
                        context.port.returned_from(self.at);
                        Poll::Ready(reply)
                    }
                    None => {
                        self.keep_waker(context, id, cx.waker());
                        Poll::Pending
                    }
                }
            }
            State::New(_) => {
                let Some(task) = context.port.task() else { return self.outside() };
                let State::New(call) = std::mem::replace(&mut self.state, State::Over) else {
                    unreachable!("just matched")
                };
                if self.kind.reads_clock()
                    && let Some(host) = context.host()
                {
                    context.port.set_clock(|| host.clock.now());
                }
                let id = context.port.call(call, self.at);
                self.state = State::Made(id, task);
                self.keep_waker(context, id, cx.waker());
                Poll::Pending
            }
            State::Bad(_) => self.bad(),
            State::Over => panic!("a system call was polled after it had returned"),
        })
    }

    /// Polled through a combinator, a call keeps that one's waker.
    #[inline]
    fn keep_waker(&mut self, context: &context::Context, id: CallId, waker: &Waker) {
        if !waker.will_wake(&TASK_WAKER) {
            self.combined = true;
            context.keep_waker(id, Some(waker));
        }
    }

    /// Gives the reply its type. Errors of the host are told where they happened.
    #[inline]
    pub(crate) fn read<R, D: Decode<R>>(&self, reply: Reply) -> Result<R, TaskError> {
        match reply {
            Reply::Error(error) => Err(self.placed(error)),
            reply => D::decode(reply).map_err(|error| self.placed(error)),
        }
    }

    #[cold]
    fn placed(&self, mut error: TaskError) -> TaskError {
        use CallKind::{Acquire, Effect, ReadWait, Receive, Send, WriteWait};
        let ours = matches!(self.kind, Effect | ReadWait | WriteWait | Send | Receive | Acquire);
        if ours || matches!(error.kind(), ErrorKind::WrongType | ErrorKind::Abandoned) {
            self.place(&mut error);
        }
        context::with(|context| error.add_labels(&context.labels.borrow()));
        error
    }

    /// Names this call, its line and the task that is running, where the error does not know better.
    fn place(&self, error: &mut TaskError) {
        context::place(error, self.kind.tag(), self.at);
    }

    #[cold]
    fn bad(&mut self) -> Poll<Reply> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Bad(mut error) => {
                self.place(&mut error);
                Poll::Ready(Reply::Error(error))
            }
            _ => Poll::Pending,
        }
    }

    #[cold]
    fn outside(&mut self) -> Poll<Reply> {
        self.state = State::Over;
        let message = format!("`{}` was called outside a task", self.kind.tag());
        let mut error = TaskError::new(ErrorKind::OutsideTask, message);
        self.place(&mut error);
        Poll::Ready(Reply::Error(error))
    }

    #[cold]
    fn moved(&mut self, maker: TaskRef) -> Poll<Reply> {
        let message = format!("`{}` was first polled in task {}", self.kind.tag(), maker.tid);
        let mut error = TaskError::new(ErrorKind::MovedCall, message);
        self.place(&mut error);
        Poll::Ready(Reply::Error(error))
    }
}

impl Drop for RawCall {
    #[inline]
    fn drop(&mut self) {
        if let State::Made(id, task) = self.state {
            context::try_with(|context| {
                context.port.withdraw(task, id);
                if self.combined {
                    context.keep_waker(id, None);
                }
            });
        }
    }
}

/// How the reply to a call becomes a value of type `R`.
pub trait Decode<R> {
    /// The reply as that type.
    fn decode(reply: Reply) -> Result<R, TaskError>;
}

/// The reply is of that type.
pub struct Direct;

/// The reply is a value, which moves to the caller.
pub struct Moved;

/// The reply is a value, which others may have too.
pub struct Cloned;

/// The reply is a value or nothing.
pub struct Optional;

/// A type that is a reply of its own.
pub trait FromReply: Sized {
    /// The reply as this type.
    fn from_reply(reply: Reply) -> Result<Self, TaskError>;
}

impl<R: FromReply> Decode<R> for Direct {
    #[inline]
    fn decode(reply: Reply) -> Result<R, TaskError> {
        R::from_reply(reply)
    }
}

impl<R: 'static> Decode<R> for Moved {
    fn decode(reply: Reply) -> Result<R, TaskError> {
        Value::from_reply(reply).and_then(typed)
    }
}

impl<R: Clone + 'static> Decode<R> for Cloned {
    fn decode(reply: Reply) -> Result<R, TaskError> {
        Value::from_reply(reply).and_then(cloned)
    }
}

impl<R: Clone + 'static> Decode<Option<R>> for Optional {
    fn decode(reply: Reply) -> Result<Option<R>, TaskError> {
        match reply {
            Reply::Nothing => Ok(None),
            reply => Value::from_reply(reply).and_then(cloned).map(Some),
        }
    }
}

/// The error for a reply of another kind than the call's: some handler gave it.
#[cold]
pub(crate) fn unexpected<R>(wanted: &str) -> Result<R, TaskError> {
    let message = format!("the answer to this call is no {wanted}; look at the handlers");
    Err(TaskError::new(ErrorKind::WrongType, message))
}

/// A value that a handler gave instead of the kernel, as the type the call has.
pub(crate) fn typed<T: 'static>(value: Value) -> Result<T, TaskError> {
    value.take::<T>().map_err(|value| wrong_type::<T>(&value))
}

/// A value that others may have too.
pub(crate) fn cloned<T: Clone + 'static>(value: Value) -> Result<T, TaskError> {
    value.get().map_err(|wrong| TaskError::new(ErrorKind::WrongType, wrong.to_string()))
}

#[cold]
pub(crate) fn wrong_type<T: 'static>(value: &Value) -> TaskError {
    TaskError::new(ErrorKind::WrongType, value.mismatch::<T>().to_string())
}

impl FromReply for () {
    #[inline]
    fn from_reply(_: Reply) -> Result<(), TaskError> {
        Ok(())
    }
}

impl FromReply for Value {
    fn from_reply(reply: Reply) -> Result<Value, TaskError> {
        match reply {
            Reply::Value(value) => Ok(value),
            Reply::Unit => Ok(Value::Unit),
            _ => unexpected("value"),
        }
    }
}

macro_rules! from_reply {
    ($($kind:ty: $variant:ident),+ $(,)?) => {
        $(impl FromReply for $kind {
            fn from_reply(reply: Reply) -> Result<$kind, TaskError> {
                match reply {
                    Reply::$variant(inner) => Ok(inner),
                    Reply::Value(value) => typed(value),
                    _ => unexpected(stringify!($kind)),
                }
            }
        })+
    };
}

from_reply! {
    bool: Flag,
    Tid: Tid,
    Time: Time,
    TaskRef: Task,
    tiffany_kernel::ObjectRef: Object,
    tiffany_kernel::Permits: Permits,
}

impl FromReply for Vec<Value> {
    fn from_reply(reply: Reply) -> Result<Vec<Value>, TaskError> {
        match reply {
            Reply::Values(values) => Ok(values.into_vec()),
            _ => unexpected("list of values"),
        }
    }
}

impl FromReply for Vec<Rc<dyn Handler>> {
    fn from_reply(reply: Reply) -> Result<Self, TaskError> {
        match reply {
            Reply::Handlers(handlers) => Ok(handlers.into_vec()),
            _ => unexpected("list of handlers"),
        }
    }
}

impl FromReply for Reply {
    fn from_reply(reply: Reply) -> Result<Reply, TaskError> {
        Ok(reply)
    }
}
