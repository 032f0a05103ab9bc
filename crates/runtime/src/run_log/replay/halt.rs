//! The end of a replay that stops on its way: at a record of its log, and later at another. It
//! knows the meaning of the records up to there, and which of them have happened.

use std::collections::{BTreeMap, BTreeSet};

use tiffany_kernel::{RecordKind, Tid};

use crate::run_log::replay::divergence::Divergence;

/// The meaning of a record for a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// An outward call.
    Call,
    /// A number of calls that are not outward.
    Shown(u64),
    /// The end of a task.
    End,
    /// A completion from outside, or nothing.
    Other,
}

/// Where a replay halts.
#[derive(Default)]
pub(crate) struct Halt {
    at: u64,
    /// Calls up to there that have not been made, and calls beyond that have been.
    calls: usize,
    ahead: BTreeSet<u64>,
    /// The calls of each task that are only shown: how many there are up to there, and how many have been made.
    shown: BTreeMap<Tid, (u64, u64)>,
    /// Tasks that have ended up to there, and in the replay.
    ended: BTreeSet<Tid>,
    ended_again: BTreeSet<Tid>,
    /// Whether the code differs after this record.
    is_apart: bool,
}

impl Halt {
    /// Continues to the next record.
    pub(crate) fn advance(&mut self, tid: Tid, means: Means) {
        self.at += 1;
        match means {
            Means::Call => self.calls += usize::from(!self.ahead.remove(&self.at)),
            Means::Shown(count) => {
                let wanted = &mut self.shown.entry(tid).or_default().0;
                *wanted = wanted.saturating_add(count);
            }
            Means::End => drop(self.ended.insert(tid)),
            Means::Other => {}
        }
    }

    /// Whether this record is still to happen.
    pub(crate) fn includes(&self, seq: u64) -> bool {
        seq <= self.at
    }

    /// Whether the replay cannot continue after this record.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    pub(crate) fn matched(&mut self, seq: u64) {
        match self.includes(seq) {
            true => self.calls = self.calls.saturating_sub(1),
            false => drop(self.ahead.insert(seq)),
        }
    }

    /// Notes something that is not compared.
    pub(crate) fn note(&mut self, tid: Tid, kind: &RecordKind) {
        match kind {
            RecordKind::Called(_) => self.shown.entry(tid).or_default().1 += 1,
            RecordKind::Completed(_) | RecordKind::Failed(_) | RecordKind::Cancelled(_) => {
                self.ended_again.insert(tid);
            }
            _ => {}
        }
    }

    /// A divergence after this record doesn't matter here; the replay only cannot continue.
    pub(crate) fn leave(
        &mut self,
        seq: u64,
        divergence: Box<Divergence>,
    ) -> Result<(), Box<Divergence>> {
        if self.includes(seq) {
            return Err(divergence);
        }
        self.is_apart = true;
        Ok(())
    }

    /// Whether all outward calls up to the record have been made.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls == 0
    }

    /// Whether everything else has happened too that tasks do up to the record. Code that changed may do less, and is known by what it does
    /// beyond.
    pub(crate) fn has_all(&self) -> bool {
        let has_shown = || self.shown.values().all(|(wanted, made)| made >= wanted);
        let has_ended = || self.ended.is_subset(&self.ended_again);
        let is_beyond = !self.ahead.is_empty() || self.is_apart;
        self.has_calls() && (is_beyond || (has_shown() && has_ended()))
    }
}
