//! What can be learnt from the records of runs that are there, by reading alone: where two runs part ([`diff`]), and a
//! run in the forms that other programs show ([`export`]). It looks by way of [`View`](crate::wal::View), runs no code
//! and changes nothing.

mod diff;
mod export;
mod glance;
mod words;

pub use diff::{
    Call, Change, Diff, DiffSettings, Difference, DifferenceKind, Parting, Side, TaskEnds, diff,
};
pub use export::{ExportError, Format, export, export_to_file};
pub(crate) use glance::Glance;
pub use glance::Outcome;
