//! The tables of a run in the record `Snapshot`: written as JSON, and read again. It knows no run
//! and no log.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::{
    EndedTask, HeldPromise, LiveTask, Tables, TaskError, TaskState, Tid, Time, Uuid, Value,
};

use crate::run_log::replay::decoded_log::Begun;
use tiffany_log::Stamp;
use tiffany_records::value::Json;

/// All tables.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    steps: u64,
    /// As text, because some readers of JSON don't keep 64 bits.
    random: String,
    next_tid: u64,
    next_object: u64,
    ends: u64,
    pub(crate) calls: u64,
    cost: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    patches: BTreeMap<String, bool>,
    pub(crate) tasks: Vec<Live>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<Ended>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    promises: Vec<Promise>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unobserved: Vec<TaskError>,
}

/// A waiting task.
#[derive(Serialize, Deserialize)]
pub(crate) struct Live {
    tid: u64,
    pub(crate) agent: String,
    pub(crate) state: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "is_none")]
    priority: u8,
    held: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    store: BTreeMap<String, Plain>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log: Vec<Plain>,
    #[serde(default)]
    log_base: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    daemon: bool,
    /// The state of the step that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<Attempts>,
}

#[derive(Serialize, Deserialize)]
struct Attempts {
    attempt: u64,
    open: bool,
    #[serde(default)]
    cut_off: bool,
    failures: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Box<RawValue>>,
}

/// A finished task.
#[derive(Serialize, Deserialize)]
struct Ended {
    tid: u64,
    state: End,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Plain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
    order: u64,
    observed: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Completed,
    Failed,
    Cancelled,
}

/// An external promise.
#[derive(Serialize, Deserialize)]
struct Promise {
    id: u64,
    uuid: String,
    held: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Plain>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
    /// Its place in the order of all ends, if it is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<u64>,
}

/// A value in the form of the log.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Plain {
    Unit,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
    Json(Box<RawValue>),
}

impl Snapshot {
    /// The text of these tables, with the state of the steps of the live tasks. The error names
    /// what cannot be saved.
    pub(crate) fn text(
        tables: Tables,
        steps: impl Fn(usize) -> Option<Begun>,
    ) -> Result<String, String> {
        let live = tables.tasks.into_iter().enumerate();
        let snapshot = Snapshot {
            steps: tables.steps,
            random: tables.random.to_string(),
            next_tid: tables.next_tid,
            next_object: tables.next_object,
            ends: tables.ends,
            calls: tables.calls,
            cost: tables.cost,
            patches: tables.patches.iter().map(|(id, way)| (id.to_string(), *way)).collect(),
            tasks: live.map(|(at, task)| Live::write(task, steps(at))).collect::<Result<_, _>>()?,
            ended: tables.ended.into_iter().map(Ended::write).collect::<Result<_, _>>()?,
            promises: tables.promises.into_iter().map(Promise::write).collect::<Result<_, _>>()?,
            unobserved: tables.unobserved,
        };
        serde_json::to_string(&snapshot).map_err(|error| error.to_string())
    }

    /// The tables of this text.
    pub(crate) fn tables(&self) -> Option<Tables> {
        if !self.tasks.iter().any(|task| task.tid == 1) {
            return None;
        }
        Some(Tables {
            steps: self.steps,
            random: self.random.parse().ok()?,
            next_tid: self.next_tid,
            next_object: self.next_object,
            ends: self.ends,
            calls: self.calls,
            cost: self.cost,
            patches: self.patches.iter().map(|(id, way)| (id.as_str().into(), *way)).collect(),
            tasks: self.tasks.iter().map(Live::read).collect(),
            ended: self.ended.iter().map(Ended::read).collect(),
            promises: self.promises.iter().map(Promise::read).collect::<Option<_>>()?,
            unobserved: self.unobserved.clone(),
        })
    }

    /// The state of the steps that its tasks wait for.
    pub(crate) fn begun(&self) -> BTreeMap<Tid, Begun> {
        let begun = |task: &Live| Some((Tid(task.tid), task.step.as_ref()?.read()));
        self.tasks.iter().filter_map(begun).collect()
    }

    /// Its promises, and whether they are settled.
    pub(crate) fn promises(&self) -> impl Iterator<Item = (Uuid, bool)> + '_ {
        let promise =
            |promise: &Promise| Some((Uuid::parse(&promise.uuid)?, promise.order.is_some()));
        self.promises.iter().filter_map(promise)
    }
}

impl Live {
    fn write(task: LiveTask, begun: Option<Begun>) -> Result<Live, String> {
        let store =
            task.store.iter().map(|(key, value)| Ok((key.to_string(), Plain::write(value)?)));
        let step = begun.filter(|begun| begun.attempt > 0 || begun.checkpoint.is_some());
        Ok(Live {
            tid: task.tid.0,
            agent: task.agent.to_string(),
            state: RawValue::from_string(task.state).map_err(|error| error.to_string())?,
            name: task.name.map(|name| name.to_string()),
            priority: task.priority,
            held: task.is_held,
            store: store.collect::<Result<_, String>>()?,
            log: task.log.iter().map(Plain::write).collect::<Result<_, _>>()?,
            log_base: task.log_base,
            until: task.until.map(text),
            daemon: task.daemon,
            step: step.map(Attempts::write),
        })
    }

    fn read(&self) -> LiveTask {
        LiveTask {
            tid: Tid(self.tid),
            agent: self.agent.as_str().into(),
            state: self.state.get().to_owned(),
            name: self.name.as_deref().map(Into::into),
            priority: self.priority,
            is_held: self.held,
            log_base: self.log_base,
            store: self
                .store
                .iter()
                .map(|(key, value)| (Rc::from(key.as_str()), value.read()))
                .collect(),
            log: self.log.iter().map(Plain::read).collect(),
            until: self.until.as_deref().and_then(moment),
            daemon: self.daemon,
        }
    }
}

impl Attempts {
    fn write(begun: Begun) -> Attempts {
        let checkpoint = begun.checkpoint.map(|json| json.to_string());
        Attempts {
            attempt: begun.attempt,
            open: begun.is_open,
            cut_off: begun.cut_off,
            failures: begun.failures,
            retry_at: begun.retry_at.map(text),
            checkpoint: checkpoint.and_then(|json| RawValue::from_string(json).ok()),
        }
    }

    fn read(&self) -> Begun {
        Begun {
            attempt: self.attempt,
            is_open: self.open,
            cut_off: self.cut_off,
            failures: self.failures,
            retry_at: self.retry_at.as_deref().and_then(moment),
            checkpoint: self.checkpoint.as_ref().map(|json| Arc::from(json.get())),
            is_refused: false,
        }
    }
}

impl Ended {
    fn write(task: EndedTask) -> Result<Ended, String> {
        let state = match task.state {
            TaskState::Failed => End::Failed,
            TaskState::Cancelled => End::Cancelled,
            _ => End::Completed,
        };
        let (value, error) = match task.outcome {
            Ok(value) => (value.as_ref().map(Plain::write).transpose()?, None),
            Err(error) => (None, Some(error)),
        };
        let (tid, order, observed) = (task.tid.0, task.ended, task.is_observed);
        Ok(Ended { tid, state, value, error, order, observed })
    }

    fn read(&self) -> EndedTask {
        EndedTask {
            tid: Tid(self.tid),
            state: match self.state {
                End::Completed => TaskState::Completed,
                End::Failed => TaskState::Failed,
                End::Cancelled => TaskState::Cancelled,
            },
            outcome: match &self.error {
                Some(error) => Err(error.clone()),
                None => Ok(self.value.as_ref().map(Plain::read)),
            },
            ended: self.order,
            is_observed: self.observed,
        }
    }
}

impl Promise {
    fn write(promise: HeldPromise) -> Result<Promise, String> {
        let (id, uuid, held) = (promise.id, promise.uuid.to_string(), promise.is_held);
        let (value, error, order) = match promise.settled {
            None => (None, None, None),
            Some((Ok(value), order)) => (Some(Plain::write(&value)?), None, Some(order)),
            Some((Err(error), order)) => (None, Some(error), Some(order)),
        };
        Ok(Promise { id, uuid, held, value, error, order })
    }

    fn read(&self) -> Option<HeldPromise> {
        let result = match (&self.error, &self.value) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(value)) => Ok(value.read()),
            (None, None) => Ok(Value::Unit),
        };
        let settled = self.order.map(|order| (result, order));
        let uuid = Uuid::parse(&self.uuid)?;
        Some(HeldPromise { id: self.id, uuid, settled, is_held: self.held })
    }
}

impl Plain {
    fn write(value: &Value) -> Result<Plain, String> {
        Ok(match value {
            Value::Unit => Plain::Unit,
            Value::Bool(value) => Plain::Bool(*value),
            Value::Int(value) => Plain::Int(*value),
            Value::Uint(value) => Plain::Uint(*value),
            Value::Float(value) if value.is_finite() => Plain::Float(*value),
            Value::Str(value) => Plain::Text(value.to_string()),
            Value::Static(value) => Plain::Text((*value).to_owned()),
            other => {
                let json = other.borrow::<Json>().map(|json| json.0.to_string());
                let json = json.and_then(|json| RawValue::from_string(json).ok());
                Plain::Json(json.ok_or_else(|| {
                    format!("a value of the type `{}` cannot be recorded", other.type_name())
                })?)
            }
        })
    }

    fn read(&self) -> Value {
        match self {
            Plain::Unit => Value::Unit,
            Plain::Bool(value) => Value::Bool(*value),
            Plain::Int(value) => Value::Int(*value),
            Plain::Uint(value) => Value::Uint(*value),
            Plain::Float(value) => Value::Float(*value),
            Plain::Text(value) => Value::Str(value.as_str().into()),
            Plain::Json(json) => Value::new(Json::new(json.get())),
        }
    }
}

fn is_none(priority: &u8) -> bool {
    *priority == 0
}

fn text(time: Time) -> String {
    Stamp::from_unix_nanos(time.as_nanos()).as_str().to_owned()
}

fn moment(text: &str) -> Option<Time> {
    Stamp::parse(text).map(|stamp| Time::from_nanos(stamp.unix_nanos()))
}
