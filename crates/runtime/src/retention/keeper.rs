//! Who removes and compacts runs: on behalf of a program, another process, or a runtime itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::facts::Memory;
use super::plan::Plan;
use super::remains::of_log;
use super::rule::Retention;
use super::work::{Ask, Pruned};
use crate::clock::Clock;
use crate::control::{Answer, Control, Request, unexpected};
use crate::durable::{DurableRun, Lost, not_over};
use crate::inbox::Inbox;
use crate::runtime::Runtime;
use tiffany_log::{Collected, Disk, RealDisk, RunState, View};
use tiffany_records::RunError;

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
    pub(super) fn of(inbox: Arc<Inbox>, dir: PathBuf) -> Keeper {
        Keeper { control: Control::of(inbox), dir, memory: Memory::default() }
    }

    /// Whether no process has the log.
    pub fn is_offline(&self) -> bool {
        self.control.is_offline()
    }

    /// Removes a run that is over. Its id stays known: starting it again is an error, and runs nothing.
    pub fn remove(&mut self, run: Uuid) -> Result<(), TaskError> {
        super::remove(&mut self.control, run)
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
    View::open(Arc::new(RealDisk), dir).map_err(of_log)
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

fn plan(
    memory: &mut Memory,
    view: &View,
    rules: &[Retention],
    now: tiffany_kernel::Time,
) -> Result<Plan, TaskError> {
    let blobs = rules.iter().any(|rule| rule.max_bytes.is_some());
    let facts = memory.look(view, blobs).map_err(of_log)?;
    let mut plan = Plan::new(&facts, rules, now);
    plan.keep_damaged(view, facts.damaged);
    Ok(plan)
}

/// What these rules would do now to a log that is only looked at: it may be in use, or read-only. Nothing is changed.
pub fn plan_of(view: &View, rules: &[Retention]) -> Result<Plan, TaskError> {
    plan(&mut Memory::default(), view, rules, Clock::system().now())
}

/// An error for the first run that is not over or not there.
fn resting(view: &View, runs: &[Uuid]) -> Result<Vec<Uuid>, TaskError> {
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

impl Ask for Runtime {
    fn request(&mut self, request: Request) -> Result<Answer, TaskError> {
        self.carry_out(request)
    }
}

impl Runtime {
    /// Removes a durable run that is over. Its id stays known: starting it again is an error, and runs nothing. It is safe once the log has it
    /// ([`flush`](Runtime::flush) waits for that).
    ///
    /// ```
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-remove-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("greet", |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) })
    ///     .build()?;
    /// let run = runtime.submit::<String>("greet", "greet-1", &"Ada")?;
    /// assert_eq!(runtime.wait_for(&run)?, "hello Ada");
    /// runtime.remove(&run)?;
    /// let again = runtime.submit::<String>("greet", "greet-1", &"Ada");
    /// assert!(again.is_err_and(|error| error.code() == "TFY0130"));
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn remove<T>(&mut self, run: &DurableRun<T>) -> Result<(), RunError> {
        super::remove(self, run.uuid()).map_err(RunError::Failed)?;
        self.hand_in();
        Ok(())
    }

    /// Compacts a durable run that is over: what it was started with and what came of it is left. It is read and checked on this thread, and is safe when this
    /// comes back.
    #[track_caller]
    pub fn compact<T>(&mut self, run: &DurableRun<T>) -> Result<Pruned, RunError> {
        self.flush()?;
        let pruned = self.compact_now(run.uuid())?;
        self.flush()?;
        Ok(pruned)
    }

    /// The same without waiting for the log.
    pub(crate) fn compact_now(&mut self, run: Uuid) -> Result<Pruned, RunError> {
        let mut pruned = self.compact_several(&[run])?;
        match pruned.refused.pop() {
            Some((_, error)) => Err(RunError::Failed(error)),
            None => Ok(pruned),
        }
    }

    /// The same for several runs; those that are damaged are left, and told.
    pub(crate) fn compact_several(&mut self, runs: &[Uuid]) -> Result<Pruned, RunError> {
        let view = self.look()?;
        let runs = resting(&view, runs).map_err(RunError::Failed)?;
        let mut pruned = Pruned::default();
        pruned.compact(self, &view, &runs).map_err(RunError::Failed)?;
        Ok(pruned)
    }

    /// What these rules would do now. Nothing is changed.
    #[track_caller]
    pub fn plan(&mut self, rules: &[Retention]) -> Result<Plan, RunError> {
        self.flush()?;
        self.plan_at(&self.look()?, rules)
    }

    fn plan_at(&self, view: &View, rules: &[Retention]) -> Result<Plan, RunError> {
        let now = self.host.clock.now();
        plan(&mut Memory::default(), view, rules, now).map_err(RunError::Failed)
    }

    /// Does what rules say, now and on this thread. [`Builder::retention`](crate::Builder::retention) lets it be done again and again, in the background.
    #[track_caller]
    pub fn prune(&mut self, rules: &[Retention]) -> Result<Pruned, RunError> {
        self.prune_planned(rules).map(|(_, pruned)| pruned)
    }

    /// The same, with what was planned.
    #[track_caller]
    pub(crate) fn prune_planned(
        &mut self,
        rules: &[Retention],
    ) -> Result<(Plan, Pruned), RunError> {
        self.flush()?;
        let (plan, mut pruned) = self.prune_now(rules)?;
        self.flush()?;
        if !pruned.is_empty() {
            pruned.collect(self).map_err(RunError::Failed)?;
        }
        Ok((plan, pruned))
    }

    /// The same without waiting for the log, and without its blobs.
    pub(crate) fn prune_now(&mut self, rules: &[Retention]) -> Result<(Plan, Pruned), RunError> {
        let view = self.look()?;
        let plan = self.plan_at(&view, rules)?;
        let mut pruned = Pruned::default();
        pruned.carry_out(self, &view, &plan).map_err(RunError::Failed)?;
        Ok((plan, pruned))
    }

    /// Removes blobs that no run names. [`prune`](Runtime::prune) does so by itself.
    #[track_caller]
    pub fn collect_blobs(&mut self) -> Result<Collected, RunError> {
        self.flush()?;
        self.collect_now()
    }

    /// The same without waiting for the log.
    pub(crate) fn collect_now(&mut self) -> Result<Collected, RunError> {
        collect_blobs(self).map_err(RunError::Failed)
    }

    fn look(&self) -> Result<View, RunError> {
        let Some((disk, root)) = self.log_place() else {
            let message = "this runtime has no log; give its builder a `log_dir`";
            return Err(RunError::Failed(TaskError::new(ErrorKind::LogFailed, message)));
        };
        Ok(View::open(disk, &root)?)
    }

    /// Where the log is.
    pub(crate) fn log_place(&self) -> Option<(Arc<dyn Disk>, PathBuf)> {
        self.durable.as_ref().map(crate::durable::Durable::place)
    }
}
