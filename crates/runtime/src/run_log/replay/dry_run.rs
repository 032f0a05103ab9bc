//! Running a run again against its log, for those who only want to know: no effect begins, nothing is written, and
//! the run is forgotten afterwards.

use tiffany_kernel::{CallKind, Record, RecordKind, TaskError, TaskInfo, Tid};

use crate::run_log::replay::proposal::Proposal;

/// How many rounds are looked ahead, at most.
pub(crate) const AHEAD: usize = 1_000;
/// So many more a run may take to come to the end that its log has.
pub(crate) const TO_THE_END: usize = 1_000_000;

/// One thing that a task did, as far as a log of every call has it.
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
    /// Its kind, as the log has it.
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
    /// What its tasks did, in order. Plain yields are left out.
    pub(crate) acts: Vec<(Tid, Act)>,
    /// The states of its tasks at the end.
    pub tasks: Vec<TaskInfo>,
    /// The calls that it would make next.
    pub upcoming: Vec<Upcoming>,
    /// What could be written where it does not fit.
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
