//! The way in from other threads: letters to the loop, and the bell that wakes it. The bell is rung at
//! most once for a burst of letters, and not at all while the loop is awake.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tiffany_kernel::{CallRef, ErrorKind, Release, RunId, TaskError, TaskRef, Uuid, Value};

use crate::control::{Request, Tell};
use crate::durable::{Receipt, Tried};
use crate::lock::Mutex;
use crate::mailbox::Mailbox;
use crate::metrics::Meters;
use crate::reactor::Bell;
use crate::wal::{Followers, Notice};

/// A result made on another thread. Values are shared within a thread only, so it becomes one here.
pub(crate) type Remote = Box<dyn FnOnce() -> Result<Value, TaskError> + Send>;

/// What another thread can tell the loop.
pub(crate) enum Letter {
    Wake(TaskRef),
    Settle(RunId, Uuid, Remote),
    /// Something is asked of the runtime; the answer comes when it is safe.
    Request(Request, Tell),
    Done(CallRef, Remote),
    /// What came of the attempt of this number at a step.
    Attempted(CallRef, u64, Tried),
    /// The work of the attempt of this number wants to find this again.
    Checkpoint(CallRef, u64, String, Receipt),
    Cancel(RunId),
    Release(Release),
    /// The log thread has something to tell.
    Logged(Notice),
    /// Somebody reads the metrics.
    Measure,
    /// The last waker of a task of this run is gone.
    GivenUp(RunId),
}

/// Letters from any thread, read by one loop.
pub(crate) struct Inbox {
    mailbox: Mailbox<Letter>,
    bell: Bell,
    /// The external promises of all runs; those that a fork has in common with its parent with the number of the fork.
    promises: Mutex<BTreeMap<(Uuid, Option<RunId>), External>>,
    /// What is counted, for who reads it from other threads.
    pub(crate) meters: Arc<Meters>,
    /// Who follows the files of runs.
    pub(crate) followers: Arc<Followers>,
    /// Nobody will ever read it again.
    closed: AtomicBool,
}

/// An external promise, as far as the outside has to know it.
struct External {
    run: RunId,
    settled: bool,
    /// Its value has to be written down.
    durable: bool,
}

impl External {
    /// From now on it counts as settled.
    fn claim(&mut self) -> Settlement {
        match std::mem::replace(&mut self.settled, true) {
            false => Settlement::Accepted,
            true => Settlement::Ignored,
        }
    }
}

/// What came of settling an external promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// It was the first answer, and is the one that counts.
    Accepted,
    /// The promise had its answer already; this one was counted and dropped.
    Ignored,
}

impl Inbox {
    pub(crate) fn new(bell: Bell) -> Inbox {
        Inbox {
            mailbox: Mailbox::new(),
            bell,
            promises: Mutex::new(BTreeMap::new()),
            meters: Arc::default(),
            followers: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// The runtime is gone: what is in here is not read any more.
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

    pub(crate) fn send(&self, letter: Letter) {
        if self.mailbox.send(letter) {
            self.bell.ring();
        }
        // Nobody reads it any more: whoever waits for an answer is told by its being dropped.
        if self.is_closed() {
            self.empty();
        }
    }

    /// From now on this promise may be settled.
    pub(crate) fn announce(&self, uuid: Uuid, run: RunId, durable: bool) {
        self.promises.lock().insert((uuid, None), External { run, settled: false, durable });
    }

    /// The same for one that a fork has in common with its parent: who settles it has to name the fork.
    pub(crate) fn announce_shared(&self, uuid: Uuid, run: RunId) {
        let promise = External { run, settled: false, durable: true };
        self.promises.lock().insert((uuid, Some(run)), promise);
    }

    /// The run is over: its promises are unknown from now on.
    pub(crate) fn forget_run(&self, run: RunId) {
        self.promises.lock().retain(|_, promise| promise.run != run);
    }

    /// Of a run's promises that are settled, only these may be asked for again.
    pub(crate) fn keep_promises(&self, run: RunId, kept: &BTreeSet<Uuid>) {
        self.promises.lock().retain(|(uuid, _), promise| {
            promise.run != run || !promise.settled || kept.contains(uuid)
        });
    }

    /// Whether there is such a promise, and if so, whether it is durable.
    pub(crate) fn knows(&self, uuid: Uuid) -> Option<bool> {
        self.promises.lock().get(&(uuid, None)).map(|promise| promise.durable)
    }

    /// Settles a promise.
    pub(crate) fn settle(&self, uuid: Uuid, result: Remote) -> Result<Settlement, TaskError> {
        let mut promises = self.promises.lock();
        let promise = promises.get_mut(&(uuid, None)).ok_or_else(|| unknown(uuid))?;
        if promise.durable {
            let message = format!(
                "promise {uuid} is durable; settle it with `settle_durable`, by a value that can be written down"
            );
            return Err(TaskError::new(ErrorKind::NotDurable, message));
        }
        let settlement = promise.claim();
        // An answer that comes too late is sent all the same: the run counts it. Sent under the lock, so
        // that the one accepted here is the first to arrive.
        self.send(Letter::Settle(promise.run, uuid, result));
        Ok(settlement)
    }

    /// The run of a promise, and what comes of settling it now; only a durable one where there is a log. One that a fork has in
    /// common with its parent is the fork's only if that is named.
    pub(crate) fn claim(
        &self,
        uuid: Uuid,
        of: Option<RunId>,
        has_log: bool,
    ) -> Option<(RunId, Settlement)> {
        let mut promises = self.promises.lock();
        let shared = of.map(|run| (uuid, Some(run))).filter(|key| promises.contains_key(key));
        let promise = promises
            .get_mut(&shared.unwrap_or((uuid, None)))
            .filter(|promise| of.is_none_or(|run| promise.run == run))
            .filter(|promise| promise.durable || !has_log)?;
        Some((promise.run, promise.claim()))
    }

    /// The forks that have a promise in common with their parent.
    pub(crate) fn sharing(&self, uuid: Uuid) -> Vec<RunId> {
        let promises = self.promises.lock();
        let of = |run| (uuid, Some(RunId(run)));
        promises.range(of(0)..=of(u32::MAX)).map(|(_, promise)| promise.run).collect()
    }

    /// Promises that are not settled, and their runs.
    pub(crate) fn open_promises(&self) -> Vec<(Uuid, RunId)> {
        let promises = self.promises.lock();
        let open = promises.iter().filter(|(_, promise)| !promise.settled);
        open.map(|((uuid, _), promise)| (*uuid, promise.run)).collect()
    }

    /// How many promises are not settled.
    pub(crate) fn open_promise_count(&self) -> usize {
        self.promises.lock().values().filter(|promise| !promise.settled).count()
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

/// The error for a promise that is not known, or not any more.
pub(crate) fn unknown(uuid: Uuid) -> TaskError {
    TaskError::new(ErrorKind::UnknownPromise, format!("there is no promise {uuid}"))
}
