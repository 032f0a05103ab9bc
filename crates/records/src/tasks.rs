//! The tasks of a run and their states, derived from its records alone. What only the code
//! determines and the log doesn't record, for example which task holds a lock, is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tiffany_kernel::TaskError;

use super::words::{ChangedAnswer, json_value, plain};
use crate::long_error::{blob_of, shown_error};
use crate::record::{ApprovalDecided, Record, Snapshot, TaskYield};
use crate::record::{EffectEnd, Wake};
use crate::record::{Inline, Json, Value as Recorded, owned};
use crate::wait_reason::{About, StepSeen, Target, Waiting, about, is_answered_in_log, may_wait};
use tiffany_log::{BlobHash, LogError, LogLine, Payload};

/// The state of a run according to its records. Copies share the tasks that don't change
/// afterwards.
#[derive(Clone, Default)]
pub struct Tasks {
    /// The id that the run was started with.
    pub id: String,
    /// The function that it runs.
    pub function: String,
    /// The input of the function.
    pub input: Option<Value>,
    /// All tasks, by number.
    pub all: BTreeMap<u64, Arc<TaskSeen>>,
    /// The tasks that the last record changed.
    pub touched: Vec<u64>,
    /// External promises that have not been settled yet.
    pub promises: BTreeMap<String, PromiseSeen>,
    /// The number of messages that have not been received by a task yet, by name.
    pub inbox: BTreeMap<String, u64>,
    /// The decisions of people, in order.
    pub decisions: Vec<Decision>,
    /// The value or the error of the root, if it has ended.
    pub outcome: Option<Result<Value, Value>>,
    /// The version of the rules about the end of a run that it follows.
    rules: u64,
    /// Whether the run was requested to be cancelled.
    pub is_cancelled: bool,
    /// Whether the last record says that the process shut down cleanly.
    pub was_shut_down: bool,
    /// Promises inside the run that were settled.
    settled: BTreeSet<u64>,
    /// The number of the next channel, lock or promise, and the numbers of external promises. They
    /// are not recorded, but follow from the calls, as long as all of them are known.
    next_object: Option<u64>,
    externals: BTreeMap<u64, String>,
    /// The waiting tasks for each target, by task and record. Some may have been answered already.
    waiters: BTreeMap<Target, Vec<(u64, u64)>>,
    receivers: BTreeMap<String, BTreeSet<(u64, u64)>>,
}

/// A task as the records show it.
#[derive(Clone)]
pub struct TaskSeen {
    /// The task that spawned it.
    pub parent: Option<u64>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether it is a daemon task, which doesn't keep its run alive.
    pub is_daemon: bool,
    /// The source line that spawned it.
    pub spawned_at: String,
    /// Its state.
    pub state: Seen,
    /// Its calls without an answer, by record.
    pub waits: BTreeMap<u64, Waiting>,
    /// The error, if it failed.
    pub error: Option<Value>,
    /// Whether it has had a turn.
    pub has_run: bool,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has not ended.
    Going,
    /// It returned a value.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// An external promise as the records show it.
#[derive(Clone)]
pub struct PromiseSeen {
    /// The task that made it.
    pub tid: u64,
    /// The record of that call.
    pub record: u64,
    /// The source line.
    pub at: String,
}

/// The decision of a person, or the replacement that a fork was given.
#[derive(Clone)]
pub struct Decision {
    /// The record of the call.
    pub of: u64,
    /// The question.
    pub question: String,
    /// The choice, the person and the reason, in the form of the log.
    pub answer: Value,
    /// When it was decided.
    pub when: String,
    /// The change, if a fork was given another answer.
    pub changed: Option<ChangedAnswer>,
}

impl Decision {
    /// Describes the decision: `"Ship?": yes, by Ada (uid 1000): it is ready`. An answer that was
    /// replaced in a fork is described by that change, whatever name the value contains.
    pub fn what(&self) -> String {
        let Decision { question, answer, .. } = self;
        let text = |field: &str| answer[field].as_str().unwrap_or("?").to_owned();
        if let Some(changed) = &self.changed {
            return format!("{question:?}: {}, {changed}", text("choice"));
        }
        let uid = answer["uid"].as_u64().map_or_else(String::new, |uid| format!(" (uid {uid})"));
        let why = answer["why"].as_str().map_or_else(String::new, |why| format!(": {why}"));
        format!("{question:?}: {}, by {}{uid}{why}", text("choice"), text("by"))
    }
}

impl TaskSeen {
    fn new(parent: Option<u64>, spawned_at: String) -> TaskSeen {
        TaskSeen {
            parent,
            name: None,
            is_daemon: false,
            spawned_at,
            state: Seen::Going,
            waits: BTreeMap::new(),
            error: None,
            has_run: false,
        }
    }

    /// Returns the state of the task in one word.
    pub fn word(&self) -> &'static str {
        match self.state {
            Seen::Completed => "completed",
            Seen::Failed => "failed",
            Seen::Cancelled => "cancelled",
            Seen::Going if self.waits.values().any(|wait| !wait.maybe_over) => "waiting",
            Seen::Going if self.has_run => "ready",
            Seen::Going => "new",
        }
    }
}

impl Tasks {
    /// Applies the next record.
    pub fn add(&mut self, line: &LogLine<'_>, record: &Record<'_>) {
        let tid = line.tid.0;
        self.was_shut_down = false;
        self.touched.clear();
        match record {
            Record::RunStart(start) => {
                // A new generation replaces everything before it.
                *self = Tasks::default();
                self.id = owned(start.id);
                self.function = owned(start.function);
                self.input = start.input.as_ref().map(inline);
                self.rules = start.rules.unwrap_or(1);
                let is_every = start.recording.is_some_and(|recording| recording == *"every");
                self.next_object = is_every.then_some(1);
                self.task(tid);
            }
            Record::Snapshot(snapshot) => self.begin_with(line.seq, snapshot),
            Record::TaskSpawn(spawn) => {
                self.acted(tid);
                if let Some(child) = spawn.child {
                    let name = spawn.name.map(|name| name.owned());
                    let is_daemon = spawn.daemon.0;
                    let at = owned(spawn.at);
                    let seen = TaskSeen { name, is_daemon, ..TaskSeen::new(Some(tid), at) };
                    *self.task(child) = seen;
                }
            }
            Record::TaskYield(call) => self.called(line, call),
            Record::TaskWake(wake) => match wake.wake() {
                Wake::Call(of) => self.answered(tid, of),
                Wake::Cancel { .. } => self.is_cancelled = true,
                _ => {}
            },
            Record::EffectStart(start) => self.attempted(tid, (start.of, start.attempt), None),
            Record::EffectRefused(refused) => {
                if let Some(step) = self.step(tid, refused.of) {
                    step.is_refused = true;
                }
            }
            Record::EffectAllowed(allowed) => self.allowed(&allowed.names()),
            Record::EffectResult(result) => match result.end() {
                EffectEnd::Retry(at) => {
                    self.attempted(tid, (result.of, result.attempt), Some(at.owned()));
                }
                // A person decided that a step in doubt did not happen.
                EffectEnd::Again => {
                    if let Some(step) = self.step(tid, result.of) {
                        step.is_open = false;
                    }
                }
                EffectEnd::Over(_) => self.answered(tid, result.of.unwrap_or(0)),
            },
            Record::ApprovalDecided(decided) => {
                self.decided(line, decided, ChangedAnswer::of(record));
                self.answered(tid, decided.of.unwrap_or(0));
            }
            // Its task does not wait for it any longer, and continues.
            Record::ApprovalWithdrawn(withdrawn) => {
                self.task(tid).waits.remove(&withdrawn.of.unwrap_or(0));
            }
            Record::PromiseSettled(settled) => {
                if let Some(uuid) = settled.promise.map(|promise| promise.owned()) {
                    self.promises.remove(&uuid);
                    let known = self.externals.iter().find(|(_, other)| **other == uuid);
                    if let Some(id) = known.map(|(id, _)| *id) {
                        self.settled.insert(id);
                        self.let_go(Target::Object(id));
                    }
                }
            }
            Record::Message(message) => {
                let name = owned(message.name);
                *self.inbox.entry(name.clone()).or_default() += 1;
                self.take_message(&name);
            }
            Record::TaskExit(exit) => self.ended(tid, Seen::Completed, exit.value, None),
            Record::TaskAbort(abort) => self.ended(tid, Seen::Failed, None, abort.error),
            Record::TaskCancel(cancel) => self.ended(tid, Seen::Cancelled, None, cancel.error),
            Record::ShutdownMarker(_) => self.was_shut_down = true,
            _ => {}
        }
    }

    /// Marks refused steps with these names as allowed.
    fn allowed(&mut self, names: &[String]) {
        let is_allowed = |name: &str| names.iter().any(|allowed| allowed == "*" || allowed == name);
        let refused = self.waits().filter(|(.., waiting)| {
            waiting.step.as_ref().is_some_and(|step| step.is_refused)
                && is_allowed(waiting.name.as_deref().unwrap_or_default())
        });
        let refused: Vec<(u64, u64)> = refused.map(|(tid, record, _)| (tid, record)).collect();
        for (tid, record) in refused {
            if let Some(step) = self.step(tid, Some(record)) {
                step.is_refused = false;
            }
        }
    }

    /// Returns the step that the call of this record waits for.
    fn step(&mut self, tid: u64, of: Option<u64>) -> Option<&mut StepSeen> {
        let waiting = self.task(tid).waits.get_mut(&of.unwrap_or(0))?;
        waiting.step.as_mut()
    }

    /// Restores the run from its tables. Records of the calls that its tasks wait in follow.
    fn begin_with(&mut self, seq: u64, snapshot: &Snapshot<'_>) {
        let tables: Value = snapshot.tables.map_or(Value::Null, |Inline(json)| json_value(json));
        let list = |name: &str| tables[name].as_array().cloned().unwrap_or_default();
        self.next_object = self.next_object.and(tables["next_object"].as_u64());
        for task in list("tasks") {
            let seen = self.task(task["tid"].as_u64().unwrap_or(0));
            seen.name = task["name"].as_str().map(str::to_owned);
            seen.is_daemon = task["daemon"].as_bool().unwrap_or(false);
            seen.has_run = true;
        }
        for task in list("ended") {
            let seen = self.task(task["tid"].as_u64().unwrap_or(0));
            seen.state = match task["state"].as_str() {
                Some("failed") => Seen::Failed,
                Some("cancelled") => Seen::Cancelled,
                _ => Seen::Completed,
            };
            seen.error = task.get("error").cloned();
        }
        for promise in list("promises") {
            let uuid = promise["uuid"].as_str().unwrap_or_default().to_owned();
            if let Some(id) = promise["id"].as_u64() {
                self.externals.insert(id, uuid.clone());
                if promise.get("order").is_some() {
                    self.settled.insert(id);
                    continue;
                }
            }
            let seen = PromiseSeen { tid: 1, record: seq, at: String::new() };
            self.promises.insert(uuid, seen);
        }
    }

    /// Returns whether all tasks are finished.
    pub fn is_over(&self) -> bool {
        !self.all.is_empty() && self.all.values().all(|task| task.state != Seen::Going)
    }

    /// Returns whether the outcome is fixed: the root failed, or all tasks except daemon tasks are
    /// finished.
    pub fn is_decided(&self) -> bool {
        let is_over = |task: &TaskSeen| task.is_daemon || task.state != Seen::Going;
        self.has_failed() || (!self.all.is_empty() && self.all.values().all(|task| is_over(task)))
    }

    /// Returns whether the root failed, and with it the run.
    pub fn has_failed(&self) -> bool {
        let is_failed = self.all.get(&1).is_some_and(|root| root.state == Seen::Failed);
        is_failed && self.rules >= 2
    }

    /// Returns the waiting calls of all tasks, as task, record and call.
    pub fn waits(&self) -> impl Iterator<Item = (u64, u64, &Waiting)> {
        self.all.iter().flat_map(|(tid, task)| {
            task.waits.iter().map(|(record, waiting)| (*tid, *record, waiting))
        })
    }

    /// Returns the names of steps that a fork needs and is not allowed to do.
    pub fn refused(&self) -> BTreeSet<&str> {
        let waits = self.waits().filter(|(.., waiting)| {
            !waiting.maybe_over && waiting.step.as_ref().is_some_and(|step| step.is_refused)
        });
        waits.filter_map(|(.., waiting)| waiting.name.as_deref()).collect()
    }

    fn task(&mut self, tid: u64) -> &mut TaskSeen {
        // Usually it is the same task again.
        if self.touched.last() != Some(&tid) {
            self.touched.push(tid);
        }
        let task = self.all.entry(tid);
        let task = task.or_insert_with(|| Arc::new(TaskSeen::new(None, String::new())));
        Arc::make_mut(task)
    }

    /// Handles a record which shows that a task was active: it has the answers it waited for, does
    /// not wait any longer, or waits for several things at once. The log only records answers from
    /// the outside world.
    fn acted(&mut self, tid: u64) {
        let task = self.task(tid);
        task.has_run = true;
        task.waits.retain(|_, waiting| is_answered_in_log(&waiting.call));
        // Withdrawing a question has a record of its own.
        let may_be_over = task.waits.values_mut().filter(|waiting| waiting.call != "approve");
        may_be_over.for_each(|waiting| waiting.maybe_over = true);
    }

    fn called(&mut self, line: &LogLine<'_>, made: &TaskYield<'_>) {
        let tid = line.tid.0;
        self.acted(tid);
        let call = made.tag().into_owned();
        let mut about = about(made);
        if made.error.is_some() {
            return;
        }
        self.number(&call, &about);
        if let About::Object(id) = about
            && let Some(uuid) = self.externals.get(&id)
        {
            about = About::Promise(id, uuid.clone());
        }
        if let ("complete_promise" | "fail_promise", About::Object(id)) = (call.as_str(), &about) {
            self.settled.insert(*id);
            return self.let_go(Target::Object(*id));
        }
        if !may_wait(&call) {
            return;
        }
        let at = owned(made.at);
        if let ("create_external_promise", About::Uuid(uuid)) = (call.as_str(), &about) {
            let seen = PromiseSeen { tid, record: line.seq, at: at.clone() };
            self.promises.insert(uuid.clone(), seen);
        }
        let step = (call == "effect").then(|| {
            let json: Value = made.about.map_or(Value::Null, |Json(about)| json_value(about));
            // The `about` field of a step has a kind or an input; that of a message to another run
            // has a receiver.
            if let Some(to) = json["to"].as_str() {
                about = About::Receiver(to.to_owned());
            }
            let kind = json["kind"].as_str().unwrap_or("idempotent").to_owned();
            StepSeen { kind, attempt: 0, is_open: false, retry_at: None, is_refused: false }
        });
        let name = made.name.map(|name| name.owned());
        let key = match (&about, call.as_str()) {
            (About::Key(key), "receive_message") => Some(key.clone()),
            _ => None,
        };
        let (since, maybe_over) = (line.ts.to_owned(), false);
        let waiting = Waiting { call, name, about, at, since, maybe_over, step, passed: 0 };
        let targets = waiting.targets().into_owned();
        self.task(tid).waits.insert(line.seq, waiting);
        if let Some(key) = key {
            self.receivers.entry(key.clone()).or_default().insert((line.seq, tid));
            self.take_message(&key);
        }
        if targets.is_empty() {
            return;
        }
        for target in targets {
            self.waiters.entry(target).or_default().push((tid, line.seq));
        }
        self.check(tid, line.seq);
    }

    /// Counts the objects that calls create.
    fn number(&mut self, call: &str, about: &About) {
        let Some(next) = self.next_object.as_mut().filter(|_| call.starts_with("create_")) else {
            return;
        };
        match about {
            About::Object(id) => *next = (*next).max(id + 1),
            About::Uuid(uuid) => {
                self.externals.insert(*next, uuid.clone());
                *next += 1;
            }
            _ => {}
        }
    }

    fn answered(&mut self, tid: u64, of: u64) {
        let task = self.task(tid);
        task.waits.remove(&of);
        // It may still wait for other things.
        task.has_run = true;
    }

    fn decided(
        &mut self,
        line: &LogLine<'_>,
        decided: &ApprovalDecided<'_>,
        changed: Option<ChangedAnswer>,
    ) {
        let of = decided.of.unwrap_or(0);
        let question = match self.task(line.tid.0).waits.get(&of).map(|waiting| &waiting.about) {
            Some(About::Question(question, _)) => question.clone(),
            _ => "?".into(),
        };
        let answer = decided.value.as_ref().map_or(Value::Null, inline);
        self.decisions.push(Decision { of, question, answer, when: line.ts.to_owned(), changed });
    }

    fn attempted(
        &mut self,
        tid: u64,
        (of, attempt): (Option<u64>, Option<u64>),
        retry_at: Option<String>,
    ) {
        if let Some(step) = self.step(tid, of) {
            step.attempt = attempt.unwrap_or(step.attempt + 1);
            (step.is_open, step.retry_at) = (retry_at.is_none(), retry_at);
        }
    }

    fn ended(
        &mut self,
        tid: u64,
        state: Seen,
        value: Option<Recorded<'_>>,
        error: Option<Recorded<'_>>,
    ) {
        let error = error.as_ref().map(inline);
        let task = self.task(tid);
        (task.state, task.error) = (state, error.clone());
        task.waits.clear();
        if tid == 1 {
            self.outcome = Some(match error {
                Some(error) => Err(error),
                None => Ok(value.as_ref().map_or(Value::Null, inline)),
            });
        }
        self.let_go(Target::Task(tid));
    }

    /// Passes a message to the call that has waited longest for one with its name.
    fn take_message(&mut self, name: &str) {
        let Some(count) = self.inbox.get_mut(name) else { return };
        let Some(receivers) = self.receivers.get_mut(name) else { return };
        while let Some((record, tid)) = receivers.pop_first() {
            let waits = |task: &Arc<TaskSeen>| task.waits.contains_key(&record);
            if !self.all.get(&tid).is_some_and(waits) {
                continue;
            }
            let Some(task) = self.all.get_mut(&tid) else { continue };
            Arc::make_mut(task).waits.remove(&record);
            self.touched.push(tid);
            *count -= 1;
            if *count == 0 {
                self.inbox.remove(name);
            }
            return;
        }
    }

    /// Checks the calls that wait for a task or promise which has finished.
    fn let_go(&mut self, target: Target) {
        for (tid, record) in self.waiters.remove(&target).unwrap_or_default() {
            self.check(tid, record);
        }
    }

    /// Ends a wait if its condition is met.
    fn check(&mut self, tid: u64, record: u64) {
        let Some(waiting) = self.all.get(&tid).and_then(|task| task.waits.get(&record)) else {
            return;
        };
        let is_over = |target: &Target| match target {
            Target::Task(tid) => self.all.get(tid).is_some_and(|task| task.state != Seen::Going),
            Target::Object(id) => self.settled.contains(id),
        };
        let targets = waiting.targets();
        // A finished target stays finished, so each is checked only once, even if there are ten
        // thousand.
        let passed = targets.iter().skip(waiting.passed).take_while(|target| is_over(target));
        let passed = waiting.passed + passed.count();
        let done = match waiting.call.as_str() {
            "race" => targets.iter().any(is_over),
            _ => !targets.is_empty() && passed == targets.len(),
        };
        let task = self.task(tid);
        if done {
            task.waits.remove(&record);
        } else if let Some(waiting) = task.waits.get_mut(&record) {
            waiting.passed = passed;
        }
    }
}

impl Tasks {
    /// Reads the errors that are in blobs, and cuts their texts.
    pub fn read_long_errors(&mut self, read_blob: impl Fn(BlobHash) -> Result<Vec<u8>, LogError>) {
        for task in self.all.values_mut().filter(|task| task.has_long_error()) {
            let error = &mut Arc::make_mut(task).error;
            *error = error.take().map(|error| shown_error(error, &read_blob));
        }
        if let Some(Err(error)) = &mut self.outcome {
            *error = shown_error(error.take(), &read_blob);
        }
    }
}

impl TaskSeen {
    fn has_long_error(&self) -> bool {
        self.error.as_ref().is_some_and(|error| blob_of(error).is_some())
    }
}

/// Returns a value in the form of its line; for a blob, only the reference.
fn inline(value: &Recorded<'_>) -> Value {
    match value.payload() {
        Some(Payload::Json(json)) => plain(json_value(json)),
        _ => json_value(value.json()),
    }
}

/// Returns the stack trace of an error of the log, if it has one.
pub fn trace_lines(error: &Value) -> Vec<String> {
    let lines = error["trace"]["lines"].as_array().into_iter().flatten();
    lines.filter_map(|line| line.as_str().map(str::to_owned)).collect()
}

/// Formats an error of the log as text.
pub fn error_text(error: &Value) -> String {
    if let Some((hash, len)) = blob_of(error) {
        return format!("an error of {len} bytes; `tiffany show --blob {hash}` prints it");
    }
    match serde_json::from_value::<TaskError>(error.clone()) {
        Ok(error) => error.to_string(),
        Err(_) => error.as_str().map_or_else(|| error.to_string(), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use tiffany_kernel::{Site, Trace};

    use super::*;

    #[test]
    fn errors_of_older_logs_have_no_trace_and_are_written_without_one() {
        let old = r#"{"kind":"Failed","message":"no tea","task":null,"call":null,"within":[],"through":[]}"#;
        let read: TaskError = serde_json::from_str(old).unwrap();
        assert_eq!(read.trace(), None);
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
        assert_eq!(trace_lines(&json_value(old)), Vec::<String>::new());
        let at = Site { file: "shop.py".into(), line: 7 };
        let traced = read.with_trace(Trace::new(at, ["File \"shop.py\", line 7".into()]));
        let text = serde_json::to_string(&traced).unwrap();
        let read: TaskError = serde_json::from_str(&text).unwrap();
        assert_eq!(read.trace(), traced.trace());
        assert_eq!(trace_lines(&json_value(&text)), ["File \"shop.py\", line 7"]);
        assert_eq!(error_text(&json_value(&text)), "no tea, raised at shop.py:7 [TFY0001]");
    }
}
