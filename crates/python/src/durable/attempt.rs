//! `Attempt`: information about the current attempt for the function of a step, and actions in it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use serde_json::value::RawValue;
use tiffany::binding;
use tiffany::durable::StepError;
use tiffany::pal::Shown;

use crate::process::interpreter;
use crate::process::session::Process;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{errors, json};

/// One attempt at a step. Inside the step's function, `attempt()` returns it.
#[pyclass(frozen, module = "tiffany")]
pub(crate) struct Attempt {
    inner: tiffany::durable::Attempt,
    process: Process,
    /// How often the attempt's code was interrupted on the event loop that async steps share.
    interruptions: AtomicU32,
    /// The waker of the future that waits for the attempt's result, if that runs on the shared
    /// event loop.
    waker: OnceLock<Waker>,
}

/// The number of interruptions after which an attempt gets no more turns, because it would block
/// the other steps forever.
const MAX_INTERRUPTIONS: u32 = 3;

impl Attempt {
    pub(super) fn inner(&self) -> &tiffany::durable::Attempt {
        &self.inner
    }

    pub(super) fn new(inner: tiffany::durable::Attempt) -> Attempt {
        let (interruptions, waker) = (AtomicU32::new(0), OnceLock::new());
        Attempt { inner, process: Process::current(), interruptions, waker }
    }

    /// Counts an interruption of the attempt's code.
    pub(super) fn interrupt(&self) {
        self.interruptions.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the attempt's code was interrupted too often to get another turn.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.interruptions.load(Ordering::Relaxed) >= MAX_INTERRUPTIONS
    }

    /// Sets the waker of the future that waits for the attempt's result.
    pub(super) fn set_waker(&self, waker: &Waker) {
        drop(self.waker.set(waker.clone()));
    }

    /// Wakes the future that waits for the attempt's result.
    pub(super) fn wake(&self) {
        self.waker.get().into_iter().for_each(Waker::wake_by_ref);
    }

    /// Emits a live event.
    pub(crate) fn show(&self, py: Python<'_>, shown: Shown) {
        interpreter::without(py, || binding::show(&self.inner, shown));
    }
}

fn raised(py: Python<'_>, error: &StepError) -> PyErr {
    errors::to_python(py, error.error())
}

#[pymethods]
impl Attempt {
    /// The key of the step: the same for all attempts, and unique to this step. Pass it to a
    /// service that accepts idempotency keys.
    #[getter]
    fn key(&self) -> &str {
        self.inner.key()
    }

    /// The number of the attempt, from 1. It keeps counting after a restart.
    #[getter]
    fn number(&self) -> u64 {
        self.inner.number()
    }

    /// The name of the step.
    #[getter]
    fn step(&self) -> &'static str {
        self.inner.step_name()
    }

    /// A random number drawn when the run was started.
    #[getter]
    fn birth(&self) -> u64 {
        self.inner.birth()
    }

    /// Whether the run no longer waits for this attempt. A function on a thread cannot be stopped,
    /// but it can check this from time to time.
    #[getter]
    fn is_given_up(&self) -> bool {
        self.inner.is_given_up()
    }

    /// The key as a request header.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (name, value) = self.inner.idempotency_header();
        let headers = PyDict::new(py);
        headers.set_item(name, value)?;
        Ok(headers)
    }

    /// The environment for a program that this step starts: that of this process, with the key and
    /// the number of the attempt.
    #[getter]
    fn environ<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let environ = py.import("os")?.getattr("environ")?.call_method0("copy")?;
        for (name, value) in self.inner.command("").get_envs() {
            environ.set_item(name, value)?;
        }
        Ok(environ)
    }

    /// Reports that the work is still in progress, as the step's `heartbeat` option requires.
    fn heartbeat(&self) {
        self.inner.heartbeat();
    }

    /// Returns the last checkpoint of an earlier attempt, or the default.
    #[pyo3(signature = (default = None))]
    fn last_checkpoint(&self, py: Python<'_>, default: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let kept = self.inner.last_checkpoint::<Box<RawValue>>();
        match kept.map_err(|error| raised(py, &error))? {
            Some(kept) => json::decode(py, kept.get()),
            None => Ok(default.unwrap_or_else(|| py.None())),
        }
    }

    /// Saves a value for later attempts, and waits until it is durable in the log.
    fn checkpoint(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        if !self.process.is_current() {
            let message = "a checkpoint was made in a child of the process that makes this attempt";
            return Err(TiffanyError::Forked.err(py, message));
        }
        let kept = json::raw(value, || "a checkpoint".into())?;
        let kept = interpreter::without(py, || self.inner.checkpoint(&kept));
        kept.map_err(|error| raised(py, &error))
    }

    /// Passes a partial result of the step to the runtime's `on_chunk`. It is not recorded.
    fn chunk(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let shown = json::raw(value, || "a chunk".into())?;
        self.inner.chunk(&shown).map_err(|error| raised(value.py(), &error))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.inner)
    }
}

/// The context variable that has the current attempt of a thread or an asyncio task.
fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let variable = VARIABLE.get_or_try_init(py, || {
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        Ok::<_, PyErr>(class.call1(("tiffany.attempt",))?.unbind())
    })?;
    Ok(variable.bind(py))
}

/// Calls a function in a context that has this attempt.
pub(super) fn within<'py>(
    attempt: &Bound<'py, Attempt>,
    call: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let variable = variable(attempt.py())?;
    let token = variable.call_method1("set", (attempt,))?;
    let result = call();
    variable.call_method1("reset", (token,))?;
    result
}

/// Returns a context that has this attempt.
pub(super) fn context<'py>(attempt: &Bound<'py, Attempt>) -> PyResult<Bound<'py, PyAny>> {
    let py = attempt.py();
    let context = py.import("contextvars")?.call_method0("Context")?;
    context.call_method1("run", (variable(py)?.getattr("set")?, attempt))?;
    Ok(context)
}

/// Returns the attempt of a context, if it has one.
pub(super) fn found_in<'py>(context: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, Attempt>>> {
    let found = context.call_method1("get", (variable(context.py())?,))?;
    Ok(found.cast_into::<Attempt>().ok())
}

/// Returns the attempt that this thread or asyncio task executes, if any.
pub(crate) fn current(py: Python<'_>) -> PyResult<Option<Bound<'_, Attempt>>> {
    let found = variable(py)?.call_method1("get", (py.None(),))?;
    Ok(found.cast_into::<Attempt>().ok())
}

/// Returns the current attempt. Outside a step it is an error.
#[pyfunction]
pub(crate) fn attempt(py: Python<'_>) -> PyResult<Py<PyAny>> {
    match variable(py)?.call_method0("get") {
        Ok(attempt) => attempt.into_py_any(py),
        Err(error) if error.is_instance_of::<PyLookupError>(py) => {
            let message = "`attempt()` was called outside a step; call it in the function of one";
            Err(TiffanyError::OutsideTask.err(py, message))
        }
        Err(error) => Err(error),
    }
}
