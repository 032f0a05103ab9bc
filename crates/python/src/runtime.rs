//! `Runtime` and `run`: programs are run here, on the thread that made the runtime.

use std::cell::{RefCell, RefMut};
use std::thread::ThreadId;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::binding;

use crate::errors::{self, Raise, TiffanyError};
use crate::line::Line;
use crate::session::{self, Registered};
use crate::settings::Settings;
use crate::{spawn, value};

/// A runtime on the thread and in the process that made it.
struct OneThread {
    thread: ThreadId,
    process: u32,
    runtime: RefCell<Option<Open>>,
}

// SAFETY: what is inside is touched only after `OneThread::open` has found the thread to be the one that made it.
unsafe impl Send for OneThread {}
// SAFETY: as above.
unsafe impl Sync for OneThread {}

/// A runtime that is not closed.
struct Open {
    runtime: tiffany::Runtime,
    _registered: Registered,
}

/// Runs programs on this thread. Close it when it is not needed any more, best by `with`.
#[pyclass(frozen, module = "tiffany")]
pub(crate) struct Runtime {
    bound: OneThread,
}

impl Runtime {
    fn open(&self, py: Python<'_>) -> PyResult<RefMut<'_, Open>> {
        if self.bound.process != std::process::id() {
            let message = "this runtime was made in another process, which forked this one";
            return Err(TiffanyError::Forked.err(py, message));
        }
        if self.bound.thread != std::thread::current().id() {
            let message = "this runtime was made on another thread";
            return Err(TiffanyError::WrongThread.err(py, message));
        }
        let Ok(open) = self.bound.runtime.try_borrow_mut() else {
            let message = "this runtime is running; a task of it cannot run it again";
            return Err(TiffanyError::NestedRuntime.err(py, message));
        };
        RefMut::filter_map(open, Option::as_mut)
            .map_err(|_| TiffanyError::Gone.err(py, "this runtime is closed"))
    }
}

#[pymethods]
impl Runtime {
    #[new]
    fn new(settings: &Bound<'_, PyDict>) -> PyResult<Runtime> {
        let py = settings.py();
        let builder = settings.extract::<Settings<'_>>()?.builder(py)?;
        let runtime = builder.build().map_err(|error| errors::run_error(py, &error))?;
        let registered = Registered::new(runtime.handle());
        let open = Open { runtime, _registered: registered };
        let bound = OneThread {
            thread: std::thread::current().id(),
            process: std::process::id(),
            runtime: RefCell::new(Some(open)),
        };
        Ok(Runtime { bound })
    }

    /// Runs a program to the end of its run, and gives its value.
    fn run(&self, program: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = program.py();
        spawn::check(&program)?;
        let mut open = self.open(py)?;
        let root = spawn::coroutine(&program, Line::of_program(&program))?;
        let run = binding::start(&mut open.runtime, root);
        let ended = binding::drive(&mut open.runtime, &run, session::is_interrupted);
        if let Some(error) = session::take_interrupt() {
            drop(ended);
            return Err(error);
        }
        match ended {
            Some(Ok(value)) => value::from_value(py, value),
            Some(Err(error)) => Err(errors::run_error(py, &error)),
            None => Err(TiffanyError::Gone.err(py, "the run was left")),
        }
    }

    /// Ends it: what it has open is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        drop(self.open(py)?);
        self.bound.runtime.borrow_mut().take();
        Ok(())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let is_ours = self.bound.process == std::process::id()
            && self.bound.thread == std::thread::current().id();
        if !is_ours {
            // It cannot be closed from here.
            std::mem::forget(self.bound.runtime.take());
        }
    }
}
