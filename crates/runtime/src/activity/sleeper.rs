//! A waiting reader. It is shared by the code that lists it as waiting, the code that takes it off
//! the list, and the reader itself. It has a file of its own so that a test can run it on simulated
//! threads.

use std::task::Waker;

use crate::primitives::{AtomicBool, Mutex, Ordering, lock};

/// A reader that may wait.
pub(crate) struct Sleeper {
    /// Whether it is in a list of waiting readers, or on the way from there to be woken.
    listed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper { listed: AtomicBool::new(false), waker: Mutex::new(None) }
    }

    /// Notes that the reader waits now. Returns `true` if it is in no list yet.
    pub(crate) fn waits(&self, waker: &Waker) -> bool {
        let mut kept = lock(&self.waker);
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        drop(kept);
        !self.listed.swap(true, Ordering::SeqCst)
    }

    /// Wakes the reader, because there are new events for it.
    pub(crate) fn wake(&self) {
        // This comes first, because the woken reader may want to be in a list again.
        self.listed.store(false, Ordering::SeqCst);
        let waker = lock(&self.waker).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
