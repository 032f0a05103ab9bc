//! All durable runs that a runtime knows. There may be a million finished and removed ones, so the
//! others are found without visiting those, and states are counted as they change.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::metrics::loop_state::RunStates;
use tiffany_kernel::Uuid;

use crate::run_log::dormant_run::DormantRun;
use crate::runtime::durable_runs::Known;
use crate::runtime::outcome_waiters::OutcomeWaiters;

#[derive(Default)]
pub(crate) struct KnownRuns {
    all: BTreeMap<Uuid, Known>,
    /// Live and paused runs.
    unfinished: BTreeSet<Uuid>,
    states: RunStates,
    /// Runs whose outcome may have become known since the last call of `take_settled`, if it was
    /// called.
    settled: Option<Vec<Uuid>>,
    pub(crate) waiters: OutcomeWaiters,
}

/// The number of runs that are noted for a caller that no longer asks.
const MAX_SETTLED: usize = 100_000;

impl KnownRuns {
    /// Adds a run, or its new state.
    pub(crate) fn insert(&mut self, run: Uuid, known: Known) {
        match known {
            Known::Live(_) | Known::Paused(..) => drop(self.unfinished.insert(run)),
            Known::Over(..) | Known::Removed => drop(self.unfinished.remove(&run)),
        }
        if !matches!(known, Known::Live(_)) {
            self.may_have_settled(run);
        }
        *count_of(&mut self.states, &known) += 1;
        if let Some(before) = self.all.insert(run, known) {
            *count_of(&mut self.states, &before) -= 1;
        }
    }

    pub(crate) fn get(&self, run: &Uuid) -> Option<&Known> {
        self.all.get(run)
    }

    /// Notes that the outcome of a run may be known from now on.
    pub(crate) fn may_have_settled(&mut self, run: Uuid) {
        self.waiters.may_have_settled(run);
        match &mut self.settled {
            Some(settled) if settled.len() < MAX_SETTLED => settled.push(run),
            settled => *settled = None,
        }
    }

    /// Returns the runs whose outcome may have become known since the last call; `None` if that is
    /// not known.
    pub(crate) fn take_settled(&mut self) -> Option<Vec<Uuid>> {
        self.settled.replace(Vec::new())
    }

    /// For changes inside a state. A new state is inserted.
    pub(crate) fn get_mut(&mut self, run: &Uuid) -> Option<&mut Known> {
        self.all.get_mut(run)
    }

    pub(crate) fn contains_key(&self, run: &Uuid) -> bool {
        self.all.contains_key(run)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn range(&self, runs: RangeInclusive<Uuid>) -> Range<'_, Uuid, Known> {
        self.all.range(runs)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Uuid, &Known)> {
        self.all.iter()
    }

    /// Live and paused runs.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (&Uuid, &Known)> {
        self.unfinished.iter().filter_map(|run| self.all.get_key_value(run))
    }

    /// Paused runs that can be read and written to.
    pub(crate) fn dormant(&self) -> impl Iterator<Item = &DormantRun> {
        self.unfinished().filter_map(|(_, known)| match known {
            Known::Paused(_, Some(dormant)) => Some(&**dormant),
            _ => None,
        })
    }

    /// Calls a function with each dormant run until it returns an answer.
    pub(crate) fn find_dormant<R>(
        &mut self,
        mut act: impl FnMut(Uuid, &mut DormantRun) -> Option<R>,
    ) -> Option<R> {
        let KnownRuns { all, unfinished, .. } = self;
        unfinished.iter().find_map(|run| match all.get_mut(run) {
            Some(Known::Paused(_, Some(dormant))) => act(*run, dormant),
            _ => None,
        })
    }

    pub(crate) fn states(&self) -> RunStates {
        self.states
    }
}

/// The counter of runs in this state.
fn count_of<'a>(states: &'a mut RunStates, known: &Known) -> &'a mut usize {
    match known {
        Known::Live(_) => &mut states.live,
        Known::Paused(..) => &mut states.paused,
        Known::Over(..) => &mut states.over,
        Known::Removed => &mut states.removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiffany_kernel::{ErrorKind, RunId, TaskError};
    use tiffany_records::key::LogEnd;

    #[test]
    fn finished_and_removed_runs_are_counted_and_not_looked_at() {
        let mut runs = KnownRuns::default();
        let stand = LogEnd { generation: 1, seq: 1, crc: 1 };
        let paused = || Known::Paused(TaskError::new(ErrorKind::Failed, "paused"), None);
        for number in 0..1000 {
            runs.insert(Uuid(number), Known::Live(RunId(1)));
        }
        for number in 0..990 {
            runs.insert(Uuid(number), Known::Over(stand, None));
        }
        for number in 0..500 {
            runs.insert(Uuid(number), Known::Removed);
        }
        runs.insert(Uuid(995), paused());
        assert_eq!(
            runs.unfinished().map(|(run, _)| run.0).collect::<Vec<_>>(),
            Vec::from_iter(990..1000)
        );
        let mut recount = RunStates::default();
        runs.iter().for_each(|(_, known)| *count_of(&mut recount, known) += 1);
        assert_eq!(runs.states().named(), recount.named());
        assert_eq!(recount.named(), [("live", 9), ("paused", 1), ("over", 490), ("removed", 500)]);
    }
}
