//! The future of a call that a task has made.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pyo3::prelude::*;
use tiffany::kernel::Waitable as Target;
use tiffany::{Claim, Reply, TaskError, TryCall, TrySpawn, Value, Waitable};

use crate::calls::call;
use crate::calls::call::{Boxed, SystemCall};
use crate::calls::outside_work::Outside;
use crate::handles::Task;
use crate::values::errors;

/// The pending call of a task.
pub(crate) enum Pending {
    /// The first turn, or an immediate `None`.
    Nothing,
    /// A turn that raises an exception.
    Throw(PyErr),
    Yield(tiffany::Yield),
    Wait(tiffany::Wait<Watched>),
    Spawn(TrySpawn<Value>),
    /// Any other call of the kernel.
    Call(TryCall<Reply>, Py<SystemCall>),
    /// Work outside the loop.
    Outside(Box<Outside>),
    /// A future made of several calls, or of none.
    Future(Boxed),
}

/// A wait for a task or a promise. The Python object owns the handle.
pub(crate) struct Watched(pub(crate) Target);

impl Waitable for Watched {
    type Output = Value;

    fn target(&self) -> Target {
        self.0
    }

    fn claim() -> Claim {
        Claim::Share
    }

    fn output(value: Value) -> Result<Value, TaskError> {
        Ok(value)
    }
}

impl Pending {
    pub(crate) fn wait(target: Target) -> Pending {
        Pending::Wait(tiffany::wait(Watched(target)))
    }

    /// Handles the cancellation of the task.
    pub(crate) fn cancelled(self, py: Python<'_>) -> Pending {
        match self {
            Pending::Outside(outside) => Pending::Future(outside.cancelled(py)),
            _ => Pending::Throw(errors::cancelled(py)),
        }
    }

    /// Makes the call, or takes its answer.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        py: Python<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<PyResult<Py<PyAny>>> {
        match self {
            Pending::Nothing => Poll::Ready(Ok(py.None())),
            Pending::Yield(call) => Pin::new(call).poll(cx).map(|()| Ok(py.None())),
            Pending::Wait(call) => Pin::new(call).poll(cx).map(|result| call::waited(py, result)),
            Pending::Spawn(call) => Pin::new(call).poll(cx).map(|spawned| match spawned {
                Ok(task) => {
                    let handle = Task::new(task.task_ref());
                    // From now on the Python object owns the handle.
                    std::mem::forget(task);
                    Ok(Py::new(py, handle)?.into_any())
                }
                Err(error) => Err(errors::to_python(py, &error)),
            }),
            Pending::Call(future, made) => Pin::new(future).poll(cx).map(|result| match result {
                Ok(reply) => call::answer(made.bind(py), reply),
                Err(error) => call::answer(made.bind(py), Reply::Error(error)),
            }),
            Pending::Outside(outside) => outside.poll(py, cx),
            Pending::Future(future) => future.as_mut().poll(cx),
            Pending::Throw(_) => match std::mem::replace(self, Pending::Nothing) {
                Pending::Throw(error) => Poll::Ready(Err(error)),
                _ => unreachable!("it was looked at"),
            },
        }
    }
}
