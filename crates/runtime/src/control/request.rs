//! What can be asked of the runtime that has a log, and what it answers. The same in this process, through the
//! socket and on a directory that nobody has.

use std::collections::BTreeSet;
use std::sync::mpsc::SyncSender;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::{TaskError, Uuid, Value};

use crate::durable::{Fork, Json, compact};
use crate::inbox::Settlement;
use crate::retention::Remains;
use crate::wal::Collected;

/// Something that is asked of a runtime.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Status,
    Submit {
        function: String,
        id: String,
        input: Box<RawValue>,
    },
    Send {
        #[serde(with = "text")]
        run: Uuid,
        name: String,
        message: Box<RawValue>,
    },
    Settle {
        /// The run whose promise is meant, if it is to be that of a fork.
        #[serde(default, with = "maybe_text", skip_serializing_if = "Option::is_none")]
        run: Option<Uuid>,
        #[serde(with = "text")]
        promise: Uuid,
        result: Result<Box<RawValue>, TaskError>,
    },
    Cancel {
        #[serde(with = "text")]
        run: Uuid,
    },
    Question {
        #[serde(with = "text")]
        run: Uuid,
        name: String,
        input: Box<RawValue>,
    },
    Fork {
        #[serde(with = "text")]
        run: Uuid,
        at: u64,
        fork: Fork,
    },
    Allow {
        #[serde(with = "text")]
        run: Uuid,
        names: BTreeSet<String>,
    },
    /// Runs that are over go.
    Remove {
        #[serde(with = "texts")]
        runs: Vec<Uuid>,
    },
    /// Of runs that are over this is to be left.
    Compact {
        remains: Vec<Remains>,
    },
    /// Blobs that nobody names go. With a number: what came of that?
    Collect {
        number: Option<u64>,
    },
    Doubts,
    Decide {
        key: String,
        decision: Decision,
    },
}

/// What comes of a request that was not refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    Status(Status),
    Run(#[serde(with = "text")] Uuid),
    Forked {
        #[serde(with = "text")]
        run: Uuid,
        id: String,
    },
    Settled(Settlement),
    Value(Box<RawValue>),
    Doubts(Vec<Doubt>),
    /// For each run that was named, in that order.
    Each(Vec<Result<(), TaskError>>),
    /// The number of a collection, and what came of it if it is over.
    Collection(u64, Option<Collected>),
}

/// Who wants to know. It is told when the answer is safe.
pub(crate) type Tell = SyncSender<Result<Answer, TaskError>>;

/// How a runtime that has a log stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The process that has the directory.
    pub pid: u32,
    /// The version of Tiffany it was built with.
    pub version: String,
    /// The functions it has registered; none if nobody has the directory.
    pub functions: Vec<String>,
    /// How many runs go on in it.
    pub live: usize,
    /// Runs that cannot go on, and why.
    pub paused: Vec<Paused>,
}

/// A run that cannot go on with the program that has the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Paused {
    /// The run.
    #[serde(with = "text")]
    pub run: Uuid,
    /// Why it cannot go on.
    pub error: TaskError,
}

/// A step that must not be done twice and was cut off: nobody but a person can know whether it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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
    /// What its task is given.
    pub(crate) fn result(&self) -> Result<Value, TaskError> {
        match self {
            Decision::Done(value) => Ok(Value::new(Json::new(compact(value.get())))),
            Decision::Failed(message) => Err(TaskError::failed(message.clone())),
            Decision::Again => Ok(Value::Unit),
        }
    }

    /// What the log calls it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Decision::Done(_) => "done",
            Decision::Failed(_) => "failed",
            Decision::Again => "again",
        }
    }
}

/// Several identities as texts.
mod texts {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tiffany_kernel::Uuid;

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super::text")] Uuid);

    pub(super) fn serialize<S: Serializer>(uuids: &[Uuid], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(uuids.iter().map(|uuid| Text(*uuid)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Uuid>, D::Error> {
        let texts = Vec::<Text>::deserialize(from)?;
        Ok(texts.into_iter().map(|Text(uuid)| uuid).collect())
    }
}

/// Identities as text, as people know them.
pub(crate) mod text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use tiffany_kernel::Uuid;

    pub(crate) fn serialize<S: Serializer>(uuid: &Uuid, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(uuid)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
        let text = String::deserialize(from)?;
        Uuid::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is no UUID")))
    }
}

/// The same where there may be none.
mod maybe_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tiffany_kernel::Uuid;

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super::text")] Uuid);

    pub(super) fn serialize<S: Serializer>(uuid: &Option<Uuid>, to: S) -> Result<S::Ok, S::Error> {
        uuid.map(Text).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Uuid>, D::Error> {
        Ok(Option::<Text>::deserialize(from)?.map(|Text(uuid)| uuid))
    }
}
