//! Rules for how long runs are kept. It knows nothing of actual runs.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::outline::Outcome;

/// A rule about finished runs. Unfinished runs are never touched, and neither is the parent of an
/// unfinished fork.
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
    /// Removes all runs but this many, which ended last.
    pub keep: Option<usize>,
    /// Removes the runs that ended first until the others have at most this many bytes.
    pub max_bytes: Option<u64>,
    /// The outcomes that the rule applies to; if empty, it applies to all.
    pub only: BTreeSet<Outcome>,
    /// Compacts runs that ended longer ago than this.
    pub compact_after: Option<Duration>,
}

impl Retention {
    /// Makes a rule that keeps everything.
    pub fn new() -> Retention {
        Retention::default()
    }

    /// Removes runs that ended longer ago than this.
    pub fn older_than(self, age: Duration) -> Retention {
        Retention { older_than: Some(age), ..self }
    }

    /// Keeps this many runs, those that ended last, and removes the others.
    pub fn keep(self, runs: usize) -> Retention {
        Retention { keep: Some(runs), ..self }
    }

    /// Limits the size of all runs together, in bytes, including the blobs they reference, by
    /// removing the runs that ended first. A blob counts for each run that references it.
    pub fn max_bytes(self, bytes: u64) -> Retention {
        Retention { max_bytes: Some(bytes), ..self }
    }

    /// Restricts the rule to runs with this outcome; further calls add outcomes. Without it, the
    /// rule applies to all runs.
    pub fn only(mut self, outcome: Outcome) -> Retention {
        self.only.insert(outcome);
        self
    }

    /// Compacts runs that ended longer ago than this and are not removed: only their input and
    /// outcome are left.
    pub fn compact_after(self, age: Duration) -> Retention {
        Retention { compact_after: Some(age), ..self }
    }

    /// Returns whether the rule applies to runs with this outcome.
    pub fn is_about(&self, outcome: Outcome) -> bool {
        self.only.is_empty() || self.only.contains(&outcome)
    }
}
