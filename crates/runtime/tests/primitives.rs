//! The simulated means of synchronisation, where files of the crate that run on simulated threads look for the real ones.

pub(crate) use shuttle::sync::Mutex;
use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
