//! The tasks of a run and where each of them stands, from its records alone. What follows from the code and is not
//! written down (who holds a lock, say) it does not know.

#![cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the command line shows more of it"))]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tiffany_kernel::{TaskError, Tid};

use super::waiting::{About, StepSeen, Target, Waiting, about, is_answered_in_log, may_wait, text};
use super::words::{ChangedAnswer, json_value, plain};
use crate::wal::{Payload, Record, RecordType};

/// A run as its records tell it. A copy shares the tasks that do not change afterwards.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    pub(crate) id: String,
    pub(crate) function: String,
    pub(crate) input: Option<Value>,
    pub(crate) all: BTreeMap<u64, Arc<TaskSeen>>,
    /// Those that the last record changed.
    pub(crate) touched: Vec<u64>,
    /// External promises that nobody has settled yet.
    pub(crate) promises: BTreeMap<String, PromiseSeen>,
    /// How many messages nobody has taken yet, by name.
    pub(crate) inbox: BTreeMap<String, u64>,
    /// What people decided, in order.
    pub(crate) decisions: Vec<Decision>,
    pub(crate) outcome: Option<Result<Value, Value>>,
    /// The rules about ends that it follows.
    rules: u64,
    /// Somebody asked for the run to be cancelled.
    pub(crate) is_cancelled: bool,
    /// The last record says that the process ended in good order.
    pub(crate) was_shut_down: bool,
    /// Promises of the run's own that were settled.
    settled: BTreeSet<u64>,
    /// The number the next channel, lock or promise gets, and the numbers of external promises. They are not
    /// written down, but they follow where every call is.
    next_object: Option<u64>,
    externals: BTreeMap<u64, String>,
    /// Who waits for what, by task and record. Some may have what they waited for.
    waiters: BTreeMap<Target, Vec<(u64, u64)>>,
    receivers: BTreeMap<String, BTreeSet<(u64, u64)>>,
}

#[derive(Clone)]
pub(crate) struct TaskSeen {
    pub(crate) parent: Option<u64>,
    pub(crate) name: Option<String>,
    /// Whether it keeps no run alive.
    pub(crate) is_daemon: bool,
    pub(crate) spawned_at: String,
    pub(crate) state: Seen,
    /// Calls that have no answer yet, by record.
    pub(crate) waits: BTreeMap<u64, Waiting>,
    pub(crate) error: Option<Value>,
    pub(crate) has_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Going,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Clone)]
pub(crate) struct PromiseSeen {
    pub(crate) tid: u64,
    pub(crate) record: u64,
    pub(crate) at: String,
}

/// What a person decided, or what a fork was given instead.
#[derive(Clone)]
pub(crate) struct Decision {
    /// The record of the call, and the question.
    pub(crate) of: u64,
    pub(crate) question: String,
    /// The choice, who, why, as the log has it.
    pub(crate) answer: Value,
    pub(crate) when: String,
    pub(crate) changed: Option<ChangedAnswer>,
}

impl Decision {
    /// In words: `"Ship?": yes, by Ada (uid 1000): it is ready`. Nobody decided what was changed in a fork, whatever name its value has.
    pub(crate) fn what(&self) -> String {
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

    /// One word for where it stands.
    pub(crate) fn word(&self) -> &'static str {
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
    /// Takes in the next record.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let tid = record.tid.0;
        self.was_shut_down = false;
        self.touched.clear();
        match record.record_type() {
            Some(RecordType::RunStart) => {
                // A new generation: nothing is left of the one before.
                *self = Tasks::default();
                self.id = text(record, "id").unwrap_or_default();
                self.function = text(record, "function").unwrap_or_default();
                self.input = inline(record, "input");
                self.rules = record.uint("rules").unwrap_or(1);
                let is_every = record.str("recording").as_deref() == Some("every");
                self.next_object = is_every.then_some(1);
                self.task(tid);
            }
            Some(RecordType::Snapshot) => self.begin_with(record),
            Some(RecordType::TaskSpawn) => {
                self.acted(tid);
                if let Some(child) = record.uint("child") {
                    let at = text(record, "at").unwrap_or_default();
                    let (name, is_daemon) = (text(record, "name"), record.get("daemon").is_some());
                    let seen = TaskSeen { name, is_daemon, ..TaskSeen::new(Some(tid), at) };
                    *self.task(child) = seen;
                }
            }
            Some(RecordType::TaskYield) => self.called(record),
            Some(RecordType::TaskWake) => match record.str("why").as_deref() {
                Some("cancel") => self.is_cancelled = true,
                Some(_) => {}
                None => self.answered(record),
            },
            Some(RecordType::EffectStart) => self.attempted(record, None),
            Some(RecordType::EffectRefused) => {
                let of = record.uint("of").unwrap_or(0);
                let waiting = self.task(tid).waits.get_mut(&of);
                if let Some(step) = waiting.and_then(|waiting| waiting.step.as_mut()) {
                    step.is_refused = true;
                }
            }
            Some(RecordType::EffectAllowed) => {
                let names: Vec<String> = record
                    .get("allow")
                    .and_then(|names| serde_json::from_str(names).ok())
                    .unwrap_or_default();
                let is_allowed =
                    |name: &str| names.iter().any(|allowed| allowed == "*" || allowed == name);
                let refused = self.waits().filter(|(.., waiting)| {
                    waiting.step.as_ref().is_some_and(|step| step.is_refused)
                        && is_allowed(waiting.name.as_deref().unwrap_or_default())
                });
                let refused: Vec<(u64, u64)> =
                    refused.map(|(tid, record, _)| (tid, record)).collect();
                for (tid, record) in refused {
                    let waiting = self.task(tid).waits.get_mut(&record);
                    if let Some(step) = waiting.and_then(|waiting| waiting.step.as_mut()) {
                        step.is_refused = false;
                    }
                }
            }
            Some(RecordType::EffectResult) => match text(record, "retry_at") {
                Some(at) => self.attempted(record, Some(at)),
                None if record.str("decided").as_deref() == Some("again") => {
                    self.decided_again(record)
                }
                None => self.answered(record),
            },
            Some(RecordType::ApprovalDecided) => {
                self.decided(record);
                self.answered(record);
            }
            Some(RecordType::ApprovalWithdrawn) => self.taken_back(record),
            Some(RecordType::PromiseSettled) => {
                if let Some(uuid) = text(record, "promise") {
                    self.promises.remove(&uuid);
                    let known = self.externals.iter().find(|(_, other)| **other == uuid);
                    if let Some(id) = known.map(|(id, _)| *id) {
                        self.settled.insert(id);
                        self.let_go(Target::Object(id));
                    }
                }
            }
            Some(RecordType::Message) => {
                let name = text(record, "name").unwrap_or_default();
                *self.inbox.entry(name.clone()).or_default() += 1;
                self.take_message(&name);
            }
            Some(RecordType::TaskExit) => self.ended(record, Seen::Completed),
            Some(RecordType::TaskAbort) => self.ended(record, Seen::Failed),
            Some(RecordType::TaskCancel) => self.ended(record, Seen::Cancelled),
            Some(RecordType::ShutdownMarker) => self.was_shut_down = true,
            _ => {}
        }
    }

    /// The run goes on from its tables: the calls that its tasks wait in follow.
    fn begin_with(&mut self, record: &Record<'_>) {
        let tables: Value = record.get("tables").map_or(Value::Null, json_value);
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
            let seen = PromiseSeen { tid: 1, record: record.seq, at: String::new() };
            self.promises.insert(uuid, seen);
        }
    }

    /// Whether every task is over.
    pub(crate) fn is_over(&self) -> bool {
        !self.all.is_empty() && self.all.values().all(|task| task.state != Seen::Going)
    }

    /// Whether the outcome is fixed: the root failed, or all tasks but daemon tasks are over.
    pub(crate) fn is_decided(&self) -> bool {
        let is_over = |task: &TaskSeen| task.is_daemon || task.state != Seen::Going;
        self.has_failed() || (!self.all.is_empty() && self.all.values().all(|task| is_over(task)))
    }

    /// Whether the root failed, and so the run.
    pub(crate) fn has_failed(&self) -> bool {
        let is_failed = self.all.get(&1).is_some_and(|root| root.state == Seen::Failed);
        is_failed && self.rules >= 2
    }

    /// Calls that wait, of all tasks, with the number of their record.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (u64, u64, &Waiting)> {
        self.all.iter().flat_map(|(tid, task)| {
            task.waits.iter().map(|(record, waiting)| (*tid, *record, waiting))
        })
    }

    /// Effects that a fork needs and may not do.
    pub(crate) fn refused(&self) -> BTreeSet<&str> {
        let waits = self.waits().filter(|(.., waiting)| {
            !waiting.maybe_over && waiting.step.as_ref().is_some_and(|step| step.is_refused)
        });
        waits.filter_map(|(.., waiting)| waiting.name.as_deref()).collect()
    }

    fn task(&mut self, tid: u64) -> &mut TaskSeen {
        // Mostly it is the same one again.
        if self.touched.last() != Some(&tid) {
            self.touched.push(tid);
        }
        let task = self.all.entry(tid);
        let task = task.or_insert_with(|| Arc::new(TaskSeen::new(None, String::new())));
        Arc::make_mut(task)
    }

    /// A task that does something has what it waited for, or took it back, or waits for several things at once.
    /// Only the world's answers are written down.
    fn acted(&mut self, tid: u64) {
        let task = self.task(tid);
        task.has_run = true;
        task.waits.retain(|_, waiting| is_answered_in_log(&waiting.call));
        // A question that is taken back has a line of its own.
        let may_be_over = task.waits.values_mut().filter(|waiting| waiting.call != "approve");
        may_be_over.for_each(|waiting| waiting.maybe_over = true);
    }

    fn called(&mut self, record: &Record<'_>) {
        let tid = record.tid.0;
        self.acted(tid);
        let call = text(record, "call").unwrap_or_default();
        let mut about = about(record);
        if record.get("error").is_some() {
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
        let at = text(record, "at").unwrap_or_default();
        if let ("create_external_promise", About::Uuid(uuid)) = (call.as_str(), &about) {
            let seen = PromiseSeen { tid, record: record.seq, at: at.clone() };
            self.promises.insert(uuid.clone(), seen);
        }
        let step = (call == "effect").then(|| {
            let json: Value = record.get("about").map_or(Value::Null, json_value);
            // What a step is about has a kind or an input; a message to another run has a receiver.
            if let Some(to) = json["to"].as_str() {
                about = About::Receiver(to.to_owned());
            }
            let kind = json["kind"].as_str().unwrap_or("idempotent").to_owned();
            StepSeen { kind, attempt: 0, is_open: false, retry_at: None, is_refused: false }
        });
        let name = text(record, "name");
        let key = match (&about, call.as_str()) {
            (About::Key(key), "receive_message") => Some(key.clone()),
            _ => None,
        };
        let (since, maybe_over) = (record.ts.to_owned(), false);
        let waiting = Waiting { call, name, about, at, since, maybe_over, step, passed: 0 };
        let targets = waiting.targets().into_owned();
        self.task(tid).waits.insert(record.seq, waiting);
        if let Some(key) = key {
            self.receivers.entry(key.clone()).or_default().insert((record.seq, tid));
            self.take_message(&key);
        }
        if targets.is_empty() {
            return;
        }
        for target in targets {
            self.waiters.entry(target).or_default().push((tid, record.seq));
        }
        self.check(tid, record.seq);
    }

    /// Keeps count of what is made.
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

    fn answered(&mut self, record: &Record<'_>) {
        let of = record.uint("of").unwrap_or(0);
        let task = self.task(record.tid.0);
        task.waits.remove(&of);
        // What it waits for besides, it still waits for.
        task.has_run = true;
    }

    fn decided(&mut self, record: &Record<'_>) {
        let of = record.uint("of").unwrap_or(0);
        let question = match self.task(record.tid.0).waits.get(&of).map(|waiting| &waiting.about) {
            Some(About::Question(question, _)) => question.clone(),
            _ => "?".into(),
        };
        let answer = inline(record, "value").unwrap_or(Value::Null);
        let (when, changed) = (record.ts.to_owned(), ChangedAnswer::of(record));
        self.decisions.push(Decision { of, question, answer, when, changed });
    }

    /// Its task does not wait for it any more, and goes on.
    fn taken_back(&mut self, record: &Record<'_>) {
        let of = record.uint("of").unwrap_or(0);
        self.task(record.tid.0).waits.remove(&of);
    }

    fn attempted(&mut self, record: &Record<'_>, retry_at: Option<String>) {
        let of = record.uint("of").unwrap_or(0);
        let task = self.task(record.tid.0);
        if let Some(step) = task.waits.get_mut(&of).and_then(|waiting| waiting.step.as_mut()) {
            step.attempt = record.uint("attempt").unwrap_or(step.attempt + 1);
            (step.is_open, step.retry_at) = (retry_at.is_none(), retry_at);
        }
    }

    /// A person said that a step which was in doubt did not happen.
    fn decided_again(&mut self, record: &Record<'_>) {
        let of = record.uint("of").unwrap_or(0);
        let waiting = self.task(record.tid.0).waits.get_mut(&of);
        if let Some(step) = waiting.and_then(|waiting| waiting.step.as_mut()) {
            step.is_open = false;
        }
    }

    fn ended(&mut self, record: &Record<'_>, state: Seen) {
        let error = inline(record, "error");
        let task = self.task(record.tid.0);
        (task.state, task.error) = (state, error.clone());
        task.waits.clear();
        if record.tid == Tid(1) {
            self.outcome = Some(match error {
                Some(error) => Err(error),
                None => Ok(inline(record, "value").unwrap_or(Value::Null)),
            });
        }
        self.let_go(Target::Task(record.tid.0));
    }

    /// A message goes to the call that has waited longest for one of its name.
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

    /// A task is over or a promise settled: looks at those who wait for it.
    fn let_go(&mut self, target: Target) {
        for (tid, record) in self.waiters.remove(&target).unwrap_or_default() {
            self.check(tid, record);
        }
    }

    /// Ends a wait if what it is for has come.
    fn check(&mut self, tid: u64, record: u64) {
        let Some(waiting) = self.all.get(&tid).and_then(|task| task.waits.get(&record)) else {
            return;
        };
        let is_over = |target: &Target| match target {
            Target::Task(tid) => self.all.get(tid).is_some_and(|task| task.state != Seen::Going),
            Target::Object(id) => self.settled.contains(id),
        };
        let targets = waiting.targets();
        // Whoever is over stays so: with ten thousand, each is looked at once.
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

/// A value as the line has it; of a blob only the name.
fn inline(record: &Record<'_>, field: &str) -> Option<Value> {
    match record.payload(field)? {
        Payload::Json(json) => Some(plain(json_value(json))),
        _ => record.get(field).map(json_value),
    }
}

/// The way to where an error of the log was raised, if it has that.
pub(crate) fn trace_lines(error: &Value) -> Vec<String> {
    let lines = error["trace"]["lines"].as_array().into_iter().flatten();
    lines.filter_map(|line| line.as_str().map(str::to_owned)).collect()
}

/// An error of the log in words.
pub(crate) fn error_text(error: &Value) -> String {
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
    fn an_error_of_an_older_log_has_no_trace_and_one_without_is_written_as_before() {
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
