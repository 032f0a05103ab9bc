//! Errors of values that cannot be encoded or decoded. It doesn't depend on the kinds of values.

use std::borrow::Cow;
use std::fmt;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::{CastError, CastIntoError};

use tiffany::ErrorKind;

use super::path::Path;
use crate::values::errors;

/// An error of the codec: what happened, the place in the value, the reason, and the next step.
#[derive(Debug)]
pub(crate) struct CodecError {
    /// `Unserializable`, `Unreadable`, or `BadArgument` for a misuse of the codec.
    pub(crate) kind: ErrorKind,
    /// The place inside the value: `.orders[3].customer`. The whole value is `.`.
    pub(crate) path: String,
    /// A description of the value: `the result of step "pay"`.
    subject: Cow<'static, str>,
    /// The reason.
    what: String,
    /// The next step.
    pub(crate) next: Cow<'static, str>,
    /// The exception that caused the error, for example one in a hook.
    pub(crate) cause: Option<Box<PyErr>>,
}

impl CodecError {
    /// Returns the stable error code, such as `TFY0034`.
    pub(crate) fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Creates the error for a failure in a part of a value, at this place.
    pub(super) fn at(kind: ErrorKind, path: &Path, fail: Fail) -> CodecError {
        let path = path.to_string();
        let subject = Cow::Borrowed(match kind {
            ErrorKind::Unserializable => "a value",
            _ => "a recorded value",
        });
        let next = fail.next.unwrap_or(Cow::Borrowed(match kind {
            ErrorKind::Unserializable => {
                "use plain values, dataclasses, enums or pydantic models, or teach the codec this type with \
                 `tiffany.codec.register`"
            }
            ErrorKind::Unreadable => {
                "correct the input; if an older version of the program wrote it, make the program accept that form too"
            }
            _ => "see `help(tiffany.codec)`",
        }));
        CodecError { kind, path, subject, what: fail.what, next, cause: fail.cause }
    }

    /// Adds a description of the value to the error.
    pub(crate) fn of(self, subject: String) -> CodecError {
        CodecError { subject: Cow::Owned(subject), ..self }
    }

    /// Returns the message, with the place.
    pub(crate) fn message(&self) -> String {
        let CodecError { subject, path, what, .. } = self;
        match self.kind {
            ErrorKind::Unserializable => {
                format!("{subject} cannot be recorded at `{path}`: {what}")
            }
            ErrorKind::Unreadable => format!("{subject} cannot be read at `{path}`: {what}"),
            _ => what.clone(),
        }
    }

    /// Creates the error for a misuse of the codec.
    pub(super) fn bad_argument(fail: Fail) -> CodecError {
        CodecError::at(ErrorKind::BadArgument, &Path::default(), fail)
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]; {}", self.message(), self.code(), self.next)
    }
}

impl std::error::Error for CodecError {}

impl From<CodecError> for PyErr {
    fn from(error: CodecError) -> PyErr {
        Python::attach(|py| {
            let (code, text) = (error.code(), error.to_string());
            match error.cause.map(|cause| *cause) {
                // Ctrl-C in a hook is not an error of the value.
                Some(cause) if !cause.is_instance_of::<PyException>(py) => cause,
                cause => {
                    let class = errors::class(py, code);
                    let raised = match class.and_then(|class| class.call1((text,))) {
                        Ok(exception) => PyErr::from_value(exception),
                        Err(failed) => return failed,
                    };
                    let _ = raised.value(py).setattr("path", error.path);
                    raised.set_cause(py, cause);
                    raised
                }
            }
        })
    }
}

/// A failure in a part of a value, before its place is added.
#[derive(Debug)]
pub(super) struct Fail {
    pub(super) what: String,
    pub(super) next: Option<Cow<'static, str>>,
    pub(super) cause: Option<Box<PyErr>>,
}

impl Fail {
    pub(super) fn new(what: impl Into<String>) -> Fail {
        Fail { what: what.into(), next: None, cause: None }
    }

    /// Replaces the usual next step.
    pub(super) fn next(mut self, next: impl Into<Cow<'static, str>>) -> Fail {
        self.next = Some(next.into());
        self
    }

    /// Returns a copy of the failure.
    pub(super) fn again(&self, py: Python<'_>) -> Fail {
        let cause = self.cause.as_ref().map(|cause| Box::new(cause.clone_ref(py)));
        Fail { what: self.what.clone(), next: self.next.clone(), cause }
    }

    /// Adds what was being done when it happened.
    pub(super) fn during(mut self, doing: impl fmt::Display) -> Fail {
        self.what = format!("{doing}: {}", self.what);
        self
    }
}

impl From<PyErr> for Fail {
    fn from(error: PyErr) -> Fail {
        let what = Python::attach(|py| text_of_error(py, &error));
        Fail { what, next: None, cause: Some(Box::new(error)) }
    }
}

impl From<CastError<'_, '_>> for Fail {
    fn from(error: CastError<'_, '_>) -> Fail {
        Fail::from(PyErr::from(error))
    }
}

impl From<CastIntoError<'_>> for Fail {
    fn from(error: CastIntoError<'_>) -> Fail {
        Fail::from(PyErr::from(error))
    }
}

/// Describes an exception briefly, even if its own `__str__` fails.
fn text_of_error(py: Python<'_>, error: &PyErr) -> String {
    let class = error.get_type(py).name().map_or_else(|_| "an exception".into(), |n| n.to_string());
    match error.value(py).str() {
        Ok(text) if text.len().unwrap_or(0) > 0 => {
            format!("{class}: {}", super::path::shortened(&text.to_string_lossy(), 300))
        }
        _ => class,
    }
}
