//! Programs written in Rust that an extension passes to Python, where they are spawned and waited
//! for like other programs.

use std::sync::Mutex;

use pyo3::prelude::*;
use tiffany::kernel::BoxCoroutine;

use crate::values::errors::{Raise, TiffanyError};

type Make = Box<dyn FnOnce() -> BoxCoroutine + Send>;

/// A program written in Rust.
#[pyclass(frozen, generic, module = "tiffany")]
pub struct Program(Mutex<Option<Make>>);

impl Program {
    /// Creates a program that makes its coroutine when it is spawned, with `tiffany::binding`.
    pub fn new(make: impl FnOnce() -> BoxCoroutine + Send + 'static) -> Program {
        Program(Mutex::new(Some(Box::new(make))))
    }

    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<BoxCoroutine> {
        let make = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let make =
            make.ok_or_else(|| TiffanyError::Begun.err(py, "this program was run before"))?;
        Ok(make())
    }
}
