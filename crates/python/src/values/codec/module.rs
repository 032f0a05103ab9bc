//! The Python interface of the codec: functions of `tiffany._core`, which `tiffany.codec` exports
//! with examples.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyString;
use tiffany::ErrorKind;

use super::error::Fail;
use super::exception::stand_in::UnknownException;
use super::path::Path;
use super::{CodecError, Decoded, hook};

/// Adds the codec to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Set and not added: `tiffany` exports these under other names.
    module.setattr("UnknownException", module.py().get_type::<UnknownException>())?;
    module.setattr("encode", wrap_pyfunction!(encode, module)?)?;
    module.setattr("decode", wrap_pyfunction!(decode, module)?)?;
    module.setattr("encode_exception", wrap_pyfunction!(encode_exception, module)?)?;
    module.setattr("decode_exception", wrap_pyfunction!(decode_exception, module)?)?;
    module.setattr("codec_register", wrap_pyfunction!(codec_register, module)?)?;
    module.setattr("codec_plug", wrap_pyfunction!(codec_plug, module)?)?;
    module.setattr("codec_unplug", wrap_pyfunction!(codec_unplug, module)?)
}

/// Encodes a value as JSON text, in the form used in the log.
#[pyfunction]
fn encode(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(super::encode(value)?)
}

/// Decodes a value from JSON text.
#[pyfunction]
fn decode<'py>(py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    Ok(super::decode(py, utf8(text)?)?)
}

/// Encodes an exception as JSON text. Parts that cannot be encoded are included as text.
#[pyfunction]
fn encode_exception(exception: &Bound<'_, PyBaseException>) -> PyResult<String> {
    Ok(super::encode_exception(exception)?)
}

/// Decodes an exception, or returns an `UnknownException` if its class is not available.
#[pyfunction]
fn decode_exception(py: Python<'_>, text: &Bound<'_, PyString>) -> PyResult<Py<PyBaseException>> {
    match super::decode_exception(py, utf8(text)?)? {
        Decoded::Exception(exception) => Ok(exception),
        Decoded::Unknown { type_name, message, cause, args: _ } => {
            let stands =
                UnknownException::new_err(format!("{type_name}: {message}")).into_value(py);
            stands.setattr(py, "type_name", type_name)?;
            stands.setattr(py, "message", message)?;
            stands.setattr(py, "__cause__", cause)?;
            Ok(stands)
        }
    }
}

/// Adds support for a type to the codec.
#[pyfunction]
fn codec_register(
    class: &Bound<'_, PyAny>,
    name: &str,
    encode: &Bound<'_, PyAny>,
    decode: &Bound<'_, PyAny>,
) -> PyResult<()> {
    Ok(hook::register(class, name, encode, decode).map_err(CodecError::bad_argument)?)
}

/// Adds an object that encodes and decodes values that JSON does not have.
#[pyfunction]
fn codec_plug(codec: &Bound<'_, PyAny>) -> PyResult<()> {
    Ok(hook::plug(codec).map_err(CodecError::bad_argument)?)
}

/// Removes such an object. Returns whether it had been added.
#[pyfunction]
fn codec_unplug(codec: &Bound<'_, PyAny>) -> bool {
    hook::unplug(codec)
}

/// Returns a text that can be encoded as UTF-8, or an error.
fn utf8<'a>(text: &'a Bound<'_, PyString>) -> Result<&'a str, CodecError> {
    text.to_str().map_err(|_| {
        let fail = Fail::new("the text has lone surrogates").next("correct the text");
        CodecError::at(ErrorKind::Unreadable, &Path::default(), fail)
    })
}
