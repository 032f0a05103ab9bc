//! `Runtime`: runs programs on the thread that created it.

pub(crate) mod activity;
pub(crate) mod guest;
pub(crate) mod requests;
pub(crate) mod settings;

use std::cell::{RefCell, RefMut};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::{RunHandle, Value, binding};

use crate::durable::control::Control;
use crate::durable::retention::{self, CollectedParts, CompactedParts, PrunedParts, RuleParts};
use crate::durable::{forks, runs};
use crate::process::session::Registered;
use crate::process::signals::{Second, Watch};
use crate::process::thread::OneThread;
use crate::process::{interpreter, session, signals};
use crate::runtime::activity::Events;
use crate::runtime::guest::{Guest, Guests, Rested};
use crate::runtime::requests::Requests;
use crate::runtime::settings::Settings;
use crate::tasks::asyncgens::Hooks;
use crate::tasks::{asyncgens, spawn};
use crate::values::attributes::Given;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::{approvals, argument, attributes, errors, value};

/// A runtime that has not been closed.
struct Open {
    runtime: tiffany::Runtime,
    /// The effect of a second Ctrl-C.
    second: Second,
    /// The runs that an asyncio loop waits for.
    guests: Guests,
    _registered: Registered,
}

/// Calls a function that drives the loop, so tasks run on this thread.
pub(crate) fn driven<T>(
    py: Python<'_>,
    second: Second,
    act: impl FnOnce() -> PyResult<T>,
) -> PyResult<T> {
    let _hooks = Hooks::new(py)?;
    signals::watched(py, second, act)
}

/// Ends a run early. Its tasks are cancelled and clean up, unless the error does not allow that or
/// a second Ctrl-C interrupts the cleanup.
fn give_up(py: Python<'_>, runtime: &mut tiffany::Runtime, run: &RunHandle<Value>, error: &PyErr) {
    if errors::ends_the_run(py, error) {
        binding::end(runtime, run);
        if binding::drive(runtime, run, session::is_interrupted).is_some() {
            return;
        }
    }
    binding::leave(runtime, run);
}

/// Runs programs on this thread. Close it when you are done, preferably with `with`.
#[pyclass(frozen, module = "tiffany")]
pub(crate) struct Runtime {
    inner: OneThread<RefCell<Option<Open>>>,
}

impl Runtime {
    fn open(&self, py: Python<'_>) -> PyResult<RefMut<'_, Open>> {
        let inner = self.inner.get(py, "runtime")?;
        let Ok(open) = inner.try_borrow_mut() else {
            let message = "this runtime is running; a task of it cannot run it again";
            return Err(TiffanyError::NestedRuntime.err(py, message));
        };
        RefMut::filter_map(open, Option::as_mut)
            .map_err(|_| TiffanyError::Gone.err(py, "this runtime is closed"))
    }
}

#[pymethods]
impl Runtime {
    #[new]
    fn new(settings: &Bound<'_, PyDict>) -> PyResult<Runtime> {
        let py = settings.py();
        let settings = Settings::read(settings)?;
        let builder = settings.builder(py)?;
        let second = if settings.is_durable() { Second::Exits } else { Second::Raises };
        // Unfinished runs in the log are resumed here.
        let runtime = driven(py, second, || {
            let built = interpreter::without(py, || builder.build());
            built.map_err(|error| errors::run_error(py, &error))
        })?;
        signals::wake(&runtime)?;
        let registered = Registered::new(runtime.handle());
        let open = Open { runtime, second, guests: Guests::default(), _registered: registered };
        Ok(Runtime { inner: OneThread::new(RefCell::new(Some(open))) })
    }

    /// Runs a program until its run has finished and returns its value.
    fn run(&self, program: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = program.py();
        spawn::check(&program)?;
        let mut open = self.open(py)?;
        if session::is_forked_inside() {
            let message = "a task forked this process, which is still inside of that task";
            return Err(TiffanyError::Forked.err(py, message));
        }
        let _looping = session::Looping::new();
        let root = spawn::coroutine(&program, Line::of_program(&program))?;
        let watch = Watch::new(py, open.second)?;
        let _hooks = Hooks::new(py)?;
        let run = binding::start(&mut open.runtime, root);
        let _generators = asyncgens::OfRun(run.id());
        let ended = binding::drive(&mut open.runtime, &run, session::is_interrupted);
        if let Some(error) = session::take_interrupt() {
            if ended.is_none() {
                give_up(py, &mut open.runtime, &run, &error);
            }
            drop(watch);
            session::take_interrupt();
            return Err(error);
        }
        drop(watch);
        if let Some(error) = session::take_interrupt() {
            return Err(error);
        }
        match ended {
            Some(Ok(value)) => value::from_value(py, value),
            Some(Err(error)) => Err(errors::run_error(py, &error)),
            None => Err(TiffanyError::Gone.err(py, "the run was left")),
        }
    }

    /// Starts a program for `go_on` and returns the number of its run.
    fn start(&self, program: Bound<'_, PyAny>) -> PyResult<u64> {
        let open = &mut *self.open(program.py())?;
        let guest = Guest::start(&mut open.runtime, &program)?;
        Ok(open.guests.add(guest))
    }

    /// Waits for a durable run that was submitted, and returns its number for `go_on`.
    fn attend(&self, run: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut open = self.open(run.py())?;
        Ok(open.guests.add(Guest::durable(runs::identity(run)?)))
    }

    /// Drives all runs for this many rounds without waiting. Returns the seconds after which they
    /// need to be driven again, unless the descriptor becomes readable before, and the numbers of
    /// the finished runs.
    fn go_on(&self, py: Python<'_>, rounds: usize) -> PyResult<Rested> {
        let open = &mut *self.open(py)?;
        open.guests.go_on(py, &mut open.runtime, rounds)
    }

    /// Cancels a run that was started. Returns `False` if it is durable; it then stays as it is.
    fn stop(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        let open = &mut *self.open(py)?;
        Ok(open.guests.get(number).is_some_and(|guest| guest.cancel(&mut open.runtime)))
    }

    /// Returns the outcome of a finished run.
    fn outcome(&self, py: Python<'_>, number: u64) -> PyResult<Py<PyAny>> {
        let open = &mut *self.open(py)?;
        match open.guests.take(number) {
            Some(guest) => guest.outcome(py, &mut open.runtime),
            None => Err(TiffanyError::Gone.err(py, "nothing was started")),
        }
    }

    /// Stops waiting for a run.
    fn leave(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        drop(self.open(py)?.guests.take(number));
        Ok(())
    }

    /// Returns the descriptor that becomes readable when a run can make progress.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(binding::descriptor(&self.open(py)?.runtime))
    }

    /// Closes the runtime and frees its resources.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.inner.is_forked() {
            // The process that created the runtime closes it.
            return Ok(());
        }
        let open = match self.inner.get(py, "runtime")?.try_borrow_mut() {
            Ok(mut open) => open.take(),
            Err(_) => return self.open(py).map(drop),
        };
        interpreter::without(py, || drop(open));
        Ok(())
    }

    /// Starts a durable run of a function under an id and returns its UUID.
    fn submit(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::function)] function: String,
        #[pyo3(from_py_with = argument::id)] id: String,
        input: String,
        options: Given<'_>,
    ) -> PyResult<String> {
        let options = attributes::options(options)?;
        runs::submit(py, &mut self.open(py)?.runtime, &function, &id, input, &options)
    }

    /// Lists runs, as JSON.
    fn runs(&self, py: Python<'_>, query: &str) -> PyResult<String> {
        let query = runs::query_of(py, query)?;
        runs::list(py, &mut self.open(py)?.runtime, &query)
    }

    /// Drives all runs until this one has finished and returns its value.
    fn wait(&self, run: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let mut open = self.open(run.py())?;
        driven(run.py(), open.second, || runs::wait(&mut open.runtime, run))
    }

    /// Sends a message to a durable run.
    fn send(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::name)] name: String,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        runs::send(&mut self.open(run.py())?.runtime, run, &name, value)
    }

    /// Cancels a durable run.
    fn cancel(&self, run: &Bound<'_, PyAny>) -> PyResult<()> {
        runs::cancel(&mut self.open(run.py())?.runtime, run)
    }

    /// Holds a durable run.
    fn hold(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::by)] by: String,
        #[pyo3(from_py_with = argument::why)] why: Option<String>,
    ) -> PyResult<()> {
        let given = (by.as_str(), why.as_deref());
        runs::hold(&mut self.open(run.py())?.runtime, run, given, runs::Steer::Hold)
    }

    /// Releases a durable run that is held.
    fn release(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::by)] by: String,
        #[pyo3(from_py_with = argument::why)] why: Option<String>,
    ) -> PyResult<()> {
        let given = (by.as_str(), why.as_deref());
        runs::hold(&mut self.open(run.py())?.runtime, run, given, runs::Steer::Release)
    }

    /// Sends a query to a durable run.
    fn query(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::name)] name: String,
        input: String,
    ) -> PyResult<Py<PyAny>> {
        let mut open = self.open(run.py())?;
        driven(run.py(), open.second, || runs::query(&mut open.runtime, run, &name, input))
    }

    /// Forks a durable run at a record and returns the fork's id and UUID.
    fn fork(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::at)] at: u64,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<(String, String)> {
        let mut open = self.open(run.py())?;
        driven(run.py(), open.second, || forks::fork(&mut open.runtime, run, at, given))
    }

    /// Allows a fork to execute steps with these names.
    fn allow(&self, run: &Bound<'_, PyAny>, names: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        forks::allow(&mut self.open(run.py())?.runtime, run, &names)
    }

    /// Starts the log of a run of state machines again with a snapshot, now.
    fn snapshot(&self, run: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut open = self.open(run.py())?;
        driven(run.py(), open.second, || runs::snapshot(&mut open.runtime, run))
    }

    /// Waits until everything requested so far is durable in the log.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let mut open = self.open(py)?;
        driven(py, open.second, || runs::flush(py, &mut open.runtime))
    }

    /// Returns the runs that cannot continue.
    fn paused(&self, py: Python<'_>) -> PyResult<Vec<runs::PausedParts>> {
        Ok(runs::paused(&self.open(py)?.runtime))
    }

    /// Returns the metrics: as text for Prometheus, and as JSON.
    fn metrics(&self, py: Python<'_>) -> PyResult<(String, String)> {
        Ok(runs::metrics(&self.open(py)?.runtime.metrics()))
    }

    /// Returns the steps in doubt.
    fn doubts(&self, py: Python<'_>) -> PyResult<Vec<runs::DoubtParts>> {
        Ok(runs::doubts(&self.open(py)?.runtime))
    }

    /// Decides a step in doubt.
    fn decide(
        &self,
        #[pyo3(from_py_with = argument::key)] key: String,
        what: &str,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        runs::decide(&mut self.open(given.py())?.runtime, &key, what, given)
    }

    /// Returns the open questions to people.
    fn approvals(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let open = self.open(py)?.runtime.approvals();
        open.iter().map(|open| approvals::open(py, open)).collect()
    }

    /// Decides a question: with this choice, or with yes or no.
    #[pyo3(signature = (approval, yes, choice = None, by = None, why = None))]
    fn resolve(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::approval)] approval: String,
        yes: bool,
        #[pyo3(from_py_with = argument::choice)] choice: Option<String>,
        #[pyo3(from_py_with = argument::by)] by: Option<String>,
        #[pyo3(from_py_with = argument::why)] why: Option<String>,
    ) -> PyResult<Py<PyAny>> {
        let ruling = approvals::ruling(choice, yes, by, why);
        let decided = self.open(py)?.runtime.resolve(&approval, ruling);
        let decided = decided.map_err(|error| errors::to_python(py, &error))?;
        approvals::decided(py, &decided)
    }

    /// Whether a durable run has finished, and its end is durable in the log.
    fn is_finished(&self, run: &Bound<'_, PyAny>) -> PyResult<bool> {
        let uuid = runs::identity(run)?;
        Ok(self.open(run.py())?.runtime.is_finished(uuid))
    }

    /// Returns the handle for other threads.
    fn control(&self, py: Python<'_>) -> PyResult<Control> {
        let runtime = &self.open(py)?.runtime;
        Ok(Control::of(runtime.handle().control(), binding::log_dir(runtime)))
    }

    /// Returns a handle for requests from an asyncio loop on another thread.
    fn requests(&self, py: Python<'_>) -> PyResult<Requests> {
        Requests::new(&self.open(py)?.runtime)
    }

    /// Drives all runs and answers requests until the requests are stopped. Then begins no more
    /// steps, and drives until those in progress have ended or their grace ends.
    fn serve(&self, py: Python<'_>, requests: &Requests) -> PyResult<()> {
        let mut open = self.open(py)?;
        let _looping = session::Looping::new();
        driven(py, open.second, || {
            let runtime = &mut open.runtime;
            runtime
                .serve_while(|_| !requests.is_stopped() && !session::is_interrupted())
                .and_then(|()| runtime.drain(requests.grace()))
                .map(drop)
                .map_err(|error| errors::run_error(py, &error))
        })
    }

    /// Subscribes to the events of its runs.
    fn activity(
        &self,
        py: Python<'_>,
        run: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = argument::from_seq)] from_seq: Option<u64>,
        #[pyo3(from_py_with = argument::every_turn)] every_turn: bool,
        #[pyo3(from_py_with = argument::ghosts)] ghosts: bool,
    ) -> PyResult<Events> {
        let hub = self.open(py)?.runtime.activity();
        Events::new(hub, run, (from_seq, every_turn, ghosts))
    }

    /// Removes a finished durable run.
    fn remove(&self, run: &Bound<'_, PyAny>) -> PyResult<()> {
        retention::remove(&mut self.open(run.py())?.runtime, run)
    }

    /// Compacts finished durable runs.
    fn compact(&self, py: Python<'_>, runs: Vec<Bound<'_, PyAny>>) -> PyResult<CompactedParts> {
        let mut open = self.open(py)?;
        driven(py, open.second, || retention::compact(py, &mut open.runtime, &runs))
    }

    /// Applies retention rules, or reports what they would do.
    fn prune(
        &self,
        py: Python<'_>,
        rules: Vec<RuleParts>,
        #[pyo3(from_py_with = argument::dry_run)] dry_run: bool,
    ) -> PyResult<PrunedParts> {
        let mut open = self.open(py)?;
        driven(py, open.second, || retention::prune(py, &mut open.runtime, rules, dry_run))
    }

    /// Removes blobs that no run refers to.
    fn collect_blobs(&self, py: Python<'_>) -> PyResult<CollectedParts> {
        let mut open = self.open(py)?;
        driven(py, open.second, || retention::collect_blobs(py, &mut open.runtime))
    }
}
