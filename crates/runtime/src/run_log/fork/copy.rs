//! The first lines of a fork: its parent's records up to one of them, perhaps with another answer
//! there, and the record that makes it a fork. It knows records, and no running run. All of it is
//! one batch, so a fork exists as a whole or not at all.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError, Tid, Time, Uuid};

use crate::run_log::fork::shape;
use crate::run_log::journal::error_json;
use crate::run_log::replay::decoded_log::{DecodedLog, unwrapped};
use crate::run_log::replay::read::fetch;
use tiffany_log::{
    Batch, BlobHash, Chain, Disk, Line, LogError, LogLine, Payload, Reader, RecordType, RunReader,
    Stamp,
};
use tiffany_records::errors::{compacted, log_failed, no_such_run};
use tiffany_records::json::compact;
use tiffany_records::key::run_id_in;
use tiffany_records::record::{
    self, Digits, EffectEnd, Encode, Field, Forked, Record, RunStart, Text, Value as Written, owned,
};
use tiffany_records::request::{Fork, ForkReply};
use tiffany_records::value::plain::marked;
use tiffany_records::value::{decode, encode};

/// Where the records of a run are.
pub(crate) struct Source<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) root: &'a Path,
    pub(crate) run: Uuid,
}

/// The fork that is to be written.
pub(crate) struct Copied {
    /// The fork's id.
    pub(crate) id: String,
    pub(crate) chain: Chain,
    pub(crate) batch: Batch,
}

/// The content of a blob that is not on the disk yet.
type Fresh = [(BlobHash, Arc<[u8]>)];

impl Source<'_> {
    fn fetch(&self, payload: &Payload<'_>) -> Result<String, LogError> {
        fetch(self.disk, self.root, payload)
    }

    /// A log that is about to be written, read back.
    pub(crate) fn script_of(&self, text: &str, fresh: &Fresh) -> Result<DecodedLog, LogError> {
        let fetch = |payload: &Payload<'_>| {
            let known = match payload {
                Payload::Blob { hash, .. } => fresh.iter().find(|(fresh, _)| fresh == hash),
                _ => None,
            };
            match known {
                Some((_, content)) => Ok(String::from_utf8_lossy(content).into_owned()),
                None => self.fetch(payload),
            }
        };
        let mut decoded = DecodedLog::default();
        for record in Reader::new(text.as_bytes(), None) {
            let record = record.map_err(|broken| LogError::run(self.run, self.root, broken))?;
            decoded.add(&record, &fetch)?;
        }
        Ok(decoded)
    }
}

/// Writes the fork of a run at a record into an empty batch. `is_free` returns the seed for an id
/// that no run has.
pub(crate) fn copy(
    source: &Source<'_>,
    at: u64,
    fork: &Fork,
    clock: Time,
    empty: Batch,
    is_free: impl Fn(Uuid, &str) -> Option<u64>,
) -> Result<Copied, TaskError> {
    let run = source.run;
    if at == 0 {
        return Err(not_there(run, at, "records are counted from 1"));
    }
    let mut reader =
        RunReader::open(source.disk, source.root, run, None).map_err(|error| match error {
            LogError::UnknownRun(run) => no_such_run(run),
            error => log_failed(error),
        })?;
    let (mut begun, mut empty): (Option<Copying>, _) = (None, Some(empty));
    let mut records = 0;
    while let Some(record) = reader.next() {
        let record = match record {
            Ok(record) => record,
            // Damage behind the record doesn't matter here.
            Err(_) if records >= at => break,
            Err(error) => return Err(log_failed(error)),
        };
        if record.record_type() == Some(RecordType::Compacted) {
            return Err(compacted(run));
        }
        if records >= at {
            if record.record_type() == Some(RecordType::Snapshot) {
                return Err(not_there(run, at, "what it was is in the record after that"));
            }
            break;
        }
        records = record.seq;
        match &mut begun {
            None => {
                let batch = empty.take().unwrap_or_default();
                begun = Some(Copying::begin(&record, run, at, fork, (batch, clock), &is_free)?);
            }
            Some(copying) if records == at && fork.has_reply() => {
                copying.change(&record, fork, source, clock)?;
            }
            Some(copying) => copying.add(&record),
        }
    }
    let Some(copying) = begun.filter(|_| records == at) else {
        let generation = reader.checker().chain().map_or(1, Chain::generation);
        let generation =
            if generation > 1 { format!(" of generation {generation}") } else { String::new() };
        let why = format!("it has records 1 to {records}{generation}");
        return Err(not_there(run, at, &why));
    };
    if fork.has_reply() && at == 1 {
        return Err(no_answer(run, at, RecordType::RunStart.name()));
    }
    if copying.living.is_empty() {
        return Err(not_there(run, at, "the run was finished there, and nothing is left to do"));
    }
    copying.end(run, at, fork, clock)
}

/// A copy that is being written.
struct Copying {
    id: String,
    chain: Chain,
    batch: Batch,
    seed: u64,
    /// Tasks that have not ended.
    living: BTreeSet<Tid>,
}

impl Copying {
    /// Copies the first record, with another id and the origin of the fork.
    fn begin(
        record: &LogLine<'_>,
        parent: Uuid,
        at: u64,
        fork: &Fork,
        (mut batch, clock): (Batch, Time),
        is_free: &dyn Fn(Uuid, &str) -> Option<u64>,
    ) -> Result<Copying, TaskError> {
        let Record::RunStart(start) = Record::read(record) else {
            return Err(not_there(parent, at, "its first record is not the beginning of a run"));
        };
        let of_parent = owned(start.id);
        let namespace = owned(start.namespace);
        let is_free = |id: &str| is_free(run_id_in(&namespace, id), id);
        let (id, seed) = match fork.new_id() {
            Some(id) => match is_free(id) {
                Some(seed) => (id.to_owned(), seed),
                None => {
                    let message = format!("the id `{id}` belongs to another run");
                    return Err(TaskError::new(ErrorKind::OtherRun, message));
                }
            },
            None => free_id(&of_parent, at, &is_free),
        };
        let mut chain = Chain::new(run_id_in(&namespace, &id));
        let generation = record.generation().unwrap_or(1);
        let ts = Stamp::from_unix_nanos(clock.as_nanos());
        let comes_from = format!(
            "{{\"run\":\"{parent}\",\"at\":{at},\"gen\":{generation},\"ts\":\"{}\"}}",
            ts.as_str()
        );
        // A deadline was set for its parent.
        let version = RunStart { deadline: None, ..start }.version();
        let mut line = begin_line(&mut batch, &mut chain, record).of_version(version);
        for (name, value) in record.fields() {
            line = match name {
                "gen" | "fork" | "deadline" => line,
                "id" => line.str("id", &id),
                // Before what may be long.
                "function" => keep(line, name, value).json("fork", &comes_from),
                _ => keep(line, name, value),
            };
        }
        line.end();
        Ok(Copying { id, chain, batch, seed, living: BTreeSet::from([Tid(1)]) })
    }

    /// Copies a record unchanged.
    fn add(&mut self, record: &LogLine<'_>) {
        match Record::read(record) {
            Record::TaskSpawn(spawn) if spawn.error.is_none() => {
                self.living.extend(spawn.child.map(Tid));
            }
            ended if ended.is_end() => drop(self.living.remove(&record.tid)),
            _ => {}
        }
        begin_line(&mut self.batch, &mut self.chain, record).piece(record.fields().rest).end();
    }

    /// Copies the last record, with another answer and who changed it when.
    fn change(
        &mut self,
        record: &LogLine<'_>,
        fork: &Fork,
        source: &Source<'_>,
        clock: Time,
    ) -> Result<(), TaskError> {
        let (was, run) = (Record::read(record), source.run);
        let is_answer = match &was {
            Record::EffectResult(result) => matches!(result.end(), EffectEnd::Over(_)),
            was => matches!(
                was,
                Record::ApprovalDecided(_) | Record::PromiseSettled(_) | Record::Message(_)
            ),
        };
        if !is_answer {
            return Err(no_answer(run, record.seq, record.kind));
        }
        let mut line = begin_line(&mut self.batch, &mut self.chain, record);
        // A person's decision about the parent's step is not one about the fork's.
        let replaced = ["value", "error", "decided", "set", "set_ts", "set_by"];
        for (name, value) in record.fields().filter(|(name, _)| !replaced.contains(name)) {
            line = keep(line, name, value);
        }
        line = match fork.reply() {
            Some(ForkReply::Value(value)) => {
                let was = recorded_value(&was, source)?;
                if !fork.is_as_is() {
                    check_shape(&was, value, record.seq, run)?;
                }
                let json = compact(with_tags_of(&was, value.get()));
                Some(Written::Plain(&json)).write(&mut line, "value");
                line
            }
            Some(ForkReply::Error(_)) if matches!(was, Record::Message(_)) => {
                let message = format!(
                    "record {} of run {run} is a message, which is there or not and cannot fail",
                    record.seq
                );
                return Err(TaskError::new(ErrorKind::NotAnAnswer, message));
            }
            Some(ForkReply::Error(error)) => line.json("error", &error_json(error)),
            None => line,
        };
        line = line.flag("set", true);
        line = line.str("set_ts", Stamp::from_unix_nanos(clock.as_nanos()).as_str());
        if let Some(by) = fork.maker() {
            line = line.str("set_by", by);
        }
        line.end();
        Ok(())
    }

    /// Writes the record that makes it a fork.
    fn end(mut self, parent: Uuid, at: u64, fork: &Fork, clock: Time) -> Result<Copied, TaskError> {
        let allow = encode(fork.allowed())?;
        let stamp = Stamp::from_unix_nanos(clock.as_nanos());
        let parent = parent.to_string();
        let forked = Forked {
            run: Some(Text::Safe(&parent)),
            at: Some(at),
            seed: Some(Digits::Number(self.seed)),
            allow: Some(record::Json(&allow)),
        };
        forked.write(self.batch.line(&mut self.chain, &stamp, Forked::TYPE, Tid(1))).end();
        Ok(Copied { id: self.id, chain: self.chain, batch: self.batch })
    }
}

/// The id of a fork that was not given one.
fn free_id(parent: &str, at: u64, is_free: &dyn Fn(&str) -> Option<u64>) -> (String, u64) {
    let first = std::iter::once(format!("{parent}~{at}"));
    let more = (2_u64..).map(|count| format!("{parent}~{at}.{count}"));
    let free = first.chain(more).find_map(|id| is_free(&id).map(|seed| (id, seed)));
    free.expect("there are more ids than runs")
}

fn begin_line<'a>(batch: &'a mut Batch, chain: &'a mut Chain, record: &LogLine<'_>) -> Line<'a> {
    let stamp = record.stamp().unwrap_or_else(|| Stamp::from_unix_nanos(0));
    Line::begin(batch, chain, &stamp, record.kind, record.tid).of_version(record.version)
}

/// Copies a field. A payload in a blob stays there.
fn keep<'a>(line: Line<'a>, name: &str, value: &str) -> Line<'a> {
    line.piece(&format!(",\"{name}\":{value}"))
}

/// The recorded answer; `null`, in whose place anything may be, if it is an error or too deep to be compared.
fn recorded_value(record: &Record<'_>, source: &Source<'_>) -> Result<Value, TaskError> {
    let was = match record.value().and_then(|value| value.payload()) {
        None => return Ok(Value::Null),
        Some(Payload::Json(json)) => json.to_owned(),
        Some(other) => source.fetch(&other).map_err(log_failed)?,
    };
    Ok(decode(unwrapped(&was)).unwrap_or(Value::Null))
}

/// An error if an answer has another shape than the recorded one.
fn check_shape(was: &Value, value: &RawValue, seq: u64, run: Uuid) -> Result<(), TaskError> {
    match shape::difference(was, &decode(value.get())?) {
        None => Ok(()),
        Some(difference) => {
            let message =
                format!("the answer for record {seq} of run {run} has another shape: {difference}");
            Err(TaskError::new(ErrorKind::OtherShape, message))
        }
    }
}

/// The answer from outside with the tags that the recorded one has: people change what they see. Others stay names.
fn with_tags_of<'a>(was: &Value, json: &'a str) -> &'a str {
    match marked(json) {
        Some(plain) if decode(json).is_ok_and(|is| shape::has_tags_of(was, &is)) => plain,
        _ => json,
    }
}

fn not_there(run: Uuid, at: u64, why: &str) -> TaskError {
    let message = format!("run {run} cannot be forked at record {at}: {why}");
    TaskError::new(ErrorKind::NotForkable, message)
}

fn no_answer(run: Uuid, seq: u64, kind: &str) -> TaskError {
    let message = format!("record {seq} of run {run} is `{kind}`, which answers nothing");
    TaskError::new(ErrorKind::NotAnAnswer, message)
}
