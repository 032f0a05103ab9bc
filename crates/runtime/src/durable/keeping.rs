//! What a runtime does about runs that are over: they are removed, or compacted to their beginning and their end, as records of the log like
//! everything else. Which runs, and when, others decide (`retention/`); here it is only seen to that nothing is lost that is
//! needed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};
use tiffany_records::errors::{log_failed, no_such_run, read_too_early, run_removed};

use super::hosting::{Durable, no_log_here};
use super::runs::Known;
use crate::control::catalogue::Job;
use crate::runtime::Runtime;
use tiffany_log::{Disk, RunReader};
use tiffany_records::key::{LogEnd, Received};
use tiffany_records::record::Record;
use tiffany_records::request::Answer;
use tiffany_records::retention::Remains;
use tiffany_records::value::decode;

/// Runs that are needed by forks, each with one of those.
pub(crate) type Needed = BTreeMap<Uuid, Uuid>;

/// So many generations of forks are looked at, as when a fork asks its parents.
const DEEPEST: usize = 64;

/// The run that a run is a fork of, from the first line of its file.
pub(crate) fn parent_of(disk: &dyn Disk, root: &Path, run: Uuid) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct ForkOf {
        run: String,
    }
    let mut reader = RunReader::open(disk, root, run, None).ok()?;
    let first = reader.next()?.ok()?;
    let Record::RunStart(start) = Record::read(&first) else { return None };
    let fork: ForkOf = decode(start.fork?.0).ok()?;
    Uuid::parse(&fork.run)
}

/// All runs from which forks that are not over take answers: their parents, the parents of these, and so on. `forks` has each such fork with its parent.
pub(crate) fn needed(
    forks: impl IntoIterator<Item = (Uuid, Uuid)>,
    parent_of: impl Fn(Uuid) -> Option<Uuid>,
) -> Needed {
    let mut needed = Needed::new();
    for (fork, parent) in forks {
        let mut next = Some(parent);
        for _ in 0..DEEPEST {
            let Some(parent) = next else { break };
            if needed.insert(parent, fork).is_some() {
                break;
            }
            next = parent_of(parent);
        }
    }
    needed
}

pub(crate) fn needed_by_fork(run: Uuid, fork: Uuid) -> TaskError {
    let message = format!("run {run} is needed by its fork {fork}, which is not over");
    TaskError::new(ErrorKind::NeededByFork, message)
}

pub(crate) fn not_over(run: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NotOver, format!("run {run} is not over"))
}

impl Durable {
    /// Whether a run may send a message again that it has sent: not if it is over.
    pub(crate) fn may_send(&self, sender: Uuid) -> bool {
        matches!(self.runs.get(&sender), Some(Known::Live(_) | Known::Paused(..)))
    }

    /// Where a run stands that is over and that nobody needs.
    fn at_rest(&self, run: Uuid, needed: &Needed) -> Result<LogEnd, TaskError> {
        let stand = match self.runs.get(&run) {
            Some(Known::Over(stand, _)) => *stand,
            // Its log cannot be read, and says that.
            Some(Known::Paused(error, None)) => return Err(error.clone()),
            Some(Known::Live(_) | Known::Paused(..)) => return Err(not_over(run)),
            Some(Known::Removed) => return Err(run_removed(run)),
            None => return Err(no_such_run(run)),
        };
        match needed.get(&run) {
            Some(fork) => Err(needed_by_fork(run, *fork)),
            None => Ok(stand),
        }
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
        durable.shelf.tell(|| Job::Removed(removed().map(|(run, _)| *run).collect()));
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

    fn needed_by_forks(&self) -> Needed {
        let Some(durable) = &self.durable else { return Needed::new() };
        let (disk, root) = (&*durable.disk, durable.root.as_path());
        let live = self.runs.iter().filter_map(|(_, hosted)| {
            let hosting = hosted.hosting.as_ref().filter(|hosting| !hosting.is_over)?;
            Some((hosting.journal.run(), hosting.branch.as_ref()?.parent()))
        });
        let shelved = durable.runs.unfinished().filter_map(|(run, known)| match known {
            Known::Paused(_, Some(shelved)) => Some((*run, shelved.parent()?)),
            // Its log cannot be read; if its first line can be, that is enough.
            Known::Paused(_, None) => Some((*run, parent_of(disk, root, *run)?)),
            _ => None,
        });
        needed(live.chain(shelved), |run| parent_of(disk, root, run))
    }
}
