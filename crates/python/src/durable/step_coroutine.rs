//! A coroutine on the loop of asyncio that all async steps share, resumed under the eyes of the watchdog. One that keeps
//! the loop for too long is interrupted; a child that it forked ends where it would return to the loop.

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use tiffany::binding;

use crate::durable::attempt::{self, Attempt};
use crate::durable::interrupt;
use crate::session::Process;

/// What a task of that loop runs. Everything but resuming it is the coroutine's own.
#[pyclass(frozen, name = "_StepCoroutine", module = "tiffany._core")]
pub(super) struct StepCoroutine {
    coroutine: Py<PyAny>,
    /// The attempt that the task belongs to, if it is a step's.
    attempt: Option<Py<Attempt>>,
    process: Process,
}

impl StepCoroutine {
    #[inline]
    fn resume(
        &self,
        py: Python<'_>,
        resume: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let resume = || resume(self.coroutine.bind(py));
        let Some(attempt) = &self.attempt else {
            let resumed = resume();
            self.process.end_if_forked();
            return resumed;
        };
        interrupt::steps_are_here(py)?;
        let resumed = binding::resume_step(attempt.get().inner(), || {
            let resumed = resume();
            self.process.end_if_forked();
            resumed
        });
        match resumed {
            // Whatever it made of the interruption, unless it came to its end or lets others continue.
            Err(error) if interrupt::take() && !error.is_instance_of::<PyStopIteration>(py) => {
                Err(interrupt::error(py)?)
            }
            resumed => {
                interrupt::take();
                resumed
            }
        }
    }
}

#[pymethods]
impl StepCoroutine {
    fn send(&self, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = value.py();
        self.resume(py, |inner| Ok(inner.call_method1(intern!(py, "send"), (value,))?.unbind()))
    }

    #[pyo3(signature = (*args))]
    fn throw(&self, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = args.py();
        self.resume(py, |inner| Ok(inner.call_method1(intern!(py, "throw"), args)?.unbind()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.resume(py, |inner| Ok(inner.call_method0(intern!(py, "close"))?.unbind()))
    }

    /// What debuggers and asyncio itself want to know of a coroutine.
    fn __getattr__(&self, py: Python<'_>, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        self.coroutine.getattr(py, name)
    }
}

/// The coroutine of a task that is to be made in this context, or in the present one.
#[pyfunction]
#[pyo3(name = "_step_coroutine")]
pub(crate) fn step_coroutine(
    coroutine: Bound<'_, PyAny>,
    context: Option<&Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let py = coroutine.py();
    let attempt = match context {
        Some(context) => attempt::found_in(context)?,
        None => attempt::current(py)?,
    };
    let attempt = attempt.map(Bound::unbind);
    let coroutine = coroutine.unbind();
    let made = StepCoroutine { coroutine, attempt, process: Process::current() };
    Ok(Py::new(py, made)?.into_any())
}
