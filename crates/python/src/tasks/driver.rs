//! A generator or coroutine as a task of the kernel. It is resumed with the answer to its call,
//! until it yields the next one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use tiffany::binding::{self, Program};
use tiffany::kernel::{BoxCoroutine, Frame};
use tiffany::{Site, TaskError, Value};

use crate::calls::awaiter::awaiter;
use crate::calls::call;
use crate::calls::call::{Op, SystemCall};
use crate::calls::pending::Pending;
use crate::calls::pyos_call::PyosCall;
use crate::durable::interrupt;
use crate::handles;
use crate::process::session;
use crate::process::session::Process;
use crate::tasks::contextvars::TaskContext;
use crate::tasks::stack::{CallStack, Input, Output, is_like_program};
use crate::tasks::{asyncgens, program, spawn};
use crate::values::errors;
use crate::values::errors::{Delivered, Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::value::to_value;

/// A Python program that runs as a task.
pub(crate) struct PyTask {
    stack: CallStack,
    context: TaskContext,
    pending: Pending,
    is_cancelled: bool,
    /// The last exception of another task that was raised in this one.
    delivered: Option<Box<Delivered>>,
    /// The process that the task belongs to.
    process: Process,
    /// Whether the task belongs to a durable run, known since its first turn.
    is_durable: bool,
    /// The form in which the task's value is returned.
    result: ResultForm,
    /// The task's outcome, while it closes its async generators.
    end: Option<Box<Output>>,
}

/// The form in which a program's value is returned.
pub(crate) enum ResultForm {
    /// The object itself.
    Object,
    /// Encoded text, for the root of a durable run of this function.
    Written(Py<PyAny>),
}

/// Returns the kernel's coroutine for a program.
pub(crate) fn coroutine(
    program: &Bound<'_, PyAny>,
    result: ResultForm,
    spawned_at: Option<Line>,
) -> BoxCoroutine {
    of_stack(program.py(), CallStack::new(program.clone().unbind()), result, spawned_at)
}

/// Returns the kernel's coroutine for a task that makes one call.
pub(crate) fn call_coroutine(
    call: &Bound<'_, SystemCall>,
    spawned_at: Option<Line>,
) -> PyResult<BoxCoroutine> {
    let py = call.py();
    let awaiter = awaiter(py, call.clone().unbind())?;
    let stack = CallStack::of_call(awaiter, spawned_at.as_ref().map(|line| line.clone_ref(py)));
    Ok(of_stack(py, stack, ResultForm::Object, spawned_at))
}

#[inline]
fn of_stack(
    py: Python<'_>,
    stack: CallStack,
    result: ResultForm,
    spawned_at: Option<Line>,
) -> BoxCoroutine {
    let context = TaskContext::copy(py);
    let task = PyTask {
        stack,
        context,
        pending: Pending::Nothing,
        is_cancelled: false,
        is_durable: false,
        delivered: None,
        process: Process::current(),
        result,
        end: None,
    };
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
        task.process.end_if_forked();
        if matches!(task.pending, Pending::Nothing) {
            task.is_durable = binding::is_durable();
        }
        let polled = Python::attach(|py| {
            let _inside = task.context.enter(py);
            let is_first = matches!(task.pending, Pending::Nothing);
            let Poll::Ready(mut answer) = task.pending.poll(py, cx) else { return Poll::Pending };
            if is_first && let Err(error) = task.stack.check(py) {
                // The program belongs to other code, which continues it.
                task.stack.disown();
                return Poll::Ready(Err(errors::from_python(py, &error)));
            }
            loop {
                task.pending = Pending::Nothing;
                let output = match answer {
                    Ok(value) => task.stack.resume(py, Input::Send(value)),
                    Err(error) => task.throw(py, error),
                };
                task.process.end_if_forked();
                let output = match asyncgens::any_left() || task.end.is_some() {
                    true => task.close_left(py, output),
                    false => output,
                };
                match output {
                    Output::Yielded(object) => {
                        task.pending = task.start(object.bind(py));
                        match task.pending.poll(py, cx) {
                            Poll::Pending => return Poll::Pending,
                            // The request failed before it became a call.
                            Poll::Ready(result) => answer = result,
                        }
                    }
                    Output::Returned(value) => {
                        return Poll::Ready(task.returned(value.into_bound(py)));
                    }
                    Output::Raised(error) => return Poll::Ready(task.raised(py, error)),
                }
            }
        });
        if task.is_durable && interrupt::note() {
            // The state of this task is discarded: its run continues from its log.
            return Poll::Ready(Err(TaskError::failed("it kept its turn for too long")));
        }
        polled
    }
}

impl PyTask {
    /// Has the task close the async generators that it has dropped, before it makes its next call
    /// or ends.
    #[cold]
    fn close_left(&mut self, py: Python<'_>, mut output: Output) -> Output {
        loop {
            let left = asyncgens::take();
            if left.is_empty() {
                break;
            }
            let closing = match output {
                Output::Yielded(call) => {
                    let closing = asyncgens::close_before(py, left, call);
                    closing.and_then(|closing| self.stack.call(py, closing))
                }
                over => {
                    self.end.get_or_insert(Box::new(over));
                    let closing = asyncgens::close_all(py, left);
                    closing.map(|closing| self.stack = CallStack::new(closing))
                }
            };
            output = self.stack.resume(
                py,
                match closing {
                    Ok(()) => Input::Send(py.None()),
                    Err(error) => Input::Throw(error),
                },
            );
        }
        match output {
            Output::Yielded(call) => Output::Yielded(call),
            over => self.end.take().map_or(over, |end| *end),
        }
    }

    /// Resumes the program with an exception.
    #[cold]
    fn throw(&mut self, py: Python<'_>, error: PyErr) -> Output {
        self.delivered = Delivered::new(py, &error);
        let output = self.stack.resume(py, Input::Throw(error));
        if let Some(delivered) = &self.delivered {
            let raised = match &output {
                Output::Raised(error) => Some(error),
                _ => None,
            };
            delivered.after(py, raised);
        }
        output
    }

    /// Begins a yielded call. Anything else is an error at that line.
    #[inline]
    fn start(&mut self, object: &Bound<'_, PyAny>) -> Pending {
        if object.is_none() {
            return Pending::Yield(tiffany::yield_now());
        }
        let Ok(made) = object.cast::<SystemCall>() else { return self.start_other(object) };
        if let Op::Call(program) = &made.get().op {
            made.get().made();
            let program = program.clone_ref(object.py());
            return match program.bind(object.py()).cast::<program::Program>() {
                Ok(rust) => spawn::inner(object.py(), rust).unwrap_or_else(Pending::Throw),
                Err(_) => self.call(object.py(), program),
            };
        }
        if let Op::ContinueAs(args, kwargs) = &made.get().op {
            return self.continue_as(made, args, kwargs).unwrap_or_else(Pending::Throw);
        }
        let stack = &self.stack;
        call::start(made, || stack.line(object.py())).unwrap_or_else(Pending::Throw)
    }

    /// Handles a yielded object that is not a call: a program of another type, or a mistake.
    #[cold]
    fn start_other(&mut self, object: &Bound<'_, PyAny>) -> Pending {
        if let Ok(rust) = object.cast::<program::Program>() {
            return spawn::inner(object.py(), rust).unwrap_or_else(Pending::Throw);
        }
        if !is_like_program(object) {
            return no_call(object);
        }
        self.call(object.py(), object.clone().unbind())
    }

    fn call(&mut self, py: Python<'_>, program: Py<PyAny>) -> Pending {
        match self.stack.call(py, program) {
            Ok(()) => Pending::Nothing,
            Err(error) => Pending::Throw(error),
        }
    }

    /// Restarts the run's function with these arguments. Tasks other than the root of a durable run
    /// are refused.
    #[cold]
    fn continue_as(
        &self,
        call: &Bound<'_, SystemCall>,
        args: &Py<PyTuple>,
        kwargs: &Py<PyDict>,
    ) -> PyResult<Pending> {
        let py = call.py();
        call.get().made();
        let input = match &self.result {
            ResultForm::Object => String::from("{}"),
            ResultForm::Written(function) => {
                let workflows = py.import("tiffany.durable._workflows")?;
                let given = workflows.call_method1("arguments", (function, args, kwargs))?;
                crate::values::json::encode(&given, || "what the run continues with".into())?
            }
        };
        Ok(Pending::Call(binding::continue_as(&input), call.clone().unbind()))
    }

    fn returned(&self, value: Bound<'_, PyAny>) -> Result<Value, TaskError> {
        match &self.result {
            ResultForm::Object => Ok(to_value(value)),
            ResultForm::Written(function) => {
                let result = crate::values::json::encode(&value, || {
                    let name = function.bind(value.py()).getattr("__qualname__");
                    let name = name.map_or_else(|_| "?".into(), |name| name.to_string());
                    format!("the result of workflow `{name}`")
                });
                result.map(binding::json).map_err(|error| errors::from_python(value.py(), &error))
            }
        }
    }

    #[cold]
    fn raised(&mut self, py: Python<'_>, error: PyErr) -> Result<Value, TaskError> {
        if self.is_cancelled && errors::is_cancelled(py, &error) {
            return Ok(Value::Unit);
        }
        if errors::ends_the_run(py, &error) {
            session::interrupt(error.clone_ref(py));
            return Err(errors::from_python(py, &error));
        }
        let error = errors::explained(py, error);
        Err(errors::uncaught(py, &error, self.delivered.take()))
    }
}

impl Drop for PyTask {
    /// Closes an unfinished program, except in a durable run, where only the end of the task and a
    /// cancellation unwind it. A durable task that is dropped in between continues in another
    /// process, so its `finally` blocks must not run here.
    #[inline]
    fn drop(&mut self) {
        if self.stack.is_over() || !self.process.is_current() {
            return;
        }
        Python::attach(|py| {
            if self.is_durable {
                return self.stack.leave(py);
            }
            let _inside = self.context.enter(py);
            call::while_closing(|| self.stack.close(py));
            if asyncgens::any_left() {
                asyncgens::close_left(py);
            }
        });
    }
}

impl Program for PyTask {
    fn cancel(self: Pin<&mut Self>) {
        let task = self.get_mut();
        task.is_cancelled = true;
        let pending = std::mem::replace(&mut task.pending, Pending::Nothing);
        task.pending = Python::attach(|py| pending.cancelled(py));
    }

    fn end(self: Pin<&mut Self>) {
        // The program is closed like an ephemeral one, so that its `finally` blocks run.
        self.get_mut().is_durable = false;
    }

    fn line(&self) -> Option<Site> {
        Python::attach(|py| self.stack.line(py)?.site(py))
    }

    fn frames(&self) -> Vec<Frame> {
        match self.stack.is_over() || !self.process.is_current() {
            true => Vec::new(),
            false => Python::attach(|py| self.stack.frames(py)),
        }
    }
}

/// Returns the error for an object that is not a call, as an exception at the line that yielded it.
#[cold]
fn no_call(object: &Bound<'_, PyAny>) -> Pending {
    let py = object.py();
    let class = object.get_type();
    if object.is_instance_of::<PyosCall>() {
        let name = class.name().map_or_else(|_| "call".into(), |name| name.to_string());
        let message = format!("`{name}` of `tiffany.pyos` was yielded by a task that is not of it");
        return Pending::Throw(TiffanyError::NoPyosScheduler.err(py, message));
    }
    let module = class.getattr("__module__").and_then(|module| module.extract::<String>());
    let module = module.unwrap_or_default();
    let name = class.name().map_or_else(|_| "object".into(), |name| name.to_string());
    let hint = match module.split('.').next() {
        Some("asyncio" | "_asyncio") => {
            let what = format!("an asyncio object ({name}) was awaited");
            return Pending::Throw(errors::needs_asyncio(py, &what));
        }
        _ if name == "async_generator" => "; go through it with `async for`",
        _ if handles::known_target(object).is_some() => "; `Wait` waits for it",
        _ if object
            .cast::<PyType>()
            .is_ok_and(|class| class.is_subclass_of::<SystemCall>().unwrap_or(false)) =>
        {
            "; it is the class of a call: write `()` after it"
        }
        _ if object.is_callable() => "; should it be called first?",
        _ if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() => {
            "; `Gather` waits for several tasks"
        }
        _ if object.hasattr("__await__").unwrap_or(false) => "; await it in an `async def`",
        _ => "",
    };
    let message = format!("`{name}` was yielded, which is not a call{hint}");
    Pending::Throw(TiffanyError::NotACall.err(py, message))
}
