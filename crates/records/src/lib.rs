//! Analyzes the records of existing runs without changing anything or running code: compares two
//! runs ([`diff`]), exports a run for other programs ([`export`]), and indexes a run for repeated
//! queries ([`RunIndex`]). It reads the log through [`View`](tiffany_log::View).

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
