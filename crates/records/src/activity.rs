//! One thing that happened, as those who watch are told it, and its form in JSON. It knows nothing of rings or readers.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tiffany_kernel::{BlockReason, LogLevel, RunId, Site, Stage, Tid, Time, Uuid};

use crate::moment;
use crate::redact::{PLACEHOLDER, Redactions};

/// One event of the activity log: a line that lives as long as the process remembers it.
///
/// As JSON it is one object: `seq`, `ts` (RFC 3339), `task_id`, `tid`, `stage`, `message`, `ghost`, and `cut` and `data` where there is
/// something to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// Its number in its hub. They are dense: who sees them all misses none.
    pub seq: u64,
    /// When it was told; of a ghost, when it happened.
    #[serde(with = "moment")]
    pub ts: Time,
    /// The run.
    pub task_id: TaskId,
    /// The task; `None` where it is about the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<Tid>,
    /// What it is at.
    pub stage: Stage,
    /// In words; it may be empty.
    pub message: Cow<'static, str>,
    /// It happened before, and happens again because the run is brought back or replayed.
    pub ghost: bool,
    /// How many bytes the message had before it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<u64>,
    /// What belongs to the stage.
    #[serde(default, skip_serializing_if = "Data::is_none")]
    pub data: Data,
}

/// A run as events name it: a durable one by its UUID, another by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskId {
    /// A durable run.
    Durable(Uuid),
    /// A run in memory.
    Ephemeral(RunId),
}

/// What belongs to a stage. Read from JSON it is [`Other`](Data::Other).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Data {
    /// Nothing.
    #[default]
    None,
    /// Of `ReceivedInstruction`.
    Instruction {
        /// The id the run was started under.
        id: Box<str>,
        /// The function it runs.
        function: Box<str>,
    },
    /// Of `Spawned`.
    Spawned {
        /// Who spawned it; nobody did the root.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<Tid>,
        /// Its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<Box<str>>,
        /// The line that spawned it.
        #[serde(serialize_with = "as_text")]
        at: Site,
    },
    /// Of `Blocked`.
    Blocked {
        /// What it waits for.
        #[serde(serialize_with = "as_text")]
        reason: BlockReason,
    },
    /// Of `Progress`.
    Progress {
        /// What is done.
        done: u64,
        /// What there is to do.
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        /// The step it comes from, if it is one's.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'static str>,
    },
    /// Of `Log`.
    Log {
        /// How much it matters.
        level: LogLevel,
        /// The step it comes from, if it is one's.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'static str>,
    },
    /// Of `Output`.
    Output {
        /// Which stream it belongs to.
        stream: Cow<'static, str>,
        /// The step it comes from, if it is one's.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'static str>,
    },
    /// Of `ToolExecutionStart` and `ToolExecutionComplete`.
    Step(Box<StepData>),
    /// Of `Failed` and `Cancelled`.
    Error {
        /// The code of the error.
        code: Cow<'static, str>,
    },
    /// Anything else, as JSON.
    Other(serde_json::Value),
}

/// What is told of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepData {
    /// Its name.
    pub step: &'static str,
    /// Its key.
    pub key: Box<str>,
    /// The number of the attempt.
    pub attempt: u64,
    /// The code of the error, if the attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'static, str>>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none", with = "moment::maybe")]
    pub retry_at: Option<Time>,
}

impl StepData {
    /// An attempt at a step, of which no more is known.
    pub fn new(step: &'static str, key: &str, attempt: u64) -> Box<StepData> {
        Box::new(StepData { step, key: key.into(), attempt, code: None, retry_at: None })
    }
}

impl Data {
    /// Whether there is nothing to say.
    pub fn is_none(&self) -> bool {
        matches!(self, Data::None)
    }

    /// The same as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Takes secrets out of it. What a run is called, and its function, has none.
    pub fn redact(&mut self, rules: &Redactions) {
        match self {
            Data::None
            | Data::Instruction { .. }
            | Data::Spawned { name: None, .. }
            | Data::Blocked { .. }
            | Data::Error { .. } => {}
            Data::Spawned { name: Some(name), .. } => {
                if let Cow::Owned(cleaned) = rules.text(name) {
                    *name = cleaned.into();
                }
            }
            Data::Progress { step, .. } | Data::Log { step, .. } => redact_step(step, rules),
            Data::Output { stream, step } => {
                if let Cow::Owned(cleaned) = rules.text(stream) {
                    *stream = cleaned.into();
                }
                redact_step(step, rules);
            }
            Data::Step(data) => {
                let mut step = Some(data.step);
                redact_step(&mut step, rules);
                data.step = step.unwrap_or_default();
            }
            Data::Other(json) => {
                if let Cow::Owned(cleaned) = rules.json(&json.to_string()) {
                    *json = serde_json::from_str(&cleaned).unwrap_or_default();
                }
            }
        }
    }

    /// About how many bytes it has besides its own.
    pub fn bytes(&self) -> usize {
        match self {
            Data::Instruction { id, function } => id.len() + function.len(),
            Data::Spawned { name, at, .. } => {
                name.as_ref().map_or(0, |name| name.len()) + at.file.len()
            }
            Data::Output { stream, .. } => stream.len(),
            Data::Step(step) => size_of::<StepData>() + step.key.len(),
            Data::Other(json) => json.to_string().len(),
            _ => 0,
        }
    }
}

/// The name of a step is the program's own, and so is taken out as a whole.
fn redact_step(step: &mut Option<&'static str>, rules: &Redactions) {
    if step.is_some_and(|step| rules.take_from(step)) {
        *step = Some(PLACEHOLDER);
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Data, D::Error> {
        serde_json::Value::deserialize(from).map(Data::Other)
    }
}

impl Activity {
    /// Whether it reports how its run ended.
    pub fn is_end_of_run(&self) -> bool {
        self.tid.is_none()
            && matches!(self.stage, Stage::Completed | Stage::Failed | Stage::Cancelled)
    }

    /// About how many bytes it has.
    pub fn bytes(&self) -> usize {
        size_of::<Activity>() + 16 + self.message.len() + self.data.bytes()
    }
}

impl From<Uuid> for TaskId {
    fn from(uuid: Uuid) -> TaskId {
        TaskId::Durable(uuid)
    }
}

impl From<RunId> for TaskId {
    fn from(run: RunId) -> TaskId {
        TaskId::Ephemeral(run)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskId::Durable(uuid) => write!(f, "{uuid}"),
            TaskId::Ephemeral(run) => write!(f, "{}", run.0),
        }
    }
}

/// Reads a UUID, or the number of a run in memory.
impl FromStr for TaskId {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskId, String> {
        let number = || text.parse().ok().map(|number| TaskId::Ephemeral(RunId(number)));
        let uuid = Uuid::parse(text).map(TaskId::Durable);
        uuid.or_else(number)
            .ok_or_else(|| format!("`{text}` is no run: neither a UUID nor a number"))
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<TaskId, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

fn as_text<S: Serializer>(value: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Which events somebody wants.
///
/// ```
/// use tiffany_records::activity::{Detail, Wanted};
///
/// let wanted = Wanted::new().from(1).detail(Detail::All).ghosts(false);
/// # let _ = wanted;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Wanted {
    /// Of this run alone; `None`: of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<TaskId>,
    /// From this number on, as far as it is still known; `None`: only what comes from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// How much of what happens.
    pub detail: Detail,
    /// Whether what happens again because a run is brought back or replayed is wanted too.
    pub ghosts: bool,
    /// Only the events that report how a run ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

/// How much of what happens somebody wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// All but who has the turn: everything but `Running`, `Blocked` and `Woken`.
    #[default]
    Notable,
    /// Every turn too. Runs that are watched like this are a little slower.
    All,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted::new()
    }
}

impl Wanted {
    /// The notable events of all runs, ghosts included, from now on.
    pub fn new() -> Wanted {
        Wanted { run: None, from: None, detail: Detail::Notable, ghosts: true, ends: false }
    }

    /// Those of this run alone.
    pub fn run(mut self, run: impl Into<TaskId>) -> Wanted {
        self.run = Some(run.into());
        self
    }

    /// From this number on, as far as they are still known.
    pub fn from(mut self, seq: u64) -> Wanted {
        self.from = Some(seq);
        self
    }

    /// How much of what happens.
    pub fn detail(mut self, detail: Detail) -> Wanted {
        self.detail = detail;
        self
    }

    /// Whether what happens again is wanted too.
    pub fn ghosts(mut self, ghosts: bool) -> Wanted {
        self.ghosts = ghosts;
        self
    }

    /// Only the events that report how a run ended, for clients that wait for many runs.
    pub fn only_ends(mut self) -> Wanted {
        self.ends = true;
        self
    }

    /// Whether a notable event is one of those that are wanted.
    pub fn takes(&self, event: &Activity) -> bool {
        (self.ghosts || !event.ghost) && (!self.ends || event.is_end_of_run())
    }
}

/// Where a stream begins: which hub it is, and the number of its next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// The hub's epoch, which another process doesn't have.
    pub epoch: u64,
    /// The number that its next event will have.
    pub next_seq: u64,
}
