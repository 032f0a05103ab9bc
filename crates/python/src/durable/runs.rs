//! The methods of `tiffany.Runtime` for durable runs: submit, wait, send, cancel, hold, query. The
//! interpreter is released while the loop waits.

use pyo3::prelude::*;
use serde_json::value::RawValue;
use tiffany::binding;
use tiffany::control::{Decision, Doubt, Paused, RunPage, RunQuery};
use tiffany::durable::{DurableRun, StartOptions};
use tiffany::metrics::Snapshot;
use tiffany::{RunError, Runtime, Uuid};

pub(crate) use crate::durable::messages::identity;
use crate::process::{interpreter, session};
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{argument, errors, json};

/// A handle of a run whose values are JSON.
fn run(uuid: Uuid) -> DurableRun<Box<RawValue>> {
    binding::durable_run(uuid)
}

pub(super) fn raised<T>(py: Python<'_>, result: Result<T, RunError>) -> PyResult<T> {
    // Ctrl-C was pressed during the wait.
    if let Some(error) = session::take_interrupt() {
        return Err(error);
    }
    result.map_err(|error| errors::run_error(py, &error))
}

/// Starts a run and returns its UUID.
pub(crate) fn submit(
    py: Python<'_>,
    runtime: &mut Runtime,
    function: &str,
    id: &str,
    input: String,
    options: &StartOptions,
) -> PyResult<String> {
    let input = json::raw_text(input);
    let submitted = interpreter::without(py, || {
        let run = runtime.submit_with::<Box<RawValue>>(function, id, &input, options);
        run.map(|run| run.uuid())
    });
    raised(py, submitted).map(|uuid| uuid.to_string())
}

/// Reads which runs are asked for, in the form of the socket.
pub(crate) fn query_of(py: Python<'_>, query: &str) -> PyResult<RunQuery> {
    serde_json::from_str(query)
        .map_err(|error| TiffanyError::BadArgument.err(py, error.to_string()))
}

/// Lists runs, as JSON.
pub(crate) fn list(py: Python<'_>, runtime: &mut Runtime, query: &RunQuery) -> PyResult<String> {
    raised(py, interpreter::without(py, || runtime.runs(query))).map(|page| page_json(&page))
}

pub(crate) fn page_json(page: &RunPage) -> String {
    serde_json::to_string(page).unwrap_or_else(|_| "{}".into())
}

/// Drives all runs until this one has finished, and returns its value.
pub(crate) fn wait(runtime: &mut Runtime, run: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    outcome(run.py(), runtime, identity(run)?)
}

/// Drives all runs until the one with this UUID has finished, and returns its value.
pub(crate) fn outcome(py: Python<'_>, runtime: &mut Runtime, uuid: Uuid) -> PyResult<Py<PyAny>> {
    let ended = binding::wait_for(runtime, uuid, session::is_interrupted);
    if let Some(error) = session::take_interrupt() {
        return Err(error);
    }
    match ended {
        Some(Ok(value)) => json::decode(py, &value),
        Some(Err(error)) => Err(errors::run_error(py, &error)),
        None => Err(TiffanyError::Gone.err(py, "the run was left")),
    }
}

pub(crate) fn send(
    runtime: &mut Runtime,
    to: &Bound<'_, PyAny>,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (py, to) = (to.py(), run(identity(to)?));
    let message = json::raw(value, || format!("message `{name}`"))?;
    raised(py, interpreter::without(py, || runtime.send(&to, name, &message)))
}

pub(crate) fn cancel(runtime: &mut Runtime, of: &Bound<'_, PyAny>) -> PyResult<()> {
    let (py, of) = (of.py(), run(identity(of)?));
    raised(py, interpreter::without(py, || runtime.cancel(&of)))
}

/// Holds a run, or releases it.
pub(crate) fn hold(
    runtime: &mut Runtime,
    of: &Bound<'_, PyAny>,
    (by, why): (&str, Option<&str>),
    hold: Steer,
) -> PyResult<()> {
    let (py, of) = (of.py(), run(identity(of)?));
    let done = interpreter::without(py, || match hold {
        Steer::Hold => runtime.hold(&of, by, why),
        Steer::Release => runtime.release(&of, by, why),
    });
    raised(py, done)
}

/// Whether a run is held or released.
#[derive(Clone, Copy)]
pub(crate) enum Steer {
    Hold,
    Release,
}

/// Sends a query to a run. Drives all runs meanwhile.
pub(crate) fn query(
    runtime: &mut Runtime,
    of: &Bound<'_, PyAny>,
    name: &str,
    input: String,
) -> PyResult<Py<PyAny>> {
    let (py, of, input) = (of.py(), run(identity(of)?), json::raw_text(input));
    let answer = runtime.question::<_, Box<RawValue>>(&of, name, &input);
    json::decode(py, raised(py, answer)?.get())
}

/// Starts the log of a run of state machines again with a snapshot. Drives all runs meanwhile.
pub(crate) fn snapshot(runtime: &mut Runtime, of: &Bound<'_, PyAny>) -> PyResult<()> {
    let (py, of) = (of.py(), run(identity(of)?));
    raised(py, runtime.snapshot(&of))
}

/// Waits until everything requested so far is durable in the log.
pub(crate) fn flush(py: Python<'_>, runtime: &mut Runtime) -> PyResult<()> {
    let flushed = runtime.flush();
    raised(py, flushed)
}

/// A run that cannot continue: its UUID, and the code and the text of its error.
pub(crate) type PausedParts = (String, &'static str, String);

/// Returns the runs that cannot continue.
pub(crate) fn paused(runtime: &Runtime) -> Vec<PausedParts> {
    runtime.paused().iter().map(paused_run).collect()
}

pub(super) fn paused_run(paused: &Paused) -> PausedParts {
    (paused.run.to_string(), paused.error.code(), paused.error.to_string())
}

/// A step in doubt: its key, its run, its name, the attempt, and whether its task waits.
pub(crate) type DoubtParts = (String, String, String, u64, bool);

pub(crate) fn doubt(doubt: &Doubt) -> DoubtParts {
    let Doubt { key, run, step, attempt, waits, .. } = doubt;
    (key.clone(), run.to_string(), step.clone(), *attempt, *waits)
}

/// Returns the metrics as text for Prometheus and as JSON.
pub(crate) fn metrics(metrics: &Snapshot) -> (String, String) {
    let json = serde_json::to_string(metrics).unwrap_or_else(|_| "{\"families\":[]}".into());
    (metrics.to_string(), json)
}

pub(crate) fn doubts(runtime: &Runtime) -> Vec<DoubtParts> {
    runtime.doubts().iter().map(doubt).collect()
}

/// Decides a step in doubt: `("done", value)`, `("failed", why)` or `("again", None)`.
pub(crate) fn decision(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Decision> {
    Ok(match what {
        "done" => Decision::Done(json::raw(given, || "the result of a step".into())?),
        "failed" => Decision::Failed(argument::failed(given)?),
        _ => Decision::Again,
    })
}

pub(crate) fn decide(
    runtime: &mut Runtime,
    key: &str,
    what: &str,
    given: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let decision = decision(what, given)?;
    raised(given.py(), interpreter::without(given.py(), || runtime.decide(key, decision)))
}
