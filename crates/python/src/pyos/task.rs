//! A pyos task: a generator, the generators that called it, and the value that it is resumed with,
//! all of which the program may read and change. It doesn't depend on the kernel, apart from its
//! number there.

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyGeneratorExit, PyRuntimeError, PyStopIteration};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use tiffany::kernel::TaskRef;

use crate::calls::call::{Op, SystemCall};
use crate::calls::pyos_call::PyosCall;
use crate::tasks::program;
use crate::tasks::stack::{Input, Output, is_program, step};
use crate::values::traceback;

/// The part of a pyos task that is written in Rust.
#[pyclass(subclass, name = "_PyosTask", module = "tiffany._core")]
pub(crate) struct PyosTask {
    #[pyo3(get, set)]
    pub(crate) tid: u64,
    #[pyo3(get, set)]
    pub(crate) target: Py<PyAny>,
    #[pyo3(get, set)]
    pub(crate) sendval: Py<PyAny>,
    #[pyo3(get, set)]
    stack: Py<PyList>,
    /// The exception that is raised at the task's yield.
    pub(crate) throwing: Option<PyErr>,
    /// While the task is being killed: the number of callers that have not received the exception
    /// yet.
    unwinding: Option<usize>,
    pub(crate) place: Place,
    /// When the task became ready, counted by its scheduler.
    pub(crate) ready_since: Option<u64>,
    /// The events that the task waits for.
    pub(crate) waits: Vec<WaitsFor>,
    /// The call of `tiffany` that was unanswered when the main loop was left.
    pub(crate) unanswered: Option<Py<SystemCall>>,
    /// Whether the task was killed before its first turn.
    pub(crate) is_killed: bool,
    /// Whether `Scheduler.exit` was called for the task.
    pub(crate) has_exited: bool,
}

/// The place of a task in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// No main loop runs, or the task was not scheduled.
    Outside,
    /// The task is about to be spawned.
    Starting,
    /// The task is in the kernel.
    Kernel(TaskRef),
    /// The task has finished.
    Over,
}

/// An event that a task waits for, as a call of the kernel.
pub(crate) enum WaitsFor {
    Read(i32),
    Write(i32),
    Exit(Py<PyosTask>),
}

/// The result of resuming a task.
pub(crate) enum Turn {
    /// The task yielded a pyos call.
    Call(Py<PyAny>),
    /// The task yielded a call of `tiffany`.
    Native(Py<SystemCall>),
    /// The task gave up its turn.
    Yielded,
    Returned,
    Raised(PyErr),
}

#[pymethods]
impl PyosTask {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyosTask {
        PyosTask {
            tid: 0,
            target: py.None(),
            sendval: py.None(),
            stack: PyList::empty(py).unbind(),
            throwing: None,
            unwinding: None,
            place: Place::Outside,
            ready_since: None,
            waits: Vec::new(),
            unanswered: None,
            is_killed: false,
            has_exited: false,
        }
    }

    /// Runs the task until it makes a call, which is returned, or lets other tasks run. Raises
    /// `StopIteration` when it has finished.
    fn run(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        match resume(slf) {
            Turn::Call(call) => Ok(Some(call)),
            Turn::Native(call) => Ok(Some(call.into_any())),
            Turn::Yielded => Ok(None),
            Turn::Returned => Err(PyStopIteration::new_err(())),
            Turn::Raised(error) => Err(error),
        }
    }

    /// Records that the task waits for a descriptor.
    fn _wait_read(&mut self, fd: i32) {
        self.waits.push(WaitsFor::Read(fd));
    }

    fn _wait_write(&mut self, fd: i32) {
        self.waits.push(WaitsFor::Write(fd));
    }

    /// Records that the task no longer waits for a descriptor.
    fn _stop_read(&mut self, fd: i32) {
        self.waits.retain(|wait| !matches!(wait, WaitsFor::Read(other) if *other == fd));
    }

    fn _stop_write(&mut self, fd: i32) {
        self.waits.retain(|wait| !matches!(wait, WaitsFor::Write(other) if *other == fd));
    }

    /// Records that the task waits for the end of another.
    fn _wait_exit(&mut self, other: Py<PyosTask>) {
        self.waits.push(WaitsFor::Exit(other));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.target)?;
        visit.call(&self.sendval)?;
        visit.call(&self.stack)?;
        if let Some(call) = &self.unanswered {
            visit.call(call)?;
        }
        for wait in &self.waits {
            if let WaitsFor::Exit(other) = wait {
                visit.call(other)?;
            }
        }
        Ok(())
    }

    fn __clear__(&mut self, py: Python<'_>) {
        self.target = py.None();
        self.sendval = py.None();
        self.stack = PyList::empty(py).unbind();
        self.waits.clear();
        self.unanswered = None;
    }
}

impl PyosTask {
    /// Ends the running generator, so that its caller continues. Returns `false` if it has none.
    fn pop(task: &Bound<'_, PyosTask>) -> bool {
        let py = task.py();
        let stack = task.borrow().stack.clone_ref(py);
        let stack = stack.bind(py);
        let Some(last) = stack.len().checked_sub(1) else { return false };
        let (Ok(caller), Ok(())) = (stack.get_item(last), stack.del_item(last)) else {
            return false;
        };
        let ended = std::mem::replace(&mut task.borrow_mut().target, caller.unbind());
        // The cleanup of the generator may read the task.
        drop(ended);
        true
    }

    /// Calls a generator, which becomes the running one.
    pub(crate) fn push(task: &Bound<'_, PyosTask>, program: Py<PyAny>) -> PyResult<()> {
        let py = task.py();
        let (stack, caller) = {
            let mut this = task.borrow_mut();
            (this.stack.clone_ref(py), std::mem::replace(&mut this.target, program))
        };
        stack.bind(py).append(caller)
    }

    /// Sets the value that the task is resumed with. Dropping the old value may run code that reads
    /// the task.
    pub(crate) fn send(task: &Bound<'_, PyosTask>, value: Py<PyAny>) {
        let before = std::mem::replace(&mut task.borrow_mut().sendval, value);
        drop(before);
    }

    /// Keeps the call of `tiffany` that the task waits for, or forgets it.
    pub(crate) fn keep_call(task: &Bound<'_, PyosTask>, call: Option<Py<SystemCall>>) {
        let before = std::mem::replace(&mut task.borrow_mut().unanswered, call);
        drop(before);
    }

    fn depth(task: &Bound<'_, PyosTask>) -> usize {
        task.borrow().stack.bind(task.py()).len()
    }

    /// Starts to unwind the task, the innermost generator first.
    pub(crate) fn begin_unwinding(task: &Bound<'_, PyosTask>) {
        let depth = PyosTask::depth(task);
        let mut this = task.borrow_mut();
        this.unwinding = Some(depth);
        this.throwing = Some(PyGeneratorExit::new_err(()));
    }

    /// Closes all generators, the innermost first. Exceptions are printed.
    pub(crate) fn close(task: &Bound<'_, PyosTask>) {
        let py = task.py();
        loop {
            let target = task.borrow().target.clone_ref(py);
            if let Err(error) = target.bind(py).call_method0("close") {
                error.write_unraisable(py, Some(target.bind(py)));
            }
            if !PyosTask::pop(task) {
                return;
            }
        }
    }

    /// Resumes the caller after the running generator has ended.
    fn ended(task: &Bound<'_, PyosTask>, output: Result<Py<PyAny>, PyErr>) -> Input {
        PyosTask::pop(task);
        let depth = PyosTask::depth(task);
        let mut this = task.borrow_mut();
        let is_told = this.unwinding.is_none_or(|left| depth >= left);
        if !is_told {
            this.unwinding = Some(depth);
        }
        match output {
            Ok(value) if is_told => Input::Send(value),
            Ok(_) => Input::Throw(PyGeneratorExit::new_err(())),
            Err(error) => Input::Throw(error),
        }
    }
}

/// Resumes a task through calls and returns. A value that a called generator yields, and that is
/// neither a call nor a generator, is its return value.
pub(crate) fn resume(task: &Bound<'_, PyosTask>) -> Turn {
    let py = task.py();
    let mut input = {
        let mut this = task.borrow_mut();
        match this.throwing.take() {
            Some(error) => Input::Throw(error),
            None => Input::Send(std::mem::replace(&mut this.sendval, py.None())),
        }
    };
    loop {
        let target = task.borrow().target.clone_ref(py);
        let output = step(py, &target, input);
        drop(target);
        let ended = match output {
            Output::Yielded(object) => match Yielded::of(object.into_bound(py)) {
                Yielded::Call(call) => return Turn::Call(call),
                Yielded::Native(call) => return Turn::Native(call),
                Yielded::Program(program) => {
                    if let Err(error) = PyosTask::push(task, program) {
                        return Turn::Raised(error);
                    }
                    input = Input::Send(py.None());
                    continue;
                }
                Yielded::Value(_) if PyosTask::depth(task) == 0 => return yielded(task),
                Yielded::Value(value) => Ok(value),
            },
            Output::Returned(_) if PyosTask::depth(task) == 0 => return Turn::Returned,
            Output::Returned(value) => Ok(value),
            Output::Raised(error) => {
                // Python keeps exception and traceback apart while an exception propagates; other
                // code expects them together.
                traceback::set(error.value(py), error.traceback(py).as_ref());
                if PyosTask::depth(task) == 0 {
                    return raised(task, error);
                }
                Err(error)
            }
        };
        input = PyosTask::ended(task, ended);
    }
}

/// Classifies a yielded object.
enum Yielded {
    Call(Py<PyAny>),
    Native(Py<SystemCall>),
    Program(Py<PyAny>),
    Value(Py<PyAny>),
}

impl Yielded {
    fn of(object: Bound<'_, PyAny>) -> Yielded {
        if object.is_none() {
            return Yielded::Value(object.unbind());
        }
        if object.is_instance_of::<PyosCall>() {
            return Yielded::Call(object.unbind());
        }
        match object.cast_into::<SystemCall>() {
            Ok(call) => Yielded::Native(call.unbind()),
            Err(other) => match other.into_inner() {
                object if object.is_instance_of::<program::Program>() => {
                    let call = SystemCall::ours(Op::Call(object.clone().unbind()));
                    match Py::new(object.py(), call) {
                        Ok(call) => Yielded::Native(call),
                        Err(_) => Yielded::Value(object.unbind()),
                    }
                }
                object if is_program(&object) => Yielded::Program(object.unbind()),
                object => Yielded::Value(object.unbind()),
            },
        }
    }
}

/// Handles an object without meaning that the outermost generator yielded.
fn yielded(task: &Bound<'_, PyosTask>) -> Turn {
    match task.borrow().unwinding {
        None => Turn::Yielded,
        // Python raises the same error.
        Some(_) => Turn::Raised(PyRuntimeError::new_err("generator ignored GeneratorExit")),
    }
}

/// Handles an exception of the outermost generator.
#[cold]
fn raised(task: &Bound<'_, PyosTask>, error: PyErr) -> Turn {
    let is_unwinding = task.borrow().unwinding.is_some();
    match is_unwinding && error.is_instance_of::<PyGeneratorExit>(task.py()) {
        true => Turn::Returned,
        false => Turn::Raised(error),
    }
}
