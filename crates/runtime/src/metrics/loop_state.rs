//! How a loop stands: figures that only the loop can give, taken when somebody asks for the metrics.

use tiffany_kernel::Census;

/// What is so at one moment.
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
    /// Each queue, who waits in it and who has left it.
    pub(crate) queues: Vec<(String, usize, usize)>,
    /// If there is a log.
    pub(crate) log: Option<LogState>,
}

/// How the log stands.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    pub(crate) runs: RunStates,
    pub(crate) backlog: usize,
    pub(crate) held_back: usize,
    pub(crate) has_failed: bool,
}

/// How many steps are in which state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepStates(pub(crate) [usize; 5]);

impl StepStates {
    pub(crate) fn named(self) -> impl Iterator<Item = (&'static str, usize)> {
        ["queued", "retrying", "in_doubt", "committing", "running"].into_iter().zip(self.0)
    }
}

/// How many durable runs are in which state.
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
