//! What can be learnt from the records of runs that are there, by reading alone: where two runs part ([`diff`]), and a
//! run in the forms that other programs show ([`export`]), and an index of a run for who looks at it again and again ([`RunIndex`]). It looks by way of [`View`](tiffany_log::View), runs no code
//! and changes nothing.

pub mod activity;
pub mod attributes;
pub mod call_words;
mod diff;
mod error;
pub mod errors;
mod export;
pub mod json;
pub mod key;
mod long_error;
pub mod metrics;
mod moment;
mod outline;
pub mod record;
pub mod redact;
pub mod request;
pub mod retention;
mod run_index;
pub mod tasks;
pub mod value;
pub mod wait_reason;
mod words;

pub use crate::outline::Outcome;
pub use crate::outline::RunOutline;
pub use crate::run_index::{
    Attempt, EffectPage, EffectQuery, EffectSeen, EffectsOfName, ErrorStanding, LaneShown,
    RecordPage, RecordQuery, RunIndex, RunIndexError, SliceShown, StepStanding, TaskQuery,
    TaskStanding, TasksStanding, Timeline, TimelineQuery, WaitStanding,
};
pub use diff::{
    Call, Change, Diff, DiffSettings, Difference, DifferenceKind, Parting, Side, TaskEnds, diff,
};
pub use error::RunError;
pub use export::{ExportError, Format, export, export_to_file};
pub use long_error::shown_error;
pub use record::Record;
pub use words::ChangedAnswer;
pub use words::{has_failed, json_value};
