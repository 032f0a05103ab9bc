//! A runtime inside another loop of the same thread, asyncio's: `python/tiffany/_arun.py` lets it go on, and is told what to wake it for.

use pyo3::prelude::*;
use tiffany::binding::{self, Rest};
use tiffany::{RunHandle, Uuid, Value};

use crate::asyncgens::{Hooks, OfRun};
use crate::durable::runs;
use crate::errors::{self, Raise, TiffanyError};
use crate::line::Line;
use crate::{session, spawn, value};

/// The run that a guest is there for.
pub(crate) struct Guest {
    run: Run,
    /// What a task raised that ends the run: it is raised when the others have cleaned up.
    interrupt: Option<PyErr>,
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
        Ok(Guest { run: Run::Ephemeral(run), interrupt: None, _generators: generators })
    }

    /// A durable run that was submitted.
    pub(crate) fn durable(run: Uuid) -> Guest {
        Guest { run: Run::Durable(run), interrupt: None, _generators: None }
    }

    fn is_over(&self, runtime: &tiffany::Runtime) -> bool {
        match &self.run {
            Run::Ephemeral(run) => binding::is_over(runtime, run.id()),
            Run::Durable(run) => !binding::is_live(runtime, *run),
        }
    }

    /// Lets it go on for so many rounds. After so many seconds it wants to go on again, or when its descriptor can be read before;
    /// `None`: it is over.
    pub(crate) fn go_on(
        &mut self,
        py: Python<'_>,
        runtime: &mut tiffany::Runtime,
        rounds: usize,
    ) -> PyResult<Option<f64>> {
        let _looping = session::Looping::new();
        let _hooks = Hooks::new(py)?;
        let is_over =
            |runtime: &tiffany::Runtime| self.is_over(runtime) || session::is_interrupted();
        match binding::go_on(runtime, rounds, is_over) {
            Ok(Rest::Over) => Ok(self.ended(py, runtime)),
            Ok(Rest::Ready) => Ok(Some(0.0)),
            Ok(Rest::Wait(timeout)) => Ok(Some(timeout.map_or(f64::INFINITY, |t| t.as_secs_f64()))),
            Err(error) => Err(errors::run_error(py, &error)),
        }
    }

    /// It is over, or a task has raised what ends it: then the others are cancelled, and have time to clean up, once.
    fn ended(&mut self, py: Python<'_>, runtime: &mut tiffany::Runtime) -> Option<f64> {
        let error = session::take_interrupt()?;
        let cleans_up = self.interrupt.is_none() && errors::ends_the_run(py, &error);
        self.interrupt.get_or_insert(error);
        (cleans_up && !self.is_over(runtime) && self.end(runtime)).then_some(0.0)
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
