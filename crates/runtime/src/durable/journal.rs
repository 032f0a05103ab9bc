//! One run's log while it is written: each record of the kernel, and each thing the outside told the run,
//! becomes a line. What the lines mean is in the book, "WAL format".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use tiffany_kernel::{
    About, CallId, CallKind, CallRecord, CallRef, ErrorKind, Record, RecordKind, Rules, RunFailure,
    TaskError, Tid, Time, Uuid, Value, Waitable,
};

use super::cancellation::Cancel;
use super::earlier::Continued;
use super::few::Few;
use super::json::{Json, encode};
use super::page::Page;
use crate::control::Decision;
use tiffany_log::{Chain, Line, RecordType, Stamp};
use tiffany_records::key::{Key, Number};

/// Writes one run's lines.
pub(crate) struct Journal {
    pub(crate) chain: Chain,
    /// The numbers of the records of calls that wait for the world.
    waiting: Few<CallId, u64>,
    /// What such calls are called that were made in an earlier generation.
    older: BTreeMap<CallId, Number>,
    /// Yields that are not written yet, by task.
    yields: Few<Tid, u64>,
    /// Tasks whose ends were written in an earlier life, and whether the run's failure was.
    ended: BTreeSet<Tid>,
    failed: bool,
}

/// Who gave the result of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    /// Its work.
    Work,
    /// The run that this is a fork of.
    Parent,
}

/// What a run was started with.
pub(crate) struct Started<'a> {
    pub(crate) id: &'a str,
    pub(crate) function: &'a str,
    pub(crate) input: &'a str,
    pub(crate) seed: u64,
    pub(crate) recording: &'a str,
    pub(crate) rules: Rules,
    /// What the language of its code notes, as JSON.
    pub(crate) language: Option<String>,
    /// What there was before, if this is a later generation.
    pub(crate) continued: Option<&'a Continued>,
}

impl Journal {
    pub(crate) fn new(chain: Chain) -> Journal {
        let (waiting, yields) = (Few::None, Few::None);
        let (older, ended) = (BTreeMap::new(), BTreeSet::new());
        Journal { chain, waiting, older, yields, ended, failed: false }
    }

    pub(crate) fn run(&self) -> Uuid {
        self.chain.run()
    }

    /// The number of the record of a call that waits for the world.
    pub(crate) fn seq_of(&self, call: CallRef) -> Option<u64> {
        self.waiting.get(call.call).copied()
    }

    /// What such a call is called in the world.
    pub(crate) fn key_of(&self, call: CallRef) -> Option<Key> {
        Some(Key { run: self.run(), number: self.number(call.call, self.seq_of(call)?) })
    }

    fn number(&self, call: CallId, seq: u64) -> Number {
        let number = Number { generation: self.chain.generation(), seq };
        self.older.get(&call).copied().unwrap_or(number)
    }

    /// From here on a new generation is written. Gives what the calls that wait are called.
    pub(crate) fn begin_generation(&mut self) -> BTreeMap<CallId, Number> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut calls = BTreeMap::new();
        waiting.for_each(|call, seq| {
            calls.insert(call, self.number(call, *seq));
        });
        self.older.clear();
        self.yields = Few::None;
        self.chain = self.chain.next_generation();
        calls
    }

    /// Writes a call again that waits since an earlier generation, where it was called so.
    pub(crate) fn write_again(
        &mut self,
        page: &mut Page,
        (tid, clock): (Tid, Time),
        call: CallRecord,
        number: Option<Number>,
    ) {
        let run = self.run();
        let (line, sites) = page.line_and_sites(&mut self.chain, clock, RecordType::TaskYield, tid);
        let line = write_what(line, &call).piece(sites.find(&call.at));
        let seq = match number {
            Some(number) => line.str("key", &Key { run, number }.to_string()).end(),
            None => line.end(),
        };
        self.older.extend(number.map(|number| (call.call.call, number)));
        if waits(call.kind) {
            self.waiting.insert(call.call.call, seq);
        }
    }

    /// All that the run is, with so many lines that follow.
    pub(crate) fn snapshot(
        &mut self,
        page: &mut Page,
        clock: Time,
        (crc_before, lines): (u32, u64),
        tables: &str,
    ) {
        let line = self.line(page, clock, RecordType::Snapshot, Tid(1));
        let line = line.str("after", &format!("{crc_before:08x}")).uint("lines", lines);
        // However long it is, it is needed as long as the generation is, and no longer.
        line.piece(&format!(",\"tables\":{tables}")).end();
    }

    /// Says that a call does not wait any more.
    pub(crate) fn over(&mut self, call: CallRef) {
        self.take(call);
    }

    /// Says which ends the log has already.
    pub(crate) fn has_ends(&mut self, ended: impl Iterator<Item = Tid>, failed: bool) {
        self.ended.extend(ended);
        self.failed = failed;
    }

    /// Says that a call has this record: a replay has found it there. One of an earlier generation was called so there.
    pub(crate) fn adopt(&mut self, call: CallRef, seq: u64, number: Option<Number>) {
        self.waiting.insert(call.call, seq);
        self.older.extend(number.map(|number| (call.call, number)));
    }

    /// A call does not wait any more.
    fn take(&mut self, call: CallRef) -> Option<u64> {
        if !self.older.is_empty() {
            self.older.remove(&call.call);
        }
        self.waiting.remove(call.call)
    }

    pub(crate) fn start(&mut self, page: &mut Page, clock: Time, started: &Started<'_>) {
        let line = self.line(page, clock, RecordType::RunStart, Tid(1));
        let line = match started.rules {
            // Logs had no such field when these were the only ones.
            Rules::First => line,
            rules => line.uint("rules", rules.number()),
        };
        let line = line.str("id", started.id).str("function", started.function);
        let line = match started.continued.and_then(|continued| encode(continued).ok()) {
            Some(continued) => line.json("continued", &continued),
            None => line,
        };
        let line = write_value(line, "input", started.input)
            .str("seed", &started.seed.to_string())
            .str("recording", started.recording);
        match &started.language {
            Some(note) => line.json("language", note).end(),
            None => line.end(),
        };
    }

    /// Writes what the kernel left.
    pub(crate) fn write(&mut self, page: &mut Page, record: Record) {
        let Record { tid, clock, step, kind } = record;
        match kind {
            RecordKind::Completed(_) | RecordKind::Failed(_) | RecordKind::Cancelled(_)
                if !self.ended.is_empty() && self.ended.remove(&tid) => {}
            RecordKind::Called(call) => self.write_call(page, tid, clock, call),
            RecordKind::Woken(call) => self.woken(page, tid, clock, step, call),
            RecordKind::Withdrawn(call) => drop(self.take(call)),
            RecordKind::Unasked(call) => {
                let Some(seq) = self.take(call) else { return };
                let line = self.line(page, clock, RecordType::ApprovalWithdrawn, tid);
                line.uint("of", seq).end();
            }
            RecordKind::CutShort => {
                let line = self.line(page, clock, RecordType::TaskWake, tid);
                line.str("why", "cut_short").uint("step", step).end();
            }
            RecordKind::OverTime => {
                let line = self.line(page, clock, RecordType::TaskWake, tid);
                line.str("why", "over_time").uint("step", step).end();
            }
            RecordKind::Completed(value) => {
                self.write_yields(page, tid, clock);
                let line = self.line(page, clock, RecordType::TaskExit, tid);
                match value.as_ref().and_then(Value::borrow::<Json>) {
                    Some(json) => write_json(line, "value", json).end(),
                    None => line.end(),
                };
            }
            RecordKind::Failed(error) => {
                self.write_yields(page, tid, clock);
                let line = self.line(page, clock, RecordType::TaskAbort, tid);
                line.json("error", &error_json(&error)).end();
            }
            RecordKind::Cancelled(error) => {
                self.write_yields(page, tid, clock);
                let line = self.line(page, clock, RecordType::TaskCancel, tid);
                match error {
                    Some(error) => line.json("error", &error_json(&error)).end(),
                    None => line.end(),
                };
            }
        }
    }

    fn write_call(&mut self, page: &mut Page, tid: Tid, clock: Time, call: CallRecord) {
        page.called(call.kind);
        if call.kind == CallKind::Yield {
            match self.yields.get_mut(tid) {
                Some(count) => *count += 1,
                None => self.yields.insert(tid, 1),
            }
            return;
        }
        self.write_yields(page, tid, clock);
        let kind = match call.kind {
            CallKind::Spawn => RecordType::TaskSpawn,
            _ => RecordType::TaskYield,
        };
        let (line, sites) = page.line_and_sites(&mut self.chain, clock, kind, tid);
        let mut line = write_what(line, &call);
        if let Some(code) = call.error {
            line = line.str("error", code);
        }
        let seq = line.piece(sites.find(&call.at)).end();
        if waits(call.kind) && call.error.is_none() {
            self.waiting.insert(call.call.call, seq);
        }
    }

    /// A call that waited for time or for the log goes on.
    pub(crate) fn woken(
        &mut self,
        page: &mut Page,
        tid: Tid,
        clock: Time,
        step: u64,
        call: CallRef,
    ) {
        let Some(seq) = self.take(call) else { return };
        let line = self.line(page, clock, RecordType::TaskWake, tid);
        line.uint("of", seq).uint("step", step).end();
    }

    /// An effect is about to begin.
    pub(crate) fn effect_start(
        &mut self,
        page: &mut Page,
        tid: Tid,
        clock: Time,
        call: CallRef,
        attempt: u64,
    ) {
        let Some(seq) = self.seq_of(call) else { return };
        let line = self.line(page, clock, RecordType::EffectStart, tid);
        line.uint("of", seq).uint("attempt", attempt).end();
    }

    /// The work of an effect wants to find this again in its next attempt.
    pub(crate) fn effect_checkpoint(
        &mut self,
        page: &mut Page,
        (tid, clock): (Tid, Time),
        call: CallRef,
        (attempt, json): (u64, &str),
    ) {
        let Some(seq) = self.seq_of(call) else { return };
        let line = self.line(page, clock, RecordType::EffectCheckpoint, tid);
        write_value(line.uint("of", seq).uint("attempt", attempt), "value", json).end();
    }

    /// An attempt at an effect failed, and there will be another.
    pub(crate) fn effect_failed(
        &mut self,
        page: &mut Page,
        (tid, clock): (Tid, Time),
        call: CallRef,
        (attempt, error, retry_at): (u64, &TaskError, Time),
    ) {
        let Some(seq) = self.seq_of(call) else { return };
        let line = self.line(page, clock, RecordType::EffectResult, tid);
        line.uint("of", seq)
            .uint("attempt", attempt)
            .json("error", &error_json(error))
            .str("retry_at", Stamp::from_unix_nanos(retry_at.as_nanos()).as_str())
            .end();
    }

    /// An effect has its result.
    pub(crate) fn effect_result(
        &mut self,
        page: &mut Page,
        (tid, clock, step): (Tid, Time, u64),
        call: CallRef,
        result: &Result<Value, TaskError>,
        from: Giver,
    ) {
        let Some(seq) = self.take(call) else { return };
        let line = self.line(page, clock, RecordType::EffectResult, tid);
        let line = write_result(line.uint("of", seq).uint("step", step), result);
        match from {
            Giver::Work => line.end(),
            Giver::Parent => line.plain("from", "parent").end(),
        };
    }

    /// A person answered the question of a call.
    pub(crate) fn approval_decided(
        &mut self,
        page: &mut Page,
        at: (Tid, Time, u64),
        call: CallRef,
        answer: &Result<Value, TaskError>,
    ) {
        if let Some(seq) = self.take(call) {
            self.approval_decided_of(page, at, seq, answer);
        }
    }

    /// The same of a call that is known by its record.
    pub(crate) fn approval_decided_of(
        &mut self,
        page: &mut Page,
        (tid, clock, step): (Tid, Time, u64),
        seq: u64,
        answer: &Result<Value, TaskError>,
    ) {
        let line = self.line(page, clock, RecordType::ApprovalDecided, tid);
        write_result(line.uint("of", seq).uint("step", step), answer).end();
    }

    /// A fork may not do an effect.
    pub(crate) fn effect_refused(
        &mut self,
        page: &mut Page,
        (tid, clock): (Tid, Time),
        of: u64,
        name: &str,
    ) {
        let line = self.line(page, clock, RecordType::EffectRefused, tid);
        line.uint("of", of).str("name", name).end();
    }

    /// A fork may do effects of these names.
    pub(crate) fn effects_allowed(
        &mut self,
        page: &mut Page,
        clock: Time,
        names: &BTreeSet<String>,
    ) {
        let names = encode(names).unwrap_or_else(|_| "[]".into());
        self.line(page, clock, RecordType::EffectAllowed, Tid(1)).json("allow", &names).end();
    }

    /// A person decided on an effect that was in doubt.
    pub(crate) fn decided(
        &mut self,
        page: &mut Page,
        (tid, clock, step): (Tid, Time, u64),
        (of, attempt): (u64, u64),
        decision: &Decision,
    ) {
        self.waiting.retain(|_, seq| *seq != of || matches!(decision, Decision::Again));
        let line = self.line(page, clock, RecordType::EffectResult, tid);
        let line = line.uint("of", of).uint("attempt", attempt).str("decided", decision.word());
        match decision {
            Decision::Again => line,
            decided => write_result(line.uint("step", step), &decided.result()),
        }
        .end();
    }

    /// An external promise was settled.
    pub(crate) fn settled(
        &mut self,
        page: &mut Page,
        (clock, step): (Time, u64),
        promise: Uuid,
        result: &Result<Value, TaskError>,
    ) {
        let line = self.line(page, clock, RecordType::PromiseSettled, Tid(1));
        write_result(line.str("promise", &promise.to_string()).uint("step", step), result).end();
    }

    /// A message came; from another run, under the key of its call.
    pub(crate) fn message(
        &mut self,
        page: &mut Page,
        (clock, step): (Time, u64),
        (name, json): (&str, &str),
        from: Option<&str>,
    ) {
        let line = self.line(page, clock, RecordType::Message, Tid(1));
        let line = write_value(line.str("name", name), "value", json).uint("step", step);
        match from {
            Some(key) => line.str("from", key).end(),
            None => line.end(),
        };
    }

    /// Somebody outside cancelled the run.
    pub(crate) fn cancelled(&mut self, page: &mut Page, (clock, step): (Time, u64), how: Cancel) {
        let line = self.line(page, clock, RecordType::TaskWake, Tid(1));
        let line = line.str("why", "cancel").uint("step", step);
        match how {
            Cancel::Unwinds => line.end(),
            Cancel::Forces => line.piece(",\"force\":true").end(),
        };
    }

    /// The run is over. A failure that is not its root's own is told here: the root was cancelled for it.
    pub(crate) fn end(&mut self, page: &mut Page, clock: Time, failure: Option<&RunFailure>) {
        let error = match failure {
            None | Some(RunFailure::Root(_)) => return,
            Some(_) if self.failed => return,
            Some(failure) => failure_error(failure),
        };
        let line = self.line(page, clock, RecordType::TaskAbort, Tid(1));
        line.json("error", &error_json(&error)).end();
    }

    /// The process ends in good order.
    pub(crate) fn shutdown(&mut self, page: &mut Page, clock: Time) {
        self.line(page, clock, RecordType::ShutdownMarker, Tid(1)).end();
    }

    /// Begins a line about the run that a replay passes over.
    pub(super) fn note<'a>(
        &'a mut self,
        page: &'a mut Page,
        clock: Time,
        kind: RecordType,
    ) -> Line<'a> {
        self.line(page, clock, kind, Tid(1))
    }

    fn write_yields(&mut self, page: &mut Page, tid: Tid, clock: Time) {
        if let Some(count) = self.yields.remove(tid) {
            let line = self.line(page, clock, RecordType::TaskYield, tid);
            line.str("call", CallKind::Yield.tag()).uint("count", count).end();
        }
    }

    fn line<'a>(
        &'a mut self,
        page: &'a mut Page,
        clock: Time,
        kind: RecordType,
        tid: Tid,
    ) -> Line<'a> {
        page.line(&mut self.chain, clock, kind, tid)
    }
}

/// What a call is: all that a replay compares.
pub(super) fn write_what<'a>(mut line: Line<'a>, call: &CallRecord) -> Line<'a> {
    if call.kind != CallKind::Spawn {
        line = line.plain("call", call.kind.tag());
    }
    if let Some(name) = call.name {
        line = line.str("name", name);
    }
    write_about(line, &call.about)
}

/// A run's failure as the log has it.
pub(super) fn failure_error(failure: &RunFailure) -> TaskError {
    match failure {
        RunFailure::Root(error) | RunFailure::Limit(error) => error.clone(),
        RunFailure::Deadlock(report) => TaskError::new(ErrorKind::Deadlock, report.to_string()),
        other => TaskError::failed(format!("{other:?}")),
    }
}

fn write_about<'a>(line: Line<'a>, about: &About) -> Line<'a> {
    match about {
        About::Child { tid, name, daemon } => {
            let line = line.uint("child", tid.0);
            let line = match name {
                Some(name) => line.str("name", name),
                None => line,
            };
            if *daemon { line.piece(",\"daemon\":true") } else { line }
        }
        About::Task(tid) => line.uint("task", tid.0),
        About::Object(id) => line.uint("object", *id),
        // Never in a blob, however many they are: who looks at a log wants to see who waits for whom.
        About::Several(items) => line.piece(&format!(",\"items\":{}", waitables(items))),
        About::Key(key) => line.str("key", key),
        About::Time(time) => line.plain("time", Stamp::from_unix_nanos(time.as_nanos()).as_str()),
        // As text, because not every reader of JSON keeps 64 bits.
        About::Number(number) => line.digits("number", *number),
        About::Uuid(uuid) => line.str("uuid", &uuid.to_string()),
        About::Json(json) => line.json("about", json),
        About::Question { about, payload, until } => {
            let line = line.json("about", about);
            let line = match until {
                Some(until) => {
                    line.plain("time", Stamp::from_unix_nanos(until.as_nanos()).as_str())
                }
                None => line,
            };
            match payload {
                Some(json) => write_value(line, "payload", json),
                None => line,
            }
        }
        _ => line,
    }
}

fn waitables(items: &[Waitable]) -> String {
    let mut text = String::from("[");
    for (at, item) in items.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = match item {
            Waitable::Task(task) => write!(text, "{comma}{{\"task\":{}}}", task.tid.0),
            Waitable::Future(object) => write!(text, "{comma}{{\"object\":{}}}", object.id),
        };
    }
    text.push(']');
    text
}

/// Calls that wait for the world, which answers them by a record of its own.
pub(super) fn waits(kind: CallKind) -> bool {
    matches!(
        kind,
        CallKind::Sleep
            | CallKind::SleepUntil
            | CallKind::Effect
            | CallKind::Approve
            | CallKind::CreateExternalPromise
            | CallKind::ContinueAs
    )
}

/// Whether a value of the user's looks like something that has a meaning in the log.
fn is_marked(json: &str) -> bool {
    let inside = json.trim_start().strip_prefix('{');
    inside.is_some_and(|inside| inside.trim_start().starts_with("\"$"))
}

/// A value of the user's. Objects whose first name begins with `$` have a meaning in the log, so one that is a
/// value is wrapped.
pub(super) fn write_value<'a>(line: Line<'a>, field: &str, json: &str) -> Line<'a> {
    match is_marked(json) {
        true => line.json(field, &format!("{{\"$json\":{json}}}")),
        false => line.json(field, json),
    }
}

/// The same for one that is shared.
fn write_json<'a>(line: Line<'a>, field: &str, json: &Json) -> Line<'a> {
    match is_marked(&json.0) {
        true => write_value(line, field, &json.0),
        false => line.shared_json(field, &json.0, json.1),
    }
}

fn write_result<'a>(line: Line<'a>, result: &Result<Value, TaskError>) -> Line<'a> {
    match result {
        Ok(value) => match value.borrow::<Json>() {
            Some(json) => write_json(line, "value", json),
            None => line.json("value", "null"),
        },
        Err(error) => line.json("error", &error_json(error)),
    }
}

pub(super) fn error_json(error: &TaskError) -> String {
    encode(error).unwrap_or_else(|error| format!("{:?}", error.message()))
}
