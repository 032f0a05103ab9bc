//! A runtime inside the asyncio loop of the same thread. `python/tiffany/_aio/guest.py` drives it and learns from it
//! what to wake it for and which runs have ended.

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

/// The runs of a runtime that another loop waits for, by the numbers that it knows them by.
#[derive(Default)]
pub(crate) struct Guests {
    runs: BTreeMap<u64, Guest>,
    started: u64,
    /// Who waits for which durable run.
    of_run: BTreeMap<Uuid, Vec<u64>>,
    /// Those that are looked at whatever happened: new ones, and runs that are not durable.
    unseen: BTreeSet<u64>,
}

/// What a loop does next: after how many seconds it drives the runtime again, unless its descriptor becomes readable before; and the runs that have ended.
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

    /// Those that have ended since this was asked before, in the order of their numbers.
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
            // Nobody knows whose task raised it; it ends the process, and so concerns all.
            self.runs.values_mut().for_each(|guest| guest.interrupt(py, runtime, &error));
            self.unseen.extend(self.runs.keys());
        }
        let over = self.ended(runtime);
        match driven {
            Ok(Rest::Wait(timeout)) if over.is_empty() => {
                Ok((timeout.map_or(f64::INFINITY, |timeout| timeout.as_secs_f64()), over))
            }
            Ok(_) => Ok((0.0, over)),
            // Those that are over have their outcome all the same.
            Err(_) if !over.is_empty() => Ok((0.0, over)),
            Err(error) => Err(errors::run_error(py, &error)),
        }
    }
}

/// A run that another loop waits for.
pub(crate) struct Guest {
    run: Run,
    /// What a task raised that ends the run: it is raised when the others have cleaned up.
    interrupt: Option<PyErr>,
    /// It is not waited for any more: its tasks do not clean up, or have had their time.
    is_left: bool,
    /// Its async generators are closed at its end.
    _generators: Option<OfRun>,
}

enum Run {
    Ephemeral(RunHandle<Value>),
    Durable(Uuid),
}

impl Guest {
    /// Starts a program, which goes on when it is let.
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

    /// A durable run that was submitted.
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

    /// A task has raised what ends the process: the others are cancelled, and have time to clean up, once.
    fn interrupt(&mut self, py: Python<'_>, runtime: &mut tiffany::Runtime, error: &PyErr) {
        let cleans_up = self.interrupt.is_none() && errors::ends_the_run(py, error);
        self.is_left = !(cleans_up && self.end(runtime));
        self.interrupt.get_or_insert_with(|| error.clone_ref(py));
    }

    /// Ends it early: its tasks are cancelled, unless they are already. `false`: it is durable, and stays as it is.
    fn end(&self, runtime: &mut tiffany::Runtime) -> bool {
        match &self.run {
            Run::Ephemeral(run) => {
                binding::end(runtime, run);
                true
            }
            Run::Durable(_) => false,
        }
    }

    /// Cancels all of its tasks. `false`: it is durable, and stays as it is.
    pub(crate) fn cancel(&self, runtime: &mut tiffany::Runtime) -> bool {
        match &self.run {
            Run::Ephemeral(run) => {
                binding::cancel(runtime, run);
                true
            }
            Run::Durable(_) => false,
        }
    }

    /// What came of it, when it is over.
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
            None => Err(TiffanyError::Gone.err(py, "the run is not over")),
        }
    }
}
