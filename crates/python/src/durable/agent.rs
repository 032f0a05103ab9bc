//! State machines written in Python: serializable objects with a method that returns the next call
//! and one that takes its answer. `python/tiffany/durable/_state_machines.py` knows the classes.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::binding::{self, Agent};
use tiffany::kernel::{BoxCoroutine, Frame};
use tiffany::{Reply, Site, TaskError, TaskStatus, Time};

use crate::calls::call;
use crate::calls::call::SystemCall;
use crate::durable::interrupt;
use crate::process::session;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{errors, frames, json};

/// The end of a state machine, with its value.
#[pyclass(frozen, generic, get_all, module = "tiffany")]
pub(crate) struct Done {
    /// The value.
    value: Py<PyAny>,
}

#[pymethods]
impl Done {
    #[new]
    #[pyo3(signature = (value = None))]
    fn new(py: Python<'_>, value: Option<Py<PyAny>>) -> Done {
        Done { value: value.unwrap_or_else(|| py.None()) }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Done({})", self.value.bind(py).repr()?))
    }
}

/// A Python object that is a state machine.
struct PyAgent {
    object: Py<PyAny>,
    /// The name of the object's class in the log.
    kind: String,
    line: Option<Site>,
    /// The call that the state machine waits for.
    wanted: RefCell<Option<Py<SystemCall>>>,
}

/// Returns the kernel's coroutine for an object whose class has this name in the log.
pub(super) fn coroutine(
    object: Bound<'_, PyAny>,
    kind: String,
    until: Option<Time>,
) -> BoxCoroutine {
    let line = line_of(&object).ok();
    let wanted = RefCell::default();
    binding::agent(PyAgent { object: object.unbind(), kind, line, wanted }, until)
}

/// Returns the line at which the class defines the next call.
fn line_of(object: &Bound<'_, PyAny>) -> PyResult<Site> {
    let code = object.getattr("wants")?.getattr("__code__")?;
    let file: String = code.getattr("co_filename")?.extract()?;
    Ok(crate::values::names::site(&file, code.getattr("co_firstlineno")?.extract()?))
}

impl PyAgent {
    fn wants(&self, py: Python<'_>) -> PyResult<TaskStatus<String>> {
        let wanted = self.object.bind(py).call_method0("wants")?;
        if let Ok(done) = wanted.cast::<Done>() {
            let subject = || format!("the result of `{}`", self.kind);
            let json = json::encode(done.get().value.bind(py), subject);
            return json.map(TaskStatus::Completed);
        }
        let Ok(made) = wanted.cast::<SystemCall>() else {
            let message = format!(
                "`{}.wants` returned {}; return a call, or `Done(value)`",
                self.kind,
                crate::values::argument::shown(&wanted)
            );
            return Err(TiffanyError::NotACall.err(py, message));
        };
        let request = call::request(made)?;
        *self.wanted.borrow_mut() = Some(made.clone().unbind());
        Ok(TaskStatus::Waiting(request))
    }

    fn take(&self, py: Python<'_>, reply: Reply) -> PyResult<()> {
        let object = self.object.bind(py);
        let Some(made) = self.wanted.borrow_mut().take() else { return Ok(()) };
        match call::answer(made.bind(py), reply) {
            Ok(answer) => object.call_method1("take", (answer,)).map(drop),
            Err(error) if object.hasattr("failed")? => {
                object.call_method1("failed", (error.into_value(py),)).map(drop)
            }
            Err(error) => Err(error),
        }
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("tiffany.durable._state_machines")?.call_method1("state", (&self.object,))
    }

    fn state(&self, py: Python<'_>) -> PyResult<String> {
        json::encode(&self.fields(py)?, || format!("the state of `{}`", self.kind))
    }

    /// Converts an exception of the state machine to the task's error.
    fn raised(py: Python<'_>, error: &PyErr) -> TaskError {
        if errors::ends_the_run(py, error) {
            session::interrupt(error.clone_ref(py));
            return errors::from_python(py, error);
        }
        errors::uncaught(py, error, None)
    }
}

impl Agent for PyAgent {
    fn name(&self) -> &str {
        &self.kind
    }

    fn wants(&self) -> TaskStatus<String> {
        let wants = Python::attach(|py| {
            PyAgent::wants(self, py)
                .unwrap_or_else(|error| TaskStatus::Failed(PyAgent::raised(py, &error)))
        });
        interrupt::note();
        wants
    }

    fn take(&mut self, reply: Reply) -> Result<(), TaskError> {
        let taken = Python::attach(|py| {
            PyAgent::take(self, py, reply).map_err(|error| PyAgent::raised(py, &error))
        });
        interrupt::note();
        taken
    }

    fn state(&self) -> Result<String, TaskError> {
        let state = Python::attach(|py| {
            PyAgent::state(self, py).map_err(|error| errors::from_python(py, &error))
        });
        interrupt::note();
        state
    }

    fn line(&self) -> Option<Site> {
        self.line.clone()
    }

    fn frames(&self) -> Vec<Frame> {
        let Some(at) = self.line.clone() else { return Vec::new() };
        Python::attach(|py| {
            let fields = self.fields(py).and_then(|fields| Ok(fields.cast_into::<PyDict>()?));
            let Ok(fields) = fields else { return Vec::new() };
            let shown = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
                (name.to_string(), frames::shown(&value))
            };
            let locals = fields.iter().map(shown).collect();
            vec![Frame { function: self.kind.clone(), at, locals }]
        })
    }
}
