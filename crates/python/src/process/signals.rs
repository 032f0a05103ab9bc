//! Ctrl-C and SIGTERM while a loop runs. The first signal asks the loop to end in an orderly way,
//! and no task receives an exception; the second one ends it at once. It doesn't depend on runs.

use std::cell::Cell;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use tiffany::binding;

use crate::process::{interpreter, session};
use crate::values::errors;

// Signal numbers on Linux.
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// The value for "no descriptor is woken by signals".
const NO_FD: i32 = -1;

/// The meaning of the next signal for the loop of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loop {
    /// No loop runs: the exception is raised wherever the thread is.
    None,
    /// The next signal asks the loop to end.
    Listens,
    /// The loop was asked to end; the next signal ends it at once.
    Asked,
}

/// The effect of the second signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    /// Raises the exception wherever the thread is, even inside a task.
    Raises,
    /// Ends the process like a crash, which durable runs survive. An exception in one of their
    /// tasks would run `finally` blocks.
    Exits,
}

thread_local! {
    static LOOP: Cell<(Loop, Second)> = const { Cell::new((Loop::None, Second::Raises)) };
}

/// The signal handler that Python calls.
#[pyfunction]
#[pyo3(signature = (number, frame = None))]
fn _on_signal(py: Python<'_>, number: i32, frame: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let _ = frame;
    drain();
    match LOOP.get() {
        (Loop::None, _) => Err(exception(number)),
        (Loop::Listens, second) => {
            LOOP.set((Loop::Asked, second));
            session::interrupt(exception(number));
            explain_soon(py)
        }
        (Loop::Asked, Second::Raises) => {
            session::interrupt(exception(number));
            Err(exception(number))
        }
        (Loop::Asked, Second::Exits) => {
            py.import("os")?.call_method1("_exit", (128 + number,)).map(drop)
        }
    }
}

/// How long a loop may take to end before a message says what it waits for.
const SILENCE: Duration = Duration::from_secs(1);

/// The number of watched loops that have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Prints what the loop waits for if ending takes long: a task that keeps its turn, or the cleanup.
fn explain_soon(py: Python<'_>) -> PyResult<()> {
    let thread = py.import("threading")?.call_method0("get_ident")?.extract::<u64>()?;
    let (ended, taken) = (ENDED.load(Ordering::Relaxed), session::interrupts_taken());
    let explain = move || {
        std::thread::sleep(SILENCE);
        if ENDED.load(Ordering::Relaxed) != ended {
            return;
        }
        interpreter::inside(|py| match session::interrupts_taken() == taken {
            true => errors::show_kept_turn(py, thread),
            false => errors::show_cleanup(py),
        });
    };
    let started = std::thread::Builder::new().name("tiffany-ctrl-c".into()).spawn(explain);
    // If no thread can be started, there is no message.
    drop(started);
    Ok(())
}

/// Returns the exception that a signal ends a program with.
fn exception(number: i32) -> PyErr {
    match number {
        SIGINT => PyKeyboardInterrupt::new_err(()),
        other => PySystemExit::new_err(128 + other),
    }
}

/// Routes Ctrl-C to the loop of this thread while it exists, unless the program has its own
/// handler.
pub(crate) struct Watch {
    was: (Loop, Second),
    /// Python handles signals only on its main thread.
    is_main: bool,
}

impl Watch {
    pub(crate) fn new(py: Python<'_>, second: Second) -> PyResult<Watch> {
        // Created first, so that everything below is undone if a later part fails.
        let mut watch = Watch { was: LOOP.replace((Loop::Listens, second)), is_main: false };
        let signal = signals(py)?;
        let fd = bell()?.1.as_raw_fd();
        drain();
        let Ok(was) = set_wakeup_fd(signal, fd) else { return Ok(watch) };
        watch.is_main = true;
        if was != NO_FD {
            // Another library already has the wakeup descriptor.
            set_wakeup_fd(signal, was)?;
        }
        swap(signal, SIGINT, &signal.getattr("default_int_handler")?, handler(py)?)?;
        Ok(watch)
    }
}

/// Calls a function that drives a loop. A signal that arrives meanwhile is raised afterwards.
pub(crate) fn watched<T>(
    py: Python<'_>,
    second: Second,
    act: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let watch = Watch::new(py, second)?;
    let done = act();
    drop(watch);
    match session::take_interrupt() {
        Some(error) => Err(error),
        None => done,
    }
}

/// Makes signals end the waits of a runtime.
pub(crate) fn wake(runtime: &tiffany::Runtime) -> PyResult<()> {
    Ok(binding::wake_by(runtime, bell()?.0.as_fd())?)
}

impl Drop for Watch {
    fn drop(&mut self) {
        LOOP.set(self.was);
        ENDED.fetch_add(1, Ordering::Relaxed);
        if !self.is_main {
            return;
        }
        let restored = Python::attach(|py| {
            let signal = signals(py)?;
            let_go_of_wakeup_fd(signal)?;
            swap(signal, SIGINT, handler(py)?, &signal.getattr("default_int_handler")?)
        });
        if let Err(error) = restored {
            Python::attach(|py| error.write_unraisable(py, None));
        }
    }
}

/// Called in a forked child, which has no loop: restores the default handling of signals.
pub(crate) fn forked(py: Python<'_>) -> PyResult<()> {
    LOOP.set((Loop::None, Second::Raises));
    let signal = signals(py)?;
    let_go_of_wakeup_fd(signal)?;
    let (ours, default) = (handler(py)?, signal.getattr("default_int_handler")?);
    swap(signal, SIGINT, ours, &default)?;
    swap(signal, SIGTERM, ours, &signal.getattr("SIG_DFL")?)
}

/// Replaces the handler of a signal, if the current handler is this one.
fn swap(
    signal: &Bound<'_, PyAny>,
    number: i32,
    from: &Bound<'_, PyAny>,
    to: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if signal.call_method1("getsignal", (number,))?.is(from) {
        signal.call_method1("signal", (number, to))?;
    }
    Ok(())
}

/// Gives up Python's wakeup descriptor, if it is ours.
fn let_go_of_wakeup_fd(signal: &Bound<'_, PyAny>) -> PyResult<()> {
    let was = set_wakeup_fd(signal, NO_FD)?;
    if was != bell()?.1.as_raw_fd() {
        set_wakeup_fd(signal, was)?;
    }
    Ok(())
}

/// Sets the descriptor to which Python writes a byte for every signal. Fails on other threads than
/// the main one.
fn set_wakeup_fd(signal: &Bound<'_, PyAny>, fd: i32) -> PyResult<i32> {
    let quiet = PyDict::new(signal.py());
    quiet.set_item("warn_on_full_buffer", false)?;
    signal.call_method("set_wakeup_fd", (fd,), Some(&quiet))?.extract()
}

/// The pipe to which Python writes for every signal, so that a signal that arrives just before the
/// loop starts to wait ends that wait.
fn bell() -> PyResult<&'static (PipeReader, PipeWriter)> {
    static BELL: OnceLock<(PipeReader, PipeWriter)> = OnceLock::new();
    if let Some(bell) = BELL.get() {
        return Ok(bell);
    }
    let (reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true).map_err(std::io::Error::from)?;
    rustix::io::ioctl_fionbio(&writer, true).map_err(std::io::Error::from)?;
    Ok(BELL.get_or_init(|| (reader, writer)))
}

/// Empties the pipe.
fn drain() {
    if let Ok((reader, _)) = bell() {
        let mut bytes = [0; 64];
        let mut reader: &PipeReader = reader;
        while matches!(reader.read(&mut bytes), Ok(read) if read == bytes.len()) {}
    }
}

fn signals(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static MODULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let module =
        MODULE.get_or_try_init(py, || Ok::<_, PyErr>(py.import("signal")?.into_any().unbind()))?;
    Ok(module.bind(py))
}

/// The Python object of the signal handler.
fn handler(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static HANDLER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let handler = HANDLER.get_or_try_init(py, || {
        let module = PyModule::new(py, "tiffany._core")?;
        module.add_function(wrap_pyfunction!(_on_signal, &module)?)?;
        Ok::<_, PyErr>(module.getattr("_on_signal")?.unbind())
    })?;
    Ok(handler.bind(py))
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_on_signal", handler(module.py())?)
}
