//! A simulated runtime with a log: the disk is passed in, the clock is moved by hand, and there are
//! no other threads. The same seed produces the same bytes on the disk. `tiffany-sim` is based on
//! this.

use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{TaskError, TaskInfo, Time, Uuid};

use crate::clock::Clock;
use crate::control::{self};
use crate::host::Workers;
use crate::host::entropy::Entropy;
use crate::host::entropy::mixed;
use crate::host::inline::Inline;
use crate::host::inline::Watcher;
use crate::host::tell::Tell;
use crate::retention::work::Pruned;
use crate::run_log::log::CommitTime;
use crate::runtime::Runtime;
use crate::runtime::builder::Builder;
use crate::runtime::durable_runs::DurableRun;
use tiffany_log::{Collected, Disk};
use tiffany_records::RunError;
use tiffany_records::request::{Fork, OpenApproval, Request, Ruling, Settlement, StartOptions};
use tiffany_records::retention::Retention;
use tiffany_records::value::own;

/// The machine of a [`Simulation`].
#[derive(Clone)]
pub struct Machine {
    /// The disk, with the log under `/log`.
    pub disk: Arc<dyn Disk>,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// The number of the machine's restart, so that no UUID is drawn twice.
    pub life: u64,
    /// The time that the clock starts at.
    pub now: Time,
    /// The longest time until the work of a step begins, and then until its result is reported.
    pub longest_work: Duration,
    /// The longest time that a commit takes.
    pub longest_commit: Duration,
    /// Observes the steps.
    pub watcher: Rc<dyn Watcher>,
}

/// Receives the answer to a request once it is durable.
pub struct Receipt(Receiver<Result<control::Answer, TaskError>>);

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No answer yet: the request may get lost.
    None,
    /// It is durable.
    Safe(Settlement),
    /// It will never be durable: its target does not exist, or the log has failed.
    Never,
}

impl Receipt {
    fn new() -> (Tell, Receipt) {
        let (tell, told) = Tell::waited_for();
        (tell, Receipt(told))
    }

    /// The answer, if it has arrived. It is returned once.
    pub fn answer(&self) -> Answer {
        match self.0.try_recv() {
            Ok(Ok(control::Answer::Settled(settlement))) => Answer::Safe(settlement),
            Ok(Ok(_)) => Answer::Safe(Settlement::Accepted),
            Err(TryRecvError::Empty) => Answer::None,
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => Answer::Never,
        }
    }
}

/// A runtime on a simulated machine.
///
/// ```
/// use std::rc::Rc;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tiffany::testing::{Machine, Made, Simulation, Watcher};
/// use tiffany::wal::sim::SimDisk;
/// use tiffany::{Builder, TaskError, Time, sleep};
///
/// struct Nobody;
/// impl Watcher for Nobody {
///     fn begins(&self, _: &Made<'_>) -> bool { true }
///     fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
/// }
///
/// let machine = Machine {
///     disk: Arc::new(SimDisk::new()),
///     seed: 7,
///     life: 1,
///     now: Time::ZERO,
///     longest_work: Duration::from_millis(10),
///     longest_commit: Duration::from_millis(2),
///     watcher: Rc::new(Nobody),
/// };
/// let settings = Builder::new().register("nap", |seconds: u64| async move {
///     sleep(Duration::from_secs(seconds)).await;
///     Ok::<u64, TaskError>(seconds)
/// });
/// let mut simulation = Simulation::start(settings, machine)?;
/// let (run, _) = simulation.submit::<u64>("nap", "afternoon", &3600)?;
/// while simulation.outcome(&run).is_none() {
///     simulation.drive()?;
///     simulation.set_clock(simulation.next_event().unwrap_or(simulation.now()));
/// }
/// assert_eq!(simulation.outcome(&run).unwrap()?, 3600);
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct Simulation {
    runtime: Runtime,
}

impl Simulation {
    /// Starts a runtime on a machine. Unfinished runs in the log are resumed.
    pub fn start(settings: Builder, machine: Machine) -> Result<Simulation, RunError> {
        let Machine { disk, seed, life, now, longest_work, longest_commit, watcher } = machine;
        let entropy = Entropy::Seeded(Cell::new(mixed(seed ^ mixed(life))), seed);
        let workers =
            |inbox| Workers::Inline(Inline::new(inbox, mixed(seed), longest_work, watcher));
        let settings = settings.watchdog(None);
        let (mut runtime, _) =
            settings.build_host(Clock::Virtual(Cell::new(now)), entropy, workers)?;
        let commits = CommitTime { seed: mixed(seed ^ life), longest: longest_commit };
        runtime.open_log("/log".into(), disk, Some(commits))?;
        Ok(Simulation { runtime })
    }

    /// Like [`Runtime::submit`], with a receipt.
    #[track_caller]
    pub fn submit<T>(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
    ) -> Result<(DurableRun<T>, Receipt), RunError> {
        self.submit_with(function, id, input, &StartOptions::new())
    }

    /// Like [`Runtime::submit_with`], with a receipt.
    #[track_caller]
    pub fn submit_with<T>(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
        options: &StartOptions,
    ) -> Result<(DurableRun<T>, Receipt), RunError> {
        let run = self.runtime.submit_with(function, id, input, options)?;
        Ok((run, self.receipt()))
    }

    /// Like [`Runtime::send`], with a receipt.
    pub fn send<T>(
        &mut self,
        run: &DurableRun<T>,
        name: &str,
        message: &impl Serialize,
    ) -> Result<Receipt, RunError> {
        self.runtime.send(run, name, message)?;
        Ok(self.receipt())
    }

    /// Like [`Runtime::cancel`], with a receipt.
    pub fn cancel<T>(&mut self, run: &DurableRun<T>) -> Result<Receipt, RunError> {
        self.runtime.cancel(run)?;
        Ok(self.receipt())
    }

    /// Like [`Runtime::fork`], with a receipt.
    pub fn fork<T>(
        &mut self,
        run: &DurableRun<T>,
        at: u64,
        fork: Fork,
    ) -> Result<(DurableRun<T>, Receipt), RunError> {
        let fork = self.runtime.fork(run, at, fork)?;
        Ok((fork, self.receipt()))
    }

    /// Like [`Runtime::allow`], with a receipt.
    pub fn allow<T>(&mut self, fork: &DurableRun<T>, name: &str) -> Result<Receipt, RunError> {
        self.runtime.allow(fork, [name])?;
        Ok(self.receipt())
    }

    /// Like [`Runtime::remove`], with a receipt.
    pub fn remove<T>(&mut self, run: &DurableRun<T>) -> Result<Receipt, RunError> {
        self.runtime.remove(run)?;
        Ok(self.receipt())
    }

    /// Like [`Runtime::compact`], with a receipt.
    pub fn compact<T>(&mut self, run: &DurableRun<T>) -> Result<Receipt, RunError> {
        self.runtime.compact_now(run.uuid())?;
        Ok(self.receipt())
    }

    /// Like [`Runtime::prune`], with a receipt. Blobs are left to
    /// [`collect_blobs`](Simulation::collect_blobs).
    pub fn prune(&mut self, rules: &[Retention]) -> Result<(Pruned, Receipt), RunError> {
        let (_, pruned) = self.runtime.prune_now(rules)?;
        Ok((pruned, self.receipt()))
    }

    /// Removes unreferenced blobs.
    pub fn collect_blobs(&mut self) -> Result<Collected, RunError> {
        self.runtime.collect_now()
    }

    /// Like [`RuntimeHandle::settle_durable`](crate::handle::RuntimeHandle::settle_durable),
    /// without waiting for the answer.
    pub fn settle(
        &mut self,
        promise: Uuid,
        result: Result<&impl Serialize, String>,
    ) -> Result<Receipt, TaskError> {
        let result = match result {
            Ok(value) => Ok(own(value)?),
            Err(message) => Err(TaskError::failed(message)),
        };
        let (tell, receipt) = Receipt::new();
        let settle = Request::Settle { run: None, promise, result };
        self.runtime.serve(Request::Encoded(Box::new(settle)), tell);
        Ok(receipt)
    }

    /// Like [`Runtime::approvals`].
    pub fn approvals(&self) -> Vec<OpenApproval> {
        self.runtime.approvals()
    }

    /// Like [`Runtime::resolve`], with a receipt.
    pub fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Receipt, TaskError> {
        self.runtime.resolve(approval, ruling)?;
        Ok(self.receipt())
    }

    /// The run with this id, if there is one.
    pub fn run<T>(&self, id: &str) -> Option<DurableRun<T>> {
        self.runtime.known_run(id)
    }

    /// All tasks of an unfinished run.
    pub fn tasks<T>(&self, run: &DurableRun<T>) -> Vec<TaskInfo> {
        self.runtime.tasks_of(run.uuid())
    }

    /// The unsettled external promises, each after its run. Those of one run are in no particular
    /// order.
    pub fn promises(&self) -> Vec<(Uuid, Uuid)> {
        self.runtime.open_promises()
    }

    /// A receipt for all requests so far.
    fn receipt(&mut self) -> Receipt {
        let (tell, receipt) = Receipt::new();
        self.runtime.answer_when_safe(tell, Ok(control::Answer::Done));
        receipt
    }

    /// Runs all runs as far as possible without moving the clock. After an error of the log, no run
    /// continues.
    #[track_caller]
    pub fn drive(&mut self) -> Result<(), RunError> {
        self.runtime.drive_now(Location::caller())
    }

    /// The time of the next event; `None` if only outside requests can cause one.
    pub fn next_event(&self) -> Option<Time> {
        self.runtime.next_event()
    }

    /// Sets the clock, which never goes back.
    pub fn set_clock(&mut self, time: Time) {
        if let Clock::Virtual(now) = &self.runtime.host.clock {
            now.set(now.get().max(time));
        }
    }

    /// The present time of the clock.
    pub fn now(&self) -> Time {
        self.runtime.host.clock.now()
    }

    /// The outcome of a run, if it is finished and durable, or the reason why it can't continue.
    #[track_caller]
    pub fn outcome<T: DeserializeOwned>(
        &mut self,
        run: &DurableRun<T>,
    ) -> Option<Result<T, RunError>> {
        match self.runtime.is_live(run.uuid()) {
            true => None,
            false => Some(self.runtime.wait_for(run)),
        }
    }
}
