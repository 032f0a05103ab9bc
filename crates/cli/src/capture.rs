//! `replay --capture`: writes a test with the log of a run as its fixture. The test of a Rust
//! program runs the program's own command line; other languages generate their own tests.

use std::path::Path;

use serde_json::json;

use super::args::CaptureOptions;
use super::error::{CliError, Ending};
use super::guest::{TestFile, TestOf};
use super::out::{Out, Style};
use super::place::{Place, find_kept};
use super::summary::count;
use super::{Done, Started};
use tiffany::command::{CaptureError, Captured, Over, Redaction, capture_in, name_of, write_whole};
use tiffany_daemon::shell_word;
use tiffany_log::LogError;

pub(super) fn capture(
    place: Place,
    mut out: Out,
    (run, dir): (&str, &Path),
    options: &CaptureOptions,
    started: &Started<'_>,
) -> Done {
    place.need_program("capturing a run")?;
    let mut rules = options.redact.iter();
    let redaction = rules.try_fold(Redaction::new(), |redaction, rule| redaction.field(rule))?;
    let redaction = options.leave.iter().try_fold(redaction, |so_far, rule| so_far.leave(rule))?;
    let view = place.look_for(&[run])?;
    let run = find_kept(&view, run)?;
    let captured = capture_in(&mut place.rehearsal_room()?, &view, run, &redaction)?;
    let name = match &options.name {
        Some(given) => name_of(given).filter(|name| name == given).ok_or_else(|| {
            let what = format!(
                "`{given}` is not a name for a test: use small letters, digits and `_`, and begin with a letter"
            );
            CliError::Usage(what)
        })?,
        None => captured.name(),
    };
    let fixture = format!("{name}.wal");
    let test = test((options, dir), started, &captured, name, &fixture)?;
    let over = if options.force { Over::File } else { Over::Nothing };
    write(dir, &fixture, &captured, &test, over)?;
    let (fixture, file) = (dir.join(fixture), dir.join(&test.file));
    let entry = match started.app {
        None => entry(dir, &file),
        Some(_) => None,
    };
    match out.json {
        true => out.json(&json!({
            "run": run.to_string(),
            "id": captured.id(),
            "fixture": fixture.display().to_string(),
            "test": file.display().to_string(),
            "records": captured.records(),
            "redacted": captured.redacted(),
            "command": test.command,
            "manifest": entry,
        }))?,
        false => {
            let records = count(captured.records(), "record");
            let redacted = match captured.redacted() {
                0 => String::new(),
                values => format!(", {} redacted", count(values as u64, "value")),
            };
            out.text(Style::Good, &format!("{}: {records}{redacted}", fixture.display()))?;
            let once = if entry.is_some() { ", once Cargo.toml has" } else { "" };
            out.text(Style::Good, &format!("{}: `{}`{once}", file.display(), test.command))?;
            for line in entry.iter().flat_map(|entry| entry.lines()) {
                out.text(Style::Plain, &format!("    {line}"))?;
            }
        }
    }
    out.end(0)
}

fn test(
    (options, dir): (&CaptureOptions, &Path),
    started: &Started<'_>,
    captured: &Captured,
    name: String,
    fixture: &str,
) -> Result<TestFile, Ending> {
    let redact = options.redact.iter().map(|rule| format!(" --redact {}", typed(rule)));
    let leave = options.leave.iter().map(|rule| format!(" --leave {}", typed(rule)));
    let rules: String = redact.chain(leave).collect();
    let made_by = format!(
        "replay {} --capture {}{rules}",
        typed(&captured.id()),
        typed(&dir.to_string_lossy())
    );
    match (started.guest, &started.app) {
        (Some(guest), Some(app)) => {
            let (app, out, fixture) = (app.clone(), dir.to_path_buf(), fixture.to_owned());
            Ok(guest.test(&TestOf { app, out, name, fixture, made_by })?)
        }
        _ => Ok(rust_test(&started.program(), &name, fixture, &made_by)),
    }
}

/// Quotes a word for a shell, on one line.
fn typed(word: &str) -> String {
    shell_word(&super::out::clean(word)).into_owned()
}

/// Returns the entry that the manifest needs for cargo to find the test, or `None` if the test is
/// in the `tests` directory of a package.
fn entry(out: &Path, file: &Path) -> Option<String> {
    let is_package = |dir: &Path| dir.join("Cargo.toml").exists();
    let is_here = |dir: &Path| matches!(dir.to_str(), Some("" | "."));
    let package = out.parent().filter(|_| out.ends_with("tests"));
    if package.is_some_and(|package| is_here(package) || is_package(package)) {
        return None;
    }
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let package = whole.ancestors().skip(1).find(|dir| is_package(dir));
    let path = package.and_then(|package| whole.strip_prefix(package).ok()).unwrap_or(file);
    // A JSON string is also a TOML string.
    let text = |path: &Path| json!(path.display().to_string()).to_string();
    let name = text(Path::new(file.file_stem()?));
    Some(format!("[[test]]\nname = {name}\npath = {}", text(path)))
}

/// Generates a test that cargo finds in `tests`, or through an entry in the manifest.
fn rust_test(program: &str, name: &str, fixture: &str, made_by: &str) -> TestFile {
    let text = format!(
        r#"//! A run that `{program} {made_by}` captured: the program must make the calls that are in `{fixture}`, and come to the same end. None of its steps is done.
//!
//! If a change is intended, capture the run again with `--force`. If runs of the old code may be
//! unfinished, keep them working with `patched`.

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
    let command = format!("cargo test --test {name}");
    TestFile { file: format!("{name}.rs"), text, command }
}

/// Writes both files or neither.
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
        // A fixture without its test is useless.
        let _ = std::fs::remove_file(&fixture);
    }
    written
}
