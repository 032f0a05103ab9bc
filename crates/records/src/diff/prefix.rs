//! Compares two runs record by record up to the first difference. Both are read side by side,
//! without keeping records in memory.

use super::form::{self, Names};
use crate::record::Record;
use tiffany_log::{LogError, RunReader};

/// The common beginning of two runs.
pub(super) struct Prefix {
    /// The number of equal records, not counting those that only concern a process or a fork.
    pub(super) same: u64,
    /// The first records that differ, if any do; `None` for a run that has no more.
    pub(super) parting: Option<(Option<u64>, Option<u64>)>,
}

/// One of the two runs while it is read.
struct Walk {
    reader: RunReader,
    names: Names,
    /// The numbers of records that were skipped.
    skipped: Vec<u64>,
    drawn: u64,
}

/// A record in the form in which it is compared.
struct Form {
    seq: u64,
    kind: String,
    tid: u64,
    fields: Vec<(String, String)>,
    /// Whether it belongs to an attempt at a step that has no result yet.
    is_attempt: bool,
    /// Whether it is an answer that a fork took from its parent without an attempt.
    is_inherited: bool,
}

impl Walk {
    /// Skips records of attempts if the other run took the answer from its parent.
    fn beyond_attempts(
        &mut self,
        mut form: Option<Form>,
        other: Option<&Form>,
    ) -> Result<Option<Form>, LogError> {
        let is_inherited = other.is_some_and(|other| other.is_inherited);
        while let Some(attempt) = form.as_ref().filter(|form| is_inherited && form.is_attempt) {
            self.skipped.push(attempt.seq);
            form = self.next()?;
        }
        Ok(form)
    }

    /// Returns the next record to compare. Damage counts as the end of the run; the comparison of
    /// tasks reports it.
    fn next(&mut self) -> Result<Option<Form>, LogError> {
        loop {
            let line = match self.reader.next() {
                None | Some(Err(LogError::DamagedRun { .. })) => return Ok(None),
                Some(line) => line?,
            };
            let record = Record::read(&line);
            if is_passed_over(&record) {
                self.skipped.push(line.seq);
                continue;
            }
            let drawn = draws(&record);
            if let Some(uuid) = drawn {
                self.drawn += 1;
                self.names.add(uuid, format!("<uuid {}>", self.drawn));
            }
            let skipped = &self.skipped;
            let place = |of: u64| of - skipped.partition_point(|seq| *seq <= of) as u64;
            let fields = form::fields(&line, &record, &self.names, place);
            let own = |(name, text): (&str, std::borrow::Cow<'_, str>)| {
                (name.to_owned(), text.into_owned())
            };
            return Ok(Some(Form {
                is_attempt: match &record {
                    Record::EffectStart(_) | Record::EffectCheckpoint(_) => true,
                    Record::EffectResult(result) => result.retry_at.is_some(),
                    _ => false,
                },
                is_inherited: record.is_inherited(),
                seq: line.seq,
                kind: line.kind.to_owned(),
                tid: line.tid.0,
                fields: fields.into_iter().map(own).collect(),
            }));
        }
    }
}

/// Returns the UUID that a call drew, if it drew one.
pub(super) fn draws(record: &Record<'_>) -> Option<String> {
    match record {
        Record::TaskYield(call) => call.uuid.map(|uuid| uuid.owned()),
        _ => None,
    }
}

/// Reads two runs up to the first difference.
pub(super) fn prefix(a: (RunReader, Names), b: (RunReader, Names)) -> Result<Prefix, LogError> {
    let walk = |(reader, names)| Walk { reader, names, skipped: Vec::new(), drawn: 0 };
    let (mut a, mut b) = (walk(a), walk(b));
    let mut same = 0;
    loop {
        let (next_a, next_b) = (a.next()?, b.next()?);
        let next_a = a.beyond_attempts(next_a, next_b.as_ref())?;
        let next_b = b.beyond_attempts(next_b, next_a.as_ref())?;
        let parting = match (next_a, next_b) {
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

/// Returns whether a record doesn't concern what the run did.
fn is_passed_over(record: &Record<'_>) -> bool {
    let is_passed_over = matches!(
        record,
        Record::ShutdownMarker(_)
            | Record::Forked(_)
            | Record::RunHeld(_)
            | Record::RunReleased(_)
            | Record::Attributes(_)
    );
    is_passed_over || record.annotation().is_some()
}
