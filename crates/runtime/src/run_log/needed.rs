//! The runs that unfinished forks take answers from. They are neither removed nor compacted.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};
use tiffany_log::{Disk, LogError, RunReader};
use tiffany_records::record::Record;
use tiffany_records::value::decode;

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

/// Why a run is kept that a rule or a command would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeededBy {
    /// This fork of it isn't over.
    Fork(Uuid),
    /// This run isn't over, or is the parent of such a run, and its log can't be read: it may be a fork.
    Unreadable(Uuid),
}

impl NeededBy {
    /// The run that needs the other one, or may need it.
    pub fn run(self) -> Uuid {
        let (NeededBy::Fork(run) | NeededBy::Unreadable(run)) = self;
        run
    }
}
