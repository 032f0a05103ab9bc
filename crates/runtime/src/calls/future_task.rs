//! A Rust future as a coroutine: resumed by polling it, unwound by dropping it. Panics are caught
//! here.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Weak;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;
use tiffany_kernel::{CallId, Coroutine, Port, Step, TaskError, Unwind, Value};

use crate::calls::context;
use crate::calls::context::Notes;
use crate::calls::waker::{TASK_WAKER, TaskWaker};
use crate::host::panics::panic_error;

pin_project! {
    /// A future that runs as a task. `O` defines what its output means.
    pub(crate) struct FutureTask<F, O> {
        #[pin]
        future: Option<F>,
        foreign: Option<Box<Foreign>>,
        output: PhantomData<fn() -> O>,
    }

    impl<F, O> PinnedDrop for FutureTask<F, O> {
        fn drop(this: Pin<&mut Self>) {
            // A task that never ran, or a run that is abandoned. The panic hook has reported the
            // panic.
            let mut future = this.project().future;
            let _ = catch_unwind(AssertUnwindSafe(|| future.set(None)));
        }
    }
}

/// Data that a task needs while it awaits something that is not a system call.
#[derive(Default)]
struct Foreign {
    /// Alive only while something outside the task has the waker.
    waker: Option<Weak<TaskWaker>>,
    /// Combinators through which calls were polled.
    wakers: BTreeMap<CallId, Waker>,
}

/// What the output of a task's future means for the task.
pub(crate) trait Output<T> {
    fn step(output: T) -> Step;
}

/// Any value: the task is Completed.
pub(crate) struct Plain;

/// A result: the task is Completed or Failed.
pub(crate) struct Fallible;

impl<T: 'static> Output<T> for Plain {
    #[inline]
    fn step(output: T) -> Step {
        Step::Done(Value::new(output))
    }
}

impl<T: 'static, E: Display + 'static> Output<Result<T, E>> for Fallible {
    fn step(output: Result<T, E>) -> Step {
        match output {
            Ok(value) => Step::Done(Value::new(value)),
            Err(error) => Step::Failed(into_task_error(error)),
        }
    }
}

/// Converts any error to a task's error. An error of another task keeps its data.
pub(crate) fn into_task_error<E: Display + 'static>(error: E) -> TaskError {
    let any: &dyn Any = &error;
    if let Some(known) = any.downcast_ref::<TaskError>() {
        return known.clone();
    }
    if let Some(boxed) = any.downcast_ref::<Box<dyn std::error::Error>>()
        && let Some(known) = boxed.downcast_ref::<TaskError>()
    {
        return known.clone();
    }
    // Errors of sockets are `io::Error`s, with the task's own error inside if there is one.
    if let Some(inner) = any.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
        && let Some(known) = inner.downcast_ref::<TaskError>()
    {
        return known.clone();
    }
    TaskError::failed(error.to_string())
}

impl<F, O> FutureTask<F, O> {
    pub(crate) fn new(future: F) -> FutureTask<F, O> {
        FutureTask { future: Some(future), foreign: None, output: PhantomData }
    }

    /// The future, until the task has ended.
    pub(crate) fn program(&self) -> Option<&F> {
        self.future.as_ref()
    }

    /// The pinned future, until the task has ended.
    pub(crate) fn program_mut(self: Pin<&mut Self>) -> Option<Pin<&mut F>> {
        self.project().future.as_pin_mut()
    }
}

impl<F, O> Coroutine for FutureTask<F, O>
where
    F: Future,
    O: Output<F::Output>,
{
    #[inline]
    fn resume(self: Pin<&mut Self>, port: &Port) -> Step {
        let mut this = self.project();
        let context = context::current();
        let traced = context.begin_turn();
        if let Some(foreign) = this.foreign {
            foreign.before_poll(port);
        }
        let mut step = Step::Pending;
        let polled = match traced {
            false => poll_once::<F, O>(this.future.as_mut(), &mut step),
            true => poll_in_span::<F, O>(this.future.as_mut(), &mut step),
        };
        if context.has_notes() || polled.is_err() {
            return after_poll(this.future, this.foreign, polled, step);
        }
        step
    }

    fn unwind(self: Pin<&mut Self>, _: &Port, _: Unwind) -> Step {
        match drop_future(self.project().future) {
            Ok(()) => Step::Done(Value::Unit),
            Err(panic) => Step::Failed(panic),
        }
    }

    fn may_be_woken(&self) -> bool {
        let waker = self.foreign.as_ref().and_then(|foreign| foreign.waker.as_ref());
        let lives = waker.is_some_and(|waker| waker.strong_count() > 0);
        // If the waker is seen to be gone, the message that it sent is visible too.
        fence(Ordering::Acquire);
        lives
    }
}

type Polled = Result<(), Box<dyn Any + Send>>;

/// Polls a future, and drops it as soon as it is ready. Converting its output is user code too,
/// because an error is turned into text.
#[inline]
fn poll_once<F: Future, O: Output<F::Output>>(
    mut future: Pin<&mut Option<F>>,
    step: &mut Step,
) -> Polled {
    catch_unwind(AssertUnwindSafe(|| {
        let running = future.as_mut().as_pin_mut().expect("a task that is over has no turn");
        if let Poll::Ready(output) = running.poll(&mut Context::from_waker(&TASK_WAKER)) {
            future.set(None);
            *step = O::step(output);
        }
    }))
}

/// Polls a future in the task's span, for the log lines of its code.
#[cold]
fn poll_in_span<F: Future, O: Output<F::Output>>(
    future: Pin<&mut Option<F>>,
    step: &mut Step,
) -> Polled {
    let span = context::with(|context| context.task_span());
    let _in_span = span.as_ref().map(|span| span.enter());
    poll_once::<F, O>(future, step)
}

/// Handles a poll that panicked, or left more than calls.
#[cold]
fn after_poll<F>(
    future: Pin<&mut Option<F>>,
    foreign: &mut Option<Box<Foreign>>,
    polled: Polled,
    step: Step,
) -> Step {
    if let Some(notes) = context::current().take_notes()
        && let Some(error) = keep_notes(foreign, notes)
    {
        return match drop_future(future) {
            Ok(()) => Step::Failed(error),
            Err(panic) => Step::Failed(panic),
        };
    }
    match polled {
        Ok(()) => step,
        Err(payload) => panicked(future, payload),
    }
}

/// Keeps the wakers that were left, and returns the error that was thrown, if any.
#[cold]
fn keep_notes(foreign: &mut Option<Box<Foreign>>, notes: Notes) -> Option<TaskError> {
    if notes.own_waker.is_some() || !notes.wakers.is_empty() {
        let foreign = foreign.get_or_insert_default();
        foreign.waker = notes.own_waker.or(foreign.waker.take());
        foreign.add_wakers(notes.wakers);
    }
    notes.thrown
}

#[cold]
fn panicked<F>(future: Pin<&mut Option<F>>, payload: Box<dyn Any + Send>) -> Step {
    let error = panic_error(payload, "panicked");
    let _ = drop_future(future);
    Step::Failed(error)
}

/// Drops a future, which runs the cleanup of everything in it, innermost first.
fn drop_future<F>(mut future: Pin<&mut Option<F>>) -> Result<(), TaskError> {
    catch_unwind(AssertUnwindSafe(|| future.set(None)))
        .map_err(|payload| panic_error(payload, "panicked while being dropped"))
}

impl Foreign {
    /// Wakes the combinators whose calls were answered, and rearms the task's own waker.
    fn before_poll(&mut self, port: &Port) {
        if let Some(waker) = self.waker.as_ref().and_then(Weak::upgrade) {
            waker.rearm();
        }
        context::with(|context| {
            *context.own_waker.borrow_mut() = port.task().zip(self.waker.clone());
            if !self.wakers.is_empty() {
                context.delivering.set(true);
                for id in port.answered() {
                    if let Some(waker) = self.wakers.remove(&id) {
                        // This runs a combinator's code; the panic hook reports a panic in it.
                        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                    }
                }
                context.delivering.set(false);
            }
        });
    }

    fn add_wakers(&mut self, fresh: BTreeMap<CallId, Option<Waker>>) {
        for (id, waker) in fresh {
            match waker {
                Some(waker) => self.wakers.insert(id, waker),
                None => self.wakers.remove(&id),
            };
        }
    }
}
