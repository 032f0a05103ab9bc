//! Progress, log lines, output and stages for readers of live events. Inside the function of a step
//! there is no task, so the same functions emit the event at once.

use pyo3::prelude::*;
use tiffany::pal::{LogLevel, Showing, Shown, Stage};

use super::{given, of};
use crate::calls::call::{Op, SystemCall};
use crate::durable::attempt;
use crate::values::argument;
use crate::values::errors::{Raise, TiffanyError};

/// Shows an event to watchers. `progress`, `log`, `output` and `stage` create this call.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Show;

#[pymethods]
impl Show {
    /// The stage of the event.
    #[getter]
    fn stage(slf: PyRef<'_, Self>) -> &'static str {
        given!(slf, Op::Show(shown) => shown.stage().name())
    }

    /// The message.
    #[getter]
    fn message(slf: PyRef<'_, Self>) -> String {
        given!(slf, Op::Show(shown) => shown.message.to_string())
    }

    /// The amount of work done, for progress.
    #[getter]
    fn done(slf: PyRef<'_, Self>) -> Option<u64> {
        given!(slf, Op::Show(shown) => match &shown.what {
            Showing::Progress { done, .. } => Some(*done),
            _ => None,
        })
    }

    /// The total amount of work, for progress, if known.
    #[getter]
    fn total(slf: PyRef<'_, Self>) -> Option<u64> {
        given!(slf, Op::Show(shown) => match &shown.what {
            Showing::Progress { total, .. } => *total,
            _ => None,
        })
    }

    /// The level, for a log line.
    #[getter]
    fn level(slf: PyRef<'_, Self>) -> Option<&'static str> {
        given!(slf, Op::Show(shown) => match &shown.what {
            Showing::Log(level) => Some(level.name()),
            _ => None,
        })
    }

    /// The stream, for output.
    #[getter]
    fn stream(slf: PyRef<'_, Self>) -> Option<String> {
        given!(slf, Op::Show(shown) => match &shown.what {
            Showing::Output(stream) => Some(stream.to_string()),
            _ => None,
        })
    }
}

/// Reports progress: how much is done and, if known, the total.
#[pyfunction]
#[pyo3(
    signature = (done, total = None, message = None),
    text_signature = "(done, total=None, message='')"
)]
fn progress<'py>(
    done: &Bound<'py, PyAny>,
    total: Option<&Bound<'py, PyAny>>,
    message: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, Show>> {
    let py = done.py();
    let total = total.map_or(Ok(None), argument::total)?;
    let message = message.map_or(Ok(String::new()), argument::message)?;
    show(py, Showing::Progress { done: argument::done(done)?, total }, message)
}

/// Logs a message with a level: "trace", "debug", "info", "warn" or "error".
#[pyfunction]
fn log<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = argument::level)] level: String,
    #[pyo3(from_py_with = argument::message)] message: String,
) -> PyResult<Bound<'py, Show>> {
    let level = LogLevel::parse(&level).ok_or_else(|| {
        let message =
            format!("`level` is `trace`, `debug`, `info`, `warn` or `error`, not {level:?}");
        TiffanyError::BadArgument.err(py, message)
    })?;
    show(py, Showing::Log(level), message)
}

/// Shows a piece of output on a stream, named "stdout", "stderr" or anything else.
#[pyfunction]
fn output<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = argument::stream)] stream: String,
    #[pyo3(from_py_with = argument::text)] text: String,
) -> PyResult<Bound<'py, Show>> {
    show(py, Showing::Output(stream.into()), text)
}

/// Reports that the task is now in this stage, such as "WaitingForLLM".
#[pyfunction]
#[pyo3(signature = (stage, message = None), text_signature = "(stage, message='')")]
fn stage<'py>(
    stage: &Bound<'py, PyAny>,
    message: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, Show>> {
    let (py, name) = (stage.py(), argument::stage::<String>(stage)?);
    let known = Stage::parse(&name).ok_or_else(|| {
        let all: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        let message = format!("there is no stage {name:?}; there are {}", all.join(", "));
        TiffanyError::BadArgument.err(py, message)
    })?;
    let message = message.map_or(Ok(String::new()), argument::message)?;
    show(py, Showing::Stage(known), message)
}

/// Creates the call. Inside a step, the event is emitted at once.
fn show(py: Python<'_>, what: Showing, message: String) -> PyResult<Bound<'_, Show>> {
    let shown = Shown { what, message: message.into() };
    let attempt = attempt::current(py)?;
    let call = Bound::new(py, of(Show, Op::Show(Box::new(shown.clone()))))?;
    if let Some(attempt) = attempt {
        call.as_super().get().made();
        attempt.get().show(py, shown);
    }
    Ok(call)
}

/// Adds these functions to the module.
pub(super) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(progress, module)?)?;
    module.add_function(wrap_pyfunction!(log, module)?)?;
    module.add_function(wrap_pyfunction!(output, module)?)?;
    module.add_function(wrap_pyfunction!(stage, module)?)
}
