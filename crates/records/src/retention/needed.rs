//! The runs that unfinished forks take answers from. They are neither removed nor compacted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};
use tiffany_log::{LogError, LogReader};

use crate::record::Record;
use crate::value::decode;

/// The runs that unfinished forks take answers from.
#[derive(Debug, Default)]
pub struct NeededRuns {
    /// Each run with the unfinished forks that need it.
    forks: BTreeMap<Uuid, BTreeSet<Uuid>>,
    /// A run whose parent can't be read, and which may therefore need any other run.
    unreadable: Option<Uuid>,
}

/// The parent of a run, if it is a fork. An error means that its file can't tell.
pub type ParentRun = Result<Option<Uuid>, LogError>;

/// The maximum number of generations of forks to follow. It is the same when a fork asks its
/// parents.
const MAX_DEPTH: usize = 64;

/// Reads the parent of a run from its first line; `None` if the run is not a fork.
pub fn parent_of(log: &dyn LogReader, run: Uuid) -> ParentRun {
    #[derive(Deserialize)]
    struct ForkOf {
        run: String,
    }
    let mut reader = log.lines(run, None)?;
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

impl NeededRuns {
    /// Finds all runs that unfinished runs take answers from: their parents, the parents of these,
    /// and so on. `unfinished` has each unfinished run with its parent; `parent_of` finds the
    /// parents of other runs.
    pub fn of(
        unfinished: impl IntoIterator<Item = (Uuid, ParentRun)>,
        parent_of: impl Fn(Uuid) -> ParentRun,
    ) -> NeededRuns {
        let mut needed = NeededRuns::default();
        for (fork, mut parent) in unfinished {
            let mut child = fork;
            for _ in 0..MAX_DEPTH {
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

    /// Returns why a run is needed, if it is.
    pub fn get(&self, run: Uuid) -> Option<NeededBy> {
        let fork = self.forks.get(&run).and_then(BTreeSet::first).copied().map(NeededBy::Fork);
        let other = self.unreadable.filter(|other| *other != run).map(NeededBy::Unreadable);
        fork.or(other)
    }

    /// Returns the unfinished forks that take answers from a run.
    pub fn forks_of(&self, run: Uuid) -> BTreeSet<Uuid> {
        self.forks.get(&run).cloned().unwrap_or_default()
    }

    /// Fails if a run is needed.
    pub fn check(&self, run: Uuid) -> Result<(), TaskError> {
        match self.get(run) {
            None => Ok(()),
            Some(NeededBy::Fork(fork)) => {
                let message =
                    format!("run {run} is needed by its fork {fork}, which is not finished");
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

/// The reason to keep a run that a rule or a command would remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeededBy {
    /// This fork of it is not finished.
    Fork(Uuid),
    /// This run, which is unfinished or the parent of an unfinished one, has an unreadable log, so
    /// it may be a fork.
    Unreadable(Uuid),
}

impl NeededBy {
    /// Returns the run that needs, or may need, the other one.
    pub fn run(self) -> Uuid {
        let (NeededBy::Fork(run) | NeededBy::Unreadable(run)) = self;
        run
    }
}
