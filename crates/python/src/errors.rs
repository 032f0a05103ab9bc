//! Errors on their way between Python and the kernel. The classes are in `python/tiffany/errors.py`, found by their code; an exception
//! of a task reaches those who wait for it as the same object.

use pyo3::exceptions::{PyBaseException, PyKeyboardInterrupt, PyRuntimeError, PySystemExit};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTraceback, PyType};
use tiffany::{ErrorKind, RunError, TaskError};

/// Errors that this crate makes itself, by the kind they have in the kernel.
pub(crate) use tiffany::ErrorKind as TiffanyError;

/// Makes an exception of a kind.
pub(crate) trait Raise {
    fn err(self, py: Python<'_>, message: impl Into<String>) -> PyErr;
}

impl Raise for ErrorKind {
    #[cold]
    fn err(self, py: Python<'_>, message: impl Into<String>) -> PyErr {
        to_python(py, &TaskError::new(self, message))
    }
}

/// An exception as it was when its task ended, with the traceback it had.
struct Raised {
    exception: Py<PyBaseException>,
    traceback: Option<Py<PyTraceback>>,
}

/// An error of the kernel inside an exception, so that it is the same again when the exception ends a task.
#[pyclass(frozen, name = "_Error", module = "tiffany._core")]
pub(crate) struct ErrorBox(TaskError);

/// The exception that a task gets for an error.
#[cold]
pub(crate) fn to_python(py: Python<'_>, error: &TaskError) -> PyErr {
    if let Some(raised) = error.origin::<Raised>() {
        let exception = raised.exception.bind(py);
        // Each who waits adds its own frames to the traceback that the task left.
        set_traceback(exception, raised.traceback.as_ref().map(|traceback| traceback.bind(py)));
        return PyErr::from_value(exception.clone().into_any());
    }
    if let Some(exception) = error.detail().and_then(|detail| crate::json::exception(py, detail)) {
        let _ =
            exception.bind(py).setattr("_error", ErrorBox(error.clone()).into_pyobject(py).ok());
        return PyErr::from_value(exception.into_bound(py));
    }
    let made = class(py, error.code()).and_then(|class| class.call1((error.to_string(),)));
    match made {
        Ok(exception) => {
            let _ = exception.setattr("_error", ErrorBox(error.clone()).into_pyobject(py).ok());
            PyErr::from_value(exception)
        }
        Err(error) => error,
    }
}

/// The error that a task ends with by an exception.
#[cold]
pub(crate) fn from_python(py: Python<'_>, error: &PyErr) -> TaskError {
    let exception = error.value(py);
    let known = exception.getattr("_error").ok();
    let known = known.and_then(|known| known.cast_into::<ErrorBox>().ok());
    let error_of_kernel = match known {
        Some(known) => known.get().0.clone(),
        None => {
            let failed = TaskError::failed(text(exception));
            match tiffany::binding::is_durable() {
                true => match crate::json::exception_text(py, exception) {
                    Some(detail) => failed.with_detail(detail),
                    None => failed,
                },
                false => failed,
            }
        }
    };
    let traceback = error.traceback(py).map(Bound::unbind);
    error_of_kernel.with_origin(Raised { exception: exception.clone().unbind(), traceback })
}

/// The error that a task ends with by an exception that nobody in it caught. Until somebody gets it, the exception is without its traceback:
/// that has frames, a frame may have the handle of a task, and the task this exception; Python would not see the circle.
#[cold]
pub(crate) fn uncaught(py: Python<'_>, error: &PyErr) -> TaskError {
    let ended = from_python(py, error);
    set_traceback(error.value(py), None);
    ended
}

/// An exception of another task that is being raised in this one.
pub(crate) struct Delivered {
    exception: Py<PyBaseException>,
    traceback: Py<PyTraceback>,
}

impl Delivered {
    #[cold]
    pub(crate) fn new(py: Python<'_>, error: &PyErr) -> Option<Delivered> {
        let traceback = error.traceback(py)?.unbind();
        Some(Delivered { exception: error.value(py).clone().unbind(), traceback })
    }

    /// It was caught: it loses the frames of those who caught it, for the same reason.
    #[cold]
    pub(crate) fn caught(self, py: Python<'_>) {
        set_traceback(self.exception.bind(py), Some(self.traceback.bind(py)));
    }

    /// Whether it is this one.
    pub(crate) fn is(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.exception.is(error.value(py))
    }
}

/// An error unless this can be raised.
pub(crate) fn check_exception(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if object.is_instance_of::<PyBaseException>() {
        return Ok(());
    }
    let name = object.get_type().name()?.to_string();
    let message = format!("`{name}` cannot be raised; a promise fails with an exception");
    Err(ErrorKind::BadArgument.err(object.py(), message))
}

/// Gives an exception this traceback.
pub(crate) fn set_traceback(
    exception: &Bound<'_, PyBaseException>,
    traceback: Option<&Bound<'_, PyTraceback>>,
) {
    let none = exception.py().None();
    let traceback = traceback.map_or(none.as_ptr(), |traceback| traceback.as_ptr());
    // SAFETY: both are valid objects, and the second is a traceback or None.
    unsafe { ffi::PyException_SetTraceback(exception.as_ptr(), traceback) };
}

/// An exception as the last line of a traceback shows it.
pub(crate) fn text(exception: &Bound<'_, PyBaseException>) -> String {
    let class = exception.get_type();
    let name = class.name().map_or_else(|_| "exception".into(), |name| name.to_string());
    match exception.str().map(|text| text.to_string()) {
        Ok(text) if text.is_empty() => name,
        Ok(text) => format!("{name}: {text}"),
        Err(_) => format!("{name}, which cannot be shown"),
    }
}

/// The exception that a run ends with.
#[cold]
pub(crate) fn run_error(py: Python<'_>, error: &RunError) -> PyErr {
    match error.task_error() {
        Some(error) => to_python(py, error),
        None => match class(py, error.code()).and_then(|class| class.call1((error.to_string(),))) {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        },
    }
}

/// Says what to do about an exception that comes from elsewhere and does not know that it is in a task.
#[cold]
pub(crate) fn explain(py: Python<'_>, error: &PyErr) {
    let exception = error.value(py);
    if error.is_instance_of::<PyRuntimeError>(py) && text(exception).ends_with(NO_LOOP) {
        let note = "tiffany: this is a task of tiffany, not of asyncio; give the coroutine to asyncio: \
                    `await aio(coro)` or `yield Aio(coro)`";
        let _ = exception.call_method1("add_note", (note,));
    }
}

/// What asyncio says where it does not run.
const NO_LOOP: &str = "no running event loop";

/// Exceptions that are not a task's business: they end the run.
pub(crate) fn ends_the_run(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

fn class<'py>(py: Python<'py>, code: &str) -> PyResult<Bound<'py, PyAny>> {
    static OF_CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let of_code = OF_CODE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("tiffany.errors")?.getattr("of_code")?.unbind())
    })?;
    of_code.bind(py).call1((code,))
}

/// What a cancelled task gets at its yield.
pub(crate) fn cancelled(py: Python<'_>) -> PyErr {
    match cancelled_class(py).and_then(|class| class.call0()) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Whether it is that.
pub(crate) fn is_cancelled(py: Python<'_>, error: &PyErr) -> bool {
    cancelled_class(py).is_ok_and(|class| error.is_instance(py, class))
}

fn cancelled_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "tiffany.errors", "Cancelled")
}

/// A failure that nobody waited for.
pub(crate) fn show_unobserved(py: Python<'_>, error: &TaskError) {
    let text = format!("tiffany: a task failed and nobody waited for it: {error}\n");
    let stderr = py.import("sys").and_then(|sys| sys.getattr("stderr"));
    if stderr.and_then(|stderr| stderr.call_method1("write", (text.as_str(),))).is_err() {
        eprint!("{text}");
    }
}
