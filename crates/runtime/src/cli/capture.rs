//! `capture`: a test with the log of a run as its fixture. The test of a program in Rust runs the program's own command line; that of another language is made by
//! the language.

use std::path::Path;

use serde_json::json;

use super::args::Capture;
use super::error::{CliError, Ending};
use super::guest::{TestFile, TestOf};
use super::out::{Out, Style};
use super::place::{Place, find};
use super::summary::count;
use super::{Done, Started};
use crate::durable::capture::{
    CaptureError, Captured, Over, Redaction, capture_in, name_of, write_whole,
};
use crate::wal::LogError;

pub(super) fn capture(
    place: Place,
    mut out: Out,
    options: &Capture,
    started: &Started<'_>,
) -> Done {
    place.need_program("capture a run")?;
    let mut rules = options.redact.iter();
    let redaction = rules.try_fold(Redaction::new(), |redaction, rule| redaction.field(rule))?;
    let redaction = options.leave.iter().try_fold(redaction, |so_far, rule| so_far.leave(rule))?;
    let view = place.look()?;
    let run = find(&view, &options.run)?;
    let captured = capture_in(&mut place.rehearsal_room()?, &view, run, &redaction)?;
    let name = match &options.name {
        Some(given) => name_of(given).filter(|name| name == given).ok_or_else(|| {
            let what = format!(
                "`{given}` is no name for a test: it takes small letters, digits and `_`, and a letter first"
            );
            CliError::Usage(what)
        })?,
        None => captured.name(),
    };
    let fixture = format!("{name}.wal");
    let test = test(options, started, &captured, name, &fixture)?;
    let over = if options.force { Over::File } else { Over::Nothing };
    write(&options.out, &fixture, &captured, &test, over)?;
    let (fixture, file) = (options.out.join(fixture), options.out.join(&test.file));
    match out.json {
        true => out.json(&json!({
            "run": run.to_string(),
            "id": captured.id(),
            "fixture": fixture.display().to_string(),
            "test": file.display().to_string(),
            "records": captured.records(),
            "redacted": captured.redacted(),
            "command": test.command,
        }))?,
        false => {
            let records = count(captured.records(), "record");
            let redacted = match captured.redacted() {
                0 => String::new(),
                values => format!(", {} redacted", count(values as u64, "value")),
            };
            out.text(Style::Good, &format!("{}: {records}{redacted}", fixture.display()))?;
            out.text(Style::Good, &format!("{}: `{}`", file.display(), test.command))?;
        }
    }
    out.end(0)
}

fn test(
    options: &Capture,
    started: &Started<'_>,
    captured: &Captured,
    name: String,
    fixture: &str,
) -> Result<TestFile, Ending> {
    let redact = options.redact.iter().map(|rule| format!(" --redact {}", quoted(rule)));
    let leave = options.leave.iter().map(|rule| format!(" --leave {}", quoted(rule)));
    let rules: String = redact.chain(leave).collect();
    let made_by = format!("capture {}{rules}", quoted(&captured.id()));
    match (started.guest, &started.app) {
        (Some(guest), Some(app)) => {
            let (app, out, fixture) = (app.clone(), options.out.clone(), fixture.to_owned());
            Ok(guest.test(&TestOf { app, out, name, fixture, made_by })?)
        }
        _ => Ok(rust_test(&started.program(), options, &name, fixture, &made_by)),
    }
}

/// A word as a shell takes it, on one line.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./~@:".contains(c);
    let word = super::out::clean(word);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// A test that cargo finds in `tests`, or that is a module of one.
fn rust_test(
    program: &str,
    options: &Capture,
    name: &str,
    fixture: &str,
    made_by: &str,
) -> TestFile {
    let text = format!(
        r#"//! A run that `{program} {made_by}` captured: the program must make the calls that are in `{fixture}`, and come to the same end. None of its steps is done.
//!
//! If a change is meant, capture the run anew, with `--force`. If runs of the old code may be under way, let both live together by `patched`.

use std::io::Write;
use std::process::{{Command, Stdio}};

#[test]
fn {name}() {{
    let mut replay = Command::new(env!("CARGO_BIN_EXE_{program}"))
        .args(["replay", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let log = include_bytes!("{fixture}");
    replay.stdin.take().expect("it is piped").write_all(log).expect("the program reads it");
    let replayed = replay.wait_with_output().expect("the program ends");
    let text = [replayed.stdout, replayed.stderr].concat();
    assert!(replayed.status.success(), "{{}}", String::from_utf8_lossy(&text));
}}
"#
    );
    // In other directories it is a part of some test.
    let command = match options.out.ends_with("tests") {
        true => format!("cargo test --test {name}"),
        false => format!("cargo test {name}"),
    };
    TestFile { file: format!("{name}.rs"), text, command }
}

/// Writes both files, or none.
fn write(
    out: &Path,
    fixture: &str,
    captured: &Captured,
    test: &TestFile,
    over: Over,
) -> Result<(), CaptureError> {
    let made = std::fs::create_dir_all(out);
    made.map_err(|error| LogError::io("make the directory", out, &error))?;
    let (fixture, file) = (out.join(fixture), out.join(&test.file));
    let is_new = fixture.symlink_metadata().is_err();
    if over == Over::Nothing && file.symlink_metadata().is_ok() {
        return Err(CaptureError::FileThere(file));
    }
    captured.write(&fixture, over)?;
    let written = write_whole(&file, &test.text, over);
    if written.is_err() && is_new {
        // Nobody asked for a fixture without a test.
        let _ = std::fs::remove_file(&fixture);
    }
    written
}
