//! The synchronization primitives that the mailbox uses. Its test replaces them with simulated
//! ones.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use tiffany_log::sync::Mutex;
use tiffany_log::sync::MutexGuard;

/// Locks a mutex. A poisoned one is used like any other, because nothing here is ever half written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
