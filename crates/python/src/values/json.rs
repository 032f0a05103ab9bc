//! Values and exceptions in their recorded form. The codec defines the form; this file raises its
//! errors as exceptions of `tiffany.errors`.

use pyo3::exceptions::{PyBaseException, PyException};
use pyo3::prelude::*;
use pyo3::types::PyTraceback;
use serde_json::value::RawValue;
use tiffany::{ErrorKind, TaskError};

use crate::values::codec::{self, CodecError, Decoded};
use crate::values::errors;

/// Encodes a value as JSON. The error for a value that cannot be encoded contains the subject.
pub(crate) fn encode(
    value: &Bound<'_, PyAny>,
    subject: impl FnOnce() -> String,
) -> PyResult<String> {
    codec::encode(value).map_err(|error| raised(value.py(), error.of(subject())))
}

/// Decodes a value.
pub(crate) fn decode(py: Python<'_>, json: &str) -> PyResult<Py<PyAny>> {
    codec::decode(py, json).map(Bound::unbind).map_err(|error| raised(py, error))
}

/// Encodes a value as raw JSON for serde. The error for a value that cannot be encoded contains the
/// subject.
pub(crate) fn raw(
    value: &Bound<'_, PyAny>,
    subject: impl FnOnce() -> String,
) -> PyResult<Box<RawValue>> {
    encode(value, subject).map(raw_text)
}

/// Returns raw JSON for serde.
pub(crate) fn raw_text(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("what was encoded is JSON")
}

/// Decodes an exception. If it cannot be recreated, returns one that describes it.
pub(crate) fn exception(py: Python<'_>, recorded: &TaskError) -> Option<Py<PyAny>> {
    match codec::decode_exception(py, recorded.detail()?) {
        Ok(Decoded::Exception(exception)) => Some(exception.into_any()),
        Ok(Decoded::Unknown { type_name, message, args, cause }) => {
            let text = format!("{type_name}: {message}");
            let what = format!("an exception cannot be made again here: {text}");
            let error = TaskError::new(ErrorKind::StepFailed, what);
            let made = errors::to_python(py, &error);
            made.set_cause(
                py,
                cause.map(|cause| PyErr::from_value(cause.into_bound(py).into_any())),
            );
            let made = made.into_value(py).into_bound(py).into_any();
            let lines = recorded.trace().map(|trace| trace.lines.join("\n"));
            let told = made
                .setattr("original_class", type_name)
                .and_then(|()| made.setattr("original_args", args))
                .and_then(|()| made.setattr("traceback", lines));
            if let Err(error) = told {
                error.write_unraisable(py, Some(&made));
            }
            Some(made.unbind())
        }
        Err(_) => None,
    }
}

/// Encodes an exception as an error for the log. Parts that cannot be encoded are described as
/// text.
pub(crate) fn written(
    exception: &Bound<'_, PyBaseException>,
    traceback: Option<&Bound<'_, PyTraceback>>,
) -> TaskError {
    let error = untraced(exception);
    match traceback.and_then(|traceback| errors::trace(traceback)) {
        Some(trace) => error.with_trace(trace),
        None => error,
    }
}

fn untraced(exception: &Bound<'_, PyBaseException>) -> TaskError {
    let text = errors::text(exception);
    if !exception.is_instance_of::<PyException>() {
        // An exception that ends the process or cancels a task elsewhere must not do so here.
        return TaskError::failed(format!(
            "{text} ended it, as it ends a process; return from it, or raise an Exception"
        ));
    }
    // Parts that have no form are there as text. Only Ctrl-C is an error.
    match codec::encode_exception(exception) {
        Ok(detail) => TaskError::failed(text).with_detail(detail),
        Err(error) => {
            let message = format!("it failed with {text}; {}", error.message());
            TaskError::new(ErrorKind::StepFailed, message)
        }
    }
}

/// Converts an error of the codec to the exception of its code, with the path inside the value.
fn raised(py: Python<'_>, error: CodecError) -> PyErr {
    if let Some(cause) = &error.cause
        && !cause.is_instance_of::<PyException>(py)
    {
        return cause.clone_ref(py);
    }
    let made = errors::class(py, error.code()).and_then(|class| class.call1((error.to_string(),)));
    match made {
        Ok(exception) => {
            let _ = exception.setattr("path", error.path.as_str());
            let raised = PyErr::from_value(exception);
            raised.set_cause(py, error.cause.map(|cause| *cause));
            raised
        }
        Err(failed) => failed,
    }
}
