//! The means of synchronisation that the mailbox is built on. Its test puts simulated ones in their place.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use tiffany_log::sync::Mutex;
use tiffany_log::sync::MutexGuard;

/// Locks a mutex. One whose holder panicked is as good as any: nothing in here is ever half written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
