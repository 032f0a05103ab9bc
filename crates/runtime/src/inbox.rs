//! The way in from other threads: letters to the loop, and the bell that wakes it. The bell is rung at
//! most once for a burst of letters, and not at all while the loop is awake.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tiffany_kernel::{CallRef, RunId, TaskError, TaskRef, Uuid, Value};

use crate::reactor::Bell;

/// A result made on another thread. Values are shared within a thread only, so it becomes one here.
pub(crate) type Remote = Box<dyn FnOnce() -> Result<Value, TaskError> + Send>;

/// What another thread can tell the loop.
pub(crate) enum Letter {
    Wake(TaskRef),
    Settle(RunId, Uuid, Remote),
    Done(CallRef, Remote),
    Cancel(RunId),
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
        lock(&self.promises).insert(uuid, (run, Settled::No));
    }

    /// The run is over: its promises are unknown from now on.
    pub(crate) fn forget_run(&self, run: RunId) {
        lock(&self.promises).retain(|_, (owner, _)| *owner != run);
    }

    /// Settles a promise; `None` if there is none of that name.
    pub(crate) fn settle(&self, uuid: Uuid, result: Remote) -> Option<Settlement> {
        let mut promises = lock(&self.promises);
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

/// The protocol between senders and a reader that sleeps when there is nothing to read.
///
/// Sender: put the letter in, then raise the flag, then ring if the reader sleeps. Reader: say that it
/// sleeps, then look at the flag once more. One of the two sees the other, in every interleaving.
pub(crate) struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    mail: AtomicBool,
    asleep: AtomicBool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Mailbox<T> {
        Mailbox {
            letters: Mutex::new(Vec::new()),
            mail: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
        }
    }

    /// Puts a letter in. `true`: the reader sleeps, and this sender is the one to ring.
    pub(crate) fn send(&self, letter: T) -> bool {
        lock(&self.letters).push(letter);
        self.mail.store(true, Ordering::SeqCst);
        self.asleep.swap(false, Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Acquire)
    }

    /// Takes all letters out, in the order they came.
    pub(crate) fn read(&self, into: &mut Vec<T>) {
        self.mail.store(false, Ordering::SeqCst);
        into.append(&mut lock(&self.letters));
    }

    /// Says that the reader is about to sleep. `false`: there is mail, so it must not.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let none = !self.mail.load(Ordering::SeqCst);
        if !none {
            self.woke_up();
        }
        none
    }

    pub(crate) fn woke_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// A lock whose holder panicked is as good as any: no letter is ever half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
