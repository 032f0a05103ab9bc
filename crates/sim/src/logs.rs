//! Reads and checks the logs that a simulation leaves, and brings them into a form in which logs
//! can be compared although their machines crashed at different moments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tiffany::Uuid;
use tiffany::wal::sim::SimDisk;
use tiffany::wal::{RunReader, Settings, Writer};

/// The directory of the log.
pub(crate) const ROOT: &str = "/log";

/// The log of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunLog {
    pub(crate) lines: Vec<String>,
    pub(crate) records: Vec<Value>,
}

/// All logs on a disk, by run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs {
    pub(crate) runs: BTreeMap<String, RunLog>,
    /// Large payloads, by name.
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
}

impl Logs {
    /// Returns what a restart would find on this disk. The disk itself is not changed.
    pub(crate) fn recovered(disk: &SimDisk, settings: &Settings) -> Result<Logs, String> {
        let copy = disk.copy();
        let opened = Writer::open(Arc::new(copy.clone()), Path::new(ROOT), settings.clone());
        let (writer, recovery) = opened.map_err(|error| error.to_string())?;
        if let Some((_, error)) = recovery.refused.first() {
            return Err(error.to_string());
        }
        let mut logs = Logs::default();
        for (run, entry) in writer.runs() {
            let read = |error: tiffany::wal::LogError| error.to_string();
            let mut reader =
                RunReader::open(&copy, Path::new(ROOT), run, Some(entry)).map_err(read)?;
            while let Some(record) = reader.next() {
                record.map_err(read)?;
            }
            logs.runs.insert(run.to_string(), RunLog::read(&copy, run)?);
        }
        let dir = Path::new(ROOT).join("wal/blobs");
        for path in copy.paths().into_iter().filter(|path| path.parent() == Some(dir.as_path())) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            logs.blobs.extend(name.zip(copy.contents(&path)));
        }
        Ok(logs)
    }

    /// Returns the first way in which a later log is not a continuation of this one.
    pub(crate) fn not_continued_by(&self, later: &Logs) -> Option<String> {
        for (run, log) in &self.runs {
            let Some(now) = later.runs.get(run) else {
                return Some(format!("run {run} had a log, and has none any more"));
            };
            // A new generation replaces the one before.
            if now.generation() > log.generation() {
                continue;
            }
            for (at, line) in log.lines.iter().enumerate() {
                if now.lines.get(at) != Some(line) {
                    let is = now.lines.get(at).map_or("nothing", String::as_str);
                    let seq = at + 1;
                    return Some(format!(
                        "record {seq} of run {run} was changed\n  was {line}\n  is  {is}"
                    ));
                }
            }
        }
        None
    }
}

impl RunLog {
    fn read(disk: &SimDisk, run: Uuid) -> Result<RunLog, String> {
        let path = Path::new(ROOT).join("wal").join(format!("{run}.wal"));
        let bytes = disk.contents(&path).ok_or_else(|| format!("{} is gone", path.display()))?;
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let parse = |line: &String| serde_json::from_str(line).map_err(|error| error.to_string());
        let records = lines.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(RunLog { lines, records })
    }

    /// Returns a promise from the tables of a snapshot.
    fn taken_over(&self, uuid: &str) -> Option<&Value> {
        let promises =
            self.of_type("Snapshot").filter_map(|one| one["tables"]["promises"].as_array());
        promises.flatten().find(|promise| promise["uuid"] == *uuid)
    }

    pub(crate) fn has_promise(&self, uuid: &str) -> bool {
        self.records.iter().any(|one| one["uuid"] == *uuid) || self.taken_over(uuid).is_some()
    }

    pub(crate) fn has_settled(&self, uuid: &str) -> bool {
        let mut settled = self.of_type("PromiseSettled");
        settled.any(|one| one["promise"] == *uuid)
            || self.taken_over(uuid).is_some_and(|promise| promise.get("order").is_some())
    }

    /// Returns the minimum number of records. A snapshot and the records that belong to it are
    /// written as a unit.
    pub(crate) fn beginning(&self) -> usize {
        let lines = self.of_type("Snapshot").next().and_then(|one| one["lines"].as_u64());
        lines.map_or(1, |lines| 2 + lines as usize)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.records.first().and_then(|first| first["gen"].as_u64()).unwrap_or(1)
    }

    /// Returns the key of the call with this record. For a call that was taken over by a later
    /// generation, the key is recorded.
    pub(crate) fn key(&self, run: &str, seq: u64) -> String {
        let call = usize::try_from(seq).ok().and_then(|seq| self.records.get(seq.checked_sub(1)?));
        match (call.and_then(|call| call["key"].as_str()), self.generation()) {
            (Some(key), _) => key.into(),
            (None, 1) => format!("{run}/{seq}"),
            (None, generation) => format!("{run}/{generation}.{seq}"),
        }
    }

    pub(crate) fn of_type<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a Value> {
        self.records.iter().filter(move |record| record["type"] == wanted)
    }

    /// Returns the steps whose result is recorded, by the records of their calls.
    pub(crate) fn results(&self) -> BTreeSet<u64> {
        let results =
            self.of_type("EffectResult").filter(|record| record.get("retry_at").is_none());
        results.filter_map(|record| record["of"].as_u64()).collect()
    }

    /// Returns the attempts that are recorded, as record of the call and number of the attempt.
    pub(crate) fn attempts(&self) -> BTreeSet<(u64, u64)> {
        let starts = self.of_type("EffectStart");
        starts.filter_map(|one| Some((one["of"].as_u64()?, one["attempt"].as_u64()?))).collect()
    }

    /// Returns the number of steps in doubt.
    pub(crate) fn in_doubt(&self) -> usize {
        let doubts = self.of_type("EffectResult");
        doubts.filter(|record| record["error"]["kind"] == "InDoubt").count()
    }

    /// Returns the contents of the log by task, without what a crash may change. See the crate's
    /// documentation.
    pub(crate) fn essence(&self) -> BTreeMap<String, Vec<String>> {
        let mut essence = Essence::default();
        essence.paths.insert(1, "1".into());
        self.records.iter().for_each(|record| essence.add(record));
        essence.named()
    }
}

/// Fields that depend on time, order or the numbers of records.
const PASSING: &[&str] = &[
    "v",
    "seq",
    "ts",
    "crc",
    "gen",
    "task_id",
    "tid",
    "type",
    "step",
    "of",
    "time",
    "child",
    "task",
    "object",
    "items",
    "attempt",
    "uuid",
    "promise",
    "from",
    "continued",
    "deadline",
    "instruction",
];

#[derive(Default)]
struct Essence {
    /// Tasks by the way they were spawned. The second child of the root is `1.2`.
    paths: BTreeMap<u64, String>,
    children: BTreeMap<u64, u64>,
    tasks: BTreeMap<String, Vec<String>>,
    /// Calls by the numbers of their records.
    calls: BTreeMap<u64, (String, usize)>,
    /// The calls that drew each UUID.
    uuids: BTreeMap<String, (String, usize)>,
}

impl Essence {
    fn add(&mut self, record: &Value) {
        let tid = record["tid"].as_u64().unwrap_or(1);
        let path = self.paths.get(&tid).cloned().unwrap_or_else(|| format!("?{tid}"));
        let kind = record["type"].as_str().unwrap_or_default();
        match kind {
            "EffectStart" | "EffectCheckpoint" | "ShutdownMarker" | "RunHeld" | "RunReleased" => {}
            "EffectResult" if record.get("retry_at").is_some() => {}
            "TaskWake" if record.get("why").is_none() => {}
            "TaskYield" if record["call"] == "yield" => {}
            "EffectResult" | "ApprovalDecided" => {
                let call = record["of"].as_u64().and_then(|of| self.calls.get(&of)).cloned();
                self.answer(call, record);
            }
            "PromiseSettled" => {
                let call = record["promise"].as_str().and_then(|uuid| self.uuids.get(uuid));
                self.answer(call.cloned(), record);
            }
            "Message" => {
                let name = record["name"].as_str().unwrap_or_default();
                self.tasks.entry(format!("messages `{name}`")).or_default().push(rest(record));
            }
            _ => {
                if kind == "TaskSpawn"
                    && let Some(child) = record["child"].as_u64()
                {
                    let count = self.children.entry(tid).or_default();
                    *count += 1;
                    self.paths.insert(child, format!("{path}.{count}"));
                }
                let list = self.tasks.entry(format!("task {path}")).or_default();
                let place = (format!("task {path}"), list.len());
                list.push(format!("{kind} {}", rest(record)));
                if let Some(uuid) = record["uuid"].as_str() {
                    self.uuids.insert(uuid.into(), place.clone());
                }
                self.calls.insert(record["seq"].as_u64().unwrap_or(0), place);
            }
        }
    }

    /// Adds an answer to its call.
    fn answer(&mut self, call: Option<(String, usize)>, record: &Value) {
        let answer = format!(" → {}", rest(record));
        match call {
            Some((task, at)) => self.tasks.entry(task).or_default()[at].push_str(&answer),
            None => self.tasks.entry("answers to nobody".into()).or_default().push(answer),
        }
    }

    /// Replaces each UUID with the call that drew it.
    fn named(mut self) -> BTreeMap<String, Vec<String>> {
        for (uuid, (task, at)) in &self.uuids {
            let name = format!("<{task} call {at}>");
            for line in self.tasks.values_mut().flatten() {
                if line.contains(uuid.as_str()) {
                    *line = line.replace(uuid.as_str(), &name);
                }
            }
        }
        self.tasks
    }
}

/// Formats a record without fields that a crash may change.
fn rest(record: &Value) -> String {
    let Value::Object(fields) = record else { return record.to_string() };
    let mut kept = serde_json::Map::new();
    for (name, value) in fields {
        match name.as_str() {
            // Whether a wait fails at once or later depends on timing.
            "error" if value.is_string() => {}
            "error" => {
                let error = match value.get("kind") {
                    // The tasks that it passed through have numbers that may differ.
                    Some(kind) => Value::from(vec![kind.clone(), value["message"].clone()]),
                    None => "a long one".into(),
                };
                kept.insert(name.clone(), error);
            }
            passing if PASSING.contains(&passing) => {}
            _ => drop(kept.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(kept).to_string()
}

/// Returns the first difference between two logs of one run.
pub(crate) fn difference(undisturbed: &RunLog, crashed: &RunLog) -> Option<String> {
    let (was, is) = (undisturbed.essence(), crashed.essence());
    let tasks: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for task in tasks {
        let empty = Vec::new();
        let (was, is) = (was.get(task).unwrap_or(&empty), is.get(task).unwrap_or(&empty));
        let at = (0..was.len().max(is.len())).find(|at| was.get(*at) != is.get(*at));
        if let Some(at) = at {
            let show = |list: &Vec<String>| list.get(at).cloned().unwrap_or("nothing".into());
            let (undisturbed, crashed) = (show(was), show(is));
            let place = at + 1;
            return Some(format!(
                "{task}, entry {place}:\n  undisturbed {undisturbed}\n  crashed     {crashed}"
            ));
        }
    }
    None
}
