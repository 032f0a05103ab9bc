//! A decoded log of a run: the calls of each task, and the completions from outside, in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use tiffany_kernel::{Attributes, CallKind, TaskError, Tid, Time, Uuid, Value};

use crate::run_log::cancel::Cancel;
use crate::run_log::earlier::Continued;
use crate::run_log::hold::HoldState;
use crate::run_log::notes::References;
use crate::run_log::replay::halt::Means;
use crate::run_log::snapshot::Snapshot;
use crate::run_log::terms::Terms;
use tiffany_log::{BlobTotal, Fields, LogError, LogLine, Payload, Redactor, Stamp};
use tiffany_records::call_words::call_shown;
use tiffany_records::key::{Key, Number, Received};
use tiffany_records::record::{
    self, EffectEnd, EffectResult, Forked, Inline, Record, RunStart, TaskYield, Value as Written,
    Wake, owned,
};
use tiffany_records::redact::Redactions;
use tiffany_records::request::stamped;
use tiffany_records::value::{Json, decode};

/// The beginning of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    pub(crate) id: String,
    pub(crate) function: String,
    pub(crate) input: String,
    pub(crate) seed: u64,
    pub(crate) recording: String,
    /// The number of the rules about ends that it follows, if it has one.
    pub(crate) rules: Option<u64>,
    pub(crate) started: Time,
    /// The note of the language of its code, as JSON.
    pub(crate) language: Option<String>,
    /// The earlier generations, if this is a later one.
    pub(crate) continued: Option<Continued>,
    /// Its namespace, deadline, tags and attributes.
    pub(crate) terms: Terms,
    /// The generation that the log has.
    pub(crate) generation: u32,
    /// The generation of the run that it is a fork of.
    forked_generation: u32,
}

/// A recorded outward call. Its arguments are read when they are compared.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) seq: u64,
    pub(crate) kind: CallKind,
    pub(crate) clock: Time,
    /// The fields of its record, in the form of the log.
    fields: Rc<str>,
}

/// A completion from outside.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) seq: u64,
    pub(crate) what: What,
    /// How many turns the run had had; 0 also if that is not known, because the run was not running.
    pub(crate) step: u64,
    /// How many lines there were of calls that are not outward.
    pub(crate) inward: u64,
    /// How many outward calls had been made.
    pub(crate) after: usize,
    pub(crate) clock: Time,
}

#[derive(Clone)]
pub(crate) enum What {
    /// A timer was due, or the log had the record that a call waited for.
    Woken {
        of: u64,
    },
    /// An effect had its result.
    Effect {
        of: u64,
        result: Result<Value, TaskError>,
    },
    /// A person answered.
    Decided {
        of: u64,
        answer: Result<Value, TaskError>,
    },
    Settled {
        promise: Uuid,
        result: Result<Value, TaskError>,
    },
    Message {
        name: Rc<str>,
        value: Value,
    },
    Cancel(Cancel),
    CutShort(Tid),
    OverTime,
    PastDeadline,
}

/// Where a run was forked from another.
#[derive(Clone, Debug)]
pub(crate) struct ForkPoint {
    /// The run it was forked from, and the record there.
    pub(crate) parent: Uuid,
    pub(crate) at: u64,
    /// The generation of that run that the record is of.
    pub(crate) generation: u32,
    /// How many random numbers it had drawn since the last fork, and where they come from after that.
    pub(crate) draws: u64,
    pub(crate) seed: u64,
    /// The time of the fork.
    pub(crate) clock: Option<Time>,
}

/// The attempts at an effect in the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun {
    /// Whether a fork is not allowed it.
    pub(crate) is_refused: bool,
    /// The number of the last one.
    pub(crate) attempt: u64,
    /// Whether it has no result.
    pub(crate) is_open: bool,
    /// Whether an earlier one had none, or had exceeded its time.
    pub(crate) cut_off: bool,
    /// How many failed, and when the next one is due after the last of these.
    pub(crate) failures: u64,
    pub(crate) retry_at: Option<Time>,
    /// Its last checkpoint, as JSON.
    pub(crate) checkpoint: Option<Arc<str>>,
}

/// A whole log.
#[derive(Clone, Default)]
pub struct DecodedLog {
    /// A call that is matched with its record although it differs.
    pub(crate) accepted: Option<u64>,
    /// Whether calls were taken out or moved.
    edited: bool,
    /// Whether the calls of tasks are kept, to be compared with the log in full.
    pub(crate) is_traced: bool,
    pub(crate) beginning: Beginning,
    /// The moment of the last record.
    moment: Option<Stamp>,
    /// By task, in order.
    pub(crate) calls: BTreeMap<Tid, VecDeque<Recorded>>,
    pub(crate) told: VecDeque<Told>,
    /// The snapshot that it begins with, if there is one.
    pub(crate) snapshot: Option<Rc<Snapshot>>,
    /// The last record that the snapshot needs, and the last one of the log.
    needs: u64,
    last: u64,
    /// The state of the steps of an earlier generation, by their tasks, and the numbers of their calls.
    taken_over: BTreeMap<Tid, Begun>,
    pub(crate) numbers: BTreeMap<u64, Number>,
    /// Questions that were withdrawn, by the records of their calls.
    pub(crate) unasked: BTreeSet<u64>,
    /// Promises that were made for others to settle.
    pub(crate) promises: BTreeSet<Uuid>,
    /// How many calls there are in all.
    pub(crate) total: usize,
    /// Effects that had started.
    pub(crate) begun: BTreeMap<u64, Begun>,
    /// The messages of other runs.
    pub(crate) received: Received,
    /// How many calls of each task since its last outward one were not outward.
    pub(crate) shown: BTreeMap<Tid, u64>,
    /// How many of these all tasks had made, and how many tasks had ended.
    inward: u64,
    /// Tasks that had ended, and whether the run's own failure was told after that.
    pub(crate) ended: BTreeMap<Tid, u64>,
    pub(crate) failed: bool,
    /// Tasks that were cut short, and whether the run had exceeded its time.
    pub(crate) cut_short: BTreeSet<Tid>,
    pub(crate) over_time: bool,
    /// Whether its deadline passed.
    pub(crate) is_past_deadline: bool,
    /// How many notes of each kind each task had written since its last call that concerns the world.
    pub(crate) notes: BTreeMap<(Tid, CallKind), u64>,
    /// The targets of annotations at its end.
    pub(crate) references: References,
    /// Its tags and attributes at its end.
    pub(crate) attributes: Attributes,
    /// Where it was forked; a fork of a fork was forked twice.
    pub(crate) forks: Vec<ForkPoint>,
    /// How many random numbers were drawn since the last fork.
    draws: u64,
    /// The effects that a fork is allowed, and the promises that it shares with its parent.
    pub(crate) allowed: BTreeSet<String>,
    pub(crate) inherited: BTreeSet<Uuid>,
    /// Whether only its input and its outcome are left.
    pub(crate) is_compacted: bool,
    /// Whether it is held.
    pub(crate) hold: HoldState,
    /// The blobs that it names.
    pub(crate) blobs: BlobTotal,
    /// How the root had ended.
    pub outcome: Option<Result<String, TaskError>>,
}

/// The kind of a recorded call that concerned the world and was not refused.
fn outward_kind(call: &TaskYield<'_>) -> Option<CallKind> {
    match call.error {
        Some(_) => None,
        None => call.kind().filter(|kind| kind.is_outward()),
    }
}

/// The meaning of a record for a replay.
pub(crate) fn means(record: &Record<'_>) -> Means {
    match record {
        Record::TaskSpawn(_) => Means::Call,
        Record::TaskYield(call) => match outward_kind(call) {
            Some(_) => Means::Call,
            None => Means::Shown(call.count.unwrap_or(1)),
        },
        record if record.is_end() => Means::End,
        record if note_kind(record).is_some() => Means::Shown(1),
        _ => Means::Other,
    }
}

/// The call that left this record, if a replay doesn't compare it.
fn note_kind(record: &Record<'_>) -> Option<CallKind> {
    match record {
        // The last line of a run repeats what was there, and belongs to no call.
        Record::Attributes(whole) => whole.at.map(|_| CallKind::SetAttributes),
        record => record.annotation().map(|_| CallKind::Annotate),
    }
}

/// Reads a payload that is in a file of its own.
pub(crate) type Fetch<'a> = &'a dyn Fn(&Payload<'_>) -> Result<String, LogError>;

impl DecodedLog {
    /// Adds the next record.
    pub(crate) fn add(&mut self, line: &LogLine<'_>, fetch: Fetch<'_>) -> Result<(), LogError> {
        let clock = self.moment.get_or_insert_with(|| Stamp::from_unix_nanos(0)).read(line.ts);
        let clock = clock.map_or(Time::ZERO, Time::from_nanos);
        self.last = line.seq;
        let told = (line.seq, clock);
        let record = &Record::read(line);
        self.references.add(line, record, self.beginning.generation);
        match record {
            Record::RunStart(start) => {
                self.begin(start, clock, fetch)?;
                self.beginning.generation = line.generation().unwrap_or(1);
            }
            Record::Snapshot(snapshot) => self.begin_with(line.seq, snapshot),
            Record::TaskSpawn(_) => self.add_call(line, CallKind::Spawn, clock),
            Record::TaskYield(call) => self.called(line, call, clock),
            Record::TaskWake(wake) => {
                let what = match wake.wake() {
                    Wake::Cancel { force: true } => What::Cancel(Cancel::Forces),
                    Wake::Cancel { force: false } => What::Cancel(Cancel::Unwinds),
                    Wake::CutShort => {
                        self.cut_short.insert(line.tid);
                        What::CutShort(line.tid)
                    }
                    Wake::OverTime => {
                        self.over_time = true;
                        What::OverTime
                    }
                    Wake::Deadline => {
                        self.is_past_deadline = true;
                        What::PastDeadline
                    }
                    Wake::Call(of) => What::Woken { of },
                    Wake::Unknown => What::Woken { of: wake.of.unwrap_or(0) },
                };
                self.add_told(told, what, wake.step);
            }
            Record::EffectStart(start) => {
                let begun = self.begun.entry(start.of.unwrap_or(0)).or_default();
                begun.cut_off |= begun.is_open;
                begun.attempt = start.attempt.unwrap_or(begun.attempt.saturating_add(1));
                (begun.is_open, begun.retry_at) = (true, None);
            }
            Record::EffectCheckpoint(checkpoint) => {
                let kept = text_of(checkpoint.value, fetch)?;
                let begun = self.begun.entry(checkpoint.of.unwrap_or(0)).or_default();
                begun.checkpoint = kept.map(Into::into);
            }
            Record::EffectResult(result) => self.effect_ended(told, result, fetch)?,
            Record::ApprovalDecided(decided) => {
                let answer = result(decided.value, decided.error, fetch)?;
                let answer = answer.map(|answer| stamped(&answer, clock));
                let of = decided.of.unwrap_or(0);
                self.add_told(told, What::Decided { of, answer }, decided.step);
            }
            Record::ApprovalWithdrawn(withdrawn) => self.unasked.extend(withdrawn.of),
            Record::PromiseSettled(settled) => {
                let promise = settled.promise.and_then(|text| Uuid::parse(&text.get()));
                if let Some(promise) = promise {
                    let result = result(settled.value, settled.error, fetch)?;
                    self.add_told(told, What::Settled { promise, result }, settled.step);
                }
            }
            Record::Message(message) => {
                let name = owned(message.name).into();
                let value = written(message.value, fetch)?;
                let from = message.from.and_then(|key| Key::parse(&key.get()));
                from.into_iter().for_each(|key| self.received.add(key));
                self.add_told(told, What::Message { name, value }, message.step);
            }
            record @ (Record::TaskExit(_) | Record::TaskAbort(_) | Record::TaskCancel(_)) => {
                let again = self.ended.insert(line.tid, line.seq).is_some();
                self.inward = self.inward.saturating_add(1);
                self.failed |= again && line.tid == Tid(1);
                if line.tid == Tid(1) {
                    self.outcome = Some(outcome(record, fetch)?);
                }
            }
            Record::Forked(forked) => self.fork(line, forked),
            Record::EffectRefused(refused) => {
                self.begun.entry(refused.of.unwrap_or(0)).or_default().is_refused = true;
            }
            Record::EffectAllowed(allowed) => self.allowed.extend(allowed.names()),
            Record::Compacted(compacted) => {
                self.is_compacted = true;
                let keys = compacted.received.and_then(|Inline(json)| decode(json).ok());
                self.received = Received::of_keys(&keys.unwrap_or_default() as &Vec<String>);
            }
            record @ (Record::RunHeld(_) | Record::RunReleased(_)) => self.hold.add(record),
            Record::Attributes(whole) => {
                self.attributes = whole.read_all();
                self.add_note(line, record);
            }
            Record::InstructionStart(_)
            | Record::LLMPlan(_)
            | Record::StepStart(_)
            | Record::ToolResult(_)
            | Record::PatchPreview(_)
            | Record::Commit(_)
            | Record::TaskComplete(_) => self.add_note(line, record),
            // Types that are not known here change nothing in the run.
            Record::ShutdownMarker(_) | Record::Captured(_) | Record::Unknown => {}
        }
        Ok(())
    }

    fn add_note(&mut self, line: &LogLine<'_>, record: &Record<'_>) {
        if let Some(kind) = note_kind(record) {
            *self.notes.entry((line.tid, kind)).or_default() += 1;
            self.inward = self.inward.saturating_add(1);
        }
    }

    fn called(&mut self, line: &LogLine<'_>, call: &TaskYield<'_>, clock: Time) {
        let Some(kind) = outward_kind(call) else {
            let count = call.count.unwrap_or(1);
            let shown = self.shown.entry(line.tid).or_default();
            *shown = shown.saturating_add(count);
            self.inward = self.inward.saturating_add(count);
            return;
        };
        match kind {
            CallKind::CreateExternalPromise => {
                self.promises.extend(call.uuid.and_then(|text| Uuid::parse(&text.get())));
            }
            CallKind::Effect => {
                let key = call.key.and_then(|key| Key::parse(&key.get()));
                self.numbers.extend(key.map(|key| (line.seq, key.number)));
                let begun = self.taken_over.remove(&line.tid);
                self.begun.extend(begun.map(|begun| (line.seq, begun)));
            }
            CallKind::Random => self.draws += 1,
            _ => {}
        }
        self.add_call(line, kind, clock);
    }

    fn effect_ended(
        &mut self,
        told: (u64, Time),
        ended: &EffectResult<'_>,
        fetch: Fetch<'_>,
    ) -> Result<(), LogError> {
        let of = ended.of.unwrap_or(0);
        match ended.end() {
            EffectEnd::Again => self.begun.entry(of).or_default().is_open = false,
            EffectEnd::Retry(at) => {
                let begun = self.begun.entry(of).or_default();
                begun.failures += 1;
                begun.is_open = false;
                // A step that failed in this way may have happened all the same.
                begun.cut_off |= ended.error.is_some_and(|error| {
                    let doubtful =
                        |kind: &str| error.json().starts_with(&format!("{{\"kind\":\"{kind}\""));
                    doubtful("TimedOut") || doubtful("InDoubt")
                });
                let at = Stamp::parse(&at.get());
                begun.retry_at = at.map(|stamp| Time::from_nanos(stamp.unix_nanos()));
            }
            EffectEnd::Over(_) => {
                self.begun.remove(&of);
                let result = result(ended.value, ended.error, fetch)?;
                self.add_told(told, What::Effect { of, result }, ended.step);
            }
        }
        Ok(())
    }

    fn begin(
        &mut self,
        start: &RunStart<'_>,
        clock: Time,
        fetch: Fetch<'_>,
    ) -> Result<(), LogError> {
        self.beginning = Beginning {
            id: owned(start.id),
            function: owned(start.function),
            input: text_of(start.input, fetch)?.unwrap_or_else(|| "null".into()),
            seed: start.seed.and_then(|seed| seed.get()).unwrap_or(0),
            recording: owned(start.recording),
            rules: start.rules,
            started: clock,
            language: start.language.map(|record::Json(json)| json.to_owned()),
            continued: start.continued.and_then(|record::Json(json)| decode(json).ok()),
            terms: Terms::read(start),
            generation: 1,
            forked_generation: start
                .fork
                .and_then(|record::Json(json)| forked_generation(json))
                .unwrap_or(1),
        };
        self.attributes = self.beginning.terms.attributes.clone();
        if let Some(continued) = &self.beginning.continued {
            self.received = continued.received();
        }
        Ok(())
    }

    /// Reads the tables from which the run continues. An error in them is reported when the run is
    /// restored.
    fn begin_with(&mut self, seq: u64, record: &record::Snapshot<'_>) {
        let snapshot = record.tables.and_then(|Inline(json)| serde_json::from_str(json).ok());
        let snapshot: Rc<Snapshot> = Rc::new(snapshot.unwrap_or_default());
        self.needs = seq.saturating_add(record.lines.unwrap_or(0));
        self.taken_over = snapshot.begun();
        self.promises.extend(snapshot.promises().map(|(uuid, _)| uuid));
        self.snapshot = Some(snapshot);
    }

    /// Whether a generation that begins with a snapshot has all of it. They are written in one piece, so one that has not was cut.
    pub(crate) fn is_whole(&self) -> bool {
        let wanted = self.beginning.continued.as_ref().is_some_and(|before| before.snapshot);
        (self.snapshot.is_some() || !wanted) && self.last >= self.needs
    }

    /// What was allowed to the run that this is a fork of is not allowed to it.
    fn fork(&mut self, line: &LogLine<'_>, forked: &Forked<'_>) {
        let Some(parent) = forked.run.and_then(|text| Uuid::parse(&text.get())) else { return };
        let (at, draws) = (forked.at.unwrap_or(0), std::mem::take(&mut self.draws));
        let seed = forked.seed.and_then(|seed| seed.get()).unwrap_or(0);
        let clock = line.stamp().map(|stamp| Time::from_nanos(stamp.unix_nanos()));
        let generation = self.beginning.forked_generation;
        self.forks.push(ForkPoint { parent, at, generation, draws, seed, clock });
        self.hold = HoldState::default();
        self.allowed = forked.names().into_iter().collect();
        self.inherited = self.promises.clone();
        self.begun.values_mut().for_each(|begun| begun.is_refused = false);
    }

    /// Whether a person or its deadline has cancelled it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.told.iter().any(|told| matches!(told.what, What::Cancel(_) | What::PastDeadline))
    }

    /// The seed for its effects.
    pub(crate) fn seed(&self) -> u64 {
        self.forks.last().map_or(self.beginning.seed, |fork| fork.seed)
    }

    fn add_call(&mut self, line: &LogLine<'_>, kind: CallKind, clock: Time) {
        let fields = line.fields().rest.into();
        let call = Recorded { seq: line.seq, kind, clock, fields };
        let number = Number { generation: self.beginning.generation, seq: line.seq };
        self.references.called(line.tid, number);
        self.calls.entry(line.tid).or_default().push_back(call);
        self.shown.remove(&line.tid);
        if !self.notes.is_empty() {
            self.notes.retain(|(tid, _), _| *tid != line.tid);
        }
        self.total += 1;
    }

    fn add_told(&mut self, (seq, clock): (u64, Time), what: What, step: Option<u64>) {
        let (step, inward, after) = (step.unwrap_or(0), self.inward, self.total);
        self.told.push_back(Told { seq, what, step, inward, after, clock });
    }
}

/// The log as an edit of the program would have left it, to see whether that explains it.
impl DecodedLog {
    pub(crate) fn is_edited(&self) -> bool {
        self.edited || self.accepted.is_some()
    }

    /// What tasks do is kept, to be compared with the log in full.
    pub(crate) fn traced(self) -> DecodedLog {
        DecodedLog { is_traced: true, ..self }
    }

    /// One call may differ from its record.
    pub(crate) fn accepting(&self, seq: u64) -> DecodedLog {
        DecodedLog { accepted: Some(seq), ..self.clone() }
    }

    /// Without one call and what came of it.
    pub(crate) fn without(&self, tid: Tid, seq: u64) -> DecodedLog {
        let mut decoded = DecodedLog { edited: true, ..self.clone() };
        if let Some(calls) = decoded.calls.get_mut(&tid) {
            calls.retain(|call| call.seq != seq);
            decoded.total -= 1;
        }
        decoded.told.retain(|told| match told.what {
            What::Woken { of } | What::Effect { of, .. } | What::Decided { of, .. } => of != seq,
            _ => true,
        });
        decoded
    }

    /// With one call before another.
    pub(crate) fn moving(&self, tid: Tid, seq: u64, before: u64) -> DecodedLog {
        let mut decoded = DecodedLog { edited: true, ..self.clone() };
        if let Some(calls) = decoded.calls.get_mut(&tid) {
            let place = |wanted: u64| calls.iter().position(|call| call.seq == wanted);
            if let (Some(from), Some(to)) = (place(seq), place(before))
                && let Some(call) = calls.remove(from)
            {
                calls.insert(to, call);
            }
        }
        decoded
    }
}

impl Recorded {
    /// Whether its record begins with these fields and has no other but the line of the program.
    pub(crate) fn is_written_as(&self, fields: &[u8]) -> bool {
        let rest = self.fields.as_bytes().strip_prefix(fields);
        rest.is_some_and(|rest| rest.starts_with(b",\"at\":"))
    }

    /// The record without what the redaction rules remove.
    pub(crate) fn redacted(&self, rules: &Redactions) -> Recorded {
        let mut cleaned = self.clone();
        if let Some(fields) = rules.fields(b"", &self.fields) {
            cleaned.fields = fields.into();
        }
        cleaned
    }

    /// A field of its record, as JSON.
    pub(crate) fn field(&self, field: &str) -> Option<&str> {
        Fields { rest: &self.fields }.find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// A field of its record, as text.
    pub(crate) fn text(&self, field: &str) -> Option<String> {
        self.field(field).and_then(|json| decode(json).ok())
    }

    /// Whether a field is this text.
    pub(crate) fn is(&self, field: &str, text: &str) -> bool {
        let Some(json) = self.field(field) else { return false };
        match json.contains('\\') {
            true => decode::<String>(json).is_ok_and(|is| is == text),
            false => json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(text),
        }
    }

    /// Whether it has this name, or none.
    pub(crate) fn has_name(&self, name: Option<&str>) -> bool {
        match name {
            Some(name) => self.is("name", name),
            None => self.field("name").is_none(),
        }
    }

    /// Its name, or its kind.
    pub(crate) fn called(&self) -> String {
        self.text("name").unwrap_or_else(|| self.kind.tag().to_owned())
    }

    /// What it was, and the line of the program.
    pub(crate) fn shown(&self) -> (String, String) {
        let what = call_shown(self.kind.tag(), self.text("name").as_deref());
        (what, self.text("at").unwrap_or_default())
    }
}

/// A value that was wrapped because its first name begins with `$`.
pub(crate) fn unwrapped(json: &str) -> &str {
    let inside = json.strip_prefix("{\"$json\":").and_then(|rest| rest.strip_suffix('}'));
    inside.unwrap_or(json)
}

/// A value as JSON, fetched if it is in a blob.
fn text_of(value: Option<Written<'_>>, fetch: Fetch<'_>) -> Result<Option<String>, LogError> {
    match value.and_then(|value| value.payload()) {
        None => Ok(None),
        Some(Payload::Json(json)) => Ok(Some(unwrapped(json).to_owned())),
        Some(other) => fetch(&other).map(|json| Some(unwrapped(&json).to_owned())),
    }
}

fn written(value: Option<Written<'_>>, fetch: Fetch<'_>) -> Result<Value, LogError> {
    let json = text_of(value, fetch)?.unwrap_or_else(|| "null".into());
    Ok(Value::new(Json::new(json)))
}

/// How a task ended.
pub(crate) fn outcome(
    record: &Record<'_>,
    fetch: Fetch<'_>,
) -> Result<Result<String, TaskError>, LogError> {
    let (value, error) = match record {
        Record::TaskAbort(abort) => (None, abort.error),
        Record::TaskCancel(cancel) => (None, cancel.error),
        record => (record.value(), None),
    };
    match text_of(error, fetch)? {
        Some(error) => Ok(Err(decode(&error).unwrap_or_else(|unreadable| unreadable))),
        None => Ok(Ok(text_of(value, fetch)?.unwrap_or_else(|| "null".into()))),
    }
}

fn result(
    value: Option<Written<'_>>,
    error: Option<Written<'_>>,
    fetch: Fetch<'_>,
) -> Result<Result<Value, TaskError>, LogError> {
    match text_of(error, fetch)? {
        Some(error) => Ok(Err(decode(&error).unwrap_or_else(|unreadable| unreadable))),
        None => written(value, fetch).map(Ok),
    }
}

/// The generation in what a fork's first line says of its parent.
fn forked_generation(json: &str) -> Option<u32> {
    #[derive(serde::Deserialize)]
    struct Fork {
        #[serde(rename = "gen")]
        generation: Option<u32>,
    }
    serde_json::from_str::<Fork>(json).ok()?.generation
}
