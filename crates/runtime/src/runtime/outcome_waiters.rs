//! The threads that wait for the outcomes of durable runs. Each is told once the outcome is final and
//! safe in the log, or once it is clear that this process will not know it.

use std::collections::{BTreeMap, BTreeSet};

use tiffany_kernel::Uuid;

use crate::host::tell::TellOutcome;
use crate::runtime::Runtime;
use crate::runtime::durable::Durable;
use tiffany_records::RunError;
use tiffany_records::errors::log_failed;

/// The waiting threads, by the run that they wait for.
#[derive(Default)]
pub(crate) struct OutcomeWaiters {
    of_run: BTreeMap<Uuid, Vec<TellOutcome>>,
    /// The runs among them whose outcome may be known.
    due: Vec<Uuid>,
    /// The forks among them. Whether one waits for a permission is not noted when it changes.
    forks: BTreeSet<Uuid>,
}

impl OutcomeWaiters {
    fn add(&mut self, run: Uuid, is_fork: bool, tell: TellOutcome) {
        self.of_run.entry(run).or_default().push(tell);
        if is_fork {
            self.forks.insert(run);
        }
    }

    fn take(&mut self, run: Uuid) -> Vec<TellOutcome> {
        self.forks.remove(&run);
        self.of_run.remove(&run).unwrap_or_default()
    }

    /// The outcome of a run may be known from now on.
    pub(crate) fn may_have_settled(&mut self, run: Uuid) {
        if self.of_run.contains_key(&run) {
            self.due.push(run);
        }
    }

    fn take_all(&mut self) -> Vec<TellOutcome> {
        self.due.clear();
        self.forks.clear();
        std::mem::take(&mut self.of_run).into_values().flatten().collect()
    }
}

impl Runtime {
    /// Tells the outcome of a run now if it is known, and otherwise when it is.
    pub(crate) fn await_outcome(&mut self, run: Uuid, tell: TellOutcome) {
        if !self.is_live(run) {
            return tell(self.outcome_of(run));
        }
        let is_fork = self.is_fork(run);
        match (self.log_failure(), &mut self.durable) {
            (None, Some(durable)) => durable.runs.waiters.add(run, is_fork, tell),
            (Some(error), _) => tell(Err(RunError::Failed(log_failed(error)))),
            (None, None) => {}
        }
    }

    /// Tells the outcomes that have become known. The loop calls this in every round.
    #[inline]
    pub(crate) fn tell_outcomes(&mut self) {
        let is_waiting = |durable: &Durable| !durable.runs.waiters.of_run.is_empty();
        if self.durable.as_ref().is_some_and(is_waiting) {
            self.tell_known_outcomes();
        }
    }

    /// Tells the outcomes that have become known. If the log has failed, no outcome becomes known any
    /// more, and everyone is told that.
    fn tell_known_outcomes(&mut self) {
        let failure = self.log_failure();
        let Some(durable) = &mut self.durable else { return };
        if let Some(error) = failure {
            for tell in durable.runs.waiters.take_all() {
                tell(Err(RunError::Failed(log_failed(error.clone()))));
            }
            return;
        }
        let waiters = &mut durable.runs.waiters;
        if waiters.due.is_empty() && waiters.forks.is_empty() {
            return;
        }
        let mut due = std::mem::take(&mut waiters.due);
        due.extend(&waiters.forks);
        due.retain(|run| !self.is_live(*run));
        for run in due {
            for tell in self.durable_mut().runs.waiters.take(run) {
                tell(self.outcome_of(run));
            }
        }
    }

    fn is_fork(&self, uuid: Uuid) -> bool {
        let durable_state = self.live(uuid).ok().and_then(|id| self.runs.durable_state(id));
        durable_state.is_some_and(|durable_state| durable_state.branch.is_some())
    }
}
