//! Conversion of errors between Python and the kernel. The classes are in
//! `python/tiffany/errors.py` and are found by their codes. Tasks that wait for a failed task get
//! the same exception object.

use std::cell::Cell;

use pyo3::exceptions::{
    PyBaseException, PyKeyboardInterrupt, PyRuntimeError, PySystemExit, PyValueError,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTraceback, PyType};
use tiffany::kernel::{Frame, Trace};
use tiffany::{ErrorKind, RunError, Site, TaskError, redact};

use crate::values::{frames, traceback};

/// The kinds of errors that this crate raises.
pub(crate) use tiffany::ErrorKind as TiffanyError;

/// Creates an exception of a kind.
pub(crate) trait Raise {
    fn err(self, py: Python<'_>, message: impl Into<String>) -> PyErr;
}

impl Raise for ErrorKind {
    #[cold]
    fn err(self, py: Python<'_>, message: impl Into<String>) -> PyErr {
        to_python(py, &TaskError::new(self, message))
    }
}

/// An exception as it was when its task ended, with its traceback at the time.
struct Raised {
    exception: Py<PyBaseException>,
    traceback: Option<Py<PyTraceback>>,
    /// The traceback that the exception had when it came from another task.
    came_with: Option<Py<PyTraceback>>,
}

impl Raised {
    /// Formats the exception with its traceback.
    fn shown(&self, py: Python<'_>) -> Option<String> {
        let (exception, traceback) = (self.exception.bind(py), self.traceback.as_ref()?);
        let shown = py.import("traceback").and_then(|module| {
            let given = (exception.get_type(), exception, traceback);
            module.call_method1("format_exception", given)?.extract::<Vec<String>>()
        });
        shown.ok().map(|lines| lines.concat())
    }
}

thread_local! {
    /// The last error that became an exception, which is about to be raised in a task.
    static LAST: Cell<Option<TaskError>> = const { Cell::new(None) };
}

/// An error of the kernel inside an exception, so that it stays the same error when the exception
/// ends a task.
#[pyclass(frozen, name = "_Error", module = "tiffany._core")]
pub(crate) struct ErrorBox(TaskError);

#[pymethods]
impl ErrorBox {
    #[new]
    fn new(text: &str) -> PyResult<ErrorBox> {
        let error = serde_json::from_str(text);
        error.map(ErrorBox).map_err(|why| PyValueError::new_err(why.to_string()))
    }

    /// Supports pickling of exceptions that contain this error.
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (String,))> {
        let text = serde_json::to_string(&slf.get().0);
        let text = text.map_err(|why| PyValueError::new_err(why.to_string()))?;
        Ok((slf.get_type().into_any().unbind(), (text,)))
    }
}

/// Adapts a message to Python users: without lines of Rust files, since the traceback has those of
/// Python, and with the next step for Python.
pub(crate) fn shown(text: &str, kind: Option<ErrorKind>) -> String {
    let mut shown = without_rust(text);
    if let Some((kind, next)) = kind.and_then(|kind| Some((kind, next_step(kind)?))) {
        shown = shown.replace(kind.next_step(), next);
    }
    shown
}

fn next_step(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::OutsideTask => Some("make the call inside a task: `tiffany.run(main())`"),
        ErrorKind::Unregistered => Some(
            "import the module that has the workflow before the runtime is made, or give it to `workflows=`",
        ),
        ErrorKind::WrongThread => Some(
            "use a runtime on the thread that made it; other threads have `runtime.handle`, and settle promises by `complete_by_uuid`",
        ),
        ErrorKind::Unreachable => Some(
            "see with `tiffany doctor` why the process does not answer; in a program, drive the runtime with `wait` or `run`",
        ),
        _ => None,
    }
}

/// Removes lines of our Rust files: ` (spawned at crates/….rs:1)` and ` at crates/….rs:1`.
fn without_rust(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(" at crates/") {
        let (before, after) = rest.split_at(at);
        let Some(end) = after.find(".rs:") else { break };
        let digits = after[end + 4..].chars().take_while(char::is_ascii_digit).count();
        let after = &after[end + 4 + digits..];
        match (before.strip_suffix(" (spawned"), after.strip_prefix(')')) {
            (Some(before), Some(after)) => {
                shown.push_str(before);
                rest = after;
            }
            _ => {
                shown.push_str(before);
                rest = after;
            }
        }
    }
    shown.push_str(rest);
    shown
}

/// Converts an error to the exception that a task gets.
#[cold]
pub(crate) fn to_python(py: Python<'_>, error: &TaskError) -> PyErr {
    if let Some(raised) = error.origin::<Raised>() {
        let exception = raised.exception.bind(py);
        LAST.set(Some(error.clone()));
        // Each waiting task adds its own frames to the traceback of the failed task.
        traceback::set(exception, raised.traceback.as_ref().map(|traceback| traceback.bind(py)));
        return PyErr::from_value(exception.clone().into_any());
    }
    if let Some(exception) = crate::values::json::exception(py, error) {
        let _ =
            exception.bind(py).setattr("_error", ErrorBox(error.clone()).into_pyobject(py).ok());
        return PyErr::from_value(exception.into_bound(py));
    }
    let text = shown(&error.to_string(), Some(error.kind()));
    let made = class(py, error.code()).and_then(|class| class.call1((text,)));
    match made {
        Ok(exception) => {
            let _ = exception.setattr("_error", ErrorBox(error.clone()).into_pyobject(py).ok());
            PyErr::from_value(exception)
        }
        Err(error) => error,
    }
}

/// Converts an exception to an error of the kernel.
#[cold]
pub(crate) fn from_python(py: Python<'_>, error: &PyErr) -> TaskError {
    ended_with(py, error, None, None)
}

/// Converts an exception that was raised outside of tasks. For a `TiffanyError` that was created in
/// Python, its code determines the kind.
#[cold]
pub(crate) fn coded_by_python(py: Python<'_>, error: &PyErr) -> TaskError {
    let exception = error.value(py);
    let is_known = exception.hasattr("_error").unwrap_or(false);
    let ours = py.import("tiffany.errors").and_then(|errors| errors.getattr("TiffanyError"));
    let is_ours = ours.and_then(|class| exception.is_instance(&class)).unwrap_or(false);
    let code = exception.getattr("code").and_then(|code| code.extract::<String>());
    let kind = code.ok().and_then(|code| ErrorKind::ALL.iter().find(|kind| kind.code() == code));
    match kind.filter(|kind| is_ours && !is_known && **kind != ErrorKind::Failed) {
        Some(kind) => {
            let text = exception.to_string();
            let mark = format!(" [{}]", kind.code());
            let message = text.rsplit_once(&mark).map_or(text.as_str(), |(message, _)| message);
            TaskError::new(*kind, message)
        }
        None => from_python(py, error),
    }
}

/// Returns where an error was raised, if it was raised in this process.
pub(crate) fn traceback<'py>(py: Python<'py>, error: &TaskError) -> Option<Bound<'py, PyAny>> {
    let raised = error.origin::<Raised>()?;
    Some(raised.traceback.as_ref()?.bind(py).clone().into_any())
}

/// Converts a traceback to the form in which it is recorded.
pub(crate) fn trace(traceback: &Bound<'_, PyTraceback>) -> Option<Trace> {
    let given = traceback.py().import("tiffany._traces").ok()?.call_method1("of", (traceback,));
    let (file, line, lines): (String, u32, Vec<String>) = given.ok()?.extract().ok()?;
    // Redaction comes before lines are cut.
    let lines = lines.iter().map(|line| redact::clean(line).into_owned());
    // Not kept by `names::name`: code that is generated at run time keeps adding file names.
    Some(Trace::new(Site { file: file.into(), line }, lines))
}

/// Returns the frames of the task that an error ended, the innermost last, without those of the
/// tasks that it came from.
pub(crate) fn frames(py: Python<'_>, error: &TaskError) -> Vec<Frame> {
    let Some(raised) = error.origin::<Raised>() else { return Vec::new() };
    let Some(traceback) = &raised.traceback else { return Vec::new() };
    let until = raised.came_with.as_ref().map(|traceback| traceback.bind(py).as_any());
    frames::of_traceback(traceback.bind(py), until)
}

fn ended_with(
    py: Python<'_>,
    error: &PyErr,
    known: Option<TaskError>,
    came_with: Option<Py<PyTraceback>>,
) -> TaskError {
    let exception = error.value(py);
    let boxed = || exception.getattr("_error").ok()?.cast_into::<ErrorBox>().ok();
    let known = known.or_else(|| boxed().map(|known| known.get().0.clone()));
    let traceback = error.traceback(py);
    traceback::shorten(traceback.as_ref());
    let error_of_kernel = known.unwrap_or_else(|| match tiffany::binding::is_durable() {
        true => crate::values::json::written(exception, traceback.as_ref()),
        false => TaskError::failed(text(exception)),
    });
    let traceback = traceback.map(Bound::unbind);
    let exception = exception.clone().unbind();
    error_of_kernel.with_origin(Raised { exception, traceback, came_with })
}

/// Converts the uncaught exception of a task to the task's error.
///
/// Errors are kept in the tables of the kernel, which the garbage collector does not see, and
/// handles of tasks keep the errors of those tasks. The frames of a traceback may have such handles
/// in their variables, so a reference cycle could form that is never collected. Therefore the
/// exception is stored without its traceback, and the variables of frames that it only passed
/// through are cleared, unless they are to be examined.
#[cold]
pub(crate) fn uncaught(
    py: Python<'_>,
    error: &PyErr,
    delivered: Option<Box<Delivered>>,
) -> TaskError {
    let delivered = delivered.filter(|delivered| delivered.exception.is(error.value(py)));
    let known = delivered.as_ref().and_then(|delivered| delivered.error.clone());
    let came_with = delivered.as_ref().map(|delivered| delivered.traceback.clone_ref(py));
    let ended = ended_with(py, error, known, came_with);
    if let Some(delivered) = delivered.filter(|_| !tiffany::binding::is_looked_at()) {
        delivered.clear_frames(py, error.traceback(py));
    }
    traceback::set(error.value(py), None);
    ended
}

/// An exception from another task that is being raised in this one.
pub(crate) struct Delivered {
    exception: Py<PyBaseException>,
    traceback: Py<PyTraceback>,
    /// The kernel's error.
    error: Option<TaskError>,
}

impl Delivered {
    #[cold]
    pub(crate) fn new(py: Python<'_>, error: &PyErr) -> Option<Box<Delivered>> {
        let from_kernel = LAST.take();
        let traceback = error.traceback(py)?;
        traceback::shorten(Some(&traceback));
        let traceback = traceback.unbind();
        let exception = error.value(py).clone().unbind();
        let is_same = |error: &TaskError| {
            error.origin::<Raised>().is_some_and(|raised| raised.exception.is(&exception))
        };
        let error = from_kernel.filter(is_same);
        Some(Box::new(Delivered { exception, traceback, error }))
    }

    /// Removes the frames of the code that caught it, if it was caught.
    #[cold]
    pub(crate) fn after(&self, py: Python<'_>, raised: Option<&PyErr>) {
        let is_under_way = raised.is_some_and(|error| self.exception.is(error.value(py)));
        if !is_under_way {
            traceback::set(self.exception.bind(py), Some(self.traceback.bind(py)));
        }
    }

    /// Clears the frames that were added since the exception was delivered.
    fn clear_frames(&self, py: Python<'_>, traceback: Option<Bound<'_, PyTraceback>>) {
        let mut next = traceback.map(Bound::into_any);
        while let Some(entry) = next.filter(|entry| !entry.is_none() && !entry.is(&self.traceback))
        {
            let frame = entry.getattr(intern!(py, "tb_frame"));
            // A running frame cannot be cleared, and is not part of a cycle either.
            let _ = frame.and_then(|frame| frame.call_method0(intern!(py, "clear")));
            next = entry.getattr(intern!(py, "tb_next")).ok();
        }
    }
}

/// Returns an error unless the object is an exception.
pub(crate) fn check_exception(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if object.is_instance_of::<PyBaseException>() {
        return Ok(());
    }
    let name = object.get_type().name()?.to_string();
    let message = format!("`{name}` cannot be raised; a promise fails with an exception");
    Err(ErrorKind::BadArgument.err(object.py(), message))
}

/// Formats an exception like the last line of a traceback.
pub(crate) fn text(exception: &Bound<'_, PyBaseException>) -> String {
    let class = exception.get_type();
    let name = class.name().map_or_else(|_| "exception".into(), |name| name.to_string());
    match exception.str().map(|text| text.to_string()) {
        Ok(text) if text.is_empty() => name,
        Ok(text) => format!("{name}: {text}"),
        Err(_) => format!("{name}, which cannot be shown"),
    }
}

/// Converts the error of a run to an exception.
#[cold]
pub(crate) fn run_error(py: Python<'_>, error: &RunError) -> PyErr {
    match error.task_error() {
        Some(error) => to_python(py, error),
        None => coded(py, error.code(), error),
    }
}

/// Creates the exception for an error that does not come from a task.
#[cold]
pub(crate) fn coded(py: Python<'_>, code: &str, error: &dyn std::fmt::Display) -> PyErr {
    let text = shown(&error.to_string(), None);
    match class(py, code).and_then(|class| class.call1((text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Returns the error for a task that uses asyncio directly, with the bridge that this run offers.
#[cold]
pub(crate) fn needs_asyncio(py: Python<'_>, what: &str) -> PyErr {
    match tiffany::binding::is_durable() {
        true => {
            let message = format!(
                "{what} in a durable run, where asyncio works in steps only; put the code into an `async def` function under `@step`, and await that"
            );
            ErrorKind::NotDurable.err(py, message)
        }
        false => {
            let message = format!(
                "{what}: this is a task of tiffany, which asyncio does not run; give the coroutine to asyncio: `await aio(coro)` or `yield Aio(coro)`"
            );
            ErrorKind::NotACall.err(py, message)
        }
    }
}

/// Returns the exception that a task ends with. asyncio's error about a missing event loop is
/// replaced by one that explains the bridge, with the same traceback.
#[cold]
pub(crate) fn explained(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyRuntimeError>(py) || !text(error.value(py)).ends_with(NO_LOOP) {
        return error;
    }
    let explained = needs_asyncio(py, "asyncio has no running event loop here");
    traceback::set(explained.value(py), error.traceback(py).as_ref());
    PyErr::from_value(explained.into_value(py).into_bound(py).into_any())
}

/// The error for a generator that yields again when it is closed.
#[cold]
pub(crate) fn not_ending(py: Python<'_>, program: &Bound<'_, PyAny>) -> PyErr {
    let name = program.getattr("__qualname__").map_or("?".into(), |name| name.to_string());
    let message = format!("`{name}` should end, but yielded again; it is not closed");
    ErrorKind::NotEnding.err(py, message)
}

/// The messages of asyncio when no event loop is running.
const NO_LOOP: &str = "no running event loop";

/// Whether an exception ends the whole run, such as `KeyboardInterrupt`.
pub(crate) fn ends_the_run(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// Returns the class of the errors with this code.
pub(crate) fn class<'py>(py: Python<'py>, code: &str) -> PyResult<Bound<'py, PyAny>> {
    static OF_CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let of_code = OF_CODE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("tiffany.errors")?.getattr("of_code")?.unbind())
    })?;
    of_code.bind(py).call1((code,))
}

/// Returns the exception that a cancelled task gets at its yield.
pub(crate) fn cancelled(py: Python<'_>) -> PyErr {
    match cancelled_class(py).and_then(|class| class.call0()) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Whether an exception is `Cancelled`.
pub(crate) fn is_cancelled(py: Python<'_>, error: &PyErr) -> bool {
    cancelled_class(py).is_ok_and(|class| error.is_instance(py, class))
}

fn cancelled_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "tiffany.errors", "Cancelled")
}

/// Prints that a task has kept its turn for too long, with its current line.
pub(crate) fn show_stuck(py: Python<'_>, text: &str, thread: Option<u64>) {
    let line = thread.and_then(|thread| line_of(py, thread).ok());
    let line = line.map(|line| format!("; it is at {line}"));
    let text = shown(text, None);
    write_error(py, &format!("tiffany: {text}{}\n", line.unwrap_or_default()));
}

/// Prints which task keeps its turn after the program was asked to end. Prints nothing if the
/// thread executes a command, which prints a message of its own.
pub(crate) fn show_kept_turn(py: Python<'_>, thread: u64) {
    let line = line_of(py, thread).unwrap_or_default();
    let command = py.import("tiffany._cli.command").and_then(|command| command.getattr("__file__"));
    if command.is_ok_and(|file| line.starts_with(&format!("{file}:"))) {
        return;
    }
    let line = if line.is_empty() { line } else { format!(" at {line}") };
    let text = format!(
        "tiffany: asked to end; waiting for the task{line} to make its next call; a second Ctrl-C ends it at once\n"
    );
    write_error(py, &text);
}

/// Prints that tasks are cleaning up after the program was asked to end.
pub(crate) fn show_cleanup(py: Python<'_>) {
    let text =
        "tiffany: asked to end; waiting for the tasks to clean up; a second Ctrl-C does not wait\n";
    write_error(py, text);
}

/// Returns the current Python line of a thread.
fn line_of(py: Python<'_>, thread: u64) -> PyResult<String> {
    let frames = py.import("sys")?.call_method0("_current_frames")?;
    let frame = frames.get_item(thread)?;
    let file = frame.getattr("f_code")?.getattr("co_filename")?;
    Ok(format!("{file}:{}", frame.getattr("f_lineno")?))
}

/// Writes to `sys.stderr`, with the matches of the redaction rules removed.
fn write_error(py: Python<'_>, text: &str) {
    let text = &*tiffany::redact::clean(text);
    let stderr = py.import("sys").and_then(|sys| sys.getattr("stderr"));
    if stderr.and_then(|stderr| stderr.call_method1("write", (text,))).is_err() {
        eprint!("{text}");
    }
}

/// Returns a text redacted by the rules of this process.
#[pyfunction]
#[pyo3(name = "_redacted")]
pub(crate) fn redacted(text: &str) -> String {
    tiffany::redact::clean(text).into_owned()
}

/// Prints the failure of a task that no other task waited for.
pub(crate) fn show_unobserved(py: Python<'_>, error: &TaskError) {
    let text = shown(&error.to_string(), Some(error.kind()));
    let mut text = format!("tiffany: a task failed and no task waited for it: {text}\n");
    if let Some(traceback) = error.origin::<Raised>().and_then(|raised| raised.shown(py)) {
        text.push_str(&traceback);
    }
    write_error(py, &text);
}
