//! The state of a run at a record, in display form.

use std::collections::BTreeMap;

use tiffany_kernel::{Frame, Sight, Site, TaskError, TaskState, Tid, Value};

use crate::program::language::Language;
use tiffany_log::LogLine;
use tiffany_records::value::Json;

/// A run at one of its records.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Moment {
    /// The number of the record.
    pub record: u64,
    /// The record, as the log has it, with its line break.
    pub line: String,
    /// All tasks known at this record, ordered by number.
    pub tasks: Vec<TaskMoment>,
}

/// A task at a moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskMoment {
    /// Its number.
    pub tid: Tid,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The line that spawned it.
    pub spawned_at: Site,
    /// `ready`, `waiting`, `completed`, `failed`, `cancelled`, …
    pub state: &'static str,
    /// What it waits for.
    pub waits_for: Option<String>,
    /// The line of the call it waits in.
    pub waits_at: Option<Site>,
    /// Its store, by key, with formatted values.
    pub store: Vec<(String, String)>,
    /// Its call stack, the innermost function last, if its language has one.
    pub frames: Vec<Frame>,
    /// The error it failed with.
    pub error: Option<TaskError>,
}

impl Moment {
    pub(crate) fn new(
        record: u64,
        line: &str,
        sights: Vec<Sight>,
        mut errors: BTreeMap<Tid, TaskError>,
        language: Option<&dyn Language>,
    ) -> Moment {
        let task = |sight: Sight| {
            let info = sight.info;
            let shown = |(key, value): (std::rc::Rc<str>, Value)| {
                (key.to_string(), shown(&value, language))
            };
            let error = errors.remove(&info.label.tid);
            let frames = match &error {
                Some(error) => frames_of(error, language).unwrap_or(sight.frames),
                None => sight.frames,
            };
            TaskMoment {
                tid: info.label.tid,
                name: info.label.name,
                spawned_at: info.label.spawned_at,
                state: word(info.state),
                waits_for: info.waits_for,
                waits_at: info.waits_at,
                store: sight.store.into_iter().map(shown).collect(),
                frames,
                error,
            }
        };
        let mut tasks: Vec<TaskMoment> = sights.into_iter().map(task).collect();
        // A task that fails here may be forgotten already, if its waiter has received the error.
        let tid = LogLine::of_checked(line).map(|record| record.tid);
        if let Some((tid, error)) = tid.and_then(|tid| errors.remove_entry(&tid)) {
            let place = tasks.partition_point(|task| task.tid < tid);
            tasks.insert(place, TaskMoment::failed(tid, error, language));
        }
        Moment { record, line: line.to_owned(), tasks }
    }

    /// A task of it.
    pub fn task(&self, tid: Tid) -> Option<&TaskMoment> {
        self.tasks.iter().find(|task| task.tid == tid)
    }
}

impl TaskMoment {
    /// A task of which only its error is left.
    fn failed(tid: Tid, error: TaskError, language: Option<&dyn Language>) -> TaskMoment {
        let mut labels = error.task().into_iter().chain(error.through());
        let label = labels.find(|label| label.tid == tid).cloned();
        let nowhere = Site { file: "?".into(), line: 0 };
        TaskMoment {
            tid,
            name: label.as_ref().and_then(|label| label.name.clone()),
            spawned_at: label.map_or(nowhere, |label| label.spawned_at),
            state: word(TaskState::Failed),
            waits_for: None,
            waits_at: None,
            store: Vec::new(),
            frames: frames_of(&error, language).unwrap_or_default(),
            error: Some(error),
        }
    }
}

fn frames_of(error: &TaskError, language: Option<&dyn Language>) -> Option<Vec<Frame>> {
    language.map(|language| language.frames(error))
}

fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Pending => "new",
        TaskState::Running | TaskState::Suspended => "ready",
        TaskState::Blocked(_) => "waiting",
        TaskState::Cancelling => "cancelling",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Cancelled => "cancelled",
    }
}

/// Formats a value for display.
fn shown(value: &Value, language: Option<&dyn Language>) -> String {
    match value {
        Value::Unit => "()".into(),
        Value::Bool(is) => is.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Str(text) => format!("{text:?}"),
        Value::Static(text) => format!("{text:?}"),
        object => match (object.borrow::<Json>(), language.and_then(|l| l.shown(object))) {
            (Some(json), _) => json.0.to_string(),
            (_, Some(text)) => text,
            _ => format!("a {}", object.type_name()),
        },
    }
}
