//! The system calls: everything a coroutine can ask of the scheduler, and what it can be answered.
//! What each does is in the file of its family under `calls/`.

use std::fmt;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use crate::coroutine::BoxCoroutine;
use crate::error::TaskError;
use crate::handler::Handler;
use crate::id::{ObjectRef, TaskRef, Tid, Uuid, Waitable};
use crate::shown::Shown;
use crate::time::Time;
use crate::value::Value;

/// A request of a coroutine to the scheduler. Every one is a scheduling point.
#[non_exhaustive]
pub enum SystemCall {
    /// Let the others run.
    Yield,
    /// The caller's own number.
    GetTid,
    /// The run's clock.
    Now,
    /// A random number, from the run's seed.
    Random,
    /// A new identity, which the host drew.
    NewUuid(Uuid),
    /// Whether the run takes the new way at a change of the program, with what the host thinks of it. The
    /// first answer holds for the whole run.
    Patched(Rc<str>, bool),
    /// The run begins anew, from its function with this input, as JSON.
    ContinueAs(Rc<str>),
    /// The caller's handler chain, innermost first.
    GetHandlers,

    /// A new task. Its options are rare, so they are boxed.
    Spawn(BoxCoroutine, Option<Box<SpawnOptions>>),
    /// The result of one task or promise.
    Wait(Waitable, Claim),
    /// Whether the task of this number is over, waiting until it is. Answers if it was alive.
    WaitTask(Tid),
    /// The results of all of them.
    Gather(Vec<Waitable>, GatherMode, Claim),
    /// The result of the first of them.
    Race(Vec<Waitable>, Claim),
    /// Stop a task.
    Cancel(TaskRef),
    /// Stop a task by its number. Answers if it was alive.
    KillTask(Tid),

    /// A new promise.
    CreatePromise,
    /// Settle a promise with a value.
    CompletePromise(ObjectRef, Value),
    /// Settle a promise with an error.
    FailPromise(ObjectRef, TaskError),
    /// A new promise that is settled from outside by this UUID, which the host drew.
    CreateExternalPromise(Uuid),

    /// Wait so long.
    Sleep(Duration),
    /// Wait until then.
    SleepUntil(Time),

    /// Wait until the descriptor can be read.
    ReadWait(RawFd),
    /// Wait until the descriptor can be written.
    WriteWait(RawFd),

    /// Read a key of the caller's own state.
    Get(Rc<str>),
    /// Write a key of the caller's own state.
    Put(Rc<str>, Value),
    /// Append to the caller's own log.
    Tell(Value),
    /// Read the caller's own log.
    GetLog,
    /// Read a key of the shared environment.
    Ask(Rc<str>),

    /// A new channel with room for so many messages (`None`: as many as there are).
    CreateChannel(Option<usize>),
    /// Put a message into a channel, waiting for room.
    Send(ObjectRef, Value),
    /// Take a message out of a channel, waiting for one.
    Receive(ObjectRef),
    /// Take a message that was sent to the run under this name, waiting for one.
    ReceiveMessage(Rc<str>),
    /// A new semaphore with so many permits.
    CreateSemaphore(usize),
    /// A new mutex: a semaphore with one permit, which the task that took it keeps.
    CreateMutex,
    /// Take so many permits, waiting for them.
    Acquire(ObjectRef, usize),

    /// A new group of tasks, which are cancelled when it is released.
    CreateGroup,
    /// Wait until every member of a group is over. The first failure cancels the rest.
    JoinGroup(ObjectRef),

    /// Work for the host to do outside the kernel.
    Effect(EffectWork),
    /// Show something to those who watch. It is not written down.
    Show(Box<Shown>),
    /// Ask a person, and wait for the answer.
    Approve(Box<Asking>),
    /// Count this much towards the run's cost limit.
    Charge(u64),
    /// A call the kernel does not know; handlers answer it.
    Custom(&'static str, Value),
}

/// What a wait does with the value and the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Others may wait for it too: the value is shared, the handle stays.
    Share,
    /// The caller holds the only handle: the value moves to it, the handle stays.
    Take,
    /// The same, and a task's handle goes with the answer: nobody will give it back. (A promise's
    /// future stays, as others may hold the same one.)
    Consume,
}

/// What Gather does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherMode {
    /// Fail at once on the earliest failure or cancellation.
    FailFast,
    /// Wait for all, and give results and errors side by side.
    Settle,
}

/// What Spawn may be told besides the coroutine.
#[derive(Default)]
pub struct SpawnOptions {
    /// A name for people.
    pub name: Option<Rc<str>>,
    /// Higher runs first, under a policy that looks at it.
    pub priority: u8,
    /// The child's handlers.
    pub handlers: Handlers,
    /// The group it joins.
    pub group: Option<ObjectRef>,
    /// Whether it is a daemon task: it keeps no run alive, and is cancelled when the others are over.
    pub daemon: bool,
}

/// Which handlers a child has.
#[derive(Default)]
pub enum Handlers {
    /// Those of its parent.
    #[default]
    Inherit,
    /// These, innermost first, inside those of its parent.
    Inside(Vec<Rc<dyn Handler>>),
    /// These alone, innermost first.
    Replace(Vec<Rc<dyn Handler>>),
}

/// Work for the host: what kind, and the work itself, which only the host understands.
pub struct EffectWork {
    /// A name for people.
    pub name: &'static str,
    /// What the host wants to find in the log beside the name, as JSON.
    pub about: Option<Rc<str>>,
    /// The work, as the host wrapped it.
    pub work: Box<dyn std::any::Any>,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// The question and its choices, as JSON. The kernel does not look at it.
    pub about: Rc<str>,
    /// What the person has to see to decide, as JSON.
    pub payload: Option<Rc<str>>,
    /// How long an answer is waited for.
    pub timeout: Option<Duration>,
}

/// What a call is answered with.
#[non_exhaustive]
pub enum Reply {
    /// It is done.
    Unit,
    /// A value.
    Value(Value),
    /// There is no such value, or no further one.
    Nothing,
    /// A message of a channel.
    Message(Box<Message>),
    /// Permits of a semaphore.
    Permits(Permits),
    /// Yes or no.
    Flag(bool),
    /// A task's number.
    Tid(Tid),
    /// A moment.
    Time(Time),
    /// A number.
    Number(u64),
    /// A new task.
    Task(TaskRef),
    /// A new promise, channel, semaphore or group.
    Object(ObjectRef),
    /// A new external promise, and what it is called outside.
    External(Box<(ObjectRef, Uuid)>),
    /// All values, in input order.
    Values(Box<[Value]>),
    /// All results, in input order.
    Results(Box<[Result<Value, TaskError>]>),
    /// Which one won, and its value.
    Race(Box<(usize, Value)>),
    /// A handler chain, innermost first.
    Handlers(Box<[Rc<dyn Handler>]>),
    /// It went wrong.
    Error(TaskError),
}

/// A message on its way to a receiver.
pub struct Message {
    /// The channel it came from.
    pub channel: ObjectRef,
    /// Its place in the order in which messages left the channel.
    pub(crate) order: u64,
    /// The message itself.
    pub value: Value,
}

/// So many permits of a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permits {
    pub(crate) slot: u32,
    /// How many.
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

            /// The word for it in the log, in traces and in errors.
            pub fn tag(self) -> &'static str {
                match self { $(CallKind::$name => $tag),+ }
            }

            /// The kind that this is the word for.
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
    Custom "custom" SystemCall::Custom(..),
}

impl CallKind {
    /// Calls that are the scheduler's own business: no handler sees them.
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

    /// Calls that need the round's clock to be set before they are accepted.
    pub fn reads_clock(self) -> bool {
        use CallKind::*;
        matches!(self, Now | Sleep | SleepUntil | Approve | Cancel | KillTask)
    }
}

impl SystemCall {
    /// The name a custom call or an effect goes by; `None` for the kernel's own calls.
    pub fn given_name(&self) -> Option<&'static str> {
        match self {
            SystemCall::Custom(name, _) => Some(name),
            SystemCall::Effect(work) => Some(work.name),
            _ => None,
        }
    }
}

/// The call as a person reads it in a trace: its tag and its arguments.
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
            SystemCall::Effect(work) => write!(f, "{tag}({})", work.name),
            SystemCall::Approve(asking) => write!(f, "{tag}({})", asking.about),
            SystemCall::Custom(name, request) => write!(f, "{tag}({name}, {request:?})"),
            _ => f.write_str(tag),
        }
    }
}
