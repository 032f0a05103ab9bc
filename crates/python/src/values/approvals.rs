//! Conversion of open questions and of decisions. The classes are in
//! `python/tiffany/_approvals.py`.

use pyo3::prelude::*;
use tiffany::control::{OpenApproval, Ruling};
use tiffany::{Approval, TaskError, Value, binding};

use crate::values::{errors, json};

/// Converts an answer in JSON to an `Approval`.
pub(crate) fn answer(py: Python<'_>, json: &str) -> PyResult<Py<PyAny>> {
    made(py, "approval", json)
}

/// Converts the answer to an `Approve` call: an `Approval` from a person, or any value from a
/// handler.
pub(crate) fn answered(py: Python<'_>, value: Value) -> PyResult<Py<PyAny>> {
    match binding::as_json(&value) {
        Some(json) => answer(py, &json),
        None => crate::values::value::from_value(py, value),
    }
}

/// Converts an open question to an `OpenApproval`.
pub(crate) fn open(py: Python<'_>, open: &OpenApproval) -> PyResult<Py<PyAny>> {
    made(py, "open_approval", &text(py, serde_json::to_string(open))?)
}

/// Converts a decision to an `Approval`.
pub(crate) fn decided(py: Python<'_>, approval: &Approval) -> PyResult<Py<PyAny>> {
    answer(py, &text(py, serde_json::to_string(approval))?)
}

/// Creates a decision: with this choice, or with yes or no.
pub(crate) fn ruling(
    choice: Option<String>,
    yes: bool,
    by: Option<String>,
    why: Option<String>,
) -> Ruling {
    let mut ruling = match (choice, yes) {
        (Some(choice), _) => Ruling::choice(choice),
        (None, true) => Ruling::yes(),
        (None, false) => Ruling::no(),
    };
    if let Some(by) = by {
        ruling = ruling.by(by);
    }
    match why {
        Some(why) => ruling.because(why),
        None => ruling,
    }
}

fn text(py: Python<'_>, json: serde_json::Result<String>) -> PyResult<String> {
    json.map_err(|error| errors::to_python(py, &TaskError::failed(error.to_string())))
}

fn made(py: Python<'_>, function: &str, json: &str) -> PyResult<Py<PyAny>> {
    let parts = json::decode(py, json)?;
    let function = py.import("tiffany._approvals")?.getattr(function)?;
    function.call1((parts,)).map(Bound::unbind)
}
