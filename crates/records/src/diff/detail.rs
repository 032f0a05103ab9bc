//! Reads the records at which two runs differ again, to describe them and to find the values that
//! differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tiffany_kernel::Uuid;

use super::form;
use super::values::{Change, changes};
use super::{Call, Difference, DifferenceKind, Parting, Spot};
use crate::record::Record;
use crate::words::{describe, resolve};
use tiffany_log::{LogError, LogLine, View};

/// Details of some records of a run, by their numbers.
pub(super) struct Details(BTreeMap<u64, Detail>);

struct Detail {
    call: Call,
    /// The values that are compared, with blobs read.
    values: Map<String, Value>,
}

impl Details {
    pub(super) fn read(
        (view, run): (&View, Uuid),
        wanted: BTreeSet<u64>,
    ) -> Result<Details, LogError> {
        let mut found = BTreeMap::new();
        let mut reader = view.reader(run)?;
        while found.len() < wanted.len() {
            let record = match reader.next() {
                None | Some(Err(LogError::DamagedRun { .. })) => break,
                Some(record) => record?,
            };
            if wanted.contains(&record.seq) {
                found.insert(record.seq, Detail::of(view, &record));
            }
        }
        Ok(Details(found))
    }

    fn get(&self, record: Option<u64>) -> Option<&Detail> {
        self.0.get(&record?)
    }
}

impl Detail {
    fn of(view: &View, line: &LogLine<'_>) -> Detail {
        let record = Record::read(line);
        let at = match &record {
            Record::TaskSpawn(spawn) => spawn.at,
            Record::TaskYield(call) => call.at,
            _ => None,
        };
        let call = Call {
            record: line.seq,
            task: line.tid.0,
            kind: line.kind.to_owned(),
            text: describe(line.kind, &record),
            at: at.map(|at| at.owned()),
        };
        let compared = form::fields(line, &record, &form::Names::default(), |of| of);
        let mut values = Map::new();
        for (name, text) in compared {
            let is_number = matches!(name, "of" | "child" | "task" | "object" | "items");
            let value = match name {
                "error" => form::error(line.get(name).unwrap_or("null")),
                // The length of the sleep; the log has the time at which it ends.
                "time" => serde_json::from_str(&text).unwrap_or(Value::Null),
                _ => resolve(view, line.get(name).unwrap_or("null"))
                    .unwrap_or_else(|error| Value::String(error.to_string())),
            };
            if !is_number {
                values.insert(if name == "time" { "seconds" } else { name }.to_owned(), value);
            }
        }
        // Drawn at random in every run.
        if matches!(record, Record::TaskYield(_)) {
            values.remove("uuid");
        }
        if matches!(record, Record::PromiseSettled(_)) {
            values.remove("promise");
        }
        Detail { call, values }
    }
}

/// Returns the values in which two records differ, and the number of further ones.
fn compare(a: Option<&Detail>, b: Option<&Detail>) -> (Vec<Change>, u64) {
    let (Some(a), Some(b)) = (a, b) else { return (Vec::new(), 0) };
    let value = |detail: &Detail| Value::Object(detail.values.clone());
    let (mut a, mut b) = (value(a), value(b));
    let messages = [&a, &b].map(|side| side["error"]["message"].as_str());
    if messages[0].is_some() && messages[1].is_some() && messages[0] != messages[1] {
        // It has the same contents as the message, in the form of another language.
        for error in [&mut a, &mut b].into_iter().filter_map(|side| side.get_mut("error")) {
            error.as_object_mut().and_then(|error| error.remove("detail"));
        }
    }
    changes("", &a, &b)
}

pub(super) fn parting(
    (a, details_a): (Option<u64>, &Details),
    (b, details_b): (Option<u64>, &Details),
) -> Parting {
    let (a, b) = (details_a.get(a), details_b.get(b));
    let alike = match (a, b) {
        (Some(a), Some(b)) => (a.call.task, &a.call.kind) == (b.call.task, &b.call.kind),
        _ => false,
    };
    let (changes, more_changes) = if alike { compare(a, b) } else { (Vec::new(), 0) };
    let call = |detail: Option<&Detail>| detail.map(|detail| detail.call.clone());
    Parting { a: call(a), b: call(b), changes, more_changes }
}

pub(super) fn difference(spot: &Spot, details_a: &Details, details_b: &Details) -> Difference {
    let (a, b) = (details_a.get(spot.records_a[0]), details_b.get(spot.records_b[0]));
    let (answer_a, answer_b) = (details_a.get(spot.records_a[1]), details_b.get(spot.records_b[1]));
    let (mut changes, more_changes) = match spot.kind {
        DifferenceKind::Only => (Vec::new(), 0),
        DifferenceKind::Result => compare(answer_a, answer_b),
        _ => compare(a, b),
    };
    if spot.attempts.0 != spot.attempts.1 && a.is_some() && b.is_some() {
        let count = |attempts: u32| Some(Value::from(attempts));
        let (a, b) = (count(spot.attempts.0), count(spot.attempts.1));
        changes.push(Change { path: "/attempts".into(), a, b });
    }
    if spot.kind == DifferenceKind::Result && answer_a.is_some() != answer_b.is_some() {
        let outcome = |detail: Option<&Detail>| {
            let values = detail.map(|detail| detail.values.clone());
            values.map(|mut values| values.remove("value").unwrap_or(Value::Object(values)))
        };
        let change = Change { path: "/value".into(), a: outcome(answer_a), b: outcome(answer_b) };
        changes.push(change);
    }
    let call = |detail: Option<&Detail>| detail.map(|detail| detail.call.clone());
    Difference {
        task: spot.task,
        name: spot.name.clone(),
        call: spot.call,
        kind: spot.kind,
        a: call(a),
        b: call(b),
        changes,
        more_changes,
    }
}
