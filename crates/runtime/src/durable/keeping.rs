//! What a runtime does about runs that are over: they are removed, or compacted to their beginning and their end, as records of the log like
//! everything else. Which runs, and when, others decide (`retention/`); here it is only seen to that nothing is lost that is
//! needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::hosting::{Durable, no_log_here};
use super::json::decode;
use super::resume::resuming::log_failed;
use super::runs::{Known, Stand};
use crate::control::{Answer, Job};
use crate::retention::{NeededBy, Remains};
use crate::runtime::Runtime;
use tiffany_log::{Disk, LogError, RunReader};
use tiffany_records::errors::no_such_run;
use tiffany_records::errors::run_removed;
use tiffany_records::key::Received;
use tiffany_records::record::Record;

/// The runs that unfinished forks take answers from.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    /// Each with forks that need it: all of its own, and one of theirs.
    forks: BTreeMap<Uuid, BTreeSet<Uuid>>,
    /// A run whose parent can't be read: any other run may be needed.
    unreadable: Option<Uuid>,
}

/// The run that a run is a fork of, if it is one. An error if its file doesn't tell.
pub(crate) type Parent = Result<Option<Uuid>, LogError>;

/// So many generations of forks are looked at, as when a fork asks its parents.
const DEEPEST: usize = 64;

/// The run that a run is a fork of, from the first line of its file.
pub(crate) fn parent_of(disk: &dyn Disk, root: &Path, run: Uuid) -> Parent {
    #[derive(Deserialize)]
    struct ForkOf {
        run: String,
    }
    let mut reader = RunReader::open(disk, root, run, None)?;
    let fork = match reader.next() {
        Some(first) => match Record::read(&first?) {
            Record::RunStart(start) => match start.fork {
                Some(fork) => decode(fork.0).ok().and_then(|ForkOf { run }| Uuid::parse(&run)),
                None => return Ok(None),
            },
            _ => return Ok(None),
        },
        None => None,
    };
    fork.map(Some).ok_or_else(|| reader.ends_elsewhere())
}

impl Needed {
    /// Looks for all runs from which unfinished runs take answers: their parents, the parents of these, and so on.
    /// `unfinished` has each such run with its parent; `parent_of` finds those of other runs.
    pub(crate) fn by(
        unfinished: impl IntoIterator<Item = (Uuid, Parent)>,
        parent_of: impl Fn(Uuid) -> Parent,
    ) -> Needed {
        let mut needed = Needed::default();
        for (fork, mut parent) in unfinished {
            let mut child = fork;
            for _ in 0..DEEPEST {
                match parent {
                    Ok(Some(run)) => {
                        let forks = needed.forks.entry(run).or_default();
                        let is_known = !forks.is_empty();
                        forks.insert(fork);
                        if is_known {
                            break;
                        }
                        (child, parent) = (run, parent_of(run));
                    }
                    Ok(None) => break,
                    Err(_) => {
                        needed.unreadable.get_or_insert(child);
                        break;
                    }
                }
            }
        }
        needed
    }

    /// What needs a run, if something does.
    pub(crate) fn get(&self, run: Uuid) -> Option<NeededBy> {
        let fork = self.forks.get(&run).and_then(BTreeSet::first).copied().map(NeededBy::Fork);
        let other = self.unreadable.filter(|other| *other != run).map(NeededBy::Unreadable);
        fork.or(other)
    }

    /// Unfinished forks that take answers from a run.
    pub(crate) fn forks_of(&self, run: Uuid) -> BTreeSet<Uuid> {
        self.forks.get(&run).cloned().unwrap_or_default()
    }

    /// An error if a run is needed.
    pub(crate) fn check(&self, run: Uuid) -> Result<(), TaskError> {
        match self.get(run) {
            None => Ok(()),
            Some(NeededBy::Fork(fork)) => {
                let message = format!("run {run} is needed by its fork {fork}, which is not over");
                Err(TaskError::new(ErrorKind::NeededByFork, message))
            }
            Some(NeededBy::Unreadable(other)) => {
                let message = format!(
                    "run {run} may be needed: the log of run {other} can't be read, which may be a fork of it"
                );
                Err(TaskError::new(ErrorKind::MayBeNeeded, message))
            }
        }
    }
}

pub(crate) fn not_over(run: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NotOver, format!("run {run} is not over"))
}

pub(crate) fn read_too_early(run: Uuid) -> TaskError {
    let message = format!("run {run} was changed since it was read");
    TaskError::new(ErrorKind::ReadTooEarly, message)
}

impl Durable {
    /// Whether a run may send a message again that it has sent: not if it is over.
    pub(super) fn may_send(&self, sender: Uuid) -> bool {
        matches!(self.runs.get(&sender), Some(Known::Live(_) | Known::Paused(..)))
    }

    /// Where a run stands that is over and that nobody needs.
    fn at_rest(&self, run: Uuid, needed: &Needed) -> Result<Stand, TaskError> {
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
    pub(super) fn remove_runs(&mut self, runs: &[Uuid]) -> Vec<Result<(), TaskError>> {
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
    pub(super) fn compact_runs(&mut self, all: &[Remains]) -> Vec<Result<(), TaskError>> {
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
    pub(super) fn collection(&mut self, number: Option<u64>) -> Result<Answer, TaskError> {
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

    pub(super) fn needed_by_forks(&self) -> Needed {
        let Some(durable) = &self.durable else { return Needed::default() };
        let first_line = |run| parent_of(&*durable.disk, &durable.root, run);
        let live = self.runs.iter().filter_map(|(_, hosted)| {
            let hosting = hosted.hosting.as_ref().filter(|hosting| !hosting.is_over)?;
            Some((hosting.journal.run(), Ok(Some(hosting.branch.as_ref()?.parent()))))
        });
        let paused = durable.runs.unfinished().filter_map(|(run, known)| match known {
            Known::Paused(_, Some(shelved)) if !shelved.is_bare() => {
                Some((*run, Ok(shelved.parent())))
            }
            // Its log can't be read, or not as a whole; if its first line can be, that is enough.
            Known::Paused(..)
                if durable.damaged.get(run).is_none_or(|damaged| !damaged.is_over) =>
            {
                Some((*run, first_line(*run)))
            }
            _ => None,
        });
        Needed::by(live.chain(paused), |run| match durable.runs.get(&run) {
            None | Some(Known::Removed) => Ok(None),
            Some(_) => first_line(run),
        })
    }
}
