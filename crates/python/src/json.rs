//! Values and exceptions in the form in which they are written down.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

use crate::codec::{self, Decoded};

/// A value as JSON.
pub(crate) fn encode(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(codec::encode(value)?)
}

/// JSON as a value.
pub(crate) fn decode(py: Python<'_>, json: &str) -> PyResult<Py<PyAny>> {
    Ok(codec::decode(py, json)?.unbind())
}

/// The exception that was written down, if it can be made again.
pub(crate) fn exception(py: Python<'_>, json: &str) -> Option<Py<PyAny>> {
    match codec::decode_exception(py, json) {
        Ok(Decoded::Exception(exception)) => Some(exception.into_any()),
        _ => None,
    }
}

/// An exception in the form in which it is written down.
pub(crate) fn exception_text(
    _: Python<'_>,
    exception: &Bound<'_, PyBaseException>,
) -> Option<String> {
    codec::encode_exception(exception).ok()
}

/// A value as JSON that serde takes as it is.
pub(crate) fn raw(value: &Bound<'_, PyAny>) -> PyResult<Box<serde_json::value::RawValue>> {
    let json = encode(value)?;
    Ok(serde_json::value::RawValue::from_string(json).expect("what was encoded is JSON"))
}
