//! The effect of a cancel on a run, and on which of its tasks.

use tiffany_kernel::Tid;

use crate::run_log::replay::decoded_log::DecodedLog;

/// The effect of a cancel on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// Its tasks are unwound, and may clean up.
    Unwinds,
    /// Its tasks end at once.
    Forces,
}

impl DecodedLog {
    /// The tasks that had not ended, in the order of their numbers.
    pub(crate) fn tasks_left(&self) -> Vec<Tid> {
        let calls = self.calls.values().flatten();
        let children = calls.filter_map(|call| call.field("child")?.parse().ok().map(Tid));
        let mut left: Vec<Tid> = children.chain([Tid(1)]).collect();
        left.retain(|tid| !self.ended.contains_key(tid));
        left.sort();
        left
    }
}
