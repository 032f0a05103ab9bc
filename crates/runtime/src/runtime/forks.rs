//! Forking runs, and allowing steps to forks.

use crate::control::unexpected;
use crate::run_log::fork::copy::Copied;
use crate::run_log::fork::copy::{Source, copy};
use crate::runtime::Runtime;
use crate::runtime::durable_runs::{DurableRun, Known};
use tiffany_kernel::{TaskError, Uuid};
use tiffany_records::RunError;
use tiffany_records::request::{Answer, Fork, Request};
use tiffany_records::value::plain::accept;

impl Runtime {
    /// Forks a run at a record: starts a new run that shares the history of the other one up to
    /// there.
    ///
    /// Where its parent has an answer to the same call, a step of the fork gets that answer.
    /// Otherwise the step is refused, unless it is [allowed](Fork::allow): the fork is then
    /// [paused](Runtime::paused), and continues when the step is allowed with
    /// [`allow`](Runtime::allow). The parent is not changed, whether it is live or finished.
    ///
    /// ```
    /// use tiffany::durable::{Fork, step};
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-fork-{}", std::process::id()));
    /// async fn order(item: String) -> Result<String, TaskError> {
    ///     let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
    ///     Ok(format!("{item} for {price}"))
    /// }
    ///
    /// let mut runtime = Runtime::builder().log_dir(&dir).register("order", order).build()?;
    /// let run = runtime.submit::<String>("order", "order-1", &"tea")?;
    /// assert_eq!(runtime.wait_for(&run)?, "tea for 42");
    ///
    /// // Record 4 is the answer of the step. What if it had been another one?
    /// let dear = runtime.fork(&run, 4, Fork::new().set_reply(&1000).map_err(tiffany::RunError::Failed)?)?;
    /// assert_eq!(runtime.wait_for(&dear)?, "tea for 1000");
    /// assert_eq!(runtime.wait_for(&run)?, "tea for 42");
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn fork<T>(
        &mut self,
        parent: &DurableRun<T>,
        at: u64,
        fork: Fork,
    ) -> Result<DurableRun<T>, RunError> {
        let fork = fork.with_reply(|value| accept(&value), TaskError::without_detail);
        let fork = fork.map_err(RunError::Failed)?;
        self.fork_named(parent.uuid(), at, fork).map(|(fork, _)| DurableRun::of(fork))
    }

    /// Forks a run with an answer in the form of the log, and returns the id of the fork too.
    pub(crate) fn fork_named(
        &mut self,
        parent: Uuid,
        at: u64,
        fork: Fork,
    ) -> Result<(Uuid, String), RunError> {
        let request = Request::Fork { run: parent, at, fork };
        match self.carry_out_accepted(request).map_err(RunError::Failed)? {
            Answer::Forked { run, id } => Ok((run, id)),
            other => Err(RunError::Failed(unexpected(&other))),
        }
    }

    /// Lets a fork do effects of these names, `*` for all. What it was paused for and is allowed now begins.
    pub fn allow<T>(
        &mut self,
        fork: &DurableRun<T>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), RunError> {
        let names = names.into_iter().map(Into::into).collect();
        let request = Request::Allow { run: fork.uuid(), names };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Makes a fork, and lets it go on.
    pub(crate) fn fork_run(
        &mut self,
        parent: Uuid,
        at: u64,
        fork: &Fork,
    ) -> Result<(Uuid, String), TaskError> {
        match self.durable_mut().runs.get(&parent) {
            None => return Err(tiffany_records::errors::no_such_run(parent)),
            Some(Known::Removed) => return Err(tiffany_records::errors::run_removed(parent)),
            Some(Known::Paused(error, None)) => return Err(error.clone()),
            Some(_) => {}
        }
        self.hand_in();
        let clock = self.host.clock.now();
        let durable = self.durable.as_mut().expect("only asked for where there is a log");
        durable.log.catch_up().map_err(tiffany_records::errors::log_failed)?;
        let source = Source { disk: &*durable.disk, root: &durable.root, run: parent };
        let (entropy, empty) = (&self.host.entropy, durable.page.batch.another());
        let Copied { id, chain, mut batch } = copy(&source, at, fork, clock, empty, |id| {
            let uuid = tiffany_records::key::run_id(id);
            let knows = |run: Uuid| durable.runs.contains_key(&run);
            let is_free = !knows(uuid) && tiffany_records::key::refuse_ambiguous(id, knows).is_ok();
            is_free.then(|| entropy.seed_of(uuid))
        })?;
        let uuid = chain.run();
        let (text, blobs) = (batch.text().to_owned(), batch.blobs.clone());
        durable.page.batch.append(&mut batch);
        // Its file is not there before the log is safe.
        self.bring_back(uuid, chain, &|durable| {
            let source = Source { disk: &*durable.disk, root: &durable.root, run: uuid };
            source.script_of(&text, &blobs)
        });
        self.host.inbox.meters.started_durable.add(1);
        Ok((uuid, id))
    }
}
