//! The system calls: every request that a coroutine can make to the scheduler, and every reply. The
//! effect of each call is implemented in the file of its family under `calls/`.

use std::fmt;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use crate::annotation::Annotation;
use crate::attributes::AttributeChange;
use crate::coroutine::BoxCoroutine;
use crate::error::TaskError;
use crate::handler::Handler;
use crate::id::{ObjectRef, TaskRef, Tid, Uuid, Waitable};
use crate::shown::Shown;
use crate::time::Time;
use crate::value::Value;

/// A request of a coroutine to the scheduler. Every call is a scheduling point.
#[non_exhaustive]
pub enum SystemCall {
    /// Lets the other tasks run.
    Yield,
    /// Asks for the caller's number.
    GetTid,
    /// Reads the run's clock.
    Now,
    /// Draws a random number from the run's seed.
    Random,
    /// Asks for a new UUID, which the host drew.
    NewUuid(Uuid),
    /// Asks whether the run takes the new branch of a change to the program, with the host's
    /// proposal. The first answer holds for the whole run.
    Patched(Rc<str>, bool),
    /// Starts the run again, from its function with this input as JSON.
    ContinueAs(Rc<str>),
    /// Reads the caller's handler chain, innermost first.
    GetHandlers,

    /// Spawns a task. The options are boxed because most calls have none.
    Spawn(BoxCoroutine, Option<Box<SpawnOptions>>),
    /// Waits for the result of one task or promise.
    Wait(Waitable, Claim),
    /// Waits until the task with this number is finished. Replies with whether the task was still
    /// alive.
    WaitTask(Tid),
    /// Waits for all results.
    Gather(Vec<Waitable>, GatherMode, Claim),
    /// Waits for the first result.
    Race(Vec<Waitable>, Claim),
    /// Cancels a task.
    Cancel(TaskRef),
    /// Cancels a task by its number. Replies with whether the task was still alive.
    KillTask(Tid),

    /// Creates a promise.
    CreatePromise,
    /// Settles a promise with a value.
    CompletePromise(ObjectRef, Value),
    /// Settles a promise with an error.
    FailPromise(ObjectRef, TaskError),
    /// Creates a promise that is settled from outside under this UUID, which the host drew.
    CreateExternalPromise(Uuid),

    /// Waits for a duration.
    Sleep(Duration),
    /// Waits until a moment.
    SleepUntil(Time),

    /// Waits until the descriptor is readable.
    ReadWait(RawFd),
    /// Waits until the descriptor is writable.
    WriteWait(RawFd),

    /// Reads a key of the caller's own store.
    Get(Rc<str>),
    /// Writes a key of the caller's own store.
    Put(Rc<str>, Value),
    /// Appends to the caller's own log.
    Tell(Value),
    /// Reads the caller's own log.
    GetLog,
    /// Reads a key of the shared environment.
    Ask(Rc<str>),

    /// Creates a channel with this capacity (`None`: unbounded).
    CreateChannel(Option<usize>),
    /// Sends a message to a channel; waits while the channel is full.
    Send(ObjectRef, Value),
    /// Receives a message from a channel; waits while the channel is empty.
    Receive(ObjectRef),
    /// Receives a message that was sent to the run under this name; waits for one.
    ReceiveMessage(Rc<str>),
    /// Creates a semaphore with this number of permits.
    CreateSemaphore(usize),
    /// Creates a mutex: a semaphore with one permit, which is tracked as belonging to the task that
    /// took it.
    CreateMutex,
    /// Acquires this number of permits; waits until they are free.
    Acquire(ObjectRef, usize),

    /// Creates a group of tasks, which are cancelled when the group is released.
    CreateGroup,
    /// Waits until every member of a group is finished. The first failure cancels the others.
    JoinGroup(ObjectRef),

    /// Starts work that the host does outside the kernel.
    Effect(EffectWork),
    /// Shows something to watchers. It is not recorded.
    Show(Box<Shown>),
    /// Asks a person a question and waits for the answer.
    Approve(Box<Asking>),
    /// Adds this amount to the run's cost.
    Charge(u64),
    /// Changes the tags and attributes of the run.
    SetAttributes(Vec<AttributeChange>),
    /// Describes what the task does, for people.
    Annotate(Box<Annotation>),
    /// A call that the kernel does not know and a handler answers.
    Custom(&'static str, Value),
}

/// How a wait takes the value, and what happens to the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Other tasks may wait for the result too: the value is shared, and the handle stays.
    Share,
    /// The caller has the only handle: the value moves to the caller, and the handle stays.
    Take,
    /// The caller has the only handle: the value moves to the caller, and a task's handle is
    /// released with the reply. (The future of a promise stays, because it may have been cloned.)
    Consume,
}

/// How Gather handles the failure of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherMode {
    /// Fails at once with the earliest failure or cancellation.
    FailFast,
    /// Waits for all items and replies with their results and errors side by side.
    Settle,
}

/// Options of Spawn.
#[derive(Default)]
pub struct SpawnOptions {
    /// The task's name, for display.
    pub name: Option<Rc<str>>,
    /// The priority; policies that use it run higher ones first.
    pub priority: u8,
    /// The child's handlers.
    pub handlers: Handlers,
    /// The group that the child joins.
    pub group: Option<ObjectRef>,
    /// Whether the child is a daemon task: it doesn't keep the run alive, and is cancelled when all
    /// other tasks are finished.
    pub daemon: bool,
}

/// The handlers of a child.
#[derive(Default)]
pub enum Handlers {
    /// The handlers of its parent.
    #[default]
    Inherit,
    /// These handlers, innermost first, inside those of its parent.
    Inside(Vec<Rc<dyn Handler>>),
    /// Only these handlers, innermost first.
    Replace(Vec<Rc<dyn Handler>>),
}

/// Work for the host. Only the host understands it.
pub struct EffectWork {
    /// The name, for display and for the log.
    pub name: &'static str,
    /// Data that the host stores in the log beside the name, as JSON.
    pub about: Option<Rc<str>>,
    /// The work, as the host wrapped it.
    pub work: Box<dyn std::any::Any>,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The question and its choices, as JSON. The kernel does not look at it.
    pub about: Rc<str>,
    /// The data on which the person bases the decision, as JSON.
    pub payload: Option<Rc<str>>,
    /// How long the call waits for an answer.
    pub timeout: Option<Duration>,
}

/// The reply to a call.
#[non_exhaustive]
pub enum Reply {
    /// The call is done.
    Unit,
    /// A value.
    Value(Value),
    /// There is no such value, or no more values.
    Nothing,
    /// A message from a channel.
    Message(Box<Message>),
    /// Permits of a semaphore.
    Permits(Permits),
    /// Yes or no.
    Flag(bool),
    /// The number of a task.
    Tid(Tid),
    /// A moment on the run's clock.
    Time(Time),
    /// A number.
    Number(u64),
    /// A new task.
    Task(TaskRef),
    /// A new promise, channel, semaphore or group.
    Object(ObjectRef),
    /// A new external promise, and the UUID under which it is settled.
    External(Box<(ObjectRef, Uuid)>),
    /// All values, in input order.
    Values(Box<[Value]>),
    /// All results, in input order.
    Results(Box<[Result<Value, TaskError>]>),
    /// The index of the first result, and its value.
    Race(Box<(usize, Value)>),
    /// A handler chain, innermost first.
    Handlers(Box<[Rc<dyn Handler>]>),
    /// The call failed.
    Error(TaskError),
}

/// A message that is being delivered to a receiver.
pub struct Message {
    /// The channel of the message.
    pub channel: ObjectRef,
    /// The message's position in the order in which messages left the channel.
    pub(crate) order: u64,
    /// The message itself.
    pub value: Value,
}

/// Permits of a semaphore, as a task acquired them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permits {
    pub(crate) slot: u32,
    /// The number of permits.
    pub count: u32,
    /// The semaphore's number.
    pub id: u64,
}

macro_rules! call_kinds {
    ($($name:ident $tag:literal $pattern:pat),+ $(,)?) => {
        /// The kind of a system call, without its arguments.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum CallKind {
            $(#[doc = concat!("`", $tag, "`")] $name),+
        }

        impl CallKind {
            /// All kinds.
            pub const ALL: &[CallKind] = &[$(CallKind::$name),+];

            /// The kind's name in the log, in traces and in errors.
            pub fn tag(self) -> &'static str {
                match self { $(CallKind::$name => $tag),+ }
            }

            /// The kind with this name.
            pub fn parse(tag: &str) -> Option<CallKind> {
                match tag { $($tag => Some(CallKind::$name),)+ _ => None }
            }
        }

        impl SystemCall {
            /// The kind of this call.
            pub fn kind(&self) -> CallKind {
                match self { $($pattern => CallKind::$name),+ }
            }
        }
    };
}

call_kinds! {
    Yield "yield" SystemCall::Yield,
    GetTid "get_tid" SystemCall::GetTid,
    Now "now" SystemCall::Now,
    Random "random" SystemCall::Random,
    NewUuid "new_uuid" SystemCall::NewUuid(_),
    Patched "patched" SystemCall::Patched(..),
    ContinueAs "continue_as" SystemCall::ContinueAs(_),
    GetHandlers "get_handlers" SystemCall::GetHandlers,
    Spawn "spawn" SystemCall::Spawn(..),
    Wait "wait" SystemCall::Wait(..),
    WaitTask "wait_task" SystemCall::WaitTask(_),
    Gather "gather" SystemCall::Gather(..),
    Race "race" SystemCall::Race(..),
    Cancel "cancel" SystemCall::Cancel(_),
    KillTask "kill_task" SystemCall::KillTask(_),
    CreatePromise "create_promise" SystemCall::CreatePromise,
    CompletePromise "complete_promise" SystemCall::CompletePromise(..),
    FailPromise "fail_promise" SystemCall::FailPromise(..),
    CreateExternalPromise "create_external_promise" SystemCall::CreateExternalPromise(_),
    Sleep "sleep" SystemCall::Sleep(_),
    SleepUntil "sleep_until" SystemCall::SleepUntil(_),
    ReadWait "read_wait" SystemCall::ReadWait(_),
    WriteWait "write_wait" SystemCall::WriteWait(_),
    Get "get" SystemCall::Get(_),
    Put "put" SystemCall::Put(..),
    Tell "tell" SystemCall::Tell(_),
    GetLog "get_log" SystemCall::GetLog,
    Ask "ask" SystemCall::Ask(_),
    CreateChannel "create_channel" SystemCall::CreateChannel(_),
    Send "send" SystemCall::Send(..),
    Receive "receive" SystemCall::Receive(_),
    ReceiveMessage "receive_message" SystemCall::ReceiveMessage(_),
    CreateSemaphore "create_semaphore" SystemCall::CreateSemaphore(_),
    CreateMutex "create_mutex" SystemCall::CreateMutex,
    Acquire "acquire" SystemCall::Acquire(..),
    CreateGroup "create_group" SystemCall::CreateGroup,
    JoinGroup "join_group" SystemCall::JoinGroup(_),
    Effect "effect" SystemCall::Effect(_),
    Show "show" SystemCall::Show(_),
    Approve "approve" SystemCall::Approve(_),
    Charge "charge" SystemCall::Charge(_),
    SetAttributes "set_attributes" SystemCall::SetAttributes(_),
    Annotate "annotate" SystemCall::Annotate(_),
    Custom "custom" SystemCall::Custom(..),
}

impl CallKind {
    /// Whether calls of this kind are internal to the scheduler, so that no handler sees them.
    pub fn is_scheduling(self) -> bool {
        use CallKind::*;
        matches!(
            self,
            Yield
                | GetTid
                | GetHandlers
                | Spawn
                | Wait
                | WaitTask
                | Gather
                | Race
                | Cancel
                | KillTask
                | CreateGroup
                | JoinGroup
        )
    }

    /// Whether the round's clock must be set before a call of this kind is accepted.
    pub fn reads_clock(self) -> bool {
        use CallKind::*;
        matches!(self, Now | Sleep | SleepUntil | Approve | Cancel | KillTask)
    }
}

impl SystemCall {
    /// The name of a custom call or an effect; `None` for other calls.
    pub fn given_name(&self) -> Option<&'static str> {
        match self {
            SystemCall::Custom(name, _) => Some(name),
            SystemCall::Effect(work) => Some(work.name),
            _ => None,
        }
    }
}

/// Formats the call for traces: its tag and its arguments.
impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = self.kind().tag();
        match self {
            SystemCall::Wait(on, _) => write!(f, "{tag}({on})"),
            SystemCall::Gather(items, ..) | SystemCall::Race(items, _) => {
                write!(f, "{tag}(")?;
                for (at, item) in items.iter().enumerate() {
                    if at == 8 {
                        write!(f, ", … {} in all", items.len())?;
                        break;
                    }
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            SystemCall::Cancel(task) => write!(f, "{tag}(task {})", task.tid),
            SystemCall::KillTask(tid) | SystemCall::WaitTask(tid) => write!(f, "{tag}(task {tid})"),
            SystemCall::CompletePromise(p, value) => write!(f, "{tag}({}, {value:?})", p.id),
            SystemCall::FailPromise(p, error) => write!(f, "{tag}({}, {})", p.id, error.code()),
            SystemCall::Sleep(duration) => write!(f, "{tag}({duration:?})"),
            SystemCall::SleepUntil(time) => write!(f, "{tag}({time} s)"),
            SystemCall::Get(key)
            | SystemCall::Ask(key)
            | SystemCall::ReceiveMessage(key)
            | SystemCall::Patched(key, _) => {
                write!(f, "{tag}({key:?})")
            }
            SystemCall::Put(key, value) => write!(f, "{tag}({key:?}, {value:?})"),
            SystemCall::Tell(value) => write!(f, "{tag}({value:?})"),
            SystemCall::Send(channel, value) => write!(f, "{tag}({}, {value:?})", channel.id),
            SystemCall::Receive(object) | SystemCall::JoinGroup(object) => {
                write!(f, "{tag}({})", object.id)
            }
            SystemCall::Acquire(semaphore, permits) => {
                write!(f, "{tag}({}, {permits})", semaphore.id)
            }
            SystemCall::CreateSemaphore(permits) => write!(f, "{tag}({permits})"),
            SystemCall::Show(shown) => write!(f, "{tag}({shown})"),
            SystemCall::Charge(cost) => write!(f, "{tag}({cost})"),
            SystemCall::SetAttributes(changes) => write!(f, "{tag}({} changes)", changes.len()),
            SystemCall::Annotate(annotation) => write!(f, "{tag}({})", annotation.kind.name()),
            SystemCall::Effect(work) => write!(f, "{tag}({})", work.name),
            SystemCall::Approve(asking) => write!(f, "{tag}({})", asking.about),
            SystemCall::Custom(name, request) => write!(f, "{tag}({name}, {request:?})"),
            _ => f.write_str(tag),
        }
    }
}
