//! Reaching a runtime from other threads.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;
use tiffany_kernel::{ErrorKind, RunId, TaskError, Uuid, Value};

use crate::activity::hub::Hub;
use crate::calls::context;
use crate::control::Control;
use crate::control::read_metrics;
use crate::control::turns::long_turns;
use crate::host::Host;
use crate::host::inbox::{Inbox, LoopMessage};
use crate::host::tell::Tell;
use crate::metrics::Source;
use tiffany_log::Growth;
use tiffany_records::metrics::Snapshot;
use tiffany_records::request::{Answer, LongTurn, Request, Settlement};

/// The handle of the runtime that runs this task, to be given to other threads. It is not a call:
/// the task keeps its turn. Outside a task there is none, and that is an error.
///
/// ```
/// use tiffany::{external_promise, handle};
///
/// let answer = tiffany::try_run(async {
///     let promise = external_promise::<u32>().await;
///     let (handle, uuid) = (handle()?, promise.uuid());
///     std::thread::spawn(move || handle.complete(uuid, 42u32));
///     promise.future().await
/// })?;
/// assert_eq!(answer, 42);
/// assert_eq!(handle().unwrap_err().code(), "TFY0004");
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn handle() -> Result<RuntimeHandle, TaskError> {
    let at = Location::caller();
    let host = context::with(|context| context.port.task().and_then(|_| context.host()));
    host.map(|host| RuntimeHandle::new(&host)).ok_or_else(|| {
        let mut error =
            TaskError::new(ErrorKind::OutsideTask, "`handle` was called outside a task");
        error.add_call("handle", at);
        error
    })
}

/// Reaches a runtime from any thread. There is one from [`Runtime::handle`](crate::runtime::Runtime::handle), and inside a
/// task from [`handle`].
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
    hub: Hub,
}

impl fmt::Debug for RuntimeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RuntimeHandle")
    }
}

impl RuntimeHandle {
    pub(crate) fn new(host: &Host) -> RuntimeHandle {
        RuntimeHandle { inbox: Arc::clone(&host.inbox), hub: host.hub.clone() }
    }

    /// What the runs of the runtime are doing, for those who watch.
    pub fn activity(&self) -> Hub {
        self.hub.wake();
        self.hub.clone()
    }

    /// Reports when there is more in the file of a durable run, for code that reads it with a
    /// [`Follower`](tiffany_log::Follower). Create it before the first read, so that nothing is
    /// missed in between.
    pub fn growth(&self, run: Uuid) -> Growth {
        self.inbox.followers.follow(run)
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
        self.inbox.send(LoopMessage::Cancel(run));
    }

    /// Settles a promise of a durable run by its UUID, with a serializable value or an error, and
    /// waits until that is durable in the log. The runtime must be driven on another thread
    /// meanwhile.
    pub fn settle_durable(
        &self,
        uuid: Uuid,
        result: Result<&impl Serialize, String>,
    ) -> Result<Settlement, TaskError> {
        match result {
            Ok(value) => self.control().settle(uuid, value),
            Err(message) => self.control().fail(uuid, message),
        }
    }

    /// Everything else that can be asked of the durable runs of this runtime.
    pub fn control(&self) -> Control {
        Control::with_hub(Arc::clone(&self.inbox), self.activity())
    }

    /// Makes the loop look up, if it waits: it then asks whether it is [still wanted](crate::runtime::Runtime::serve_while).
    pub fn nudge(&self) {
        // No run has this number, so nothing else comes of it.
        self.inbox.send(LoopMessage::GivenUp(RunId(0)));
    }

    /// Asks for anything, and is called back with the answer: on the thread of the loop, which must not be kept waiting, or on this one if the
    /// request is refused at once. If the runtime goes before it has answered, the callback is dropped.
    ///
    /// ```
    /// use tiffany::Runtime;
    /// use tiffany::control::{Answer, Request};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-ask-{}", std::process::id()));
    /// let mut runtime = Runtime::builder().log_dir(&dir).build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// runtime.handle().ask(Request::Status, move |answer| drop(tell.send(answer)));
    /// let answer = std::cell::RefCell::new(None);
    /// runtime.serve_while(|_| {
    ///     *answer.borrow_mut() = told.try_recv().ok();
    ///     answer.borrow().is_none()
    /// })?;
    /// assert!(matches!(answer.take(), Some(Ok(Answer::Status(status))) if status.live == 0));
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask(
        &self,
        request: Request,
        answered: impl FnOnce(Result<Answer, TaskError>) + Send + 'static,
    ) {
        self.inbox.ask(request, Tell::by(answered));
    }

    /// Refuses every change that clients ask for from now on, through the control socket or with [`ask`](RuntimeHandle::ask),
    /// with [`Unreachable`](ErrorKind::Unreachable). Requests that wait for the loop are refused too. What the program
    /// itself asks for with [`control`](RuntimeHandle::control) is still done, so that its steps can finish.
    pub fn refuse_changes(&self) {
        self.inbox.refuse_changes();
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn settle(
        &self,
        uuid: Uuid,
        result: crate::host::inbox::Remote,
    ) -> Result<Settlement, TaskError> {
        self.inbox.settle(uuid, result)
    }
}

impl RuntimeHandle {
    /// Returns the metrics of the runtime. If the loop does not report its own figures in time, its
    /// last report is used: `tiffany_metrics_age_seconds` is the age of that report.
    ///
    /// ```
    /// use tiffany::Runtime;
    ///
    /// let mut runtime = Runtime::new()?;
    /// let handle = runtime.handle();
    /// runtime.run(async {})?;
    /// let text = std::thread::spawn(move || handle.metrics().to_string()).join().unwrap();
    /// assert!(text.contains("tiffany_runs_started_total{kind=\"ephemeral\"} 1\n"));
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn metrics(&self) -> Snapshot {
        read_metrics(self.inbox())
    }

    /// Adds your own metrics to those of the runtime.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tiffany::Runtime;
    /// use tiffany::metrics::{Family, Kind, Reading};
    ///
    /// let runtime = Runtime::new()?;
    /// runtime.handle().add_metrics(Arc::new(|| {
    ///     let mut mails = Family::new("mails_total", Kind::Counter, "Mails that were sent.");
    ///     mails.add(&[], Reading::Value(3.0));
    ///     vec![mails]
    /// }));
    /// assert_eq!(runtime.metrics().value("mails_total", &[]), Some(3.0));
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn add_metrics(&self, source: Source) {
        self.inbox().meters.sources.lock().push(source);
    }
}

impl RuntimeHandle {
    /// The last turns that the [watchdog](crate::runtime::builder::Builder::watchdog) reported, the oldest first. The loop is not asked.
    pub fn long_turns(&self) -> Vec<LongTurn> {
        long_turns(self.inbox())
    }
}
