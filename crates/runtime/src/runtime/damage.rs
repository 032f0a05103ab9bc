//! Removing damaged runs that their owner gives up.

use tiffany_kernel::{TaskError, Uuid};

use crate::control::catalogue::Job;
use crate::run_log::damage::{lost, not_damaged};
use crate::runtime::Runtime;
use crate::runtime::durable_runs::Known;
use tiffany_records::errors::{log_failed, no_such_run, run_removed};
use tiffany_records::request::Answer;

impl Runtime {
    /// Removes a run that is damaged, whether it is over or not.
    pub(crate) fn remove_damaged(&mut self, run: Uuid) -> Result<Answer, TaskError> {
        let forks = self.needed_by_forks().forks_of(run);
        let durable = self.durable_mut();
        match durable.runs.get(&run) {
            Some(Known::Over(..) | Known::Paused(..)) => {}
            Some(Known::Live(_)) => return Err(not_damaged(run)),
            Some(Known::Removed) => return Err(run_removed(run)),
            None => return Err(no_such_run(run)),
        }
        durable.log.catch_up().map_err(log_failed)?;
        let known = durable.damaged.get(&run).map(|damaged| &damaged.error);
        let lost = lost((&*durable.disk, &durable.root), run, known, forks)?;
        tracing::warn!(target: "tiffany", %run, "a damaged run is removed: {}", lost.damage);
        durable.page.batch.remove(run);
        durable.runs.insert(run, Known::Removed);
        durable.damaged.remove(&run);
        durable.finished_runs.tell(|| Job::Removed(vec![run]));
        Ok(Answer::Lost(lost))
    }
}
