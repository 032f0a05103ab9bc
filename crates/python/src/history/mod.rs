//! Examining durable runs: any moment of a run, runs replayed with the current code, comparisons,
//! exports, and copies of a log. `python/tiffany/history` converts the results to objects.

mod files;
mod travel;
mod trial;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::Builder;

use crate::runtime::settings::Settings;

/// Returns a builder with the functions of a program.
fn program(settings: &Bound<'_, PyDict>) -> PyResult<Builder> {
    Settings::read(settings)?.builder(settings.py())
}

/// Adds these classes and functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<travel::TimeTravel>()?;
    module.add_function(wrap_pyfunction!(trial::check, module)?)?;
    module.add_function(wrap_pyfunction!(trial::try_run, module)?)?;
    module.add_function(wrap_pyfunction!(files::diff, module)?)?;
    module.add_function(wrap_pyfunction!(files::export, module)?)?;
    module.add_function(wrap_pyfunction!(files::take_backup, module)?)?;
    module.add_function(wrap_pyfunction!(files::restore, module)?)?;
    module.add_function(wrap_pyfunction!(files::check_backup, module)?)
}
