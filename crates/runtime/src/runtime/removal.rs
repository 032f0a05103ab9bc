//! What a runtime does about runs that are over: they are removed, or compacted to their beginning and their end, as records of the log like
//! everything else. Which runs, and when, others decide (`retention/`); here it is only seen to that nothing is lost that is
//! needed.

use std::sync::Arc;

use tiffany_kernel::{TaskError, Uuid};
use tiffany_log::LogFiles;
use tiffany_records::errors::{log_failed, no_such_run, not_over, read_too_early, run_removed};

use crate::control::catalogue::Job;
use crate::runtime::Runtime;
use crate::runtime::durable::{Durable, no_log_here};
use crate::runtime::durable_runs::Known;
use tiffany_records::key::{LogEnd, Received};
use tiffany_records::request::Answer;
use tiffany_records::retention::{NeededRuns, Remains, parent_of};

impl Durable {
    /// Whether a run may send a message again that it has sent: not if it is over.
    pub(crate) fn may_send(&self, sender: Uuid) -> bool {
        matches!(self.runs.get(&sender), Some(Known::Live(_) | Known::Paused(..)))
    }

    /// Where a run stands that is over and that nobody needs.
    fn at_rest(&self, run: Uuid, needed: &NeededRuns) -> Result<LogEnd, TaskError> {
        let stand = match self.runs.get(&run) {
            Some(Known::Over(stand, _)) => *stand,
            // Its log cannot be read, and says that.
            Some(Known::Paused(error, None)) => return Err(error.clone()),
            Some(Known::Live(_) | Known::Paused(..)) => return Err(not_over(run)),
            Some(Known::Removed) => return Err(run_removed(run)),
            None => return Err(no_such_run(run)),
        };
        needed.check(run)?;
        Ok(stand)
    }
}

impl Runtime {
    /// Removes runs that are over. Their identities stay known.
    pub(crate) fn remove_runs(&mut self, runs: &[Uuid]) -> Vec<Result<(), TaskError>> {
        let needed = self.needed_by_forks();
        let durable = self.durable_mut();
        let mut remove = |run: &Uuid| {
            durable.at_rest(*run, &needed)?;
            durable.page.batch.remove(*run);
            durable.runs.insert(*run, Known::Removed);
            Ok(())
        };
        let each: Vec<_> = runs.iter().map(&mut remove).collect();
        let removed = || runs.iter().zip(&each).filter(|(_, each)| each.is_ok());
        durable.finished_runs.tell(|| Job::Removed(removed().map(|(run, _)| *run).collect()));
        each
    }

    /// Writes runs anew that are over: only this is left of them.
    pub(crate) fn compact_runs(&mut self, all: &[Remains]) -> Vec<Result<(), TaskError>> {
        let (needed, now) = (self.needed_by_forks(), self.host.clock.now());
        let durable = self.durable_mut();
        let mut compact = |remains: &Remains| {
            let run = remains.run;
            let stand = durable.at_rest(run, &needed)?;
            if stand != remains.stand {
                return Err(read_too_early(run));
            }
            let mut received = Received::of_keys(&remains.received);
            received.retain(|sender| durable.may_send(sender));
            let stand = remains.write(&mut durable.page.batch, &received, now)?;
            if let Some(Known::Over(known, _)) = durable.runs.get_mut(&run) {
                *known = stand;
            }
            Ok(())
        };
        all.iter().map(&mut compact).collect()
    }

    /// Begins to remove blobs that nobody names, or tells how that stands.
    pub(crate) fn collection(&mut self, number: Option<u64>) -> Result<Answer, TaskError> {
        // What was written before belongs to it.
        self.hand_in();
        let Some(durable) = &mut self.durable else { return Err(no_log_here()) };
        let number = match number {
            Some(number) => number,
            None => {
                durable.log.catch_up().map_err(log_failed)?;
                durable.log.collect_blobs()
            }
        };
        let collected = durable.log.collected(number).transpose().map_err(log_failed)?;
        Ok(Answer::Collection(number, collected))
    }

    pub(crate) fn needed_by_forks(&self) -> NeededRuns {
        let Some(durable) = &self.durable else { return NeededRuns::default() };
        let log = LogFiles::new(Arc::clone(&durable.disk), &durable.root);
        let first_line = |run| parent_of(&log, run);
        let live = self.runs.iter().filter_map(|(_, hosted)| {
            let durable_state =
                hosted.durable_state.as_ref().filter(|durable_state| !durable_state.is_over)?;
            Some((durable_state.journal.run(), Ok(Some(durable_state.branch.as_ref()?.parent()))))
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
