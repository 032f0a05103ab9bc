//! Ctrl-C, and whatever else asks a program to end, while a loop runs. The first asks the loop to end in good order, and no task notices
//! where it stands; the second ends it at once. It knows nothing of runs.

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

/// Their numbers on Linux.
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Nobody is woken by signals.
const NO_FD: i32 = -1;

/// What the loop of a thread has to do with signals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loop {
    /// There is none: the exception is raised where the thread is.
    None,
    /// It is asked to end by the next one.
    Listens,
    /// It was asked to end, and the next one means it.
    Asked,
}

/// What the second one does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    /// It is raised where the thread is, and what a task makes of that does not matter.
    Raises,
    /// It ends the process as a crash does, which durable runs survive. Raised in one of their tasks, `finally` would act.
    Exits,
}

thread_local! {
    static LOOP: Cell<(Loop, Second)> = const { Cell::new((Loop::None, Second::Raises)) };
}

/// Called by Python for a signal.
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

/// After so long it is said what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// How many loops have ended that were asked to.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Says what is waited for, if that takes long: a task that keeps its turn, or the cleanup of all.
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
    // Without a thread to say it, it goes on in silence.
    drop(started);
    Ok(())
}

/// What a program ends with by a signal.
fn exception(number: i32) -> PyErr {
    match number {
        SIGINT => PyKeyboardInterrupt::new_err(()),
        other => PySystemExit::new_err(128 + other),
    }
}

/// While this lives, the loop of this thread is asked to end by Ctrl-C; unless the program has a handler of its own for that.
pub(crate) struct Watch {
    was: (Loop, Second),
    /// Python sees to signals on its main thread only.
    is_main: bool,
}

impl Watch {
    pub(crate) fn new(py: Python<'_>, second: Second) -> PyResult<Watch> {
        // Made first, so that what is done here is undone if the rest fails.
        let mut watch = Watch { was: LOOP.replace((Loop::Listens, second)), is_main: false };
        let signal = signals(py)?;
        let fd = bell()?.1.as_raw_fd();
        drain();
        let Ok(was) = set_wakeup_fd(signal, fd) else { return Ok(watch) };
        watch.is_main = true;
        if was != NO_FD {
            // Somebody else is woken already.
            set_wakeup_fd(signal, was)?;
        }
        swap(signal, SIGINT, &signal.getattr("default_int_handler")?, handler(py)?)?;
        Ok(watch)
    }
}

/// Does something that drives a loop. What asks it to end meanwhile is raised afterwards.
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

/// Lets signals end the waits of a loop.
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

/// Called in a forked child, which has no loop: signals do to it what they do to any process, and wake nobody.
pub(crate) fn forked(py: Python<'_>) -> PyResult<()> {
    LOOP.set((Loop::None, Second::Raises));
    let signal = signals(py)?;
    let_go_of_wakeup_fd(signal)?;
    let (ours, default) = (handler(py)?, signal.getattr("default_int_handler")?);
    swap(signal, SIGINT, ours, &default)?;
    swap(signal, SIGTERM, ours, &signal.getattr("SIG_DFL")?)
}

/// Lets another handler see to a signal, if this one does.
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

/// Nobody here is woken by signals any more. Somebody else may be.
fn let_go_of_wakeup_fd(signal: &Bound<'_, PyAny>) -> PyResult<()> {
    let was = set_wakeup_fd(signal, NO_FD)?;
    if was != bell()?.1.as_raw_fd() {
        set_wakeup_fd(signal, was)?;
    }
    Ok(())
}

/// Where a byte is written for every signal. An error: this is not the main thread.
fn set_wakeup_fd(signal: &Bound<'_, PyAny>, fd: i32) -> PyResult<i32> {
    let quiet = PyDict::new(signal.py());
    quiet.set_item("warn_on_full_buffer", false)?;
    signal.call_method("set_wakeup_fd", (fd,), Some(&quiet))?.extract()
}

/// A pipe into which Python writes for every signal, so that one that comes just before the loop begins to wait ends that wait.
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

/// Makes room for more.
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

/// The one function that Python calls.
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
