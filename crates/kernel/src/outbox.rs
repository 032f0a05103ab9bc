//! What the kernel leaves for its host after a round, and what the host hands back. Nothing here is
//! done by the kernel itself.

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

/// Names a call that waits for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallRef {
    /// The run.
    pub run: RunId,
    pub(crate) slot: u32,
    /// The call.
    pub call: CallId,
}

/// Something for the host to do. Every host must know all of these, or something would be lost.
pub enum Order {
    /// Tell when the descriptor is ready.
    Watch(CallRef, RawFd, Interest),
    /// Nobody waits for that any more.
    Unwatch(CallRef, RawFd),
    /// Do this work, and tell its result.
    Start(CallRef, EffectWork),
    /// Ask a person this, and tell the answer.
    Ask(CallRef, Asked),
    /// Nobody waits for that work or that answer any more.
    Abort(CallRef),
    /// Tell when all that happened so far is safe in the log.
    Commit(CallRef),
    /// Begin the run anew, with this input, as JSON; or tell why that cannot be.
    Continue(CallRef, Rc<str>),
    /// From now on this UUID may be settled.
    Announce(Uuid, ObjectRef),
    /// The task goes by this name from now on; `None`: it is over.
    Name(Tid, Option<Rc<str>>),
    /// A handle of another run was given back.
    Elsewhere(Release),
    /// A call of another run was withdrawn.
    WithdrawElsewhere(TaskRef, CallId),
}

/// A question to a person that waits for its answer.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The question and its choices, as JSON.
    pub about: Rc<str>,
    /// What the person has to see to decide, as JSON.
    pub payload: Option<Rc<str>>,
    /// Since when.
    pub since: Time,
    /// Until when.
    pub deadline: Option<Time>,
}

/// What is waited for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// That it can be read.
    Read,
    /// That it can be written.
    Write,
}

/// What the outside tells a run.
#[non_exhaustive]
pub enum Completion {
    /// A call that the host was ordered to look after has its answer.
    Call(CallRef, Result<Value, TaskError>),
    /// A person answered the question that a call asked.
    Decided(CallRef, Result<Value, TaskError>),
    /// The timer of a call was due, says the log. (In a live run the kernel knows by itself.)
    Timer(CallRef),
    /// The time that a cancelled task had for its cleanup is over, says the log.
    CutShort(Tid),
    /// The run's time is over, says the log.
    OverTime,
    /// A message was sent to the run, under this name.
    Message(Rc<str>, Value),
    /// An external promise was settled.
    Settle(Uuid, Result<Value, TaskError>),
    /// A foreign future can go on.
    Wake(crate::id::TaskRef),
}

/// One thing that happened, for those who watch.
#[derive(Clone, Debug)]
pub struct Event {
    /// The run's clock.
    pub at: Time,
    /// The run.
    pub run: RunId,
    /// The task it happened to.
    pub tid: Tid,
    /// What happened.
    pub kind: EventKind,
}

/// What can happen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The task came to be.
    Spawned {
        /// Who spawned it; `None` for the root.
        parent: Option<Tid>,
        /// Its name.
        name: Option<Rc<str>>,
        /// The line that spawned it.
        at: Site,
    },
    /// Its coroutine runs.
    Running,
    /// It made a call.
    Called {
        /// The call's number.
        id: CallId,
        /// The kind of call.
        kind: CallKind,
        /// The call as text.
        call: String,
        /// The line of the call.
        at: Site,
    },
    /// One of its calls was answered.
    Answered {
        /// The call's number.
        id: CallId,
        /// The error code, if the answer is an error.
        error: Option<&'static str>,
    },
    /// It took a call back.
    Withdrawn {
        /// The call's number.
        id: CallId,
    },
    /// It waits.
    Blocked(BlockReason),
    /// It is ready again.
    Woken,
    /// It was asked to stop.
    Cancelling,
    /// It returned.
    Completed,
    /// It ended with an error.
    Failed(TaskError),
    /// It was stopped.
    Cancelled,
    /// It shows something.
    Shown(Box<Shown>),
    /// It waits, through others, for itself.
    Cycle(Vec<Tid>),
    /// The policy named it, and it was not ready.
    NotReady,
    /// Its external promise had been settled before.
    Ignored(Uuid),
}

impl EventKind {
    /// Who wants to be told less than this is not told of it.
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
