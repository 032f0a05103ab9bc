//! The current line of a coroutine. Finding it is fast; the line number is computed only when it is
//! shown.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use pyo3::{ffi, intern};
use tiffany::Site;

/// A place in a piece of code.
pub(crate) struct Line {
    code: Py<PyAny>,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    Beginning,
    /// The instruction at this offset.
    Instruction(i64),
}

impl Line {
    /// Returns the current line of a coroutine: the innermost one among the coroutines that it
    /// delegates to with `await` and `yield from`. Lines of this package, such as those of
    /// `Saga.step`, count only if there are no others.
    pub(crate) fn of(coroutine: &Bound<'_, PyAny>) -> Option<Line> {
        let py = coroutine.py();
        let mut found = None;
        let mut at = coroutine.clone();
        loop {
            let is_coroutine = crate::values::coroutine_kind::is_coroutine(&at);
            let (frame, inner) = match is_coroutine {
                true => (intern!(py, "cr_frame"), intern!(py, "cr_await")),
                false => (intern!(py, "gi_frame"), intern!(py, "gi_yieldfrom")),
            };
            let Some(line) = at.getattr(frame).ok().and_then(|frame| Line::of_frame(&frame)) else {
                return found;
            };
            let is_better = |outer: &Line| !line.is_of_package(py) || outer.is_of_package(py);
            if found.as_ref().is_none_or(is_better) {
                found = Some(line);
            }
            match at.getattr(inner) {
                Ok(inner) if crate::values::coroutine_kind::is_plain_program(&inner) => at = inner,
                _ => return found,
            }
        }
    }

    /// Whether the code belongs to this package.
    pub(crate) fn is_of_package(&self, py: Python<'_>) -> bool {
        static PACKAGE: PyOnceLock<String> = PyOnceLock::new();
        let find = || -> PyResult<String> {
            let paths = py.import("tiffany")?.getattr(intern!(py, "__path__"))?;
            Ok(format!("{}/", paths.get_item(0)?.extract::<String>()?))
        };
        let Ok(package) = PACKAGE.get_or_try_init(py, find) else { return false };
        let file = self.code.bind(py).getattr(intern!(py, "co_filename"));
        let file = file.ok().and_then(|file| file.cast_into::<PyString>().ok());
        file.is_some_and(|file| file.to_str().is_ok_and(|file| file.starts_with(&**package)))
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Line {
        Line { code: self.code.clone_ref(py), place: self.place }
    }

    fn of_frame(frame: &Bound<'_, PyAny>) -> Option<Line> {
        if frame.is_none() {
            return None;
        }
        let py = frame.py();
        // Finding the line number requires a search in a table, which is done later.
        let offset = frame.getattr(intern!(py, "f_lasti")).ok()?.extract().ok()?;
        // SAFETY: the frame of a coroutine is a frame object, and the interpreter is attached.
        let code = unsafe {
            let code = ffi::PyFrame_GetCode(frame.as_ptr().cast()).cast::<ffi::PyObject>();
            Bound::from_owned_ptr_or_opt(py, code)?
        };
        Some(Line { code: code.unbind(), place: Place::Instruction(offset) })
    }

    /// Returns the first line of a program.
    pub(crate) fn of_program(program: &Bound<'_, PyAny>) -> Option<Line> {
        let py = program.py();
        let code = match crate::values::coroutine_kind::is_coroutine(program) {
            true => program.getattr(intern!(py, "cr_code")),
            false => program.getattr(intern!(py, "gi_code")),
        };
        let code = code.ok()?;
        Some(Line { code: code.unbind(), place: Place::Beginning })
    }

    /// Converts it to a file and a line number.
    pub(crate) fn site(&self, py: Python<'_>) -> Option<Site> {
        let code = self.code.bind(py);
        let file = code.getattr(intern!(py, "co_filename")).ok()?;
        let file = file.cast::<PyString>().ok()?.to_string_lossy();
        Some(crate::values::names::site(&file, self.number(code).unwrap_or(0)))
    }

    fn number(&self, code: &Bound<'_, PyAny>) -> Option<u32> {
        let first = code.getattr(intern!(code.py(), "co_firstlineno")).ok()?.extract().ok()?;
        let Place::Instruction(offset) = self.place else { return Some(first) };
        let lines = code.call_method0(intern!(code.py(), "co_lines")).ok()?;
        for entry in lines.try_iter().ok()? {
            let (start, end, line) = entry.ok()?.extract::<(i64, i64, Option<u32>)>().ok()?;
            if (start..end).contains(&offset) {
                return line.or(Some(first));
            }
        }
        Some(first)
    }
}
