//! `tiffany.pyos`: the scheduler of a course on coroutines from 2009, on this one. `task.rs` has what a task of it is and how it is resumed,
//! `kernel.rs` which tasks a scheduler has and its main loop, `driver.rs` how the two meet: a task of pyos is a task like any other.
//! The rest of it is in `python/tiffany/pyos`.

mod driver;
mod kernel;
mod task;

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

/// Adds these classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyosCall>()?;
    module.add_class::<task::PyosTask>()?;
    module.add_class::<kernel::PyosKernel>()
}
