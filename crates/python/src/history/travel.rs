//! Time travel: a run as it was at any of its records.

use std::cell::{RefCell, RefMut};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::durable::{self, Moment, TaskMoment};
use tiffany::kernel::Frame;
use tiffany::{RunError, Site, Tid};

use crate::durable::runs::identity;
use crate::process::interpreter;
use crate::process::signals::Second;
use crate::process::thread::OneThread;
use crate::runtime::driven;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{argument, errors};

/// The number of a record, its line in the log, and the tasks at that point.
type MomentParts = (u64, String, Vec<TaskParts>);

/// A task: number, name, line that spawned it, state, what it waits for and where, store, frames,
/// exception.
type TaskParts = (
    u64,
    Option<String>,
    String,
    &'static str,
    Option<String>,
    Option<String>,
    Vec<(String, String)>,
    Vec<FrameParts>,
    Option<Py<PyAny>>,
);

/// A frame: function, file, line and variables.
type FrameParts = (String, String, u32, Vec<(String, String)>);

/// Moves through the records of one run, on the thread that created it.
#[pyclass(frozen, name = "_TimeTravel", module = "tiffany._core")]
pub(crate) struct TimeTravel {
    inner: OneThread<RefCell<Option<durable::TimeTravel>>>,
}

impl TimeTravel {
    fn open(&self, py: Python<'_>) -> PyResult<RefMut<'_, durable::TimeTravel>> {
        let inner = self.inner.get(py, "traveller")?;
        let Ok(open) = inner.try_borrow_mut() else {
            let message = "this traveller is on its way; a task that it looks at cannot use it";
            return Err(TiffanyError::NestedRuntime.err(py, message));
        };
        RefMut::filter_map(open, Option::as_mut)
            .map_err(|_| TiffanyError::Gone.err(py, "this traveller is closed"))
    }
}

#[pymethods]
impl TimeTravel {
    #[new]
    fn new(
        settings: &Bound<'_, PyDict>,
        #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
        run: &Bound<'_, PyAny>,
    ) -> PyResult<TimeTravel> {
        let (py, program, run) = (run.py(), super::program(settings)?, identity(run)?);
        let opened = interpreter::without(py, || durable::TimeTravel::open(program, &wal, run));
        let travel = opened.map_err(|error| errors::run_error(py, &error))?;
        Ok(TimeTravel { inner: OneThread::new(RefCell::new(Some(travel))) })
    }

    /// The run.
    fn run(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.open(py)?.run().to_string())
    }

    /// The number of records.
    fn records(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.open(py)?.records())
    }

    /// Returns a record as it is in the log.
    fn record(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::record)] seq: u64,
    ) -> PyResult<Option<String>> {
        Ok(self.open(py)?.record(seq).map(str::to_owned))
    }

    /// Returns the run as it was at a record.
    fn seek(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::record)] seq: u64,
    ) -> PyResult<MomentParts> {
        let mut travel = self.open(py)?;
        let sought = driven(py, Second::Raises, || Ok(travel.seek(seq)))?;
        sought.map(|moment| parts(py, moment)).map_err(|error| raised(py, &error))
    }

    /// Returns the next record of a task.
    fn next_of(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::tid)] tid: u64,
        #[pyo3(from_py_with = argument::record)] after: u64,
    ) -> PyResult<Option<u64>> {
        Ok(self.open(py)?.next_of(Tid(tid), after))
    }

    /// Returns the record at which the run failed.
    fn failure(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.open(py)?.failure())
    }

    /// Closes it. No code of the run is unwound.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.inner.is_forked() {
            return Ok(());
        }
        match self.inner.get(py, "traveller")?.try_borrow_mut() {
            Ok(mut open) => {
                open.take();
                Ok(())
            }
            Err(_) => self.open(py).map(drop),
        }
    }
}

/// Converts an error of time travel.
fn raised(py: Python<'_>, error: &RunError) -> PyErr {
    errors::run_error(py, error)
}

fn parts(py: Python<'_>, moment: Moment) -> MomentParts {
    let Moment { record, line, tasks, .. } = moment;
    (record, line, tasks.into_iter().map(|task| task_parts(py, task)).collect())
}

fn task_parts(py: Python<'_>, task: TaskMoment) -> TaskParts {
    let frame =
        |Frame { function, at, locals }: Frame| (function, at.file.into_owned(), at.line, locals);
    let error = task.error.map(|error| errors::to_python(py, &error).into_value(py).into_any());
    (
        task.tid.0,
        task.name,
        task.spawned_at.to_string(),
        task.state,
        task.waits_for,
        task.waits_at.as_ref().map(Site::to_string),
        task.store,
        task.frames.into_iter().map(frame).collect(),
        error,
    )
}
