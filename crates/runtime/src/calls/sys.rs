//! The system calls as functions. Each has the name of its `SystemCall` in the kernel and of its
//! tag in traces, so that one search finds both ends. Handles have their own files.

use crate::calls::work::Origin;
use crate::calls::work::Work;
use std::borrow::Cow;
use std::fmt::Display;
use std::future::Future;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tiffany_kernel::{
    BoxCoroutine, CallKind, EffectWork, ErrorKind, Handler, Handlers, Reply, SpawnOptions,
    SystemCall, TaskError, TaskRef, Tid, Time, Uuid, Value,
};

use crate::calls::agent_task::{AgentTask, StateMachine};
use crate::calls::call::{Call, Cloned, Direct, Moved, Optional, Pending, TryCall, Yield, throw};
use crate::calls::context;
use crate::calls::future_task::{Fallible, FutureTask, Plain};
use crate::calls::group::Group;
use crate::calls::task::Task;
use crate::host::inbox::Remote;
use crate::host::pool::{Job, PoolWork};

/// Lets the other tasks run first.
///
/// ```
/// tiffany::run(async {
///     tiffany::yield_now().await;
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn yield_now() -> Yield {
    Yield::new()
}

/// The number of the calling task.
///
/// ```
/// let tid = tiffany::run(async { tiffany::get_tid().await })?;
/// assert_eq!(tid, tiffany::Tid(1));
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn get_tid() -> Call<Tid> {
    Call::new(SystemCall::GetTid)
}

/// The run's clock. It is set once a round and never goes back.
#[track_caller]
pub fn now() -> Call<Time> {
    Call::new(SystemCall::Now)
}

/// Draws a random number from the run's seed. A resumed durable run gets the same numbers again.
///
/// ```
/// tiffany::run(async {
///     assert_ne!(tiffany::random().await, tiffany::random().await);
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn random() -> Call<u64> {
    Call::new(SystemCall::Random)
}

/// Draws a new UUID. A resumed durable run gets the same one again.
///
/// ```
/// tiffany::run(async {
///     assert_ne!(tiffany::new_uuid().await, tiffany::new_uuid().await);
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn new_uuid() -> Call<Uuid> {
    // Drawn when the call is made.
    Call::new(SystemCall::NewUuid(Uuid(0)))
}

/// Waits for a duration on the run's clock.
#[track_caller]
pub fn sleep(duration: Duration) -> Call<()> {
    Call::new(SystemCall::Sleep(duration))
}

/// Waits for a number of seconds. A negative number, or NaN, is an error at this line.
#[track_caller]
pub fn sleep_secs(seconds: f64) -> Call<()> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => sleep(duration),
        Err(why) => {
            let message = format!("{seconds} seconds is not a duration: {why}");
            Call::bad(CallKind::Sleep, TaskError::new(ErrorKind::BadDuration, message))
        }
    }
}

/// Waits until a moment on the run's clock.
#[track_caller]
pub fn sleep_until(time: Time) -> Call<()> {
    Call::new(SystemCall::SleepUntil(time))
}

/// Spawns a task. The output of its future is its value; for a future that can fail use
/// [`try_spawn`].
///
/// ```
/// use tiffany::spawn;
///
/// tiffany::try_run(async {
///     let task = spawn(async { 6 * 7 }).name("answer").await;
///     assert_eq!(task.await?, 42);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> Spawn<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    Spawn::new(Box::pin(FutureTask::<F, Plain>::new(future)))
}

/// Spawns a task that can fail: with `Err` it is Failed, and its waiters get the error.
///
/// ```
/// use tiffany::try_spawn;
///
/// tiffany::run(async {
///     let task = try_spawn(async { "x".parse::<i32>() }).await;
///     assert_eq!(task.await.unwrap_err().message(), "invalid digit found in string");
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn try_spawn<F, T, E>(future: F) -> Spawn<T>
where
    F: Future<Output = Result<T, E>> + 'static,
    T: 'static,
    E: Display + 'static,
{
    Spawn::new(Box::pin(FutureTask::<F, Fallible>::new(future)))
}

/// Spawns a task that is a state machine.
#[track_caller]
pub fn spawn_agent<A: AgentTask + 'static>(agent: A) -> Spawn<A::Output> {
    Spawn::new(Box::pin(StateMachine::new(agent)))
}

/// Spawns a task with any coroutine, on behalf of that line.
pub(crate) fn spawn_coroutine<T>(
    coroutine: BoxCoroutine,
    at: &'static Location<'static>,
) -> Spawn<T> {
    Spawn { pending: Pending::new_at(at), ..Spawn::new(coroutine) }
}

/// A task to be spawned, with its options.
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Spawn<T> {
    pending: Pending,
    coroutine: Option<BoxCoroutine>,
    options: Option<Box<SpawnOptions>>,
    value: PhantomData<fn() -> T>,
}

impl<T> Spawn<T> {
    #[track_caller]
    fn new(coroutine: BoxCoroutine) -> Spawn<T> {
        let (pending, coroutine) = (Pending::new(), Some(coroutine));
        Spawn { pending, coroutine, options: None, value: PhantomData }
    }

    /// Sets a name, for errors, traces and reports.
    pub fn name(mut self, name: impl Into<Rc<str>>) -> Spawn<T> {
        self.options.get_or_insert_default().name = Some(name.into());
        self
    }

    /// Sets the priority; policies that use it run higher ones first.
    pub fn priority(mut self, priority: u8) -> Spawn<T> {
        self.options.get_or_insert_default().priority = priority;
        self
    }

    /// Replaces the handlers that the task inherits, innermost first.
    pub fn handlers(mut self, handlers: Vec<Rc<dyn Handler>>) -> Spawn<T> {
        self.options.get_or_insert_default().handlers = Handlers::Replace(handlers);
        self
    }

    /// Adds a handler inside those that the task inherits.
    pub fn handler(mut self, handler: impl Handler + 'static) -> Spawn<T> {
        let handler: Rc<dyn Handler> = Rc::new(handler);
        let handlers = &mut self.options.get_or_insert_default().handlers;
        match handlers {
            Handlers::Inherit => *handlers = Handlers::Inside(vec![handler]),
            Handlers::Inside(chain) | Handlers::Replace(chain) => chain.insert(0, handler),
        }
        self
    }

    /// Makes the task a daemon task: it doesn't keep the run alive, and is cancelled when all other
    /// tasks are finished. Its timers don't prevent a deadlock, unless another task waits for it.
    /// Tasks that it spawns are daemon tasks, too.
    ///
    /// ```
    /// use tiffany::{sleep, spawn};
    /// use std::time::Duration;
    ///
    /// let answer = tiffany::run(async {
    ///     let ticks = async {
    ///         loop {
    ///             sleep(Duration::from_secs(60)).await;
    ///         }
    ///     };
    ///     drop(spawn(ticks).daemon().await);
    ///     42
    /// })?;
    /// assert_eq!(answer, 42);
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn daemon(mut self) -> Spawn<T> {
        self.options.get_or_insert_default().daemon = true;
        self
    }

    /// Adds the task to a group.
    pub fn group(mut self, group: &Group) -> Spawn<T> {
        self.options.get_or_insert_default().group = Some(group.object());
        self
    }

    /// Returns the call's error (when a limit is exceeded, for example) as a `Result`.
    pub fn checked(self) -> TrySpawn<T> {
        TrySpawn(self)
    }

    /// The system call, for code that makes it without awaiting it.
    pub(crate) fn into_call(mut self) -> SystemCall {
        let coroutine = self.coroutine.take().expect("nobody has polled it");
        SystemCall::Spawn(coroutine, self.options.take())
    }

    #[inline]
    fn poll_spawn(&mut self, cx: &mut Context<'_>) -> Poll<Result<Task<T>, TaskError>> {
        let (coroutine, options) = (&mut self.coroutine, &mut self.options);
        let polled = self.pending.poll(cx, CallKind::Spawn, |port, at| match coroutine.take() {
            Some(coroutine) => port.spawn(coroutine, options.take(), at),
            None => panic!("a spawn was polled after it had returned"),
        });
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(port) => match port.take_answer() {
                Reply::Task(task) => Poll::Ready(Ok(Task::new(task))),
                reply => {
                    let task = self.pending.read::<TaskRef, Direct>(reply, CallKind::Spawn);
                    Poll::Ready(task.map(Task::new))
                }
            },
        }
    }
}

impl<T> Future for Spawn<T> {
    type Output = Task<T>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Task<T>> {
        match self.get_mut().poll_spawn(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(task)) => Poll::Ready(task),
            Poll::Ready(Err(error)) => throw(error),
        }
    }
}

/// The future of [`Spawn::checked`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct TrySpawn<T>(Spawn<T>);

impl<T> Future for TrySpawn<T> {
    type Output = Result<Task<T>, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_spawn(cx)
    }
}

/// Cancels a task. It never blocks; the task is unwound at its next turn.
///
/// ```
/// use tiffany::{cancel, sleep, spawn};
/// use std::time::Duration;
///
/// tiffany::run(async {
///     let task = spawn(sleep(Duration::from_secs(3600))).await;
///     cancel(&task).await;
///     assert!(task.await.unwrap_err().is_cancelled());
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn cancel<T>(task: &Task<T>) -> Call<()> {
    Call::new(SystemCall::Cancel(task.task_ref()))
}

/// Cancels the task with this number, and returns whether it was alive.
#[track_caller]
pub fn kill_task(tid: Tid) -> Call<bool> {
    Call::new(SystemCall::KillTask(tid))
}

/// Waits until the task with this number is finished, and returns whether it was alive. Its result
/// is available through its handle only.
#[track_caller]
pub fn wait_task(tid: Tid) -> TryCall<bool> {
    TryCall::new(SystemCall::WaitTask(tid))
}

/// Waits until a descriptor is readable.
#[track_caller]
pub fn read_wait(fd: &impl AsRawFd) -> TryCall<()> {
    read_wait_raw(fd.as_raw_fd())
}

/// Waits until a descriptor is writable.
#[track_caller]
pub fn write_wait(fd: &impl AsRawFd) -> TryCall<()> {
    write_wait_raw(fd.as_raw_fd())
}

#[track_caller]
pub(crate) fn read_wait_raw(fd: RawFd) -> TryCall<()> {
    TryCall::new(SystemCall::ReadWait(fd))
}

#[track_caller]
pub(crate) fn write_wait_raw(fd: RawFd) -> TryCall<()> {
    TryCall::new(SystemCall::WriteWait(fd))
}

/// Reads a key of the task's own store.
///
/// ```
/// use tiffany::{get, put};
///
/// tiffany::run(async {
///     put("count", 1u32).await;
///     assert_eq!(get::<u32>("count").await, Some(1));
///     assert_eq!(get::<u32>("other").await, None);
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn get<T: Clone + 'static>(key: &str) -> Call<Option<T>, Optional> {
    Call::new(SystemCall::Get(key.into()))
}

/// Writes a key of the task's own store. Children have a copy from when they were spawned.
#[track_caller]
pub fn put<T: 'static>(key: &str, value: T) -> Call<()> {
    Call::new(SystemCall::Put(key.into(), Value::new(value)))
}

/// Appends to the task's own log.
#[track_caller]
pub fn tell<T: 'static>(entry: T) -> Call<()> {
    Call::new(SystemCall::Tell(Value::new(entry)))
}

/// The task's own log.
#[track_caller]
pub fn get_log() -> Call<Vec<Value>> {
    Call::new(SystemCall::GetLog)
}

/// Reads a key of the environment that all tasks of the run share.
#[track_caller]
pub fn ask<T: Clone + 'static>(key: &str) -> TryCall<T, Cloned> {
    TryCall::new(SystemCall::Ask(key.into()))
}

/// The task's handlers, innermost first.
#[track_caller]
pub fn get_handlers() -> Call<Vec<Rc<dyn Handler>>> {
    Call::new(SystemCall::GetHandlers)
}

/// Adds to the cost of the run, which a limit applies to.
#[track_caller]
pub fn charge(cost: u64) -> TryCall<()> {
    TryCall::new(SystemCall::Charge(cost))
}

/// Does blocking work (files, name look-ups, a long computation) on a thread of its own. A panic in
/// it is an error (TFY0002) with the line of the panic; [`named`] adds a label to such errors.
///
/// ```
/// use tiffany::blocking;
///
/// tiffany::try_run(async {
///     let text = blocking(|| std::fs::read_to_string("/proc/self/comm")).await?;
///     assert!(text.is_ok());
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn blocking<T, F>(work: F) -> TryCall<T, Moved>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    TryCall::new(SystemCall::Effect(blocking_work(work, None, Location::caller())))
}

/// Blocking work as an effect.
pub(crate) fn blocking_work<T, F>(
    work: F,
    origin: Option<Origin>,
    at: &'static Location<'static>,
) -> EffectWork
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let job = Box::new(move || -> Remote {
        let value = work();
        Box::new(move || Ok(Value::new(value)))
    });
    let work = PoolWork { name: "blocking", at: at.into(), job: Job::Once(job) };
    EffectWork { name: work.name, about: None, work: Work::Blocking(work).boxed(origin) }
}

/// Adds a label to errors of a part of a task.
///
/// ```
/// use tiffany::{named, sleep};
/// use std::time::Duration;
///
/// tiffany::run(async {
///     let error = named("warm up", sleep(Duration::MAX).checked()).await.unwrap_err();
///     assert_eq!(error.within(), ["warm up"]);
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub fn named<F: Future>(label: impl Into<Cow<'static, str>>, future: F) -> Named<F> {
    Named { label: label.into(), future }
}

pin_project! {
    /// The future of [`named`].
    #[must_use = "futures do nothing until they are awaited"]
    pub struct Named<F> {
        label: Cow<'static, str>,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Named<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        context::with(|context| context.labels.borrow_mut().push(this.label.clone()));
        let _labelled = Labelled;
        this.future.poll(cx)
    }
}

/// Removes the innermost label, also after a panic.
struct Labelled;

impl Drop for Labelled {
    fn drop(&mut self) {
        context::with(|context| context.labels.borrow_mut().pop());
    }
}
