//! Who removes and compacts runs: on behalf of a program, another process, or a runtime itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::{TaskError, Uuid};

use super::facts::Memory;
use super::plan::Plan;
use super::work::{Ask, Pruned};
use crate::clock::Clock;
use crate::control::{Control, unexpected};
use crate::host::inbox::Inbox;
use crate::run_log::needed::not_over;
use tiffany_log::{Collected, RealDisk, RunState, View};
use tiffany_records::errors::log_failed;
use tiffany_records::request::{Answer, Lost, Request};
use tiffany_records::retention::Retention;

/// Removes and compacts runs of a log that are over, through the process that has its directory or, where none has, on the log itself, which is then
/// this one's for as long as the keeper lives.
///
/// Everything it does is safe in the log when it comes back, and goes in small batches, so that runs that go on hardly notice.
pub struct Keeper {
    control: Control,
    dir: PathBuf,
    memory: Memory,
}

impl Keeper {
    /// For the log in a directory.
    pub fn open(dir: &Path) -> Result<Keeper, TaskError> {
        Ok(Keeper::through(Control::open(dir)?, dir))
    }

    /// For the log in a directory, through whoever is asked by this.
    pub fn through(control: Control, dir: &Path) -> Keeper {
        Keeper { control, dir: dir.to_path_buf(), memory: Memory::default() }
    }

    /// For a runtime of this process, from another thread.
    pub(crate) fn of(inbox: Arc<Inbox>, dir: PathBuf) -> Keeper {
        Keeper { control: Control::of(inbox), dir, memory: Memory::default() }
    }

    /// Whether no process has the log.
    pub fn is_offline(&self) -> bool {
        self.control.is_offline()
    }

    /// Removes a run that is over. Its id stays known: starting it again is an error, and runs nothing.
    pub fn remove(&mut self, run: Uuid) -> Result<(), TaskError> {
        crate::retention::work::remove(&mut self.control, run)
    }

    /// Removes a run that is damaged, whether it is over or not, and says what is lost. A run that isn't damaged is
    /// refused. Its unfinished forks pause where they need an answer that it had.
    pub fn remove_damaged(&mut self, run: Uuid) -> Result<Lost, TaskError> {
        match self.control.ask(Request::RemoveDamaged { run })? {
            Answer::Lost(lost) => Ok(lost),
            other => Err(unexpected(&other)),
        }
    }

    /// Compacts runs that are over. Of each only what it was started with and what came of it is left. Those that were compacted before, or are so short that nothing would be
    /// saved, stay as they are.
    pub fn compact(&mut self, runs: &[Uuid]) -> Result<Pruned, TaskError> {
        compact(&mut self.control, &self.dir, runs)
    }

    /// What these rules would do now. Nothing is changed.
    pub fn plan(&mut self, rules: &[Retention]) -> Result<Plan, TaskError> {
        let view = look(&self.dir)?;
        plan(&mut self.memory, &view, rules, Clock::system().now())
    }

    /// Does what was planned, and removes the blobs that nobody names after that. What has changed meanwhile is left as it is, and told.
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

/// Does what was planned for the log in a directory.
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

pub(crate) fn plan(
    memory: &mut Memory,
    view: &View,
    rules: &[Retention],
    now: tiffany_kernel::Time,
) -> Result<Plan, TaskError> {
    let blobs = rules.iter().any(|rule| rule.max_bytes.is_some());
    let facts = memory.look(view, blobs).map_err(log_failed)?;
    let mut plan = Plan::new(&facts, rules, now);
    plan.keep_damaged(view, facts.damaged);
    Ok(plan)
}

/// What these rules would do now to a log that is only looked at: it may be in use, or read-only. Nothing is changed.
pub fn plan_of(view: &View, rules: &[Retention]) -> Result<Plan, TaskError> {
    plan(&mut Memory::default(), view, rules, Clock::system().now())
}

/// An error for the first run that is not over or not there.
pub(crate) fn resting(view: &View, runs: &[Uuid]) -> Result<Vec<Uuid>, TaskError> {
    for run in runs {
        match view.run(*run).map(|entry| entry.state) {
            Some(RunState::Finished) => {}
            Some(RunState::Live) => return Err(not_over(*run)),
            Some(RunState::Removed) => return Err(tiffany_records::errors::run_removed(*run)),
            None => return Err(tiffany_records::errors::no_such_run(*run)),
        }
    }
    Ok(runs.to_vec())
}
