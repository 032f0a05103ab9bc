//! Runs replayed with the current code.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::durable::{Check, Proposal, Trial, Upcoming};
use tiffany::{TaskError, Uuid};

use crate::durable::runs::identity;
use crate::process::session;
use crate::process::signals::Second;
use crate::runtime::driven;
use crate::values::{argument, errors, json};

/// A run, its id, its function, and the error because of which it would not continue.
type CheckedParts = (String, String, String, Option<Py<PyAny>>);

/// A run, its id and function; the number of calls that matched the log; the next calls (task,
/// call, name, line); its value or its error, if it would end; the error because of which it would
/// not continue; the proposed code (line, id, code, why).
type TrialParts = (
    (String, String, String),
    usize,
    Vec<(u64, &'static str, Option<&'static str>, String)>,
    Option<(Option<Py<PyAny>>, Option<Py<PyAny>>)>,
    Option<Py<PyAny>>,
    Option<(String, String, Vec<String>, &'static str)>,
);

/// Replays runs against their logs with the current code: the named ones, or all unfinished ones.
#[pyfunction]
#[pyo3(name = "_check")]
pub(super) fn check(
    settings: &Bound<'_, PyDict>,
    #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
    runs: Option<Vec<Bound<'_, PyAny>>>,
) -> PyResult<Vec<CheckedParts>> {
    let py = settings.py();
    let program = super::program(settings)?;
    let named = runs.map(|runs| runs.iter().map(identity).collect::<PyResult<Vec<Uuid>>>());
    let named = named.transpose()?;
    driven(py, Second::Raises, || {
        let checking = Check::open(program, &wal).and_then(|check| match named {
            Some(named) => check.only(named),
            None => Ok(check),
        });
        let checking = checking.map_err(|error| errors::run_error(py, &error))?;
        let going_on = checking.take_while(|_| !session::is_interrupted());
        let checked = going_on.map(|checked| {
            let error = checked.error.map(|error| errors::run_error(py, &error));
            let error = error.map(|error| error.into_value(py).into_any());
            (checked.run.to_string(), checked.id, checked.function, error)
        });
        Ok(checked.collect())
    })
}

/// Returns what a run would do next with the current code.
#[pyfunction]
#[pyo3(name = "_try")]
pub(super) fn try_run(
    settings: &Bound<'_, PyDict>,
    #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
    run: &Bound<'_, PyAny>,
) -> PyResult<TrialParts> {
    let (py, program, run) = (run.py(), super::program(settings)?, identity(run)?);
    let tried = driven(py, Second::Raises, || {
        Trial::of(program, &wal, run).map_err(|error| errors::run_error(py, &error))
    })?;
    let upcoming = |Upcoming { tid, call, name, at, .. }| (tid.0, call, name, at);
    let proposal = |Proposal { at, id, lines, why, .. }: Proposal| (at.to_string(), id, lines, why);
    let outcome = match tried.outcome {
        Some(Ok(value)) => Some((Some(json::decode(py, &value)?), None)),
        Some(Err(error)) => Some((None, Some(exception(py, &error)))),
        None => None,
    };
    Ok((
        (tried.run.to_string(), tried.id, tried.function),
        tried.calls,
        tried.upcoming.into_iter().map(upcoming).collect(),
        outcome,
        tried.error.as_ref().map(|error| exception(py, error)),
        tried.proposal.map(proposal),
    ))
}

fn exception(py: Python<'_>, error: &TaskError) -> Py<PyAny> {
    errors::to_python(py, error).into_value(py).into_any()
}
