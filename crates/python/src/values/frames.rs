//! The functions that a task is inside, with their variables, for time travel. Nothing is changed,
//! but a user-defined `__repr__` may run.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use tiffany::kernel::Frame;

use crate::values::coroutine_kind::{is_coroutine, is_plain_program};
use crate::values::names;

/// The number of characters that are shown of a variable.
const MAX_VARIABLE_CHARS: usize = 400;

/// Adds the frames of a coroutine and of those it delegates to with `await` and `yield from`, the
/// innermost last.
pub(crate) fn of_program(program: &Bound<'_, PyAny>, frames: &mut Vec<Frame>) {
    let py = program.py();
    let mut at = Some(program.clone());
    while let Some(coroutine) = at.take() {
        let (frame, inner) = match is_coroutine(&coroutine) {
            true => (intern!(py, "cr_frame"), intern!(py, "cr_await")),
            false => (intern!(py, "gi_frame"), intern!(py, "gi_yieldfrom")),
        };
        let frame = coroutine.getattr(frame).ok().filter(|frame| !frame.is_none());
        frames.extend(frame.and_then(|frame| of_frame(&frame, None)));
        at = coroutine.getattr(inner).ok().filter(is_plain_program);
    }
}

/// Returns the frames of a traceback up to a given entry, the innermost last.
pub(crate) fn of_traceback(
    traceback: &Bound<'_, PyAny>,
    until: Option<&Bound<'_, PyAny>>,
) -> Vec<Frame> {
    let py = traceback.py();
    let mut frames = Vec::new();
    let mut at = Some(traceback.clone());
    while let Some(traceback) =
        at.take().filter(|traceback| !until.is_some_and(|until| traceback.is(until)))
    {
        let line = traceback.getattr(intern!(py, "tb_lineno")).and_then(|line| line.extract()).ok();
        let frame = traceback.getattr(intern!(py, "tb_frame")).ok();
        frames.extend(frame.and_then(|frame| of_frame(&frame, line)));
        at = traceback.getattr(intern!(py, "tb_next")).ok().filter(|next| !next.is_none());
    }
    frames
}

fn of_frame(frame: &Bound<'_, PyAny>, line: Option<u32>) -> Option<Frame> {
    let py = frame.py();
    let code = frame.getattr(intern!(py, "f_code")).ok()?;
    let file: String = code.getattr(intern!(py, "co_filename")).ok()?.extract().ok()?;
    let now = || frame.getattr(intern!(py, "f_lineno")).and_then(|line| line.extract()).ok();
    let line = line.or_else(now).unwrap_or(0);
    let function = code.getattr(intern!(py, "co_qualname")).ok()?.extract().ok()?;
    Some(Frame { function, at: names::site(&file, line), locals: locals(frame) })
}

fn locals(frame: &Bound<'_, PyAny>) -> Vec<(String, String)> {
    // Later versions of Python return a view instead of a dict.
    let copy = PyDict::new(frame.py());
    let variables = frame.getattr(intern!(frame.py(), "f_locals"));
    let copied = variables.and_then(|variables| copy.update(variables.cast::<PyMapping>()?));
    if copied.is_err() {
        return Vec::new();
    }
    copy.iter().map(|(name, value)| (name.to_string(), shown(&value))).collect()
}

/// Returns the `repr` of a value, shortened if it is long.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = match value.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(error) => format!("<no repr: {error}>"),
    };
    match text.char_indices().nth(MAX_VARIABLE_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
