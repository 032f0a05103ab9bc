//! The methods by which a program works with its durable runs and looks at its runtime. Most of them
//! make a request like those of other threads and processes (`requests.rs`).

use std::panic::Location;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use crate::activity::hub::Hub;
use crate::control::asked_run;
use crate::control::unexpected;
use crate::host::tell::Tell;
use crate::run_log::replay::decoded_log::DecodedLog;
use crate::run_log::replay::dry_run::{DryRun, Until};
use crate::runtime::Runtime;
use crate::runtime::dry_run::dry_run;
use crate::runtime::durable::no_log_here;
use crate::runtime::durable_runs::{DurableRun, Known};
use crate::runtime::snapshots::{Snapshots, no_snapshot};
use tiffany_log::Chain;
use tiffany_records::RunError;
use tiffany_records::errors::log_failed;
use tiffany_records::metrics::Snapshot;
use tiffany_records::request::{
    Answer, Approval, Decision, Doubt, Fork, OpenApproval, Paused, Request, Ruling, RunPage,
    RunQuery, Status,
};
use tiffany_records::value::plain::accept;
use tiffany_records::value::{deserialize, own};

/// The state of a durable run in a runtime.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It is live.
    Live,
    /// It is finished, or was removed.
    Over,
    /// It can't continue, and why.
    Paused(TaskError),
    /// The runtime has no such run.
    Unknown,
}

impl Runtime {
    /// Sends a message to a durable run, which takes it with
    /// [`receive`](crate::calls::receive::receive) under this name. It is durable once the log has
    /// it ([`flush`](Runtime::flush) waits for that), and stays there until a task takes it.
    pub fn send<T>(
        &mut self,
        run: &DurableRun<T>,
        name: &str,
        message: &impl Serialize,
    ) -> Result<(), RunError> {
        let message = own(message).map_err(RunError::Failed)?;
        let request = Request::Send { run: run.uuid(), name: name.into(), message };
        self.carry_out_accepted(request).map(drop).map_err(RunError::Failed)
    }

    /// Cancels a durable run: its tasks may clean up. A second cancel, after they had a turn, forces the end: no task of the
    /// run has another turn. So does the first cancel of a run whose root has failed.
    pub fn cancel<T>(&mut self, run: &DurableRun<T>) -> Result<(), RunError> {
        let request = Request::Cancel { run: run.uuid() };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Holds a durable run: it gets no turns until [`release`](Runtime::release). Running steps
    /// finish and are recorded.
    ///
    /// ```
    /// use tiffany::control::{RunQuery, State};
    /// use tiffany::durable::receive;
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-hold-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("greet", |()| async { receive::<String>("name").await })
    ///     .build()?;
    /// let run = runtime.submit::<String>("greet", "greet-1", &())?;
    /// runtime.hold(&run, "ada", Some("waits for the audit"))?;
    /// assert_eq!(runtime.runs(&RunQuery::default())?.runs[0].state, State::Held);
    ///
    /// runtime.send(&run, "name", &"Grace")?; // it is there when the run continues
    /// runtime.release(&run, "ada", None)?;
    /// assert_eq!(runtime.wait_for(&run)?, "Grace");
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn hold<T>(
        &mut self,
        run: &DurableRun<T>,
        by: &str,
        why: Option<&str>,
    ) -> Result<(), RunError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        let request = Request::Hold { run: run.uuid(), by, why };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Releases a durable run that a person or a limit holds, so that it continues. An exceeded
    /// limit is doubled for this run.
    pub fn release<T>(
        &mut self,
        run: &DurableRun<T>,
        by: &str,
        why: Option<&str>,
    ) -> Result<(), RunError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        let request = Request::Release { run: run.uuid(), by, why };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Asks a durable run a question, which it answers with
    /// [`on_question`](crate::calls::question::on_question) once it can make no progress by itself.
    /// Drives all runs meanwhile.
    #[track_caller]
    pub fn question<T, A: DeserializeOwned>(
        &mut self,
        run: &DurableRun<T>,
        name: &str,
        input: &impl Serialize,
    ) -> Result<A, RunError> {
        let input = own(input).map_err(RunError::Failed)?;
        self.settle_down(Location::caller())?;
        let request = Request::Question { run: run.uuid(), name: name.into(), input };
        let answer = self.carry_out_accepted(request).map_err(RunError::Failed)?;
        match self.when_safe(Location::caller(), answer)? {
            Answer::Value(json) => deserialize(json.get()).map_err(RunError::Failed),
            _ => deserialize("null").map_err(RunError::Failed),
        }
    }

    /// Waits until all requests so far are durable in the log: runs that were submitted, messages
    /// that were sent. Drives all runs meanwhile.
    #[track_caller]
    pub fn flush(&mut self) -> Result<(), RunError> {
        if self.durable.is_none() {
            return Err(RunError::Failed(no_log_here()));
        }
        self.when_safe(Location::caller(), Answer::Done).map(drop)
    }

    /// The runs of the log that cannot continue, and why.
    pub fn paused(&self) -> Vec<Paused> {
        self.view().paused().collect()
    }

    /// The steps that must not be done twice, were interrupted, and wait for a person's decision.
    pub fn doubts(&self) -> Vec<Doubt> {
        self.view().doubts().collect()
    }

    /// Decides the outcome of a step in doubt, by its key.
    pub fn decide(&mut self, key: &str, decision: Decision) -> Result<(), RunError> {
        let request = Request::Decide { key: key.into(), decision };
        self.carry_out_accepted(request).map(drop).map_err(RunError::Failed)
    }

    /// The questions of all runs that wait for a person. In runs that are paused there may be some, too.
    pub fn approvals(&self) -> Vec<OpenApproval> {
        let now = self.host.clock.now();
        let dormant = self.view().dormant().flat_map(|dormant| dormant.approvals(now).cloned());
        self.approvals.open(&self.runs).chain(dormant).collect()
    }

    /// Decides a question, by its id. The first answer holds.
    pub fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        match asked_run::resolve(self, approval, ruling) {
            Err(error) if error.kind() == ErrorKind::NoSuchApproval => {
                let (tell, told) = Tell::waited_for();
                self.tell_why_not_open(approval.into(), tell, error.clone());
                Err(told.recv().ok().and_then(Result::err).unwrap_or(error))
            }
            resolved => resolved,
        }
    }

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

    /// Starts the log of a run of state machines again with a snapshot now, in addition to the
    /// [automatic ones](crate::runtime::builder::Builder::snapshot_every). Drives all runs until
    /// none can make progress by itself.
    #[track_caller]
    pub fn snapshot<T>(&mut self, run: &DurableRun<T>) -> Result<(), RunError> {
        self.settle_down(Location::caller())?;
        let id = self.live(run.uuid()).map_err(RunError::Failed)?;
        let (steps, settings, host) = (&self.effects, &self.settings, &*self.host);
        if let (Some(durable), Some(hosted)) = (&mut self.durable, self.runs.of_mut(id)) {
            let taken = Snapshots { durable, steps, settings, host }.take(hosted);
            taken.map_err(|why| RunError::Failed(no_snapshot(run.uuid(), &why)))?;
        }
        self.hand_in();
        Ok(())
    }

    /// Returns a page of the durable runs of this runtime, live and finished.
    ///
    /// ```
    /// use tiffany::control::{RunQuery, State};
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-listing-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("greet", |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) })
    ///     .build()?;
    /// let run = runtime.submit::<String>("greet", "greet-1", &"Ada")?;
    /// assert_eq!(runtime.runs(&RunQuery::default())?.runs[0].state, State::Live);
    /// runtime.wait_for(&run)?;
    /// let page = runtime.runs(&RunQuery::default())?;
    /// assert_eq!((page.runs[0].id.as_str(), page.runs[0].state), ("greet-1", State::Completed));
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn runs(&mut self, query: &RunQuery) -> Result<RunPage, RunError> {
        let (tell, told) = Tell::waited_for();
        self.list_runs(query.clone(), tell);
        match told.recv() {
            Ok(Ok(Answer::Runs(page))) => Ok(page),
            Ok(Err(error)) => Err(RunError::Failed(error)),
            _ => Err(RunError::Failed(no_log_here())),
        }
    }

    /// The status of this runtime: its functions, the number of live runs, and which runs are
    /// paused and why.
    pub fn status(&self) -> Status {
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            functions: self.settings.registry.list(),
            url: self.settings.url.clone(),
            live: self.durable.as_ref().map_or(0, |durable| durable.runs.states().live),
            paused: self.paused(),
            failed: self.log_failure().map(log_failed),
        }
    }

    /// Returns the state of a durable run.
    #[doc(hidden)]
    pub fn standing(&self, uuid: Uuid) -> Standing {
        if let Some(error) = self.view().refusal(uuid) {
            return Standing::Paused(error);
        }
        match self.durable.as_ref().and_then(|durable| durable.runs.get(&uuid)) {
            Some(Known::Live(_)) => Standing::Live,
            Some(Known::Over(..) | Known::Removed) => Standing::Over,
            Some(Known::Paused(error, _)) => Standing::Paused(error.clone()),
            None => Standing::Unknown,
        }
    }

    /// Drives all runs for as long as this says so. It is asked whenever something happens, and whenever the bell
    /// is rung.
    pub fn drive_while(&mut self, goes_on: impl Fn(&Runtime) -> bool) -> Result<(), RunError> {
        self.drive_until(Location::caller(), |runtime| !goes_on(runtime))
    }

    /// Something by which another thread makes the loop look up.
    pub fn bell(&self) -> impl Fn() + Send + 'static {
        let handle = self.handle();
        move || handle.nudge()
    }

    /// Whether a durable run of this runtime is finished, and its end durable in the log.
    pub fn is_finished(&self, run: Uuid) -> bool {
        let durable = self.durable.as_ref();
        let known = durable.and_then(|durable| durable.runs.get(&run));
        matches!(known, Some(Known::Over(..) | Known::Removed))
    }

    /// Runs a run again against its log.
    pub fn dry_run(
        &mut self,
        chain: &Chain,
        decoded: DecodedLog,
        until: Until,
    ) -> Result<DryRun, TaskError> {
        dry_run(self, chain, decoded, until)
    }

    /// What it has counted and measured so far.
    pub fn metrics(&self) -> Snapshot {
        self.measure();
        self.host.inbox.meters.read()
    }

    /// The events of all runs of this runtime, for those who want to watch. If it has no log, they are kept from the first time on that this is asked.
    pub fn activity(&self) -> Hub {
        self.host.hub.wake();
        self.host.hub.clone()
    }

    /// How many results of steps came too late so far: after their timeout, or when no task waited
    /// for them any more.
    pub fn late_results(&self) -> u64 {
        self.effects.late
    }

    /// How many checkpoints of steps came too late so far: after their attempt's timeout, or when
    /// no task waited for the step any more.
    pub fn late_checkpoints(&self) -> u64 {
        self.effects.late_checkpoints
    }
}
