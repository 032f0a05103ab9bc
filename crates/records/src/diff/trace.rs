//! Task by task: what each task of a run asked of the world, in order, and what came of it. Of each call only numbers
//! are kept, so that a long run needs little memory; who wants to see more reads those records again.

use std::collections::{BTreeMap, HashMap};

use super::form::{self, Names, digest};
use super::prefix::draws;
use crate::words::is_outward;
use tiffany_log::{LogError, Record, RecordType, RunReader};

/// A call to the world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallSeen {
    pub(super) seq: u64,
    /// What kind of call it is, and its name.
    pub(super) kind: u64,
    /// All that is compared of it.
    pub(super) what: u64,
    /// The record with what came of it; 0 if there is none.
    pub(super) answer: u64,
    pub(super) result: u64,
    pub(super) attempts: u32,
    /// Its answer was taken from the run that this one is a fork of: nobody attempted anything.
    pub(super) is_inherited: bool,
    /// The task it spawned; 0 if it spawned none.
    pub(super) child: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TaskSeen {
    pub(super) name: Option<String>,
    pub(super) calls: Vec<CallSeen>,
    /// The record of its end, and what that was.
    pub(super) end: Option<(u64, u64)>,
    /// Stands for its place in the tree of tasks.
    place: u64,
}

/// A run as it is compared.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) tasks: BTreeMap<u64, TaskSeen>,
    /// Messages by name: record, and what it was.
    pub(super) messages: BTreeMap<String, Vec<(u64, u64)>>,
    /// What the run was given.
    pub(super) start: u64,
    pub(super) records: u64,
    pub(super) id: String,
    pub(super) function: String,
    /// Why not all of it could be read.
    pub(super) unread: Option<LogError>,
}

struct Tracing {
    trace: Trace,
    names: Names,
    /// Calls without an answer: task, and place among its calls.
    waiting: HashMap<u64, (u64, usize)>,
    promises: HashMap<String, (u64, usize)>,
}

impl Trace {
    pub(super) fn read(mut reader: RunReader, names: Names) -> Result<Trace, LogError> {
        let (waiting, promises) = (HashMap::new(), HashMap::new());
        let mut tracing = Tracing { trace: Trace::default(), names, waiting, promises };
        while let Some(record) = reader.next() {
            match record {
                Ok(record) => tracing.add(&record),
                Err(error @ LogError::DamagedRun { .. }) => tracing.trace.unread = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(tracing.trace)
    }
}

impl Tracing {
    fn add(&mut self, record: &Record<'_>) {
        self.trace.records += 1;
        let tid = record.tid.0;
        match record.record_type() {
            Some(RecordType::RunStart) => {
                self.trace.id = record.str("id").unwrap_or_default().into_owned();
                self.trace.function = record.str("function").unwrap_or_default().into_owned();
                self.trace.start = self.sum(record);
                self.trace.tasks.entry(tid).or_default();
            }
            _ if is_outward(record) => self.called(record),
            Some(RecordType::EffectStart) => {
                if let Some(call) = self.call_of(record) {
                    call.attempts += 1;
                }
            }
            Some(RecordType::EffectResult) => {
                let goes_on = record.get("retry_at").is_some()
                    || record.str("decided").as_deref() == Some("again");
                if !goes_on {
                    self.answered(record);
                }
            }
            Some(RecordType::ApprovalDecided | RecordType::ApprovalWithdrawn) => {
                self.answered(record);
            }
            Some(RecordType::TaskWake) if record.get("of").is_some() => self.answered(record),
            Some(RecordType::PromiseSettled) => {
                let promise = record.str("promise").and_then(|uuid| self.promises.remove(&*uuid));
                let result = self.sum(record);
                if let Some(call) = promise.and_then(|(tid, at)| self.call(tid, at)) {
                    (call.answer, call.result) = (record.seq, result);
                }
            }
            Some(RecordType::Message) => {
                let name = record.str("name").unwrap_or_default().into_owned();
                let what = (record.seq, self.sum(record));
                self.trace.messages.entry(name).or_default().push(what);
            }
            Some(RecordType::TaskExit | RecordType::TaskAbort | RecordType::TaskCancel) => {
                let end = (record.seq, digest((record.kind, self.sum(record))));
                self.trace.tasks.entry(tid).or_default().end = Some(end);
            }
            _ => {}
        }
    }

    /// A number for what is compared of a record. Numbers of records and of tasks are not: they follow.
    fn sum(&self, record: &Record<'_>) -> u64 {
        let mut fields = form::fields(record, &self.names, |_| 0);
        fields.retain(|(name, _)| !matches!(*name, "child" | "task" | "object" | "items"));
        digest(fields)
    }

    fn called(&mut self, record: &Record<'_>) {
        let (tid, seq) = (record.tid.0, record.seq);
        let task = self.trace.tasks.entry(tid).or_default();
        let (place, at) = (task.place, task.calls.len());
        let drawn = draws(record);
        if let Some(uuid) = &drawn {
            // The same call of the same task on both sides drew what is the same there.
            self.names.add(uuid.clone(), format!("<uuid {place:x} {at}>"));
        }
        let call = record.str("call").unwrap_or_default();
        let child = record.uint("child").unwrap_or(0);
        let name = record.str("name").or_else(|| record.str("key"));
        let kind = digest((record.kind, &call, name.as_deref()));
        let what = self.sum(record);
        let seen = CallSeen { seq, kind, what, child, ..CallSeen::default() };
        self.trace.tasks.entry(tid).or_default().calls.push(seen);
        if child > 0 {
            let name = record.str("name").map(|name| name.into_owned());
            let place = digest((place, at));
            let task = TaskSeen { name, place, ..TaskSeen::default() };
            self.trace.tasks.insert(child, task);
        } else if record.get("error").is_none() {
            match drawn.filter(|_| call == "create_external_promise") {
                Some(uuid) => drop(self.promises.insert(uuid, (tid, at))),
                None if matches!(&*call, "effect" | "approve" | "sleep" | "sleep_until") => {
                    self.waiting.insert(seq, (tid, at));
                }
                None => {}
            }
        }
    }

    fn answered(&mut self, record: &Record<'_>) {
        let result = self.sum(record);
        if let Some(call) = self.call_of(record) {
            (call.answer, call.result) = (record.seq, result);
            call.is_inherited = record.str("from").is_some_and(|from| from == "parent");
            self.waiting.remove(&record.uint("of").unwrap_or(0));
        }
    }

    fn call_of(&mut self, record: &Record<'_>) -> Option<&mut CallSeen> {
        let (tid, at) = *self.waiting.get(&record.uint("of")?)?;
        self.call(tid, at)
    }

    fn call(&mut self, tid: u64, at: usize) -> Option<&mut CallSeen> {
        self.trace.tasks.get_mut(&tid)?.calls.get_mut(at)
    }
}
