//! The base class of the calls of `tiffany.pyos`, which the driver of tasks recognises.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The base class of all pyos calls, so that they are quickly distinguished from other objects.
#[pyclass(subclass, frozen, name = "_PyosCall", module = "tiffany._core")]
pub(crate) struct PyosCall;

#[pymethods]
impl PyosCall {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyosCall {
        PyosCall
    }
}
