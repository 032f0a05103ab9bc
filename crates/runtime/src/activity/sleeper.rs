//! A reader that waits, between those who put it into a list, those who take it out, and itself. It stands alone so that a test can run it on simulated threads.

use std::task::Waker;

use crate::primitives::{AtomicBool, Mutex, Ordering, lock};

/// A reader that may wait.
pub(crate) struct Sleeper {
    /// It is in a list of those who wait, or on the way from there to be woken.
    listed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper { listed: AtomicBool::new(false), waker: Mutex::new(None) }
    }

    /// From now on it waits. `true`: it is in no list yet.
    pub(crate) fn waits(&self, waker: &Waker) -> bool {
        let mut kept = lock(&self.waker);
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        drop(kept);
        !self.listed.swap(true, Ordering::SeqCst)
    }

    /// It has something to read.
    pub(crate) fn wake(&self) {
        // First this: who is woken may want to be in a list again.
        self.listed.store(false, Ordering::SeqCst);
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
