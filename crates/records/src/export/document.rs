//! Exports all records of a run as one JSON document, one record per line, with the contents of
//! blobs inlined.

use std::io::{self, Write};

use serde_json::{Value, json};
use tiffany_kernel::Uuid;

use super::ExportError;
use crate::words::resolve;
use tiffany_log::{LogError, LogLine, View};

pub(super) struct Document<'a> {
    to: &'a mut dyn Write,
    view: &'a View,
    is_first: bool,
}

impl<'a> Document<'a> {
    pub(super) fn begin(
        to: &'a mut dyn Write,
        view: &'a View,
        run: Uuid,
    ) -> io::Result<Document<'a>> {
        let generation = view.run(run).map_or(1, |entry| entry.generation);
        let head = format!("{{\"run\":\"{run}\",\"generation\":{generation},\"records\":[\n");
        to.write_all(head.as_bytes())?;
        Ok(Document { to, view, is_first: true })
    }

    pub(super) fn add(&mut self, record: &LogLine<'_>) -> Result<(), ExportError> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { ",\n" };
        let text = |text: &str| Value::from(text).to_string();
        let mut line = format!(
            "{comma}{{\"seq\":{},\"ts\":{},\"type\":{},\"tid\":{}",
            record.seq,
            text(record.ts),
            text(record.kind),
            record.tid.0
        );
        for (name, value) in record.fields().filter(|(name, _)| *name != "crc") {
            line.push_str(&format!(",{}:", text(name)));
            match value.starts_with("{\"$blob\":") || value.starts_with("{\"$json\":") {
                true => match resolve(self.view, value) {
                    Ok(value) => line.push_str(&value.to_string()),
                    Err(error) => {
                        line.push_str(&json!({ "$unread": error.to_string() }).to_string());
                    }
                },
                // Copied digit by digit, so that numbers stay as they were written.
                false => line.push_str(value),
            }
        }
        line.push('}');
        Ok(self.to.write_all(line.as_bytes())?)
    }

    pub(super) fn end(self, unread: Option<LogError>) -> io::Result<()> {
        let unread = unread.map_or(Value::Null, |error| error.to_string().into());
        self.to.write_all(format!("\n],\"unread\":{unread}}}\n").as_bytes())
    }
}
