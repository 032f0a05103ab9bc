//! The work of a step: a Python function, its arguments, and its encoded result or exception. This
//! file does not know where the function runs.

use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple, PyType};
use tiffany::durable::{Attempt, StepError};
use tiffany::{ErrorKind, TaskError, binding};

use crate::durable::{attempt, interrupt};
use crate::values::{errors, json};

/// The work of a step.
pub(super) struct Work {
    /// The name of the step.
    pub(super) name: &'static str,
    pub(super) function: Py<PyAny>,
    pub(super) given: Given,
    /// Exceptions after which the step is not retried.
    pub(super) no_retry: Py<PyAny>,
    /// Runs the function inside a transaction, for transactional steps: `transact(function,
    /// attempt, args, kwargs)` returns JSON.
    pub(super) transact: Option<Py<PyAny>>,
}

/// The arguments of the function.
pub(super) enum Given {
    /// Immutable arguments, which all attempts share.
    Same(Py<PyTuple>),
    /// Encoded arguments, decoded again for each attempt, because the function may change them.
    /// Positional, or as `inspect.BoundArguments`.
    Copied { json: Arc<str>, signature: Option<Py<PyAny>> },
}

/// Whether a value is immutable.
pub(super) fn is_constant(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBytes>()
}

type Arguments<'py> = (Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

impl Given {
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Arguments<'py>> {
        match self {
            Given::Same(args) => Ok((args.bind(py).clone(), None)),
            Given::Copied { json, signature } => {
                let named = json::decode(py, json)?.into_bound(py).cast_into::<PyDict>()?;
                let Some(signature) = signature else {
                    return Ok((PyTuple::new(py, named.values())?, None));
                };
                let bound = py.import("inspect")?.getattr("BoundArguments")?;
                let bound = bound.call1((signature, named))?;
                let args = bound.getattr("args")?.cast_into::<PyTuple>()?;
                Ok((args, Some(bound.getattr("kwargs")?.cast_into::<PyDict>()?)))
            }
        }
    }
}

impl Work {
    /// Calls the function and returns its value, or the coroutine of an `async def`.
    pub(super) fn call<'py>(
        &self,
        py: Python<'py>,
        attempt: &Bound<'py, attempt::Attempt>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (args, kwargs) = self.given.arguments(py)?;
        let function = self.function.bind(py);
        match &self.transact {
            Some(transact) => transact.bind(py).call1((function, attempt, args, kwargs)),
            None => function.call(args, kwargs.as_ref()),
        }
    }

    /// Makes an attempt on a thread.
    pub(super) fn attempt(&self, py: Python<'_>, attempt: Attempt) -> Result<String, StepError> {
        let attempted = || {
            let attempt = Bound::new(py, attempt::Attempt::new(attempt))?;
            let value = attempt::within(&attempt, || self.call(py, &attempt))?;
            match self.transact {
                // The value was recorded in the transaction, so it is encoded already.
                Some(_) => value.extract::<String>().map(Ok),
                None => Ok(self.result(&value)),
            }
        };
        attempted().unwrap_or_else(|error| Err(self.failed(py, &error)))
    }

    /// Makes an attempt of an `async def` on this thread, on its own event loop.
    pub(super) fn attempt_here(
        &self,
        py: Python<'_>,
        attempt: Attempt,
    ) -> Result<String, StepError> {
        let attempted = || {
            let attempt = Bound::new(py, attempt::Attempt::new(attempt))?;
            let coroutine = attempt::within(&attempt, || self.call(py, &attempt))?;
            let given = (coroutine, attempt::context(&attempt)?);
            let value = py.import("tiffany._aio.loop")?.call_method1("run_here", given)?;
            Ok(self.result(&value))
        };
        attempted().unwrap_or_else(|error| Err(self.failed(py, &error)))
    }

    /// Encodes the result of the function.
    pub(super) fn result(&self, value: &Bound<'_, PyAny>) -> Result<String, StepError> {
        // A value that cannot be encoded cannot be encoded next time either, so there is no retry.
        let py = value.py();
        let subject = || format!("the result of step `{}`", self.name);
        json::encode(value, subject).map_err(|error| {
            match interrupt::is_interruption(error.value(py)) {
                true => self.failed(py, &error),
                false => StepError::last(json::written(error.value(py), None)),
            }
        })
    }

    /// Returns the error for an async step that kept the event loop for too long.
    pub(super) fn interrupted(&self) -> StepError {
        let message = format!(
            "async step `{}` kept the loop that all async steps share for longer than a task may keep its turn",
            self.name
        );
        binding::worth_another_attempt(TaskError::new(ErrorKind::StepInterrupted, message))
    }

    /// Encodes the exception of the function and decides whether the step is retried.
    pub(super) fn failed(&self, py: Python<'_>, error: &PyErr) -> StepError {
        let exception = error.value(py);
        if is(py, error, "_InDoubt") {
            return StepError::in_doubt(
                exception.str().map_or("?".into(), |text| text.to_string()),
            );
        }
        if interrupt::is_interruption(exception) {
            return self.interrupted();
        }
        if is(py, error, "_Ended") {
            let text = exception.str().map_or("?".into(), |text| text.to_string());
            return binding::worth_another_attempt(ended_by(&text));
        }
        let written = match error.is_instance_of::<PyException>(py) {
            true => {
                say_where(py, error);
                json::written(exception, error.traceback(py).as_ref())
            }
            // An exception that would end the process or cancel a task must not do so in the run.
            false => ended_by(&errors::text(exception)),
        };
        let is_hopeless = exception.is_instance(self.no_retry.bind(py)).unwrap_or(false)
            || is(py, error, "OtherKeyError");
        match is_hopeless {
            true => StepError::last(written),
            false => binding::worth_another_attempt(written),
        }
    }
}

/// Returns the error of a step that was ended by a `BaseException`.
fn ended_by(text: &str) -> TaskError {
    TaskError::new(ErrorKind::StepFailed, format!("it was ended by {text}"))
}

/// Whether the class of an exception is in `tiffany.errors`.
fn is(py: Python<'_>, error: &PyErr, name: &'static str) -> bool {
    static CLASSES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let errors = CLASSES
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("tiffany.errors")?.into_any().unbind()));
    let class = errors.and_then(|errors| errors.bind(py).getattr(name));
    class.is_ok_and(|class| class.cast::<PyType>().is_ok_and(|class| error.is_instance(py, class)))
}

/// Adds the lines that an exception passed as a note, because its traceback is not recorded.
fn say_where(py: Python<'_>, error: &PyErr) {
    let mut lines = Vec::new();
    let mut next = error.traceback(py).map(Bound::into_any);
    while let Some(traceback) = next.filter(|traceback| !traceback.is_none()) {
        let line = (|| -> PyResult<String> {
            let code = traceback.getattr("tb_frame")?.getattr("f_code")?;
            let (file, name) = (code.getattr("co_filename")?, code.getattr("co_name")?);
            Ok(format!("  File \"{file}\", line {}, in {name}", traceback.getattr("tb_lineno")?))
        })();
        lines.extend(line);
        next = traceback.getattr("tb_next").ok();
    }
    if !lines.is_empty() {
        let from = lines.len().saturating_sub(SHOWN_LINES);
        let note = format!("raised in the step at\n{}", lines[from..].join("\n"));
        let _ = error.value(py).call_method1("add_note", (note,));
    }
}

/// How many of the innermost lines the note contains.
const SHOWN_LINES: usize = 8;
