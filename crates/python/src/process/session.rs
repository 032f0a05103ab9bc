//! State shared between the running loops and the rest of the process: the runtimes, forks, and
//! exceptions that end a loop at once.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use tiffany::RuntimeHandle;
use tiffany::binding::{self, Release};

use crate::process::signals;

thread_local! {
    static FATAL: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Set on the thread that ends the interpreter, whose own loops may still run.
    static ENDS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// The number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Identifies a process among its forked children.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    #[inline]
    pub(crate) fn current() -> Process {
        Process(FORKS.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self == Process::current()
    }

    /// Ends the running process if it is a forked child of this one that returned into its runtime.
    #[inline]
    pub(crate) fn end_if_forked(self) {
        if !self.is_current() {
            binding::end_forked_child();
        }
    }
}

/// Called by Python in the child after every fork.
#[pyfunction]
pub(crate) fn forked(py: Python<'_>) {
    FORKS.fetch_add(1, Ordering::Relaxed);
    RUNNING.store(0, Ordering::Relaxed);
    binding::forked();
    // The handles belong to the parent and must not be dropped here.
    std::mem::forget(std::mem::take(&mut *lock()));
    if let Err(error) = signals::forked(py) {
        error.write_unraisable(py, None);
    }
}

/// Whether this process was forked from one that had imported this module.
pub(crate) fn was_forked() -> bool {
    FORKS.load(Ordering::Relaxed) > 0
}

/// The runtimes of this process.
static HANDLES: Mutex<Vec<(u64, RuntimeHandle)>> = Mutex::new(Vec::new());

/// Makes a runtime known to other threads while it exists.
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

/// Returns the runtimes of this process.
pub(crate) fn handles() -> Vec<RuntimeHandle> {
    lock().iter().map(|(_, handle)| handle.clone()).collect()
}

/// Releases a handle, on whichever thread it is dropped.
pub(crate) fn release(release: Release) {
    if !binding::release(release) {
        handles().iter().for_each(|handle| handle.release(release));
    }
}

thread_local! {
    /// The process that started the loop that runs on this thread.
    static LOOP: Cell<Option<Process>> = const { Cell::new(None) };
}

/// Marks this thread as running a loop while it exists.
pub(crate) struct Looping(Option<Process>);

impl Looping {
    pub(crate) fn new() -> Looping {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Looping(LOOP.replace(Some(Process::current())))
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        LOOP.set(self.0);
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether a Tiffany loop runs on this thread, so that the caller is inside a task.
#[pyfunction]
#[pyo3(name = "_is_looping")]
pub(crate) fn is_looping() -> bool {
    LOOP.get().is_some()
}

/// The number of loops that hold the interpreter or wait for it.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Whether the interpreter is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Does something without the interpreter inside a loop, for any length of time.
pub(crate) fn pausing<R>(act: impl FnOnce() -> R) -> R {
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    let result = act();
    RUNNING.fetch_add(1, Ordering::SeqCst);
    result
}

/// Tells the loops of other threads to stop, because the interpreter is about to end and would end
/// these threads in the middle of Rust code. Returns whether they have stopped.
pub(crate) fn end_loops() -> bool {
    ENDING.store(true, Ordering::SeqCst);
    ENDS_HERE.set(true);
    RUNNING.load(Ordering::SeqCst) <= 0
}

/// Whether the loops of this thread have to stop because the interpreter is ending.
fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed) && !ENDS_HERE.get()
}

/// Whether this code runs inside a loop that the parent process started before a fork.
pub(crate) fn is_forked_inside() -> bool {
    LOOP.get().is_some_and(|process| !process.is_current())
}

/// Tells the loop of this thread to end with this exception.
pub(crate) fn interrupt(error: PyErr) {
    FATAL.with_borrow_mut(|fatal| {
        fatal.get_or_insert(error);
    });
}

/// Whether the loop of this thread has to end.
pub(crate) fn is_interrupted() -> bool {
    is_ending() || FATAL.with_borrow(Option::is_some)
}

/// Takes the exception that the loop of this thread has to end with.
pub(crate) fn take_interrupt() -> Option<PyErr> {
    let taken = FATAL.take();
    if taken.is_some() {
        TAKEN.fetch_add(1, Ordering::Relaxed);
    }
    taken.or_else(|| is_ending().then(|| PySystemExit::new_err(())))
}

/// The number of interrupts that loops of this process have taken.
pub(crate) fn interrupts_taken() -> u32 {
    TAKEN.load(Ordering::Relaxed)
}

static TAKEN: AtomicU32 = AtomicU32::new(0);
