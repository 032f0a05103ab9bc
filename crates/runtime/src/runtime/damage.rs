//! Removing damaged runs that their owner gives up.

use std::collections::BTreeSet;

use tiffany_kernel::{TaskError, Uuid};

use crate::control::catalogue::Job;
use crate::run_log::damage::{lost, not_damaged};
use crate::runtime::durable::Durable;
use crate::runtime::durable_runs::Known;
use tiffany_records::errors::{log_failed, no_such_run, run_removed};
use tiffany_records::request::Answer;

impl Durable {
    /// Removes a damaged run, finished or not, although these forks need it.
    pub(crate) fn remove_damaged(
        &mut self,
        run: Uuid,
        forks: BTreeSet<Uuid>,
    ) -> Result<Answer, TaskError> {
        match self.runs.get(&run) {
            Some(Known::Over(..) | Known::Paused(..)) => {}
            Some(Known::Live(_)) => return Err(not_damaged(run)),
            Some(Known::Removed) => return Err(run_removed(run)),
            None => return Err(no_such_run(run)),
        }
        self.log.catch_up().map_err(log_failed)?;
        let known = self.damaged.get(&run).map(|damaged| &damaged.error);
        let lost = lost((&*self.disk, &self.root), run, known, forks)?;
        tracing::warn!(target: "tiffany", %run, "a damaged run is removed: {}", lost.damage);
        self.page.batch.remove(run);
        self.runs.insert(run, Known::Removed);
        self.damaged.remove(&run);
        self.finished_runs.tell(|| Job::Removed(vec![run]));
        Ok(Answer::Lost(lost))
    }
}
