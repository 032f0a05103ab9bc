//! A runtime inside another loop of the same thread, asyncio's: `python/tiffany/_arun.py` lets it go on, and is told what to wake it for.

use pyo3::prelude::*;
use tiffany::binding::{self, Rest};
use tiffany::{RunHandle, Uuid, Value};

use crate::durable::runs;
use crate::errors::{self, Raise, TiffanyError};
use crate::line::Line;
use crate::{session, spawn, value};

/// The run that a guest is there for.
pub(crate) enum Guest {
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
        Ok(Guest::Ephemeral(binding::start(runtime, root)))
    }

    /// Lets it go on for so many rounds. After so many seconds it wants to go on again, or when its descriptor can be read before;
    /// `None`: it is over.
    pub(crate) fn go_on(
        &self,
        py: Python<'_>,
        runtime: &mut tiffany::Runtime,
        rounds: usize,
    ) -> PyResult<Option<f64>> {
        let is_over = |runtime: &tiffany::Runtime| {
            let is_over = match self {
                Guest::Ephemeral(run) => binding::is_over(runtime, run.id()),
                Guest::Durable(run) => !binding::is_live(runtime, *run),
            };
            is_over || session::is_interrupted()
        };
        let _looping = session::Looping::new();
        match binding::go_on(runtime, rounds, is_over) {
            Ok(Rest::Over) => Ok(None),
            Ok(Rest::Ready) => Ok(Some(0.0)),
            Ok(Rest::Wait(timeout)) => Ok(Some(timeout.map_or(f64::INFINITY, |t| t.as_secs_f64()))),
            Err(error) => Err(errors::run_error(py, &error)),
        }
    }

    /// Cancels all of its tasks. `false`: it is durable, and stays as it is.
    pub(crate) fn cancel(&self, runtime: &tiffany::Runtime) -> bool {
        match self {
            Guest::Ephemeral(run) => {
                runtime.handle().cancel(run.id());
                true
            }
            Guest::Durable(_) => false,
        }
    }

    /// What came of it, when it is over.
    pub(crate) fn outcome(
        self,
        py: Python<'_>,
        runtime: &mut tiffany::Runtime,
    ) -> PyResult<Py<PyAny>> {
        if let Some(error) = session::take_interrupt() {
            return Err(error);
        }
        let run = match self {
            Guest::Ephemeral(run) => run,
            Guest::Durable(run) => return runs::outcome(py, runtime, run),
        };
        match binding::drive(runtime, &run, || true) {
            Some(Ok(value)) => value::from_value(py, value),
            Some(Err(error)) => Err(errors::run_error(py, &error)),
            None => Err(TiffanyError::Gone.err(py, "the run is not over")),
        }
    }
}
