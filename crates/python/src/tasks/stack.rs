//! The call stack of a task: nested generators and coroutines. Yielding another program calls it:
//! its return value is the value of the yield, and its exceptions are raised there. It doesn't
//! depend on calls or tasks.
//!
//! Calls don't nest on the thread's stack, so they can nest to any depth.

use std::cmp::Ordering;
use std::ffi::c_int;

use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTraceback, PyType};
use pyo3::{ffi, intern};
use tiffany::kernel::Frame;

pub(crate) use crate::values::coroutine_kind::{is_coroutine, is_plain_program};
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::traceback::KEPT;
use crate::values::{errors, frames, traceback};

/// The value or exception that a coroutine is resumed with.
pub(crate) enum Input {
    Send(Py<PyAny>),
    Throw(PyErr),
}

/// The result of resuming a coroutine.
pub(crate) enum Output {
    /// The running coroutine yielded an object that is not a program.
    Yielded(Py<PyAny>),
    /// The outermost coroutine returned.
    Returned(Py<PyAny>),
    /// The outermost coroutine raised an exception.
    Raised(PyErr),
}

/// Nested coroutines, with the running one on top.
pub(crate) struct CallStack {
    top: Py<PyAny>,
    callers: Vec<Py<PyAny>>,
    /// Whether the outermost coroutine has finished, so that nothing needs to be closed.
    is_over: bool,
    passing: Option<Box<Passing>>,
    /// The line that spawned the task, for a single call, which has no lines of its own.
    line: Option<Box<Line>>,
}

/// An exception that propagates through many callers.
struct Passing {
    exception: Py<PyBaseException>,
    /// The number of callers that the exception has passed.
    callers: usize,
    /// The traceback when the kept number of callers was reached.
    traceback: Option<Py<PyTraceback>>,
}

impl CallStack {
    pub(crate) fn new(program: Py<PyAny>) -> CallStack {
        CallStack { top: program, callers: Vec::new(), is_over: false, passing: None, line: None }
    }

    /// Creates the stack of a single call, from its awaiter.
    pub(crate) fn of_call(awaiter: Py<PyAny>, line: Option<Line>) -> CallStack {
        CallStack { line: line.map(Box::new), ..CallStack::new(awaiter) }
    }

    pub(crate) fn depth(&self) -> usize {
        self.callers.len() + 1
    }

    /// Returns an error if the program has already begun.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        match is_begun(self.top.bind(py)) {
            true => Err(begun(py, "this program was started before it became a task")),
            false => Ok(()),
        }
    }

    /// Calls a program, which becomes the running one. A program that has begun is an error: it
    /// belongs to other code, or has finished.
    #[inline]
    pub(crate) fn call(&mut self, py: Python<'_>, program: Py<PyAny>) -> PyResult<()> {
        if is_begun(program.bind(py)) {
            let is_itself = program.is(&self.top);
            return Err(match is_itself {
                true => begun(py, "a program called itself"),
                false => begun(py, "the program that was called was started before"),
            });
        }
        self.callers.push(std::mem::replace(&mut self.top, program));
        Ok(())
    }

    /// Removes the running coroutine, so that its caller continues. Returns `false` if it has no
    /// caller.
    pub(crate) fn pop(&mut self) -> bool {
        match self.callers.pop() {
            Some(caller) => {
                self.top = caller;
                true
            }
            None => false,
        }
    }

    /// Resumes the running coroutine, through calls and returns, until an object is yielded that is
    /// not a program.
    #[inline]
    pub(crate) fn resume(&mut self, py: Python<'_>, mut input: Input) -> Output {
        loop {
            match step(py, &self.top, input) {
                Output::Yielded(object) => {
                    if !is_plain_program(object.bind(py)) {
                        return Output::Yielded(object);
                    }
                    input = match self.call(py, object) {
                        Ok(()) => Input::Send(py.None()),
                        Err(error) => Input::Throw(error),
                    };
                }
                Output::Returned(value) => match self.pop() {
                    true => input = Input::Send(value),
                    false => {
                        self.is_over = true;
                        return Output::Returned(value);
                    }
                },
                Output::Raised(error) => match self.pop() {
                    true => input = Input::Throw(self.passed_on(py, error)),
                    false => {
                        self.is_over = true;
                        return Output::Raised(error);
                    }
                },
            }
        }
    }

    /// Prepares an exception for the caller. If it passes very many callers, the middle is left out
    /// of its traceback.
    #[cold]
    fn passed_on(&mut self, py: Python<'_>, error: PyErr) -> PyErr {
        let exception = error.value(py);
        // Python keeps exception and traceback apart while an exception propagates, and `throw`
        // takes the exception only.
        traceback::set(exception, error.traceback(py).as_ref());
        self.passing.take_if(|passing| !passing.exception.is(exception));
        if self.passing.is_none() && self.depth() <= 2 * KEPT {
            return error;
        }
        let is_far_out = self.depth() <= KEPT;
        let passing = self.passing.get_or_insert_with(|| {
            let exception = exception.clone().unbind();
            Box::new(Passing { exception, callers: 0, traceback: None })
        });
        passing.callers += 1;
        match passing.callers.cmp(&KEPT) {
            Ordering::Less => {}
            Ordering::Equal => passing.traceback = error.traceback(py).map(Bound::unbind),
            Ordering::Greater => {
                let kept = passing.traceback.as_ref().map(|traceback| traceback.bind(py));
                traceback::set(exception, kept);
            }
        }
        if is_far_out && let Some(passing) = self.passing.take() {
            let left_out = passing.callers.saturating_sub(KEPT);
            let note = format!("tiffany: {left_out} calls are left out of this traceback");
            let _ = exception.call_method1("add_note", (note,));
        }
        error
    }

    /// Leaves the coroutines to the code that owns them.
    pub(crate) fn disown(&mut self) {
        self.is_over = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Closes all coroutines, the innermost first. Exceptions are printed.
    #[cold]
    pub(crate) fn close(&mut self, py: Python<'_>) {
        self.is_over = true;
        loop {
            let top = self.top.bind(py);
            // An awaiter of a call has nothing to close.
            if let Ok(close) = top.getattr(intern!(py, "close"))
                && let Err(error) = close.call0()
            {
                let is_over = top.getattr(frame_of(top)).is_ok_and(|frame| frame.is_none());
                match is_over {
                    true => error.write_unraisable(py, Some(top)),
                    false => {
                        errors::not_ending(py, top).write_unraisable(py, Some(top));
                        // Otherwise Python would close it again and print the error again.
                        std::mem::forget(self.top.clone_ref(py));
                    }
                }
            }
            if !self.pop() {
                break;
            }
        }
    }

    /// Leaks all coroutines, so that none is closed.
    #[cold]
    pub(crate) fn leave(&mut self, py: Python<'_>) {
        self.is_over = true;
        std::mem::forget(self.top.clone_ref(py));
        self.callers.drain(..).for_each(std::mem::forget);
    }

    /// Returns the functions that the task is inside, the innermost last.
    pub(crate) fn frames(&self, py: Python<'_>) -> Vec<Frame> {
        let mut frames = Vec::new();
        for program in self.callers.iter().chain([&self.top]) {
            frames::of_program(program.bind(py), &mut frames);
        }
        frames
    }

    /// Returns the task's current line: the innermost one in the program's code.
    pub(crate) fn line(&self, py: Python<'_>) -> Option<Line> {
        let alone = || self.line.as_ref().map(|line| line.clone_ref(py));
        let top = Line::of(self.top.bind(py)).or_else(alone)?;
        if self.callers.is_empty() || !top.is_of_package(py) {
            return Some(top);
        }
        let callers = self.callers.iter().rev().filter_map(|caller| Line::of(caller.bind(py)));
        callers.into_iter().find(|line| !line.is_of_package(py)).or(Some(top))
    }
}

/// Resumes one coroutine.
#[inline]
pub(crate) fn step(py: Python<'_>, coroutine: &Py<PyAny>, input: Input) -> Output {
    match input {
        Input::Send(value) => send(py, coroutine, &value),
        Input::Throw(error) => throw(py, coroutine, error),
    }
}

#[inline]
fn send(py: Python<'_>, coroutine: &Py<PyAny>, value: &Py<PyAny>) -> Output {
    let mut result: *mut ffi::PyObject = std::ptr::null_mut();
    // SAFETY: both are valid objects, and the interpreter is attached. The result is a new
    // reference, or null for an error.
    let (state, object) = unsafe {
        let state = ffi::PyIter_Send(coroutine.as_ptr(), value.as_ptr(), &raw mut result);
        (state as c_int, Bound::from_owned_ptr_or_opt(py, result))
    };
    match object {
        Some(object) if state == ffi::PySendResult::PYGEN_NEXT as c_int => {
            Output::Yielded(object.unbind())
        }
        Some(object) => Output::Returned(object.unbind()),
        None => raised(py, PyErr::fetch(py)),
    }
}

#[cold]
fn throw(py: Python<'_>, coroutine: &Py<PyAny>, error: PyErr) -> Output {
    let Ok(throw) = coroutine.bind(py).getattr(intern!(py, "throw")) else {
        // An awaiter of a call does not handle exceptions.
        return Output::Raised(error);
    };
    match throw.call1((error.value(py),)) {
        Ok(object) => Output::Yielded(object.unbind()),
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
            let value = error.value(py).getattr("value");
            Output::Returned(value.map_or_else(|_| py.None(), Bound::unbind))
        }
        Err(error) => Output::Raised(error),
    }
}

/// Whether a program has begun or finished. A finished coroutine raises an error itself (see
/// [`raised`]); reading `cr_frame` of an unfinished one would allocate a frame object.
fn is_begun(program: &Bound<'_, PyAny>) -> bool {
    let py = program.py();
    // Programs of other types may not have these.
    let is_true = |name| program.getattr(name).is_ok_and(|is| is.is_truthy().unwrap_or(false));
    match is_coroutine(program) {
        true => is_true(intern!(py, "cr_suspended")),
        false => {
            is_true(intern!(py, "gi_suspended"))
                || program.getattr(intern!(py, "gi_frame")).is_ok_and(|frame| frame.is_none())
        }
    }
}

/// Replaces the error for resuming a finished coroutine. The interpreter's error has no traceback,
/// because no code of the coroutine ran, and no cause.
#[cold]
fn raised(py: Python<'_>, error: PyErr) -> Output {
    let is_reused = error.get_type(py).is(py.get_type::<PyRuntimeError>())
        && error.traceback(py).is_none()
        && error.cause(py).is_none();
    Output::Raised(match is_reused {
        true => begun(py, "this coroutine is finished; a program runs once"),
        false => error,
    })
}

/// Returns the attribute that has the frame of a program, which is `None` once it has finished.
fn frame_of<'py>(program: &Bound<'py, PyAny>) -> &'py Bound<'py, PyString> {
    match is_coroutine(program) {
        true => intern!(program.py(), "cr_frame"),
        false => intern!(program.py(), "gi_frame"),
    }
}

#[cold]
fn begun(py: Python<'_>, message: &str) -> PyErr {
    TiffanyError::Begun.err(py, message)
}

/// Whether an object is a program: a generator or a coroutine.
pub(crate) fn is_program(object: &Bound<'_, PyAny>) -> bool {
    is_plain_program(object) || is_like_program(object)
}

/// Whether an object is a compiled generator or coroutine (Cython, mypyc): these have other types,
/// registered with `collections.abc`.
pub(crate) fn is_like_program(object: &Bound<'_, PyAny>) -> bool {
    static KINDS: PyOnceLock<(Py<PyType>, Py<PyType>)> = PyOnceLock::new();
    let py = object.py();
    if object.is_none() || object.is_instance_of::<crate::calls::call::SystemCall>() {
        return false;
    }
    let kinds = KINDS.get_or_try_init(py, || {
        let abc = py.import("collections.abc")?;
        let class = |name: &str| -> PyResult<Py<PyType>> {
            Ok(abc.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        Ok::<_, PyErr>((class("Generator")?, class("Coroutine")?))
    });
    kinds.is_ok_and(|(generator, coroutine)| {
        object.is_instance(generator.bind(py)).unwrap_or(false)
            || object.is_instance(coroutine.bind(py)).unwrap_or(false)
    })
}
