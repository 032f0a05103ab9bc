//! What `tiffany.Client` needs of the core: requests as text, and the forms in which values and
//! errors travel. It knows neither sockets nor HTTP, which are in `python/tiffany/client`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::TaskError;
use tiffany::control::AttributeFilter;
use tiffany::metrics::Snapshot;

use crate::durable::messages::identity;
use crate::durable::{control, forks};
use crate::values::attributes::Given;
use crate::values::{attributes, errors, json};

pub(super) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_uuid, module)?)?;
    module.add_function(wrap_pyfunction!(promise_uuid, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(exception, module)?)?;
    module.add_function(wrap_pyfunction!(error_parts, module)?)?;
    module.add_function(wrap_pyfunction!(metrics_text, module)?)?;
    module.add_function(wrap_pyfunction!(failure, module)?)?;
    module.add_function(wrap_pyfunction!(fork, module)?)?;
    module.add_function(wrap_pyfunction!(start_options, module)?)?;
    module.add_function(wrap_pyfunction!(attribute_filters, module)?)
}

/// Returns the UUID of a run, given as a `Run`, a UUID or an id.
#[pyfunction]
#[pyo3(name = "_run_uuid")]
fn run_uuid(run: &Bound<'_, PyAny>) -> PyResult<String> {
    identity(run).map(|uuid| uuid.to_string())
}

/// Returns the UUID of a promise, given as an object that has one, a UUID or a text.
#[pyfunction]
#[pyo3(name = "_promise_uuid")]
fn promise_uuid(promise: &Bound<'_, PyAny>) -> PyResult<String> {
    control::promise_uuid(promise).map(|uuid| uuid.to_string())
}

/// Decodes a value from the form in which it is recorded.
#[pyfunction]
#[pyo3(name = "_decode")]
fn decode(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    json::decode(py, text)
}

/// Returns the exception that a recorded error stands for.
#[pyfunction]
#[pyo3(name = "_exception")]
fn exception(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    let error: TaskError = serde_json::from_str(text).map_err(|error| raised(py, &error))?;
    Ok(errors::to_python(py, &error).into_value(py).into_any())
}

/// Returns the code and the text of a recorded error.
#[pyfunction]
#[pyo3(name = "_error_parts")]
fn error_parts(py: Python<'_>, text: &str) -> PyResult<(&'static str, String)> {
    let error: TaskError = serde_json::from_str(text).map_err(|error| raised(py, &error))?;
    Ok((error.code(), error.to_string()))
}

/// Returns metrics, given as JSON, as text for Prometheus.
#[pyfunction]
#[pyo3(name = "_metrics_text")]
fn metrics_text(py: Python<'_>, text: &str) -> PyResult<String> {
    let metrics: Snapshot = serde_json::from_str(text).map_err(|error| raised(py, &error))?;
    Ok(metrics.to_string())
}

/// Encodes an exception or a text as a recorded error.
#[pyfunction]
#[pyo3(name = "_failure")]
fn failure(error: Bound<'_, PyAny>) -> PyResult<String> {
    let py = error.py();
    serde_json::to_string(&control::failure(error)).map_err(|error| raised(py, &error))
}

/// Encodes how a fork differs from its parent.
#[pyfunction]
#[pyo3(name = "_fork")]
fn fork(given: &Bound<'_, PyDict>) -> PyResult<String> {
    serde_json::to_string(&forks::wanted(given)?).map_err(|error| raised(given.py(), &error))
}

/// Encodes what a run is started with; an empty object if that is nothing.
#[pyfunction]
#[pyo3(name = "_start_options")]
fn start_options(py: Python<'_>, given: Given<'_>) -> PyResult<String> {
    serde_json::to_string(&attributes::options(given)?).map_err(|error| raised(py, &error))
}

/// Checks conditions for attributes, and returns them in a form in which commas can separate them.
#[pyfunction]
#[pyo3(name = "_attribute_filters")]
fn attribute_filters(py: Python<'_>, texts: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let filters = attributes::filters(py, &texts)?;
    Ok(filters.iter().map(AttributeFilter::to_string).collect())
}

fn raised(py: Python<'_>, error: &serde_json::Error) -> PyErr {
    errors::to_python(py, &TaskError::failed(error.to_string()))
}
