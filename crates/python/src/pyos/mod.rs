//! `tiffany.pyos`: the scheduler from a 2009 course on coroutines, on top of this kernel. `task.rs`
//! resumes a pyos task, `kernel.rs` has the tasks of a scheduler and its main loop, and `driver.rs`
//! makes a pyos task a task of the kernel. The rest is in `python/tiffany/pyos`.

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
