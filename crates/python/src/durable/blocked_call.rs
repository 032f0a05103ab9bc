//! Ends calls in which the main thread waits outside the interpreter, such as `time.sleep`. Python
//! ends such a call if a signal arrives whose handler raises an exception. The signal is SIGURG,
//! which is ignored by default and which hardly any program uses. A program's own handler is kept.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::durable::interrupt;

// The number on Linux.
const SIGURG: i32 = 23;

/// The handler that Python calls on the main thread.
#[pyfunction]
#[pyo3(signature = (number, frame = None))]
fn _on_wake(py: Python<'_>, number: i32, frame: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let _ = (number, frame);
    interrupt::raise_again(py)
}

fn handler(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static HANDLER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let handler = HANDLER.get_or_try_init(py, || {
        Ok::<_, PyErr>(wrap_pyfunction!(_on_wake, py)?.into_any().unbind())
    })?;
    Ok(handler.bind(py))
}

/// Installs the handler, so that calls of this thread can be ended. Returns false if it is not the
/// main thread, or if the program has a handler of its own.
pub(super) fn prepare(py: Python<'_>) -> PyResult<bool> {
    let signal = py.import("signal")?;
    let now = signal.call_method1("getsignal", (SIGURG,))?;
    if now.is(handler(py)?) {
        return is_main(py);
    }
    let is_unused = now.eq(signal.getattr("SIG_DFL")?)? || now.eq(signal.getattr("SIG_IGN")?)?;
    if !is_unused {
        return Ok(false);
    }
    match signal.call_method1("signal", (SIGURG, handler(py)?)) {
        Ok(_) => Ok(true),
        // Only the main thread can set handlers.
        Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends the call in which the main thread waits, if the handler is still installed.
pub(super) fn end(py: Python<'_>) -> PyResult<()> {
    let signal = py.import("signal")?;
    if !signal.call_method1("getsignal", (SIGURG,))?.is(handler(py)?) {
        return Ok(());
    }
    let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
    signal.call_method1("pthread_kill", (main, SIGURG)).map(drop)
}

fn is_main(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}
