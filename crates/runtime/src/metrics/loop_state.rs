//! The state of a loop: figures that only the loop can provide, collected when the metrics are
//! read.

use tiffany_kernel::Census;

/// The state of a loop at one moment.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    pub(crate) census: Census,
    pub(crate) ready_runs: usize,
    pub(crate) ephemeral: usize,
    pub(crate) promises: usize,
    pub(crate) pool_threads: usize,
    pub(crate) pool_waiting: usize,
    pub(crate) slots: SlotUsage,
    pub(crate) effects: StepStates,
    /// Each queue, with the number of steps that wait in it and that have left it.
    pub(crate) queues: Vec<(String, usize, usize)>,
    /// The state of the log, if there is one.
    pub(crate) log: Option<LogState>,
}

/// The state of the log.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    pub(crate) runs: RunStates,
    pub(crate) backlog: usize,
    pub(crate) held_back: usize,
    pub(crate) has_failed: bool,
}

/// How many steps are in each state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepStates(pub(crate) [usize; 5]);

impl StepStates {
    pub(crate) fn named(self) -> impl Iterator<Item = (&'static str, usize)> {
        ["queued", "retrying", "in_doubt", "committing", "running"].into_iter().zip(self.0)
    }
}

/// How many durable runs are in each state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunStates {
    pub(crate) live: usize,
    pub(crate) paused: usize,
    pub(crate) over: usize,
    pub(crate) removed: usize,
}

impl RunStates {
    pub(crate) fn named(self) -> [(&'static str, usize); 4] {
        let RunStates { live, paused, over, removed } = self;
        [("live", live), ("paused", paused), ("over", over), ("removed", removed)]
    }
}

/// How the slots of a runtime are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotUsage {
    pub(crate) limit: usize,
    pub(crate) taken: usize,
    pub(crate) waiting: usize,
}
