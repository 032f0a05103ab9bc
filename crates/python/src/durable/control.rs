//! `Control`: requests about durable runs from another thread, from another process, or on a
//! directory that no process has open. The interpreter is released while a request waits.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::thread::ThreadId;

use pyo3::prelude::*;
use serde_json::value::RawValue;
use tiffany::control::{Control as Way, Request, Status};
use tiffany::{ErrorKind, Settlement, TaskError, Uuid, binding};

use crate::durable::retention::{self, CollectedParts, CompactedParts, PrunedParts, RuleParts};
use crate::durable::runs::{PausedParts, paused_run};
use crate::process::interpreter;
use crate::values::attributes::Given;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{argument, errors, json};

/// The status of a process: its number, its version, its functions, the number of unfinished runs,
/// and the runs that cannot continue.
pub(crate) type StatusParts = (u32, String, Vec<String>, usize, Vec<PausedParts>);

/// Returns the parts of a status that Python gets.
pub(crate) fn status_parts(status: &Status) -> StatusParts {
    let paused = status.paused.iter().map(paused_run).collect();
    let functions = status.functions.iter().map(|function| function.name.clone()).collect();
    (status.pid, status.version.clone(), functions, status.live, paused)
}

/// Sends requests to the runtime that owns a log. Threads can share it.
#[pyclass(frozen, name = "_Control", module = "tiffany._core")]
pub(crate) struct Control {
    way: Mutex<Option<Way>>,
    /// The directory of the log, if there is one.
    dir: Option<PathBuf>,
    /// The thread of the runtime: a request made there would wait for itself.
    home: Option<ThreadId>,
}

impl Control {
    /// Creates a connection to a runtime of this thread, with the directory of its log.
    pub(crate) fn of(way: Way, dir: Option<PathBuf>) -> Control {
        let way = Mutex::new(Some(binding::encoded(way)));
        Control { way, dir, home: Some(std::thread::current().id()) }
    }

    /// Creates a connection to a runtime of another thread, with the directory of its log.
    pub(crate) fn elsewhere(way: Way, dir: Option<PathBuf>) -> Control {
        Control { way: Mutex::new(Some(binding::encoded(way))), dir, home: None }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Way>> {
        self.way.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sends a request. Requests of several threads are sent one after the other.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&mut Way) -> Result<T, TaskError> + Send,
    ) -> PyResult<T> {
        if self.home == Some(std::thread::current().id()) {
            let message = "the handle of a runtime was used on the runtime's own thread, where it cannot answer while it is waited for; \
                           it is for other threads, and here the runtime itself has the same methods";
            return Err(TiffanyError::Unreachable.err(py, message));
        }
        let answer = interpreter::without(py, || self.lock().as_mut().map(ask));
        match answer {
            Some(answer) => answer.map_err(|error| errors::to_python(py, &error)),
            None => Err(TiffanyError::Gone.err(py, "this connection is closed")),
        }
    }
}

impl Control {
    /// Sends a request that needs the directory of the log.
    fn ask_log<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&mut Way, &Path) -> Result<T, TaskError> + Send,
    ) -> PyResult<T> {
        let Some(dir) = &self.dir else {
            let message = "this runtime has no log; give it a directory as `wal`";
            return Err(errors::to_python(py, &TaskError::new(ErrorKind::LogFailed, message)));
        };
        self.ask(py, |way| ask(way, dir))
    }

    /// Settles a promise with a value. Returns `False` if it was already settled.
    pub(crate) fn settle(
        &self,
        promise: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let value = json::raw(value, || "the value of a promise".into())?;
        self.settled(promise, Ok(value))
    }

    /// Settles a promise with an exception. Returns `False` if it was already settled.
    pub(crate) fn fail(
        &self,
        promise: &Bound<'_, PyAny>,
        error: Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        self.settled(promise, Err(failure(error)))
    }

    fn settled(
        &self,
        promise: &Bound<'_, PyAny>,
        result: Result<Box<RawValue>, TaskError>,
    ) -> PyResult<bool> {
        let uuid = promise_uuid(promise)?;
        let settled = self.ask(promise.py(), |way| binding::settle_durable(way, uuid, result))?;
        Ok(settled == Settlement::Accepted)
    }
}

#[pymethods]
impl Control {
    /// Opens the log in a directory.
    #[new]
    pub(crate) fn open(
        py: Python<'_>,
        #[pyo3(from_py_with = argument::wal)] dir: PathBuf,
    ) -> PyResult<Control> {
        let opened = interpreter::without(py, || Way::open(&dir));
        let opened = opened.map(|way| {
            let way = Mutex::new(Some(binding::encoded(way)));
            Control { way, dir: Some(dir), home: None }
        });
        opened.map_err(|error| errors::to_python(py, &error))
    }

    fn close(&self, py: Python<'_>) {
        interpreter::without(py, || drop(self.lock().take()));
    }

    fn is_offline(&self, py: Python<'_>) -> PyResult<bool> {
        match self.lock().as_ref() {
            Some(way) => Ok(way.is_offline()),
            None => Err(TiffanyError::Gone.err(py, "this connection is closed")),
        }
    }

    /// Sends a request as its JSON, and returns the answer as JSON. Values are in the codec's form.
    fn ask_text(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        let unreadable = |error: serde_json::Error| {
            errors::to_python(py, &TaskError::new(ErrorKind::BadArgument, error.to_string()))
        };
        let request: Request = serde_json::from_str(request).map_err(unreadable)?;
        let answer = self.ask(py, |way| way.ask(request))?;
        serde_json::to_string(&answer).map_err(unreadable)
    }

    /// Compacts finished runs.
    fn compact(&self, py: Python<'_>, runs: Vec<Bound<'_, PyAny>>) -> PyResult<CompactedParts> {
        let runs = retention::identities(&runs)?;
        let compacted = self.ask_log(py, |way, dir| binding::compact_by(way, dir, &runs))?;
        Ok(retention::compacted_parts(py, &runs, compacted))
    }

    /// Applies retention rules, or reports what they would do.
    fn prune(
        &self,
        py: Python<'_>,
        rules: Vec<RuleParts>,
        #[pyo3(from_py_with = argument::dry_run)] dry_run: bool,
    ) -> PyResult<PrunedParts> {
        let rules = retention::rules(rules);
        let pruned = self.ask_log(py, |way, dir| retention::prune_by(way, dir, &rules, dry_run))?;
        Ok(retention::parts(py, pruned))
    }

    /// Removes blobs that no run refers to.
    fn collect_blobs(&self, py: Python<'_>) -> PyResult<CollectedParts> {
        self.ask(py, binding::collect_blobs_by).map(retention::collected_parts)
    }
}

/// Converts an exception or a text to the error of a failed promise.
pub(crate) fn failure(error: Bound<'_, PyAny>) -> TaskError {
    match error.cast::<pyo3::exceptions::PyBaseException>() {
        Ok(exception) => json::written(exception, None),
        Err(_) => {
            TaskError::failed(error.str().map_or_else(|_| "failed".into(), |t| t.to_string()))
        }
    }
}

/// Reads the UUID of a promise from a `UUID` or a text.
pub(crate) fn promise_uuid(promise: &Bound<'_, PyAny>) -> PyResult<Uuid> {
    let uuid = promise.getattr("uuid").unwrap_or_else(|_| promise.clone());
    let text = uuid.str()?.to_string();
    Uuid::parse(&text).ok_or_else(|| {
        TiffanyError::UnknownPromise
            .err(promise.py(), format!("{text:?} is not the UUID of a promise"))
    })
}
