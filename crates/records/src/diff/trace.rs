//! Collects what each task of a run requested from the outside world, in order, and the results.
//! For each call it keeps only numbers, so that a long run needs little memory; for details, its
//! records are read again.

use std::collections::{BTreeMap, HashMap};

use super::form::{self, Names, digest};
use super::prefix::draws;
use crate::record::EffectEnd;
use crate::record::Record;
use crate::record::owned;
use crate::words::is_outward;
use tiffany_log::{LogError, LogLine, RunReader};

/// A call to the outside world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallSeen {
    pub(super) seq: u64,
    /// A hash of the kind and name of the call.
    pub(super) kind: u64,
    /// A hash of everything that is compared.
    pub(super) what: u64,
    /// The record with the result; 0 if there is none.
    pub(super) answer: u64,
    pub(super) result: u64,
    pub(super) attempts: u32,
    /// Whether its answer was taken from the run that this one was forked from, without an attempt.
    pub(super) is_inherited: bool,
    /// The number of the task that it spawned; 0 if none.
    pub(super) child: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TaskSeen {
    pub(super) name: Option<String>,
    pub(super) calls: Vec<CallSeen>,
    /// The record of its end, and a hash of the outcome.
    pub(super) end: Option<(u64, u64)>,
    /// A hash of its position in the tree of tasks.
    place: u64,
}

/// The parts of a run that are compared.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) tasks: BTreeMap<u64, TaskSeen>,
    /// Messages by name, as record and hash of the contents.
    pub(super) messages: BTreeMap<String, Vec<(u64, u64)>>,
    /// A hash of the input of the run.
    pub(super) start: u64,
    pub(super) records: u64,
    pub(super) id: String,
    pub(super) function: String,
    /// The reason why it could not be read completely, if so.
    pub(super) unread: Option<LogError>,
}

struct Tracing {
    trace: Trace,
    names: Names,
    /// Calls without an answer, as task and index among its calls.
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
    fn add(&mut self, line: &LogLine<'_>) {
        self.trace.records += 1;
        let tid = line.tid.0;
        let record = Record::read(line);
        match &record {
            Record::RunStart(start) => {
                self.trace.id = owned(start.id);
                self.trace.function = owned(start.function);
                self.trace.start = self.sum(line, &record);
                self.trace.tasks.entry(tid).or_default();
            }
            _ if is_outward(&record) => self.called(line, &record),
            Record::EffectStart(start) => {
                if let Some(call) = self.call_of(start.of) {
                    call.attempts += 1;
                }
            }
            Record::EffectResult(result) => {
                if let EffectEnd::Over(_) = result.end() {
                    self.answered(line, &record);
                }
            }
            Record::ApprovalDecided(_) | Record::ApprovalWithdrawn(_) => {
                self.answered(line, &record);
            }
            Record::TaskWake(wake) if wake.of.is_some() => self.answered(line, &record),
            Record::PromiseSettled(settled) => {
                let promise = settled.promise.and_then(|uuid| self.promises.remove(&*uuid.get()));
                let result = self.sum(line, &record);
                if let Some(call) = promise.and_then(|(tid, at)| self.call(tid, at)) {
                    (call.answer, call.result) = (line.seq, result);
                }
            }
            Record::Message(message) => {
                let what = (line.seq, self.sum(line, &record));
                self.trace.messages.entry(owned(message.name)).or_default().push(what);
            }
            record if record.is_end() => {
                let end = (line.seq, digest((line.kind, self.sum(line, record))));
                self.trace.tasks.entry(tid).or_default().end = Some(end);
            }
            _ => {}
        }
    }

    /// Returns a hash of what is compared of a record. Numbers of records and tasks are left out,
    /// because they follow from the rest.
    fn sum(&self, line: &LogLine<'_>, record: &Record<'_>) -> u64 {
        let mut fields = form::fields(line, record, &self.names, |_| 0);
        fields.retain(|(name, _)| !matches!(*name, "child" | "task" | "object" | "items"));
        digest(fields)
    }

    fn called(&mut self, line: &LogLine<'_>, record: &Record<'_>) {
        let (tid, seq) = (line.tid.0, line.seq);
        let task = self.trace.tasks.entry(tid).or_default();
        let (place, at) = (task.place, task.calls.len());
        let drawn = draws(record);
        if let Some(uuid) = &drawn {
            // UUIDs that were drawn by corresponding calls get the same name.
            self.names.add(uuid.clone(), format!("<uuid {place:x} {at}>"));
        }
        let (call, child, name, spawned) = match record {
            Record::TaskSpawn(spawn) => {
                (String::new(), spawn.child.unwrap_or(0), spawn.name, spawn.name)
            }
            Record::TaskYield(call) => (call.tag().into_owned(), 0, call.name.or(call.key), None),
            _ => return,
        };
        let name = name.map(|name| name.owned());
        let kind = digest((line.kind, &call, name.as_deref()));
        let what = self.sum(line, record);
        let seen = CallSeen { seq, kind, what, child, ..CallSeen::default() };
        self.trace.tasks.entry(tid).or_default().calls.push(seen);
        if child > 0 {
            let name = spawned.map(|name| name.owned());
            let place = digest((place, at));
            let task = TaskSeen { name, place, ..TaskSeen::default() };
            self.trace.tasks.insert(child, task);
        } else if record.error().is_none() {
            match drawn.filter(|_| call == "create_external_promise") {
                Some(uuid) => drop(self.promises.insert(uuid, (tid, at))),
                None if matches!(&*call, "effect" | "approve" | "sleep" | "sleep_until") => {
                    self.waiting.insert(seq, (tid, at));
                }
                None => {}
            }
        }
    }

    fn answered(&mut self, line: &LogLine<'_>, record: &Record<'_>) {
        let result = self.sum(line, record);
        if let Some(call) = self.call_of(record.of()) {
            (call.answer, call.result) = (line.seq, result);
            call.is_inherited = record.is_inherited();
            self.waiting.remove(&record.of().unwrap_or(0));
        }
    }

    fn call_of(&mut self, of: Option<u64>) -> Option<&mut CallSeen> {
        let (tid, at) = *self.waiting.get(&of?)?;
        self.call(tid, at)
    }

    fn call(&mut self, tid: u64, at: usize) -> Option<&mut CallSeen> {
        self.trace.tasks.get_mut(&tid)?.calls.get_mut(at)
    }
}
