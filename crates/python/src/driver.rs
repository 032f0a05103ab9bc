//! A generator or coroutine as a task. It is resumed with the answer to its call, until it yields the next one. The loop knows nothing of
//! Python; this is where the two meet.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pyo3::prelude::*;
use tiffany::binding::{self, Program};
use tiffany::kernel::BoxCoroutine;
use tiffany::{Site, TaskError, Value};

use crate::call::{self, Op, SystemCall};
use crate::errors::{self, Raise, TiffanyError};
use crate::line::Line;
use crate::pending::Pending;
use crate::session;
use crate::stack::{CallStack, Input, Output, is_like_program};
use crate::value::to_value;

/// A Python program that runs as a task.
pub(crate) struct PyTask {
    stack: CallStack,
    pending: Pending,
    is_cancelled: bool,
    /// What becomes of the value it returns.
    result: ResultForm,
}

/// In which form a program's value is given away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultForm {
    /// As the object it is.
    Object,
    /// As text that can be written down: the root of a durable run.
    Written,
}

/// What the kernel runs for a program.
pub(crate) fn coroutine(
    program: Py<PyAny>,
    result: ResultForm,
    spawned_at: Option<Line>,
) -> BoxCoroutine {
    let stack = CallStack::new(program);
    let task = PyTask { stack, pending: Pending::Nothing, is_cancelled: false, result };
    binding::coroutine(task, move || {
        let line = spawned_at.as_ref()?;
        Python::attach(|py| line.site(py))
    })
}

impl Future for PyTask {
    type Output = Result<Value, TaskError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Value, TaskError>> {
        let task = self.get_mut();
        Python::attach(|py| {
            let Poll::Ready(mut answer) = task.pending.poll(py, cx) else { return Poll::Pending };
            loop {
                task.pending = Pending::Nothing;
                let input = match answer {
                    Ok(value) => Input::Send(value),
                    Err(error) => Input::Throw(error),
                };
                match task.stack.resume(py, input) {
                    Output::Yielded(object) => {
                        task.pending = task.start(object.bind(py));
                        match task.pending.poll(py, cx) {
                            Poll::Pending => return Poll::Pending,
                            // It went wrong before it was a call.
                            Poll::Ready(result) => answer = result,
                        }
                    }
                    Output::Returned(value) => {
                        return Poll::Ready(task.returned(value.into_bound(py)));
                    }
                    Output::Raised(error) => return Poll::Ready(task.raised(py, error)),
                }
            }
        })
    }
}

impl PyTask {
    /// Begins what was yielded. What is no call is an error at that line.
    #[inline]
    fn start(&mut self, object: &Bound<'_, PyAny>) -> Pending {
        if object.is_none() {
            return Pending::Yield(tiffany::yield_now());
        }
        let Ok(made) = object.cast::<SystemCall>() else { return self.start_other(object) };
        if let Op::Call(program) = &made.get().op {
            self.stack.push(program.clone_ref(object.py()));
            return Pending::Nothing;
        }
        let stack = &self.stack;
        call::start(made, || stack.line(object.py())).unwrap_or_else(Pending::Throw)
    }

    /// Something that is no call: a program of another make, or a mistake.
    #[cold]
    fn start_other(&mut self, object: &Bound<'_, PyAny>) -> Pending {
        if !is_like_program(object) {
            return no_call(object);
        }
        self.stack.push(object.clone().unbind());
        Pending::Nothing
    }

    fn returned(&self, value: Bound<'_, PyAny>) -> Result<Value, TaskError> {
        match self.result {
            ResultForm::Object => Ok(to_value(value)),
            ResultForm::Written => match crate::json::encode(&value) {
                Ok(json) => Ok(binding::json(json)),
                Err(error) => Err(errors::from_python(value.py(), &error)),
            },
        }
    }

    #[cold]
    fn raised(&self, py: Python<'_>, error: PyErr) -> Result<Value, TaskError> {
        if self.is_cancelled && errors::is_cancelled(py, &error) {
            return Ok(Value::Unit);
        }
        if errors::ends_the_run(py, &error) {
            session::interrupt(error.clone_ref(py));
        }
        Err(errors::from_python(py, &error))
    }
}

impl Program for PyTask {
    fn cancel(self: Pin<&mut Self>) {
        let task = self.get_mut();
        task.is_cancelled = true;
        task.pending = Pending::Throw(Python::attach(errors::cancelled));
    }

    fn line(&self) -> Option<Site> {
        Python::attach(|py| self.stack.line(py)?.site(py))
    }
}

/// The error for something that is no call, as an exception at the line that yielded it.
#[cold]
fn no_call(object: &Bound<'_, PyAny>) -> Pending {
    let py = object.py();
    let class = object.get_type();
    let module = class.getattr("__module__").and_then(|module| module.extract::<String>());
    let module = module.unwrap_or_default();
    let name = class.name().map_or_else(|_| "object".into(), |name| name.to_string());
    let message = match module.split('.').next() {
        Some("asyncio" | "_asyncio") => format!(
            "an asyncio object ({name}) was awaited, which only asyncio can do; give the coroutine to it: `await aio(coro)` or `yield Aio(coro)`"
        ),
        _ => format!("`{name}` was yielded, which is no call"),
    };
    Pending::Throw(TiffanyError::NotACall.err(py, message))
}
