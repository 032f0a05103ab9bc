//! Promises that are settled from outside and survive restarts. They are settled by UUID, with a
//! value that is durable before its acceptance is reported.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{
    Claim, ErrorKind, ObjectRef, Release, Reply, SystemCall, TaskError, Uuid, Waitable,
};

use crate::calls::call::{Call, FromReply, TryCall, unexpected};
use crate::calls::context;
use crate::calls::written::Written;

/// Creates a promise that is settled from outside by its UUID. The UUID is given out only after the
/// promise is durable, and is the same after a restart.
#[track_caller]
pub fn external_promise<T: Serialize + DeserializeOwned + 'static>() -> Call<DurablePromise<T>> {
    // Its UUID is drawn when the call is made.
    Call::new(SystemCall::CreateExternalPromise(Uuid(0)))
}

/// A promise of a durable run that is settled from outside.
pub struct DurablePromise<T> {
    object: ObjectRef,
    uuid: Uuid,
    value: PhantomData<fn() -> T>,
}

impl<T> DurablePromise<T> {
    pub(crate) fn of(object: ObjectRef, uuid: Uuid) -> DurablePromise<T> {
        DurablePromise { object, uuid, value: PhantomData }
    }

    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }

    /// The UUID by which the promise is settled.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }
}

impl<T: DeserializeOwned + 'static> DurablePromise<T> {
    /// Waits for its value. Several tasks may wait, and repeatedly.
    #[track_caller]
    pub fn wait(&self) -> TryCall<T, Written> {
        TryCall::new(SystemCall::Wait(Waitable::Future(self.object), Claim::Share))
    }
}

impl<T> Drop for DurablePromise<T> {
    fn drop(&mut self) {
        context::release(Release::Promise(self.object));
    }
}

impl<T> fmt::Debug for DurablePromise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurablePromise({})", self.uuid)
    }
}

impl<T> FromReply for DurablePromise<T> {
    fn from_reply(reply: Reply) -> Result<DurablePromise<T>, TaskError> {
        match reply {
            Reply::External(made) => {
                let (object, uuid) = *made;
                let promise = DurablePromise { object, uuid, value: PhantomData };
                match context::current().port.is_durable() {
                    true => Ok(promise),
                    false => Err(TaskError::new(
                        ErrorKind::NotDurable,
                        "a durable promise was created in a run that is not durable; use `tiffany::external_promise`",
                    )),
                }
            }
            _ => unexpected("external promise"),
        }
    }
}
