//! Interrupts Python code that keeps the loop for too long: an exception that no `except Exception`
//! catches is raised in the thread of the loop, and raised again whenever code catches it. Whatever
//! a workflow does with it, even in a `finally` that makes calls, its run forgets what it did in
//! this turn. Where the interpreter drops exceptions, as in `__del__`, it is raised again in the
//! surrounding code. This file has `unsafe` code because an exception is raised in another thread
//! through the C API.

use std::cell::Cell;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use tiffany::binding::{self, Interrupter};

use crate::durable::{blocked_call, step_loop};
use crate::process::session::Process;

/// The exception. Catching it creates an instance, and creating an instance raises it again, so
/// even a loop that catches everything is left.
fn turn_interrupted(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let body = PyDict::new(py);
        body.set_item("__module__", "tiffany._core")?;
        body.set_item(
            "__doc__",
            "Raised in code that kept a loop for longer than it may. Let it pass.",
        )?;
        // Not a Python function, in which it would be raised at once.
        body.set_item("__init__", wrap_pyfunction!(caught, py)?)?;
        let bases = (py.get_type::<PyBaseException>(),);
        let class = py.get_type::<PyType>().call1(("TurnInterrupted", bases, body))?;
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py))
}

/// Called when code catches the exception. It is raised again until the turn has ended.
#[pyfunction]
#[pyo3(signature = (*_args))]
fn caught(py: Python<'_>, _args: &Bound<'_, PyTuple>) -> PyResult<()> {
    if RAISED.with(|raised| raised.load(Ordering::Relaxed)) {
        // A callback of the event loop has ended when asyncio itself catches the exception.
        if are_steps_here() && !step_loop::is_in_callback(py)? {
            take();
        } else {
            raise_in(thread_ident(), turn_interrupted(py)?.as_ptr());
        }
    }
    Ok(())
}

thread_local! {
    /// Whether the exception was raised in this thread since a turn last checked.
    static RAISED: Arc<AtomicBool> = Arc::default();
}

/// Interrupts the code on the current thread.
pub(crate) fn interrupter(py: Python<'_>) -> PyResult<Interrupter> {
    let ends_calls = blocked_call::prepare(py)?;
    interrupter_where(py, ends_calls, |_, _| Ok(true))
}

/// Raises the exception on this thread if its code was interrupted and has not been left.
pub(super) fn raise_again(py: Python<'_>) -> PyResult<()> {
    match RAISED.with(|raised| raised.load(Ordering::Relaxed)) {
        true => Err(PyErr::from_type(turn_interrupted(py)?.clone(), ())),
        false => Ok(()),
    }
}

/// Interrupts the code on the current thread where that is safe.
fn interrupter_where(
    py: Python<'_>,
    ends_calls: bool,
    is_possible: fn(Python<'_>, c_long) -> PyResult<bool>,
) -> PyResult<Interrupter> {
    let (thread, class) = (thread_ident(), turn_interrupted(py)?.clone().unbind());
    let raised = RAISED.with(Arc::clone);
    Ok(Arc::new(move |goes_on| {
        // While this thread holds the interpreter, the turn cannot end.
        Python::try_attach(|py| {
            let is_possible = || {
                is_possible(py, thread).unwrap_or_else(|error| {
                    error.write_unraisable(py, None);
                    false
                })
            };
            if goes_on() && is_possible() && goes_on() {
                raised.store(true, Ordering::Relaxed);
                if let Err(error) = take_unraisable_hook(py) {
                    error.write_unraisable(py, None);
                }
                raise_in(thread, class.as_ptr());
                if ends_calls && let Err(error) = blocked_call::end(py) {
                    error.write_unraisable(py, None);
                }
            }
        });
    }))
}

/// The program's `sys.unraisablehook` while ours replaces it.
static HOOK: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

fn hook_of_program() -> MutexGuard<'static, Option<Py<PyAny>>> {
    HOOK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the interpreter pass dropped exceptions to [`unraisable`]. Its own hook runs Python code, in
/// which the next exception would be raised and dropped too.
fn take_unraisable_hook(py: Python<'_>) -> PyResult<()> {
    let sys = py.import("sys")?;
    let (ours, theirs) = (wrap_pyfunction!(unraisable, py)?, sys.getattr("unraisablehook")?);
    let mut hook = hook_of_program();
    if hook.is_none() {
        *hook = Some(theirs.unbind());
        drop(hook);
        sys.setattr("unraisablehook", ours)?;
    }
    Ok(())
}

fn give_back_unraisable_hook(py: Python<'_>) {
    let hook = hook_of_program().take();
    let give = |hook| py.import("sys")?.setattr("unraisablehook", hook);
    if let Some(Err(error)) = hook.map(give) {
        error.write_unraisable(py, None);
    }
}

/// Called with a dropped exception. That of an interruption is raised again in the surrounding
/// code.
#[pyfunction]
fn unraisable(dropped: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = dropped.py();
    let class = turn_interrupted(py)?;
    if dropped.getattr("exc_type")?.is(class) {
        if RAISED.with(|raised| raised.load(Ordering::Relaxed)) {
            raise_in(thread_ident(), class.as_ptr());
        }
        return Ok(());
    }
    let hook = hook_of_program().as_ref().map(|hook| hook.clone_ref(py));
    hook.map_or(Ok(()), |hook| hook.call1(py, (dropped,)).map(drop))
}

/// Interrupts code on the thread of the event loop that async steps share.
static STEPS: Mutex<Option<Interrupter>> = Mutex::new(None);

thread_local! {
    /// The process in which this is the thread of that event loop.
    static STEPS_ARE_HERE: Cell<Option<Process>> = const { Cell::new(None) };
}

/// Marks the current thread as the one of async steps.
#[inline]
pub(super) fn steps_are_here(py: Python<'_>) -> PyResult<()> {
    if !are_steps_here() {
        let interrupter = interrupter_where(py, false, step_loop::runs_callback)?;
        *STEPS.lock().unwrap_or_else(PoisonError::into_inner) = Some(interrupter);
        STEPS_ARE_HERE.set(Some(Process::current()));
    }
    Ok(())
}

/// Whether async steps run on the current thread.
#[inline]
pub(super) fn are_steps_here() -> bool {
    STEPS_ARE_HERE.get().is_some_and(Process::is_current)
}

/// Interrupts code on that thread, which may not exist yet.
pub(crate) fn step_interrupter() -> Interrupter {
    Arc::new(|goes_on| {
        let steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        steps.iter().for_each(|interrupt| interrupt(goes_on));
    })
}

/// Whether code on this thread was interrupted since the last call. The exception may have been
/// caught, or not raised yet.
#[inline]
pub(super) fn take() -> bool {
    RAISED.with(|raised| raised.load(Ordering::Relaxed) && was_raised(raised))
}

/// Ends an interruption of this thread if the interrupted code has been left.
#[inline]
pub(super) fn end_at(py: Python<'_>, is_left: fn(Python<'_>) -> PyResult<bool>) {
    if RAISED.with(|raised| raised.load(Ordering::Relaxed)) && is_left(py).unwrap_or(true) {
        take();
    }
}

/// Whether an exception is that of an interruption, or was raised while handling it.
pub(super) fn is_interruption(error: &Bound<'_, PyAny>) -> bool {
    let py = error.py();
    let Ok(class) = turn_interrupted(py) else { return false };
    let mut at = Some(error.clone());
    for _ in 0..MAX_CONTEXTS {
        let Some(error) = at else { return false };
        if error.is_instance(class).unwrap_or(false) {
            return true;
        }
        at = error.getattr(intern!(py, "__context__")).ok();
    }
    false
}

/// How many exceptions of a context chain are checked.
const MAX_CONTEXTS: usize = 16;

/// Reports to the runtime whether code of this turn was interrupted.
#[inline]
pub(crate) fn note() -> bool {
    let was_interrupted = take();
    if was_interrupted {
        binding::interrupted();
    }
    was_interrupted
}

#[cold]
fn was_raised(raised: &AtomicBool) -> bool {
    Python::attach(|py| {
        raised.store(false, Ordering::Relaxed);
        // A pending exception would be raised in another task.
        raise_in(thread_ident(), std::ptr::null_mut());
        give_back_unraisable_hook(py);
    });
    true
}

/// Returns Python's identifier of this thread.
fn thread_ident() -> c_long {
    // SAFETY: it only reads the identifier of this thread.
    let ident = unsafe { pyo3::ffi::PyThread_get_thread_ident() };
    ident.cast_signed()
}

/// Raises an exception of this class in a thread, or withdraws it.
fn raise_in(thread: c_long, class: *mut pyo3::ffi::PyObject) {
    // SAFETY: the caller holds the interpreter, and the class lives as long as the interpreter.
    unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread, class) };
}
