//! A runtime inside the asyncio loop of the same thread. `python/tiffany/_aio/guest.py` drives it;
//! each call reports when to drive it next and which runs have finished.

use std::collections::{BTreeMap, BTreeSet};

use pyo3::prelude::*;
use tiffany::binding::{self, Rest};
use tiffany::{RunHandle, Uuid, Value};

use crate::durable::runs;
use crate::process::session;
use crate::tasks::asyncgens::{Hooks, OfRun};
use crate::tasks::spawn;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::{errors, value};

/// The runs of a runtime that an asyncio loop waits for, by number.
#[derive(Default)]
pub(crate) struct Guests {
    runs: BTreeMap<u64, Guest>,
    started: u64,
    /// The numbers of the guests that wait for each durable run.
    of_run: BTreeMap<Uuid, Vec<u64>>,
    /// Guests to check after every round: new ones, and runs that are not durable.
    unseen: BTreeSet<u64>,
}

/// The seconds after which the runtime must be driven again, unless its descriptor becomes readable
/// before, and the numbers of the finished runs.
pub(crate) type Rested = (f64, Vec<u64>);

impl Guests {
    pub(crate) fn add(&mut self, guest: Guest) -> u64 {
        self.started += 1;
        if let Run::Durable(run) = guest.run {
            self.of_run.entry(run).or_default().push(self.started);
        }
        self.unseen.insert(self.started);
        self.runs.insert(self.started, guest);
        self.started
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Guest> {
        self.runs.get(&number)
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<Guest> {
        let guest = self.runs.remove(&number)?;
        self.unseen.remove(&number);
        if let Run::Durable(run) = guest.run
            && let Some(waiting) = self.of_run.get_mut(&run)
        {
            waiting.retain(|other| *other != number);
            if waiting.is_empty() {
                self.of_run.remove(&run);
            }
        }
        Some(guest)
    }

    /// Returns the runs that have finished since the last call, in the order of their numbers.
    fn ended(&mut self, runtime: &mut tiffany::Runtime) -> Vec<u64> {
        let mut numbers = std::mem::take(&mut self.unseen);
        match binding::settled(runtime) {
            Some(runs) => {
                let waiting = runs.iter().filter_map(|run| self.of_run.get(run));
                numbers.extend(waiting.flatten());
            }
            None => numbers.extend(self.runs.keys()),
        }
        numbers.retain(|number| {
            let Some(guest) = self.runs.get(number) else { return false };
            let has_ended = guest.has_ended(runtime);
            if !has_ended && matches!(guest.run, Run::Ephemeral(_)) {
                self.unseen.insert(*number);
            }
            has_ended
        });
        numbers.into_iter().collect()
    }

    /// Drives all runs for this many rounds.
    pub(crate) fn go_on(
        &mut self,
        py: Python<'_>,
        runtime: &mut tiffany::Runtime,
        rounds: usize,
    ) -> PyResult<Rested> {
        let _looping = session::Looping::new();
        let _hooks = Hooks::new(py)?;
        let driven = binding::go_on(runtime, rounds, |_| session::is_interrupted());
        if let Some(error) = session::take_interrupt() {
            // The run whose task raised the exception is unknown. The exception ends the process,
            // so it concerns all runs.
            self.runs.values_mut().for_each(|guest| guest.interrupt(py, runtime, &error));
            self.unseen.extend(self.runs.keys());
        }
        let over = self.ended(runtime);
        match driven {
            Ok(Rest::Wait(timeout)) if over.is_empty() => {
                Ok((timeout.map_or(f64::INFINITY, |timeout| timeout.as_secs_f64()), over))
            }
            Ok(_) => Ok((0.0, over)),
            // Finished runs keep their outcome.
            Err(_) if !over.is_empty() => Ok((0.0, over)),
            Err(error) => Err(errors::run_error(py, &error)),
        }
    }
}

/// A run that an asyncio loop waits for.
pub(crate) struct Guest {
    run: Run,
    /// The exception of a task that ends the run. It is raised when the other tasks have cleaned
    /// up.
    interrupt: Option<PyErr>,
    /// Whether the run is no longer waited for: its tasks cannot clean up, or their time is up.
    is_left: bool,
    /// Closes the run's async generators at its end.
    _generators: Option<OfRun>,
}

enum Run {
    Ephemeral(RunHandle<Value>),
    Durable(Uuid),
}

impl Guest {
    /// Starts a run of a program. It gets its first turn from `Guests::go_on`.
    pub(crate) fn start(
        runtime: &mut tiffany::Runtime,
        program: &Bound<'_, PyAny>,
    ) -> PyResult<Guest> {
        spawn::check(program)?;
        if session::is_forked_inside() {
            let message = "a task forked this process, which is still inside of that task";
            return Err(TiffanyError::Forked.err(program.py(), message));
        }
        let root = spawn::coroutine(program, Line::of_program(program))?;
        let run = binding::start(runtime, root);
        let generators = Some(OfRun(run.id()));
        let run = Run::Ephemeral(run);
        Ok(Guest { run, interrupt: None, is_left: false, _generators: generators })
    }

    /// Waits for a durable run that was submitted.
    pub(crate) fn durable(run: Uuid) -> Guest {
        Guest { run: Run::Durable(run), interrupt: None, is_left: false, _generators: None }
    }

    fn is_over(&self, runtime: &tiffany::Runtime) -> bool {
        match &self.run {
            Run::Ephemeral(run) => binding::is_over(runtime, run.id()),
            Run::Durable(run) => !binding::is_live(runtime, *run),
        }
    }

    fn has_ended(&self, runtime: &tiffany::Runtime) -> bool {
        self.is_left || self.is_over(runtime)
    }

    /// Cancels the tasks of the run because one of them raised an exception that ends the process.
    /// They can clean up once.
    fn interrupt(&mut self, py: Python<'_>, runtime: &mut tiffany::Runtime, error: &PyErr) {
        let cleans_up = self.interrupt.is_none() && errors::ends_the_run(py, error);
        self.is_left = !(cleans_up && self.end(runtime));
        self.interrupt.get_or_insert_with(|| error.clone_ref(py));
    }

    /// Ends the run early by cancelling its tasks. Returns `false` for a durable run, which stays
    /// as it is.
    fn end(&self, runtime: &mut tiffany::Runtime) -> bool {
        match &self.run {
            Run::Ephemeral(run) => {
                binding::end(runtime, run);
                true
            }
            Run::Durable(_) => false,
        }
    }

    /// Cancels all tasks of the run. Returns `false` for a durable run, which stays as it is.
    pub(crate) fn cancel(&self, runtime: &mut tiffany::Runtime) -> bool {
        match &self.run {
            Run::Ephemeral(run) => {
                binding::cancel(runtime, run);
                true
            }
            Run::Durable(_) => false,
        }
    }

    /// Returns the outcome of the finished run.
    pub(crate) fn outcome(
        self,
        py: Python<'_>,
        runtime: &mut tiffany::Runtime,
    ) -> PyResult<Py<PyAny>> {
        if let Some(error) = self.interrupt {
            if let Run::Ephemeral(run) = &self.run
                && binding::drive(runtime, run, || true).is_none()
            {
                binding::leave(runtime, run);
            }
            return Err(error);
        }
        let run = match self.run {
            Run::Ephemeral(run) => run,
            Run::Durable(run) => return runs::outcome(py, runtime, run),
        };
        match binding::drive(runtime, &run, || true) {
            Some(Ok(value)) => value::from_value(py, value),
            Some(Err(error)) => Err(errors::run_error(py, &error)),
            None => Err(TiffanyError::Gone.err(py, "the run is not finished")),
        }
    }
}
