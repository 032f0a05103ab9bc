//! Promises: the write side, the read side, and the kind that is settled from outside.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, ObjectRef, Release, Reply, SystemCall, TaskError, Uuid, Value};

use crate::call::{Call, FromReply, TryCall, unexpected};
use crate::context;
use crate::inbox::{Inbox, Settlement};

/// The write side of a promise: settle it once.
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
    value: PhantomData<Rc<T>>,
}

/// The read side of a promise. All clones see the same value.
pub struct Future<T> {
    object: ObjectRef,
    value: PhantomData<Rc<T>>,
}

/// A promise that is settled from outside: from any thread with this handle, or by its UUID.
pub struct ExternalPromise<T> {
    object: ObjectRef,
    uuid: Uuid,
    inbox: Arc<Inbox>,
    value: PhantomData<fn(T)>,
}

impl<T: 'static> Promise<T> {
    /// Settles the promise with a value. Settling it twice is an error, and the first value stays.
    #[track_caller]
    pub fn complete(&self, value: T) -> TryCall<()> {
        TryCall::new(SystemCall::CompletePromise(self.object, Value::new(value)))
    }

    /// Settles the promise with an error.
    #[track_caller]
    pub fn fail(&self, error: impl Into<TaskError>) -> TryCall<()> {
        TryCall::new(SystemCall::FailPromise(self.object, error.into()))
    }

    /// A read side.
    pub fn future(&self) -> Future<T> {
        Future::new(self.object)
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        context::release(Release::Promise(self.object));
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
    /// What the promise is called outside the program.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Settles the promise with a value, from any thread. The first answer wins.
    pub fn complete(&self, value: T) -> Result<Settlement, TaskError> {
        self.settle(Box::new(move || Ok(Value::new(value))))
    }

    /// Settles the promise with an error, from any thread.
    pub fn fail(&self, message: impl Into<String>) -> Result<Settlement, TaskError> {
        let error = TaskError::failed(message);
        self.settle(Box::new(move || Err(error)))
    }

    /// A read side, for tasks of the run that made the promise.
    pub fn future(&self) -> Future<T> {
        Future::new(self.object)
    }

    fn settle(&self, result: crate::inbox::Remote) -> Result<Settlement, TaskError> {
        self.inbox.settle(self.uuid, result).ok_or_else(|| {
            let message = format!("promise {} is gone with its run", self.uuid);
            TaskError::new(ErrorKind::UnknownPromise, message)
        })
    }
}

impl<T> Clone for ExternalPromise<T> {
    fn clone(&self) -> ExternalPromise<T> {
        let (object, uuid, inbox) = (self.object, self.uuid, Arc::clone(&self.inbox));
        ExternalPromise { object, uuid, inbox, value: PhantomData }
    }
}

impl<T> fmt::Debug for ExternalPromise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalPromise({})", self.uuid)
    }
}

/// A new promise.
#[track_caller]
pub fn promise<T: 'static>() -> Call<Promise<T>> {
    Call::new(SystemCall::CreatePromise)
}

/// A new promise that is settled from outside, from any thread or by its UUID.
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
    let host = context::with(|context| context.host());
    let uuid = host.map_or(Uuid(0), |host| host.entropy.uuid());
    Call::new(SystemCall::CreateExternalPromise(uuid))
}

impl<T> FromReply for ExternalPromise<T> {
    fn from_reply(reply: Reply) -> Result<ExternalPromise<T>, TaskError> {
        let host = context::with(|context| context.host());
        match (reply, host) {
            (Reply::External(made), Some(host)) => {
                let (object, uuid) = *made;
                let inbox = Arc::clone(&host.inbox);
                Ok(ExternalPromise { object, uuid, inbox, value: PhantomData })
            }
            _ => unexpected("external promise"),
        }
    }
}

impl<T: 'static> FromReply for Promise<T> {
    fn from_reply(reply: Reply) -> Result<Promise<T>, TaskError> {
        match reply {
            Reply::Object(object) => Ok(Promise { object, value: PhantomData }),
            _ => unexpected("promise"),
        }
    }
}
