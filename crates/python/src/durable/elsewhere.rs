//! Async steps: each attempt of a step that is an `async def` is an asyncio task, on an event loop
//! that they share, in a thread of its own. An attempt that is no longer waited for is cancelled.
//! This file doesn't depend on queues, retries or logs.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use tiffany::durable::{Attempt, SpawnedFuture, Spawner, StepError};
use tiffany::{ErrorKind, TaskError, binding};

use crate::durable::work::Work;
use crate::durable::{attempt, interrupt};
use crate::values::coroutine_kind::is_coroutine;

/// The event loop that async steps share.
pub(super) fn spawner() -> Spawner {
    Spawner::new(|future| {
        let given = Python::attach(|py| {
            let polled = Py::new(py, Polled(Mutex::new(Some(future))))?;
            wake(py, polled.bind(py))
        });
        if let Err(error) = given {
            Python::attach(|py| error.write_unraisable(py, None));
        }
    })
}

/// Returns an attribute of `tiffany._aio.loop`.
macro_rules! of_loop {
    ($py:expr, $name:literal) => {{
        static FOUND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let find = || Ok::<_, PyErr>($py.import("tiffany._aio.loop")?.getattr($name)?.unbind());
        FOUND.get_or_try_init($py, find).map(|found| found.bind($py))
    }};
}

/// Returns the event loop; starts it on first use.
fn background(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    of_loop!(py, "background")?.call0()
}

/// Has the event loop poll a future soon.
fn wake(py: Python<'_>, polled: &Bound<'_, Polled>) -> PyResult<()> {
    let soon = match interrupt::are_steps_here() {
        true => intern!(py, "call_soon"),
        false => intern!(py, "call_soon_threadsafe"),
    };
    background(py)?.call_method1(soon, (polled,)).map(drop)
}

/// A future that the event loop polls whenever it is woken.
#[pyclass(frozen, name = "_Polled", module = "tiffany._core")]
struct Polled(Mutex<Option<SpawnedFuture>>);

#[pymethods]
impl Polled {
    fn __call__(slf: Bound<'_, Self>) {
        let waker = Waker::from(Arc::new(Awake(slf.clone().unbind())));
        let mut future = slf.get().0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_over = match future.as_mut() {
            Some(future) => future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready(),
            None => true,
        };
        let over = if is_over { future.take() } else { None };
        drop(future);
        drop(over);
    }
}

/// Whether a callback belongs to this file and not to the program.
pub(super) fn is_ours(callback: &Bound<'_, PyAny>) -> bool {
    callback.is_instance_of::<Polled>() || callback.is_instance_of::<Done>()
}

struct Awake(Py<Polled>);

impl Wake for Awake {
    fn wake(self: Arc<Awake>) {
        // The event loop ended with the interpreter.
        Python::try_attach(|py| {
            if let Err(error) = wake(py, self.0.bind(py)) {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// An attempt at an async step.
pub(super) struct AsyncAttempt {
    work: Arc<Work>,
    state: State,
}

enum State {
    New(Option<Attempt>),
    /// An asyncio task and the `Attempt` that its code sees.
    Running(Py<PyAny>, Py<attempt::Attempt>),
    Over,
}

impl AsyncAttempt {
    pub(super) fn new(work: Arc<Work>, attempt: Attempt) -> AsyncAttempt {
        AsyncAttempt { work, state: State::New(Some(attempt)) }
    }

    /// Starts the task, which wakes the future when it has finished.
    fn start(&self, py: Python<'_>, attempt: Attempt, waker: &Waker) -> PyResult<State> {
        let name = attempt.step_name();
        let attempt = Bound::new(py, attempt::Attempt::new(attempt))?;
        attempt.get().set_waker(waker);
        let coroutine = attempt::within(&attempt, || self.work.call(py, &attempt))?;
        let coroutine = match is_coroutine(&coroutine) {
            true => coroutine,
            false => of_loop!(py, "awaits")?.call1((coroutine,))?,
        };
        let context = attempt::context(&attempt)?;
        let options = PyDict::new(py);
        options.set_item(intern!(py, "loop"), background(py)?)?;
        options.set_item(intern!(py, "name"), name)?;
        options.set_item(intern!(py, "context"), &context)?;
        let task = of_loop!(py, "StepTask")?.call((coroutine,), Some(&options))?;
        task.setattr(intern!(py, "attempt"), &attempt)?;
        let done = Py::new(py, Done(waker.clone()))?;
        // Added in the step's context, so that code that handles the result belongs to the step.
        let options = PyDict::new(py);
        options.set_item(intern!(py, "context"), context)?;
        task.call_method(intern!(py, "add_done_callback"), (done,), Some(&options))?;
        Ok(State::Running(task.unbind(), attempt.unbind()))
    }

    fn result(&self, task: &Bound<'_, PyAny>) -> Result<String, StepError> {
        let py = task.py();
        let over = || -> PyResult<Result<String, StepError>> {
            if task.call_method0("cancelled")?.is_truthy()? {
                let message = "its task was cancelled by other code on its loop";
                let error = TaskError::new(ErrorKind::StepFailed, message);
                return Ok(Err(binding::worth_another_attempt(error)));
            }
            Ok(self.work.result(&task.call_method0("result")?))
        };
        over().unwrap_or_else(|error| Err(self.work.failed(py, &error)))
    }
}

impl Future for AsyncAttempt {
    type Output = Result<String, StepError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Python::attach(|py| {
            let this = &mut *self;
            let ended = match &mut this.state {
                State::New(attempt) => {
                    let attempt = attempt.take().expect("a future is started once");
                    match this.start(py, attempt, cx.waker()) {
                        Ok(running) => {
                            this.state = running;
                            return Poll::Pending;
                        }
                        Err(error) => Err(this.work.failed(py, &error)),
                    }
                }
                State::Running(task, attempt) => {
                    let task = task.bind(py).clone();
                    match task.call_method0("done").and_then(|done| done.is_truthy()) {
                        Ok(false) if attempt.get().is_stopped() => Err(this.work.interrupted()),
                        Ok(false) => return Poll::Pending,
                        Ok(true) => this.result(&task),
                        Err(error) => Err(this.work.failed(py, &error)),
                    }
                }
                State::Over => return Poll::Pending,
            };
            this.state = State::Over;
            Poll::Ready(ended)
        })
    }
}

impl Drop for AsyncAttempt {
    fn drop(&mut self) {
        let State::Running(task, _) = std::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        Python::try_attach(|py| {
            let task = task.into_bound(py);
            // This runs on the event loop's thread, where futures are polled and dropped.
            if let Err(error) = task.call_method0("give_up") {
                error.write_unraisable(py, Some(&task));
            }
        });
    }
}

/// Called by asyncio when a task has finished.
#[pyclass(frozen, name = "_Done", module = "tiffany._core")]
struct Done(Waker);

#[pymethods]
impl Done {
    fn __call__(&self, _task: &Bound<'_, PyAny>) {
        self.0.wake_by_ref();
    }
}
