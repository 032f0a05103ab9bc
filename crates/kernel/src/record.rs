//! What a durable run writes down. The kernel leaves records in its outbox, in the order in which things
//! happened; how a line looks, and when it is safe, is the host's business.

use std::rc::Rc;

use crate::call::{Asking, CallKind, Reply, SystemCall};
use crate::calls::Answer;
use crate::error::{Site, TaskError};
use crate::id::{Tid, Uuid, Waitable};
use crate::outbox::CallRef;
use crate::run::Run;
use crate::time::Time;
use crate::value::Value;

/// Which calls of a run are written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// None: the run is not durable.
    #[default]
    Off,
    /// Those that concern the world, and what comes back from it. The rest follows from these.
    Outward,
    /// All of them.
    Every,
}

/// One thing that happened in a durable run.
#[derive(Clone, Debug)]
pub struct Record {
    /// The task it happened to.
    pub tid: Tid,
    /// The run's clock.
    pub clock: Time,
    /// How many turns tasks of the run had had.
    pub step: u64,
    /// What happened.
    pub kind: RecordKind,
}

/// What can happen.
#[derive(Clone, Debug)]
pub enum RecordKind {
    /// The task made a call.
    Called(CallRecord),
    /// A timer that one of its calls waits for was due.
    Woken(CallRef),
    /// It took a call back that waited for the world.
    Withdrawn(CallRef),
    /// It took a question back that no person had answered.
    Unasked(CallRef),
    /// It took longer for its cleanup than it may.
    CutShort,
    /// The run took longer than it may.
    OverTime,
    /// It returned; with the value if it is the root.
    Completed(Option<Value>),
    /// It ended with an error.
    Failed(TaskError),
    /// It was stopped; with the error of that if it is the root.
    Cancelled(Option<TaskError>),
}

/// A call as it is written down.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// Names the call for completions.
    pub call: CallRef,
    /// The kind of call.
    pub kind: CallKind,
    /// The name that an effect or a custom call has.
    pub name: Option<&'static str>,
    /// What it is about.
    pub about: About,
    /// The line of the call.
    pub at: Site,
    /// The error code, if it was refused at once.
    pub error: Option<&'static str>,
}

/// What a call is about, as far as a person or a replay wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// No more than its kind says.
    Nothing,
    /// A task.
    Task(Tid),
    /// A task that was spawned.
    Child {
        /// The task.
        tid: Tid,
        /// Its name.
        name: Option<Rc<str>>,
        /// Whether it is a daemon task.
        daemon: bool,
    },
    /// A promise, channel, semaphore or group.
    Object(u64),
    /// Tasks and promises.
    Several(Rc<[Waitable]>),
    /// A key of a store, or the name of an inbox.
    Key(Rc<str>),
    /// A moment.
    Time(Time),
    /// A number.
    Number(u64),
    /// An identity.
    Uuid(Uuid),
    /// Whatever the host wants to find again, as JSON.
    Json(Rc<str>),
    /// A question to a person.
    Question {
        /// The question and its choices, as JSON.
        about: Rc<str>,
        /// What the person has to see to decide, as JSON.
        payload: Option<Rc<str>>,
        /// Until when an answer is waited for.
        until: Option<Time>,
    },
}

impl CallKind {
    /// Calls that concern the world. A replay matches these, and these alone.
    pub fn is_outward(self) -> bool {
        use CallKind::*;
        matches!(
            self,
            Spawn
                | Sleep
                | SleepUntil
                | Effect
                | Approve
                | CreateExternalPromise
                | ReceiveMessage
                | Now
                | Random
                | NewUuid
                | Patched
                | ContinueAs
                | Custom
        )
    }
}

impl Run {
    /// Whether a call of this kind is written down.
    #[inline]
    pub(crate) fn records(&self, kind: CallKind) -> bool {
        match self.recording {
            Recording::Off => false,
            Recording::Outward => kind.is_outward(),
            // There may be millions of them, and nothing depends on them.
            Recording::Every => kind != CallKind::Show,
        }
    }

    /// Writes down that something happened to a task.
    #[inline]
    pub(crate) fn record(&mut self, slot: u32, kind: impl FnOnce(&Run) -> RecordKind) {
        if self.recording != Recording::Off {
            let (tid, kind) = (self.tasks[slot as usize].tid, kind(self));
            self.push_record(Record { tid, clock: self.clock, step: self.steps, kind });
        }
    }

    /// Completes what is written down of a call by what came of it.
    pub(crate) fn record_call(&mut self, slot: u32, mut call: CallRecord, answer: &Answer) {
        match answer {
            // The old way has no record: it is that of a program that did not know the change.
            Answer::Now(Reply::Flag(false)) if call.kind == CallKind::Patched => return,
            Answer::Now(Reply::Task(task)) => {
                let (tid, name) = (task.tid, self.name(task.slot));
                call.about = About::Child { tid, name, daemon: self.is_daemon(task.slot) };
            }
            Answer::Now(Reply::Object(object)) => call.about = About::Object(object.id),
            Answer::Now(Reply::Time(time)) => call.about = About::Time(*time),
            Answer::Now(Reply::Number(number)) => call.about = About::Number(*number),
            Answer::Now(Reply::Error(error)) => call.error = Some(error.code()),
            _ => {}
        }
        self.record(slot, |_| RecordKind::Called(call));
    }
}

impl About {
    /// What a call is about, before it is done.
    pub(crate) fn call(call: &SystemCall, clock: Time) -> About {
        match call {
            SystemCall::Wait(Waitable::Task(task), _) | SystemCall::Cancel(task) => {
                About::Task(task.tid)
            }
            SystemCall::Wait(Waitable::Future(object), _)
            | SystemCall::CompletePromise(object, _)
            | SystemCall::FailPromise(object, _)
            | SystemCall::Send(object, _)
            | SystemCall::Receive(object)
            | SystemCall::Acquire(object, _)
            | SystemCall::JoinGroup(object) => About::Object(object.id),
            SystemCall::WaitTask(tid) | SystemCall::KillTask(tid) => About::Task(*tid),
            SystemCall::Gather(items, ..) | SystemCall::Race(items, _) => {
                About::Several(items.as_slice().into())
            }
            SystemCall::Sleep(duration) => {
                clock.checked_add(*duration).map_or(About::Nothing, About::Time)
            }
            SystemCall::SleepUntil(time) => About::Time(*time),
            SystemCall::Get(key)
            | SystemCall::Put(key, _)
            | SystemCall::Ask(key)
            | SystemCall::ReceiveMessage(key)
            | SystemCall::Patched(key, _) => About::Key(Rc::clone(key)),
            SystemCall::CreateExternalPromise(uuid) | SystemCall::NewUuid(uuid) => {
                About::Uuid(*uuid)
            }
            SystemCall::Effect(work) => match &work.about {
                Some(json) => About::Json(Rc::clone(json)),
                None => About::Nothing,
            },
            SystemCall::Approve(asking) => {
                let Asking { about, payload, timeout } = &**asking;
                let until = timeout.and_then(|timeout| clock.checked_add(timeout));
                About::Question { about: Rc::clone(about), payload: payload.clone(), until }
            }
            SystemCall::ContinueAs(input) => About::Json(Rc::clone(input)),
            SystemCall::Charge(cost) => About::Number(*cost),
            _ => About::Nothing,
        }
    }
}
