//! A system call as a future. It leaves its request in the port when it is first polled and takes
//! the reply at a later poll. If it is dropped in between, the call is withdrawn.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tiffany_kernel::{
    CallId, CallKind, ErrorKind, Handler, Port, Reply, SystemCall, TaskError, TaskRef, Tid, Time,
    Uuid, Value,
};

use crate::calls::context;
use crate::calls::waker::is_task_waker;

/// A call that rarely fails. If it does (because of a limit, or a handler that refuses it), the
/// task ends with that error at this line; [`checked`](Call::checked) returns the error to the
/// caller instead.
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Call<R, D = Direct> {
    raw: RawCall,
    reply: PhantomData<fn() -> (R, D)>,
}

/// A call that can fail in ways that its caller should handle.
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct TryCall<R, D = Direct> {
    raw: RawCall,
    reply: PhantomData<fn() -> (R, D)>,
}

impl<R, D> Call<R, D> {
    #[track_caller]
    pub(crate) fn new(call: SystemCall) -> Call<R, D> {
        Call { raw: RawCall::new(call), reply: PhantomData }
    }

    /// A call with invalid arguments.
    #[track_caller]
    pub(crate) fn bad(kind: CallKind, error: TaskError) -> Call<R, D> {
        Call { raw: RawCall::bad_call(kind, error), reply: PhantomData }
    }

    /// The call with its error as a result.
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
}

impl<R, D> TryCall<R, D> {
    #[track_caller]
    pub(crate) fn new(call: SystemCall) -> TryCall<R, D> {
        TryCall { raw: RawCall::new(call), reply: PhantomData }
    }

    /// A call with invalid arguments, made on behalf of that line.
    pub(crate) fn bad_at(
        kind: CallKind,
        error: TaskError,
        at: &'static Location<'static>,
    ) -> TryCall<R, D> {
        let pending = Pending::new_at(at);
        TryCall { raw: RawCall { pending, kind, request: Request::Bad(error) }, reply: PhantomData }
    }

    /// The request, for code that makes the call without awaiting it.
    pub(crate) fn into_request(self) -> Result<SystemCall, TaskError> {
        match self.raw.request {
            Request::New(call) => Ok(call),
            Request::Bad(error) => Err(error),
            Request::Made => unreachable!("it has not been polled"),
        }
    }

    /// A call that is made on behalf of another line.
    pub(crate) fn new_at(call: SystemCall, at: &'static Location<'static>) -> TryCall<R, D> {
        TryCall { raw: RawCall::new_at(call, at), reply: PhantomData }
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

/// Ends the task with an error that can't be caught in it.
#[cold]
pub(crate) fn throw<R>(error: TaskError) -> Poll<R> {
    context::with(|context| match context.port.task() {
        Some(_) => context.throw(error),
        None => panic!("{error}"),
    });
    Poll::Pending
}

/// Draws the random parts of a call when it is made, and not before: a replay counts them.
pub(crate) fn complete(call: &mut SystemCall) {
    if let SystemCall::CreateExternalPromise(uuid) | SystemCall::NewUuid(uuid) = call {
        *uuid = context::current().draw_uuid();
    }
    if let SystemCall::Patched(id, new) = call {
        *new = context::current().takes_new_way(id);
    }
    if call.kind().reads_clock() {
        context::with(|context| context.set_clock());
    }
}

/// A call that was made or is about to be made. The futures of all calls contain one.
pub(crate) struct Pending {
    /// The call's number, from when it is made until it is answered; otherwise 0.
    id: CallId,
    /// The task that made it, once it is made.
    maker: TaskRef,
    combined: bool,
    at: &'static Location<'static>,
}

const NOT_MADE: CallId = CallId(0);

impl Pending {
    #[inline]
    #[track_caller]
    pub(crate) fn new() -> Pending {
        Pending::new_at(Location::caller())
    }

    #[inline]
    pub(crate) fn new_at(at: &'static Location<'static>) -> Pending {
        Pending { id: NOT_MADE, maker: TaskRef::NONE, combined: false, at }
    }

    /// Makes the call when first polled. Once it is answered, the reply can be taken from the port.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        kind: CallKind,
        make: impl FnOnce(&Port, &'static Location<'static>) -> CallId,
    ) -> Poll<&'static Port> {
        let context = context::current();
        let port = &context.port;
        if self.id == NOT_MADE {
            let Some(maker) = port.task() else { return self.outside(kind) };
            self.maker = maker;
            self.id = make(port, self.at);
            self.keep_waker(context, cx.waker());
            return Poll::Pending;
        }
        if !port.is_running(self.maker) {
            return self.moved(kind);
        }
        if !port.is_answered(self.id) {
            self.keep_waker(context, cx.waker());
            return Poll::Pending;
        }
        self.id = NOT_MADE;
        context.returned_from(self.at);
        Poll::Ready(port)
    }

    /// Keeps the waker of the combinator through which the call was polled.
    #[inline]
    fn keep_waker(&mut self, context: &context::Context, waker: &Waker) {
        if !is_task_waker(waker) {
            self.combined = true;
            context.keep_waker(self.id, Some(waker));
        }
    }

    /// Converts the reply to its type. Errors of the host get the line of the call.
    #[inline]
    pub(crate) fn read<R, D: Decode<R>>(
        &self,
        reply: Reply,
        kind: CallKind,
    ) -> Result<R, TaskError> {
        match reply {
            Reply::Error(error) => Err(self.placed(error, kind)),
            reply => D::decode(reply).map_err(|error| self.placed(error, kind)),
        }
    }

    /// Takes the reply of a call that only says that it is done.
    #[inline]
    pub(crate) fn done(&self, port: &Port, kind: CallKind) -> Result<(), TaskError> {
        match port.take_done() {
            true => Ok(()),
            false => self.read::<(), Direct>(port.take_answer(), kind),
        }
    }

    #[cold]
    fn placed(&self, mut error: TaskError, kind: CallKind) -> TaskError {
        use CallKind::{Acquire, Effect, ReadWait, Receive, Send, WriteWait};
        let ours = matches!(kind, Effect | ReadWait | WriteWait | Send | Receive | Acquire);
        if ours || matches!(error.kind(), ErrorKind::WrongType | ErrorKind::Abandoned) {
            context::place(&mut error, kind.tag(), self.at);
        }
        context::with(|context| error.add_labels(&context.labels.borrow()));
        error
    }

    /// Withdraws a call that was not answered, or whose reply was not taken.
    #[cold]
    fn withdraw(&mut self) {
        let context = context::current();
        context.port.withdraw(self.maker, self.id);
        // A task of another run may have a call with this number.
        if self.combined && context.port.is_running(self.maker) {
            context.keep_waker(self.id, None);
        }
    }

    #[cold]
    fn outside(&self, kind: CallKind) -> Poll<&'static Port> {
        let message = format!("`{}` was called outside a task", kind.tag());
        let error = TaskError::new(ErrorKind::OutsideTask, message);
        self.failed(error, kind)
    }

    #[cold]
    fn failed(&self, mut error: TaskError, kind: CallKind) -> Poll<&'static Port> {
        context::place(&mut error, kind.tag(), self.at);
        let port = &context::current().port;
        port.put_answer(Reply::Error(error));
        Poll::Ready(port)
    }

    #[cold]
    fn moved(&self, kind: CallKind) -> Poll<&'static Port> {
        let (call, id, maker) = (kind.tag(), self.id.0, self.maker.tid);
        let message = format!("`{call}` (call {id}) was first polled in task {maker}");
        let error = TaskError::new(ErrorKind::MovedCall, message);
        self.failed(error, kind)
    }
}

impl Drop for Pending {
    #[inline]
    fn drop(&mut self) {
        if self.id != NOT_MADE {
            self.withdraw();
        }
    }
}

/// The future of [`yield_now`](crate::calls::sys::yield_now).
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Yield(Pending);

impl Yield {
    #[inline]
    #[track_caller]
    pub(crate) fn new() -> Yield {
        Yield(Pending::new())
    }
}

impl Future for Yield {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.poll(cx, CallKind::Yield, |port, at| port.yield_now(at)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(port) => match self.0.done(port, CallKind::Yield) {
                Ok(()) => Poll::Ready(()),
                Err(error) => throw(error),
            },
        }
    }
}

/// A call before its reply is given a type.
pub(crate) struct RawCall {
    pending: Pending,
    kind: CallKind,
    request: Request,
}

enum Request {
    New(SystemCall),
    /// The arguments are invalid, so the call is never made.
    Bad(TaskError),
    Made,
}

impl RawCall {
    #[track_caller]
    pub(crate) fn new(call: SystemCall) -> RawCall {
        RawCall::new_at(call, Location::caller())
    }

    fn new_at(call: SystemCall, at: &'static Location<'static>) -> RawCall {
        RawCall { pending: Pending::new_at(at), kind: call.kind(), request: Request::New(call) }
    }

    /// A call with invalid arguments: it fails without being made.
    #[track_caller]
    fn bad_call(kind: CallKind, error: TaskError) -> RawCall {
        RawCall { pending: Pending::new(), kind, request: Request::Bad(error) }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        if let Request::Bad(error) = &mut self.request {
            context::place(error, self.kind.tag(), self.pending.at);
            return Poll::Ready(Reply::Error(error.clone()));
        }
        let (request, kind) = (&mut self.request, self.kind);
        let polled = self.pending.poll(cx, kind, |port, at| {
            let Request::New(mut call) = std::mem::replace(request, Request::Made) else {
                panic!("a system call was polled after it had returned")
            };
            complete(&mut call);
            port.call(call, at)
        });
        polled.map(Port::take_answer)
    }

    pub(crate) fn read<R, D: Decode<R>>(&self, reply: Reply) -> Result<R, TaskError> {
        self.pending.read::<R, D>(reply, self.kind)
    }
}

/// The conversion of a reply to a value of type `R`.
pub trait Decode<R> {
    /// Converts the reply.
    fn decode(reply: Reply) -> Result<R, TaskError>;
}

/// The reply has that type itself.
pub struct Direct;

/// The reply is a value, which moves to the caller.
pub struct Moved;

/// The reply is a value that is shared.
pub struct Cloned;

/// The reply is a value or nothing.
pub struct Optional;

/// A type that a reply can have.
pub trait FromReply: Sized {
    /// Converts the reply to this type.
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

/// The error for a reply of the wrong kind, which only a handler can give.
#[cold]
pub(crate) fn unexpected<R>(wanted: &str) -> Result<R, TaskError> {
    let message = format!("the answer to this call is not a {wanted}; check the handlers");
    Err(TaskError::new(ErrorKind::WrongType, message))
}

/// Converts a value that a handler gave instead of the kernel to the type of the call.
pub(crate) fn typed<T: 'static>(value: Value) -> Result<T, TaskError> {
    value.take::<T>().map_err(|value| wrong_type::<T>(&value))
}

/// Converts a shared value.
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
    u64: Number,
    TaskRef: Task,
    tiffany_kernel::ObjectRef: Object,
    tiffany_kernel::Permits: Permits,
}

impl FromReply for Uuid {
    fn from_reply(reply: Reply) -> Result<Uuid, TaskError> {
        Value::from_reply(reply).and_then(typed)
    }
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
