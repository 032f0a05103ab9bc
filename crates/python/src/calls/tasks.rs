//! The calls for spawning, waiting for and cancelling tasks.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::PyTuple;
use tiffany::kernel::{GatherMode, Waitable as Target};

use super::{given, of, several};
use crate::calls::call::{Op, Perform, SystemCall};
use crate::calls::pending::{Pending, Watched};
use crate::calls::together::{Awaited, How, Together};
use crate::calls::{call, together};
use crate::handles::objects::Group;
use crate::handles::{Task, known_target};
use crate::tasks::spawn::{Inner, Options, Spawning};
use crate::values::argument;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;

/// Starts a program, or a call, as a task and returns its `Task`.
///
/// Without `handlers` the task inherits those of this task; with them, it has only those. A
/// `daemon` task does not keep the run alive: it is cancelled when all other tasks have finished.
///
/// >>> async def child():
/// ...     return "hello"
/// >>> async def main():
/// ...     task = await spawn(child(), name="greeter")
/// ...     return await task
/// >>> run(main())
/// 'hello'
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Spawn;

#[pymethods]
impl Spawn {
    #[new]
    #[pyo3(
        signature = (program, handlers = None, *, name = None, priority = None, group = None, daemon = None),
        text_signature = "(program, handlers=None, *, name=None, priority=0, group=None, daemon=False)"
    )]
    fn new(
        program: Bound<'_, PyAny>,
        handlers: Option<Bound<'_, PyAny>>,
        name: Option<Bound<'_, PyAny>>,
        priority: Option<Bound<'_, PyAny>>,
        group: Option<Bound<'_, PyAny>>,
        daemon: Option<Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Spawn>> {
        let spawning = spawning(program, handlers, (name, priority, group, daemon))?;
        Ok(of(Spawn, Op::Spawn(Box::new(spawning))))
    }

    /// The program.
    #[getter]
    fn program(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyAny> {
        given!(slf, Op::Spawn(spawning) => spawning.program.clone_ref(py))
    }
}

/// The options of a task: its name, its priority, its group, and whether it is a daemon task.
type Said<'py> = (Given<'py>, Given<'py>, Given<'py>, Given<'py>);
type Given<'py> = Option<Bound<'py, PyAny>>;

/// A task to spawn. A refused coroutine is closed, so that Python does not warn that it was never
/// awaited.
pub(super) fn spawning<'py>(
    program: Bound<'py, PyAny>,
    handlers: Option<Bound<'py, PyAny>>,
    said: Said<'py>,
) -> PyResult<Spawning> {
    let read = || {
        let handlers = handlers.as_ref().map(argument::handlers).transpose()?;
        Spawning::new(program.clone(), handlers, options(said)?)
    };
    read().inspect_err(|_| close_unbegun(&program))
}

#[cold]
fn close_unbegun(program: &Bound<'_, PyAny>) {
    let arguments = program.py().import("tiffany._arguments");
    let closed =
        arguments.and_then(|arguments| arguments.call_method1("close_unbegun", (program,)));
    if let Err(error) = closed {
        error.write_unraisable(program.py(), Some(program));
    }
}

/// Options that are rarely used.
fn options((name, priority, group, daemon): Said<'_>) -> PyResult<Option<Options>> {
    if name.is_none() && priority.is_none() && group.is_none() && daemon.is_none() {
        return Ok(None);
    }
    let group: Option<Bound<'_, Group>> = group.as_ref().map(argument::group).transpose()?;
    let group = group.map(|group| {
        let object = group.get().object();
        (group.into_any().unbind(), object)
    });
    let name = name.as_ref().map(argument::name).transpose()?;
    let priority = priority.as_ref().map(argument::priority).transpose()?.unwrap_or(0);
    let daemon = daemon.as_ref().map(argument::daemon).transpose()?.unwrap_or(false);
    Ok(Some(Options { name, priority, group, daemon }))
}

/// Starts a program as a task and returns its number.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct NewTask;

#[pymethods]
impl NewTask {
    #[new]
    fn new(program: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<NewTask>> {
        let spawning = Spawning::by_number(program)?;
        Ok(of(NewTask, Op::Spawn(Box::new(spawning))))
    }
}

/// Waits for a task or a promise and returns its value. A program or a call becomes a task, which
/// ends with this call.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Wait;

#[pymethods]
impl Wait {
    #[new]
    fn new(waitable: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Wait>> {
        Ok(of(Wait, waiting(&waitable)?))
    }

    /// The object to wait for.
    #[getter]
    fn waitable(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyAny> {
        match &slf.as_super().op {
            Op::Wait(waitable, _) => waitable.clone_ref(py),
            _ => given!(slf, Op::Together(together) => together.items()[0].clone_ref(py)),
        }
    }
}

/// Creates the request to wait for one object.
pub(super) fn waiting(waitable: &Bound<'_, PyAny>) -> PyResult<Op> {
    match known_target(waitable) {
        Some(target) => Ok(Op::Wait(waitable.clone().unbind(), target)),
        None => together(waitable.py(), vec![waitable.clone().unbind()], How::Wait),
    }
}

/// Returns the targets if all objects are tasks and promises.
fn targets(py: Python<'_>, items: &[Py<PyAny>]) -> Option<Vec<Target>> {
    items.iter().map(|item| known_target(item.bind(py))).collect()
}

/// Creates the request to wait for objects, some of which have to become tasks first.
#[cold]
fn together(py: Python<'_>, items: Vec<Py<PyAny>>, how: How) -> PyResult<Op> {
    Ok(Op::Together(Box::new(Together::new(py, items, how)?)))
}

/// Returns the objects that a call waits for.
fn items(call: &SystemCall, py: Python<'_>) -> Vec<Py<PyAny>> {
    let items = match &call.op {
        Op::Gather(items, ..) | Op::Race(items, _) => items,
        Op::Together(together) => together.items(),
        _ => unreachable!("a call has the op of its class"),
    };
    items.iter().map(|item| item.clone_ref(py)).collect()
}

macro_rules! gathering {
    ($($(#[$meta:meta])* $name:ident $mode:ident),+ $(,)?) => {
        $(
            $(#[$meta])*
            #[pyclass(frozen, extends = SystemCall, module = "tiffany")]
            pub(crate) struct $name;

            #[pymethods]
            impl $name {
                #[new]
                #[pyo3(signature = (*waitables))]
                fn new(waitables: &Bound<'_, PyTuple>) -> PyResult<PyClassInitializer<$name>> {
                    let (py, items) = (waitables.py(), several(waitables)?);
                    let op = match targets(py, &items) {
                        Some(targets) => Op::Gather(items, targets, GatherMode::$mode),
                        None => together(py, items, How::Gather(GatherMode::$mode))?,
                    };
                    Ok(of($name, op))
                }

                /// The objects to wait for.
                #[getter]
                fn waitables(slf: PyRef<'_, Self>, py: Python<'_>) -> Vec<Py<PyAny>> {
                    items(slf.as_super(), py)
                }
            }
        )+
    };
}

gathering! {
    /// Waits for all and returns their values, in the order of the arguments. Fails at once on the
    /// earliest failure; tasks that were passed in keep running. Programs and calls become tasks,
    /// in the order of the arguments; they are cancelled when this call fails or is cancelled.
    ///
    /// >>> async def square(n):
    /// ...     return n * n
    /// >>> async def main():
    /// ...     task = await spawn(square(3))
    /// ...     return await gather(task, square(4), now()) == [9, 16, await now()]
    /// >>> run(main(), clock="virtual")
    /// True
    Gather FailFast,
    /// Waits for all and returns `Ok(value)` or `Err(error)` for each.
    ///
    /// >>> async def half(n):
    /// ...     return 1 / n
    /// >>> async def main():
    /// ...     return await gather_settled(half(2), half(0))
    /// >>> run(main())
    /// [Ok(0.5), Err(ZeroDivisionError('division by zero'))]
    GatherSettled Settle,
}

/// Waits for the first to end and returns `RaceResult(first, value, rest)`. The others keep
/// running; programs and calls, which become tasks here, are cancelled.
///
/// >>> async def after(seconds):
/// ...     await sleep(seconds)
/// ...     return seconds
/// >>> async def main():
/// ...     result = await race(after(60), after(0.001))
/// ...     return result.value
/// >>> run(main())
/// 0.001
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Race;

#[pymethods]
impl Race {
    #[new]
    #[pyo3(signature = (*waitables))]
    fn new(waitables: &Bound<'_, PyTuple>) -> PyResult<PyClassInitializer<Race>> {
        let (py, items) = (waitables.py(), several(waitables)?);
        let op = match targets(py, &items) {
            Some(targets) => Op::Race(items, targets),
            None => together(py, items, How::Race)?,
        };
        Ok(of(Race, op))
    }

    /// The objects to wait for.
    #[getter]
    fn waitables(slf: PyRef<'_, Self>, py: Python<'_>) -> Vec<Py<PyAny>> {
        items(slf.as_super(), py)
    }
}

/// Cancels a task. It never blocks. The task gets `Cancelled` at its yield, and may clean up.
///
/// >>> from tiffany.errors import TaskCancelledError
/// >>> async def child():
/// ...     try:
/// ...         await sleep(60)
/// ...     finally:
/// ...         print("cleaning up")
/// >>> async def main():
/// ...     task = await spawn(child())
/// ...     await yield_now()
/// ...     await cancel(task)
/// ...     try:
/// ...         await wait(task)
/// ...     except TaskCancelledError:
/// ...         return "cancelled"
/// >>> run(main())
/// cleaning up
/// 'cancelled'
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Cancel;

#[pymethods]
impl Cancel {
    #[new]
    fn new(task: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Cancel>> {
        let Ok(task) = task.cast::<Task>() else {
            let name = task.get_type().name()?.to_string();
            let message = format!("`{name}` cannot be cancelled; a Task can");
            return Err(TiffanyError::BadArgument.err(task.py(), message));
        };
        let at = task.get().at();
        Ok(of(Cancel, Op::Cancel(Some(task.clone().unbind()), at)))
    }

    /// The task.
    #[getter]
    fn task(slf: PyRef<'_, Self>, py: Python<'_>) -> Option<Py<Task>> {
        given!(slf, Op::Cancel(task, _) => task.as_ref().map(|task| task.clone_ref(py)))
    }
}

macro_rules! by_number {
    ($($name:ident $doc:literal),+ $(,)?) => {
        $(
            #[doc = $doc]
            #[pyclass(frozen, extends = SystemCall, module = "tiffany")]
            pub(crate) struct $name;

            #[pymethods]
            impl $name {
                #[new]
                fn new(#[pyo3(from_py_with = argument::tid)] tid: u64) -> PyClassInitializer<$name> {
                    of($name, Op::$name(tid))
                }

                /// The number of the task.
                #[getter]
                fn tid(slf: PyRef<'_, Self>) -> u64 {
                    given!(slf, Op::$name(tid) => *tid)
                }
            }
        )+
    };
}

by_number! {
    WaitTask "Waits until the task with this number has finished. Returns `False` if there was no such unfinished task.",
    KillTask "Cancels the task with this number. Returns `False` if there was no such unfinished task.",
}

/// Runs a program or a call as a task, with a time limit: when it expires, the task is cancelled
/// and `TimedOutError` is raised. For a task or a promise, it limits the wait; the task keeps
/// running after that.
///
/// >>> async def slow():
/// ...     await sleep(60)
/// >>> async def main():
/// ...     try:
/// ...         await timeout(0.001, slow())
/// ...     except TimeoutError:
/// ...         return "too slow"
/// >>> run(main())
/// 'too slow'
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Timeout;

#[pymethods]
impl Timeout {
    #[new]
    fn new(
        seconds: Bound<'_, PyAny>,
        program: Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<Timeout>> {
        let limit = super::time::duration(&seconds)?;
        together::check(&program)?;
        let limited = Limited { limit, program: program.unbind() };
        Ok(of(Timeout, Op::Other(Box::new(limited))))
    }
}

struct Limited {
    limit: std::time::Duration,
    program: Py<PyAny>,
}

impl Perform for Limited {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.program)
    }

    fn name(&self, _py: Python<'_>) -> String {
        "Timeout".into()
    }

    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        let awaited = Awaited::of(self.program.bind(py), at)?;
        let limit = self.limit;
        Ok(Pending::Future(Box::pin(async move {
            let result = match awaited {
                Awaited::Known(target) => {
                    let wait = tiffany::wait(Watched(target));
                    tiffany::timeout(limit, wait).await.and_then(|value| value)
                }
                Awaited::New(coroutine) => match Inner::start(coroutine).await {
                    Ok(inner) => {
                        tiffany::timeout(limit, inner.wait()).await.and_then(|value| value)
                    }
                    Err(error) => Err(error),
                },
            };
            Python::attach(|py| call::waited(py, result))
        })))
    }
}
