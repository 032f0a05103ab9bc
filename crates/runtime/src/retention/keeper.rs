//! Removes and compacts runs, on behalf of a program, another process, or a runtime itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::{TaskError, Uuid};

use super::work::{Ask, Pruned};
use crate::clock::Clock;
use crate::control::{Control, unexpected};
use crate::host::inbox::Inbox;
use tiffany_log::{Collected, RealDisk, RunState, View};
use tiffany_records::errors::{log_failed, no_such_run, not_over, run_removed};
use tiffany_records::request::{Answer, Lost, Request};
use tiffany_records::retention::{FactCache, Plan, Retention};

/// Removes and compacts finished runs of a log: through the process that has its directory, or on the log itself if no
/// process has it. Then the keeper holds the directory for as long as it lives.
///
/// Each method returns when what it did is safe in the log. It works in small batches, so running runs are hardly
/// delayed.
pub struct Keeper {
    control: Control,
    dir: PathBuf,
    cache: FactCache,
}

impl Keeper {
    /// Opens the log in a directory.
    pub fn open(dir: &Path) -> Result<Keeper, TaskError> {
        Ok(Keeper::through(Control::open(dir)?, dir))
    }

    /// Uses the log in a directory through a `Control` that was opened for it.
    pub fn through(control: Control, dir: &Path) -> Keeper {
        Keeper { control, dir: dir.to_path_buf(), cache: FactCache::default() }
    }

    /// Uses a runtime of this process, from another thread.
    pub(crate) fn of(inbox: Arc<Inbox>, dir: PathBuf) -> Keeper {
        Keeper { control: Control::of(inbox), dir, cache: FactCache::default() }
    }

    /// Whether no process owns the directory.
    pub fn is_offline(&self) -> bool {
        self.control.is_offline()
    }

    /// Removes a finished run. Its id stays known: starting it again is an error and runs nothing.
    pub fn remove(&mut self, run: Uuid) -> Result<(), TaskError> {
        crate::retention::work::remove(&mut self.control, run)
    }

    /// Removes a damaged run, finished or not, and returns what is lost. A run that is not damaged is refused. Its
    /// unfinished forks pause where they need an answer that it had.
    pub fn remove_damaged(&mut self, run: Uuid) -> Result<Lost, TaskError> {
        match self.control.ask(Request::RemoveDamaged { run })? {
            Answer::Lost(lost) => Ok(lost),
            other => Err(unexpected(&other)),
        }
    }

    /// Compacts finished runs: of each, its input and its outcome are left. Runs that were compacted before, or are so
    /// short that nothing would be saved, stay as they are.
    pub fn compact(&mut self, runs: &[Uuid]) -> Result<Pruned, TaskError> {
        compact(&mut self.control, &self.dir, runs)
    }

    /// Returns what these rules would do now. Nothing is changed.
    pub fn plan(&mut self, rules: &[Retention]) -> Result<Plan, TaskError> {
        let view = look(&self.dir)?;
        Plan::of(&view, rules, Clock::system().now(), &mut self.cache)
    }

    /// Carries out a plan, and then removes the blobs that no run names any more. Runs that changed meanwhile are left
    /// as they are and listed in the result.
    pub fn carry_out(&mut self, plan: &Plan) -> Result<Pruned, TaskError> {
        carry_out(&mut self.control, &self.dir, plan)
    }

    /// Removes the blobs that no run names.
    pub fn collect_blobs(&mut self) -> Result<Collected, TaskError> {
        collect_blobs(&mut self.control)
    }
}

fn look(dir: &Path) -> Result<View, TaskError> {
    View::open(Arc::new(RealDisk), dir).map_err(log_failed)
}

/// Compacts runs of the log in a directory.
pub(crate) fn compact(
    control: &mut Control,
    dir: &Path,
    runs: &[Uuid],
) -> Result<Pruned, TaskError> {
    let view = look(dir)?;
    let mut pruned = Pruned::default();
    pruned.compact(control, &view, &resting(&view, runs)?)?;
    Ok(pruned)
}

/// Carries out a plan for the log in a directory.
pub(crate) fn carry_out(
    control: &mut Control,
    dir: &Path,
    plan: &Plan,
) -> Result<Pruned, TaskError> {
    let mut pruned = Pruned::default();
    let view = look(dir)?;
    pruned.carry_out(control, &view, plan)?;
    drop(view);
    if !pruned.is_empty() {
        pruned.collect(control)?;
    }
    Ok(pruned)
}

/// Removes the blobs that no run of a log names.
pub(crate) fn collect_blobs(ask: &mut dyn Ask) -> Result<Collected, TaskError> {
    let mut pruned = Pruned::default();
    pruned.collect(ask)?;
    Ok(pruned.collected)
}

/// Returns what these rules would do now to a log that is only read: it may be in use, or read-only.
pub fn plan_of(view: &View, rules: &[Retention]) -> Result<Plan, TaskError> {
    Plan::of(view, rules, Clock::system().now(), &mut FactCache::default())
}

/// Returns the runs, or an error for the first one that is not finished or not there.
pub(crate) fn resting(view: &View, runs: &[Uuid]) -> Result<Vec<Uuid>, TaskError> {
    for run in runs {
        match view.run(*run).map(|entry| entry.state) {
            Some(RunState::Finished) => {}
            Some(RunState::Live) => return Err(not_over(*run)),
            Some(RunState::Removed) => return Err(run_removed(*run)),
            None => return Err(no_such_run(*run)),
        }
    }
    Ok(runs.to_vec())
}
