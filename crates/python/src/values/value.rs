//! Conversion between Python objects and values of the kernel. A Python object is passed as it is;
//! numbers and texts of Rust tasks become Python objects.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use tiffany::{Value, binding};

use crate::values::errors::{Raise, TiffanyError};

/// Converts a Python object to a value of the kernel.
pub fn to_value(object: Bound<'_, PyAny>) -> Value {
    match object.is_none() {
        true => Value::Unit,
        false => Value::new(object.unbind()),
    }
}

/// Converts a value of the kernel to a Python object.
pub fn from_value(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Unit => Ok(py.None()),
        Value::Bool(value) => value.into_py_any(py),
        Value::Int(value) => value.into_py_any(py),
        Value::Uint(value) => value.into_py_any(py),
        Value::Float(value) => value.into_py_any(py),
        Value::Str(text) => (&*text).into_py_any(py),
        Value::Static(text) => text.into_py_any(py),
        other => from_object(py, &other),
    }
}

fn from_object(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    if let Some(object) = value.borrow::<Py<PyAny>>() {
        return Ok(object.clone_ref(py));
    }
    if let Some(text) = value.borrow::<String>() {
        return text.into_py_any(py);
    }
    if let Some(uuid) = value.borrow::<tiffany::Uuid>() {
        return uuid_object(py, *uuid);
    }
    if let Some(json) = binding::as_json(value) {
        return crate::values::json::decode(py, &json);
    }
    let message =
        format!("a Rust task returned a {}, which has no form in Python", value.type_name());
    Err(TiffanyError::WrongType.err(py, message))
}

/// Converts a UUID to `uuid.UUID`.
pub(crate) fn uuid_object(py: Python<'_>, uuid: tiffany::Uuid) -> PyResult<Py<PyAny>> {
    let class = py.import("uuid")?.getattr("UUID")?;
    Ok(class.call1((uuid.to_string(),))?.unbind())
}
