//! What can be learnt from the records of runs that are there, by reading alone: where two runs part ([`diff`]), and a
//! run in the forms that other programs show ([`export`]), and an index of a run for who looks at it again and again ([`Chronicle`]). It looks by way of [`View`](tiffany_log::View), runs no code
//! and changes nothing.

pub mod activity;
pub mod call_words;
mod chronicle;
mod diff;
mod error;
pub mod errors;
mod export;
mod glance;
pub mod json;
pub mod key;
mod long_error;
pub mod metrics;
mod moment;
pub mod record;
pub mod redact;
pub mod request;
pub mod retention;
pub mod tasks;
pub mod value;
pub mod waiting;
mod words;

pub use chronicle::{
    Attempt, Chronicle, ChronicleError, EffectPage, EffectQuery, EffectSeen, EffectsOfName,
    ErrorStanding, LaneShown, RecordPage, RecordQuery, SliceShown, StepStanding, TaskQuery,
    TaskStanding, TasksStanding, Timeline, TimelineQuery, WaitStanding,
};
pub use diff::{
    Call, Change, Diff, DiffSettings, Difference, DifferenceKind, Parting, Side, TaskEnds, diff,
};
pub use error::RunError;
pub use export::{ExportError, Format, export, export_to_file};
pub use glance::Glance;
pub use glance::Outcome;
pub use long_error::shown_error;
pub use record::Record;
pub use words::ChangedAnswer;
pub use words::{has_failed, json_value};
