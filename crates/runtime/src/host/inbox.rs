//! The inbox: messages from other threads to the loop, and the bell that wakes it. The bell is rung
//! at most once for a burst of messages, and not at all while the loop is awake.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tiffany_kernel::{CallRef, ErrorKind, Release, RunId, TaskError, TaskRef, Uuid, Value};
use tiffany_records::request::{Request, Settlement};

use crate::host::attempt::Tried;
use crate::host::checkpoint::Receipt;
use crate::host::external::Promises;
use crate::host::mailbox::Mailbox;
use crate::host::reactor::Bell;
use crate::host::slots::Slot;
use crate::host::step_watch::StepWatch;
use crate::host::tell::{Tell, TellOutcome};
use crate::metrics::meters::Meters;
use tiffany_log::sync::{Mutex, MutexGuard};
use tiffany_log::{Followers, Notice};

/// A result made on another thread. Values can't move between threads, so it becomes one on the
/// loop's thread.
pub(crate) type Remote = Box<dyn FnOnce() -> Result<Value, TaskError> + Send>;

/// A message from another thread to the loop.
pub(crate) enum LoopMessage {
    Wake(TaskRef),
    Settle(RunId, Uuid, Remote),
    /// A request to the runtime; it is answered when the answer is durable.
    Request(Request, Tell),
    /// A request from a client of the process. A process that is ending refuses changes.
    ClientRequest(Request, Tell),
    /// Another thread waits for the outcome of a durable run.
    Await(Uuid, TellOutcome),
    Done(CallRef, Remote),
    /// The result of the attempt with this number at a step, and the slot it had.
    Attempted(CallRef, u64, Tried, Option<Slot>),
    /// A checkpoint of the attempt with this number.
    Checkpoint(CallRef, u64, String, Receipt),
    Cancel(RunId),
    Release(Release),
    /// A notice of the log thread.
    Logged(Notice),
    /// A reader wants the metrics.
    Measure,
    /// The last waker of a task of this run was dropped.
    GivenUp(RunId),
}

/// Messages from any thread, read by one loop.
pub(crate) struct Inbox {
    mailbox: Mailbox<LoopMessage>,
    bell: Bell,
    promises: Mutex<Promises>,
    /// Meters, for readers on other threads.
    pub(crate) meters: Arc<Meters>,
    /// The watch over async steps, if there is a watchdog.
    pub(crate) step_watch: OnceLock<StepWatch>,
    /// The clients that follow the files of runs.
    pub(crate) followers: Arc<Followers>,
    /// Whether clients may make no more changes, because the process is ending.
    refuses_changes: AtomicBool,
    /// Whether the loop does blocking work itself, in a simulation.
    works_inline: AtomicBool,
    /// Whether the runtime is gone, so that nothing reads the inbox any more.
    closed: AtomicBool,
}

impl Inbox {
    pub(crate) fn new(bell: Bell) -> Inbox {
        Inbox {
            mailbox: Mailbox::new(),
            bell,
            promises: Mutex::default(),
            meters: Arc::default(),
            step_watch: OnceLock::new(),
            followers: Arc::default(),
            refuses_changes: AtomicBool::new(false),
            works_inline: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Has the loop do blocking work itself from now on.
    pub(crate) fn work_inline(&self) {
        self.works_inline.store(true, Ordering::Relaxed);
    }

    /// Whether the loop does blocking work itself, so that this work can't wait for the loop.
    pub(crate) fn works_inline(&self) -> bool {
        self.works_inline.load(Ordering::Relaxed)
    }

    /// Refuses changes by clients from now on, also those that the loop has not read yet.
    pub(crate) fn refuse_changes(&self) {
        self.refuses_changes.store(true, Ordering::SeqCst);
    }

    /// Accepts a request of a client, unless it must be refused.
    pub(crate) fn ask(&self, request: Request, tell: Tell) {
        if let Some((request, tell)) = self.admit(request, tell) {
            self.send(LoopMessage::ClientRequest(request, tell));
        }
    }

    /// Returns the request of a client, unless it is a change and the process is ending: then the
    /// client is told.
    pub(crate) fn admit(&self, request: Request, tell: Tell) -> Option<(Request, Tell)> {
        if request.only_looks() || !self.refuses_changes.load(Ordering::SeqCst) {
            return Some((request, tell));
        }
        tell.tell(Err(process_ends()));
        None
    }

    /// Closes the inbox, because the runtime is gone. Unread messages stay unread.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.empty();
    }

    fn empty(&self) {
        let mut unread = Vec::new();
        self.mailbox.read(&mut unread);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn send(&self, letter: LoopMessage) {
        if self.mailbox.send(letter) {
            self.bell.ring();
        }
        // The runtime is gone: dropping the message tells the sender.
        if self.is_closed() {
            self.empty();
        }
    }

    /// The external promises of all runs.
    pub(crate) fn promises(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock()
    }

    /// Settles a promise whose value is not recorded.
    pub(crate) fn settle(&self, uuid: Uuid, result: Remote) -> Result<Settlement, TaskError> {
        let mut promises = self.promises.lock();
        if promises.is_durable(uuid) == Some(true) {
            let message = format!(
                "promise {uuid} is durable; settle it with `settle_durable` and a serializable value"
            );
            return Err(TaskError::new(ErrorKind::NotDurable, message));
        }
        let (run, settlement) = promises.claim(uuid, None, false).ok_or_else(|| unknown(uuid))?;
        // An answer that comes too late is sent nevertheless, so that the run counts it. It is sent
        // under the lock, so that the accepted one arrives first.
        self.send(LoopMessage::Settle(run, uuid, result));
        Ok(settlement)
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.mailbox.has_mail()
    }

    pub(crate) fn read(&self, into: &mut Vec<LoopMessage>) {
        self.mailbox.read(into);
    }

    pub(crate) fn may_sleep(&self) -> bool {
        self.mailbox.may_sleep()
    }

    pub(crate) fn woke_up(&self) {
        self.mailbox.woke_up();
    }
}

/// The error for a promise that is unknown, or forgotten.
pub(crate) fn unknown(uuid: Uuid) -> TaskError {
    TaskError::new(ErrorKind::UnknownPromise, format!("there is no promise {uuid}"))
}

/// The error for a change that is refused because the process is ending.
pub(crate) fn process_ends() -> TaskError {
    let message = "the process is ending and begins nothing new; ask again when it is back";
    TaskError::new(ErrorKind::Unreachable, message)
}
