//! Calls without a family: turns, programs, descriptors, costs and blocking functions.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::{PyDict, PyTuple};
use tiffany::{Reply, binding};

use super::{given, of, plain};
use crate::calls::call::{Op, Perform, SystemCall};
use crate::calls::pending::Pending;
use crate::tasks::contextvars::TaskContext;
use crate::tasks::spawn;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::value::from_value;
use crate::values::{argument, errors};

plain! {
    /// Lets the other tasks run first.
    Yield => Op::Yield,
    /// Returns the number of the calling task.
    GetTid => Op::GetTid,
    /// Returns the handlers of the calling task, innermost first.
    GetHandlers => Op::GetHandlers,
}

/// Runs a program in this task: its return value is the answer, and its exceptions are raised here.
///
/// >>> async def depth(n):
/// ...     return 0 if n == 0 else 1 + await call(depth(n - 1))
/// >>> run(depth(10_000))
/// 10000
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Call;

#[pymethods]
impl Call {
    #[new]
    fn new(program: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Call>> {
        spawn::check(&program)?;
        Ok(of(Call, Op::Call(program.unbind())))
    }
}

/// Reads a descriptor, or an object with `fileno()`.
fn descriptor(file: &Bound<'_, PyAny>) -> PyResult<i32> {
    if let Ok(fd) = file.extract::<i32>() {
        return Ok(fd);
    }
    let fd = file.call_method0("fileno").and_then(|fd| fd.extract::<i32>());
    fd.map_err(|error| {
        let py = file.py();
        let name = file.get_type().name().map_or("object".into(), |name| name.to_string());
        let why = errors::text(error.value(py));
        let message = format!("`{name}` has no descriptor to wait for ({why})");
        TiffanyError::BadDescriptor.err(py, message)
    })
}

macro_rules! readiness {
    ($($name:ident $doc:literal),+) => {
        $(
            #[doc = $doc]
            #[pyclass(frozen, extends = SystemCall, module = "tiffany")]
            pub(crate) struct $name;

            #[pymethods]
            impl $name {
                #[new]
                fn new(file: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<$name>> {
                    Ok(of($name, Op::$name(descriptor(&file)?)))
                }

                /// The descriptor.
                #[getter]
                fn fd(slf: PyRef<'_, Self>) -> i32 {
                    given!(slf, Op::$name(fd) => *fd)
                }
            }
        )+
    };
}

readiness! {
    ReadWait "Waits until a descriptor, or an object that has one, is readable.",
    WriteWait "Waits until a descriptor, or an object that has one, is writable."
}

/// Counts a cost towards the run's limit.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Charge;

#[pymethods]
impl Charge {
    #[new]
    fn new(#[pyo3(from_py_with = argument::cost)] cost: u64) -> PyClassInitializer<Charge> {
        of(Charge, Op::Charge(cost))
    }

    /// The cost.
    #[getter]
    fn cost(slf: PyRef<'_, Self>) -> u64 {
        given!(slf, Op::Charge(cost) => *cost)
    }
}

/// Calls a function on a thread and returns its value.
///
/// >>> async def main():
/// ...     return await blocking(pow, 2, 10)
/// >>> run(main())
/// 1024
#[pyclass(frozen, extends = SystemCall, get_all, module = "tiffany")]
pub(crate) struct Blocking {
    /// The function that is called.
    function: Py<PyAny>,
    /// The positional arguments.
    args: Py<PyTuple>,
    /// The keyword arguments.
    kwargs: Option<Py<PyDict>>,
}

#[pymethods]
impl Blocking {
    #[new]
    #[pyo3(signature = (function, *args, **kwargs))]
    fn new(
        py: Python<'_>,
        function: Py<PyAny>,
        args: Py<PyTuple>,
        kwargs: Option<Py<PyDict>>,
    ) -> PyResult<PyClassInitializer<Blocking>> {
        argument::check_callable("function", function.bind(py))?;
        let work = OnThread {
            function: function.clone_ref(py),
            args: args.clone_ref(py),
            kwargs: kwargs.as_ref().map(|kwargs| kwargs.clone_ref(py)),
        };
        Ok(of(Blocking { function, args, kwargs }, Op::Other(Box::new(work))))
    }
}

struct OnThread {
    function: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
}

impl Perform for OnThread {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.args)?;
        visit.call(&self.kwargs)
    }

    fn name(&self, _py: Python<'_>) -> String {
        "Blocking".into()
    }

    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        _at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        if tiffany::binding::is_durable() {
            let name = self.function.bind(py).repr()?;
            let message = format!(
                "Blocking({name}) was called in a durable run, and its result cannot be recorded"
            );
            return Err(TiffanyError::NotDurable.err(py, message));
        }
        let function = self.function.clone_ref(py);
        let args = self.args.clone_ref(py);
        let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.clone_ref(py));
        let context = TaskContext::copy(py);
        let origin = Arc::new(call.clone().unbind());
        let work = binding::blocking(origin, move || {
            Python::attach(|py| {
                let _inside = context.enter(py);
                let kwargs = kwargs.as_ref().map(|kwargs| kwargs.bind(py));
                let value = function.bind(py).call(args.bind(py).clone(), kwargs);
                let value = value.map(Bound::unbind);
                // Dropped here, where the interpreter is attached.
                drop((function, args));
                value
            })
        });
        Ok(Pending::Future(Box::pin(async move {
            let reply = work.await;
            Python::attach(|py| match reply {
                Ok(Reply::Value(value)) => match value.take::<PyResult<Py<PyAny>>>() {
                    Ok(returned) => returned,
                    // A handler answered it.
                    Err(value) => from_value(py, value),
                },
                Ok(Reply::Error(error)) | Err(error) => Err(errors::to_python(py, &error)),
                Ok(_) => Ok(py.None()),
            })
        })))
    }
}
