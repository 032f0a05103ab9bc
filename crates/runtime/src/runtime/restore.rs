//! A run made again from its snapshot: its tables as they were, and each state machine from its state.

use tiffany_kernel::{ErrorKind, Run, RunConfig, RunId, TaskError, Time};

use crate::calls::context;
use crate::program::registry::Registry;
use crate::run_log::snapshot::Snapshot;

/// Restores a run with this number, from the functions of the program. Its time began at the first
/// of the two moments, and continues at the second.
pub(crate) fn restored(
    registry: &Registry,
    id: RunId,
    snapshot: &Snapshot,
    config: RunConfig,
    times: (Time, Time),
) -> Result<Run, TaskError> {
    let unreadable =
        || TaskError::new(ErrorKind::NotRestored, "the tables of its snapshot cannot be read");
    let tables = snapshot.tables().ok_or_else(unreadable)?;
    context::with(|context| *context.restoring.borrow_mut() = Some(tables.names(id)));
    let coroutines = tables
        .tasks
        .iter()
        .map(|task| registry.restore(&task.agent, &task.state, task.until))
        .collect::<Result<Vec<_>, _>>();
    context::with(|context| context.restoring.take());
    Ok(Run::restore(id, tables, coroutines?, config, times))
}
