//! Promises: the write side, the read side, and promises that are settled from outside.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use tiffany_kernel::{
    CallKind, ErrorKind, ObjectRef, Release, Reply, SystemCall, TaskError, Uuid, Value,
};

use crate::calls::call::{Call, Direct, FromReply, Pending, TryCall, throw, unexpected};
use crate::calls::context;
use crate::host::inbox::{Inbox, LoopMessage};
use tiffany_records::request::Settlement;

/// The write side of a promise, which settles it once.
///
/// ```
/// use tiffany::{promise, spawn};
///
/// tiffany::try_run(async {
///     let promise = promise::<u32>().await;
///     let future = promise.future();
///     let reader = spawn(async move { future.await }).await;
///     promise.complete(5).await?;
///     assert_eq!(reader.await??, 5);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct Promise<T> {
    object: ObjectRef,
    /// Whether the read side that the kernel counts from the start was not handed out yet.
    spare: Cell<bool>,
    value: PhantomData<Rc<T>>,
}

/// The read side of a promise. All clones get the same value.
pub struct Future<T> {
    object: ObjectRef,
    value: PhantomData<Rc<T>>,
}

/// A promise that is settled from outside: from any thread with this handle, or by its UUID.
pub struct ExternalPromise<T> {
    handle: Arc<ExternalHandle>,
    value: PhantomData<fn(T)>,
}

/// The shared part of all clones of an external promise. When the last of them is dropped, the
/// promise is settled and no future is left, the run forgets the promise; only the fact that its
/// UUID is settled is remembered.
struct ExternalHandle {
    object: ObjectRef,
    uuid: Uuid,
    inbox: Arc<Inbox>,
}

impl Drop for ExternalHandle {
    fn drop(&mut self) {
        let release = Release::Promise(self.object);
        let host = context::current().host();
        match host.is_some_and(|host| Arc::ptr_eq(&host.inbox, &self.inbox)) {
            true => context::release(release),
            false => self.inbox.send(LoopMessage::Release(release)),
        }
    }
}

impl<T: 'static> Promise<T> {
    fn new(object: ObjectRef) -> Promise<T> {
        Promise { object, spare: Cell::new(true), value: PhantomData }
    }

    /// Settles the promise with a value. Settling it twice is an error, and the first value stays.
    #[inline]
    #[track_caller]
    pub fn complete(&self, value: T) -> Complete {
        let value = Some(Value::new(value));
        Complete { pending: Pending::new(), promise: self.object, value }
    }

    /// Settles the promise with an error.
    #[track_caller]
    pub fn fail(&self, error: impl Into<TaskError>) -> TryCall<()> {
        TryCall::new(SystemCall::FailPromise(self.object, error.into()))
    }

    /// Returns a read side.
    pub fn future(&self) -> Future<T> {
        match self.spare.replace(false) {
            true => Future { object: self.object, value: PhantomData },
            false => Future::new(self.object),
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if self.spare.get() {
            context::release(Release::Future(self.object));
        }
        context::release(Release::Promise(self.object));
    }
}

/// The future of [`Promise::complete`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Complete {
    pending: Pending,
    promise: ObjectRef,
    value: Option<Value>,
}

impl std::future::Future for Complete {
    type Output = Result<(), TaskError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (promise, value) = (this.promise, &mut this.value);
        let kind = CallKind::CompletePromise;
        let polled = this.pending.poll(cx, kind, |port, at| match value.take() {
            Some(value) => port.complete_promise(promise, value, at),
            None => panic!("a completion was polled after it had returned"),
        });
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(port) => Poll::Ready(this.pending.done(port, kind)),
        }
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Promise({})", self.object.id)
    }
}

impl<T> Future<T> {
    fn new(object: ObjectRef) -> Future<T> {
        context::release(Release::RetainFuture(object));
        Future { object, value: PhantomData }
    }

    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }
}

impl<T> Clone for Future<T> {
    fn clone(&self) -> Future<T> {
        Future::new(self.object)
    }
}

impl<T> Drop for Future<T> {
    fn drop(&mut self) {
        context::release(Release::Future(self.object));
    }
}

impl<T> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Future({})", self.object.id)
    }
}

impl<T: Send + 'static> ExternalPromise<T> {
    /// The UUID of the promise, for use outside the program.
    pub fn uuid(&self) -> Uuid {
        self.handle.uuid
    }

    /// Settles the promise with a value, from any thread. The first answer counts.
    pub fn complete(&self, value: T) -> Result<Settlement, TaskError> {
        self.settle(Box::new(move || Ok(Value::new(value))))
    }

    /// Settles the promise with an error, from any thread.
    pub fn fail(&self, message: impl Into<String>) -> Result<Settlement, TaskError> {
        let error = TaskError::failed(message);
        self.settle(Box::new(move || Err(error)))
    }

    /// Returns a read side, for tasks of the run that made the promise.
    pub fn future(&self) -> Future<T> {
        Future::new(self.handle.object)
    }

    fn settle(&self, result: crate::host::inbox::Remote) -> Result<Settlement, TaskError> {
        self.handle.inbox.settle(self.handle.uuid, result)
    }
}

impl<T> Clone for ExternalPromise<T> {
    fn clone(&self) -> ExternalPromise<T> {
        ExternalPromise { handle: Arc::clone(&self.handle), value: PhantomData }
    }
}

impl<T> fmt::Debug for ExternalPromise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalPromise({})", self.handle.uuid)
    }
}

/// Creates a promise.
#[inline]
#[track_caller]
pub fn promise<T: 'static>() -> NewPromise<T> {
    NewPromise { pending: Pending::new(), value: PhantomData }
}

/// The future of [`promise`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct NewPromise<T> {
    pending: Pending,
    value: PhantomData<fn() -> T>,
}

impl<T: 'static> std::future::Future for NewPromise<T> {
    type Output = Promise<T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Promise<T>> {
        let this = self.get_mut();
        let kind = CallKind::CreatePromise;
        match this.pending.poll(cx, kind, |port, at| port.create_promise(at)) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(port) => match port.take_answer() {
                Reply::Object(object) => Poll::Ready(Promise::new(object)),
                reply => match this.pending.read::<Promise<T>, Direct>(reply, kind) {
                    Ok(promise) => Poll::Ready(promise),
                    Err(error) => throw(error),
                },
            },
        }
    }
}

/// Creates a promise that is settled from outside, from any thread or by its UUID.
///
/// ```
/// use tiffany::external_promise;
///
/// tiffany::try_run(async {
///     let promise = external_promise::<String>().await;
///     let settle = promise.clone();
///     std::thread::spawn(move || settle.complete("from a thread".into()));
///     assert_eq!(promise.future().await?, "from a thread");
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn external_promise<T: Send + 'static>() -> Call<ExternalPromise<T>> {
    // Its UUID is drawn when the call is made.
    Call::new(SystemCall::CreateExternalPromise(Uuid(0)))
}

impl<T> FromReply for ExternalPromise<T> {
    fn from_reply(reply: Reply) -> Result<ExternalPromise<T>, TaskError> {
        let host = context::with(|context| context.host());
        match (reply, host) {
            (Reply::External(_), _) if context::current().port.is_durable() => {
                let message = "the value of this promise cannot be recorded; \
                               use `tiffany::durable::external_promise`";
                Err(TaskError::new(ErrorKind::NotDurable, message))
            }
            (Reply::External(made), Some(host)) => {
                let (object, uuid) = *made;
                let inbox = Arc::clone(&host.inbox);
                let handle = Arc::new(ExternalHandle { object, uuid, inbox });
                Ok(ExternalPromise { handle, value: PhantomData })
            }
            _ => unexpected("external promise"),
        }
    }
}

impl<T: 'static> FromReply for Promise<T> {
    fn from_reply(reply: Reply) -> Result<Promise<T>, TaskError> {
        match reply {
            Reply::Object(object) => Ok(Promise::new(object)),
            _ => unexpected("promise"),
        }
    }
}
