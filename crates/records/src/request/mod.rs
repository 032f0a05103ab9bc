//! What can be asked of the runtime that has a log, and what it answers. The same in this process, through the
//! socket and on a directory that nobody has.

mod approval;
mod fork;
mod long_turn;
mod name;
mod redacted;
mod start;
mod summary;
pub mod uuid_text;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError, Uuid, Value};

use self::uuid_text::{maybe_text, text, texts};
use crate::activity::{Beginning, Wanted};
use crate::errors::not_in_doubt;
use crate::json::compact;
use crate::key::Key;
use crate::metrics::Snapshot;
use crate::retention::Remains;
use crate::value::plain::accept;
use crate::value::{Json, raw};
use tiffany_log::Collected;

pub use approval::{
    Approval, OpenApproval, Place, Question, Ruling, decided_already, no_such_approval, own_uid,
    stamped, user_name,
};
pub use fork::{Fork, ForkReply};
pub use long_turn::LongTurn;
pub use name::check_name;
pub use start::{StartDeadline, StartOptions};
pub use summary::{
    ErrorSummary, Looked, Parent, Row, RunDetail, RunPage, RunQuery, RunSummary, SHORTEST, SortBy,
    State, TaskSummary, find_named, moment, parse_moment,
};

/// Something that is asked of a runtime. As JSON it is what goes through the socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// How the runtime stands: [`Answer::Status`].
    Status,
    /// Whether it answers and can write: [`Answer::Done`], or why the log has failed. Nothing is counted or listed for it.
    Health,
    /// The runs there are: [`Answer::Runs`].
    Runs(RunQuery),
    /// The run that is called so: by its UUID, the beginning of that, or its id: [`Answer::Found`].
    Find {
        /// What it is called.
        name: String,
    },
    /// One run: [`Answer::Shown`].
    Show {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
    },
    /// How far the log of a run is written: [`Answer::Recorded`]. The records up to there are safe, and come into the
    /// run's file soon.
    Recorded {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
    },
    /// Starts a run, or finds the one of this id: [`Answer::Run`].
    Submit {
        /// The function's name.
        function: String,
        /// The id of the run.
        id: String,
        /// What the function is given.
        input: Box<RawValue>,
        /// Its tags, attributes and deadline, if it is new.
        #[serde(default, skip_serializing_if = "StartOptions::is_empty")]
        options: StartOptions,
    },
    /// Sends a message to a run.
    Send {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// The message's name, by which it is received.
        name: String,
        /// What is sent.
        message: Box<RawValue>,
    },
    /// Settles an external promise: [`Answer::Settled`].
    Settle {
        /// The run whose promise is meant, if it is to be that of a fork.
        #[serde(default, with = "maybe_text", skip_serializing_if = "Option::is_none")]
        run: Option<Uuid>,
        /// The promise.
        #[serde(with = "text")]
        promise: Uuid,
        /// Its value, or the error that its readers get.
        result: Result<Box<RawValue>, TaskError>,
    },
    /// Cancels a run.
    Cancel {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
    },
    /// Holds a run: it gets no turns until it is released.
    Hold {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// The person who holds it.
        by: String,
        /// The reason, if one is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Lets a run that is held continue.
    Release {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// The person who releases it.
        by: String,
        /// The reason, if one is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Asks a run something: [`Answer::Value`].
    Question {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// The question's name.
        name: String,
        /// What is asked.
        input: Box<RawValue>,
    },
    /// Forks a run: [`Answer::Forked`].
    Fork {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// The record up to which they are the same.
        at: u64,
        /// What is different.
        fork: Fork,
    },
    /// Lets a fork do effects of these names.
    Allow {
        /// The fork.
        #[serde(with = "text")]
        run: Uuid,
        /// The names; `*` for all.
        names: BTreeSet<String>,
    },
    /// Runs that are over go: [`Answer::Each`].
    Remove {
        /// The runs.
        #[serde(with = "texts")]
        runs: Vec<Uuid>,
    },
    /// A damaged run goes, whether it is over or not: [`Answer::Lost`].
    RemoveDamaged {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
    },
    /// Of runs that are over this is to be left: [`Answer::Each`]. The runtime's `Keeper` makes it.
    #[doc(hidden)]
    Compact { remains: Vec<Remains> },
    /// Blobs that nobody names go: [`Answer::Collection`].
    Collect {
        /// What came of the collection of this number?
        number: Option<u64>,
    },
    /// From now on the connection is a stream of events. The socket answers this itself.
    Events(Wanted),
    /// What the runtime has counted and measured: [`Answer::Metrics`].
    Metrics,
    /// The last turns that kept the loop for long: [`Answer::LongTurns`].
    LongTurns,
    /// The steps that are in doubt: [`Answer::Doubts`].
    Doubts,
    /// Decides on one of them.
    Decide {
        /// Its key.
        key: String,
        /// What came of it.
        decision: Decision,
    },
    /// The questions that wait for a person: [`Answer::Approvals`].
    Approvals,
    /// Decides one of them: [`Answer::Approval`].
    Resolve {
        /// Its id.
        approval: String,
        /// What is said to it, and by whom.
        ruling: Ruling,
    },
    /// The same request, whose values were made by the codec of the language that the runs are written in. Without it they are plain JSON.
    #[doc(hidden)]
    Encoded(Box<Request>),
}

impl Request {
    /// The same, as the system says who asks.
    pub fn asked_by_user(self, uid: u32) -> Request {
        match self {
            Request::Resolve { approval, ruling } => {
                Request::Resolve { approval, ruling: ruling.asked_by_user(uid) }
            }
            Request::Fork { run, at, fork } => {
                Request::Fork { run, at, fork: fork.asked_by_user(uid) }
            }
            Request::Encoded(request) => Request::Encoded(Box::new(request.asked_by_user(uid))),
            request => request,
        }
    }

    /// The request with its values as the log has them. An error if a name cannot be shown to people, or if a value
    /// could not be read: plain JSON by any program, what a codec made by `codec`.
    pub fn accepted(
        self,
        codec: impl Fn(Box<RawValue>) -> Result<Box<RawValue>, TaskError>,
    ) -> Result<Request, TaskError> {
        let accepted = match self {
            Request::Encoded(request) if request.carries_value() => {
                request.with_values(codec, |error| error)
            }
            Request::Encoded(_) => Err(not_encodable()),
            request => request.with_values(|value| accept(&value), TaskError::without_detail),
        }?;
        accepted.check_names()?;
        Ok(accepted)
    }

    /// An error if it gives something a name that cannot be shown to people or used in an address.
    fn check_names(&self) -> Result<(), TaskError> {
        match self {
            Request::Submit { id, .. } => check_name("the id", id),
            Request::Send { name, .. } => check_name("the message's name", name),
            Request::Fork { fork, .. } => {
                fork.new_id().map_or(Ok(()), |id| check_name("the id", id))
            }
            _ => Ok(()),
        }
    }

    /// The request with other values, and other errors instead of values.
    fn with_values(
        self,
        value: impl Fn(Box<RawValue>) -> Result<Box<RawValue>, TaskError>,
        error: impl Fn(TaskError) -> TaskError,
    ) -> Result<Request, TaskError> {
        Ok(match self {
            Request::Submit { function, id, input, options } => {
                Request::Submit { function, id, input: value(input)?, options }
            }
            Request::Send { run, name, message } => {
                Request::Send { run, name, message: value(message)? }
            }
            Request::Settle { run, promise, result } => {
                let result = match result {
                    Ok(given) => Ok(value(given)?),
                    Err(given) => Err(error(given)),
                };
                Request::Settle { run, promise, result }
            }
            Request::Question { run, name, input } => {
                Request::Question { run, name, input: value(input)? }
            }
            Request::Fork { run, at, fork } => {
                Request::Fork { run, at, fork: fork.with_reply(value, error)? }
            }
            Request::Decide { key, decision: Decision::Done(given) } => {
                Request::Decide { key, decision: Decision::Done(value(given)?) }
            }
            request => request,
        })
    }

    /// Whether it has a value of the user's in it.
    pub fn carries_value(&self) -> bool {
        use Request::{Decide, Fork, Question, Send, Settle, Submit};
        matches!(
            self,
            Submit { .. }
                | Send { .. }
                | Settle { .. }
                | Question { .. }
                | Fork { .. }
                | Decide { .. }
        )
    }

    /// Whether nothing is changed by it, so that it can be answered when the log has failed.
    pub fn only_looks(&self) -> bool {
        self.changes().is_none()
    }
}

impl Request {
    /// What is changed by it, in a word, and of what. `None`: nothing is.
    pub fn changes(&self) -> Option<(&'static str, Option<String>)> {
        let all = |runs: &mut dyn Iterator<Item = String>| Some(runs.collect::<Vec<_>>().join(" "));
        Some(match self {
            Request::Status
            | Request::Health
            | Request::Runs(_)
            | Request::Find { .. }
            | Request::Show { .. }
            | Request::Recorded { .. }
            | Request::Question { .. }
            | Request::Events(_)
            | Request::Metrics
            | Request::LongTurns
            | Request::Doubts
            // Nobody misses a blob that no run names.
            | Request::Collect { .. }
            | Request::Approvals => return None,
            Request::Submit { id, .. } => ("submit", Some(id.clone())),
            Request::Send { run, .. } => ("send", Some(run.to_string())),
            Request::Settle { promise, .. } => ("settle", Some(promise.to_string())),
            Request::Cancel { run } => ("cancel", Some(run.to_string())),
            Request::Hold { run, .. } => ("hold", Some(run.to_string())),
            Request::Release { run, .. } => ("release", Some(run.to_string())),
            Request::Fork { run, .. } => ("fork", Some(run.to_string())),
            Request::Allow { run, .. } => ("allow", Some(run.to_string())),
            Request::Remove { runs } => ("remove", all(&mut runs.iter().map(ToString::to_string))),
            Request::RemoveDamaged { run } => ("remove_damaged", Some(run.to_string())),
            Request::Compact { remains } => {
                ("compact", all(&mut remains.iter().map(|one| one.run.to_string())))
            }
            Request::Decide { key, .. } => ("decide", Some(key.clone())),
            Request::Resolve { approval, ruling } => (ruling.word(), Some(approval.clone())),
            Request::Encoded(request) => return request.changes(),
        })
    }
}

impl Request {
    /// Whether its answer is about what the log has.
    pub fn looks_at_log(&self) -> bool {
        use Request::{Approvals, Doubts, Find, Recorded, Runs, Show};
        matches!(self, Runs(_) | Find { .. } | Show { .. } | Recorded { .. } | Doubts | Approvals)
    }
}

/// The error for a request in a form that no client sends.
pub fn not_encodable() -> TaskError {
    let message = "only a request that carries a value can be encoded, and only once";
    TaskError::new(ErrorKind::BadArgument, message)
}

/// What comes of a request that was not refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// How the runtime stands.
    Status(Status),
    /// Runs, in the order that was asked for.
    Runs(RunPage),
    /// The run that is called so.
    Found(#[serde(with = "text")] Uuid),
    /// One run.
    Shown(Box<RunDetail>),
    /// The last record of a run.
    Recorded {
        /// The generation it is of.
        generation: u32,
        /// Its number; 0 if that is not known, because the log cannot be read or has failed.
        seq: u64,
    },
    /// The run that was started, and whether there was none of its id before.
    Run {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// Whether it is new.
        is_new: bool,
    },
    /// The fork that was made.
    Forked {
        /// The fork.
        #[serde(with = "text")]
        run: Uuid,
        /// Its id.
        id: String,
    },
    /// What came of settling a promise.
    Settled(Settlement),
    /// What a run answered.
    Value(Box<RawValue>),
    /// Events follow.
    Streaming(Beginning),
    /// Steps in doubt.
    Doubts(Vec<Doubt>),
    /// Questions that wait for a person.
    Approvals(Vec<OpenApproval>),
    /// What was decided, as it is recorded.
    Approval(Approval),
    /// What was counted and measured.
    Metrics(Snapshot),
    /// Turns that kept the loop for long, the oldest first.
    LongTurns(Vec<LongTurn>),
    /// For each run that was named, in that order.
    Each(Vec<Result<(), TaskError>>),
    /// What is lost with a damaged run.
    Lost(Lost),
    /// The number of a collection, and what came of it if it is over.
    Collection(u64, Option<Collected>),
    /// It was done, and there is something to say about it. `Control` returns the answer, and gives the
    /// warning to its `on_warning`.
    Warned {
        /// The answer.
        answer: Box<Answer>,
        /// The text of the warning.
        warning: String,
    },
}

/// What a request comes to.
pub type Outcome = Result<Answer, TaskError>;

/// What came of settling an external promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// It was the first answer, and is the one that counts.
    Accepted,
    /// The promise had its answer already; this one was counted and dropped.
    Ignored,
}

/// What is lost with a damaged run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// What was wrong with the run.
    pub damage: String,
    /// How many of its records could still be read.
    pub records: u64,
    /// Its unfinished forks. They pause where they need an answer that the run had.
    pub forks: BTreeSet<String>,
}

/// How a runtime that has a log stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The process that has the directory.
    pub pid: u32,
    /// The version of Tiffany it was built with.
    pub version: String,
    /// The functions it has registered; none if nobody has the directory.
    pub functions: Vec<Function>,
    /// Where it is reached over the network, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How many runs go on in it.
    pub live: usize,
    /// Runs that cannot go on, and why.
    pub paused: Vec<Paused>,
    /// Why nothing can be written any more, if the log has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<TaskError>,
}

/// A function that runs can be started from, with what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// What it is called.
    pub name: String,
    /// The language of its code: `rust`, `python`.
    pub language: String,
    /// What it is given, as its language writes it: the type of its one value in Rust, its parameters in Python.
    pub takes: Option<String>,
    /// The same as a JSON Schema, if there is one.
    pub input: Option<serde_json::Value>,
    /// What its author says of it.
    pub doc: Option<String>,
}

impl Function {
    /// One of which no more is known.
    pub fn new(name: &str, language: &str) -> Function {
        let (name, language) = (name.to_owned(), language.to_owned());
        Function { name, language, takes: None, input: None, doc: None }
    }
}

/// A run that cannot go on with the program that has the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paused {
    /// The run.
    #[serde(with = "text")]
    pub run: Uuid,
    /// Why it cannot go on.
    pub error: TaskError,
}

/// A step that must not be done twice and was cut off: nobody but a person can know whether it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// The key its work was given, by which it is decided.
    pub key: String,
    /// Its run.
    #[serde(with = "text")]
    pub run: Uuid,
    /// What the step is called.
    pub step: String,
    /// The attempt that was cut off.
    pub attempt: u64,
    /// Whether its task waits for a decision. If not, the run does not go on at present, and the task will be given the error
    /// [`InDoubt`](tiffany_kernel::ErrorKind::InDoubt) when it does.
    pub waits: bool,
}

/// What a person says of a step that is in doubt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It happened, and this is its result.
    Done(Box<RawValue>),
    /// It did not happen, or not as it should: its task is given an error with this message.
    Failed(String),
    /// It did not happen: it is done again.
    Again,
}

impl Decision {
    /// It happened, and this is its result.
    pub fn done(value: &impl Serialize) -> Result<Decision, TaskError> {
        raw(value).map(Decision::Done)
    }

    /// The same, of JSON.
    pub fn done_json(json: &str) -> Result<Decision, TaskError> {
        let value = serde_json::from_str(json);
        value.map(Decision::Done).map_err(|error| {
            TaskError::new(ErrorKind::Unreadable, format!("this is not JSON: {error}"))
        })
    }
}

impl Decision {
    /// What its task is given.
    pub fn result(&self) -> Result<Value, TaskError> {
        match self {
            Decision::Done(value) => Ok(Value::new(Json::new(compact(value.get())))),
            Decision::Failed(message) => Err(TaskError::failed(message.clone())),
            Decision::Again => Ok(Value::Unit),
        }
    }

    /// What the log calls it.
    pub fn word(&self) -> &'static str {
        match self {
            Decision::Done(_) => "done",
            Decision::Failed(_) => "failed",
            Decision::Again => "again",
        }
    }
}

/// The run and the call that a key names.
pub fn parse_key(key: &str) -> Result<Key, TaskError> {
    Key::parse(key).ok_or_else(|| not_in_doubt(key))
}
