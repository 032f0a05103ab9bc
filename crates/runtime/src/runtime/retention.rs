//! Removing and compacting runs from the program that drives the runtime.

use crate::retention::keeper::{collect_blobs, resting};
use crate::retention::work::{Ask, Pruned};
use crate::runtime::Runtime;
use crate::runtime::durable::{Durable, no_log};
use crate::runtime::durable_runs::DurableRun;
use std::path::PathBuf;
use std::sync::Arc;
use tiffany_kernel::{TaskError, Uuid};
use tiffany_log::{Collected, Disk, View};
use tiffany_records::RunError;
use tiffany_records::request::{Answer, Request};
use tiffany_records::retention::{FactCache, Plan, Retention};

impl Ask for Runtime {
    fn request(&mut self, request: Request) -> Result<Answer, TaskError> {
        self.carry_out(request)
    }
}

impl Runtime {
    /// Removes a finished durable run. Its id stays known: starting it again is an error, and runs
    /// nothing. The removal is durable once the log has it ([`flush`](Runtime::flush) waits for
    /// that).
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
        crate::retention::work::remove(self, run.uuid()).map_err(RunError::Failed)?;
        self.hand_in();
        Ok(())
    }

    /// Compacts a finished durable run: only its input and its outcome are left. The run is read
    /// and checked on this thread, and the change is durable when this returns.
    #[track_caller]
    pub fn compact<T>(&mut self, run: &DurableRun<T>) -> Result<Pruned, RunError> {
        self.flush()?;
        let pruned = self.compact_now(run.uuid())?;
        self.flush()?;
        Ok(pruned)
    }

    /// Compacts a finished durable run without waiting for the log.
    pub(crate) fn compact_now(&mut self, run: Uuid) -> Result<Pruned, RunError> {
        let mut pruned = self.compact_several(&[run])?;
        match pruned.refused.pop() {
            Some((_, error)) => Err(RunError::Failed(error)),
            None => Ok(pruned),
        }
    }

    /// Compacts several runs; damaged ones are left, and reported.
    pub(crate) fn compact_several(&mut self, runs: &[Uuid]) -> Result<Pruned, RunError> {
        let view = self.look()?;
        let runs = resting(&view, runs).map_err(RunError::Failed)?;
        let mut pruned = Pruned::default();
        pruned.compact(self, &view, &runs).map_err(RunError::Failed)?;
        Ok(pruned)
    }

    /// Returns what these rules would do now. Nothing is changed.
    #[track_caller]
    pub fn plan(&mut self, rules: &[Retention]) -> Result<Plan, RunError> {
        self.flush()?;
        self.plan_at(&self.look()?, rules)
    }

    fn plan_at(&self, view: &View, rules: &[Retention]) -> Result<Plan, RunError> {
        let now = self.host.clock.now();
        Plan::of(view, rules, now, &mut FactCache::default()).map_err(RunError::Failed)
    }

    /// Applies rules, now and on this thread.
    /// [`Builder::retention`](crate::runtime::builder::Builder::retention) applies them regularly,
    /// in the background.
    #[track_caller]
    pub fn prune(&mut self, rules: &[Retention]) -> Result<Pruned, RunError> {
        self.prune_planned(rules).map(|(_, pruned)| pruned)
    }

    /// Applies rules, and returns the plan too.
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

    /// Applies rules without waiting for the log, and without removing blobs.
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

    /// Removes unreferenced blobs without waiting for the log.
    pub(crate) fn collect_now(&mut self) -> Result<Collected, RunError> {
        collect_blobs(self).map_err(RunError::Failed)
    }

    fn look(&self) -> Result<View, RunError> {
        let Some((disk, root)) = self.log_place() else { return Err(no_log()) };
        Ok(View::open(disk, &root)?)
    }

    /// Where the log is.
    pub(crate) fn log_place(&self) -> Option<(Arc<dyn Disk>, PathBuf)> {
        self.durable.as_ref().map(Durable::place)
    }
}
