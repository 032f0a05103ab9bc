//! `Control`: requests about durable runs from another thread, from another process, or on a
//! directory that no process has open. The interpreter is released while a request waits.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::thread::ThreadId;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::value::RawValue;
use tiffany::control::{Control as Way, Request};
use tiffany::{ErrorKind, Settlement, TaskError, Uuid, binding};

use crate::durable::forks;
use crate::durable::retention::{self, CollectedParts, CompactedParts, PrunedParts, RuleParts};
use crate::durable::runs::{DoubtParts, PausedParts, decision, doubt, identity, paused_run};
use crate::process::interpreter;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{approvals, argument, errors, json};

/// The status of a process: its number, its version, its functions, the number of unfinished runs,
/// and the runs that cannot continue.
type StatusParts = (u32, String, Vec<String>, usize, Vec<PausedParts>);

/// Sends requests to the runtime that owns a log. Threads can share it.
#[pyclass(frozen, name = "_Control", module = "tiffany._core")]
pub(crate) struct Control {
    way: Mutex<Option<Way>>,
    /// The directory of the log, if there is one.
    dir: Option<PathBuf>,
    /// The thread of the runtime, on which requests would wait for themselves.
    home: Option<ThreadId>,
}

impl Control {
    /// Creates a connection to a runtime of this thread, with the directory of its log.
    pub(crate) fn of(way: Way, dir: Option<PathBuf>) -> Control {
        let way = Mutex::new(Some(binding::encoded(way)));
        Control { way, dir, home: Some(std::thread::current().id()) }
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

    /// Settles a promise. A fork shares its promises with its parent, so a run can be named.
    fn settled(
        &self,
        promise: &Bound<'_, PyAny>,
        run: Option<&Bound<'_, PyAny>>,
        result: Result<Box<RawValue>, TaskError>,
    ) -> PyResult<bool> {
        let (uuid, run) = (promise_uuid(promise)?, run.map(identity).transpose()?);
        let settled = self.ask(promise.py(), |way| match run {
            Some(run) => binding::settle_durable_in(way, run, uuid, result),
            None => binding::settle_durable(way, uuid, result),
        })?;
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

    fn status(&self, py: Python<'_>) -> PyResult<StatusParts> {
        let status = self.ask(py, Way::status)?;
        let paused = status.paused.iter().map(paused_run).collect();
        let functions = status.functions.into_iter().map(|function| function.name).collect();
        Ok((status.pid, status.version, functions, status.live, paused))
    }

    fn submit(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::function)] function: String,
        #[pyo3(from_py_with = argument::id)] id: String,
        input: String,
    ) -> PyResult<String> {
        let input = json::raw_text(input);
        self.ask(py, |way| way.submit(&function, &id, &input)).map(|uuid| uuid.to_string())
    }

    fn send(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::name)] name: String,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let uuid = identity(run)?;
        let message = json::raw(value, || format!("message `{name}`"))?;
        self.ask(run.py(), |way| way.send(uuid, &name, &message))
    }

    fn cancel(&self, run: &Bound<'_, PyAny>) -> PyResult<()> {
        let uuid = identity(run)?;
        self.ask(run.py(), |way| way.cancel(uuid))
    }

    fn hold(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::by)] by: String,
        #[pyo3(from_py_with = argument::why)] why: Option<String>,
    ) -> PyResult<()> {
        let uuid = identity(run)?;
        self.ask(run.py(), |way| way.hold(uuid, &by, why.as_deref()))
    }

    fn release(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::by)] by: String,
        #[pyo3(from_py_with = argument::why)] why: Option<String>,
    ) -> PyResult<()> {
        let uuid = identity(run)?;
        self.ask(run.py(), |way| way.release(uuid, &by, why.as_deref()))
    }

    /// Forks a run at a record and returns the fork's id and UUID.
    fn fork(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::at)] at: u64,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<(String, String)> {
        let (parent, fork) = (identity(run)?, forks::wanted(given)?);
        let forked = self.ask(run.py(), |way| binding::fork_by(way, parent, at, fork))?;
        Ok((forked.1, forked.0.to_string()))
    }

    /// Allows a fork to execute steps with these names.
    fn allow(&self, run: &Bound<'_, PyAny>, names: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let (uuid, names) = (identity(run)?, forks::names(&names)?);
        self.ask(run.py(), |way| way.allow(uuid, names))
    }

    fn query(
        &self,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::name)] name: String,
        input: String,
    ) -> PyResult<Py<PyAny>> {
        let (py, uuid, input) = (run.py(), identity(run)?, json::raw_text(input));
        let answer = self.ask(py, |way| way.question::<Box<RawValue>>(uuid, &name, &input))?;
        json::decode(py, answer.get())
    }

    /// Settles a promise with a value. Returns `False` if it was already settled.
    #[pyo3(signature = (promise, value, run = None))]
    pub(crate) fn settle(
        &self,
        promise: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        run: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let value = json::raw(value, || "the value of a promise".into())?;
        self.settled(promise, run, Ok(value))
    }

    /// Settles a promise with an exception. Returns `False` if it was already settled.
    #[pyo3(signature = (promise, error, run = None))]
    pub(crate) fn fail(
        &self,
        promise: &Bound<'_, PyAny>,
        error: Bound<'_, PyAny>,
        run: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        self.settled(promise, run, Err(failure(error)))
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<(String, String)> {
        Ok(super::runs::metrics(&self.ask(py, Way::metrics)?))
    }

    fn doubts(&self, py: Python<'_>) -> PyResult<Vec<DoubtParts>> {
        Ok(self.ask(py, Way::doubts)?.iter().map(doubt).collect())
    }

    fn decide(
        &self,
        #[pyo3(from_py_with = argument::key)] key: String,
        what: &str,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let decision = decision(what, given)?;
        self.ask(given.py(), |way| way.decide(&key, decision))
    }

    /// Returns the questions that wait for a person.
    fn approvals(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.ask(py, Way::approvals)?.iter().map(|open| approvals::open(py, open)).collect()
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
        let decided = self.ask(py, |way| way.resolve(&approval, ruling))?;
        approvals::decided(py, &decided)
    }

    /// Removes a finished run.
    fn remove(&self, run: &Bound<'_, PyAny>) -> PyResult<()> {
        let uuid = identity(run)?;
        self.ask(run.py(), |way| way.remove(uuid))
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
        TiffanyError::UnknownPromise.err(promise.py(), format!("{text:?} is no UUID of a promise"))
    })
}
