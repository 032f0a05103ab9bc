//! How a loop stands: what only it can tell, counted when somebody asks.

use tiffany_kernel::Census;

use crate::durable::known_runs::RunStates;
use crate::durable::steps::effects::EffectStates;
use crate::host::Workers;
use crate::host::slots::SlotUsage;
use crate::runtime::Runtime;

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
    pub(crate) effects: EffectStates,
    /// Each queue, who waits in it and who has left it.
    pub(crate) queues: Vec<(String, usize, usize)>,
    /// If there is a log.
    pub(crate) log: Option<LogStanding>,
}

/// How the log stands.
#[derive(Debug, Default)]
pub(crate) struct LogStanding {
    pub(crate) runs: RunStates,
    pub(crate) backlog: usize,
    pub(crate) held_back: usize,
    pub(crate) has_failed: bool,
}

impl Runtime {
    /// Says how it stands, for those who read the metrics.
    pub(crate) fn measure(&self) {
        let mut census = Census::default();
        self.runs.iter().for_each(|(_, hosted)| hosted.run.count(&mut census));
        let (pool_threads, pool_waiting) = match &self.host.workers {
            Workers::Threads(pools) => pools.load(),
            Workers::Inline(_) => (0, 0),
        };
        self.host.inbox.meters.tell(Standing {
            census,
            ready_runs: self.runs_in_line(),
            ephemeral: self.runs.iter().filter(|(_, hosted)| hosted.hosting.is_none()).count(),
            promises: self.host.inbox.promises().open().count(),
            pool_threads,
            pool_waiting,
            slots: self.effects.slot_usage(),
            effects: self.effects.states(),
            queues: self.effects.queue_lengths(),
            log: self.durable.as_ref().map(|durable| durable.standing()),
        });
    }
}
