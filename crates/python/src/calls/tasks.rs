//! Tasks: spawning, waiting, cancelling.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::PyTuple;
use tiffany::kernel::{GatherMode, Waitable as Target};

use super::{given, of, several};
use crate::argument;
use crate::call::{self, Op, Perform, SystemCall};
use crate::errors::{Raise, TiffanyError};
use crate::handles::{Task, target};
use crate::line::Line;
use crate::objects::Group;
use crate::pending::Pending;
use crate::spawn::{self, Inner, Options, Spawning};

/// Starts a program as a task, and gives its `Task`. Without `handlers` it has those of this task; with them, those alone.
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
    #[pyo3(signature = (program, handlers = None, *, name = None, priority = 0, group = None))]
    fn new(
        program: Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::handlers)] handlers: Option<Vec<Py<PyAny>>>,
        #[pyo3(from_py_with = argument::name)] name: Option<String>,
        #[pyo3(from_py_with = argument::priority)] priority: u8,
        #[pyo3(from_py_with = argument::group)] group: Option<Bound<'_, Group>>,
    ) -> PyResult<PyClassInitializer<Spawn>> {
        let options = options(name, priority, group);
        let spawning = Spawning::new(program, handlers, options)?;
        Ok(of(Spawn, Op::Spawn(Box::new(spawning))))
    }

    /// The program.
    #[getter]
    fn program(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyAny> {
        given!(slf, Op::Spawn(spawning) => spawning.program.clone_ref(py))
    }
}

/// What is rarely said.
pub(super) fn options(
    name: Option<String>,
    priority: u8,
    group: Option<Bound<'_, Group>>,
) -> Option<Options> {
    if name.is_none() && priority == 0 && group.is_none() {
        return None;
    }
    let group = group.map(|group| {
        let object = group.get().object();
        (group.into_any().unbind(), object)
    });
    Some(Options { name, priority, group })
}

/// Starts a program as a task, and gives its number.
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

/// Waits for a task or a promise, and gives its value.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Wait;

#[pymethods]
impl Wait {
    #[new]
    fn new(waitable: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Wait>> {
        let target = target(&waitable)?;
        Ok(of(Wait, Op::Wait(waitable.unbind(), target)))
    }

    /// What is waited for.
    #[getter]
    fn waitable(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyAny> {
        given!(slf, Op::Wait(waitable, _) => waitable.clone_ref(py))
    }
}

fn targets(py: Python<'_>, items: &[Py<PyAny>]) -> PyResult<Vec<Target>> {
    items.iter().map(|item| target(item.bind(py))).collect()
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
                    let items = several(waitables)?;
                    let targets = targets(waitables.py(), &items)?;
                    Ok(of($name, Op::Gather(items, targets, GatherMode::$mode)))
                }

                /// What is waited for.
                #[getter]
                fn waitables(slf: PyRef<'_, Self>, py: Python<'_>) -> Vec<Py<PyAny>> {
                    given!(slf, Op::Gather(items, ..) => {
                        items.iter().map(|item| item.clone_ref(py)).collect()
                    })
                }
            }
        )+
    };
}

gathering! {
    /// Waits for all, and gives their values in the order in which they were given. Fails at once on the earliest failure; the others go on.
    ///
    /// >>> async def square(n):
    /// ...     return n * n
    /// >>> async def main():
    /// ...     tasks = [await spawn(square(n)) for n in range(4)]
    /// ...     return await gather(tasks)
    /// >>> run(main())
    /// [0, 1, 4, 9]
    Gather FailFast,
    /// Waits for all, and gives `Ok(value)` or `Err(error)` for each.
    ///
    /// >>> async def half(n):
    /// ...     return 1 / n
    /// >>> async def main():
    /// ...     return await gather_settled(await spawn(half(2)), await spawn(half(0)))
    /// >>> run(main())
    /// [Ok(0.5), Err(ZeroDivisionError('division by zero'))]
    GatherSettled Settle,
}

/// Waits for the first to end, and gives `RaceResult(first, value, rest)`. The others go on.
///
/// >>> async def after(seconds):
/// ...     await sleep(seconds)
/// ...     return seconds
/// >>> async def main():
/// ...     result = await race(await spawn(after(60)), await spawn(after(0.001)))
/// ...     for loser in result.rest:
/// ...         await cancel(loser)
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
        let items = several(waitables)?;
        let targets = targets(waitables.py(), &items)?;
        Ok(of(Race, Op::Race(items, targets)))
    }

    /// What is waited for.
    #[getter]
    fn waitables(slf: PyRef<'_, Self>, py: Python<'_>) -> Vec<Py<PyAny>> {
        given!(slf, Op::Race(items, _) => items.iter().map(|item| item.clone_ref(py)).collect())
    }
}

/// Asks a task to stop. It never blocks. The task gets `Cancelled` at its yield, and may clean up.
///
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

                /// The task's number.
                #[getter]
                fn tid(slf: PyRef<'_, Self>) -> u64 {
                    given!(slf, Op::$name(tid) => *tid)
                }
            }
        )+
    };
}

by_number! {
    WaitTask "Waits until the task of this number is over. `False`: there was no such task alive.",
    KillTask "Asks the task of this number to stop. `False`: there was no such task alive.",
}

/// Runs a program as a task, but no longer than this: then it is cancelled, and `TimedOutError` is raised.
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
        spawn::check(&program)?;
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

    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        _at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        let coroutine = spawn::coroutine(self.program.bind(py), None)?;
        let limit = self.limit;
        Ok(Pending::Future(Box::pin(async move {
            let result = match Inner::start(coroutine).await {
                Ok(inner) => tiffany::timeout(limit, inner.wait()).await.and_then(|value| value),
                Err(error) => Err(error),
            };
            Python::attach(|py| call::waited(py, result))
        })))
    }
}
