//! Tracebacks: given to exceptions, and kept at a length that can be read. It knows nothing of where they come from.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyTraceback;
use pyo3::{ffi, intern};

/// A traceback keeps so many of its innermost and of its outermost lines.
pub(crate) const KEPT: usize = 200;

/// Gives an exception this traceback.
pub(crate) fn set(
    exception: &Bound<'_, PyBaseException>,
    traceback: Option<&Bound<'_, PyTraceback>>,
) {
    let none = exception.py().None();
    let traceback = traceback.map_or(none.as_ptr(), |traceback| traceback.as_ptr());
    // SAFETY: both are valid objects, and the second is a traceback or None.
    unsafe { ffi::PyException_SetTraceback(exception.as_ptr(), traceback) };
}

/// Leaves the middle of a very long traceback out. An exception that is raised again and again, as the same object, has all of its ways
/// in one.
#[cold]
pub(crate) fn shorten(traceback: Option<&Bound<'_, PyTraceback>>) {
    let Some(first) = traceback else { return };
    let name = intern!(first.py(), "tb_next");
    let mut lines = vec![first.clone().into_any()];
    while let Some(next) = lines.last().and_then(|line| line.getattr(name).ok())
        && !next.is_none()
    {
        lines.push(next);
    }
    if lines.len() > 2 * KEPT {
        let _ = lines[KEPT - 1].setattr(name, &lines[lines.len() - KEPT]);
    }
}
