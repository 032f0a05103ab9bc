//! What can be said about how long runs are kept. It knows no run.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::outline::Outcome;

/// A rule about runs that are over. Runs that are not over are never touched, and neither is the parent of a fork that is not over.
///
/// ```
/// use std::time::Duration;
/// use tiffany_records::Outcome;
/// use tiffany_records::retention::Retention;
///
/// let day = Duration::from_secs(86_400);
/// let completed = Retention::new()
///     .only(Outcome::Completed)
///     .compact_after(day)
///     .older_than(30 * day)
///     .max_bytes(1_000_000_000);
/// let failed = Retention::new().only(Outcome::Failed).keep(1_000);
/// # drop((completed, failed));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Removes runs that ended longer ago than this.
    pub older_than: Option<Duration>,
    /// Removes all but so many.
    pub keep: Option<usize>,
    /// Removes the oldest beyond this size.
    pub max_bytes: Option<u64>,
    /// The outcomes it is about; none stands for all.
    pub only: BTreeSet<Outcome>,
    /// Compacts runs that ended longer ago than this.
    pub compact_after: Option<Duration>,
}

impl Retention {
    /// A rule that keeps everything.
    pub fn new() -> Retention {
        Retention::default()
    }

    /// Runs that ended longer ago than this are removed.
    pub fn older_than(self, age: Duration) -> Retention {
        Retention { older_than: Some(age), ..self }
    }

    /// So many runs are kept, those that ended last; the others are removed.
    pub fn keep(self, runs: usize) -> Retention {
        Retention { keep: Some(runs), ..self }
    }

    /// The runs may have so many bytes together, in their files and in the blobs they name. If they have more, those that ended first are removed. A blob counts
    /// for each run that names it.
    pub fn max_bytes(self, bytes: u64) -> Retention {
        Retention { max_bytes: Some(bytes), ..self }
    }

    /// The rule is about runs that ended like this; about others too if it is said more than once. Without it, it is about all.
    pub fn only(mut self, outcome: Outcome) -> Retention {
        self.only.insert(outcome);
        self
    }

    /// Runs that ended longer ago than this, and are not removed, are compacted: what they were started with and what came of them is left.
    pub fn compact_after(self, age: Duration) -> Retention {
        Retention { compact_after: Some(age), ..self }
    }

    /// Whether it is about runs that ended like this.
    pub fn is_about(&self, outcome: Outcome) -> bool {
        self.only.is_empty() || self.only.contains(&outcome)
    }
}
