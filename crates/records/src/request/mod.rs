//! Requests to the runtime that owns a log, and its answers. They are the same within a process,
//! through the socket, and for a directory that no process owns.

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

/// A request to a runtime. As JSON, it is the message that goes through the socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The status of the runtime: [`Answer::Status`].
    Status,
    /// Whether the runtime answers and can write: [`Answer::Done`], or why the log has failed.
    /// Nothing is counted or listed for it.
    Health,
    /// A list of runs: [`Answer::Runs`].
    Runs(RunQuery),
    /// The run with this UUID, beginning of a UUID, or id: [`Answer::Found`].
    Find {
        /// Its name.
        name: String,
    },
    /// One run: [`Answer::Shown`].
    Show {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
    },
    /// The last durable record of a run: [`Answer::Recorded`]. The records up to there reach the
    /// run's file soon.
    Recorded {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
    },
    /// Starts a run, or finds the one with this id: [`Answer::Run`].
    Submit {
        /// The function's name.
        function: String,
        /// The id of the run.
        id: String,
        /// The input of the function.
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
        /// The name under which the message is received.
        name: String,
        /// The message.
        message: Box<RawValue>,
    },
    /// Settles an external promise: [`Answer::Settled`].
    Settle {
        /// The run that the promise belongs to, if forks have the promise too.
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
    /// Releases a run that is held, so that it continues.
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
    /// Asks a run a question: [`Answer::Value`].
    Question {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// The question's name.
        name: String,
        /// The input of the question.
        input: Box<RawValue>,
    },
    /// Forks a run: [`Answer::Forked`].
    Fork {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
        /// The record up to which the two runs are the same.
        at: u64,
        /// How the fork differs.
        fork: Fork,
    },
    /// Allows a fork to do steps with these names.
    Allow {
        /// The fork.
        #[serde(with = "text")]
        run: Uuid,
        /// The names; `*` for all.
        names: BTreeSet<String>,
    },
    /// Removes finished runs: [`Answer::Each`].
    Remove {
        /// The runs.
        #[serde(with = "texts")]
        runs: Vec<Uuid>,
    },
    /// Removes a damaged run, whether it is finished or not: [`Answer::Lost`].
    RemoveDamaged {
        /// The run.
        #[serde(with = "text")]
        run: Uuid,
    },
    /// Compacts finished runs to these remains: [`Answer::Each`]. The runtime's `Keeper` makes it.
    #[doc(hidden)]
    Compact { remains: Vec<Remains> },
    /// Removes unreferenced blobs: [`Answer::Collection`].
    Collect {
        /// The number of a collection, to ask for its result.
        number: Option<u64>,
    },
    /// Turns the connection into a stream of events. The socket answers this itself.
    Events(Wanted),
    /// The metrics of the runtime: [`Answer::Metrics`].
    Metrics,
    /// The last turns that kept the loop busy for long: [`Answer::LongTurns`].
    LongTurns,
    /// The steps in doubt: [`Answer::Doubts`].
    Doubts,
    /// Decides the outcome of a step in doubt.
    Decide {
        /// Its key.
        key: String,
        /// The decision.
        decision: Decision,
    },
    /// The questions that wait for a person: [`Answer::Approvals`].
    Approvals,
    /// Decides a question: [`Answer::Approval`].
    Resolve {
        /// Its id.
        approval: String,
        /// The answer, and the person who decides.
        ruling: Ruling,
    },
    /// A request whose values were encoded by the codec of the language of the runs. In other
    /// requests, values are plain JSON.
    #[doc(hidden)]
    Encoded(Box<Request>),
}

impl Request {
    /// Adds the user who sent the request, as the system reports it.
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

    /// Returns the request with its values in the form of the log. Fails if a name cannot be shown
    /// to people, or if a value could not be read later: plain JSON by any program, encoded values
    /// by `codec`.
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

    /// Fails if the request has a name that cannot be shown to people or used in a URL.
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

    /// Returns the request with converted values and errors.
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

    /// Returns whether the request contains a value of the user.
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

    /// Returns whether the request changes nothing, so that it can be answered when the log has
    /// failed.
    pub fn only_looks(&self) -> bool {
        self.changes().is_none()
    }
}

impl Request {
    /// Returns the kind of change that the request makes, in a word, and its target; `None` if it
    /// changes nothing.
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
            // A blob that no run references is not missed.
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
    /// Returns whether its answer depends on the log.
    pub fn looks_at_log(&self) -> bool {
        use Request::{Approvals, Doubts, Find, Recorded, Runs, Show};
        matches!(self, Runs(_) | Find { .. } | Show { .. } | Recorded { .. } | Doubts | Approvals)
    }
}

/// Makes the error for a request that was encoded although it has no value, or twice.
pub fn not_encodable() -> TaskError {
    let message = "only a request that carries a value can be encoded, and only once";
    TaskError::new(ErrorKind::BadArgument, message)
}

/// The answer to a request that was not refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The request was carried out.
    Done,
    /// The status of the runtime.
    Status(Status),
    /// Runs, in the requested order.
    Runs(RunPage),
    /// The run with this name.
    Found(#[serde(with = "text")] Uuid),
    /// One run.
    Shown(Box<RunDetail>),
    /// The last record of a run.
    Recorded {
        /// The generation of the record.
        generation: u32,
        /// Its number; 0 if that is not known, because the log cannot be read or has failed.
        seq: u64,
    },
    /// The run that was started, and whether it is new.
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
    /// The result of settling a promise.
    Settled(Settlement),
    /// The answer of a run.
    Value(Box<RawValue>),
    /// Events follow.
    Streaming(Beginning),
    /// Steps in doubt.
    Doubts(Vec<Doubt>),
    /// Questions that wait for a person.
    Approvals(Vec<OpenApproval>),
    /// The decision, as it is recorded.
    Approval(Approval),
    /// The metrics.
    Metrics(Snapshot),
    /// Turns that kept the loop busy for long, oldest first.
    LongTurns(Vec<LongTurn>),
    /// The result for each run of the request, in its order.
    Each(Vec<Result<(), TaskError>>),
    /// What is lost with a damaged run.
    Lost(Lost),
    /// The number of a collection, and its result if it has finished.
    Collection(u64, Option<Collected>),
    /// The request was carried out, with a warning. `Control` returns the answer, and passes the
    /// warning to its `on_warning`.
    Warned {
        /// The answer.
        answer: Box<Answer>,
        /// The text of the warning.
        warning: String,
    },
}

/// The outcome of a request.
pub type Outcome = Result<Answer, TaskError>;

/// The result of settling an external promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// It was the first answer, which counts.
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

/// The status of a runtime that has a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The process that owns the directory.
    pub pid: u32,
    /// The version of Tiffany it was built with.
    pub version: String,
    /// The registered functions; none if no process owns the directory.
    pub functions: Vec<Function>,
    /// Its network address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The number of live runs.
    pub live: usize,
    /// Runs that cannot continue, and why.
    pub paused: Vec<Paused>,
    /// Why the log cannot be written any more, if it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<TaskError>,
}

/// A function that runs can be started from, with its description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The language of its code: `rust`, `python`.
    pub language: String,
    /// Its input in the notation of its language: the type of the value in Rust, the parameters in
    /// Python.
    pub takes: Option<String>,
    /// The JSON Schema of the input, if there is one.
    pub input: Option<serde_json::Value>,
    /// Its documentation.
    pub doc: Option<String>,
}

impl Function {
    /// Makes a function of which only the name is known.
    pub fn new(name: &str, language: &str) -> Function {
        let (name, language) = (name.to_owned(), language.to_owned());
        Function { name, language, takes: None, input: None, doc: None }
    }
}

/// A run that cannot continue with the program that owns the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paused {
    /// The run.
    #[serde(with = "text")]
    pub run: Uuid,
    /// Why it cannot continue.
    pub error: TaskError,
}

/// A step that must not be done twice and was interrupted: only a person can find out whether it
/// happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// The key that its work was given, with which it is decided.
    pub key: String,
    /// Its run.
    #[serde(with = "text")]
    pub run: Uuid,
    /// The name of the step.
    pub step: String,
    /// The attempt that was interrupted.
    pub attempt: u64,
    /// Whether its task waits for a decision. If not, the run is not running, and its task will get
    /// the error [`InDoubt`](tiffany_kernel::ErrorKind::InDoubt) when it continues.
    pub waits: bool,
}

/// A person's decision about a step in doubt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The step happened, with this result.
    Done(Box<RawValue>),
    /// The step failed: its task gets an error with this message.
    Failed(String),
    /// The step did not happen, and is repeated.
    Again,
}

impl Decision {
    /// Decides that the step happened, with this result.
    pub fn done(value: &impl Serialize) -> Result<Decision, TaskError> {
        raw(value).map(Decision::Done)
    }

    /// Decides that the step happened, with this result as JSON.
    pub fn done_json(json: &str) -> Result<Decision, TaskError> {
        let value = serde_json::from_str(json);
        value.map(Decision::Done).map_err(|error| {
            TaskError::new(ErrorKind::Unreadable, format!("this is not JSON: {error}"))
        })
    }
}

impl Decision {
    /// Returns the answer that its task gets.
    pub fn result(&self) -> Result<Value, TaskError> {
        match self {
            Decision::Done(value) => Ok(Value::new(Json::new(compact(value.get())))),
            Decision::Failed(message) => Err(TaskError::failed(message.clone())),
            Decision::Again => Ok(Value::Unit),
        }
    }

    /// Returns the word for it in the log.
    pub fn word(&self) -> &'static str {
        match self {
            Decision::Done(_) => "done",
            Decision::Failed(_) => "failed",
            Decision::Again => "again",
        }
    }
}

/// Parses the key of a step into its run and call.
pub fn parse_key(key: &str) -> Result<Key, TaskError> {
    Key::parse(key).ok_or_else(|| not_in_doubt(key))
}
