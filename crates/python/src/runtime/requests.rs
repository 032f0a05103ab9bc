//! Requests of an asyncio loop to a runtime that another thread drives. No request waits: answers are
//! collected, and a descriptor tells the asyncio loop that there are some. The class `AsyncRuntime`
//! in `python/tiffany/_aio/runtime.py` uses it.

use std::collections::BTreeSet;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::value::RawValue;
use tiffany::control::{self, Request};
use tiffany::{ErrorKind, RunError, RuntimeHandle, Settlement, TaskError, binding};

use crate::durable::control::{Control, failure, promise_uuid, status_parts};
use crate::durable::runs::{self, decision, identity};
use crate::durable::{forks, seconds};
use crate::process::session::Process;
use crate::runtime::activity::Events;
use crate::values::attributes::Given;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{approvals, argument, attributes, errors, json};

/// What came of a request.
enum Reply {
    Answer(Result<control::Answer, TaskError>),
    /// The outcome of a run, as JSON.
    Ended(Result<Arc<str>, RunError>),
    /// The runtime ended before it answered.
    Gone,
}

/// Replies that the asyncio loop has not taken yet, each with the number of its request. The pipe
/// contains a byte while there are some.
struct Replies {
    queue: Vec<(u64, Reply)>,
    bell: PipeWriter,
    heard: PipeReader,
}

struct Mailbox(Mutex<Replies>);

impl Mailbox {
    fn new() -> std::io::Result<Mailbox> {
        let (heard, bell) = std::io::pipe()?;
        Ok(Mailbox(Mutex::new(Replies { queue: Vec::new(), bell, heard })))
    }

    fn lock(&self) -> MutexGuard<'_, Replies> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn put(&self, number: u64, reply: Reply) {
        let mut replies = self.lock();
        if replies.queue.is_empty() {
            // It can only fail if this process has no descriptors of its own any more.
            let _ = replies.bell.write_all(&[1]);
        }
        replies.queue.push((number, reply));
    }

    fn take(&self) -> Vec<(u64, Reply)> {
        let mut replies = self.lock();
        if !replies.queue.is_empty() {
            let _ = replies.heard.read_exact(&mut [0]);
        }
        std::mem::take(&mut replies.queue)
    }
}

/// A request that has no reply yet. If it is dropped, it gets the reply that the runtime is gone.
struct Unanswered {
    number: u64,
    mailbox: Option<Arc<Mailbox>>,
}

impl Unanswered {
    fn answer(mut self, reply: Reply) {
        if let Some(mailbox) = self.mailbox.take() {
            mailbox.put(self.number, reply);
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailbox.take() {
            mailbox.put(self.number, Reply::Gone);
        }
    }
}

/// Sends requests to the runtime of another thread. Every method takes the number of the request,
/// with which `take` returns the answer.
#[pyclass(frozen, name = "_Requests", module = "tiffany._core")]
pub(crate) struct Requests {
    handle: RuntimeHandle,
    /// The directory of the log.
    dir: Option<PathBuf>,
    mailbox: Arc<Mailbox>,
    process: Process,
    /// Set when the runtime is to end: how long steps in progress may take.
    stopping: OnceLock<Duration>,
}

impl Requests {
    pub(crate) fn new(runtime: &tiffany::Runtime) -> PyResult<Requests> {
        Ok(Requests {
            handle: runtime.handle(),
            dir: binding::log_dir(runtime),
            mailbox: Arc::new(Mailbox::new()?),
            process: Process::current(),
            stopping: OnceLock::new(),
        })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopping.get().is_some()
    }

    pub(crate) fn grace(&self) -> Duration {
        self.stopping.get().copied().unwrap_or_default()
    }

    fn unanswered(&self, py: Python<'_>, number: u64) -> PyResult<Unanswered> {
        if !self.process.is_current() {
            let message = "this runtime was opened in another process, which forked this one";
            return Err(TiffanyError::Forked.err(py, message));
        }
        Ok(Unanswered { number, mailbox: Some(Arc::clone(&self.mailbox)) })
    }

    fn ask(&self, py: Python<'_>, number: u64, request: Request) -> PyResult<()> {
        let unanswered = self.unanswered(py, number)?;
        let request = match request.carries_value() {
            true => Request::Encoded(Box::new(request)),
            false => request,
        };
        self.handle.ask(request, move |answer| unanswered.answer(Reply::Answer(answer)));
        Ok(())
    }

    fn settled(
        &self,
        number: u64,
        promise: &Bound<'_, PyAny>,
        run: Option<&Bound<'_, PyAny>>,
        result: Result<Box<RawValue>, TaskError>,
    ) -> PyResult<()> {
        let (uuid, run) = (promise_uuid(promise)?, run.map(identity).transpose()?);
        self.ask(promise.py(), number, Request::Settle { run, promise: uuid, result })
    }
}

#[pymethods]
impl Requests {
    /// Returns the descriptor that is readable while there are answers.
    fn fileno(&self) -> i32 {
        self.mailbox.lock().heard.as_raw_fd()
    }

    /// Takes the answers that have come, each with the number of its request.
    fn take(&self) -> Vec<(u64, Answer)> {
        self.mailbox.take().into_iter().map(|(number, reply)| (number, Answer(reply))).collect()
    }

    /// Ends `Runtime.serve`, after this number of seconds for steps in progress. Changes that are
    /// requested from now on are refused.
    fn stop(&self, grace: f64) {
        self.handle.refuse_changes();
        self.stopping.get_or_init(|| seconds(grace));
        self.handle.nudge();
    }

    /// Returns a handle for requests that wait, from other threads.
    fn control(&self) -> Control {
        Control::elsewhere(self.handle.control(), self.dir.clone())
    }

    /// Subscribes to the events of the runs.
    fn activity(
        &self,
        run: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = argument::from_seq)] from_seq: Option<u64>,
        #[pyo3(from_py_with = argument::every_turn)] every_turn: bool,
        #[pyo3(from_py_with = argument::ghosts)] ghosts: bool,
    ) -> PyResult<Events> {
        Events::new(self.handle.activity(), run, (from_seq, every_turn, ghosts))
    }

    /// Waits for the outcome of a run.
    fn outcome(&self, number: u64, run: &Bound<'_, PyAny>) -> PyResult<()> {
        let (run, unanswered) = (identity(run)?, self.unanswered(run.py(), number)?);
        binding::when_ended(&self.handle, run, move |ended| {
            unanswered.answer(Reply::Ended(ended));
        });
        Ok(())
    }

    fn submit(
        &self,
        py: Python<'_>,
        number: u64,
        #[pyo3(from_py_with = argument::function)] function: String,
        #[pyo3(from_py_with = argument::id)] id: String,
        input: String,
        options: Given<'_>,
    ) -> PyResult<()> {
        let (input, options) = (json::raw_text(input), attributes::options(options)?);
        self.ask(py, number, Request::Submit { function, id, input, options })
    }

    fn send(
        &self,
        number: u64,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::name)] name: String,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let message = json::raw(value, || format!("message `{name}`"))?;
        self.ask(run.py(), number, Request::Send { run: identity(run)?, name, message })
    }

    fn cancel(&self, number: u64, run: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ask(run.py(), number, Request::Cancel { run: identity(run)? })
    }

    fn hold(
        &self,
        number: u64,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::by)] by: String,
        #[pyo3(from_py_with = argument::why)] why: Option<String>,
    ) -> PyResult<()> {
        self.ask(run.py(), number, Request::Hold { run: identity(run)?, by, why })
    }

    fn release(
        &self,
        number: u64,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::by)] by: String,
        #[pyo3(from_py_with = argument::why)] why: Option<String>,
    ) -> PyResult<()> {
        self.ask(run.py(), number, Request::Release { run: identity(run)?, by, why })
    }

    fn query(
        &self,
        number: u64,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::name)] name: String,
        input: String,
    ) -> PyResult<()> {
        let input = json::raw_text(input);
        self.ask(run.py(), number, Request::Question { run: identity(run)?, name, input })
    }

    /// Settles a promise with a value.
    #[pyo3(signature = (number, promise, value, run = None))]
    fn settle(
        &self,
        number: u64,
        promise: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        run: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let value = json::raw(value, || "the value of a promise".into())?;
        self.settled(number, promise, run, Ok(value))
    }

    /// Settles a promise with an exception.
    #[pyo3(signature = (number, promise, error, run = None))]
    fn fail(
        &self,
        number: u64,
        promise: &Bound<'_, PyAny>,
        error: Bound<'_, PyAny>,
        run: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.settled(number, promise, run, Err(failure(error)))
    }

    fn fork(
        &self,
        number: u64,
        run: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::at)] at: u64,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let fork = forks::wanted(given)?;
        self.ask(run.py(), number, Request::Fork { run: identity(run)?, at, fork })
    }

    fn allow(
        &self,
        number: u64,
        run: &Bound<'_, PyAny>,
        names: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let names: BTreeSet<String> = forks::names(&names)?.into_iter().collect();
        self.ask(run.py(), number, Request::Allow { run: identity(run)?, names })
    }

    fn remove(&self, number: u64, run: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ask(run.py(), number, Request::Remove { runs: vec![identity(run)?] })
    }

    fn status(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.ask(py, number, Request::Status)
    }

    fn doubts(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.ask(py, number, Request::Doubts)
    }

    fn decide(
        &self,
        number: u64,
        #[pyo3(from_py_with = argument::key)] key: String,
        what: &str,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.ask(given.py(), number, Request::Decide { key, decision: decision(what, given)? })
    }

    fn approvals(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.ask(py, number, Request::Approvals)
    }

    /// Decides a question: `(choice, yes, by, why)`.
    fn resolve(
        &self,
        py: Python<'_>,
        number: u64,
        #[pyo3(from_py_with = argument::approval)] approval: String,
        said: Said,
    ) -> PyResult<()> {
        let (choice, yes, by, why) = said;
        let ruling = approvals::ruling(choice, yes, by, why);
        self.ask(py, number, Request::Resolve { approval, ruling })
    }

    fn show(&self, number: u64, run: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ask(run.py(), number, Request::Show { run: identity(run)? })
    }

    fn runs(&self, py: Python<'_>, number: u64, query: &str) -> PyResult<()> {
        self.ask(py, number, Request::Runs(runs::query_of(py, query)?))
    }
}

type Said = (Option<String>, bool, Option<String>, Option<String>);

/// An answer that has come. Several coroutines may read it.
#[pyclass(frozen, name = "_Answer", module = "tiffany._core")]
pub(crate) struct Answer(Reply);

#[pymethods]
impl Answer {
    /// Returns the answer, newly decoded, or raises the error that is the answer.
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.0 {
            Reply::Answer(Ok(answer)) => value_of(py, answer),
            Reply::Answer(Err(error)) => Err(errors::to_python(py, error)),
            Reply::Ended(Ok(value)) => json::decode(py, value),
            Reply::Ended(Err(error)) => Err(errors::run_error(py, error)),
            Reply::Gone => {
                let message = "the runtime was closed before it answered; an unfinished durable run \
                               stays in the log and continues with the next runtime that opens it";
                Err(TiffanyError::Gone.err(py, message))
            }
        }
    }
}

/// Converts an answer to a Python object.
fn value_of(py: Python<'_>, answer: &control::Answer) -> PyResult<Py<PyAny>> {
    use control::Answer as Is;
    let object = match answer {
        Is::Run { run, .. } => run.to_string().into_pyobject(py)?.into_any(),
        Is::Forked { run, id } => (id, run.to_string()).into_pyobject(py)?.into_any(),
        Is::Value(value) => return json::decode(py, value.get()),
        Is::Settled(settled) => {
            (*settled == Settlement::Accepted).into_pyobject(py)?.to_owned().into_any()
        }
        Is::Runs(page) => text(py, serde_json::to_string(page))?.into_pyobject(py)?.into_any(),
        Is::Shown(run) => {
            text(py, serde_json::to_string(&run.summary))?.into_pyobject(py)?.into_any()
        }
        Is::Doubts(doubts) => {
            let doubts: Vec<_> = doubts.iter().map(runs::doubt).collect();
            doubts.into_pyobject(py)?.into_any()
        }
        Is::Approvals(open) => {
            let open: PyResult<Vec<_>> = open.iter().map(|one| approvals::open(py, one)).collect();
            open?.into_pyobject(py)?.into_any()
        }
        Is::Approval(approval) => return approvals::decided(py, approval),
        Is::Status(status) => status_parts(status).into_pyobject(py)?.into_any(),
        Is::Each(each) => match each.iter().find_map(|one| one.as_ref().err()) {
            Some(error) => return Err(errors::to_python(py, error)),
            None => return Ok(py.None()),
        },
        Is::Warned { answer, warning } => {
            let warning = std::ffi::CString::new(warning.as_str()).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyRuntimeWarning>(), &warning, 2)?;
            return value_of(py, answer);
        }
        _ => return Ok(py.None()),
    };
    Ok(object.unbind())
}

fn text(py: Python<'_>, json: serde_json::Result<String>) -> PyResult<String> {
    json.map_err(|error| {
        let error = TaskError::new(ErrorKind::Unserializable, error.to_string());
        errors::to_python(py, &error)
    })
}
