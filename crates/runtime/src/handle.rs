//! Reaching a runtime from other threads.

use std::sync::Arc;

use tiffany_kernel::{ErrorKind, RunId, TaskError, Uuid, Value};

use crate::inbox::{Inbox, Letter, Settlement};

/// Reaches a runtime from any thread.
///
/// ```
/// use tiffany::{Runtime, external_promise};
///
/// let mut runtime = Runtime::new()?;
/// let handle = runtime.handle();
/// let answer = runtime.try_run(async move {
///     let promise = external_promise::<u32>().await;
///     let uuid = promise.uuid();
///     std::thread::spawn(move || handle.complete(uuid, 42u32));
///     promise.future().await
/// })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Clone)]
pub struct RuntimeHandle {
    inbox: Arc<Inbox>,
}

impl RuntimeHandle {
    pub(crate) fn new(inbox: Arc<Inbox>) -> RuntimeHandle {
        RuntimeHandle { inbox }
    }

    /// Completes an external promise by its UUID.
    pub fn complete<T: Send + 'static>(
        &self,
        uuid: Uuid,
        value: T,
    ) -> Result<Settlement, TaskError> {
        self.settle(uuid, Box::new(move || Ok(Value::new(value))))
    }

    /// Fails an external promise by its UUID.
    pub fn fail(&self, uuid: Uuid, message: impl Into<String>) -> Result<Settlement, TaskError> {
        let error = TaskError::failed(message);
        self.settle(uuid, Box::new(move || Err(error)))
    }

    /// Cancels all tasks of a run.
    pub fn cancel(&self, run: RunId) {
        self.inbox.send(Letter::Cancel(run));
    }

    fn settle(&self, uuid: Uuid, result: crate::inbox::Remote) -> Result<Settlement, TaskError> {
        self.inbox.settle(uuid, result).ok_or_else(|| {
            TaskError::new(ErrorKind::UnknownPromise, format!("there is no promise {uuid}"))
        })
    }
}
