//! Exports a run in formats that other programs can show: its timeline for Perfetto, its tasks as a
//! Mermaid graph, its records as one JSON document. The run is read once, and written while it is
//! read.

mod chrome;
mod document;
mod graph;
mod slices;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tiffany_kernel::Uuid;

use crate::record::Record;
use tiffany_log::{LogError, LogLine, View};

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The timeline, in the trace event format: one track for each task. Perfetto
    /// (<https://ui.perfetto.dev>) and `chrome://tracing` open it.
    ChromeTrace,
    /// The graph of tasks as a Mermaid flowchart: which task spawned which, and which waits for
    /// which.
    Mermaid,
    /// All records, with large payloads inlined.
    Json,
}

/// The error of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The export could not be written.
    #[error("cannot write the export: {0}")]
    Output(#[from] io::Error),
}

/// Writes a run to `to`. Unreadable parts of a damaged run are left out. The error is then
/// returned, and the output mentions it where the format has a place for that.
///
/// ```
/// # use std::sync::Arc;
/// # use tiffany_log::sim::SimDisk;
/// # use tiffany_log::{Batch, Chain, RecordType, Settings, Stamp, View, Writer};
/// # use tiffany_kernel::{Tid, Uuid};
/// use tiffany_records::{Format, export};
/// # let disk = Arc::new(SimDisk::new());
/// # let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
/// # let (mut writer, _) = Writer::open(disk.clone(), "/log".as_ref(), settings)?;
/// # let mut batch = Batch::new();
/// # let run = Uuid::from_random(7);
/// # let mut chain = Chain::new(run);
/// # let now = Stamp::from_unix_nanos(0);
/// # batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("id", "x").str("function", "order").json("input", "1").end();
/// # writer.commit(&mut batch, |_| ())?;
/// # drop(writer);
/// let view = View::open(disk, "/log".as_ref())?;
/// let mut graph = Vec::new();
/// export(&view, run, Format::Mermaid, &mut graph)?;
/// assert!(String::from_utf8_lossy(&graph).contains("t1[\"1 order\"]"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn export(
    view: &View,
    run: Uuid,
    format: Format,
    to: &mut dyn Write,
) -> Result<Option<LogError>, ExportError> {
    match format {
        Format::ChromeTrace => {
            let mut trace = chrome::Trace::begin(to)?;
            let unread = each_record(view, run, |line| Ok(trace.add(line, &Record::read(line))?))?;
            trace.end(run, unread.clone())?;
            Ok(unread)
        }
        Format::Mermaid => {
            let mut graph = graph::Graph::default();
            let unread = each_record(view, run, |line| {
                graph.add(line.tid.0, &Record::read(line));
                Ok(())
            })?;
            to.write_all(graph.text(unread.as_ref()).as_bytes())?;
            Ok(unread)
        }
        Format::Json => {
            let mut document = document::Document::begin(to, view, run)?;
            let unread = each_record(view, run, |line| document.add(line))?;
            document.end(unread.clone())?;
            Ok(unread)
        }
    }
}

/// Writes a run to a file. The file is written under a temporary name, and renamed when it is
/// complete.
pub fn export_to_file(
    view: &View,
    run: Uuid,
    format: Format,
    path: &Path,
) -> Result<Option<LogError>, ExportError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    let written = (|| {
        let mut file = BufWriter::with_capacity(1 << 16, File::create(new)?);
        let unread = export(view, run, format, &mut file)?;
        file.flush()?;
        std::fs::rename(new, path)?;
        Ok(unread)
    })();
    if written.is_err() {
        // It may not exist.
        let _ = std::fs::remove_file(new);
    }
    written
}

/// Visits the readable records. Returns the error if not all of them could be read.
fn each_record(
    view: &View,
    run: Uuid,
    mut each: impl FnMut(&LogLine<'_>) -> Result<(), ExportError>,
) -> Result<Option<LogError>, ExportError> {
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        match record {
            Ok(record) => each(&record)?,
            Err(error @ LogError::DamagedRun { .. }) => return Ok(Some(error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(view.refused(run).cloned())
}
