//! Interrupting a workflow that keeps its turn: an exception that no `except Exception` catches is raised in the thread of
//! the loop. Whatever the code makes of it, a `finally` that makes calls included, its run forgets what it did in this
//! turn. This file has `unsafe` code because raising it is a function of the interpreter's C interface.

use std::ffi::c_long;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use tiffany::binding::{self, Interrupter};

pyo3::create_exception!(
    tiffany._core,
    TurnInterrupted,
    PyBaseException,
    "Raised in a workflow that kept its turn for longer than its run may. Let it pass."
);

thread_local! {
    /// It was raised in this thread since a turn last looked.
    static RAISED: Arc<AtomicBool> = Arc::default();
}

/// Interrupts code on the present thread.
pub(crate) fn interrupter(py: Python<'_>) -> PyResult<Interrupter> {
    let thread = thread_ident(py)?;
    let raised = RAISED.with(Arc::clone);
    Ok(Arc::new(move |goes_on| {
        // While this thread has the interpreter, the turn can't end.
        Python::try_attach(|py| {
            if goes_on() {
                raised.store(true, Ordering::Relaxed);
                raise_in(thread, py.get_type::<TurnInterrupted>().as_ptr());
            }
        });
    }))
}

/// Tells the runtime if code of this turn was interrupted. The exception may have been caught, or not raised yet.
#[inline]
pub(crate) fn note() -> bool {
    RAISED.with(|raised| raised.load(Ordering::Relaxed) && was_interrupted(raised))
}

#[cold]
fn was_interrupted(raised: &AtomicBool) -> bool {
    Python::attach(|py| {
        raised.store(false, Ordering::Relaxed);
        if let Ok(thread) = thread_ident(py) {
            // One that is still to be raised would hit another task.
            raise_in(thread, std::ptr::null_mut());
        }
    });
    binding::interrupted();
    true
}

fn thread_ident(py: Python<'_>) -> PyResult<c_long> {
    py.import("threading")?.call_method0("get_ident")?.extract()
}

/// Raises an exception of this class in a thread, or takes it back.
fn raise_in(thread: c_long, class: *mut pyo3::ffi::PyObject) {
    // SAFETY: the caller has the interpreter, and a class lives as long as the interpreter.
    unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread, class) };
}
