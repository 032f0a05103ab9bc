//! Wakers. Most polls need none, because a system call is answered through the port. So tasks are
//! polled with one static waker that makes a real one only when a foreign future clones it.
//!
//! This file has `unsafe` code because a waker with such a `clone` can only be built from a vtable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{RawWaker, RawWakerVTable, Wake, Waker};

use tiffany_kernel::TaskRef;

use crate::calls::context;
use crate::host::inbox::{Inbox, LoopMessage};

/// The waker that every task is polled with.
// SAFETY: the functions of the vtable ignore the data pointer, work from any thread, and free nothing.
pub(crate) static TASK_WAKER: Waker =
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };

/// Whether a poll came directly from the task, and not through a combinator with wakers of its own.
#[inline]
pub(crate) fn is_task_waker(waker: &Waker) -> bool {
    std::ptr::eq(waker.vtable(), &raw const VTABLE)
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(make_waker, wake_self, wake_self, ignore);

/// Makes a real waker of the task being polled, because a foreign future keeps it.
fn make_waker(_: *const ()) -> RawWaker {
    let waker = context::with(|context| {
        let (task, host) = (context.port.task()?, context.host()?);
        let kept = context.own_waker.borrow().as_ref().and_then(|(_, waker)| waker.upgrade());
        if let Some(waker) = kept.filter(|waker| waker.task == task) {
            return Some(waker);
        }
        let waker = Arc::new(TaskWaker::new(task, Arc::clone(&host.inbox)));
        context.keep_own_waker(task, Arc::downgrade(&waker));
        Some(waker)
    });
    let waker = match waker {
        Some(waker) => Waker::from(waker),
        None => Waker::noop().clone(),
    };
    let raw = RawWaker::new(waker.data(), waker.vtable());
    std::mem::forget(waker);
    raw
}

/// Wakes the task being polled, because a foreign future woke it during the poll.
fn wake_self(_: *const ()) {
    let context = context::current();
    if !context.delivering.get() && context.port.task().is_some() {
        context.port.wake();
    }
}

fn ignore(_: *const ()) {}

/// Wakes one task from any thread.
pub(crate) struct TaskWaker {
    task: TaskRef,
    inbox: Arc<Inbox>,
    /// Whether a message is on its way, so that another one would be redundant.
    sent: AtomicBool,
}

impl TaskWaker {
    fn new(task: TaskRef, inbox: Arc<Inbox>) -> TaskWaker {
        TaskWaker { task, inbox, sent: AtomicBool::new(false) }
    }

    /// Called before the task is polled: the next wake sends a message again.
    pub(crate) fn rearm(&self) {
        self.sent.store(false, Ordering::Release);
    }
}

impl Drop for TaskWaker {
    /// Handles the drop of the last waker: nothing outside can wake the task any more. The run sees
    /// that when it becomes idle. If it is idle already, it must be told, because it may wait for
    /// nothing else.
    fn drop(&mut self) {
        let awake = context::current().port.run() == Some(self.task.run);
        if !awake && !*self.sent.get_mut() {
            self.inbox.send(LoopMessage::GivenUp(self.task.run));
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let context = context::current();
        let own = context.port.is_running(self.task);
        if own && !context.delivering.get() {
            context.port.wake();
        }
        if !own && !self.sent.swap(true, Ordering::AcqRel) {
            self.inbox.send(LoopMessage::Wake(self.task));
        }
    }
}
