//! The settings of durable runs, as `python/tiffany/_settings.py` passes them.

use std::path::PathBuf;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::Builder;
use tiffany::durable::{Chunk, QueueSettings, Rate};

use crate::durable::language::PythonLanguage;
use crate::durable::retention::{self, RuleParts};
use crate::process::interpreter;
use crate::values::argument::Argument;
use crate::values::{argument, json};

/// Settings of durable runs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings<'py> {
    #[pyo3(from_py_with = argument::wal)]
    wal: Option<PathBuf>,
    functions: Py<PyAny>,
    /// The queues, each as its concurrency and its rate.
    queues: Bound<'py, PyDict>,
    on_chunk: Option<Py<PyAny>>,
    outward_only: bool,
    #[pyo3(from_py_with = argument::snapshot_every)]
    snapshot_every: u64,
    retention: Vec<RuleParts>,
    /// The interval of retention, in seconds.
    retention_every: f64,
}

type Queue = (Option<usize>, Option<(usize, f64)>);

impl Settings<'_> {
    pub(crate) fn has_log(&self) -> bool {
        self.wal.is_some()
    }

    pub(crate) fn apply(&self, py: Python<'_>, mut builder: Builder) -> PyResult<Builder> {
        if let Some(dir) = &self.wal {
            builder = builder.log_dir(dir);
        }
        builder = builder.snapshot_every(self.snapshot_every);
        let rules = retention::rules(self.retention.clone());
        builder = rules.into_iter().fold(builder, Builder::retention);
        builder = builder.retention_every(super::seconds(self.retention_every));
        builder = builder.language(Rc::new(PythonLanguage::new(self.functions.clone_ref(py))));
        for (name, queue) in &self.queues {
            let (concurrency, rate) = queue.extract::<Queue>()?;
            let rate = rate.map(|(starts, per)| Rate { starts, per: super::seconds(per) });
            builder = builder.queue(
                &String::read("a key of `queues`", &name)?,
                QueueSettings { concurrency, rate },
            );
        }
        if let Some(watch) = &self.on_chunk {
            let watch = watch.clone_ref(py);
            builder = builder.on_chunk(move |chunk| {
                interpreter::inside(|py| show(watch.bind(py), chunk));
            });
        }
        Ok(if self.outward_only { builder.record_outward_only() } else { builder })
    }
}

/// Passes a chunk to `on_chunk`. An exception in it is printed and has no other effect.
fn show(watch: &Bound<'_, PyAny>, chunk: &Chunk) {
    let py = watch.py();
    let shown = || {
        let class = py.import("tiffany._records")?.getattr("Chunk")?;
        let value = json::decode(py, &chunk.json)?;
        let Chunk { key, step, attempt, number, lost, .. } = chunk;
        watch.call1((class.call1((&**key, *step, *attempt, *number, *lost, value))?,))
    };
    if let Err(error) = shown() {
        error.write_unraisable(py, Some(watch));
    }
}
