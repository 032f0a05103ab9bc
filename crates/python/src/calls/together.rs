//! Waiting for programs and calls. `Wait`, `Gather`, `Race` and `Timeout` accept everything that
//! can be yielded: a program or a call becomes a task when the waiting call is made, and is
//! cancelled if it is unfinished when that call ends. Tasks and promises are used as they are.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use tiffany::kernel::{BoxCoroutine, GatherMode, Waitable as Target};
use tiffany::{Claim, Reply, SystemCall as KernelCall, TaskError, binding};

use crate::calls::call;
use crate::calls::call::SystemCall;
use crate::calls::pending::Pending;
use crate::handles::known_target;
use crate::tasks::spawn;
use crate::tasks::spawn::Inner;
use crate::tasks::stack::is_program;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;

/// How the objects are waited for.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Wait for one object, and return its value.
    Wait,
    Gather(GatherMode),
    Race,
}

/// Objects to wait for, some of which have to become tasks first.
pub(crate) struct Together {
    items: Vec<Py<PyAny>>,
    how: How,
}

impl Together {
    /// Returns an error unless all of the objects can be waited for.
    pub(crate) fn new(py: Python<'_>, items: Vec<Py<PyAny>>, how: How) -> PyResult<Together> {
        for item in &items {
            check(item.bind(py))?;
        }
        Ok(Together { items, how })
    }

    /// The objects.
    pub(crate) fn items(&self) -> &[Py<PyAny>] {
        &self.items
    }

    /// The name of the call.
    pub(crate) fn name(&self) -> &'static str {
        match self.how {
            How::Wait => "Wait",
            How::Gather(GatherMode::FailFast) => "Gather",
            How::Gather(GatherMode::Settle) => "GatherSettled",
            How::Race => "Race",
        }
    }

    /// Shows the garbage collector the objects that the wait holds.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.items.iter().try_for_each(|item| visit.call(item))
    }

    /// Spawns tasks for programs and calls, in the order of the arguments, and then waits.
    pub(crate) fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        let mut targets = Vec::with_capacity(self.items.len());
        let mut coroutines = Vec::new();
        for item in &self.items {
            match Awaited::of(item.bind(py), at)? {
                Awaited::Known(target) => targets.push(Some(target)),
                Awaited::New(coroutine) => {
                    targets.push(None);
                    coroutines.push(coroutine);
                }
            }
        }
        let (call, how) = (call.clone().unbind(), self.how);
        Ok(Pending::Future(Box::pin(async move {
            let reply = wait(targets, coroutines, how).await;
            let reply = reply.unwrap_or_else(Reply::Error);
            Python::attach(|py| call::answer(call.bind(py), reply))
        })))
    }
}

/// An object to wait for.
pub(crate) enum Awaited {
    Known(Target),
    /// A program or a call, which becomes a task.
    New(BoxCoroutine),
}

impl Awaited {
    pub(crate) fn of(item: &Bound<'_, PyAny>, at: &dyn Fn() -> Option<Line>) -> PyResult<Awaited> {
        match known_target(item) {
            Some(target) => Ok(Awaited::Known(target)),
            None => Ok(Awaited::New(spawn::coroutine(item, at())?)),
        }
    }
}

/// Waits, and then cancels the unfinished tasks that it spawned.
async fn wait(
    targets: Vec<Option<Target>>,
    coroutines: Vec<BoxCoroutine>,
    how: How,
) -> Result<Reply, TaskError> {
    let mut made = Vec::with_capacity(coroutines.len());
    for coroutine in coroutines {
        made.push(Inner::start(coroutine).await?);
    }
    let mut new = made.iter().map(Inner::target);
    let all = targets.into_iter().filter_map(|target| target.or_else(|| new.next())).collect();
    let call = match how {
        How::Gather(mode) => KernelCall::Gather(all, mode, Claim::Share),
        How::Race => KernelCall::Race(all, Claim::Share),
        How::Wait => {
            let [target] = all[..] else { unreachable!("there is one to wait for") };
            KernelCall::Wait(target, Claim::Share)
        }
    };
    binding::call(call).await
}

/// Whether the object is a single one to wait for, and not a list or a generator expression of
/// several.
pub(crate) fn is_one(object: &Bound<'_, PyAny>) -> bool {
    if known_target(object).is_some() || object.is_instance_of::<SystemCall>() {
        return true;
    }
    is_program(object) && !is_generator_expression(object)
}

fn is_generator_expression(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    let code = object.getattr(intern!(py, "gi_code"));
    let name = code.and_then(|code| code.getattr(intern!(py, "co_name")));
    name.is_ok_and(|name| name.eq("<genexpr>").unwrap_or(false))
}

/// Returns an error unless the object can be waited for.
pub(crate) fn check(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if known_target(object).is_some() || spawn::can_be_task(object) {
        return Ok(());
    }
    let name = object.get_type().name()?.to_string();
    let hint = match object.is_callable() {
        true => "; call it first",
        false => "",
    };
    let message = format!(
        "`{name}` cannot be waited for; a task, a future, a call, a generator or a coroutine can{hint}"
    );
    Err(TiffanyError::BadArgument.err(object.py(), message))
}
