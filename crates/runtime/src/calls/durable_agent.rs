//! Serializable state machines, which make snapshots of runs possible: their definition, how they
//! make the calls of durable runs, and the handles that their state may contain.
//! `run_log/snapshot.rs` stores them.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tiffany_kernel::{
    BoxCoroutine, Claim, Coroutine, Frame, Port, Release, Reply, Saved, Site, SpawnOptions,
    Step as Resumed, SystemCall, TaskError, TaskRef, Tid, Time, Unwind, Uuid, Value,
    Waitable as Target,
};

use crate::calls::agent_task::{AgentTask, StateMachine, TaskContext, TaskStatus};
use crate::calls::approve::Approve;
use crate::calls::call::{Direct, typed};
use crate::calls::context;
use crate::calls::durable_promise::DurablePromise;
use crate::calls::step::Step;
use crate::calls::task::Waitable;
use crate::calls::written::Written;
use crate::host::panics::panic_error;
use tiffany_records::value::{Json, decode, encode};

/// A serializable state machine of another language, corresponding to [`DurableAgent`] in Rust.
pub trait Agent: 'static {
    /// The name of this type of state machine in the log.
    fn name(&self) -> &str;

    /// What it wants in its present state; a value is JSON.
    fn wants(&self) -> TaskStatus<String>;

    /// Takes the reply to what it wanted, and moves to its next state. An error ends the task.
    fn take(&mut self, answer: Reply) -> Result<(), TaskError>;

    /// Its complete state, as JSON.
    fn state(&self) -> Result<String, TaskError>;

    /// The line at which it waits.
    fn line(&self) -> Option<Site>;

    /// Its state as a call stack, for inspection.
    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

/// A serializable state machine of a durable run.
///
/// [`wants`](DurableAgent::wants) returns what it wants in its present state, and
/// [`take`](DurableAgent::take) takes the reply and moves to the next state. What it wants must
/// follow from its state alone, because it is asked again after a restart: the state is then read
/// from the log, and nothing that led to it is repeated.
///
/// The log of a run whose tasks are all such state machines doesn't grow: from time to time it
/// begins a new generation with a snapshot of all states
/// ([`Builder::snapshot_every`](crate::runtime::builder::Builder::snapshot_every)).
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tiffany::durable::{DurableAgent, step};
/// use tiffany::{Runtime, TaskContext, TaskError, TaskStatus};
///
/// /// Adds one, again and again.
/// #[derive(Serialize, Deserialize)]
/// struct Counter {
///     count: u64,
///     until: u64,
/// }
///
/// impl DurableAgent for Counter {
///     const NAME: &'static str = "counter";
///     type Output = u64;
///
///     fn wants(&self) -> TaskStatus<u64> {
///         let count = self.count;
///         match count == self.until {
///             true => TaskStatus::Completed(count),
///             false => TaskStatus::step(step("add", move || Ok::<u64, String>(count + 1)).pure()),
///         }
///     }
///
///     fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
///         self.count = ctx.written()?;
///         Ok(())
///     }
/// }
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-agent-{}", std::process::id()));
/// let mut runtime = Runtime::builder()
///     .log_dir(&dir)
///     .register_agent("count", |until: u64| Counter { count: 0, until })
///     .snapshot_every(100)
///     .build()?;
/// let run = runtime.submit::<u64>("count", "a", &1000)?;
/// assert_eq!(runtime.wait_for(&run)?, 1000);
/// # drop(runtime);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub trait DurableAgent: Serialize + DeserializeOwned + 'static {
    /// The name of this type of state machine in the log. It must not change while there are runs
    /// with it.
    const NAME: &'static str;

    /// The type of its value.
    type Output: Serialize + DeserializeOwned + 'static;

    /// What it wants in its present state.
    fn wants(&self) -> TaskStatus<Self::Output>;

    /// Takes the reply to what it wanted, and moves to its next state. An error ends the task.
    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError>;
}

/// The handle of a task that is a [`DurableAgent`], for the state of another one.
///
/// It can be serialized and deserialized only as part of such a state.
#[must_use = "dropping a task's handle detaches the task; call `drop` to do so explicitly"]
pub struct DurableTask<T> {
    at: TaskRef,
    value: PhantomData<fn() -> T>,
}

impl<T> DurableTask<T> {
    /// The task's number.
    pub fn tid(&self) -> Tid {
        self.at.tid
    }
}

impl<T> Drop for DurableTask<T> {
    fn drop(&mut self) {
        context::release(Release::Task(self.at));
    }
}

impl<T> fmt::Debug for DurableTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableTask({})", self.at.tid)
    }
}

impl<T: DeserializeOwned + 'static> Waitable for DurableTask<T> {
    type Output = T;

    fn target(&self) -> Target {
        Target::Task(self.at)
    }

    fn claim() -> Claim {
        Claim::Share
    }

    fn output(value: Value) -> Result<T, TaskError> {
        output(value)
    }
}

impl<T: DeserializeOwned + 'static> Waitable for DurablePromise<T> {
    type Output = T;

    fn target(&self) -> Target {
        Target::Future(self.object())
    }

    fn claim() -> Claim {
        Claim::Share
    }

    fn output(value: Value) -> Result<T, TaskError> {
        output(value)
    }
}

fn output<T: DeserializeOwned + 'static>(value: Value) -> Result<T, TaskError> {
    match value.borrow::<Json>() {
        Some(json) => decode(&json.0),
        None => typed(value),
    }
}

impl<T> Serialize for DurableTask<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.at.tid.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for DurableTask<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DurableTask<T>, D::Error> {
        let tid = Tid::deserialize(deserializer)?;
        let at = context::with(|context| context.restoring.borrow().as_ref()?.task(tid));
        let at = at.ok_or_else(|| {
            D::Error::custom(format!("task {tid} is not of a run that is restored"))
        })?;
        Ok(DurableTask { at, value: PhantomData })
    }
}

impl<T> Serialize for DurablePromise<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.object().id, self.uuid().to_string()).serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for DurablePromise<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DurablePromise<T>, D::Error> {
        let (id, text) = <(u64, String)>::deserialize(deserializer)?;
        let object = context::with(|context| context.restoring.borrow().as_ref()?.promise(id));
        let made = object.zip(Uuid::parse(&text));
        let (object, uuid) = made.ok_or_else(|| {
            D::Error::custom(format!("promise {text} is not of a run that is restored"))
        })?;
        Ok(DurablePromise::of(object, uuid))
    }
}

impl<T> TaskStatus<T> {
    /// Makes a step: [`TaskContext::written`].
    pub fn step<R>(step: Step<R>) -> TaskStatus<T> {
        match step.into_call::<Value, Direct>().into_request() {
            Ok(call) => TaskStatus::Waiting(call),
            Err(error) => TaskStatus::Failed(error),
        }
    }

    /// Asks a person: [`TaskContext::written`], as an
    /// [`Approval`](tiffany_records::request::Approval).
    pub fn approve(question: Approve) -> TaskStatus<T> {
        match question.into_call::<Value, Direct>().into_request() {
            Ok(call) => TaskStatus::Waiting(call),
            Err(error) => TaskStatus::Failed(error),
        }
    }

    /// Receives the next message that was sent to the run under this name:
    /// [`TaskContext::written`].
    pub fn receive_message(name: &str) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::ReceiveMessage(name.into()))
    }

    /// Creates a promise that is settled from outside: [`TaskContext::durable_promise`].
    pub fn external_promise() -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::CreateExternalPromise(Uuid(0)))
    }

    /// Spawns a task that is a state machine: [`TaskContext::durable_task`].
    #[track_caller]
    pub fn spawn_durable<A: DurableAgent>(agent: A) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::Spawn(coroutine(agent), None))
    }

    /// Spawns a daemon task that is a state machine: [`TaskContext::durable_task`].
    #[track_caller]
    pub fn spawn_durable_daemon<A: DurableAgent>(agent: A) -> TaskStatus<T> {
        let options = SpawnOptions { daemon: true, ..SpawnOptions::default() };
        TaskStatus::Waiting(SystemCall::Spawn(coroutine(agent), Some(Box::new(options))))
    }
}

impl TaskContext<'_> {
    /// The result of a step, or the received message.
    pub fn written<R: DeserializeOwned + 'static>(&mut self) -> Result<R, TaskError> {
        self.reply::<R, Written>()
    }

    /// The promise that was created.
    pub fn durable_promise<R>(&mut self) -> Result<DurablePromise<R>, TaskError> {
        self.reply::<DurablePromise<R>, Direct>()
    }

    /// The task that was spawned.
    pub fn durable_task<R>(&mut self) -> Result<DurableTask<R>, TaskError> {
        let at = self.reply::<TaskRef, Direct>()?;
        Ok(DurableTask { at, value: PhantomData })
    }
}

/// A state machine, in Rust or in another language.
trait Kind {
    fn name(&self) -> &str;
    fn wants(&self) -> TaskStatus<Json>;
    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError>;
    fn state(&self) -> Result<String, TaskError>;

    fn line(&self) -> Option<Site> {
        None
    }

    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

impl<A: DurableAgent> Kind for A {
    fn name(&self) -> &str {
        A::NAME
    }

    fn wants(&self) -> TaskStatus<Json> {
        match DurableAgent::wants(self) {
            TaskStatus::Ready => TaskStatus::Ready,
            TaskStatus::Waiting(call) => TaskStatus::Waiting(call),
            TaskStatus::Failed(error) => TaskStatus::Failed(error),
            TaskStatus::Completed(value) => match encode(&value) {
                Ok(json) => TaskStatus::Completed(Json::new(json)),
                Err(error) => TaskStatus::Failed(error),
            },
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        DurableAgent::take(self, ctx)
    }

    fn state(&self) -> Result<String, TaskError> {
        encode(self)
    }
}

/// A state machine of another language.
struct Foreign<A>(A);

impl<A: Agent> Kind for Foreign<A> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn wants(&self) -> TaskStatus<Json> {
        match self.0.wants() {
            TaskStatus::Ready => TaskStatus::Ready,
            TaskStatus::Waiting(call) => TaskStatus::Waiting(call),
            TaskStatus::Failed(error) => TaskStatus::Failed(error),
            TaskStatus::Completed(json) => TaskStatus::Completed(Json::new(json)),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.0.take(ctx.any_reply())
    }

    fn state(&self) -> Result<String, TaskError> {
        self.0.state()
    }

    fn line(&self) -> Option<Site> {
        self.0.line()
    }

    fn frames(&self) -> Vec<Frame> {
        self.0.frames()
    }
}

/// A state machine of another language as a coroutine. If it was asleep, it sleeps until `until`.
#[track_caller]
pub(crate) fn foreign(agent: impl Agent, until: Option<Time>) -> BoxCoroutine {
    let agent = Foreign(agent);
    Box::pin(Durable(StateMachine::new(Machine { agent, asked: false, until })))
}

/// A new state machine as a coroutine.
#[track_caller]
pub(crate) fn coroutine<A: DurableAgent>(agent: A) -> BoxCoroutine {
    Box::pin(Durable(StateMachine::new(Machine { agent, asked: false, until: None })))
}

/// A state machine that is restored from its state. If it was asleep, it sleeps until `until`.
#[track_caller]
pub(crate) fn restored<A: DurableAgent>(
    state: &str,
    until: Option<Time>,
) -> Result<BoxCoroutine, TaskError> {
    let agent = decode::<A>(state)?;
    Ok(Box::pin(Durable(StateMachine::new(Machine { agent, asked: false, until }))))
}

/// A durable agent as a state machine like any other.
struct Machine<A> {
    agent: A,
    /// It was asked what it wants, and the reply has arrived.
    asked: bool,
    until: Option<Time>,
}

impl<A: Kind> AgentTask for Machine<A> {
    type Output = Json;

    fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<Json> {
        if std::mem::replace(&mut self.asked, true)
            && let Err(error) = self.agent.take(ctx)
        {
            return TaskStatus::Failed(error);
        }
        // It is also asked if it was asleep: it may note what it wants, to know the reply.
        match (self.agent.wants(), self.until.take()) {
            (
                TaskStatus::Waiting(SystemCall::Sleep(..) | SystemCall::SleepUntil(..)),
                Some(until),
            ) => TaskStatus::Waiting(SystemCall::SleepUntil(until)),
            (wants, _) => wants,
        }
    }
}

/// A machine as a coroutine that can be saved.
struct Durable<A>(StateMachine<Machine<A>>);

impl<A: Kind> Coroutine for Durable<A> {
    fn resume(self: Pin<&mut Self>, port: &Port) -> Resumed {
        Pin::new(&mut self.get_mut().0).resume(port)
    }

    fn unwind(self: Pin<&mut Self>, port: &Port, phase: Unwind) -> Resumed {
        Pin::new(&mut self.get_mut().0).unwind(port, phase)
    }

    fn save(&self) -> Option<Result<Saved, TaskError>> {
        let Machine { agent, .. } = self.0.agent()?;
        let save = || {
            let wants = match agent.wants() {
                TaskStatus::Ready => SystemCall::Yield,
                TaskStatus::Waiting(call) => call,
                TaskStatus::Failed(error) => return Err(error),
                TaskStatus::Completed(_) => return Err(TaskError::failed("it wants nothing")),
            };
            Ok(Saved { agent: agent.name().into(), state: agent.state()?, wants })
        };
        let saved = catch_unwind(AssertUnwindSafe(save));
        Some(saved.unwrap_or_else(|payload| Err(panic_error(payload, "panicked"))))
    }

    fn line(&self) -> Option<Site> {
        self.0.agent()?.agent.line()
    }

    /// The line of its code; it doesn't know which line spawned it.
    fn spawned_at(&self) -> Option<Site> {
        self.line()
    }

    fn frames(&self) -> Vec<Frame> {
        self.0.agent().map_or_else(Vec::new, |machine| machine.agent.frames())
    }
}

impl<A> Unpin for Durable<A> {}
