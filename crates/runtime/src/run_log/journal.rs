//! One run's log while it is written: each record of the kernel, and each completion from outside,
//! becomes a line. The meaning of the lines is in the book, "WAL format".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use tiffany_kernel::{
    About, Attributes, CallId, CallKind, CallRecord, CallRef, ErrorKind, Record, RecordKind, Rules,
    Run, RunFailure, TaskError, Tid, Time, Uuid, Value, Waitable,
};

use crate::run_log::cancel::Cancel;
use crate::run_log::earlier::Continued;
use crate::run_log::hold::Hold;
use crate::run_log::notes::{References, is_note};
use crate::run_log::page::Page;
use crate::run_log::small_map::SmallMap;
use crate::run_log::terms::Terms;
use tiffany_log::{Chain, Line, RecordType, Stamp};
use tiffany_records::key::{Key, Number};
use tiffany_records::record::{
    self, ApprovalDecided, ApprovalWithdrawn, Digits, EffectAllowed, EffectCheckpoint,
    EffectRefused, EffectResult, EffectStart, Encode, Flag, Inline, Message, PromiseSettled,
    RunReleased, RunStart, ShutdownMarker, TaskAbort, TaskCancel, TaskExit, TaskSpawn, TaskWake,
    TaskYield, Text, Value as Written,
};
use tiffany_records::request::Decision;
use tiffany_records::value::{Json, encode};

/// Writes one run's lines.
pub(crate) struct Journal {
    pub(crate) chain: Chain,
    /// The numbers of the records of calls that wait for the world.
    waiting: SmallMap<CallId, u64>,
    /// The keys of such calls that were made in an earlier generation.
    older: BTreeMap<CallId, Number>,
    /// Yields that are not written yet, by task.
    yields: SmallMap<Tid, u64>,
    /// Tasks whose ends an earlier process wrote, and whether the run's failure was written.
    ended: BTreeSet<Tid>,
    failed: bool,
    /// Whether its code was interrupted in the middle of a turn, so that later records of the
    /// kernel are void.
    is_interrupted: bool,
    /// The calls and instructions that annotations refer to.
    pub(crate) references: References,
}

/// The lines that the runtime itself writes to the log of one run: messages, answers and other
/// completions from outside, and the results of its effects. No other type can write such lines,
/// and a journal hands out this one only after it has written the records of the kernel.
pub(crate) struct OwnLines<'a> {
    journal: &'a mut Journal,
    page: &'a mut Page,
    clock: Time,
    /// The turn of the run after which the lines come.
    step: u64,
}

/// The source of the result of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    /// Its work.
    Work,
    /// The run that this is a fork of.
    Parent,
}

/// The beginning of a run.
pub(crate) struct Started<'a> {
    pub(crate) id: &'a str,
    pub(crate) function: &'a str,
    pub(crate) input: &'a str,
    pub(crate) seed: u64,
    pub(crate) recording: &'a str,
    pub(crate) rules: Rules,
    /// The note of the language of its code, as JSON.
    pub(crate) language: Option<String>,
    /// The earlier generations, if this is a later one.
    pub(crate) continued: Option<&'a Continued>,
    pub(crate) terms: &'a Terms,
}

impl Journal {
    pub(crate) fn new(chain: Chain) -> Journal {
        let (waiting, yields) = (SmallMap::None, SmallMap::None);
        let (older, ended) = (BTreeMap::new(), BTreeSet::new());
        let (failed, is_interrupted) = (false, false);
        let references = References::default();
        Journal { chain, waiting, older, yields, ended, failed, is_interrupted, references }
    }

    /// Lines of the runtime for a run in memory, at this moment. The records of the kernel are
    /// written first. If the code of the run was interrupted, those records are void, and the lines
    /// are added at the end of the log.
    pub(crate) fn lines_now<'a>(
        &'a mut self,
        page: &'a mut Page,
        run: &mut Run,
        now: Time,
    ) -> OwnLines<'a> {
        run.set_clock(now);
        self.lines_after(page, run)
    }

    /// Lines at the moment of the run's last turn; see [`lines_now`](Journal::lines_now).
    pub(crate) fn lines_after<'a>(&'a mut self, page: &'a mut Page, run: &mut Run) -> OwnLines<'a> {
        self.write_records(page, run);
        let (clock, step) = (run.clock(), if self.is_interrupted { 0 } else { run.steps() });
        OwnLines { journal: self, page, clock, step }
    }

    /// Lines for a run that is not in memory, or whose generation has just begun: there are no records
    /// of the kernel to be written first.
    pub(crate) fn lines_without_turn<'a>(
        &'a mut self,
        page: &'a mut Page,
        clock: Time,
    ) -> OwnLines<'a> {
        OwnLines { journal: self, page, clock, step: 0 }
    }

    /// Writes the records of the kernel.
    pub(crate) fn write_records(&mut self, page: &mut Page, run: &mut Run) {
        let records = run.take_records();
        if !self.is_interrupted {
            self.write_all(page, records);
        }
    }

    /// Writes records of the kernel, for a run that is being resumed or whose end is forced.
    pub(crate) fn write_all(&mut self, page: &mut Page, records: impl IntoIterator<Item = Record>) {
        records.into_iter().for_each(|record| self.write(page, record));
    }

    /// Notes that the code of the run was interrupted in the middle of a turn.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Whether the code of the run was interrupted in the middle of a turn, so that it can continue only from its log.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    pub(crate) fn run(&self) -> Uuid {
        self.chain.run()
    }

    /// The number of the record of a call that waits for the world.
    pub(crate) fn seq_of(&self, call: CallRef) -> Option<u64> {
        self.waiting.get(call.call).copied()
    }

    /// The key of such a call.
    pub(crate) fn key_of(&self, call: CallRef) -> Option<Key> {
        Some(Key { run: self.run(), number: self.number(call.call, self.seq_of(call)?) })
    }

    fn number(&self, call: CallId, seq: u64) -> Number {
        let number = Number { generation: self.chain.generation(), seq };
        self.older.get(&call).copied().unwrap_or(number)
    }

    /// Begins a new generation. Returns the numbers of the calls that wait.
    pub(crate) fn begin_generation(&mut self) -> BTreeMap<CallId, Number> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut calls = BTreeMap::new();
        waiting.for_each(|call, seq| {
            calls.insert(call, self.number(call, *seq));
        });
        self.older.clear();
        self.yields = SmallMap::None;
        self.chain = self.chain.next_generation();
        calls
    }

    /// Writes a call again that has waited since an earlier generation, with the number that it had
    /// there.
    pub(crate) fn write_again(
        &mut self,
        page: &mut Page,
        (tid, clock): (Tid, Time),
        call: CallRecord,
        number: Option<Number>,
    ) {
        let run = self.run();
        let (line, sites) = page.line_and_sites(&mut self.chain, clock, RecordType::TaskYield, tid);
        let line = write_call(line, &call, Some(sites.find(&call.at)));
        let seq = match number {
            Some(number) => line.str("key", &Key { run, number }.to_string()).end(),
            None => line.end(),
        };
        self.older.extend(number.map(|number| (call.call.call, number)));
        if call.kind.is_outward() {
            self.references.called(tid, Number { generation: self.chain.generation(), seq });
        }
        if waits(call.kind) {
            self.waiting.insert(call.call.call, seq);
        }
    }

    /// Writes all tables of the run, and how many lines follow.
    pub(crate) fn snapshot(
        &mut self,
        page: &mut Page,
        clock: Time,
        (crc_before, lines): (u32, u64),
        tables: &str,
    ) {
        let after = format!("{crc_before:08x}");
        let (after, lines) = (Some(Text::Safe(&after)), Some(lines));
        // However long they are, they are needed as long as the generation is, and no longer.
        let tables = Some(Inline(tables));
        self.put(page, (Tid(1), clock), &record::Snapshot { after, lines, tables });
    }

    /// Notes that a call does not wait any more.
    pub(crate) fn over(&mut self, call: CallRef) {
        self.take(call);
    }

    /// Notes which ends the log has already.
    pub(crate) fn has_ends(&mut self, ended: impl Iterator<Item = Tid>, failed: bool) {
        self.ended.extend(ended);
        self.failed = failed;
    }

    /// Notes the record of a call, which a replay has found. A call of an earlier generation keeps
    /// its number from there.
    pub(crate) fn adopt(&mut self, call: CallRef, seq: u64, number: Option<Number>) {
        self.waiting.insert(call.call, seq);
        self.older.extend(number.map(|number| (call.call, number)));
    }

    /// Forgets a call that does not wait any more.
    fn take(&mut self, call: CallRef) -> Option<u64> {
        if !self.older.is_empty() {
            self.older.remove(&call.call);
        }
        self.waiting.remove(call.call)
    }

    pub(crate) fn start(&mut self, page: &mut Page, clock: Time, started: &Started<'_>) {
        let continued = started.continued.and_then(|continued| encode(continued).ok());
        let terms = started.terms.fields();
        let start = terms.put(
            RunStart {
                // Logs had no such field before there were others.
                rules: (started.rules != Rules::First).then(|| started.rules.number()),
                id: Some(started.id.into()),
                function: Some(started.function.into()),
                fork: None,
                continued: continued.as_deref().map(record::Json),
                input: Some(Written::Plain(started.input)),
                seed: Some(Digits::Number(started.seed)),
                recording: Some(started.recording.into()),
                language: started.language.as_deref().map(record::Json),
                ..RunStart::default()
            },
            &started.terms.namespace,
        );
        let line = page.line(&mut self.chain, clock, RunStart::TYPE, Tid(1));
        start.write(line).of_version(start.version()).end();
    }

    /// Writes a record of the kernel.
    fn write(&mut self, page: &mut Page, record: Record) {
        let Record { tid, clock, step, kind } = record;
        if kind.is_end() {
            self.references.ended(tid);
        }
        match kind {
            RecordKind::Completed(_) | RecordKind::Failed(_) | RecordKind::Cancelled(_)
                if !self.ended.is_empty() && self.ended.remove(&tid) => {}
            RecordKind::Called(call) => self.write_call(page, tid, clock, call),
            RecordKind::Woken(call) => self.woken(page, (tid, clock, step), call),
            RecordKind::Withdrawn(call) => drop(self.take(call)),
            RecordKind::Unasked(call) => {
                let Some(seq) = self.take(call) else { return };
                self.put(page, (tid, clock), &ApprovalWithdrawn { of: Some(seq) });
            }
            RecordKind::CutShort => self.told(page, (tid, clock, step), "cut_short", false),
            RecordKind::OverTime => self.told(page, (tid, clock, step), "over_time", false),
            RecordKind::PastDeadline => self.past_deadline(page, (tid, clock, step)),
            RecordKind::Completed(value) => {
                self.write_yields(page, tid, clock);
                let value = value.as_ref().and_then(Value::borrow::<Json>).map(written);
                self.put(page, (tid, clock), &TaskExit { value });
            }
            RecordKind::Failed(error) => {
                self.write_yields(page, tid, clock);
                let error = error_json(&error);
                self.put(page, (tid, clock), &TaskAbort { error: Some(Written::Plain(&error)) });
            }
            RecordKind::Cancelled(error) => {
                self.write_yields(page, tid, clock);
                let error = error.as_ref().map(error_json);
                let error = error.as_deref().map(Written::Plain);
                self.put(page, (tid, clock), &TaskCancel { error });
            }
        }
    }

    /// Records a completion that is not an answer to a call.
    fn told(
        &mut self,
        page: &mut Page,
        (tid, clock, step): (Tid, Time, u64),
        why: &'static str,
        force: bool,
    ) {
        let (why, step, force) = (Some(Text::Safe(why)), Some(step), Flag(force));
        self.put(page, (tid, clock), &TaskWake { of: None, why, step, force });
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
        if is_note(&call) {
            return self.write_note(page, (tid, clock), &call);
        }
        let kind = match call.kind {
            CallKind::Spawn => RecordType::TaskSpawn,
            _ => RecordType::TaskYield,
        };
        let (line, sites) = page.line_and_sites(&mut self.chain, clock, kind, tid);
        let seq = write_call(line, &call, Some(sites.find(&call.at))).end();
        if call.error.is_some() {
            return;
        }
        if call.kind.is_outward() {
            self.references.called(tid, Number { generation: self.chain.generation(), seq });
        }
        if let About::Child { tid: child, .. } = call.about {
            self.references.spawned(tid, child);
        }
        if waits(call.kind) {
            self.waiting.insert(call.call.call, seq);
        }
    }

    /// Records that the deadline of the run passed.
    fn past_deadline(&mut self, page: &mut Page, at: (Tid, Time, u64)) {
        self.told(page, at, "deadline", false);
    }

    /// Records that a call no longer waits for time or for the log.
    fn woken(&mut self, page: &mut Page, (tid, clock, step): (Tid, Time, u64), call: CallRef) {
        let Some(seq) = self.take(call) else { return };
        let wake = TaskWake { of: Some(seq), why: None, step: Some(step), force: Flag(false) };
        self.put(page, (tid, clock), &wake);
    }

    fn write_yields(&mut self, page: &mut Page, tid: Tid, clock: Time) {
        if let Some(count) = self.yields.remove(tid) {
            let call = Some(Text::Safe(CallKind::Yield.tag()));
            let yields = TaskYield { call, count: Some(count), ..TaskYield::default() };
            self.put(page, (tid, clock), &yields);
        }
    }

    /// Writes a record, and returns its number.
    fn put<R: Encode>(&mut self, page: &mut Page, (tid, clock): (Tid, Time), record: &R) -> u64 {
        record.write(page.line(&mut self.chain, clock, R::TYPE, tid)).end()
    }
}

impl OwnLines<'_> {
    fn put<R: Encode>(&mut self, tid: Tid, record: &R) {
        self.journal.put(self.page, (tid, self.clock), record);
    }

    /// The moment of these lines.
    pub(crate) fn clock(&self) -> Time {
        self.clock
    }

    /// The number of the record of a call that waits for the world.
    pub(crate) fn seq_of(&self, call: CallRef) -> Option<u64> {
        self.journal.seq_of(call)
    }

    /// The turn of the run after which these lines come.
    pub(crate) fn turn(&self) -> u64 {
        self.step
    }

    /// Records that a call no longer waits for the log.
    pub(crate) fn woken(&mut self, tid: Tid, call: CallRef) {
        self.journal.woken(self.page, (tid, self.clock, self.step), call);
    }

    /// Records that an attempt at an effect starts.
    pub(crate) fn effect_start(&mut self, tid: Tid, call: CallRef, attempt: u64) {
        let Some(seq) = self.journal.seq_of(call) else { return };
        self.put(tid, &EffectStart { of: Some(seq), attempt: Some(attempt) });
    }

    /// Records a checkpoint of an effect, for its next attempt.
    pub(crate) fn effect_checkpoint(
        &mut self,
        tid: Tid,
        call: CallRef,
        (attempt, json): (u64, &str),
    ) {
        let Some(seq) = self.journal.seq_of(call) else { return };
        let value = Some(Written::Plain(json));
        self.put(tid, &EffectCheckpoint { of: Some(seq), attempt: Some(attempt), value });
    }

    /// Records that an attempt at an effect failed and that there will be another.
    pub(crate) fn effect_failed(
        &mut self,
        tid: Tid,
        call: CallRef,
        (attempt, error, retry_at): (u64, &TaskError, Time),
    ) {
        let Some(seq) = self.journal.seq_of(call) else { return };
        let (error, retry_at) = (error_json(error), Stamp::from_unix_nanos(retry_at.as_nanos()));
        let failed = EffectResult {
            of: Some(seq),
            attempt: Some(attempt),
            error: Some(Written::Plain(&error)),
            retry_at: Some(Text::Safe(retry_at.as_str())),
            ..EffectResult::default()
        };
        self.put(tid, &failed);
    }

    /// Records the result of an effect.
    pub(crate) fn effect_result(
        &mut self,
        tid: Tid,
        call: CallRef,
        result: &Result<Value, TaskError>,
        from: Giver,
    ) {
        let Some(seq) = self.journal.take(call) else { return };
        let error = error_of(result);
        let ended = EffectResult {
            of: Some(seq),
            step: Some(self.step),
            value: value_of(result),
            error: error.as_deref().map(Written::Plain),
            from: matches!(from, Giver::Parent).then_some(Text::Safe("parent")),
            ..EffectResult::default()
        };
        self.put(tid, &ended);
    }

    /// Records a person's answer to the question of a call.
    pub(crate) fn approval_decided(
        &mut self,
        tid: Tid,
        call: CallRef,
        answer: &Result<Value, TaskError>,
    ) {
        if let Some(seq) = self.journal.take(call) {
            self.approval_decided_of(tid, seq, answer);
        }
    }

    /// Records a person's answer to the question of a call that is known by its record.
    pub(crate) fn approval_decided_of(
        &mut self,
        tid: Tid,
        seq: u64,
        answer: &Result<Value, TaskError>,
    ) {
        let error = error_of(answer);
        let decided = ApprovalDecided {
            of: Some(seq),
            step: Some(self.step),
            value: value_of(answer),
            error: error.as_deref().map(Written::Plain),
            ..ApprovalDecided::default()
        };
        self.put(tid, &decided);
    }

    /// Records that a fork is not allowed an effect.
    pub(crate) fn effect_refused(&mut self, tid: Tid, of: u64, name: &str) {
        self.put(tid, &EffectRefused { of: Some(of), name: Some(name.into()) });
    }

    /// Records that a fork is allowed effects of these names.
    pub(crate) fn effects_allowed(&mut self, names: &BTreeSet<String>) {
        let names = encode(names).unwrap_or_else(|_| "[]".into());
        self.put(Tid(1), &EffectAllowed { allow: Some(record::Json(&names)) });
    }

    /// Records a person's decision on an effect in doubt, which is identified by its record.
    pub(crate) fn decided(&mut self, tid: Tid, (of, attempt): (u64, u64), decision: &Decision) {
        let is_again = matches!(decision, Decision::Again);
        self.journal.waiting.retain(|_, seq| *seq != of || is_again);
        let result = (!is_again).then(|| decision.result());
        let error = result.as_ref().and_then(error_of);
        let decided = EffectResult {
            of: Some(of),
            attempt: Some(attempt),
            decided: Some(decision.word().into()),
            step: result.is_some().then_some(self.step),
            value: result.as_ref().and_then(value_of),
            error: error.as_deref().map(Written::Plain),
            ..EffectResult::default()
        };
        self.put(tid, &decided);
    }

    /// Records that an external promise was settled.
    pub(crate) fn settled(&mut self, promise: Uuid, result: &Result<Value, TaskError>) {
        let (promise, error) = (promise.to_string(), error_of(result));
        let settled = PromiseSettled {
            promise: Some(Text::Safe(&promise)),
            step: Some(self.step),
            value: value_of(result),
            error: error.as_deref().map(Written::Plain),
            ..PromiseSettled::default()
        };
        self.put(Tid(1), &settled);
    }

    /// Records a message. If another run sent it, the key is that of the call that did.
    pub(crate) fn message(&mut self, (name, json): (&str, &str), from: Option<&str>) {
        let message = Message {
            name: Some(name.into()),
            value: Some(Written::Plain(json)),
            step: Some(self.step),
            from: from.map(Text::Plain),
            ..Message::default()
        };
        self.put(Tid(1), &message);
    }

    /// Records that the run was cancelled from outside.
    pub(crate) fn cancelled(&mut self, how: Cancel) {
        let at = (Tid(1), self.clock, self.step);
        self.journal.told(self.page, at, "cancel", matches!(how, Cancel::Forces));
    }

    /// Records that the deadline of the run passed.
    pub(crate) fn past_deadline(&mut self) {
        let at = (Tid(1), self.clock, self.step);
        self.journal.past_deadline(self.page, at);
    }

    /// Records the tags and attributes with which the run ended.
    pub(crate) fn last_attributes(&mut self, whole: &Attributes) {
        self.journal.last_attributes(self.page, self.clock, whole);
    }

    /// Records that the run is held.
    pub(crate) fn held(&mut self, hold: &Hold) {
        let why = hold.why();
        self.put(Tid(1), &hold.record(&why));
    }

    /// Records that the run is released.
    pub(crate) fn released(&mut self, by: &str, why: Option<&str>) {
        let released = RunReleased { by: Some(Text::Plain(by)), why: why.map(Text::Plain) };
        self.put(Tid(1), &released);
    }

    /// Records the end of the run, if it failed by a deadlock or a limit: its root was only cancelled.
    pub(crate) fn end(&mut self, failure: Option<&RunFailure>) {
        let error = match failure {
            None | Some(RunFailure::Root(_)) => return,
            Some(_) if self.journal.failed => return,
            Some(failure) => failure_error(failure),
        };
        let error = error_json(&error);
        self.put(Tid(1), &TaskAbort { error: Some(Written::Plain(&error)) });
    }

    /// Records that the process ended in an orderly way.
    pub(crate) fn shutdown(&mut self) {
        self.put(Tid(1), &ShutdownMarker {});
    }
}

/// A call in the form of the log. A replay compares all of it but the line of code.
pub(crate) fn write_call<'l>(line: Line<'l>, call: &CallRecord, at: Option<&str>) -> Line<'l> {
    let (error, at) = (call.error.map(Text::Safe), at.map(Text::Json));
    if let About::Child { tid, name, daemon } = &call.about {
        let (child, name) = (Some(tid.0), name.as_deref().map(Text::Plain));
        return TaskSpawn { child, name, daemon: Flag(*daemon), error, at }.write(line);
    }
    let (uuid, time, items);
    let mut made = TaskYield {
        call: (call.kind != CallKind::Spawn).then(|| Text::Safe(call.kind.tag())),
        name: call.name.map(Text::Plain),
        error,
        at,
        ..TaskYield::default()
    };
    let stamp = |time: &Time| Stamp::from_unix_nanos(time.as_nanos());
    match &call.about {
        About::Task(tid) => made.task = Some(tid.0),
        About::Object(id) => made.object = Some(*id),
        About::Several(several) => {
            items = waitables(several);
            made.items = Some(Inline(&items));
        }
        About::Key(key) => made.key = Some(Text::Plain(key)),
        About::Time(moment) => {
            time = stamp(moment);
            made.time = Some(Text::Safe(time.as_str()));
        }
        About::Number(number) => made.number = Some(Digits::Number(*number)),
        About::Uuid(id) => {
            uuid = id.to_string();
            made.uuid = Some(Text::Safe(&uuid));
        }
        About::Json(json) => made.about = Some(record::Json(json)),
        About::Question { about, payload, until } => {
            made.about = Some(record::Json(about));
            if let Some(until) = until {
                time = stamp(until);
                made.time = Some(Text::Safe(time.as_str()));
            }
            made.payload = payload.as_deref().map(Written::Plain);
        }
        _ => {}
    }
    made.write(line)
}

/// A run's failure in the form of the log.
pub(crate) fn failure_error(failure: &RunFailure) -> TaskError {
    match failure {
        RunFailure::Root(error) | RunFailure::Limit(error) => error.clone(),
        RunFailure::Deadlock(report) => TaskError::new(ErrorKind::Deadlock, report.to_string()),
        other => TaskError::failed(format!("{other:?}")),
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
pub(crate) fn waits(kind: CallKind) -> bool {
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

fn written(json: &Json) -> Written<'_> {
    Written::Shared(&json.0, json.1.as_ref())
}

/// The value of a result, if it has one.
fn value_of(result: &Result<Value, TaskError>) -> Option<Written<'_>> {
    let value = result.as_ref().ok()?;
    Some(value.borrow::<Json>().map_or(Written::Plain("null"), written))
}

/// The error of a result, if it has one.
fn error_of(result: &Result<Value, TaskError>) -> Option<String> {
    result.as_ref().err().map(error_json)
}

pub(crate) fn error_json(error: &TaskError) -> String {
    encode(error).unwrap_or_else(|error| format!("{:?}", error.message()))
}
