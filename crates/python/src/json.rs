//! Values and exceptions in the form in which they are written down.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

/// A value as JSON.
pub(crate) fn encode(value: &Bound<'_, PyAny>) -> PyResult<String> {
    value.py().import("json")?.call_method1("dumps", (value,))?.extract()
}

/// JSON as a value.
pub(crate) fn decode(py: Python<'_>, json: &str) -> PyResult<Py<PyAny>> {
    Ok(py.import("json")?.call_method1("loads", (json,))?.unbind())
}

/// The exception that was written down, if it can be made again.
pub(crate) fn exception(_: Python<'_>, _: &str) -> Option<Py<PyAny>> {
    None
}

/// An exception in the form in which it is written down.
pub(crate) fn exception_text(_: Python<'_>, _: &Bound<'_, PyBaseException>) -> Option<String> {
    None
}

/// A value as JSON that serde takes as it is.
pub(crate) fn raw(value: &Bound<'_, PyAny>) -> PyResult<Box<serde_json::value::RawValue>> {
    let json = encode(value)?;
    Ok(serde_json::value::RawValue::from_string(json).expect("what was encoded is JSON"))
}
