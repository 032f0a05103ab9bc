//! Printing: tables for people, JSON objects for programs. Control sequences from files are
//! escaped.

use std::io::{self, Write};

use crate::{GuestError, clean, json_line};
use serde::Serialize;

/// Prints rows as columns below a heading.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), GuestError> {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(&head)
        .chain(rows)
        .map(|row| row.iter().map(|cell| clean(cell).into_owned()).collect())
        .collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).filter_map(width).collect();
    let mut text = String::new();
    for row in &all {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
        let line: String = cells.collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    write(&text)
}

/// Prints an object on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), GuestError> {
    write(&json_line(value))
}

/// Prints a line of text.
pub(crate) fn line_of(text: &str) -> Result<(), GuestError> {
    write(&format!("{}\n", clean(text)))
}

/// Prints text as it is.
pub(crate) fn write(text: &str) -> Result<(), GuestError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(failed(&error)),
        Ok(()) => Ok(()),
    }
}

fn failed(why: &dyn std::fmt::Display) -> GuestError {
    let text = format!("cannot write the output: {why} [TFY0068]; see the system's message");
    GuestError { code: "TFY0068".into(), text, exit: None }
}
