//! Interprets records that can mean one of several things.

use std::borrow::Cow;

use tiffany_kernel::{Attributes, CallKind};

use crate::attributes::of_record;
use crate::record;
use crate::record::field::{Inline, Json, Text, Value};
use crate::record::{
    ApprovalDecided, EffectAllowed, EffectCheckpoint, EffectResult, Forked, Message,
    PromiseSettled, Record, RunStart, TaskExit, TaskWake, TaskYield,
};

/// The reason why a task or a run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The call of this record is answered.
    Call(u64),
    /// The run was cancelled; if by force, all tasks ended at once.
    Cancel {
        /// Whether it was cancelled by force.
        force: bool,
    },
    /// The task exceeded its time for cleanup.
    CutShort,
    /// The run exceeded its time limit.
    OverTime,
    /// The run's deadline passed.
    Deadline,
    /// A reason that this version does not know.
    Unknown,
}

impl TaskWake<'_> {
    /// Returns the reason why the task or the run continues.
    pub fn wake(&self) -> Wake {
        match self.why.map(|why| why.get()).as_deref() {
            None => Wake::Call(self.of.unwrap_or(0)),
            Some("cancel") => Wake::Cancel { force: self.force.0 },
            Some("cut_short") => Wake::CutShort,
            Some("over_time") => Wake::OverTime,
            Some("deadline") => Wake::Deadline,
            Some(_) => Wake::Unknown,
        }
    }
}

/// The outcome of an attempt at a step.
#[derive(Clone, Copy, Debug)]
pub enum EffectEnd<'a> {
    /// The step is finished.
    Over(Ended<'a>),
    /// The attempt failed, and the next one is due at this time.
    Retry(Text<'a>),
    /// The step is repeated at once: the attempt never began, or a person decided that it had no
    /// effect.
    Again,
}

/// What all annotations have.
#[derive(Clone, Copy, Debug)]
pub struct Annotated<'a> {
    /// The type of the record.
    pub kind: &'static str,
    /// The record of the call that it is about.
    pub of: Option<u64>,
    /// The generation of that record, if it is another one.
    pub of_gen: Option<u64>,
    /// The record of the instruction that the task follows.
    pub instruction: Option<u64>,
    /// What it says.
    pub value: Option<Value<'a>>,
    /// The line of code.
    pub at: Option<Text<'a>>,
}

/// The final result: a value or an error.
#[derive(Clone, Copy, Debug)]
pub enum Ended<'a> {
    /// A value; none means `null`.
    Value(Option<Value<'a>>),
    /// An error.
    Error(Value<'a>),
}

impl<'a> Ended<'a> {
    /// Makes the result from the `value` and `error` fields of a record.
    pub fn of(value: Option<Value<'a>>, error: Option<Value<'a>>) -> Ended<'a> {
        match error {
            Some(error) => Ended::Error(error),
            None => Ended::Value(value),
        }
    }
}

impl<'a> EffectResult<'a> {
    /// Returns the outcome of the attempt.
    pub fn end(&self) -> EffectEnd<'a> {
        match (self.retry_at, self.decided) {
            (_, Some(decided)) if decided == *"again" => EffectEnd::Again,
            (Some(at), _) => EffectEnd::Retry(at),
            _ => EffectEnd::Over(Ended::of(self.value, self.error)),
        }
    }
}

impl record::Attributes<'_> {
    /// The tags and attributes.
    pub fn read_all(&self) -> Attributes {
        let json = |field: Option<Inline<'_>>| field.map(|Inline(json)| json.to_owned());
        of_record(json(self.tags).as_deref(), json(self.attributes).as_deref())
    }
}

impl RunStart<'_> {
    /// The version of its line. An older program would start the run again without its deadline, or in another
    /// namespace, so it must not read this.
    pub fn version(&self) -> u64 {
        match (self.namespace, self.deadline) {
            (None, None) => 1,
            _ => 2,
        }
    }

    /// The tags and attributes that the run begins with.
    pub fn attributes_at_start(&self) -> Attributes {
        let json = |field: Option<Inline<'_>>| field.map(|Inline(json)| json.to_owned());
        of_record(json(self.tags).as_deref(), json(self.attributes).as_deref())
    }
}

impl TaskYield<'_> {
    /// Returns the tag of the call.
    pub fn tag(&self) -> Cow<'_, str> {
        self.call.map(|call| call.get()).unwrap_or_default()
    }

    /// Returns the kind of the call, if this version knows it.
    pub fn kind(&self) -> Option<CallKind> {
        CallKind::parse(&self.tag())
    }
}

impl EffectAllowed<'_> {
    /// Returns the names of the steps that are allowed.
    pub fn names(&self) -> Vec<String> {
        names(self.allow)
    }
}

impl Forked<'_> {
    /// Returns the names of the steps that are allowed.
    pub fn names(&self) -> Vec<String> {
        names(self.allow)
    }
}

fn names(allow: Option<Json<'_>>) -> Vec<String> {
    allow.and_then(|Json(json)| serde_json::from_str(json).ok()).unwrap_or_default()
}

impl<'a> Record<'a> {
    /// Returns whether it is the end of a task.
    pub fn is_end(&self) -> bool {
        matches!(self, Record::TaskExit(_) | Record::TaskAbort(_) | Record::TaskCancel(_))
    }

    /// Returns whether a fork took this answer from the run it was forked from.
    pub fn is_inherited(&self) -> bool {
        let from = match self {
            Record::EffectResult(result) => result.from,
            _ => None,
        };
        from.is_some_and(|from| from == *"parent")
    }

    /// Returns the record of the call or step that it is about.
    pub fn of(&self) -> Option<u64> {
        match self {
            Record::TaskWake(wake) => wake.of,
            Record::EffectStart(start) => start.of,
            Record::EffectCheckpoint(kept) => kept.of,
            Record::EffectResult(result) => result.of,
            Record::ApprovalDecided(decided) => decided.of,
            Record::ApprovalWithdrawn(withdrawn) => withdrawn.of,
            Record::EffectRefused(refused) => refused.of,
            _ => None,
        }
    }

    /// Returns its error: of a task, a step or a promise, or the code of a refused call.
    pub fn error(&self) -> Option<&'a str> {
        let code = |error: Option<Text<'a>>| match error? {
            Text::Json(code) | Text::Plain(code) | Text::Safe(code) => Some(code),
        };
        match self {
            Record::TaskSpawn(spawn) => code(spawn.error),
            Record::TaskYield(call) => code(call.error),
            Record::TaskAbort(end) => end.error.map(|error| error.json()),
            Record::TaskCancel(end) => end.error.map(|error| error.json()),
            Record::EffectResult(EffectResult { error, .. })
            | Record::ApprovalDecided(ApprovalDecided { error, .. })
            | Record::PromiseSettled(PromiseSettled { error, .. }) => {
                error.map(|error| error.json())
            }
            _ => None,
        }
    }

    /// Returns its value: of a task, a step, a question, a promise or a message.
    pub fn value(&self) -> Option<Value<'a>> {
        match self {
            Record::TaskExit(TaskExit { value })
            | Record::EffectCheckpoint(EffectCheckpoint { value, .. })
            | Record::EffectResult(EffectResult { value, .. })
            | Record::ApprovalDecided(ApprovalDecided { value, .. })
            | Record::PromiseSettled(PromiseSettled { value, .. })
            | Record::Message(Message { value, .. }) => *value,
            _ => None,
        }
    }

    /// Its annotation, if it is one.
    pub fn annotation(&self) -> Option<Annotated<'a>> {
        macro_rules! annotated {
            ($($name:ident),+) => {
                match self {
                    $(Record::$name(it) => Some(Annotated {
                        kind: stringify!($name),
                        of: it.of,
                        of_gen: it.of_gen,
                        instruction: it.instruction,
                        value: it.value,
                        at: it.at,
                    }),)+
                    _ => None,
                }
            };
        }
        annotated!(
            InstructionStart,
            LLMPlan,
            StepStart,
            ToolResult,
            PatchPreview,
            Commit,
            TaskComplete
        )
    }

    /// Returns when and by whom a fork was given another answer than its parent, if it was.
    pub fn change(&self) -> Option<(Option<Text<'a>>, Option<Text<'a>>)> {
        let (set, ts, by) = match self {
            Record::EffectResult(EffectResult { set, set_ts, set_by, .. })
            | Record::ApprovalDecided(ApprovalDecided { set, set_ts, set_by, .. })
            | Record::PromiseSettled(PromiseSettled { set, set_ts, set_by, .. })
            | Record::Message(Message { set, set_ts, set_by, .. }) => (set, set_ts, set_by),
            _ => return None,
        };
        set.0.then_some((*ts, *by))
    }
}
