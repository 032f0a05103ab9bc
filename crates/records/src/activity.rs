//! Events of the activity log and their JSON form. This module knows nothing of ring buffers or
//! readers.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tiffany_kernel::{BlockReason, LogLevel, RunId, Site, Stage, Tid, Time, Uuid};

use crate::moment;
use crate::redact::{PLACEHOLDER, Redactions};

/// One event of the activity log, which is kept only as long as the process remembers it.
///
/// As JSON it is an object with `seq`, `ts` (RFC 3339), `task_id`, `tid`, `stage`, `message`,
/// `ghost`, and `cut` and `data` where they apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// Its number in its hub. Numbers are consecutive, so a reader can tell whether it missed any.
    pub seq: u64,
    /// When it was published; for a ghost, when it originally happened.
    #[serde(with = "moment")]
    pub ts: Time,
    /// The run.
    pub task_id: TaskId,
    /// The task; `None` if the event is about the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<Tid>,
    /// The stage that the task or run has reached.
    pub stage: Stage,
    /// A message for people; it may be empty.
    pub message: Cow<'static, str>,
    /// Whether it happened before, and happens again because the run is resumed or replayed.
    pub ghost: bool,
    /// The length of the message before it was cut, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<u64>,
    /// Data that depends on the stage.
    #[serde(default, skip_serializing_if = "Data::is_none")]
    pub data: Data,
}

/// A run as events name it: by UUID if it is durable, by number otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskId {
    /// A durable run.
    Durable(Uuid),
    /// A run in memory.
    Ephemeral(RunId),
}

/// Data of an event, which depends on its stage. When read from JSON, it is [`Other`](Data::Other).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Data {
    /// No data.
    #[default]
    None,
    /// Data of `ReceivedInstruction`.
    Instruction {
        /// The id that the run was started with.
        id: Box<str>,
        /// The function that it runs.
        function: Box<str>,
    },
    /// Data of `Spawned`.
    Spawned {
        /// The task that spawned it; `None` for the root.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<Tid>,
        /// Its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<Box<str>>,
        /// The line that spawned it.
        #[serde(serialize_with = "as_text")]
        at: Site,
    },
    /// Data of `Blocked`.
    Blocked {
        /// The reason why it waits.
        #[serde(serialize_with = "as_text")]
        reason: BlockReason,
    },
    /// Data of `Progress`.
    Progress {
        /// The amount of work that is done.
        done: u64,
        /// The total amount of work, if known.
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        /// The step that it comes from, if it comes from one.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'static str>,
    },
    /// Data of `Log`.
    Log {
        /// Its level.
        level: LogLevel,
        /// The step that it comes from, if it comes from one.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'static str>,
    },
    /// Data of `Output`.
    Output {
        /// The stream that it was written to.
        stream: Cow<'static, str>,
        /// The step that it comes from, if it comes from one.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<&'static str>,
    },
    /// Data of `ToolExecutionStart` and `ToolExecutionComplete`.
    Step(Box<StepData>),
    /// Data of `Failed` and `Cancelled`.
    Error {
        /// The code of the error.
        code: Cow<'static, str>,
    },
    /// Any other data, as JSON.
    Other(serde_json::Value),
}

/// Data of an attempt at a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepData {
    /// The name of the step.
    pub step: &'static str,
    /// The key of the step.
    pub key: Box<str>,
    /// The number of the attempt.
    pub attempt: u64,
    /// The code of the error, if the attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'static, str>>,
    /// When the next attempt is due, if there will be one.
    #[serde(skip_serializing_if = "Option::is_none", with = "moment::maybe")]
    pub retry_at: Option<Time>,
}

impl StepData {
    /// Makes the data of an attempt whose outcome is not known yet.
    pub fn new(step: &'static str, key: &str, attempt: u64) -> Box<StepData> {
        Box::new(StepData { step, key: key.into(), attempt, code: None, retry_at: None })
    }
}

impl Data {
    /// Returns whether there is no data.
    pub fn is_none(&self) -> bool {
        matches!(self, Data::None)
    }

    /// Returns the data as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Redacts secrets. The id and the function of a run are left alone, because they can't contain
    /// any.
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

    /// Returns the approximate size of its heap memory, in bytes.
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

/// Replaces the name of a step as a whole if the rules find something in it, because it is a static
/// string.
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
    /// Returns whether it reports how its run ended.
    pub fn is_end_of_run(&self) -> bool {
        self.tid.is_none()
            && matches!(self.stage, Stage::Completed | Stage::Failed | Stage::Cancelled)
    }

    /// Returns the approximate size in memory, in bytes.
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

/// Parses a UUID, or the number of a run in memory.
impl FromStr for TaskId {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskId, String> {
        let number = || text.parse().ok().map(|number| TaskId::Ephemeral(RunId(number)));
        let uuid = Uuid::parse(text).map(TaskId::Durable);
        uuid.or_else(number)
            .ok_or_else(|| format!("`{text}` is not a run: it is neither a UUID nor a number"))
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

/// Selects events for a reader.
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
    /// Only events of this run; `None` for all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<TaskId>,
    /// Start at this number, as far as events are still remembered; `None` for new events only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The level of detail.
    pub detail: Detail,
    /// Whether to include events that happen again because a run is resumed or replayed.
    pub ghosts: bool,
    /// Only the events that report how a run ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

/// The level of detail that a reader wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// All events except `Running`, `Blocked` and `Woken`.
    #[default]
    Notable,
    /// All events, including every turn. Runs that are watched at this level are a little slower.
    All,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted::new()
    }
}

impl Wanted {
    /// Selects the notable events of all runs from now on, including ghosts.
    pub fn new() -> Wanted {
        Wanted { run: None, from: None, detail: Detail::Notable, ghosts: true, ends: false }
    }

    /// Selects only events of this run.
    pub fn run(mut self, run: impl Into<TaskId>) -> Wanted {
        self.run = Some(run.into());
        self
    }

    /// Starts at this number, as far as events are still remembered.
    pub fn from(mut self, seq: u64) -> Wanted {
        self.from = Some(seq);
        self
    }

    /// Sets the level of detail.
    pub fn detail(mut self, detail: Detail) -> Wanted {
        self.detail = detail;
        self
    }

    /// Sets whether events that happen again are included.
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

/// The beginning of a stream: its hub, and the number of its next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// The epoch of the hub, which differs between processes.
    pub epoch: u64,
    /// The number of its next event.
    pub next_seq: u64,
}
