//! Functions that need only the log, and not the code of the runs: comparing two runs, exports, and
//! backups.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tiffany::RunError;
use tiffany::history::{self, DiffSettings, ExportError, Format};
use tiffany::wal::backup::{self, BackupError, Checked, Over, Pace, Taken};
use tiffany::wal::{LogError, RealDisk, View};

use crate::durable::runs::identity;
use crate::process::interpreter;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{argument, errors};

/// The view of a log, and why it is incomplete, if it is.
type Told<T> = (T, Option<String>);

/// A backup: its time; runs, records, blobs, bytes; of these copied runs, blobs, bytes; removed
/// files; damaged runs.
type TakenParts = (String, (u64, u64, u64, u64), (u64, u64, u64), u64, Vec<(String, String)>);

/// The content of a backup: its time; runs, records, blobs, bytes; the number of damaged runs.
type CheckedParts = (String, (u64, u64, u64, u64), u64);

fn log_error(py: Python<'_>, error: &LogError) -> PyErr {
    errors::coded(py, error.code(), error)
}

fn backup_error(py: Python<'_>, error: &BackupError) -> PyErr {
    errors::coded(py, error.code(), error)
}

/// Opens a view of a log, which may be damaged.
fn look(dir: &Path) -> Result<(View, Option<LogError>), LogError> {
    View::open_anyhow(Arc::new(RealDisk), dir)
}

fn words(trouble: [Option<LogError>; 2]) -> Option<String> {
    trouble.into_iter().flatten().next().map(|error| error.to_string())
}

/// Compares two runs, as JSON.
#[pyfunction]
#[pyo3(name = "_diff")]
pub(super) fn diff(
    #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
    a: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = argument::other)] other: Option<PathBuf>,
    b: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = argument::limit)] limit: usize,
) -> PyResult<Told<String>> {
    let (py, a, b) = (a.py(), identity(a)?, identity(b)?);
    let compared = interpreter::without(py, || {
        let (first, trouble) = look(&wal)?;
        let (second, more_trouble) = match other.map(|dir| look(&dir)).transpose()? {
            Some((view, trouble)) => (Some(view), trouble),
            None => (None, None),
        };
        let second = second.as_ref().unwrap_or(&first);
        let diff = history::diff((&first, a), (second, b), DiffSettings::limit(limit))?;
        Ok((diff, words([trouble, more_trouble])))
    });
    let (diff, trouble) = compared.map_err(|error: RunError| errors::run_error(py, &error))?;
    let text = serde_json::to_string(&diff);
    Ok((text.map_err(|error| PyValueError::new_err(error.to_string()))?, trouble))
}

/// Exports a run in another format, as text or into a file.
#[pyfunction]
#[pyo3(name = "_export")]
pub(super) fn export(
    #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
    run: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = argument::format)] format: String,
    #[pyo3(from_py_with = argument::to)] to: Option<PathBuf>,
) -> PyResult<Told<Option<String>>> {
    let (py, run) = (run.py(), identity(run)?);
    let format = match format.as_str() {
        "chrome-trace" => Format::ChromeTrace,
        "mermaid" => Format::Mermaid,
        "json" => Format::Json,
        other => {
            let message = format!(
                "a run is exported as \"chrome-trace\", \"mermaid\" or \"json\", not as {other:?}"
            );
            return Err(TiffanyError::BadArgument.err(py, message));
        }
    };
    let exported = interpreter::without(py, || {
        let (view, trouble) = look(&wal)?;
        let (text, unread) = match to {
            Some(path) => (None, history::export_to_file(&view, run, format, &path)?),
            None => {
                let mut text = Vec::new();
                let unread = history::export(&view, run, format, &mut text)?;
                (Some(String::from_utf8_lossy(&text).into_owned()), unread)
            }
        };
        Ok((text, words([trouble, unread])))
    });
    exported.map_err(|error| match error {
        ExportError::Log(error) => log_error(py, &error),
        ExportError::Output(error) => error.into(),
        #[allow(unreachable_patterns, reason = "causes may be added")]
        other => PyValueError::new_err(other.to_string()),
    })
}

/// Copies a log, at most at this many bytes per second; 0 means no limit, and `None` chooses a
/// suitable limit.
#[pyfunction]
#[pyo3(name = "_backup")]
pub(super) fn take_backup(
    py: Python<'_>,
    #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
    #[pyo3(from_py_with = argument::to)] to: PathBuf,
    #[pyo3(from_py_with = argument::rate)] rate: Option<f64>,
    watch: Option<Py<PyAny>>,
) -> PyResult<TakenParts> {
    let pace = match rate {
        Some(rate) if rate > 0.0 => Pace::bytes_per_second(rate as u64),
        Some(_) => Pace::full(),
        None => Pace::beside(&wal),
    };
    // The exception that ends it early: from a signal or from the progress callback.
    let ended = RefCell::new(None);
    let taken = interpreter::without(py, || {
        let mut watching = |done: u64, total: u64| {
            let Some(watch) = &watch else { return };
            let told = Python::attach(|py| watch.call1(py, (done, total)));
            if let Err(error) = told {
                ended.borrow_mut().get_or_insert(error);
            }
        };
        let stop = || {
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                ended.borrow_mut().get_or_insert(error);
            }
            ended.borrow().is_some()
        };
        let mut pace = pace.watched_by(&mut watching).stopped_by(&stop);
        backup::take(Arc::new(RealDisk), &wal, &to, &mut pace)
    });
    if let Some(error) = ended.into_inner() {
        return Err(error);
    }
    let taken = taken.map_err(|error| backup_error(py, &error))?;
    let Taken { runs, records, blobs, bytes, copied_runs, copied_blobs, copied_bytes, .. } = taken;
    let damaged = taken.damaged.into_iter().map(|damaged| (damaged.run.to_string(), damaged.what));
    let damaged = damaged.collect();
    let copied = (copied_runs, copied_blobs, copied_bytes);
    Ok((taken.taken, (runs, records, blobs, bytes), copied, taken.removed_files, damaged))
}

/// Creates a log from a backup.
#[pyfunction]
#[pyo3(name = "_restore")]
pub(super) fn restore(
    py: Python<'_>,
    #[pyo3(from_py_with = argument::backup)] backup: PathBuf,
    #[pyo3(from_py_with = argument::wal)] wal: PathBuf,
    #[pyo3(from_py_with = argument::force)] force: bool,
) -> PyResult<CheckedParts> {
    let over = if force { Over::OldLog } else { Over::Nothing };
    let restored =
        interpreter::without(py, || backup::restore(Arc::new(RealDisk), &backup, &wal, over));
    let restored = restored.map_err(|error| backup_error(py, &error))?;
    Ok(checked(restored.backup))
}

/// Reads and verifies a backup.
#[pyfunction]
#[pyo3(name = "_check_backup")]
pub(super) fn check_backup(
    py: Python<'_>,
    #[pyo3(from_py_with = argument::backup)] backup: PathBuf,
) -> PyResult<CheckedParts> {
    let read = interpreter::without(py, || backup::check(&RealDisk, &backup));
    read.map(checked).map_err(|error| backup_error(py, &error))
}

fn checked(checked: Checked) -> CheckedParts {
    let Checked { taken, runs, records, blobs, bytes, damaged, .. } = checked;
    (taken, (runs, records, blobs, bytes), damaged)
}
