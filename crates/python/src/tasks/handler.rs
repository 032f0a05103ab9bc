//! Python callables as handlers. A handler gets a call and the number of the task that makes it,
//! and returns `None` (the call is passed on), `Answer(value)`, `Refuse("why")`, another call of
//! the same kind, or a program that finds the answer.

use std::any::Any;
use std::rc::Rc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tiffany::{Handler, Reply, SystemCall as KernelCall, Tid, Verdict};

use crate::calls::call;
use crate::calls::call::{Op, SystemCall};
use crate::tasks::spawn;
use crate::tasks::stack::is_program;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::value::{from_value, to_value};
use crate::values::{argument, errors};

/// The result of a handler that answers a call, with the answer.
#[pyclass(frozen, generic, get_all, module = "tiffany")]
pub(crate) struct Answer {
    /// The answer.
    value: Py<PyAny>,
}

#[pymethods]
impl Answer {
    #[new]
    #[pyo3(signature = (value = None))]
    fn new(py: Python<'_>, value: Option<Py<PyAny>>) -> Answer {
        Answer { value: value.unwrap_or_else(|| py.None()) }
    }
}

/// The result of a handler that refuses a call, with the reason.
#[pyclass(frozen, get_all, module = "tiffany")]
pub(crate) struct Refuse {
    /// The reason, which becomes part of the task's exception.
    why: String,
}

#[pymethods]
impl Refuse {
    #[new]
    fn new(#[pyo3(from_py_with = argument::why)] why: String) -> Refuse {
        Refuse { why }
    }
}

/// A Python callable as a handler.
pub(crate) struct PyHandler {
    function: Py<PyAny>,
    name: String,
}

impl PyHandler {
    pub(crate) fn new(function: &Bound<'_, PyAny>) -> PyResult<PyHandler> {
        if !function.is_callable() {
            let name = function.get_type().name()?.to_string();
            let message =
                format!("`{name}` is not a handler; pass a callable that takes (call, tid)");
            return Err(TiffanyError::BadArgument.err(function.py(), message));
        }
        let name = function.getattr("__qualname__").and_then(|name| name.extract::<String>());
        let name = name.or_else(|_| Ok::<_, PyErr>(function.get_type().name()?.to_string()))?;
        Ok(PyHandler { function: function.clone().unbind(), name })
    }

    fn ask(&self, py: Python<'_>, call: &mut KernelCall, caller: Tid) -> PyResult<Verdict> {
        let Some(object) = object(py, call)? else { return Ok(Verdict::Pass) };
        let verdict = self.function.bind(py).call1((object.bind(py), caller.0))?;
        if verdict.is_none() || verdict.is(&object) {
            return Ok(Verdict::Pass);
        }
        if let Ok(answer) = verdict.cast::<Answer>() {
            let value = to_value(answer.get().value.bind(py).clone());
            return Ok(Verdict::Answer(Reply::Value(value)));
        }
        if let Ok(refuse) = verdict.cast::<Refuse>() {
            return Ok(Verdict::Refuse(refuse.get().why.clone()));
        }
        if let Ok(changed) = verdict.cast::<SystemCall>() {
            let changed = call::kernel_call(changed);
            if changed.kind() != call.kind() {
                let message = format!(
                    "the handler `{}` returned the call {} for {}; return a call of the same kind",
                    self.name,
                    changed.kind().tag(),
                    call.kind().tag(),
                );
                return Err(TiffanyError::BadArgument.err(py, message));
            }
            *call = changed;
            return Ok(Verdict::Pass);
        }
        if is_program(&verdict) {
            return Ok(Verdict::Run(spawn::coroutine(&verdict, None)?));
        }
        let name = verdict.get_type().name()?.to_string();
        let message = format!(
            "the handler `{}` returned `{name}`; return None, Answer(…), Refuse(…), a call or a program",
            self.name
        );
        Err(TiffanyError::BadArgument.err(py, message))
    }
}

impl Handler for PyHandler {
    fn name(&self) -> &str {
        &self.name
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn handle(&self, call: &mut KernelCall, caller: Tid) -> Verdict {
        Python::attach(|py| {
            self.ask(py, call, caller).unwrap_or_else(|error| {
                Verdict::Answer(Reply::Error(errors::from_python(py, &error)))
            })
        })
    }
}

/// Converts the handlers of a task for `GetHandlers`: callables, and the names of handlers that are
/// not written in Python.
pub(crate) fn list(py: Python<'_>, chain: &[Rc<dyn Handler>]) -> PyResult<Py<PyAny>> {
    let of = |handler: &Rc<dyn Handler>| match handler.as_any().and_then(<dyn Any>::downcast_ref) {
        Some(PyHandler { function, .. }) => Ok(function.clone_ref(py)),
        None => handler.name().into_py_any(py),
    };
    chain.iter().map(of).collect::<PyResult<Vec<_>>>()?.into_py_any(py)
}

/// Converts a call of the kernel for a handler. Returns `None` for calls that handlers do not see.
fn object(py: Python<'_>, call: &KernelCall) -> PyResult<Option<Py<SystemCall>>> {
    if let KernelCall::Custom(_, request) = call
        && let Some(object) = request.borrow::<Py<PyAny>>()
    {
        return Ok(object.bind(py).cast::<SystemCall>().ok().map(|call| call.clone().unbind()));
    }
    if let KernelCall::Effect(effect) = call {
        let origin = tiffany::binding::origin(effect);
        let origin = origin.and_then(|origin| origin.downcast_ref::<Py<SystemCall>>());
        return Ok(origin.map(|call| call.clone_ref(py)));
    }
    let value = |value: &tiffany::Value| from_value(py, value.clone());
    let op = match call {
        KernelCall::Now => Op::Now,
        KernelCall::Random => Op::Random,
        KernelCall::NewUuid(_) => Op::NewUuid,
        KernelCall::CreatePromise => Op::CreatePromise,
        KernelCall::CompletePromise(promise, result) => {
            Op::CompletePromise(*promise, value(result)?)
        }
        KernelCall::FailPromise(promise, error) => {
            let error = errors::to_python(py, error).into_value(py).into_any();
            Op::FailPromise(*promise, error)
        }
        KernelCall::CreateExternalPromise(_) => Op::CreateExternalPromise,
        KernelCall::Sleep(duration) => Op::Sleep(*duration),
        KernelCall::SleepUntil(time) => Op::SleepUntil(*time),
        KernelCall::Approve(asking) => Op::Approve((&**asking).into()),
        KernelCall::ReadWait(fd) => Op::ReadWait(*fd),
        KernelCall::WriteWait(fd) => Op::WriteWait(*fd),
        KernelCall::Get(key) => Op::Get(key.to_string(), py.None()),
        KernelCall::Put(key, object) => Op::Put(key.to_string(), value(object)?),
        KernelCall::Tell(entry) => Op::Tell(value(entry)?),
        KernelCall::GetLog => Op::GetLog,
        KernelCall::Ask(key) => Op::Ask(key.to_string()),
        KernelCall::CreateChannel(capacity) => Op::CreateChannel(*capacity),
        KernelCall::Send(channel, message) => Op::Send(None, *channel, value(message)?),
        KernelCall::Receive(channel) => Op::Receive(None, *channel),
        KernelCall::CreateSemaphore(permits) => Op::CreateSemaphore(*permits),
        KernelCall::CreateMutex => Op::CreateMutex,
        KernelCall::Acquire(semaphore, permits) => Op::Acquire(None, *semaphore, *permits),
        KernelCall::Show(shown) => Op::Show(shown.clone()),
        KernelCall::Charge(cost) => Op::Charge(*cost),
        _ => return Ok(None),
    };
    let shown = crate::calls::object(py, op)?;
    shown.get().made();
    Ok(Some(shown))
}

/// Adds these classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Answer>()?;
    module.add_class::<Refuse>()
}
