//! Values that belong to one thread, inside objects that Python can pass to any thread.

use std::mem::ManuallyDrop;
use std::thread::ThreadId;

use pyo3::prelude::*;

use crate::process::session::Process;
use crate::values::errors::{Raise, TiffanyError};

/// A value that can only be used on the thread and in the process that created it.
pub(crate) struct OneThread<T> {
    thread: ThreadId,
    process: Process,
    value: ManuallyDrop<T>,
}

// SAFETY: the value is accessed only through `get` and `drop`, which check the thread first.
unsafe impl<T> Send for OneThread<T> {}
// SAFETY: the value is accessed only through `get` and `drop`, which check the thread first.
unsafe impl<T> Sync for OneThread<T> {}

impl<T> OneThread<T> {
    pub(crate) fn new(value: T) -> OneThread<T> {
        let (thread, process) = (std::thread::current().id(), Process::current());
        OneThread { thread, process, value: ManuallyDrop::new(value) }
    }

    /// Whether this is another process than the one that created it.
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    /// Returns the value, on its own thread in its own process.
    pub(crate) fn get(&self, py: Python<'_>, what: &str) -> PyResult<&T> {
        if self.is_forked() {
            let message = format!("this {what} was made in another process, which forked this one");
            return Err(TiffanyError::Forked.err(py, message));
        }
        if self.thread != std::thread::current().id() {
            let message = format!("this {what} was made on another thread");
            return Err(TiffanyError::WrongThread.err(py, message));
        }
        Ok(&self.value)
    }
}

impl<T> Drop for OneThread<T> {
    fn drop(&mut self) {
        // Dropping the value on another thread would be unsound, so it is leaked.
        if !self.is_forked() && self.thread == std::thread::current().id() {
            // SAFETY: the value is dropped once, here, on its own thread.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
