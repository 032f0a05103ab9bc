//! The threads that wait for the outcomes of durable runs. Each gets its answer once the outcome is
//! final and durable, or once it is clear that this process will not know it. Which runs have an
//! outcome is known to the loop, which passes it on.

use std::collections::{BTreeMap, BTreeSet};

use tiffany_kernel::Uuid;

use crate::host::tell::TellOutcome;
use tiffany_log::LogError;
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
    pub(crate) fn is_empty(&self) -> bool {
        self.of_run.is_empty()
    }

    /// Adds a thread that waits for a run.
    pub(crate) fn add(&mut self, run: Uuid, is_fork: bool, tell: TellOutcome) {
        self.of_run.entry(run).or_default().push(tell);
        if is_fork {
            self.forks.insert(run);
        }
    }

    /// Notes that the outcome of a run may be known from now on.
    pub(crate) fn may_have_settled(&mut self, run: Uuid) {
        if self.of_run.contains_key(&run) {
            self.due.push(run);
        }
    }

    /// Returns the runs whose outcome may have become known since the last call, and all forks.
    pub(crate) fn take_due(&mut self) -> Vec<Uuid> {
        let mut due = std::mem::take(&mut self.due);
        due.extend(&self.forks);
        due
    }

    /// Takes the threads that wait for a run.
    pub(crate) fn take(&mut self, run: Uuid) -> Vec<TellOutcome> {
        self.forks.remove(&run);
        self.of_run.remove(&run).unwrap_or_default()
    }

    /// Answers all threads that the log has failed, because no outcome becomes known after that.
    pub(crate) fn fail(&mut self, error: &LogError) {
        self.due.clear();
        self.forks.clear();
        for tell in std::mem::take(&mut self.of_run).into_values().flatten() {
            tell(Err(RunError::Failed(log_failed(error.clone()))));
        }
    }
}
