//! How a loop stands: what only it can tell, counted when somebody asks.

use tiffany_kernel::Census;

use crate::host::Workers;
use crate::metrics::loop_state::Standing;
use crate::runtime::Runtime;
use tiffany_records::metrics::Snapshot;

impl Runtime {
    /// What it has counted and measured so far.
    pub fn metrics(&self) -> Snapshot {
        self.measure();
        self.host.inbox.meters.read()
    }

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
            ephemeral: self
                .runs
                .iter()
                .filter(|(_, hosted)| hosted.durable_state.is_none())
                .count(),
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
