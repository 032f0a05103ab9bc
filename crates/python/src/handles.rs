//! Handles that calls return and take: tasks and promises here, channels, locks and groups in
//! `objects`. A handle refers to an entry in the tables of its run and releases it when dropped.

pub(crate) mod objects;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tiffany::binding::{self, Release};
use tiffany::kernel::{ObjectRef, TaskRef, Waitable as Target};
use tiffany::{RuntimeHandle, TaskError, Uuid, Value};

use crate::calls;
use crate::calls::awaiter::awaiter;
use crate::calls::call::{Op, SystemCall};
use crate::durable::control;
use crate::process::session;
use crate::process::session::{Process, release};
use crate::values::errors::{Raise, TiffanyError};
use crate::values::value::{from_value, to_value};
use crate::values::{argument, errors, json};

/// Returns the target of a wait if the object is a task or the read side of a promise.
#[inline]
pub(crate) fn known_target(object: &Bound<'_, PyAny>) -> Option<Target> {
    if let Ok(task) = object.cast::<Task>() {
        return Some(Target::Task(task.get().at));
    }
    let future = object.cast::<Future>().ok()?;
    Some(Target::Future(future.get().object))
}

/// Returns the call that waits for a handle, for handles that can be awaited directly.
fn awaited(object: Bound<'_, PyAny>, target: Target) -> PyResult<Py<PyAny>> {
    let py = object.py();
    awaiter(py, Py::new(py, SystemCall::ours(Op::Wait(object.unbind(), target)))?)
}

/// A task that was spawned. Await it, or pass it to `Wait`, to get its value. If this object is
/// dropped, the task keeps running.
#[pyclass(frozen, generic, module = "tiffany")]
pub(crate) struct Task {
    at: TaskRef,
}

impl Task {
    #[inline]
    pub(crate) fn new(at: TaskRef) -> Task {
        Task { at }
    }

    pub(crate) fn at(&self) -> TaskRef {
        self.at
    }
}

#[pymethods]
impl Task {
    /// The number of the task in its run.
    #[getter]
    fn tid(&self) -> u64 {
        self.at.tid.0
    }

    /// The number of the task in its run, as `tid`.
    #[getter]
    fn id(&self) -> u64 {
        self.at.tid.0
    }

    /// Returns the call that cancels this task.
    fn cancel(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<SystemCall>> {
        let at = slf.get().at;
        calls::object(py, Op::Cancel(Some(slf), at))
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let target = Target::Task(slf.get().at);
        awaited(slf.into_any(), target)
    }

    fn __repr__(&self) -> String {
        format!("Task({})", self.at.tid)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Task>().is_ok_and(|other| other.get().at == self.at)
    }

    fn __hash__(&self) -> u64 {
        self.at.tid.0 ^ (u64::from(self.at.run.0) << 40)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        release(Release::Task(self.at));
    }
}

/// The read side of a promise.
#[pyclass(frozen, generic, module = "tiffany")]
pub(crate) struct Future {
    object: ObjectRef,
}

impl Future {
    fn new(object: ObjectRef) -> Future {
        release(Release::RetainFuture(object));
        Future { object }
    }
}

#[pymethods]
impl Future {
    /// The number of the promise in its run.
    #[getter]
    fn id(&self) -> u64 {
        self.object.id
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let target = Target::Future(slf.get().object);
        awaited(slf.into_any(), target)
    }

    fn __repr__(&self) -> String {
        format!("Future({})", self.object.id)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Future>().is_ok_and(|other| other.get().object == self.object)
    }

    fn __hash__(&self) -> u64 {
        self.object.id ^ (u64::from(self.object.run.0) << 40)
    }
}

impl Drop for Future {
    fn drop(&mut self) {
        release(Release::Future(self.object));
    }
}

/// The write side of a promise: settle it once, with `CompletePromise` or `FailPromise`.
#[pyclass(frozen, generic, module = "tiffany")]
pub(crate) struct Promise {
    object: ObjectRef,
    /// The kernel counts one read side from the start, which is released if it is never used.
    spare: AtomicBool,
}

impl Promise {
    pub(crate) fn new(object: ObjectRef) -> Promise {
        Promise { object, spare: AtomicBool::new(true) }
    }

    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }
}

#[pymethods]
impl Promise {
    /// The number of the promise in its run.
    #[getter]
    fn id(&self) -> u64 {
        self.object.id
    }

    /// The read side.
    #[getter]
    fn future(&self) -> Future {
        match self.spare.swap(false, Ordering::Relaxed) {
            true => Future { object: self.object },
            false => Future::new(self.object),
        }
    }

    /// Returns the call that settles the promise with a value.
    #[pyo3(signature = (value = None))]
    fn complete(&self, py: Python<'_>, value: Option<Py<PyAny>>) -> PyResult<Py<SystemCall>> {
        let value = value.unwrap_or_else(|| py.None());
        calls::object(py, Op::CompletePromise(self.object, value))
    }

    /// Returns the call that settles the promise with an exception.
    fn fail(&self, error: Bound<'_, PyAny>) -> PyResult<Py<SystemCall>> {
        errors::check_exception(&error)?;
        calls::object(error.py(), Op::FailPromise(self.object, error.unbind()))
    }

    fn __repr__(&self) -> String {
        format!("Promise({})", self.object.id)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.spare.load(Ordering::Relaxed) {
            release(Release::Future(self.object));
        }
        release(Release::Promise(self.object));
    }
}

/// A promise that is settled from outside: from any thread with this object, or from any process by
/// its UUID.
#[pyclass(frozen, generic, module = "tiffany")]
pub(crate) struct ExternalPromise {
    object: ObjectRef,
    uuid: Uuid,
    home: RuntimeHandle,
    is_durable: bool,
    process: Process,
}

impl ExternalPromise {
    pub(crate) fn new(py: Python<'_>, object: ObjectRef, uuid: Uuid) -> PyResult<ExternalPromise> {
        let home = tiffany::handle().map_err(|error| errors::to_python(py, &error))?;
        let is_durable = tiffany::binding::is_durable();
        let process = Process::current();
        Ok(ExternalPromise { object, uuid, home, is_durable, process })
    }

    /// Returns an error in a forked child, where settling a copy of the promise would have no
    /// effect.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.process.is_current() {
            return Ok(());
        }
        let message = "this promise was made in another process, which forked this one";
        Err(TiffanyError::Forked.err(py, message))
    }
}

#[pymethods]
impl ExternalPromise {
    /// The number of the promise in its run.
    #[getter]
    fn id(&self) -> u64 {
        self.object.id
    }

    /// The UUID of the promise, as a string.
    #[getter]
    fn uuid(&self) -> String {
        self.uuid.to_string()
    }

    /// The read side.
    #[getter]
    fn future(&self) -> Future {
        Future::new(self.object)
    }

    /// Settles the promise with a value. Returns `False` if it was already settled; the first value
    /// stays.
    fn complete(&self, value: Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        self.check_process(py)?;
        settle(py, &self.home, self.uuid, self.is_durable, Ok(value))
    }

    /// Settles the promise with an exception. Returns `False` if it was already settled.
    fn fail(&self, error: Bound<'_, PyAny>) -> PyResult<bool> {
        let py = error.py();
        errors::check_exception(&error)?;
        self.check_process(py)?;
        settle(py, &self.home, self.uuid, self.is_durable, Err(error))
    }

    fn __repr__(&self) -> String {
        format!("ExternalPromise({})", self.uuid)
    }
}

impl Drop for ExternalPromise {
    fn drop(&mut self) {
        release(Release::Promise(self.object));
    }
}

/// Settles an external promise of one runtime.
pub(crate) fn settle(
    py: Python<'_>,
    home: &RuntimeHandle,
    uuid: Uuid,
    is_durable: bool,
    result: Result<Bound<'_, PyAny>, Bound<'_, PyAny>>,
) -> PyResult<bool> {
    let in_log = |result| {
        py.detach(|| {
            let mut control = binding::encoded(home.control());
            binding::settle_durable(&mut control, uuid, result)
        })
    };
    let settled = match (is_durable, result) {
        (true, Ok(value)) => in_log(Ok(json::raw(&value, || "the value of a promise".into())?)),
        (true, Err(error)) => in_log(Err(control::failure(error))),
        (false, Ok(value)) => {
            let value = value.unbind();
            let make = move || Ok(Python::attach(|py| to_value(value.into_bound(py))));
            binding::settle(home, uuid, make)
        }
        (false, Err(error)) => {
            let error = errors::from_python(py, &PyErr::from_value(error));
            binding::settle(home, uuid, move || Err(error))
        }
    };
    match settled {
        Ok(settlement) => Ok(settlement == tiffany::Settlement::Accepted),
        Err(error) => Err(errors::to_python(py, &error)),
    }
}

/// The result of a race: the one that ended first, its value, and the others.
#[pyclass(frozen, generic, get_all, module = "tiffany")]
pub(crate) struct RaceResult {
    /// The task or promise that ended first.
    first: Py<PyAny>,
    /// The value of the one that ended first.
    value: Py<PyAny>,
    /// The others, in the order of the arguments.
    rest: Vec<Py<PyAny>>,
}

impl RaceResult {
    pub(crate) fn new(
        py: Python<'_>,
        items: &[Py<PyAny>],
        first: usize,
        value: Value,
    ) -> PyResult<RaceResult> {
        let all = items.iter().map(|item| item.clone_ref(py));
        let mut rest: Vec<Py<PyAny>> = all.collect();
        Ok(RaceResult { first: rest.remove(first), value: from_value(py, value)?, rest })
    }
}

#[pymethods]
impl RaceResult {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str, &'static str) {
        ("first", "value", "rest")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (first, value) = (self.first.bind(py).repr()?, self.value.bind(py).repr()?);
        Ok(format!("RaceResult(first={first}, value={value}, rest={})", self.rest.len()))
    }
}

macro_rules! outcome {
    ($name:ident, $public:literal, $field:ident, $doc:literal) => {
        #[doc = $doc]
        #[pyclass(frozen, generic, get_all, name = $public, module = "tiffany")]
        pub(crate) struct $name {
            /// The outcome.
            $field: Py<PyAny>,
        }

        #[pymethods]
        impl $name {
            #[new]
            fn new($field: Py<PyAny>) -> $name {
                $name { $field }
            }

            #[classattr]
            fn __match_args__() -> (&'static str,) {
                (stringify!($field),)
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                Ok(format!("{}({})", $public, self.$field.bind(py).repr()?))
            }

            fn __traverse__(
                &self,
                visit: pyo3::gc::PyVisit<'_>,
            ) -> Result<(), pyo3::gc::PyTraverseError> {
                visit.call(&self.$field)
            }

            fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
                match other.cast::<$name>() {
                    Ok(other) => self.$field.bind(other.py()).eq(&other.get().$field),
                    Err(_) => Ok(false),
                }
            }
        }
    };
}

outcome!(Ok_, "Ok", value, "The outcome of a task that returned a value.");
outcome!(Err_, "Err", error, "The outcome of a task that ended with an exception.");

/// Converts the results of `GatherSettled` to a list of `Ok` and `Err`.
pub(crate) fn results(
    py: Python<'_>,
    results: Box<[Result<Value, TaskError>]>,
) -> PyResult<Py<PyAny>> {
    let mut list = Vec::with_capacity(results.len());
    for result in results {
        list.push(match result {
            Ok(value) => Ok_ { value: from_value(py, value)? }.into_py_any(py)?,
            Err(error) => {
                let error = errors::to_python(py, &error).into_value(py).into_any();
                Err_ { error }.into_py_any(py)?
            }
        });
    }
    list.into_py_any(py)
}

/// Settles an external promise with a value, by its UUID: a promise of any runtime of this process
/// or, with `wal`, of a durable run in that directory, whichever process owns it. Returns `False`
/// if it was already settled.
#[pyfunction]
#[pyo3(signature = (uuid, value, *, wal = None))]
fn complete_by_uuid(
    uuid: &Bound<'_, PyAny>,
    value: Bound<'_, PyAny>,
    #[pyo3(from_py_with = argument::wal)] wal: Option<PathBuf>,
) -> PyResult<bool> {
    match wal {
        Some(dir) => control::Control::open(uuid.py(), dir)?.settle(uuid, &value),
        None => by_uuid(uuid, Ok(value)),
    }
}

/// Settles an external promise with an exception, by its UUID: a promise of any runtime of this
/// process or, with `wal`, of a durable run in that directory. Returns `False` if it was already
/// settled.
#[pyfunction]
#[pyo3(signature = (uuid, error, *, wal = None))]
fn fail_by_uuid(
    uuid: &Bound<'_, PyAny>,
    error: Bound<'_, PyAny>,
    #[pyo3(from_py_with = argument::wal)] wal: Option<PathBuf>,
) -> PyResult<bool> {
    errors::check_exception(&error)?;
    match wal {
        Some(dir) => control::Control::open(uuid.py(), dir)?.fail(uuid, error),
        None => by_uuid(uuid, Err(error)),
    }
}

fn by_uuid(
    uuid: &Bound<'_, PyAny>,
    result: Result<Bound<'_, PyAny>, Bound<'_, PyAny>>,
) -> PyResult<bool> {
    let (py, text) = (uuid.py(), uuid.str()?.to_string());
    let Some(uuid) = Uuid::parse(&text) else {
        return Err(TiffanyError::UnknownPromise.err(py, format!("{text:?} is not a UUID")));
    };
    for home in session::handles() {
        if let Some(is_durable) = tiffany::binding::knows_promise(&home, uuid) {
            return settle(py, &home, uuid, is_durable, result);
        }
    }
    if session::was_forked() {
        let message = format!(
            "promise {uuid} is not one of this process, which was forked; one of a durable run can be settled with `wal=`"
        );
        return Err(TiffanyError::Forked.err(py, message));
    }
    Err(TiffanyError::UnknownPromise.err(py, format!("there is no promise {uuid}")))
}

/// Adds these classes and functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Task>()?;
    module.add_class::<Future>()?;
    module.add_class::<Promise>()?;
    module.add_class::<ExternalPromise>()?;
    module.add_class::<RaceResult>()?;
    module.add("Ok", module.py().get_type::<Ok_>())?;
    module.add("Err", module.py().get_type::<Err_>())?;
    module.add_function(wrap_pyfunction!(complete_by_uuid, module)?)?;
    module.add_function(wrap_pyfunction!(fail_by_uuid, module)?)
}
