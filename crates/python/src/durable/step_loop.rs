//! The queue of ready callbacks of the event loop that async steps share. The event loop takes
//! every callback from it, including the resumption of tasks, so this is where the watchdog learns
//! which step runs. A callback that keeps the event loop for too long is interrupted, and a child
//! process that it forked ends when it returns to the event loop.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyIndexError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use tiffany::binding;

use crate::durable::attempt::{self, Attempt};
use crate::durable::{elsewhere, interrupt};
use crate::process::session::Process;

/// The handles of ready callbacks. It replaces the deque that asyncio creates for them.
#[pyclass(frozen, name = "_ReadyQueue", module = "tiffany._core")]
pub(super) struct ReadyQueue {
    event_loop: Py<PyAny>,
    /// The event loop's own `call_soon`.
    call_soon: Py<PyAny>,
    handles: Mutex<VecDeque<Py<PyAny>>>,
    process: Process,
}

impl ReadyQueue {
    fn handles(&self) -> MutexGuard<'_, VecDeque<Py<PyAny>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl ReadyQueue {
    #[new]
    fn new(event_loop: Py<PyAny>, call_soon: Py<PyAny>) -> ReadyQueue {
        let (handles, process) = (Mutex::default(), Process::current());
        ReadyQueue { event_loop, call_soon, handles, process }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        visit.call(&self.call_soon)?;
        let Ok(handles) = self.handles.try_lock() else { return Ok(()) };
        handles.iter().try_for_each(|handle| visit.call(handle))
    }

    /// Replaces `call_soon` of the event loop. A finished task calls it with the callbacks that
    /// wait for the task, which must not be lost to an interruption of that task.
    #[pyo3(signature = (callback, *args, context = None))]
    fn call_soon<'py>(
        &self,
        callback: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        context: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = callback.py();
        interrupt::end_at(py, is_at_boundary);
        let event_loop = self.event_loop.bind(py);
        if !event_loop.getattr(intern!(py, "_debug"))?.is_truthy()? {
            let given = (callback, args, context);
            return event_loop.call_method1(intern!(py, "_call_soon"), given);
        }
        let options = PyDict::new(py);
        options.set_item("context", context)?;
        let mut all = vec![callback];
        all.extend(args);
        self.call_soon.bind(py).call(PyTuple::new(py, all)?, Some(&options))
    }

    fn append(&self, handle: Py<PyAny>) {
        self.handles().push_back(handle);
    }

    /// Returns the next callback, which the event loop runs at once.
    fn popleft<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.process.end_if_forked();
        interrupt::take();
        interrupt::steps_are_here(py)?;
        let next = self.handles().pop_front();
        let next =
            next.ok_or_else(|| PyIndexError::new_err("no callback is ready"))?.into_bound(py);
        let attempt = attempt_of(&next);
        if let Some(attempt) = attempt.as_ref().filter(|attempt| attempt.get().is_stopped()) {
            skip(&next, attempt.get())?;
        }
        binding::step_code_begins(attempt.as_ref().map(|attempt| attempt.get().inner()));
        Ok(next)
    }

    /// Called when the event loop is about to wait for events.
    fn rest(&self) {
        self.process.end_if_forked();
        interrupt::take();
        binding::step_code_rests();
    }

    fn clear(&self) {
        let handles = std::mem::take(&mut *self.handles());
        drop(handles);
    }

    fn __len__(&self) -> usize {
        self.handles().len()
    }
}

/// Returns the attempt that a callback belongs to.
#[inline]
fn attempt_of<'py>(handle: &Bound<'py, PyAny>) -> Option<Bound<'py, Attempt>> {
    let context = handle.getattr(intern!(handle.py(), "_context")).ok()?;
    attempt::found_in(&context).unwrap_or(None)
}

/// Skips callbacks of attempts that were interrupted too often, unless they are ours.
#[cold]
fn skip(handle: &Bound<'_, PyAny>, attempt: &Attempt) -> PyResult<()> {
    if !elsewhere::is_ours(&handle.getattr("_callback")?) {
        handle.call_method0("cancel")?;
        attempt.wake();
    }
    Ok(())
}

/// Whether the caller is a step other than that of this attempt.
#[pyfunction]
#[pyo3(name = "_is_another_step")]
pub(super) fn is_another_step(py: Python<'_>, attempt: Option<&Bound<'_, Attempt>>) -> bool {
    let caller = attempt::current(py).unwrap_or(None);
    caller.is_some_and(|caller| !attempt.is_some_and(|attempt| caller.is(attempt)))
}

/// Whether an exception was raised to interrupt a step.
#[pyfunction]
#[pyo3(name = "_is_interruption")]
pub(super) fn is_interruption(error: &Bound<'_, PyAny>) -> bool {
    interrupt::is_interruption(error)
}

/// The boundary: the function of asyncio that calls every callback and catches its exceptions.
fn boundary(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let code = CODE.get_or_try_init(py, || {
        let run = py.import("asyncio")?.getattr("Handle")?.getattr("_run")?;
        Ok::<_, PyErr>(run.getattr("__code__")?.unbind())
    })?;
    Ok(code.bind(py))
}

/// The line of the boundary that calls the callback, noted at the last interruption.
static CALLING_LINE: AtomicU32 = AtomicU32::new(0);

/// Returns the frame of the boundary around a frame.
fn frame_of_boundary(innermost: Bound<'_, PyAny>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let py = innermost.py();
    let code = boundary(py)?;
    let mut at = innermost;
    while !at.is_none() {
        if at.getattr(intern!(py, "f_code"))?.is(code) {
            return Ok(Some(at));
        }
        at = at.getattr(intern!(py, "f_back"))?;
    }
    Ok(None)
}

/// Returns the current line of a frame.
fn line_of(frame: &Bound<'_, PyAny>) -> PyResult<u32> {
    frame.getattr(intern!(frame.py(), "f_lineno"))?.extract()
}

/// Whether a thread that is about to be interrupted runs a callback. An exception between two
/// callbacks would lose the next one.
pub(super) fn runs_callback(py: Python<'_>, thread: std::ffi::c_long) -> PyResult<bool> {
    let frames = py.import("sys")?.call_method0("_current_frames")?;
    let Some(frame) = frame_of_boundary(frames.get_item(thread)?)? else { return Ok(false) };
    let line = line_of(&frame)?;
    // On its first line the boundary doesn't catch exceptions yet.
    if line == boundary(py)?.getattr("co_firstlineno")?.extract::<u32>()? {
        return Ok(false);
    }
    CALLING_LINE.store(line, Ordering::Relaxed);
    if let Some(attempt) = attempt_of(&frame.getattr("f_locals")?.get_item("self")?) {
        attempt.get().interrupt();
    }
    Ok(true)
}

/// Returns the current frame without running Python code, in which the next exception would be
/// raised.
fn innermost(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET_FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let get_frame = GET_FRAME
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("sys")?.getattr("_getframe")?.unbind()))?;
    get_frame.bind(py).call0()
}

/// Whether the current code is the boundary, or C code that it called.
fn is_at_boundary(py: Python<'_>) -> PyResult<bool> {
    Ok(innermost(py)?.getattr(intern!(py, "f_code"))?.is(boundary(py)?))
}

/// Whether the current code is that of a callback.
pub(super) fn is_in_callback(py: Python<'_>) -> PyResult<bool> {
    if is_at_boundary(py)? {
        return Ok(false);
    }
    let Some(frame) = frame_of_boundary(innermost(py)?)? else { return Ok(false) };
    Ok(line_of(&frame)? == CALLING_LINE.load(Ordering::Relaxed))
}
