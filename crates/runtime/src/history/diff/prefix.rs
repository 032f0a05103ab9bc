//! Record by record: how far two runs are the same. Both are read side by side, and nothing is kept.

use super::form::{self, Names};
use crate::wal::{LogError, Record, RecordType, RunReader};

/// How far two runs are the same.
pub(super) struct Prefix {
    /// So many records are the same, those that tell only of a process not counted.
    pub(super) same: u64,
    /// The records at which they part, if they do; nothing where a run has no more.
    pub(super) parting: Option<(Option<u64>, Option<u64>)>,
}

/// One side.
struct Walk {
    reader: RunReader,
    names: Names,
    /// Records that were passed over, by their numbers.
    skipped: Vec<u64>,
    drawn: u64,
}

/// A record in the form in which it is compared.
struct Form {
    seq: u64,
    kind: String,
    tid: u64,
    fields: Vec<(String, String)>,
}

impl Walk {
    /// The next record that counts. What cannot be read is the end: who compares the tasks tells it.
    fn next(&mut self) -> Result<Option<Form>, LogError> {
        loop {
            let record = match self.reader.next() {
                None | Some(Err(LogError::DamagedRun { .. })) => return Ok(None),
                Some(record) => record?,
            };
            if record.record_type() == Some(RecordType::ShutdownMarker) {
                self.skipped.push(record.seq);
                continue;
            }
            let drawn = draws(&record);
            if let Some(uuid) = drawn {
                self.drawn += 1;
                self.names.add(uuid, format!("<uuid {}>", self.drawn));
            }
            let skipped = &self.skipped;
            let place = |of: u64| of - skipped.partition_point(|seq| *seq <= of) as u64;
            let fields = form::fields(&record, &self.names, place);
            let own = |(name, text): (&str, std::borrow::Cow<'_, str>)| {
                (name.to_owned(), text.into_owned())
            };
            return Ok(Some(Form {
                seq: record.seq,
                kind: record.kind.to_owned(),
                tid: record.tid.0,
                fields: fields.into_iter().map(own).collect(),
            }));
        }
    }
}

/// A UUID that a call drew.
pub(super) fn draws(record: &Record<'_>) -> Option<String> {
    let is_call = record.record_type() == Some(RecordType::TaskYield);
    is_call.then(|| record.str("uuid").map(|uuid| uuid.into_owned())).flatten()
}

/// Reads two runs as far as they are the same.
pub(super) fn prefix(a: (RunReader, Names), b: (RunReader, Names)) -> Result<Prefix, LogError> {
    let walk = |(reader, names)| Walk { reader, names, skipped: Vec::new(), drawn: 0 };
    let (mut a, mut b) = (walk(a), walk(b));
    let mut same = 0;
    loop {
        let parting = match (a.next()?, b.next()?) {
            (None, None) => None,
            (Some(a), Some(b)) => {
                if a.kind == b.kind && a.tid == b.tid && a.fields == b.fields {
                    same += 1;
                    continue;
                }
                Some((Some(a.seq), Some(b.seq)))
            }
            (a, b) => Some((a.map(|a| a.seq), b.map(|b| b.seq))),
        };
        return Ok(Prefix { same, parting });
    }
}
