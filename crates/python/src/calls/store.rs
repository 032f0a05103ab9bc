//! The calls for a task's own store and log, and for the environment of the run.

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;

use super::{given, of, plain};
use crate::calls::call::{Op, SystemCall};
use crate::values::argument;

plain! {
    /// Returns the entries of this task's log.
    GetLog => Op::GetLog,
}

/// Reads a key of this task's state.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Get;

#[pymethods]
impl Get {
    #[new]
    #[pyo3(signature = (key, default = None))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = argument::key)] key: String,
        default: Option<Py<PyAny>>,
    ) -> PyClassInitializer<Get> {
        let default = default.unwrap_or_else(|| py.None());
        of(Get, Op::Get(key, default))
    }

    /// The key.
    #[getter]
    fn key(slf: PyRef<'_, Self>) -> String {
        given!(slf, Op::Get(key, _) => key.clone())
    }
}

/// Writes a key of this task's state. Children see the value as it was when they were spawned.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Put;

#[pymethods]
impl Put {
    #[new]
    fn new(
        #[pyo3(from_py_with = argument::key)] key: String,
        value: Py<PyAny>,
    ) -> PyClassInitializer<Put> {
        of(Put, Op::Put(key, value))
    }

    /// The key.
    #[getter]
    fn key(slf: PyRef<'_, Self>) -> String {
        given!(slf, Op::Put(key, _) => key.clone())
    }

    /// The value.
    #[getter]
    fn value(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyAny> {
        given!(slf, Op::Put(_, value) => value.clone_ref(py))
    }
}

/// Appends an entry to this task's log.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Tell;

#[pymethods]
impl Tell {
    #[new]
    fn new(entry: Py<PyAny>) -> PyClassInitializer<Tell> {
        of(Tell, Op::Tell(entry))
    }

    /// The entry.
    #[getter]
    fn entry(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyAny> {
        given!(slf, Op::Tell(entry) => entry.clone_ref(py))
    }
}

/// Reads a key of the environment that all tasks of the run share.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Ask;

#[pymethods]
impl Ask {
    #[new]
    fn new(#[pyo3(from_py_with = argument::key)] key: String) -> PyClassInitializer<Ask> {
        of(Ask, Op::Ask(key))
    }

    /// The key.
    #[getter]
    fn key(slf: PyRef<'_, Self>) -> String {
        given!(slf, Op::Ask(key) => key.clone())
    }
}
