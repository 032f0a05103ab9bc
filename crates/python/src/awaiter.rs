//! `await call`: an iterator that yields its call once, and returns what it is sent.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use crate::call::SystemCall;

/// What `__await__` of a call gives.
#[pyclass(name = "_Awaiter", module = "tiffany._core")]
pub(crate) struct Awaiter(Option<Py<SystemCall>>);

impl Awaiter {
    #[inline]
    pub(crate) fn new(call: Py<SystemCall>) -> Awaiter {
        Awaiter(Some(call))
    }
}

#[pymethods]
impl Awaiter {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The call; when it is answered with nothing, the end.
    #[inline]
    fn __next__(&mut self) -> Option<Py<SystemCall>> {
        self.0.take()
    }

    /// The call, or the end with the answer.
    fn send(&mut self, value: Py<PyAny>) -> PyResult<Py<SystemCall>> {
        self.0.take().ok_or_else(|| PyStopIteration::new_err((value,)))
    }
}
