//! Channels between tasks of one run.

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use tiffany_kernel::{ObjectRef, Release, Reply, SystemCall, TaskError, Value};

use crate::calls::call::{Call, Decode, FromReply, TryCall, typed, unexpected};
use crate::calls::context;

/// The sending side of a channel. The channel is closed when all clones are dropped.
pub struct Sender<T> {
    object: ObjectRef,
    value: PhantomData<Rc<T>>,
}

/// The receiving side of a channel. Clones share the messages, like the workers of a pool.
pub struct Receiver<T> {
    object: ObjectRef,
    value: PhantomData<Rc<T>>,
}

/// Creates a channel with this capacity; senders wait while it is full. With a capacity of zero, a
/// sender waits for its receiver.
///
/// ```
/// use tiffany::{channel, spawn};
///
/// tiffany::try_run(async {
///     let (sender, receiver) = channel::<u32>(1).await;
///     let producer = spawn(async move {
///         for n in 0..3 {
///             sender.send(n).await.unwrap();
///         }
///     })
///     .await;
///     let mut sum = 0;
///     while let Some(n) = receiver.receive().await? {
///         sum += n;
///     }
///     assert_eq!(sum, 3);
///     producer.await
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn channel<T: 'static>(capacity: usize) -> Call<(Sender<T>, Receiver<T>)> {
    Call::new(SystemCall::CreateChannel(Some(capacity)))
}

/// Creates a channel whose senders never wait.
#[track_caller]
pub fn unbounded_channel<T: 'static>() -> Call<(Sender<T>, Receiver<T>)> {
    Call::new(SystemCall::CreateChannel(None))
}

impl<T> Sender<T> {
    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }
}

impl<T> Receiver<T> {
    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }
}

impl<T: 'static> Sender<T> {
    /// Sends a message, and waits while the channel is full. Fails if the receiver is gone.
    #[track_caller]
    pub fn send(&self, message: T) -> TryCall<()> {
        TryCall::new(SystemCall::Send(self.object, Value::new(message)))
    }
}

impl<T: 'static> Receiver<T> {
    /// Receives the next message; `None` when all senders are gone.
    #[track_caller]
    pub fn receive(&self) -> TryCall<Option<T>, Received> {
        TryCall::new(SystemCall::Receive(self.object))
    }
}

/// The reply is a message, or says that there are no more.
pub struct Received;

impl<T: 'static> Decode<Option<T>> for Received {
    fn decode(reply: Reply) -> Result<Option<T>, TaskError> {
        match reply {
            Reply::Message(message) => typed(message.value).map(Some),
            Reply::Value(value) => typed(value).map(Some),
            Reply::Nothing => Ok(None),
            _ => unexpected("message"),
        }
    }
}

impl<T> FromReply for (Sender<T>, Receiver<T>) {
    fn from_reply(reply: Reply) -> Result<Self, TaskError> {
        match reply {
            Reply::Object(object) => {
                Ok((Sender { object, value: PhantomData }, Receiver { object, value: PhantomData }))
            }
            _ => unexpected("channel"),
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        context::release(Release::RetainSender(self.object));
        Sender { object: self.object, value: PhantomData }
    }
}

/// Clones receive from the same queue: each message goes to one of them.
impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        context::release(Release::RetainReceiver(self.object));
        Receiver { object: self.object, value: PhantomData }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        context::release(Release::Sender(self.object));
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        context::release(Release::Receiver(self.object));
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({})", self.object.id)
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({})", self.object.id)
    }
}
