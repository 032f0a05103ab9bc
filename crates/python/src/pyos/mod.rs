//! `tiffany.pyos`: the scheduler of a course on coroutines from 2009, on this one. `task.rs` has what a task of it is and how it is resumed,
//! `kernel.rs` which tasks a scheduler has and its main loop, `driver.rs` how the two meet: a task of pyos is a task like any other.
//! The rest of it is in `python/tiffany/pyos`.

mod driver;
mod kernel;
mod task;

use pyo3::prelude::*;

use crate::calls::pyos_call::PyosCall;

/// Adds these classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyosCall>()?;
    module.add_class::<task::PyosTask>()?;
    module.add_class::<kernel::PyosKernel>()
}
