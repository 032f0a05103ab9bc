//! Handles of tasks, and waiting for tasks and promises.

use std::fmt;
use std::future::{Future as StdFuture, IntoFuture};
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tiffany_kernel::{
    CallKind, Claim, GatherMode, Release, Reply, SystemCall, TaskError, TaskRef, Tid, Value,
    Waitable as Target,
};

use crate::calls::call::{Direct, Pending, RawCall, cloned, typed, unexpected};
use crate::calls::context;
use crate::calls::promise::Future;

/// A handle of a spawned task, with the type of its value.
///
/// Awaiting it returns the value, or the error that the task ended with. If the value can be
/// cloned, it can be awaited by reference, and repeatedly. Dropping it detaches the task, which
/// keeps running.
#[must_use = "dropping a task's handle detaches the task; call `drop` to do so explicitly"]
pub struct Task<T> {
    at: TaskRef,
    value: PhantomData<Rc<T>>,
}

impl<T> Task<T> {
    pub(crate) fn new(at: TaskRef) -> Task<T> {
        Task { at, value: PhantomData }
    }

    /// The task's number.
    pub fn tid(&self) -> Tid {
        self.at.tid
    }

    /// The reference of the task, for calls that take one.
    pub fn task_ref(&self) -> TaskRef {
        self.at
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        context::release(Release::Task(self.at));
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", self.at.tid)
    }
}

/// What [`wait`], [`gather`] and [`race`] take: a task or a promise's future, by value or by
/// reference.
pub trait Waitable {
    /// The type of its value.
    type Output;

    /// The task or promise to wait for.
    fn target(&self) -> Target;

    /// How the value is taken, and what happens to the handle.
    fn claim() -> Claim;

    /// Converts the value to its type.
    fn output(value: Value) -> Result<Self::Output, TaskError>;
}

impl<T: 'static> Waitable for Task<T> {
    type Output = T;

    fn target(&self) -> Target {
        Target::Task(self.at)
    }

    fn claim() -> Claim {
        Claim::Consume
    }

    fn output(value: Value) -> Result<T, TaskError> {
        typed(value)
    }
}

macro_rules! shared_waitable {
    ($($handle:ty, $claim:ident => $target:expr),+ $(,)?) => {
        $(impl<T: Clone + 'static> Waitable for $handle {
            type Output = T;

            fn target(&self) -> Target {
                let target: fn(&$handle) -> Target = $target;
                target(self)
            }

            fn claim() -> Claim {
                Claim::$claim
            }

            fn output(value: Value) -> Result<T, TaskError> {
                cloned(value)
            }
        })+
    };
}

shared_waitable! {
    &Task<T>, Share => |task| Target::Task(task.at),
    Rc<Task<T>>, Share => |task| Target::Task(task.at),
    Future<T>, Share => |future| Target::Future(future.object()),
    &Future<T>, Share => |future| Target::Future(future.object()),
}

/// Waits for a task or a promise. [`Task`] and [`Future`] can also be awaited directly.
///
/// ```
/// use tiffany::{spawn, wait};
///
/// tiffany::try_run(async {
///     let task = spawn(async { 7 }).await;
///     assert_eq!(wait(&task).await?, 7);
///     assert_eq!(task.await?, 7);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn wait<W: Waitable>(on: W) -> Wait<W> {
    Wait { on: Some(on), pending: Pending::new() }
}

/// Waits for a task or a promise on behalf of another line.
pub(crate) fn wait_at<W: Waitable>(on: W, at: &'static Location<'static>) -> Wait<W> {
    Wait { on: Some(on), pending: Pending::new_at(at) }
}

/// The future of [`wait`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Wait<W> {
    // Dropped before the handle, so that the call is withdrawn before the handle is released.
    pending: Pending,
    on: Option<W>,
}

impl<W: Waitable + Unpin> StdFuture for Wait<W> {
    type Output = Result<W::Output, TaskError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let target = this.on.as_ref().map(Waitable::target);
        let polled = this.pending.poll(cx, CallKind::Wait, |port, at| match target {
            Some(target) => port.wait(target, W::claim(), at),
            None => panic!("a wait was polled after it had returned"),
        });
        let Poll::Ready(port) = polled else { return Poll::Pending };
        let reply = port.take_answer();
        match this.on.take() {
            // The handle was released with the reply. After an error it may not have been;
            // releasing it twice does no harm.
            Some(handle) if W::claim() == Claim::Consume && !matches!(reply, Reply::Error(_)) => {
                std::mem::forget(handle);
            }
            handle => drop(handle),
        }
        Poll::Ready(match reply {
            Reply::Value(value) => W::output(value),
            reply => this.pending.read::<Value, Direct>(reply, CallKind::Wait).and_then(W::output),
        })
    }
}

macro_rules! awaitable {
    ($(($($bound:tt)+) $handle:ty),+ $(,)?) => {
        $(impl<$($bound)+> IntoFuture for $handle {
            type Output = Result<T, TaskError>;
            type IntoFuture = Wait<$handle>;

            #[track_caller]
            fn into_future(self) -> Wait<$handle> {
                wait(self)
            }
        })+
    };
}

awaitable! {
    (T: 'static) Task<T>,
    ('a, T: Clone + 'static) &'a Task<T>,
    (T: Clone + 'static) Future<T>,
    ('a, T: Clone + 'static) &'a Future<T>,
}

/// Waits for all items, and returns their values in input order. Fails at once with the earliest
/// failure; the other tasks keep running.
///
/// ```
/// use tiffany::{gather, spawn};
///
/// tiffany::try_run(async {
///     let mut tasks = Vec::new();
///     for n in 1..=3 {
///         tasks.push(spawn(async move { n * n }).await);
///     }
///     assert_eq!(gather(tasks).await?, [1, 4, 9]);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn gather<W: Waitable>(items: impl IntoIterator<Item = W>) -> Gather<W> {
    Gather(Many::new(items, |targets| {
        SystemCall::Gather(targets, GatherMode::FailFast, W::claim())
    }))
}

/// The future of [`gather`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Gather<W>(Many<W>);

impl<W: Waitable + Unpin> StdFuture for Gather<W> {
    type Output = Result<Vec<W::Output>, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(reply) = self.0.raw.poll(cx) else { return Poll::Pending };
        let values = self.0.raw.read::<Vec<Value>, Direct>(reply);
        self.0.answered(values.is_ok());
        Poll::Ready(values.and_then(|values| values.into_iter().map(W::output).collect()))
    }
}

/// Waits for all items, and returns results and errors side by side, in input order.
///
/// ```
/// use tiffany::{gather_settled, spawn, try_spawn};
///
/// tiffany::try_run(async {
///     let good = spawn(async { 1 }).await;
///     let bad = try_spawn(async { Err::<i32, _>("no") }).await;
///     let results = gather_settled([good, bad]).await?;
///     assert_eq!(results[0], Ok(1));
///     assert_eq!(results[1].as_ref().unwrap_err().message(), "no");
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn gather_settled<W: Waitable>(items: impl IntoIterator<Item = W>) -> GatherSettled<W> {
    GatherSettled(Many::new(items, |targets| {
        SystemCall::Gather(targets, GatherMode::Settle, W::claim())
    }))
}

/// The future of [`gather_settled`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct GatherSettled<W>(Many<W>);

impl<W: Waitable + Unpin> StdFuture for GatherSettled<W> {
    type Output = Result<Vec<Result<W::Output, TaskError>>, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(reply) = self.0.raw.poll(cx) else { return Poll::Pending };
        let read = self.0.raw.read::<Reply, Direct>(reply);
        self.0.answered(read.is_ok());
        Poll::Ready(match read {
            Ok(Reply::Results(results)) => {
                Ok(results.into_iter().map(|result| result.and_then(W::output)).collect())
            }
            Ok(_) => unexpected("list of results"),
            Err(error) => Err(error),
        })
    }
}

/// Waits for the first item to end. If that failed, the race fails with its error. The other tasks
/// keep running.
///
/// ```
/// use tiffany::{race, sleep, spawn};
/// use std::time::Duration;
///
/// tiffany::try_run(async {
///     let slow = spawn(async { sleep(Duration::from_secs(1)).await; "slow" }).await;
///     let fast = spawn(async { "fast" }).await;
///     let result = race([slow, fast]).await?;
///     assert_eq!(result.value, "fast");
///     result.cancel_rest().await;
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
///
/// With the winner's value, the result has all handles. With its error, there is only the error:
/// tasks that were passed by value lose their handles then, and the losers keep running. To cancel
/// the others in either case, race references:
///
/// ```
/// use tiffany::{cancel, race, sleep, spawn, try_spawn};
/// use std::time::Duration;
///
/// tiffany::try_run(async {
///     let slow = spawn(async { sleep(Duration::from_secs(3600)).await; "slow" }).await;
///     let bad = try_spawn(async { Err::<&str, _>("no") }).await;
///     let tasks = [slow, bad];
///     let error = race(&tasks).await.unwrap_err();
///     assert_eq!(error.message(), "no");
///     for task in &tasks {
///         cancel(task).await; // No effect on one that is over.
///     }
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn race<W: Waitable>(items: impl IntoIterator<Item = W>) -> Race<W> {
    // All handles are in the result, so none is released with the reply.
    let claim = match W::claim() {
        Claim::Consume => Claim::Take,
        claim => claim,
    };
    Race(Many::new(items, |targets| SystemCall::Race(targets, claim)))
}

/// The future of [`race`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Race<W>(Many<W>);

/// The result of a [`race`].
#[derive(Debug)]
pub struct RaceResult<W: Waitable> {
    /// The item that ended first.
    pub first: W,
    /// Its value.
    pub value: W::Output,
    /// The others, in input order. They keep running.
    pub rest: Vec<W>,
}

impl<T: 'static> RaceResult<Task<T>> {
    /// Cancels the others.
    pub async fn cancel_rest(&self) {
        for loser in &self.rest {
            crate::calls::sys::cancel(loser).await;
        }
    }
}

impl<W: Waitable + Unpin> StdFuture for Race<W> {
    type Output = Result<RaceResult<W>, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(reply) = self.0.raw.poll(cx) else { return Poll::Pending };
        Poll::Ready(match self.0.raw.read::<Reply, Direct>(reply) {
            Ok(Reply::Race(won)) => {
                let (first, value) = *won;
                let mut rest = std::mem::take(&mut self.0.items);
                let first = rest.remove(first);
                W::output(value).map(|value| RaceResult { first, value, rest })
            }
            Ok(_) => unexpected("race result"),
            Err(error) => Err(error),
        })
    }
}

/// A call over several waitables, which it holds until it is answered.
struct Many<W> {
    raw: RawCall,
    items: Vec<W>,
}

impl<W: Waitable> Many<W> {
    #[track_caller]
    fn new(
        items: impl IntoIterator<Item = W>,
        call: impl FnOnce(Vec<Target>) -> SystemCall,
    ) -> Self {
        let items: Vec<W> = items.into_iter().collect();
        let targets = items.iter().map(Waitable::target).collect();
        Many { raw: RawCall::new(call(targets)), items }
    }

    /// Handles the end of the call: with values, the handles were released with the reply;
    /// otherwise they are released here.
    fn answered(&mut self, with_values: bool) {
        let handles = std::mem::take(&mut self.items);
        if with_values && W::claim() == Claim::Consume {
            handles.into_iter().for_each(std::mem::forget);
        }
    }
}
