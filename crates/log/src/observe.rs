//! What a log reports to the program that has it open, for metrics.

use std::time::Duration;

/// A block that was committed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Commit {
    /// How long it took, its sync included.
    pub time: Duration,
    /// How many bytes were written.
    pub bytes: u64,
    /// How many lines the block has.
    pub records: u64,
}

/// Is told of every commit, on the thread that made it.
pub trait CommitObserver: Send + Sync {
    /// A block was committed.
    fn committed(&self, commit: Commit);
}
