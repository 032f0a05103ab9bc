//! The thread of a runtime that applies its retention rules. It reads the finished runs and decides what to do, so the loop
//! only writes some lines.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::keeper::Keeper;
use super::work::Pruned;
use crate::host::inbox::Inbox;
use tiffany_records::retention::Retention;

/// The shortest time between two passes, whatever the builder says.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Applies the rules of a runtime for as long as this lives.
pub(crate) struct Background {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread, which applies the rules at once and then at this interval.
    pub(crate) fn start(
        rules: Vec<Retention>,
        every: Duration,
        inbox: Arc<Inbox>,
        dir: PathBuf,
    ) -> std::io::Result<Background> {
        let (end, ended) = channel();
        let work = move || {
            // Everything else needs the processor more.
            let _ = rustix::process::nice(10);
            let mut keeper = Keeper::of(inbox, dir);
            let mut left = BTreeSet::new();
            loop {
                match pass(&mut keeper, &rules) {
                    Ok(pruned) => left = tell(&pruned, &left),
                    // The loop does not answer at present: the next pass tries again.
                    Err(error) if error.kind() == ErrorKind::Unreachable => {
                        tracing::debug!(target: "tiffany", "old runs have to wait: {error}");
                    }
                    Err(error) => tracing::warn!(
                        target: "tiffany", code = error.code(),
                        "the rules about finished runs could not be applied this time: {error}",
                    ),
                }
                match ended.recv_timeout(every.max(MIN_INTERVAL)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("tiffany-keep".into()).spawn(work)?;
        Ok(Background { end: Some(end), thread: Some(thread) })
    }
}

fn pass(keeper: &mut Keeper, rules: &[Retention]) -> Result<Pruned, TaskError> {
    let plan = keeper.plan(rules)?;
    match plan.is_empty() {
        true => Ok(Pruned { refused: plan.damaged, ..Pruned::default() }),
        false => keeper.carry_out(&plan),
    }
}

/// Logs what was done, and once each run that was left as it is. Returns the runs that were left.
fn tell(pruned: &Pruned, told: &BTreeSet<Uuid>) -> BTreeSet<Uuid> {
    if !pruned.is_empty() {
        let Pruned { removed, compacted, bytes, collected, .. } = pruned;
        tracing::info!(
            target: "tiffany", removed, compacted, bytes, blobs = collected.blobs,
            "finished runs: {removed} removed, {compacted} compacted",
        );
    }
    for (run, error) in pruned.refused.iter().filter(|(run, _)| !told.contains(run)) {
        tracing::warn!(target: "tiffany", run = %run, code = error.code(), "left as it is: {error}");
    }
    pruned.refused.iter().map(|(run, _)| *run).collect()
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
