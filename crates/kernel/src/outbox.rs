//! The outbox, which the kernel leaves for its host after a round, and the completions that the
//! host returns. The kernel itself does none of this work.

use std::fmt;
use std::os::fd::RawFd;
use std::rc::Rc;

use crate::call::{CallKind, EffectWork};
use crate::config::Events;
use crate::coroutine::Release;
use crate::error::{Site, TaskError};
use crate::id::{CallId, ObjectRef, RunId, TaskRef, Tid, Uuid};
use crate::shown::Shown;
use crate::state::BlockReason;
use crate::time::Time;
use crate::value::Value;

/// A reference to a call that waits for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallRef {
    /// The run.
    pub run: RunId,
    pub(crate) slot: u32,
    /// The call.
    pub call: CallId,
}

/// An order to the host. Every host must execute all of them.
pub enum Order {
    /// Report when the descriptor is ready.
    Watch(CallRef, RawFd, Interest),
    /// Stop watching the descriptor: the call no longer waits for it.
    Unwatch(CallRef, RawFd),
    /// Do this work, and report its result.
    Start(CallRef, EffectWork),
    /// Ask a person this question, and report the answer.
    Ask(CallRef, Asked),
    /// Abort the work or the question of this call: the call no longer waits for it.
    Abort(CallRef),
    /// Report when everything that has happened so far is durable.
    Commit(CallRef),
    /// Start the run again with this input, as JSON, or report why that is not possible.
    Continue(CallRef, Rc<str>),
    /// From now on the promise may be settled under this UUID.
    Announce(Uuid, ObjectRef),
    /// The name of a task has changed; `None` if the task has ended.
    Name(Tid, Option<Rc<str>>),
    /// Release this handle in the run that it belongs to.
    Elsewhere(Release),
    /// Withdraw this call in the run that it belongs to.
    WithdrawElsewhere(TaskRef, CallId),
}

/// An open question to a person.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The question and its choices, as JSON.
    pub about: Rc<str>,
    /// The data on which the person bases the decision, as JSON.
    pub payload: Option<Rc<str>>,
    /// When the question was asked.
    pub since: Time,
    /// When the question times out.
    pub deadline: Option<Time>,
}

/// The event that a call waits for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The descriptor is readable.
    Read,
    /// The descriptor is writable.
    Write,
}

/// Something that the host reports to a run.
#[non_exhaustive]
pub enum Completion {
    /// The answer to a call that the host had an order for.
    Call(CallRef, Result<Value, TaskError>),
    /// A person answered the question that a call asked.
    Decided(CallRef, Result<Value, TaskError>),
    /// The timer of a call was due, according to the log. (In a live run the kernel fires timers
    /// itself.)
    Timer(CallRef),
    /// The time that a cancelled task had for its cleanup ended, according to the log.
    CutShort(Tid),
    /// The run's time limit was reached, according to the log.
    OverTime,
    /// The run's deadline passed, according to the log.
    PastDeadline,
    /// A message was sent to the run, under this name.
    Message(Rc<str>, Value),
    /// An external promise was settled.
    Settle(Uuid, Result<Value, TaskError>),
    /// A foreign future was woken.
    Wake(crate::id::TaskRef),
}

/// An event in a run, for watchers.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time on the run's clock.
    pub at: Time,
    /// The run.
    pub run: RunId,
    /// The task that the event concerns.
    pub tid: Tid,
    /// The kind of event, with its data.
    pub kind: EventKind,
}

/// The kinds of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The task was spawned.
    Spawned {
        /// The task that spawned it; `None` for the root.
        parent: Option<Tid>,
        /// The name of the task.
        name: Option<Rc<str>>,
        /// The line that spawned the task.
        at: Site,
    },
    /// A turn of the task began.
    Running,
    /// The task made a call.
    Called {
        /// The call's number.
        id: CallId,
        /// The kind of call.
        kind: CallKind,
        /// The call formatted as text.
        call: String,
        /// The line of the call.
        at: Site,
    },
    /// A call of the task was answered.
    Answered {
        /// The call's number.
        id: CallId,
        /// The error code, if the answer is an error.
        error: Option<&'static str>,
    },
    /// The task withdrew a call.
    Withdrawn {
        /// The call's number.
        id: CallId,
    },
    /// The task waits.
    Blocked(BlockReason),
    /// The task is ready again.
    Woken,
    /// The task was cancelled.
    Cancelling,
    /// The task returned.
    Completed,
    /// The task ended with an error.
    Failed(TaskError),
    /// The task was cancelled and has ended.
    Cancelled,
    /// The task shows progress, a log line, output or a stage.
    Shown(Box<Shown>),
    /// The task waits, through other tasks, for itself.
    Cycle(Vec<Tid>),
    /// The policy chose the task although it was not ready.
    NotReady,
    /// An external promise was settled again.
    Ignored(Uuid),
}

impl EventKind {
    /// The lowest level at which this event is reported.
    pub fn level(&self) -> Events {
        use EventKind::*;
        match self {
            Called { .. } | Answered { .. } | Withdrawn { .. } => Events::All,
            Running | Blocked(_) | Woken => Events::Turns,
            Spawned { .. } | Cancelling | Completed | Cancelled => Events::Tasks,
            Failed(_) | Shown(_) | Cycle(_) | NotReady | Ignored(_) => Events::Problems,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} task {} {}", self.at, self.tid, self.kind)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::Spawned { parent, name, .. } => {
                f.write_str("spawned")?;
                if let Some(name) = name {
                    write!(f, " `{name}`")?;
                }
                match parent {
                    Some(parent) => write!(f, " by task {parent}"),
                    None => Ok(()),
                }
            }
            EventKind::Running => f.write_str("running"),
            EventKind::Called { id, call, .. } => write!(f, "call {} {call}", id.0),
            EventKind::Answered { id, error: None } => write!(f, "answered {}", id.0),
            EventKind::Answered { id, error: Some(code) } => write!(f, "answered {} {code}", id.0),
            EventKind::Withdrawn { id } => write!(f, "withdrawn {}", id.0),
            EventKind::Blocked(reason) => write!(f, "blocked {reason}"),
            EventKind::Woken => f.write_str("woken"),
            EventKind::Cancelling => f.write_str("cancelling"),
            EventKind::Completed => f.write_str("completed"),
            EventKind::Failed(error) => write!(f, "failed {} {}", error.code(), error.message()),
            EventKind::Cancelled => f.write_str("cancelled"),
            EventKind::Shown(shown) => write!(f, "shows {shown}"),
            EventKind::Cycle(tids) => {
                let ring: Vec<String> = tids.iter().map(Tid::to_string).collect();
                write!(f, "waits for itself: {}", ring.join(" → "))
            }
            EventKind::NotReady => f.write_str("was named by the policy but is not ready"),
            EventKind::Ignored(uuid) => write!(f, "promise {uuid} was settled again, ignored"),
        }
    }
}
