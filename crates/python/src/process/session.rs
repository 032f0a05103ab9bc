//! What a running loop and the rest of the process know of each other: which runtimes there are, and what has to end one at once.

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
    /// The interpreter ends by this thread, whose own loops may still run.
    static ENDS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// How often this process was forked from another.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, among those that came from it by fork.
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

    /// Ends this process if it is a child that was forked from this one, and came back to its runtime.
    #[inline]
    pub(crate) fn end_if_forked(self) {
        if !self.is_current() {
            binding::end_forked_child();
        }
    }
}

/// Called by Python in the new process after every fork.
#[pyfunction]
pub(crate) fn forked(py: Python<'_>) {
    FORKS.fetch_add(1, Ordering::Relaxed);
    RUNNING.store(0, Ordering::Relaxed);
    binding::forked();
    // They belong to the other process. What they are made of must not be touched here.
    std::mem::forget(std::mem::take(&mut *lock()));
    if let Err(error) = signals::forked(py) {
        error.write_unraisable(py, None);
    }
}

/// Whether this process was forked from one that had imported this.
pub(crate) fn was_forked() -> bool {
    FORKS.load(Ordering::Relaxed) > 0
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

thread_local! {
    /// The process in which a loop runs on this thread.
    static LOOP: Cell<Option<Process>> = const { Cell::new(None) };
}

/// While this lives, a loop runs on this thread.
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

/// Loops that have the interpreter, or want it.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// The interpreter is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A loop does something without the interpreter, perhaps for ever.
pub(crate) fn pausing<R>(act: impl FnOnce() -> R) -> R {
    RUNNING.fetch_sub(1, Ordering::SeqCst);
    let result = act();
    RUNNING.fetch_add(1, Ordering::SeqCst);
    result
}

/// The interpreter is about to end: loops of other threads stop, as it would end these threads in the middle of Rust code. `true`: they
/// have.
pub(crate) fn end_loops() -> bool {
    ENDING.store(true, Ordering::SeqCst);
    ENDS_HERE.set(true);
    RUNNING.load(Ordering::SeqCst) <= 0
}

/// Whether loops of this thread stop because of that.
fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed) && !ENDS_HERE.get()
}

/// Whether this is inside a loop that was left behind in another process.
pub(crate) fn is_forked_inside() -> bool {
    LOOP.get().is_some_and(|process| !process.is_current())
}

/// The loop of this thread is to end with this exception.
pub(crate) fn interrupt(error: PyErr) {
    FATAL.with_borrow_mut(|fatal| {
        fatal.get_or_insert(error);
    });
}

/// Whether it is to end.
pub(crate) fn is_interrupted() -> bool {
    is_ending() || FATAL.with_borrow(Option::is_some)
}

/// What it is to end with.
pub(crate) fn take_interrupt() -> Option<PyErr> {
    let taken = FATAL.take();
    if taken.is_some() {
        TAKEN.fetch_add(1, Ordering::Relaxed);
    }
    taken.or_else(|| is_ending().then(|| PySystemExit::new_err(())))
}

/// How many loops of this process have noticed that they are to end.
pub(crate) fn interrupts_taken() -> u32 {
    TAKEN.load(Ordering::Relaxed)
}

static TAKEN: AtomicU32 = AtomicU32::new(0);
