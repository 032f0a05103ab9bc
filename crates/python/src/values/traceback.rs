//! Setting the tracebacks of exceptions, and shortening long ones. It does not know where they come
//! from.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyTraceback;
use pyo3::{ffi, intern};

/// The number of innermost and of outermost lines that a shortened traceback keeps.
pub(crate) const KEPT: usize = 200;

/// Sets the traceback of an exception.
pub(crate) fn set(
    exception: &Bound<'_, PyBaseException>,
    traceback: Option<&Bound<'_, PyTraceback>>,
) {
    let none = exception.py().None();
    let traceback = traceback.map_or(none.as_ptr(), |traceback| traceback.as_ptr());
    // SAFETY: both are valid objects, and the second is a traceback or None.
    unsafe { ffi::PyException_SetTraceback(exception.as_ptr(), traceback) };
}

/// Removes the middle of a very long traceback. An exception object that is raised again and again
/// collects the lines of all these times.
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
