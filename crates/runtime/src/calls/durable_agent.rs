//! State machines whose whole state can be written down, so that a run made of them can be: what they are, how they make the calls of
//! durable runs, and the handles that their state may have in it. How a run is written down is in `snapshot/`.

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

/// A state machine of a durable run, as [`DurableAgent`] is one in Rust.
pub trait Agent: 'static {
    /// What the log calls this kind of state machine.
    fn name(&self) -> &str;

    /// What it wants in the state it is in; its value is JSON.
    fn wants(&self) -> TaskStatus<String>;

    /// It has what it wanted: takes the answer, and moves to its next state. With an error the task ends.
    fn take(&mut self, answer: Reply) -> Result<(), TaskError>;

    /// Its whole state, as JSON.
    fn state(&self) -> Result<String, TaskError>;

    /// The line it stands at.
    fn line(&self) -> Option<Site>;

    /// Its state, for who looks at it.
    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

/// A state machine of a durable run whose state can be written down.
///
/// [`wants`](DurableAgent::wants) says what it wants in the state it is in, and [`take`](DurableAgent::take) takes the answer and moves to the next state. What it
/// wants must follow from its state alone, because after a restart it is asked again: then the state is read from the log, and nothing
/// of what led there is done a second time.
///
/// A run whose tasks are all such state machines has a log that does not grow: from time to time it begins a new
/// generation, with a snapshot of all states ([`Builder::snapshot_every`](crate::runtime::builder::Builder::snapshot_every)).
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
    /// What the log calls this kind of state machine. It must stay the same as long as there are runs of it.
    const NAME: &'static str;

    /// What it returns in the end.
    type Output: Serialize + DeserializeOwned + 'static;

    /// What it wants now.
    fn wants(&self) -> TaskStatus<Self::Output>;

    /// It has what it wanted: takes the answer, and moves to its next state. With an error the task ends.
    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError>;
}

/// A task that is a [`DurableAgent`], for others whose state has it in it.
///
/// It can be written down as part of a state, and read back only as part of one.
#[must_use = "dropping a task's handle lets it run on by itself; say so with `drop`"]
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
    /// To make a step: [`TaskContext::written`].
    pub fn step<R>(step: Step<R>) -> TaskStatus<T> {
        match step.into_call::<Value, Direct>().into_request() {
            Ok(call) => TaskStatus::Waiting(call),
            Err(error) => TaskStatus::Failed(error),
        }
    }

    /// To ask a person: [`TaskContext::written`], as an [`Approval`](tiffany_records::request::Approval).
    pub fn approve(question: Approve) -> TaskStatus<T> {
        match question.into_call::<Value, Direct>().into_request() {
            Ok(call) => TaskStatus::Waiting(call),
            Err(error) => TaskStatus::Failed(error),
        }
    }

    /// The next message that was sent to the run under this name: [`TaskContext::written`].
    pub fn receive_message(name: &str) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::ReceiveMessage(name.into()))
    }

    /// A promise that is settled from outside: [`TaskContext::durable_promise`].
    pub fn external_promise() -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::CreateExternalPromise(Uuid(0)))
    }

    /// A new task that is a state machine: [`TaskContext::durable_task`].
    #[track_caller]
    pub fn spawn_durable<A: DurableAgent>(agent: A) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::Spawn(coroutine(agent), None))
    }

    /// A new daemon task that is a state machine: it keeps no run alive. [`TaskContext::durable_task`].
    #[track_caller]
    pub fn spawn_durable_daemon<A: DurableAgent>(agent: A) -> TaskStatus<T> {
        let options = SpawnOptions { daemon: true, ..SpawnOptions::default() };
        TaskStatus::Waiting(SystemCall::Spawn(coroutine(agent), Some(Box::new(options))))
    }
}

impl TaskContext<'_> {
    /// What a step gave, or the message that came.
    pub fn written<R: DeserializeOwned + 'static>(&mut self) -> Result<R, TaskError> {
        self.reply::<R, Written>()
    }

    /// The promise that was made.
    pub fn durable_promise<R>(&mut self) -> Result<DurablePromise<R>, TaskError> {
        self.reply::<DurablePromise<R>, Direct>()
    }

    /// The task that was started.
    pub fn durable_task<R>(&mut self) -> Result<DurableTask<R>, TaskError> {
        let at = self.reply::<TaskRef, Direct>()?;
        Ok(DurableTask { at, value: PhantomData })
    }
}

/// What a state machine is, in Rust or in another language.
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

/// One of another language.
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

/// A state machine of another language as a coroutine. If it slept, it sleeps until then.
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

/// One made again from its state. If it slept, it sleeps until then.
#[track_caller]
pub(crate) fn restored<A: DurableAgent>(
    state: &str,
    until: Option<Time>,
) -> Result<BoxCoroutine, TaskError> {
    let agent = decode::<A>(state)?;
    Ok(Box::pin(Durable(StateMachine::new(Machine { agent, asked: false, until }))))
}

/// A durable agent as any other state machine.
struct Machine<A> {
    agent: A,
    /// It was asked what it wants, and has the answer now.
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
        // It is asked also where it slept before: it may note what it wants, to know the answer.
        match (self.agent.wants(), self.until.take()) {
            (
                TaskStatus::Waiting(SystemCall::Sleep(..) | SystemCall::SleepUntil(..)),
                Some(until),
            ) => TaskStatus::Waiting(SystemCall::SleepUntil(until)),
            (wants, _) => wants,
        }
    }
}

/// The same as a coroutine that can be written down.
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

    /// Where its code is; who spawned it is not known to it.
    fn spawned_at(&self) -> Option<Site> {
        self.line()
    }

    fn frames(&self) -> Vec<Frame> {
        self.0.agent().map_or_else(Vec::new, |machine| machine.agent.frames())
    }
}

impl<A> Unpin for Durable<A> {}
