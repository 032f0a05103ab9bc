//! A log that was kept, and the code of today against it.

use std::path::Path;
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, TaskError};

use crate::builder::Builder;
use crate::cli::other_outcome;
use crate::durable::{Until, script};
use crate::error::RunError;
use crate::wal::{RealDisk, RunReader, View};

/// Runs the only run of the log in a directory again, against that log. No effect begins, and nothing is written. The error says where the
/// two part, or that the run comes to another end.
pub fn replay(builder: Builder, dir: &Path) -> Result<(), RunError> {
    let view = View::of_files(Arc::new(RealDisk), dir)?;
    let mut runs = view.runs();
    let (Some((run, entry)), None) = (runs.next(), runs.next()) else {
        let message = format!("{} has not one run, so there is nothing to compare", dir.display());
        return Err(RunError::Failed(TaskError::new(ErrorKind::BadArgument, message)));
    };
    // The view has as much as is good; a log that was kept must be good to its end.
    let mut reader = RunReader::open(&RealDisk, dir, run, None)?;
    while let Some(record) = reader.next() {
        record?;
    }
    let script = script(&view, run)?;
    let was = script.outcome.clone();
    if was.is_none() {
        let message =
            format!("the log of run {run} has no end; it was cut, or the run was not over");
        return Err(RunError::Failed(TaskError::new(ErrorKind::GoldenLog, message)));
    }
    let mut runtime = builder.without_log().build()?;
    let rehearsal = runtime.rehearse(&entry.chain(run), script, Until::TheEnd);
    let rehearsal = rehearsal.map_err(RunError::Failed)?;
    if let Some(apart) = rehearsal.apart {
        return Err(RunError::Failed(apart));
    }
    match other_outcome(&rehearsal, was.as_ref()) {
        Some(message) => Err(RunError::Failed(TaskError::new(ErrorKind::Diverged, message))),
        None => Ok(()),
    }
}
