//! The most frequent calls as functions, which are faster than calling their classes. A call
//! without arguments is always the same object.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::{of, simple, tasks, time};
use crate::calls::call::Op;

/// Lets the other tasks run first.
#[pyfunction]
fn yield_now(py: Python<'_>) -> PyResult<&Py<simple::Yield>> {
    static YIELD: PyOnceLock<Py<simple::Yield>> = PyOnceLock::new();
    YIELD.get_or_try_init(py, || Py::new(py, of(simple::Yield, Op::Yield)))
}

/// Sleeps for this many seconds, on the run's clock.
#[pyfunction]
fn sleep<'py>(seconds: &Bound<'py, PyAny>) -> PyResult<Bound<'py, time::Sleep>> {
    Bound::new(seconds.py(), of(time::Sleep, Op::Sleep(crate::calls::time::duration(seconds)?)))
}

/// Starts a program as a task and returns its `Task`. A `daemon` task does not keep the run alive:
/// it is cancelled when all other tasks have finished.
#[pyfunction]
#[pyo3(
    signature = (program, handlers = None, *, name = None, priority = None, group = None, daemon = None),
    text_signature = "(program, handlers=None, *, name=None, priority=0, group=None, daemon=False)"
)]
fn spawn<'py>(
    program: Bound<'py, PyAny>,
    handlers: Option<Bound<'py, PyAny>>,
    name: Option<Bound<'py, PyAny>>,
    priority: Option<Bound<'py, PyAny>>,
    group: Option<Bound<'py, PyAny>>,
    daemon: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, tasks::Spawn>> {
    let py = program.py();
    let spawning = tasks::spawning(program, handlers, (name, priority, group, daemon))?;
    Bound::new(py, of(tasks::Spawn, Op::Spawn(Box::new(spawning))))
}

/// Waits for a task or a promise and returns its value.
#[pyfunction]
fn wait<'py>(waitable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, tasks::Wait>> {
    Bound::new(waitable.py(), of(tasks::Wait, tasks::waiting(waitable)?))
}

/// Adds these functions to the module.
pub(super) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(yield_now, module)?)?;
    module.add_function(wrap_pyfunction!(sleep, module)?)?;
    module.add_function(wrap_pyfunction!(spawn, module)?)?;
    module.add_function(wrap_pyfunction!(wait, module)?)
}
