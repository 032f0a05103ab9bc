//! What can be learnt from the records of runs that are there, by reading alone: where two runs part ([`diff`]), and a
//! run in the forms that other programs show ([`export`]), and an index of a run for who looks at it again and again ([`Chronicle`]). It looks by way of [`View`](crate::wal::View), runs no code
//! and changes nothing.

mod chronicle;
mod diff;
mod export;
mod glance;
pub(crate) mod tasks;
pub(crate) mod waiting;
mod words;

pub use chronicle::{
    Attempt, Chronicle, ChronicleError, EffectPage, EffectQuery, EffectSeen, EffectsOfName,
    ErrorStanding, LaneShown, RecordPage, RecordQuery, SliceShown, StepStanding, TaskQuery,
    TaskStanding, TasksStanding, Timeline, TimelineQuery, WaitStanding,
};
pub use diff::{
    Call, Change, Diff, DiffSettings, Difference, DifferenceKind, Parting, Side, TaskEnds, diff,
};
pub use export::{ExportError, Format, export, export_to_file};
pub(crate) use glance::Glance;
pub use glance::Outcome;
pub use words::ChangedAnswer;
#[cfg(feature = "cli")]
pub(crate) use words::{has_failed, json_value};
