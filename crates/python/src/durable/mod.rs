//! Durable runs in Python: workflows, steps and messages. The codec encodes what is recorded, and
//! the runtime records it. Decorators and checks of arguments are in `python/tiffany/durable`.

mod agent;
pub(crate) mod attempt;
mod attributes;
mod blocked_call;
mod client;
pub(crate) mod control;
mod elsewhere;
pub(crate) mod forks;
pub(crate) mod interrupt;
pub(crate) mod language;
mod messages;
pub(crate) mod retention;
pub(crate) mod runs;
pub(crate) mod settings;
mod step;
mod step_loop;
mod work;

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Converts a number of seconds that `python/tiffany` has checked.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Adds these classes and functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<agent::Done>()?;
    module.add_class::<step::Step>()?;
    module.add_class::<step::StepCall>()?;
    module.add_class::<attempt::Attempt>()?;
    module.add_class::<control::Control>()?;
    module.add_class::<step_loop::ReadyQueue>()?;
    module.add_function(wrap_pyfunction!(step_loop::is_another_step, module)?)?;
    module.add_function(wrap_pyfunction!(step_loop::is_interruption, module)?)?;
    module.add_function(wrap_pyfunction!(attempt::attempt, module)?)?;
    module.add_function(wrap_pyfunction!(crate::process::interpreter::leave, module)?)?;
    module.add_function(wrap_pyfunction!(encode, module)?)?;
    attributes::add(module)?;
    client::add(module)?;
    messages::add(module)
}

/// Encodes a value in the form in which it is recorded. The error for a value that cannot be
/// encoded says what it is.
#[pyfunction]
#[pyo3(name = "_encode", signature = (value, subject = None))]
fn encode(value: &Bound<'_, PyAny>, subject: Option<&Bound<'_, PyString>>) -> PyResult<String> {
    let shown = |text: &Bound<'_, PyString>| text.to_string_lossy().into_owned();
    crate::values::json::encode(value, || subject.map_or_else(|| "a value".into(), shown))
}
