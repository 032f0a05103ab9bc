//! The records of a durable run. The kernel leaves them in its outbox in the order in which things
//! happened; the host formats and stores them.

use std::rc::Rc;

use crate::annotation::Annotation;
use crate::attributes::Attributes;
use crate::call::{Asking, CallKind, Reply, SystemCall};
use crate::calls::Answer;
use crate::error::{Site, TaskError};
use crate::id::{Tid, Uuid, Waitable};
use crate::outbox::CallRef;
use crate::run::Run;
use crate::time::Time;
use crate::value::Value;

/// The choice of calls that are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// No calls: the run is not durable.
    #[default]
    Off,
    /// Outward calls, and the answers from outside, which determine everything else.
    Outward,
    /// All calls.
    Every,
}

/// An event in a durable run, to be recorded.
#[derive(Clone, Debug)]
pub struct Record {
    /// The task that the record concerns.
    pub tid: Tid,
    /// The time on the run's clock.
    pub clock: Time,
    /// The number of turns that the run's tasks had taken.
    pub step: u64,
    /// The kind of record, with its data.
    pub kind: RecordKind,
}

/// The kinds of records.
#[derive(Clone, Debug)]
pub enum RecordKind {
    /// The task made a call.
    Called(CallRecord),
    /// The timer of a call was due.
    Woken(CallRef),
    /// The task withdrew an outward call.
    Withdrawn(CallRef),
    /// The task withdrew a question that no person had answered.
    Unasked(CallRef),
    /// The task's cleanup took longer than allowed and was cut short.
    CutShort,
    /// The run exceeded its time limit.
    OverTime,
    /// The run's deadline passed.
    PastDeadline,
    /// The task returned; with the value if it is the root.
    Completed(Option<Value>),
    /// The task ended with an error.
    Failed(TaskError),
    /// The task was cancelled; with the error if it is the root.
    Cancelled(Option<TaskError>),
}

impl RecordKind {
    /// Whether it is the end of a task.
    pub fn is_end(&self) -> bool {
        matches!(self, RecordKind::Completed(_) | RecordKind::Failed(_) | RecordKind::Cancelled(_))
    }
}

/// The record of a call.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// The reference to the call, for completions.
    pub call: CallRef,
    /// The kind of call.
    pub kind: CallKind,
    /// The name of an effect or a custom call.
    pub name: Option<&'static str>,
    /// The subject of the call.
    pub about: About,
    /// The line of the call.
    pub at: Site,
    /// The error code, if the call was refused at once.
    pub error: Option<&'static str>,
}

/// The subject of a call, as far as a person or a replay needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// No subject beyond the kind of the call.
    Nothing,
    /// A task.
    Task(Tid),
    /// A task that was spawned.
    Child {
        /// The number of the task.
        tid: Tid,
        /// The name of the task.
        name: Option<Rc<str>>,
        /// Whether the task is a daemon task.
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
    /// A UUID.
    Uuid(Uuid),
    /// Data that the host needs again, as JSON.
    Json(Rc<str>),
    /// All tags and attributes that the run has after the call.
    Attributes(Rc<Attributes>),
    /// An annotation.
    Annotation(Rc<Annotation>),
    /// A question to a person.
    Question {
        /// The question and its choices, as JSON.
        about: Rc<str>,
        /// The data on which the person bases the decision, as JSON.
        payload: Option<Rc<str>>,
        /// When the question times out.
        until: Option<Time>,
    },
}

impl CallKind {
    /// Whether this is an outward call: one that concerns the outside world. A replay compares only
    /// these.
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

    /// Whether the record of such a call is kept whatever else is recorded. A replay doesn't
    /// compare these calls.
    pub fn is_note(self) -> bool {
        matches!(self, CallKind::SetAttributes | CallKind::Annotate)
    }
}

impl Run {
    /// Whether calls of this kind are recorded.
    #[inline]
    pub(crate) fn records(&self, kind: CallKind) -> bool {
        match self.recording {
            Recording::Off => false,
            Recording::Outward => kind.is_outward() || kind.is_note(),
            // There may be millions of them, and nothing depends on them.
            Recording::Every => kind != CallKind::Show,
        }
    }

    /// Records an event of a task.
    #[inline]
    pub(crate) fn record(&mut self, slot: u32, kind: impl FnOnce(&Run) -> RecordKind) {
        if self.recording != Recording::Off {
            let (tid, kind) = (self.tasks[slot as usize].tid, kind(self));
            self.push_record(Record { tid, clock: self.clock, step: self.steps, kind });
        }
    }

    /// Adds the answer of a call to its record, and records it.
    pub(crate) fn record_call(&mut self, slot: u32, mut call: CallRecord, answer: &Answer) {
        match answer {
            // The old branch has no record, because programs without the change have none either.
            Answer::Now(Reply::Flag(false)) if call.kind == CallKind::Patched => return,
            Answer::Now(Reply::Task(task)) => {
                let (tid, name) = (task.tid, self.name(task.slot));
                call.about = About::Child { tid, name, daemon: self.is_daemon(task.slot) };
            }
            Answer::Now(Reply::Object(object)) => call.about = About::Object(object.id),
            Answer::Now(Reply::Time(time)) => call.about = About::Time(*time),
            Answer::Now(Reply::Number(number)) => call.about = About::Number(*number),
            Answer::Now(Reply::Error(error)) => call.error = Some(error.code()),
            Answer::Now(Reply::Unit) if call.kind == CallKind::SetAttributes => {
                let whole = self.rare.attributes.clone();
                call.about = whole.map_or(About::Nothing, About::Attributes);
            }
            _ => {}
        }
        self.record(slot, |_| RecordKind::Called(call));
    }
}

impl About {
    /// Returns the subject of a call, before it is performed.
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
            SystemCall::Annotate(annotation) => About::Annotation(Rc::new((**annotation).clone())),
            SystemCall::Charge(cost) => About::Number(*cost),
            _ => About::Nothing,
        }
    }
}
