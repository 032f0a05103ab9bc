//! What another language on top of this one needs, and Rust programs do not: tasks whose code is not Rust, calls without types,
//! values as the log has them, and a way to do something else while the loop waits.

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
    answer_question, asking, continue_as, durable_run, encoded, failing, fork, fork_by, is_live,
    make_step, plain, settle_durable, settle_durable_in, show, step, step_elsewhere, transactional,
    wait_for, with_origin, worth_another_attempt,
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

/// Says that the code of the running task was interrupted by an [`Interrupter`]: what its run has done in this turn never
/// happened.
pub fn interrupted() {
    context::with(|context| context.interrupted.set(true));
}

/// A task's code in another language. It is polled like any future, and may poll others.
pub trait Program: Future<Output = Result<Value, TaskError>> {
    /// The task was cancelled, and what it waited for is withdrawn. From now on it is polled for its cleanup, in which it may make
    /// calls; when it is ready, the task is Cancelled, or Failed with the error it gives.
    fn cancel(self: Pin<&mut Self>);

    /// It is dropped next because it is over, as if it had returned: its run begins anew.
    fn end(self: Pin<&mut Self>) {}

    /// The line it stands at.
    fn line(&self) -> Option<Site>;

    /// What it waits for when it waits in no call, for people. It is woken by [`Release::Wake`].
    fn waits_for(&self) -> Option<Cow<'static, str>> {
        None
    }

    /// The functions it is inside of, the innermost last, with their variables.
    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

/// A program as a task, with the line that spawned it.
struct ProgramTask<P, S> {
    task: FutureTask<P, Fallible>,
    spawned_at: S,
}

/// What the kernel runs for a program. It asks for the line that spawned it only when somebody wants to know.
pub fn coroutine<P, S>(program: P, spawned_at: S) -> BoxCoroutine
where
    P: Program + 'static,
    S: Fn() -> Option<Site> + 'static,
{
    Box::pin(ProgramTask { task: FutureTask::new(program), spawned_at })
}

/// What the kernel runs for a future of Rust's, among tasks of another language.
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

    /// Names the task in the error that ends it.
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

/// A call whose answer is taken as it comes.
#[track_caller]
pub fn call(call: SystemCall) -> TryCall<Reply> {
    TryCall::new(call)
}

/// Starts a task of any coroutine.
#[track_caller]
pub fn spawn(coroutine: BoxCoroutine) -> Spawn<Value> {
    spawn_coroutine(coroutine, Location::caller())
}

/// Starts a run of any coroutine.
#[track_caller]
pub fn start(runtime: &mut Runtime, root: BoxCoroutine) -> RunHandle<Value> {
    runtime.start_coroutine(root)
}

/// Drives all runs until this one is over, or until `stop` says so, which is asked after every wait and every few turns. `None`: it is
/// not over.
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

/// Cancels all tasks of a run. They clean up while it is driven.
pub fn cancel(runtime: &mut Runtime, run: &RunHandle<Value>) {
    runtime.cancel_run(run.id());
}

/// The same for a run that is to end, unless it is ending already: a second cancel would cut its cleanup short.
pub fn end(runtime: &mut Runtime, run: &RunHandle<Value>) {
    if !runtime.run_of(run.id()).is_some_and(Run::is_ending) {
        cancel(runtime, run);
    }
}

impl Builder {
    /// The rules about ends that its runs follow. Under the first a failed root is a task like any other, as in
    /// schedulers that know no root.
    pub fn rules(mut self, rules: Rules) -> Builder {
        self.rules = rules;
        self
    }
}

/// Leaves a run for good as it stands: none of its tasks has another turn, and none is unwound.
pub fn leave(runtime: &mut Runtime, run: &RunHandle<Value>) {
    std::mem::forget(runtime.forget_run(run.id()));
}

/// Lets a descriptor wake the loop whenever it can be read. It means nothing else.
pub fn wake_by(runtime: &Runtime, fd: BorrowedFd<'_>) -> std::io::Result<()> {
    runtime.host.reactor.borrow().wake_by(fd)
}

/// Gives a handle back that was dropped on the thread of its runtime. `false`: it is of no run of this thread.
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
    /// Gives a handle back that was dropped on another thread.
    pub fn release(&self, release: Release) {
        self.inbox().send(LoopMessage::Release(release));
    }
}

/// Settles an external promise from any thread with a value that is made on the thread of its run.
pub fn settle(
    home: &crate::handle::RuntimeHandle,
    uuid: tiffany_kernel::Uuid,
    result: impl FnOnce() -> Result<Value, TaskError> + Send + 'static,
) -> Result<tiffany_records::request::Settlement, TaskError> {
    home.inbox().settle(uuid, Box::new(result))
}

/// Whether a runtime has an external promise that is known by this UUID, and if so, whether it is durable.
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

/// Code of an attempt at an async step, or of none, begins to run on the thread that all such steps share, and what ran
/// there before has returned. The watchdog reports code that keeps that thread, and interrupts it with what
/// [`Language::step_interrupter`] gave.
pub fn step_code_begins(attempt: Option<&Attempt>) {
    crate::host::step_watch::begin(attempt);
}

/// No such code runs on this thread until the next one begins.
pub fn step_code_rests() {
    crate::host::step_watch::rest();
}

/// Whether the task being resumed is only replayed, to be looked at where it stands. What it leaves behind is looked at too.
pub fn is_looked_at() -> bool {
    let is_it = |sources: &Rc<dyn Sources>| sources.is_looked_at();
    context::with(|context| context.sources.borrow().as_ref().is_some_and(is_it))
}

/// To be called in a process that was forked from one with runtimes: none of their threads are there. The runtimes themselves must not be
/// used in it, nor dropped.
pub fn forked() {
    crate::watchdog::forked();
}

/// The task being resumed on this thread.
pub fn current_task() -> Option<TaskRef> {
    context::with(|context| context.port.task())
}

/// Whether the task being resumed is on a simulated machine, where the loop's thread does all work itself.
pub fn is_simulated() -> bool {
    let host = context::with(|context| context.host());
    host.is_some_and(|host| matches!(host.workers, crate::host::Workers::Inline(_)))
}

/// Whether a task is being resumed on this thread.
pub fn in_task() -> bool {
    context::with(|context| context.port.task().is_some())
}

/// A value as the log has it: JSON text. What a durable root returns, a step gives and a message carries is of this form.
pub fn json(text: impl Into<Arc<str>>) -> Value {
    Value::new(Json::new(text))
}

/// The text of such a value.
pub fn as_json(value: &Value) -> Option<Arc<str>> {
    value.borrow::<Json>().map(|json| Arc::clone(&json.0))
}

pub use crate::host::Waiting;

impl Builder {
    /// What is done around every wait of the loop.
    pub fn around_wait(mut self, waiting: Waiting) -> Builder {
        self.waiting = Some(waiting);
        self
    }

    /// A key of the environment whose value a coroutine finds out when it is first asked for.
    pub fn env_coroutine(
        mut self,
        key: &str,
        find: impl Fn() -> BoxCoroutine + 'static,
    ) -> Builder {
        self.env.push((key.into(), EnvValue::Resolved(Rc::new(find))));
        self
    }

    /// A clock that does not pass by itself: when nobody is ready it jumps to the next timer. It starts in 1970, and chance and
    /// identities are the same every time; with a log it starts now, and they are not.
    pub fn virtual_clock(mut self) -> Builder {
        self.virtual_clock = true;
        self
    }

    /// A function that durable runs can be started from, which makes its root out of its input. The root's value must be
    /// [`json`].
    pub fn register_coroutine(
        mut self,
        name: &str,
        start: impl Fn(&str) -> Result<BoxCoroutine, TaskError> + 'static,
    ) -> Builder {
        self.registry.add_coroutine(name, start);
        self
    }
}
