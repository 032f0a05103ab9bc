//! `Approve`: a question to a person.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use tiffany::binding;
use tiffany::kernel::Asking;

use super::{given, of};
use crate::calls::call::{Op, SystemCall};
use crate::calls::time::duration;
use crate::values::{argument, errors, json};

/// The question, in a form that can be dropped on any thread.
pub(crate) struct Asks {
    about: Box<str>,
    payload: Option<Box<str>>,
    timeout: Option<Duration>,
}

impl From<&Asking> for Asks {
    fn from(asking: &Asking) -> Asks {
        let payload = asking.payload.as_deref().map(Into::into);
        Asks { about: (&*asking.about).into(), payload, timeout: asking.timeout }
    }
}

impl Asks {
    /// Converts the question to the kernel's call.
    pub(crate) fn asking(&self) -> Asking {
        let payload = self.payload.as_deref().map(Into::into);
        Asking { about: (&*self.about).into(), payload, timeout: self.timeout }
    }
}

/// Asks a person and waits for the answer, for days if necessary and across restarts.
///
/// The question is decided with `tiffany approve`, or through a `Connection` or
/// a `Runtime`. The choices are yes and no, unless others are given; the last one is the rejection.
/// The answer is an `Approval`. If no one answers in time, `ApprovalTimedOutError` is raised.
///
/// >>> import threading
/// >>> async def main(connection):
/// ...     def person():
/// ...         while not (waiting := connection.approvals()):
/// ...             pass
/// ...         connection.approve(waiting[0].id, by="Ada", why="they are right")
/// ...     threading.Thread(target=person).start()
/// ...     answer = await approve("Refund 40 EUR?", payload={"order": 7}, timeout=3600)
/// ...     return answer.granted().by
/// >>> runtime = Runtime()
/// >>> runtime.run(main(runtime.handle))
/// 'Ada'
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Approve;

#[pymethods]
impl Approve {
    #[new]
    #[pyo3(
        signature = (question, choices = None, payload = None, *, timeout = None),
        text_signature = "(question, choices=None, payload=None, *, timeout=None)"
    )]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = argument::question)] question: String,
        #[pyo3(from_py_with = argument::choices)] choices: Option<Vec<String>>,
        payload: Option<Bound<'_, PyAny>>,
        timeout: Option<Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Approve>> {
        let payload = payload
            .map(|payload| json::raw(&payload, || "the payload of a question".into()))
            .transpose()?;
        let timeout = timeout.map(|timeout| duration(&timeout)).transpose()?;
        let asking = binding::asking(question, choices, payload, timeout);
        let asking = asking.map_err(|error| errors::to_python(py, &error))?;
        Ok(of(Approve, Op::Approve(Asks::from(&asking))))
    }

    /// The question.
    #[getter]
    fn question(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        part(py, given!(slf, Op::Approve(asks) => asks), "question")
    }

    /// The choices. The last one is the rejection.
    #[getter]
    fn choices(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        part(py, given!(slf, Op::Approve(asks) => asks), "choices")
    }

    /// The data on which the person bases the decision.
    #[getter]
    fn payload(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let payload = given!(slf, Op::Approve(asks) => asks.payload.as_deref());
        payload.map(|json| json::decode(py, json)).transpose()
    }

    /// How long to wait for an answer, in seconds.
    #[getter]
    fn timeout(slf: PyRef<'_, Self>) -> Option<f64> {
        given!(slf, Op::Approve(asks) => asks.timeout.map(|timeout| timeout.as_secs_f64()))
    }
}

/// Returns a part of the question, or `None`.
fn part(py: Python<'_>, asks: &Asks, name: &str) -> PyResult<Py<PyAny>> {
    let about = json::decode(py, &asks.about)?;
    about.bind(py).call_method1("get", (name,)).map(Bound::unbind)
}
