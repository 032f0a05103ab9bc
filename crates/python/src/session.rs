//! What a running loop and the rest of the process know of each other: which runtimes there are, and what has to end one at once.

use std::cell::RefCell;
use std::sync::Mutex;

use pyo3::prelude::*;
use tiffany::RuntimeHandle;
use tiffany::binding::{self, Release};

thread_local! {
    static FATAL: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The runtimes of this process.
static HANDLES: Mutex<Vec<(u64, RuntimeHandle)>> = Mutex::new(Vec::new());

/// While this lives, other threads find a runtime.
pub(crate) struct Registered(u64);

impl Registered {
    pub(crate) fn new(handle: RuntimeHandle) -> Registered {
        let mut handles = lock();
        let number = handles.last().map_or(1, |(last, _)| last + 1);
        handles.push((number, handle));
        Registered(number)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock().retain(|(number, _)| *number != self.0);
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<(u64, RuntimeHandle)>> {
    HANDLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// All runtimes of this process.
pub(crate) fn handles() -> Vec<RuntimeHandle> {
    lock().iter().map(|(_, handle)| handle.clone()).collect()
}

/// Gives a handle back, on whatever thread it is dropped.
pub(crate) fn release(release: Release) {
    if !binding::release(release) {
        handles().iter().for_each(|handle| handle.release(release));
    }
}

/// The loop of this thread is to end with this exception.
pub(crate) fn interrupt(error: PyErr) {
    FATAL.with_borrow_mut(|fatal| {
        fatal.get_or_insert(error);
    });
}

/// Whether it is to end.
pub(crate) fn is_interrupted() -> bool {
    FATAL.with_borrow(Option::is_some)
}

/// What it is to end with.
pub(crate) fn take_interrupt() -> Option<PyErr> {
    FATAL.take()
}
