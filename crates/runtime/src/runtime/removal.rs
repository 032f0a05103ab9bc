//! Removal of finished runs, and compaction to their beginning and end, as records of the log.
//! `retention/` decides which runs and when; this module makes sure that nothing is lost that is
//! needed.

use std::sync::Arc;

use tiffany_kernel::{TaskError, Time, Uuid};
use tiffany_log::LogFiles;
use tiffany_records::errors::{log_failed, no_such_run, not_over, read_too_early, run_removed};

use crate::control::catalogue::Job;
use crate::runtime::durable::Durable;
use crate::runtime::durable_runs::Known;
use crate::runtime::run_list::RunsView;
use tiffany_records::key::{LogEnd, Received};
use tiffany_records::request::Answer;
use tiffany_records::retention::{NeededRuns, Remains, parent_of};

impl Durable {
    /// Whether a run may send a message again: a finished one does not.
    pub(crate) fn may_send(&self, sender: Uuid) -> bool {
        matches!(self.runs.get(&sender), Some(Known::Live(_) | Known::Paused(..)))
    }

    /// The end of the log of a finished run that no fork needs.
    fn at_rest(&self, run: Uuid, needed: &NeededRuns) -> Result<LogEnd, TaskError> {
        let stand = match self.runs.get(&run) {
            Some(Known::Over(stand, _)) => *stand,
            // Its log cannot be read; the error says so.
            Some(Known::Paused(error, None)) => return Err(error.clone()),
            Some(Known::Live(_) | Known::Paused(..)) => return Err(not_over(run)),
            Some(Known::Removed) => return Err(run_removed(run)),
            None => return Err(no_such_run(run)),
        };
        needed.check(run)?;
        Ok(stand)
    }

    /// Removes finished runs. Their identities stay known.
    pub(crate) fn remove_runs(
        &mut self,
        runs: &[Uuid],
        needed: &NeededRuns,
    ) -> Vec<Result<(), TaskError>> {
        let mut remove = |run: &Uuid| {
            self.at_rest(*run, needed)?;
            self.page.batch.remove(*run);
            self.runs.insert(*run, Known::Removed);
            Ok(())
        };
        let each: Vec<_> = runs.iter().map(&mut remove).collect();
        let removed = || runs.iter().zip(&each).filter(|(_, each)| each.is_ok());
        self.finished_runs.tell(|| Job::Removed(removed().map(|(run, _)| *run).collect()));
        each
    }

    /// Replaces the logs of finished runs by what remains of them.
    pub(crate) fn compact_runs(
        &mut self,
        all: &[Remains],
        needed: &NeededRuns,
        now: Time,
    ) -> Vec<Result<(), TaskError>> {
        let mut compact = |remains: &Remains| {
            let run = remains.run;
            let stand = self.at_rest(run, needed)?;
            if stand != remains.stand {
                return Err(read_too_early(run));
            }
            let mut received = Received::of_keys(&remains.received);
            received.retain(|sender| self.may_send(sender));
            let stand = remains.write(&mut self.page.batch, &received, now)?;
            if let Some(Known::Over(known, _)) = self.runs.get_mut(&run) {
                *known = stand;
            }
            Ok(())
        };
        all.iter().map(&mut compact).collect()
    }

    /// Begins to remove blobs that no run names, or returns the state of that. Lines that were
    /// handed in before count.
    pub(crate) fn collection(&mut self, number: Option<u64>) -> Result<Answer, TaskError> {
        let number = match number {
            Some(number) => number,
            None => {
                self.log.catch_up().map_err(log_failed)?;
                self.log.collect_blobs()
            }
        };
        let collected = self.log.collected(number).transpose().map_err(log_failed)?;
        Ok(Answer::Collection(number, collected))
    }
}

impl RunsView<'_> {
    /// The runs that forks need.
    pub(crate) fn needed_by_forks(self) -> NeededRuns {
        let Some(durable) = self.durable else { return NeededRuns::default() };
        let log = LogFiles::new(Arc::clone(&durable.disk), &durable.root);
        let first_line = |run| parent_of(&log, run);
        let live = self.runs.iter().filter_map(|hosted| {
            let durable_state =
                hosted.durable_state.as_ref().filter(|durable_state| !durable_state.is_over)?;
            Some((durable_state.uuid(), Ok(Some(durable_state.branch.as_ref()?.parent()))))
        });
        let paused = durable.runs.unfinished().filter_map(|(run, known)| match known {
            Known::Paused(_, Some(dormant)) if !dormant.is_bare() => {
                Some((*run, Ok(dormant.parent())))
            }
            // Its log can't be read, or not as a whole; if its first line can be, that is enough.
            Known::Paused(..)
                if durable.damaged.get(run).is_none_or(|damaged| !damaged.is_over) =>
            {
                Some((*run, first_line(*run)))
            }
            _ => None,
        });
        NeededRuns::of(live.chain(paused), |run| match durable.runs.get(&run) {
            None | Some(Known::Removed) => Ok(None),
            Some(_) => first_line(run),
        })
    }
}
