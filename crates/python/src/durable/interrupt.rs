//! Interrupting a workflow that keeps its turn: an exception that no `except Exception` catches is raised in the thread of
//! the loop. This file has `unsafe` code because that is a function of the interpreter's C interface.

use std::ffi::c_long;
use std::sync::Arc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use tiffany::binding::Interrupter;

pyo3::create_exception!(
    tiffany._core,
    TurnInterrupted,
    PyBaseException,
    "Raised in a workflow that kept its turn for longer than its run may. Let it pass."
);

/// Interrupts code on the present thread.
pub(crate) fn interrupter(py: Python<'_>) -> PyResult<Interrupter> {
    let thread: c_long = py.import("threading")?.call_method0("get_ident")?.extract()?;
    Ok(Arc::new(move |goes_on| {
        // While this thread has the interpreter, the turn can't end.
        Python::try_attach(|py| {
            if goes_on() {
                raise_in(py, thread);
            }
        });
    }))
}

fn raise_in(py: Python<'_>, thread: c_long) {
    let class = py.get_type::<TurnInterrupted>();
    // SAFETY: this thread has the interpreter, and the class lives as long as the interpreter.
    unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread, class.as_ptr()) };
}

/// Whether an exception is that.
pub(crate) fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<TurnInterrupted>(py)
}
