//! Golden logs: saves the log of a run, and replays saved logs with the current code. The public
//! part is `python/tiffany/testing/_golden.py`.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::testing::{CaptureError, Over, Redaction, capture, replay_log};

use crate::durable::runs::identity;
use crate::process::session;
use crate::runtime::settings::Settings;
use crate::tasks::asyncgens::Hooks;
use crate::values::{argument, errors};

/// Replays the run in a file against that file.
#[pyfunction]
#[pyo3(name = "_replay")]
pub(super) fn replay(settings: &Bound<'_, PyDict>, file: PathBuf) -> PyResult<()> {
    let py = settings.py();
    let program = Settings::read(settings)?.builder(py)?;
    let _hooks = Hooks::new(py)?;
    let replayed = replay_log(program, &file);
    if let Some(error) = session::take_interrupt() {
        return Err(error);
    }
    replayed.map_err(|error| errors::run_error(py, &error))
}

/// Saves the log of a run in a file, which is replaced if it exists, with the matches of the
/// redaction rules removed.
#[pyfunction]
#[pyo3(name = "_capture")]
pub(super) fn keep(
    settings: &Bound<'_, PyDict>,
    #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
    run: &Bound<'_, PyAny>,
    redact: Vec<String>,
    leave: Vec<String>,
    file: PathBuf,
) -> PyResult<()> {
    let (py, run) = (run.py(), identity(run)?);
    let program = Settings::read(settings)?.builder(py)?;
    let _hooks = Hooks::new(py)?;
    let (mut rules, mut places) = (redact.iter(), leave.iter());
    let captured = rules
        .try_fold(Redaction::new(), |redaction, rule| redaction.field(rule))
        .and_then(|redaction| places.try_fold(redaction, |so_far, place| so_far.leave(place)))
        .and_then(|redaction| capture(program, &wal, run, &redaction));
    if let Some(error) = session::take_interrupt() {
        return Err(error);
    }
    let written = captured.and_then(|captured| captured.write(&file, Over::File));
    written.map_err(|error| match error {
        CaptureError::Run(error) => errors::run_error(py, &error),
        error => errors::coded(py, error.code(), &error),
    })
}
