//! Calls of durable runs only: messages and queries; `Patched`, with which new code supports old
//! runs; and `ContinueAs`, with which a run restarts its function.

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::{PyDict, PyList, PyTuple};
use tiffany::{Uuid, binding};

use crate::calls::call::{Op, Perform, SystemCall};
use crate::calls::pending::Pending;
use crate::durable::interrupt;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::{argument, errors, json};

/// Receives the next message sent to this run under this name, waiting for one.
#[pyclass(frozen, extends = SystemCall, get_all, module = "tiffany")]
pub(crate) struct ReceiveMessage {
    /// The name of the message.
    name: String,
}

#[pymethods]
impl ReceiveMessage {
    #[new]
    fn new(
        #[pyo3(from_py_with = argument::name)] name: String,
    ) -> PyClassInitializer<ReceiveMessage> {
        let op = Op::ReceiveMessage(name.clone());
        PyClassInitializer::from(SystemCall::of(op)).add_subclass(ReceiveMessage { name })
    }
}

/// Whether this run uses the new code at a change of the program. A run that had already passed
/// this place before the program had this line uses the old code, to its end.
#[pyclass(frozen, extends = SystemCall, get_all, module = "tiffany")]
pub(crate) struct Patched {
    /// The name of the change.
    id: String,
}

#[pymethods]
impl Patched {
    #[new]
    fn new(#[pyo3(from_py_with = argument::id)] id: String) -> PyClassInitializer<Patched> {
        let op = Op::Patched(id.clone());
        PyClassInitializer::from(SystemCall::of(op)).add_subclass(Patched { id })
    }
}

/// Restarts this durable run: calls its function again with other arguments. It does not return,
/// and the earlier history is dropped, both from memory and from the log. In this way a run that
/// never ends has a log that does not grow.
///
/// The run keeps its id, its UUID and the messages that it has not received; code that waits for
/// its outcome keeps waiting. Only the root task may do this, and only when every other task of the
/// run has finished.
///
/// >>> import tempfile
/// >>> @workflow(name="count down")
/// ... async def count_down(number):
/// ...     if number == 0:
/// ...         return "liftoff"
/// ...     await continue_as(number - 1)
/// >>> with tempfile.TemporaryDirectory() as wal:
/// ...     run(count_down(3), wal=wal, id="apollo")
/// 'liftoff'
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct ContinueAs;

#[pymethods]
impl ContinueAs {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(
        args: Bound<'_, PyTuple>,
        kwargs: Option<Bound<'_, PyDict>>,
    ) -> PyClassInitializer<ContinueAs> {
        let kwargs = kwargs.unwrap_or_else(|| PyDict::new(args.py()));
        let op = Op::ContinueAs(args.unbind(), kwargs.unbind());
        PyClassInitializer::from(SystemCall::of(op)).add_subclass(ContinueAs)
    }

    /// The positional arguments.
    #[getter]
    fn args(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyTuple> {
        match &slf.as_super().op {
            Op::ContinueAs(args, _) => args.clone_ref(py),
            _ => unreachable!("a call has the op of its class"),
        }
    }

    /// The keyword arguments.
    #[getter]
    fn kwargs(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyDict> {
        match &slf.as_super().op {
            Op::ContinueAs(_, kwargs) => kwargs.clone_ref(py),
            _ => unreachable!("a call has the op of its class"),
        }
    }
}

/// Sends a message to another durable run of this runtime, exactly once. The run is a `Run`, its
/// UUID, or the id it was started with.
#[pyclass(frozen, extends = SystemCall, get_all, module = "tiffany")]
pub(crate) struct SendMessage {
    /// The run that receives the message.
    run: Py<PyAny>,
    /// The name of the message.
    name: String,
    /// The value of the message.
    value: Py<PyAny>,
}

#[pymethods]
impl SendMessage {
    #[new]
    fn new(
        run: Bound<'_, PyAny>,
        #[pyo3(from_py_with = argument::name)] name: String,
        value: Py<PyAny>,
    ) -> PyResult<PyClassInitializer<SendMessage>> {
        let op = Op::Other(Box::new(Sending(identity(&run)?)));
        let call = SendMessage { run: run.unbind(), name, value };
        Ok(PyClassInitializer::from(SystemCall::of(op)).add_subclass(call))
    }
}

struct Sending(Uuid);

impl Perform for Sending {
    fn name(&self, _py: Python<'_>) -> String {
        "SendMessage".into()
    }

    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        _at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        let sent = call.cast::<SendMessage>()?.get();
        let message = json::raw(sent.value.bind(py), || format!("message `{}`", sent.name))?;
        let sending = tiffany::durable::send(self.0, &sent.name, &message);
        Ok(Pending::Future(Box::pin(async move {
            let sent = sending.await;
            Python::attach(|py| match sent {
                Ok(()) => Ok(py.None()),
                Err(error) => Err(errors::to_python(py, &error)),
            })
        })))
    }
}

/// Returns the UUID of a run, given as a `Run`, a UUID or an id.
pub(crate) fn identity(run: &Bound<'_, PyAny>) -> PyResult<Uuid> {
    if let Ok(id) = run.extract::<String>() {
        return Ok(tiffany::durable::run_id(&id));
    }
    let uuid = run.getattr("uuid").unwrap_or_else(|_| run.clone());
    let text = uuid.str()?.to_string();
    Uuid::parse(&text).ok_or_else(|| {
        let message = format!(
            "{text:?} is not a run; give a Run, a uuid.UUID or the id that it was started with"
        );
        TiffanyError::BadArgument.err(run.py(), message)
    })
}

/// Registers a function that answers queries with this name, until the run ends or another function
/// is registered for the name.
///
/// The function is called between two turns with the argument of the query: nothing, one value, the
/// items of a list, or the names of an object. It must not make calls or change anything.
#[pyfunction]
fn on_question(
    py: Python<'_>,
    #[pyo3(from_py_with = argument::name)] name: String,
    answer: Py<PyAny>,
) -> PyResult<()> {
    argument::check_callable("answer", answer.bind(py))?;
    let asked = name.clone();
    let answers = move |input: &str| -> Result<String, String> {
        let answered = Python::attach(|py| {
            let answered = || {
                let answer = answer.bind(py);
                let given = json::decode(py, input)?.into_bound(py);
                let answered = if given.is_none() {
                    answer.call0()?
                } else if let Ok(named) = given.cast::<PyDict>() {
                    answer.call((), Some(named))?
                } else if let Ok(several) = given.cast::<PyList>() {
                    answer.call1(several.to_tuple())?
                } else {
                    answer.call1((given,))?
                };
                json::encode(&answered, || format!("the answer to question `{asked}`"))
            };
            answered().map_err(|error: PyErr| errors::text(error.value(py)))
        });
        interrupt::note();
        answered
    };
    binding::answer_question(&name, answers).map_err(|error| errors::to_python(py, &error))
}

/// Adds these classes and functions to the module.
pub(super) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ReceiveMessage>()?;
    module.add_class::<SendMessage>()?;
    module.add_class::<Patched>()?;
    module.add_class::<ContinueAs>()?;
    module.add_function(wrap_pyfunction!(on_question, module)?)
}
