//! The way in from other threads: letters to the loop, and the bell that wakes it. The bell is rung at
//! most once for a burst of letters, and not at all while the loop is awake.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use tiffany_kernel::{CallRef, Release, RunId, TaskError, TaskRef, Uuid, Value};

use crate::mailbox::Mailbox;
use crate::reactor::Bell;

/// A result made on another thread. Values are shared within a thread only, so it becomes one here.
pub(crate) type Remote = Box<dyn FnOnce() -> Result<Value, TaskError> + Send>;

/// What another thread can tell the loop.
pub(crate) enum Letter {
    Wake(TaskRef),
    Settle(RunId, Uuid, Remote),
    Done(CallRef, Remote),
    Cancel(RunId),
    Release(Release),
    /// The last waker of a task of this run is gone.
    GivenUp(RunId),
}

/// Letters from any thread, read by one loop.
pub(crate) struct Inbox {
    mailbox: Mailbox<Letter>,
    bell: Bell,
    /// The external promises of all runs, and whether each was settled.
    promises: Mutex<BTreeMap<Uuid, (RunId, Settled)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    No,
    Yes,
}

/// What came of settling an external promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It was the first answer, and is the one that counts.
    Accepted,
    /// The promise had its answer already; this one was counted and dropped.
    Ignored,
}

impl Inbox {
    pub(crate) fn new(bell: Bell) -> Inbox {
        Inbox { mailbox: Mailbox::new(), bell, promises: Mutex::new(BTreeMap::new()) }
    }

    pub(crate) fn send(&self, letter: Letter) {
        if self.mailbox.send(letter) {
            self.bell.ring();
        }
    }

    /// From now on this promise may be settled.
    pub(crate) fn announce(&self, uuid: Uuid, run: RunId) {
        self.promises.lock().insert(uuid, (run, Settled::No));
    }

    /// The run is over: its promises are unknown from now on.
    pub(crate) fn forget_run(&self, run: RunId) {
        self.promises.lock().retain(|_, (owner, _)| *owner != run);
    }

    /// Settles a promise; `None` if there is none of that name.
    pub(crate) fn settle(&self, uuid: Uuid, result: Remote) -> Option<Settlement> {
        let mut promises = self.promises.lock();
        let (run, settled) = promises.get_mut(&uuid)?;
        let before = std::mem::replace(settled, Settled::Yes);
        // An answer that comes too late is sent all the same: the run counts it. Sent under the lock, so
        // that the one accepted here is the first to arrive.
        self.send(Letter::Settle(*run, uuid, result));
        Some(match before {
            Settled::No => Settlement::Accepted,
            Settled::Yes => Settlement::Ignored,
        })
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.mailbox.has_mail()
    }

    pub(crate) fn read(&self, into: &mut Vec<Letter>) {
        self.mailbox.read(into);
    }

    pub(crate) fn may_sleep(&self) -> bool {
        self.mailbox.may_sleep()
    }

    pub(crate) fn woke_up(&self) {
        self.mailbox.woke_up();
    }
}
