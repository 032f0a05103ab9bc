//! Runs that are over, for another language: several at once, with what was planned, and through a [`Control`] that is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::{TaskError, Uuid};

use crate::control::Control;
use crate::retention;
use crate::retention::work::Pruned;
use crate::runtime::Runtime;
use tiffany_log::{Collected, RealDisk, View};
use tiffany_records::RunError;
use tiffany_records::errors::log_failed;
use tiffany_records::retention::{Plan, Retention};

/// The directory of a runtime's log.
pub fn log_dir(runtime: &Runtime) -> Option<PathBuf> {
    runtime.log_place().map(|(_, dir)| dir)
}

/// Compacts runs. Those that are damaged are left, and told.
#[track_caller]
pub fn compact(runtime: &mut Runtime, runs: &[Uuid]) -> Result<Pruned, RunError> {
    runtime.flush()?;
    let pruned = runtime.compact_several(runs)?;
    runtime.flush()?;
    Ok(pruned)
}

/// Does what rules say, and tells what that was.
#[track_caller]
pub fn prune(runtime: &mut Runtime, rules: &[Retention]) -> Result<(Plan, Pruned), RunError> {
    runtime.prune_planned(rules)
}

/// What rules would do to the log in a directory.
pub fn plan_for(dir: &Path, rules: &[Retention]) -> Result<Plan, TaskError> {
    let view = View::open(Arc::new(RealDisk), dir).map_err(log_failed)?;
    retention::plan_of(&view, rules)
}

/// Does what was planned, through who has the log in a directory.
pub fn carry_out_by(control: &mut Control, dir: &Path, plan: &Plan) -> Result<Pruned, TaskError> {
    retention::carry_out(control, dir, plan)
}

/// Compacts runs, through who has the log in a directory.
pub fn compact_by(control: &mut Control, dir: &Path, runs: &[Uuid]) -> Result<Pruned, TaskError> {
    retention::compact(control, dir, runs)
}

/// Removes blobs that no run names, through who has the log.
pub fn collect_blobs_by(control: &mut Control) -> Result<Collected, TaskError> {
    retention::collect_blobs(control)
}
