//! A runtime inside another loop of the same thread, asyncio's: `python/tiffany/_arun.py` lets it go on, and is told what to wake it for.

use pyo3::prelude::*;
use tiffany::binding::{self, Rest};
use tiffany::{RunHandle, Value};

use crate::errors::{self, Raise, TiffanyError};
use crate::line::Line;
use crate::{session, spawn, value};

/// The run that a guest is there for.
pub(crate) struct Guest(RunHandle<Value>);

impl Guest {
    /// Starts a program, which goes on when it is let.
    pub(crate) fn start(
        runtime: &mut tiffany::Runtime,
        program: &Bound<'_, PyAny>,
    ) -> PyResult<Guest> {
        spawn::check(program)?;
        let root = spawn::coroutine(program, Line::of_program(program))?;
        Ok(Guest(binding::start(runtime, root)))
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
            binding::is_over(runtime, self.0.id()) || session::is_interrupted()
        };
        match binding::go_on(runtime, rounds, is_over) {
            Ok(Rest::Over) => Ok(None),
            Ok(Rest::Ready) => Ok(Some(0.0)),
            Ok(Rest::Wait(timeout)) => Ok(Some(timeout.map_or(f64::INFINITY, |t| t.as_secs_f64()))),
            Err(error) => Err(errors::run_error(py, &error)),
        }
    }

    /// Cancels all of its tasks.
    pub(crate) fn cancel(&self, runtime: &tiffany::Runtime) {
        runtime.handle().cancel(self.0.id());
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
        match binding::drive(runtime, &self.0, || true) {
            Some(Ok(value)) => value::from_value(py, value),
            Some(Err(error)) => Err(errors::run_error(py, &error)),
            None => Err(TiffanyError::Gone.err(py, "the run is not over")),
        }
    }
}
