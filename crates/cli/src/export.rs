//! `log --format`: exports a run in formats of other programs.

use std::io::{self, Write};
use std::path::Path;

use super::Done;
use super::args::{ExportFormat, Log};
use super::error::{CliError, Ending, exit};
use super::json;
use super::out::Out;
use super::place::{Place, find_kept};
use tiffany_records::{ExportError, Format, export, export_to_file};

pub(super) fn export_run(place: &Place, mut out: Out, options: &Log, format: ExportFormat) -> Done {
    let sight = place.look_anyhow_for(&[&options.run])?;
    sight.warn();
    let run = find_kept(&sight.view, &options.run)?;
    let format = match format {
        ExportFormat::Perfetto => Format::ChromeTrace,
        ExportFormat::Mermaid => Format::Mermaid,
        ExportFormat::Json => Format::Json,
    };
    let unread = match &options.out {
        Some(path) => {
            let written = export_to_file(&sight.view, run, format, path);
            written.map_err(|error| ending(error, Some(path)))?
        }
        None => {
            let written = export(&sight.view, run, format, &mut ToOut(&mut out));
            written.map_err(|error| ending(error, None))?
        }
    };
    out.flush()?;
    if let Some(error) = unread {
        return Err(error.into());
    }
    out.end(if sight.trouble.is_some() { exit::FAILED } else { 0 })
}

fn ending(error: ExportError, path: Option<&Path>) -> Ending {
    match (error, path) {
        (ExportError::Log(error), _) => error.into(),
        (ExportError::Output(error), Some(path)) => {
            CliError::Output(format!("{}: {error}", path.display())).into()
        }
        (ExportError::Output(error), None) => error.into(),
    }
}

/// Standard output, with control characters of the log escaped. In an export they occur only inside
/// JSON strings, apart from line ends.
struct ToOut<'a>(&'a mut Out);

impl Write for ToOut<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in String::from_utf8_lossy(bytes).split_inclusive('\n') {
            let (text, end) = match line.strip_suffix('\n') {
                Some(text) => (text, "\n"),
                None => (line, ""),
            };
            self.0.put(json::escape(text).as_bytes())?;
            self.0.put(end.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
