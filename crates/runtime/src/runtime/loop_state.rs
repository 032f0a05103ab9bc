//! The state of a loop for the metrics: figures that only the loop has, computed when they are
//! read.

use tiffany_kernel::Census;

use crate::host::Workers;
use crate::metrics::loop_state::Standing;
use crate::runtime::durable::Durable;
use crate::runtime::run_list::RunsView;

impl RunsView<'_> {
    /// The state of the loop, for the metrics.
    pub(crate) fn standing(self) -> Standing {
        let mut census = Census::default();
        self.runs.iter().for_each(|hosted| hosted.run.count(&mut census));
        let (pool_threads, pool_waiting) = match &self.host.workers {
            Workers::Threads(pools) => pools.load(),
            Workers::Inline(_) => (0, 0),
        };
        Standing {
            census,
            ready_runs: self.runs.in_line(),
            ephemeral: self.runs.iter().filter(|hosted| hosted.durable_state.is_none()).count(),
            promises: self.host.inbox.promises().open().count(),
            pool_threads,
            pool_waiting,
            slots: self.steps.slot_usage(),
            effects: self.steps.states(),
            queues: self.steps.queue_lengths(),
            log: self.durable.map(Durable::standing),
        }
    }
}
