//! The interface for other languages on top of this crate: tasks whose code is not Rust, untyped
//! calls, values as the log has them, and a hook around the waits of the loop. Rust programs don't
//! need it.

pub(crate) mod agent;
pub(crate) mod durable;
pub(crate) mod guest;
pub(crate) mod retention;
pub(crate) mod stepping;

use std::borrow::Cow;
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

pub use crate::calls::outside::{Finish, blocking, outside};
pub use crate::calls::work::{Origin, origin};
pub use crate::durable::{Language, Wanted, Way};
pub use crate::host::kept_handler::KeptHandler;
pub use crate::host::owner_process::end_forked_child;
pub use crate::watchdog::Interrupter;
pub use agent::{Agent, agent, request};
pub use durable::{
    answer_question, asking, check_attribute_changes, continue_as, durable_run, encoded, failing,
    fork, fork_by, is_live, make_step, plain, settle_durable, settle_durable_in, show, step,
    step_elsewhere, transactional, wait_for, when_ended, with_origin, worth_another_attempt,
};
pub use guest::{Rest, descriptor, go_on, is_over, settled};
pub use retention::{
    carry_out_by, collect_blobs_by, compact, compact_by, log_dir, plan_for, prune,
};
pub use stepping::{finish_test, start_test};
pub use tiffany_kernel::Release;
use tiffany_kernel::{
    BoxCoroutine, Coroutine, Frame, Port, Reply, Rules, Run, Site, Step, SystemCall, TaskError,
    TaskRef, Unwind, Value,
};
pub use tiffany_log::not_inherited::{NotInherited, keep_handler_from_children};

use crate::calls::call::TryCall;
use crate::calls::context;
use crate::calls::context::Sources;
use crate::calls::future_task::{Fallible, FutureTask};
use crate::calls::sys::{Spawn, spawn_coroutine};
use crate::host::attempt::Attempt;
use crate::host::inbox::LoopMessage;
use crate::runtime::builder::{Builder, EnvValue};
use crate::runtime::{RunHandle, Runtime};
use tiffany_records::RunError;
use tiffany_records::value::Json;

/// Notes that the code of the running task was interrupted by an [`Interrupter`], so that what its
/// run has done in this turn is discarded.
pub fn interrupted() {
    context::with(|context| context.interrupted.set(true));
}

/// The code of a task in another language. It is polled like any future, and may poll others.
pub trait Program: Future<Output = Result<Value, TaskError>> {
    /// Called when the task was cancelled and its calls were withdrawn. From now on it is polled
    /// for its cleanup, in which it may make calls. When it is ready, the task is Cancelled, or
    /// Failed with the error that it returned.
    fn cancel(self: Pin<&mut Self>);

    /// Called before it is dropped because its run starts again: it has ended as if it had
    /// returned.
    fn end(self: Pin<&mut Self>) {}

    /// The line at which it waits.
    fn line(&self) -> Option<Site>;

    /// What it waits for while it has no call outstanding, for display. [`Release::Wake`] wakes it.
    fn waits_for(&self) -> Option<Cow<'static, str>> {
        None
    }

    /// Its call stack, the innermost function last, with their variables.
    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

/// A program as a task, with the line that spawned it.
struct ProgramTask<P, S> {
    task: FutureTask<P, Fallible>,
    spawned_at: S,
}

/// A coroutine for the kernel that runs a program. The line that spawned it is computed only when
/// it is needed.
pub fn coroutine<P, S>(program: P, spawned_at: S) -> BoxCoroutine
where
    P: Program + 'static,
    S: Fn() -> Option<Site> + 'static,
{
    Box::pin(ProgramTask { task: FutureTask::new(program), spawned_at })
}

/// A coroutine for the kernel that runs a Rust future, among tasks of another language.
pub fn from_future(
    future: impl Future<Output = Result<Value, TaskError>> + 'static,
) -> BoxCoroutine {
    Box::pin(FutureTask::<_, Fallible>::new(future))
}

impl<P: Program, S: Fn() -> Option<Site>> ProgramTask<P, S> {
    fn task(self: Pin<&mut Self>) -> Pin<&mut FutureTask<P, Fallible>> {
        // SAFETY: the field is pinned whenever the whole is; nothing moves out of it.
        unsafe { self.map_unchecked_mut(|task| &mut task.task) }
    }

    /// Adds the task to the error that ends it.
    #[cold]
    fn failed(&self, port: &Port, error: TaskError) -> Step {
        match port.label() {
            Some(mut label) => {
                label.spawned_at = (self.spawned_at)().unwrap_or(label.spawned_at);
                Step::Failed(error.through_task(label))
            }
            None => Step::Failed(error),
        }
    }
}

impl<P: Program, S: Fn() -> Option<Site>> Coroutine for ProgramTask<P, S> {
    #[inline]
    fn resume(mut self: Pin<&mut Self>, port: &Port) -> Step {
        match self.as_mut().task().resume(port) {
            Step::Failed(error) => self.failed(port, error),
            step => step,
        }
    }

    fn unwind(mut self: Pin<&mut Self>, port: &Port, phase: Unwind) -> Step {
        if phase == Unwind::Begin
            && let Some(program) = self.as_mut().task().program_mut()
        {
            program.cancel();
        }
        self.resume(port)
    }

    fn end(self: Pin<&mut Self>) {
        if let Some(program) = self.task().program_mut() {
            program.end();
        }
    }

    fn may_be_woken(&self) -> bool {
        self.task.may_be_woken()
    }

    fn line(&self) -> Option<Site> {
        self.task.program().and_then(P::line)
    }

    fn waits_for(&self) -> Option<Cow<'static, str>> {
        self.task.program().and_then(P::waits_for)
    }

    fn spawned_at(&self) -> Option<Site> {
        (self.spawned_at)()
    }

    fn frames(&self) -> Vec<Frame> {
        self.task.program().map_or_else(Vec::new, P::frames)
    }
}

/// A call whose reply is not converted.
#[track_caller]
pub fn call(call: SystemCall) -> TryCall<Reply> {
    TryCall::new(call)
}

/// Spawns any coroutine as a task.
#[track_caller]
pub fn spawn(coroutine: BoxCoroutine) -> Spawn<Value> {
    spawn_coroutine(coroutine, Location::caller())
}

/// Starts a run with any coroutine as its root.
#[track_caller]
pub fn start(runtime: &mut Runtime, root: BoxCoroutine) -> RunHandle<Value> {
    runtime.start_coroutine(root)
}

/// Drives all runs until this one is finished, or until `stop` returns true, which is called after
/// every wait and every few turns. Returns `None` if the run is not finished.
#[track_caller]
pub fn drive(
    runtime: &mut Runtime,
    run: &RunHandle<Value>,
    stop: impl Fn() -> bool,
) -> Option<Result<Value, RunError>> {
    let at = Location::caller();
    let driven = runtime.drive_until(at, |runtime| runtime.is_over(run.id()) || stop());
    match driven {
        Err(error) => Some(Err(error)),
        Ok(()) if runtime.is_over(run.id()) => Some(runtime.end_run(run.id())),
        Ok(()) => None,
    }
}

/// Cancels all tasks of a run. Their cleanup runs while the run is driven.
pub fn cancel(runtime: &mut Runtime, run: &RunHandle<Value>) {
    runtime.cancel_run(run.id());
}

/// Cancels all tasks of a run, unless it is ending already: a second cancel would cut its cleanup
/// short.
pub fn end(runtime: &mut Runtime, run: &RunHandle<Value>) {
    if !runtime.run_of(run.id()).is_some_and(Run::is_ending) {
        cancel(runtime, run);
    }
}

impl Builder {
    /// Sets the rules about ends that runs follow. Under the first rules a failed root is a task
    /// like any other, as in schedulers without a root.
    pub fn rules(mut self, rules: Rules) -> Builder {
        self.rules = rules;
        self
    }
}

/// Abandons a run in its present state: its tasks get no more turns, and none is unwound.
pub fn leave(runtime: &mut Runtime, run: &RunHandle<Value>) {
    std::mem::forget(runtime.forget_run(run.id()));
}

/// Has a descriptor wake the loop whenever it is readable, and do nothing else.
pub fn wake_by(runtime: &Runtime, fd: BorrowedFd<'_>) -> std::io::Result<()> {
    runtime.host.reactor.borrow().wake_by(fd)
}

/// Releases a handle that was dropped on the thread of its runtime. Returns `false` if it belongs
/// to no run of this thread.
pub fn release(release: Release) -> bool {
    let is_ours = context::with(|context| {
        context.port.task().is_some_and(|task| task.run == release.run())
            || context.live_runs.borrow().contains(&release.run())
    });
    if is_ours {
        context::with(|context| context.port.release(release));
    }
    is_ours
}

impl crate::handle::RuntimeHandle {
    /// Releases a handle that was dropped on another thread.
    pub fn release(&self, release: Release) {
        self.inbox().send(LoopMessage::Release(release));
    }
}

/// Settles an external promise from any thread with a value that is built on the thread of its run.
pub fn settle(
    home: &crate::handle::RuntimeHandle,
    uuid: tiffany_kernel::Uuid,
    result: impl FnOnce() -> Result<Value, TaskError> + Send + 'static,
) -> Result<tiffany_records::request::Settlement, TaskError> {
    home.inbox().settle(uuid, Box::new(result))
}

/// Whether a runtime has an external promise with this UUID, and if so, whether it is durable.
pub fn knows_promise(
    home: &crate::handle::RuntimeHandle,
    uuid: tiffany_kernel::Uuid,
) -> Option<bool> {
    home.inbox().promises().is_durable(uuid)
}

/// Whether the task being resumed belongs to a durable run.
pub fn is_durable() -> bool {
    context::with(|context| context.port.is_durable())
}

/// Notes that code of an attempt at an async step, or of no step (`None`), begins to run on the
/// thread that all such steps share, and that the previous code there has returned. The watchdog
/// reports code that keeps that thread, and interrupts it with the interrupter that
/// [`Language::step_interrupter`] returned.
pub fn step_code_begins(attempt: Option<&Attempt>) {
    crate::host::step_watch::begin(attempt);
}

/// Notes that no such code runs on this thread until the next one begins.
pub fn step_code_rests() {
    crate::host::step_watch::rest();
}

/// Whether the task being resumed is only replayed to be inspected. Whatever it leaves behind is
/// inspected too.
pub fn is_looked_at() -> bool {
    let is_it = |sources: &Rc<dyn Sources>| sources.is_looked_at();
    context::with(|context| context.sources.borrow().as_ref().is_some_and(is_it))
}

/// Must be called in a process that was forked from one with runtimes, because none of their
/// threads exist there. The runtimes must not be used or dropped in it.
pub fn forked() {
    crate::watchdog::forked();
}

/// The task being resumed on this thread.
pub fn current_task() -> Option<TaskRef> {
    context::with(|context| context.port.task())
}

/// Whether the task being resumed is on a simulated machine, where the loop's thread does all work.
pub fn is_simulated() -> bool {
    let host = context::with(|context| context.host());
    host.is_some_and(|host| matches!(host.workers, crate::host::Workers::Inline(_)))
}

/// Whether a task is being resumed on this thread.
pub fn in_task() -> bool {
    context::with(|context| context.port.task().is_some())
}

/// A value in the form of the log: JSON text. The results of durable roots and of steps, and
/// messages, have this form.
pub fn json(text: impl Into<Arc<str>>) -> Value {
    Value::new(Json::new(text))
}

/// The JSON text of such a value.
pub fn as_json(value: &Value) -> Option<Arc<str>> {
    value.borrow::<Json>().map(|json| Arc::clone(&json.0))
}

pub use crate::host::Waiting;

impl Builder {
    /// Calls this function around every wait of the loop.
    pub fn around_wait(mut self, waiting: Waiting) -> Builder {
        self.waiting = Some(waiting);
        self
    }

    /// Adds a key to the environment whose value is computed by a coroutine when it is first asked
    /// for.
    pub fn env_coroutine(
        mut self,
        key: &str,
        find: impl Fn() -> BoxCoroutine + 'static,
    ) -> Builder {
        self.env.push((key.into(), EnvValue::Resolved(Rc::new(find))));
        self
    }

    /// Uses a clock that doesn't advance by itself: when no task is ready, it jumps to the next
    /// timer. It starts in 1970, and random numbers and UUIDs are the same every time. With a log
    /// it starts at the present time, and they are not.
    pub fn virtual_clock(mut self) -> Builder {
        self.virtual_clock = true;
        self
    }

    /// Registers a function for durable runs that builds the root from the input. The root's value
    /// must be [`json`].
    pub fn register_coroutine(
        mut self,
        name: &str,
        start: impl Fn(&str) -> Result<BoxCoroutine, TaskError> + 'static,
    ) -> Builder {
        self.registry.add_coroutine(name, start);
        self
    }
}
