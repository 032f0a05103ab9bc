//! The tasks of a run now or at a record, for programs: each with what it waits for and the origin
//! of its error.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use tiffany_kernel::{TaskError, Uuid};

use crate::long_error::shown_error;
use crate::record::Record;
use crate::run_index::Known;
use crate::run_index::lanes::Doing;
use crate::run_index::lines::{Going, Lines, Moved};
use crate::tasks::{Seen, TaskSeen, Tasks, error_text};
use crate::wait_reason::{StepSeen, Target, Waiting};
use tiffany_log::LogError;

/// A query for tasks. All conditions must be met.
#[derive(Clone, Debug, Default)]
pub struct TaskQuery {
    /// The record at which to show the tasks; by default, their current state.
    pub at: Option<u64>,
    /// Only tasks that changed after this record. It applies to the current state, and can't be
    /// combined with `at`.
    pub since: Option<u64>,
    /// Only tasks with a higher number.
    pub after: Option<u64>,
    /// The maximum number of tasks; by default, all.
    pub limit: Option<usize>,
}

/// The tasks of a run at a record.
#[derive(Clone, Debug, Serialize)]
pub struct TasksStanding {
    /// The record.
    pub at: u64,
    /// The time of that record, in microseconds since the first record; only meaningful for the
    /// last one.
    pub now: u64,
    /// The number of the last record.
    pub last: u64,
    /// When the run started, as RFC 3339. All other times count from it.
    pub started: String,
    /// The generation of the run, from 1.
    pub generation: u32,
    /// Whether the run was finished.
    pub is_over: bool,
    /// The number of all tasks, whether they are in the list or not.
    pub total: u64,
    /// The tasks in the order of their numbers.
    pub tasks: Vec<TaskStanding>,
    /// The value of `after` for the next page; `None` if there are no more tasks.
    pub next: Option<u64>,
    /// The error, if there are records that could not be read.
    pub unread: Option<String>,
}

/// A task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskStanding {
    /// Its number.
    pub tid: u64,
    /// The task that spawned it; `None` for the root.
    pub parent: Option<u64>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its state: new, ready, waiting, completed, failed or cancelled.
    pub state: &'static str,
    /// When it began, in microseconds since the first record.
    pub begin: u64,
    /// When it ended, in microseconds since the first record.
    pub end: Option<u64>,
    /// The source line that spawned it.
    pub spawned_at: Option<String>,
    /// The calls that it waits in.
    pub waits: Vec<WaitStanding>,
    /// The error, if it failed or was cancelled.
    pub error: Option<ErrorStanding>,
    /// Always `null`: progress is reported by events.
    pub progress: Option<()>,
}

/// A call without an answer.
#[derive(Clone, Debug, Serialize)]
pub struct WaitStanding {
    /// The record of the call.
    pub record: u64,
    /// The tag of the call in the log.
    pub call: String,
    /// What it waits for: sleep, effect, join, promise, message, approval, lock, io or other.
    pub kind: &'static str,
    /// The name of the call, if it has one.
    pub name: Option<String>,
    /// A description of the call.
    pub what: String,
    /// When it was made, in microseconds since the first record.
    pub since: u64,
    /// The source line.
    pub at: String,
    /// The tasks that it waits for.
    pub on: Vec<u64>,
    /// The state of the step, if it is one.
    pub step: Option<StepStanding>,
    /// Whether its task has been active since, and so may not wait in it any longer.
    pub maybe_over: bool,
}

/// The state of a step.
#[derive(Clone, Debug, Serialize)]
pub struct StepStanding {
    /// Its kind.
    pub kind: String,
    /// The number of attempts that have begun.
    pub attempt: u64,
    /// The state: queued, running, retrying or refused.
    pub state: &'static str,
    /// When the next attempt is due, as RFC 3339.
    pub retry_at: Option<String>,
}

/// The error with which a task ended.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorStanding {
    /// The stable code.
    pub code: Cow<'static, str>,
    /// The message.
    pub message: String,
    /// The complete text: the message, its origin, and the tasks that it passed through.
    pub text: String,
    /// The task it came from.
    pub origin: Option<u64>,
    /// The tasks that it passed through, in order.
    pub hops: Vec<u64>,
    /// The source line of the call that failed.
    pub at: Option<String>,
    /// The error in the form of the program's language.
    pub detail: Option<String>,
    /// The source line of the program's own code where it was raised, if known.
    pub raised_at: Option<String>,
    /// The stack trace in the form of that language, the innermost call last.
    pub trace: Vec<String>,
}

impl Known {
    pub(crate) fn tasks_at(
        &self,
        run: Uuid,
        query: &TaskQuery,
        lines: &Lines<'_>,
    ) -> Result<TasksStanding, Moved> {
        let last = self.index.len();
        let Some(at) = query.at.filter(|at| *at != last) else {
            return Ok(self.standing(&self.tasks, last, query, lines));
        };
        if at == 0 || at > last {
            return Err(LogError::NoRecord { run, seq: at, records: last }.into());
        }
        let (from, mut tasks) = self.kept.before(at).cloned().unwrap_or_default();
        lines.each(&self.index, from + 1, at, |line| {
            tasks.add(line, &Record::read(line));
            Going::On
        })?;
        Ok(self.standing(&tasks, at, query, lines))
    }

    fn standing(
        &self,
        tasks: &Tasks,
        at: u64,
        query: &TaskQuery,
        lines: &Lines<'_>,
    ) -> TasksStanding {
        let has_changed = |tid: &u64| {
            let changed = self.lanes.get(*tid).map_or(0, |lane| lane.changed);
            query.since.is_none_or(|since| changed > since)
        };
        let first = query.after.map_or(0, |after| after.saturating_add(1));
        let mut wanted = tasks.all.range(first..).filter(|(tid, _)| has_changed(tid));
        let limit = query.limit.unwrap_or(usize::MAX);
        let told: Vec<TaskStanding> =
            wanted.by_ref().take(limit).map(|(tid, task)| self.task(*tid, task, lines)).collect();
        let next = wanted.next().and_then(|_| told.last()).map(|last| last.tid);
        TasksStanding {
            at,
            now: self.last_at,
            last: self.index.len(),
            started: self.started.clone(),
            generation: self.generation,
            is_over: tasks.is_over(),
            total: tasks.all.len() as u64,
            tasks: told,
            next,
            unread: self.unread.as_ref().map(ToString::to_string),
        }
    }

    fn task(&self, tid: u64, task: &TaskSeen, lines: &Lines<'_>) -> TaskStanding {
        let lane = self.lanes.get(tid);
        let is_over = task.state != Seen::Going;
        let spawned_at = (!task.spawned_at.is_empty()).then(|| task.spawned_at.clone());
        TaskStanding {
            tid,
            parent: task.parent,
            name: task.name.clone(),
            state: task.word(),
            begin: lane.map_or(0, |lane| lane.begin),
            end: lane.and_then(|lane| lane.end).filter(|_| is_over),
            spawned_at,
            waits: task.waits.iter().map(|(record, wait)| self.wait(*record, wait)).collect(),
            error: task.error.as_ref().map(|error| ErrorStanding::of(error.clone(), lines)),
            progress: None,
        }
    }

    fn wait(&self, record: u64, waiting: &Waiting) -> WaitStanding {
        let task = |target: &Target| match target {
            Target::Task(tid) => Some(*tid),
            Target::Object(_) => None,
        };
        WaitStanding {
            record,
            call: waiting.call.clone(),
            kind: Doing::of_wait(waiting).word(),
            name: waiting.name.clone(),
            what: waiting.what(),
            since: self.moment(&waiting.since),
            at: waiting.at.clone(),
            on: waiting.targets().iter().filter_map(task).collect(),
            step: waiting.step.as_ref().map(StepStanding::of),
            maybe_over: waiting.maybe_over,
        }
    }
}

impl StepStanding {
    fn of(step: &StepSeen) -> StepStanding {
        let state = match () {
            () if step.is_refused => "refused",
            () if step.retry_at.is_some() => "retrying",
            () if step.is_open => "running",
            () => "queued",
        };
        StepStanding {
            kind: step.kind.clone(),
            attempt: step.attempt,
            state,
            retry_at: step.retry_at.clone(),
        }
    }
}

impl ErrorStanding {
    /// Converts an error from the log.
    pub(crate) fn of(error: Value, lines: &Lines<'_>) -> ErrorStanding {
        let error = &shown_error(error, |hash| lines.blob(hash));
        match serde_json::from_value::<TaskError>(error.clone()) {
            Ok(error) => ErrorStanding {
                code: error.code().into(),
                message: error.message().to_owned(),
                text: error.to_string(),
                origin: error.task().map(|task| task.tid.0),
                hops: error.through().iter().map(|task| task.tid.0).collect(),
                at: error.call_site().map(ToString::to_string),
                detail: error.detail().map(str::to_owned),
                raised_at: error.trace().map(|trace| trace.at.to_string()),
                trace: error.trace().map_or_else(Vec::new, |trace| trace.lines.clone()),
            },
            // A code alone, or an error of an unknown version.
            Err(_) => ErrorStanding {
                code: error.as_str().unwrap_or("TFY0001").to_owned().into(),
                message: error["message"].as_str().map_or_else(|| error_text(error), str::to_owned),
                text: error_text(error),
                origin: None,
                hops: Vec::new(),
                at: None,
                detail: None,
                raised_at: None,
                trace: Vec::new(),
            },
        }
    }
}
