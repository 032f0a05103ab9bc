//! Replays of a run that only report: no effect starts, nothing is recorded, and the run is
//! forgotten afterwards.

use tiffany_kernel::{CallKind, Record, RecordKind, TaskError, TaskInfo, Tid};

use crate::run_log::replay::proposal::Proposal;

/// The maximum number of rounds after the end of the log.
pub(crate) const AHEAD: usize = 1_000;
/// The number of further rounds that a run may take to reach the recorded end.
pub(crate) const TO_THE_END: usize = 1_000_000;

/// One call of a task, in a log of every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Called(CallKind),
    Exited,
    Aborted,
    Cancelled,
}

/// Where a dry run stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At the end of the log.
    TheEnd,
    /// After the log, where the run would wait for the outside world.
    TheNextCalls,
}

/// A call that a run would make next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Upcoming {
    /// Its task.
    pub tid: Tid,
    /// Its kind, in the form of the log.
    pub call: &'static str,
    /// The name of the step, if it is one.
    pub name: Option<&'static str>,
    /// Its line.
    pub at: String,
}

/// The result of a dry run.
#[derive(Default)]
pub struct DryRun {
    /// How many outward calls matched the recorded ones.
    pub matched: usize,
    /// Why it diverges from its log, if it does.
    pub apart: Option<TaskError>,
    /// The divergence without a guess at what was changed in the program.
    pub(crate) parting: Option<TaskError>,
    /// The calls of its tasks, in order. Plain yields are left out.
    pub(crate) acts: Vec<(Tid, Act)>,
    /// The states of its tasks at the end.
    pub tasks: Vec<TaskInfo>,
    /// The calls that it would make next.
    pub upcoming: Vec<Upcoming>,
    /// The suggested code where the run differs.
    pub(crate) proposal: Option<Proposal>,
    /// How its root ended.
    pub(crate) outcome: Option<Result<String, TaskError>>,
}

/// What a record says that a task did; nothing for yields, which the log counts.
pub(crate) fn act_of(record: &Record) -> Option<(Tid, Act)> {
    let act = match &record.kind {
        RecordKind::Called(call) if call.kind == CallKind::Yield => return None,
        RecordKind::Called(call) => Act::Called(call.kind),
        RecordKind::Completed(_) => Act::Exited,
        RecordKind::Failed(_) => Act::Aborted,
        RecordKind::Cancelled(_) => Act::Cancelled,
        _ => return None,
    };
    Some((record.tid, act))
}
