//! The log of one run in one file: its lines as in the log, with the contents of blobs in place. It
//! can be made from a run, read back, and replayed by a program. It knows nothing of tests.

use std::borrow::Cow;
use std::path::Path;

use tiffany_kernel::{ErrorKind, TaskError, Tid, Uuid};

use crate::run_log::replay::decoded_log::DecodedLog;
use crate::run_log::replay::dry_run::Until;
use crate::run_log::replay::verdict::{Deeds, Verdict};
use crate::runtime::Runtime;
use crate::time_travel::capture::error::CaptureError;
use crate::time_travel::capture::redaction::{Found, Redaction};
use tiffany_log::{
    Batch, BlobForm, Chain, Line, LogError, LogLine, Payload, Reader, RecordType, Stamp, View,
};
use tiffany_records::RunError;
use tiffany_records::record::{self, Captured, Encode};
use tiffany_records::value::encode;

/// The records of one run, checked.
pub struct Fixture {
    text: String,
    chain: Chain,
}

/// The result of a replay.
pub struct Replayed {
    pub verdict: Verdict,
    /// Where log and code diverge, without a guess at the reason.
    pub(crate) parting: Option<TaskError>,
    /// How many outward calls were the recorded ones.
    pub calls: usize,
}

impl Fixture {
    /// The records of a run in a log.
    pub(crate) fn of_run(view: &View, run: Uuid) -> Result<Fixture, LogError> {
        if let Some(error) = view.refused(run) {
            return Err(error.clone());
        }
        let mut reader = view.reader(run)?;
        let mut copy = None;
        while let Some(record) = reader.next() {
            let record = record?;
            let copy: &mut Copy = copy.get_or_insert_with(|| Copy::new(run, &record));
            copy.add(&record, |line, field, value| match Payload::parse(value) {
                Some(Payload::Blob { hash, form, .. }) => {
                    let content = view.blob(hash)?;
                    let text = || std::str::from_utf8(&content);
                    match form {
                        BlobForm::Bytes => Ok(line.bytes(field, &content)),
                        BlobForm::Json => match text() {
                            Ok(text) => Ok(line.json(field, text)),
                            Err(_) => Err(LogError::DamagedBlob(hash)),
                        },
                    }
                }
                _ => Ok(keep(line, field, value)),
            })?;
        }
        copy.map(Copy::end).ok_or(LogError::UnknownRun(run))
    }

    /// The fixture after redaction.
    pub(crate) fn redacted(&self, found: &Found<'_>) -> Result<Fixture, CaptureError> {
        let mut copy: Option<Copy> = None;
        for record in self.records() {
            let copy = copy.get_or_insert_with(|| Copy::new(self.run(), &record));
            copy.add(&record, |line, field, value| {
                let cleaned = found.cleaned(&record, field, value)?;
                let value = cleaned.map_or(Cow::Borrowed(value), Cow::Owned);
                Ok::<_, CaptureError>(keep(line, field, &value))
            })?;
        }
        Ok(copy.map(Copy::end).ok_or(LogError::UnknownRun(self.run()))?)
    }

    /// Adds a last line that says that the fixture is complete. An unfinished run has no other sign
    /// of that.
    pub(crate) fn finished(self, redaction: &Redaction) -> Fixture {
        let rules: Vec<&str> = redaction.rules().collect();
        let rules = encode(&rules).unwrap_or_else(|_| "[]".into());
        let last = self.records().last().and_then(|record| record.stamp());
        let stamp = last.unwrap_or_else(|| Stamp::from_unix_nanos(0));
        let (mut batch, mut chain) = (whole(), self.chain);
        let records = chain.seq();
        let captured = Captured { records: Some(records), redacted: Some(record::Json(&rules)) };
        captured.write(batch.line(&mut chain, &stamp, Captured::TYPE, Tid(1))).end();
        Fixture { text: self.text + batch.text(), chain }
    }

    /// Reads a file and checks every line.
    pub fn read(path: &Path) -> Result<Fixture, RunError> {
        let bytes = std::fs::read(path).map_err(|error| LogError::io("read", path, &error))?;
        Fixture::parse(bytes, path)
    }

    /// Checks every line of the contents of a file.
    pub fn parse(bytes: Vec<u8>, path: &Path) -> Result<Fixture, RunError> {
        let wrong = |what: &str| {
            let message = format!("{} {what}", path.display());
            RunError::Failed(TaskError::new(ErrorKind::GoldenLog, message))
        };
        let mut reader = Reader::new(&bytes, None);
        let (mut is_whole, mut begins) = (false, false);
        for record in reader.by_ref() {
            let record = match record {
                Ok(record) => record,
                Err(broken) if broken.record == 1 => return Err(wrong("is not the log of a run")),
                Err(broken) => {
                    let run = reader.checker().chain().map_or(Uuid(0), Chain::run);
                    return Err(LogError::run(run, path, broken).into());
                }
            };
            begins |= record.seq == 1 && record.record_type() == Some(RecordType::RunStart);
            is_whole |= record.tid == Tid(1) && is_end(&record);
        }
        let chain = reader.checker().chain().filter(|_| begins).cloned();
        let Some(chain) = chain else { return Err(wrong("is not the log of a run")) };
        if !is_whole {
            return Err(wrong("has no end; it was cut, or the run was not finished"));
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong("is not the log of a run"))?;
        Ok(Fixture { text, chain })
    }

    /// Replays the run against its records, in a runtime without a log. No effect begins and
    /// nothing is written.
    pub fn replay(&self, room: &mut Runtime) -> Result<Replayed, RunError> {
        let (mut decoded, mut deeds) = (DecodedLog::default(), Deeds::default());
        for line in self.records() {
            deeds.add(&line);
            decoded.add(&line, &|payload| match payload {
                Payload::Blob { hash, .. } => Err(LogError::MissingBlob(*hash)),
                _ => Ok("null".into()),
            })?;
        }
        let was = decoded.outcome.clone();
        let dry_run = room.dry_run(&self.chain, decoded, Until::TheEnd);
        let dry_run = dry_run.map_err(RunError::Failed)?;
        let verdict = Verdict::of(&dry_run, &deeds, was.as_ref());
        Ok(Replayed { verdict, parting: dry_run.parting, calls: dry_run.matched })
    }

    /// The run that was captured.
    pub fn run(&self) -> Uuid {
        self.chain.run()
    }

    /// The number of records of the run itself.
    pub fn record_count(&self) -> u64 {
        let last = self.records().last();
        let is_mark = last.is_some_and(|last| last.record_type() == Some(RecordType::Captured));
        self.chain.seq() - u64::from(is_mark)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// All records, which were checked before.
    pub(crate) fn records(&self) -> impl Iterator<Item = LogLine<'_>> {
        self.text.split_inclusive('\n').filter_map(LogLine::of_checked)
    }
}

fn is_end(record: &LogLine<'_>) -> bool {
    use RecordType::{Captured, TaskAbort, TaskCancel, TaskExit};
    matches!(record.record_type(), Some(Captured | TaskExit | TaskAbort | TaskCancel))
}

/// A batch in which all values stay in their lines.
fn whole() -> Batch {
    Batch::with_blob_limit(usize::MAX)
}

/// Copies a field unchanged.
fn keep<'a>(line: Line<'a>, field: &str, value: &str) -> Line<'a> {
    line.piece(&format!(",\"{field}\":{value}"))
}

/// Lines that are written again, with their own checksums.
struct Copy {
    chain: Chain,
    batch: Batch,
}

impl Copy {
    /// A copy of the run that begins with this record.
    fn new(run: Uuid, first: &LogLine<'_>) -> Copy {
        Copy { chain: Chain::beginning(run, first.generation().unwrap_or(1)), batch: whole() }
    }

    /// Adds the next record, with each field written by `write`.
    fn add<E>(
        &mut self,
        record: &LogLine<'_>,
        write: impl for<'a> Fn(Line<'a>, &str, &str) -> Result<Line<'a>, E>,
    ) -> Result<(), E> {
        let stamp = record.stamp().unwrap_or_else(|| Stamp::from_unix_nanos(0));
        let Copy { chain, batch } = self;
        let mut line = Line::begin(batch, chain, &stamp, record.kind, record.tid);
        for (field, value) in record.fields().filter(|(field, _)| *field != "gen") {
            line = write(line, field, value)?;
        }
        line.end();
        Ok(())
    }

    fn end(self) -> Fixture {
        let Copy { chain, batch } = self;
        Fixture { text: batch.text().to_owned(), chain }
    }
}
