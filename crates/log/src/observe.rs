//! The events that a log reports to the program that has it open, for metrics.

use std::time::Duration;

/// A block that was committed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// How long the commit took, including its sync.
    pub time: Duration,
    /// The number of bytes written.
    pub bytes: u64,
    /// The number of lines in the block.
    pub records: u64,
}

/// An observer of commits. It is called on the thread that made the commit.
pub trait CommitObserver: Send + Sync {
    /// Called after each block that was committed.
    fn committed(&self, commit: Commit);
}
