//! Spawning: programs and calls become tasks.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use tiffany::kernel::{BoxCoroutine, Handlers, ObjectRef, SpawnOptions, Waitable as Target};
use tiffany::{Handler, SystemCall as KernelCall, TaskError, Value, binding};

use crate::calls::call;
use crate::calls::call::SystemCall;
use crate::calls::pending::{Pending, Watched};
use crate::tasks::driver::ResultForm;
use crate::tasks::handler::PyHandler;
use crate::tasks::stack::is_program;
use crate::tasks::{driver, program};
use crate::values::coroutine_kind::is_plain_program;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;

/// A task to spawn.
pub(crate) struct Spawning {
    pub(crate) program: Py<PyAny>,
    pub(crate) handlers: Option<Vec<Py<PyAny>>>,
    pub(crate) options: Option<Options>,
    /// Whether the answer is the task's number instead of a handle.
    pub(crate) by_number: bool,
    /// Whether the program was taken to be spawned.
    spawned: AtomicBool,
}

/// Options that are rarely used.
pub(crate) struct Options {
    pub(crate) name: Option<String>,
    pub(crate) priority: u8,
    pub(crate) group: Option<(Py<PyAny>, ObjectRef)>,
    pub(crate) daemon: bool,
}

impl Spawning {
    pub(crate) fn new(
        program: Bound<'_, PyAny>,
        handlers: Option<Vec<Py<PyAny>>>,
        options: Option<Options>,
    ) -> PyResult<Spawning> {
        check_task(&program)?;
        let spawned = AtomicBool::new(false);
        Ok(Spawning { program: program.unbind(), handlers, options, by_number: false, spawned })
    }

    /// Shows the garbage collector the objects that the request holds.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.program)?;
        let handlers = self.handlers.iter().flatten();
        handlers.into_iter().try_for_each(|handler| visit.call(handler))
    }

    pub(crate) fn by_number(program: Bound<'_, PyAny>) -> PyResult<Spawning> {
        Ok(Spawning { by_number: true, ..Spawning::new(program, None, None)? })
    }

    pub(crate) fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        at: Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        if self.spawned.swap(true, Ordering::Relaxed) {
            return Err(TiffanyError::Begun.err(py, "this program was spawned before"));
        }
        let coroutine = coroutine(self.program.bind(py), at)?;
        if self.handlers.is_none() && self.options.is_none() && !self.by_number {
            return Ok(Pending::Spawn(binding::spawn(coroutine).checked()));
        }
        let mut options = SpawnOptions::default();
        if let Some(handlers) = &self.handlers {
            let chain = handlers
                .iter()
                .map(|handler| Ok(Rc::new(PyHandler::new(handler.bind(py))?) as Rc<dyn Handler>));
            options.handlers = Handlers::Replace(chain.collect::<PyResult<_>>()?);
        }
        if let Some(more) = &self.options {
            options.name = more.name.as_deref().map(Into::into);
            options.priority = more.priority;
            options.group = more.group.as_ref().map(|(_, object)| *object);
            options.daemon = more.daemon;
        }
        let spawn = KernelCall::Spawn(coroutine, Some(Box::new(options)));
        Ok(Pending::Call(binding::call(spawn), call.clone().unbind()))
    }
}

/// Returns an error unless the object is a program.
pub(crate) fn check(program: &Bound<'_, PyAny>) -> PyResult<()> {
    if is_program(program) || program.is_instance_of::<program::Program>() {
        return Ok(());
    }
    let name = program.get_type().name()?.to_string();
    let message = match program.is_callable() {
        true => format!(
            "`{name}` is not a program; call it first, and pass the generator or coroutine that it returns"
        ),
        false => format!("`{name}` is not a program; pass a generator or a coroutine"),
    };
    Err(TiffanyError::BadArgument.err(program.py(), message))
}

/// Whether the object can become a task: a program, or a call, which the task makes and whose
/// answer is its value. A call is then marked as made.
pub(crate) fn can_be_task(object: &Bound<'_, PyAny>) -> bool {
    if is_plain_program(object) {
        return true;
    }
    if let Ok(call) = object.cast::<SystemCall>() {
        call.get().made();
        return true;
    }
    is_program(object) || object.is_instance_of::<program::Program>()
}

/// Returns an error unless the object can become a task.
fn check_task(object: &Bound<'_, PyAny>) -> PyResult<()> {
    match can_be_task(object) {
        true => Ok(()),
        false => check(object),
    }
}

/// Returns the kernel's coroutine for a program or a call.
pub(crate) fn coroutine(program: &Bound<'_, PyAny>, at: Option<Line>) -> PyResult<BoxCoroutine> {
    if is_plain_program(program) {
        return Ok(driver::coroutine(program, ResultForm::Object, at));
    }
    if let Ok(rust) = program.cast::<program::Program>() {
        return rust.get().take(program.py());
    }
    match program.cast::<SystemCall>() {
        Ok(call) => driver::call_coroutine(call, at),
        Err(_) => Ok(driver::coroutine(program, ResultForm::Object, at)),
    }
}

/// A task that ends with the task that started it: it is cancelled when this is dropped.
pub(crate) struct Inner {
    task: tiffany::Task<Value>,
    /// The group of the task, which cancels it when dropped.
    _group: tiffany::Group,
}

impl Inner {
    pub(crate) async fn start(coroutine: BoxCoroutine) -> Result<Inner, TaskError> {
        let group = tiffany::group().checked().await?;
        let task = binding::spawn(coroutine).group(&group).checked().await?;
        Ok(Inner { task, _group: group })
    }

    pub(crate) fn target(&self) -> Target {
        Target::Task(self.task.task_ref())
    }

    /// Waits for the task's value.
    pub(crate) fn wait(&self) -> tiffany::Wait<Watched> {
        tiffany::wait(Watched(self.target()))
    }
}

/// Runs a Rust program as if it were part of this task.
#[cold]
pub(crate) fn inner(py: Python<'_>, program: &Bound<'_, program::Program>) -> PyResult<Pending> {
    let coroutine = program.get().take(py)?;
    Ok(Pending::Future(Box::pin(async move {
        let result = match Inner::start(coroutine).await {
            Ok(inner) => inner.wait().await,
            Err(error) => Err(error),
        };
        Python::attach(|py| call::waited(py, result))
    })))
}
