//! Retention of finished runs for another language: several runs at once, with a plan, and through
//! an open [`Control`].

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

/// Compacts runs. Damaged runs are skipped and reported.
#[track_caller]
pub fn compact(runtime: &mut Runtime, runs: &[Uuid]) -> Result<Pruned, RunError> {
    runtime.flush()?;
    let pruned = runtime.compact_several(runs)?;
    runtime.flush()?;
    Ok(pruned)
}

/// Applies retention rules, and returns the plan and what was done.
#[track_caller]
pub fn prune(runtime: &mut Runtime, rules: &[Retention]) -> Result<(Plan, Pruned), RunError> {
    runtime.prune_planned(rules)
}

/// What retention rules would do to the log in a directory.
pub fn plan_for(dir: &Path, rules: &[Retention]) -> Result<Plan, TaskError> {
    let view = View::open(Arc::new(RealDisk), dir).map_err(log_failed)?;
    retention::plan_of(&view, rules)
}

/// Carries out a plan through the process that owns the directory.
pub fn carry_out_by(control: &mut Control, dir: &Path, plan: &Plan) -> Result<Pruned, TaskError> {
    retention::carry_out(control, dir, plan)
}

/// Compacts runs through the process that owns the directory.
pub fn compact_by(control: &mut Control, dir: &Path, runs: &[Uuid]) -> Result<Pruned, TaskError> {
    retention::compact(control, dir, runs)
}

/// Removes unreferenced blobs through the process that owns the directory.
pub fn collect_blobs_by(control: &mut Control) -> Result<Collected, TaskError> {
    retention::collect_blobs(control)
}
