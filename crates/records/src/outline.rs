//! An outline of a run, from the beginning and the end of its file only. The file of a small
//! finished run is read completely, and then checked too.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiffany_kernel::{Attributes, TaskError, Tid, Uuid};

use crate::attributes::of_record;
use crate::long_error::shown_error;
use crate::record::Record;
use crate::record::owned;
use crate::words::json_value;
use tiffany_log::{
    BlobHash, Checker, Disk, Fields, LogError, LogLine, RunEntry, RunFile, RunState, View,
    read_blob,
};

/// The initial number of bytes that are read at each end.
const PIECE: usize = 4096;
/// The number of bytes at an end beyond which the whole file is read.
const MAX_TAIL_BYTES: usize = 1 << 17;
/// The maximum number of lines of a compacted run.
const MAX_COMPACTED_LINES: u64 = 4;

/// The outcome of a finished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It returned a value.
    Completed,
    /// It failed with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Outcome {
    /// Returns its name: `completed`, `failed` or `cancelled`.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// The information about a run in the two ends of its log.
#[derive(Clone, Debug, Default)]
pub struct RunOutline {
    /// The id that it was started with.
    pub id: String,
    /// The namespace of its identity; mostly empty.
    pub namespace: String,
    /// The function that it runs.
    pub function: String,
    /// Its tags and attributes.
    pub attributes: Attributes,
    /// Its deadline, in RFC 3339.
    pub deadline: Option<String>,
    /// The run that it was forked from, and the record there.
    pub fork: Option<(Uuid, u64)>,
    /// When it began.
    pub started: String,
    /// The time of the last record.
    pub changed: String,
    /// The number of calls that it made in earlier generations.
    pub calls_before: u64,
    /// Its outcome, if it is finished.
    pub outcome: Option<Outcome>,
    /// The error, if it ended with one. Very long texts are cut.
    pub error: Option<TaskError>,
    /// The error as its line has it.
    recorded_error: Option<Value>,
    /// The version of the rules about the end of a run that it follows.
    rules: u64,
    /// The version of a line that a newer program wrote.
    newer: Option<u64>,
    /// Whether its last lines say what its tags and attributes are.
    has_attributes: bool,
    /// Whether its root has failed and tasks are left, according to its last lines.
    pub is_ending: bool,
    /// Whether it is a fork that needs a step it is not allowed to do.
    pub is_paused: bool,
    /// Whether it is held, according to its last lines.
    pub is_held: bool,
    /// The number of records and bytes that it had before it was compacted.
    pub compacted: Option<(u64, u64)>,
    /// The damage, if the run was checked and is damaged.
    pub damage: Option<LogError>,
}

impl RunOutline {
    /// Makes the outline of a run that was not removed.
    pub fn at(view: &View, run: Uuid, entry: &RunEntry) -> Result<RunOutline, LogError> {
        let file = Ends {
            ends: &|bytes| view.ends(run, bytes),
            line_with: &|bytes, before| view.line_with(run, bytes, before),
        };
        RunOutline::by(run, entry, &file, |hash| view.blob(hash))
    }

    /// Makes the outline of a run without the tags and attributes that a live run has now, for
    /// which the whole file may have to be searched.
    pub fn at_ends(view: &View, run: Uuid, entry: &RunEntry) -> Result<RunOutline, LogError> {
        let file = Ends { ends: &|bytes| view.ends(run, bytes), line_with: &|_, _| Ok(None) };
        RunOutline::by(run, entry, &file, |hash| view.blob(hash))
    }

    /// Makes the outline from a run's file in its current state. While a process writes the run,
    /// the file may lack its last lines.
    pub fn at_file(
        disk: &dyn Disk,
        root: &Path,
        run: Uuid,
        mut entry: RunEntry,
    ) -> Result<RunOutline, LogError> {
        let file = RunFile::open(disk, root, run)?;
        entry.len = file.len()?;
        let file = Ends {
            ends: &|bytes| file.ends(entry.len, bytes),
            line_with: &|bytes, before| file.line_with(bytes, before),
        };
        RunOutline::by(run, &entry, &file, |hash| read_blob(disk, root, hash))
    }

    fn by(
        run: Uuid,
        entry: &RunEntry,
        file: &Ends<'_>,
        read_blob: impl FnOnce(BlobHash) -> Result<Vec<u8>, LogError>,
    ) -> Result<RunOutline, LogError> {
        let mut outline = RunOutline::default();
        let may_be_compacted = entry.generation > 1 && entry.seq <= MAX_COMPACTED_LINES;
        let mut bytes = if may_be_compacted { usize::MAX } else { PIECE };
        loop {
            let (head, tail) = (file.ends)(bytes)?;
            let is_whole = bytes as u64 >= entry.len;
            let has_head = outline.read_head(&String::from_utf8_lossy(&head));
            let has_tail = outline.read_tail(entry, &String::from_utf8_lossy(&tail), is_whole);
            if is_whole && entry.state == RunState::Finished {
                outline.damage = check(run, &head).err();
            }
            if let Some(version) = outline.newer {
                let path = format!("{run}.wal").into();
                outline.damage.get_or_insert(LogError::Newer { path, version });
            }
            if (has_head && has_tail) || is_whole {
                // A finished run has them at its end; another one may have them anywhere.
                if entry.state == RunState::Live && !(is_whole || outline.has_attributes) {
                    outline.find_attributes(entry, file)?;
                }
                let error =
                    outline.recorded_error.take().map(|error| shown_error(error, read_blob));
                outline.error = error.and_then(|error| serde_json::from_value(error).ok());
                return Ok(outline);
            }
            bytes = if bytes >= MAX_TAIL_BYTES { usize::MAX } else { bytes * 8 };
        }
    }

    /// Looks for the last line with tags and attributes.
    fn find_attributes(&mut self, entry: &RunEntry, file: &Ends<'_>) -> Result<(), LogError> {
        let mut before = entry.len;
        while let Some((at, line)) = (file.line_with)(ATTRIBUTES, before)? {
            let line = String::from_utf8_lossy(&line);
            if let Some(line) = LogLine::of_checked(&line)
                && let Record::Attributes(whole) = Record::read(&line)
            {
                self.attributes = whole.read_all();
                return Ok(());
            }
            // It was in a value.
            before = at;
        }
        Ok(())
    }

    /// Reads the first line. Returns whether the part that was read is enough.
    fn read_head(&mut self, head: &str) -> bool {
        let text = |value: &str| serde_json::from_str::<String>(value).ok();
        let mut fields = Fields { rest: head.strip_prefix('{').unwrap_or("") };
        let mut tags = None;
        self.newer = self.newer.or(LogLine::newer(head));
        while let Some((name, value)) = fields.next() {
            match name {
                "ts" => self.started = text(value).unwrap_or_default(),
                "rules" => self.rules = value.parse().unwrap_or(0),
                "id" => self.id = text(value).unwrap_or_default(),
                "function" => self.function = text(value).unwrap_or_default(),
                "namespace" => self.namespace = text(value).unwrap_or_default(),
                "deadline" => self.deadline = text(value),
                "tags" => {
                    // A run may have tags and no attributes.
                    tags = Some(value);
                    self.attributes = of_record(tags, None);
                }
                "attributes" => self.attributes = of_record(tags, Some(value)),
                "fork" => {
                    self.fork = fork(value);
                    // Anything before that belonged to its parent.
                    if let Some(ts) = forked_at(value) {
                        self.started = ts;
                    }
                }
                "continued" => {
                    if let Ok(continued) = serde_json::from_str::<serde_json::Value>(value) {
                        self.calls_before = continued["calls"].as_u64().unwrap_or(0);
                        if let Some(since) = continued["since"].as_str() {
                            self.started = since.to_owned();
                        }
                    }
                }
                "input" => return true,
                _ => {}
            }
            // What else it was started with comes before its input, which may be long.
            if fields.rest.starts_with(INPUT) {
                return true;
            }
        }
        false
    }

    /// Reads the last lines: the time of the last record, and the outcome of the root. Returns
    /// whether the part that was read is enough.
    fn read_tail(&mut self, entry: &RunEntry, tail: &str, is_whole: bool) -> bool {
        let mut texts = tail.split_inclusive('\n');
        if !is_whole {
            // This is the end of a line that was cut off.
            texts.next();
        }
        let texts: Vec<&str> = texts.collect();
        self.newer = self.newer.or_else(|| texts.iter().find_map(|text| LogLine::newer(text)));
        let texts = texts.into_iter();
        let lines: Vec<(LogLine<'_>, Record<'_>)> =
            texts.filter_map(LogLine::of_checked).map(|line| (line, Record::read(&line))).collect();
        if let Some((last, _)) = lines.last() {
            last.ts.clone_into(&mut self.changed);
            // A fork that has not continued yet still has the clock of its parent.
            if self.changed < self.started {
                self.changed.clone_from(&self.started);
            }
            let last = lines.iter().rev().find_map(|(_, record)| match record {
                Record::Attributes(whole) => Some(whole.read_all()),
                _ => None,
            });
            self.has_attributes |= last.is_some();
            self.attributes = last.unwrap_or_else(|| std::mem::take(&mut self.attributes));
            // The root of a live run may have ended too, while other tasks continue.
            if entry.state == RunState::Live {
                self.is_paused = self.fork.is_some() && is_paused(&lines);
                let is_held = lines.iter().rev().find_map(|(_, record)| is_held(record));
                self.is_held = is_held == Some(true);
                let is_failed = |(line, record): &(LogLine<'_>, Record<'_>)| {
                    line.tid == Tid(1) && matches!(record, Record::TaskAbort(_))
                };
                self.is_ending = self.rules >= 2 && lines.iter().any(is_failed);
                return is_held.is_some();
            }
        }
        self.compacted = lines.iter().find_map(|(_, record)| match record {
            Record::Compacted(it) => Some((it.records.unwrap_or(0), it.bytes.unwrap_or(0))),
            _ => None,
        });
        for (_, record) in lines.iter().rev().filter(|(line, _)| line.tid == Tid(1)) {
            self.outcome = match record {
                Record::TaskExit(_) => Some(Outcome::Completed),
                Record::TaskAbort(_) => Some(Outcome::Failed),
                Record::TaskCancel(_) => Some(Outcome::Cancelled),
                _ => continue,
            };
            self.recorded_error = record.error().map(json_value);
            return true;
        }
        false
    }
}

/// Fails if a line is damaged. A line without an end is still being written, and is left out.
fn check(run: Uuid, lines: &[u8]) -> Result<(), LogError> {
    let mut checker = Checker::new(Some(run));
    let whole = lines.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for line in whole {
        let path = format!("{run}.wal");
        checker.check(line).map_err(|broken| LogError::run(run, Path::new(&path), broken))?;
    }
    Ok(())
}

/// Finds the last line with certain bytes that begins before a place, and where it begins.
type LineWith<'a> = dyn Fn(&[u8], u64) -> Result<Option<(u64, Vec<u8>)>, LogError> + 'a;

/// The file of a run, as far as it is needed: both ends of it, and the last line with certain bytes
/// that begins before a place.
struct Ends<'a> {
    ends: &'a dyn Fn(usize) -> Result<(Vec<u8>, Vec<u8>), LogError>,
    line_with: &'a LineWith<'a>,
}

/// How the field begins that may be long.
const INPUT: &str = ",\"input\":";
/// What a line has that tells other tags and attributes than the first.
const ATTRIBUTES: &[u8] = b"\"type\":\"Attributes\"";

fn fork(json: &str) -> Option<(Uuid, u64)> {
    let fork: serde_json::Value = serde_json::from_str(json).ok()?;
    Some((Uuid::parse(fork["run"].as_str()?)?, fork["at"].as_u64()?))
}

/// Returns when a run was forked; logs of older versions don't say.
fn forked_at(json: &str) -> Option<String> {
    let fork: serde_json::Value = serde_json::from_str(json).ok()?;
    fork["ts"].as_str().map(str::to_owned)
}

/// Returns whether a run was held when this record was written, if that follows from it. A held run
/// still receives messages and results of its steps, but its tasks make no calls and don't end.
fn is_held(record: &Record<'_>) -> Option<bool> {
    match record {
        Record::RunHeld(_) => Some(true),
        // Yields are counted, and recorded together with the next record.
        Record::TaskYield(call) if call.count.is_some() => None,
        Record::RunReleased(_)
        | Record::RunStart(_)
        | Record::Snapshot(_)
        | Record::Forked(_)
        | Record::TaskSpawn(_)
        | Record::TaskYield(_) => Some(false),
        record if record.is_end() => Some(false),
        _ => None,
    }
}

/// Returns whether a fork needs a step that it is not allowed to do, according to its last lines.
fn is_paused(lines: &[(LogLine<'_>, Record<'_>)]) -> bool {
    let (mut over, mut allowed) = (BTreeSet::new(), BTreeSet::new());
    for (_, record) in lines.iter().rev() {
        match record {
            Record::EffectStart(_) | Record::EffectResult(_) | Record::TaskWake(_) => {
                over.extend(record.of());
            }
            Record::EffectAllowed(more) => allowed.extend(more.names()),
            Record::EffectRefused(refused) => {
                let is_allowed = allowed.contains("*") || allowed.contains(&owned(refused.name));
                if !is_allowed && refused.of.is_some_and(|of| !over.contains(&of)) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}
