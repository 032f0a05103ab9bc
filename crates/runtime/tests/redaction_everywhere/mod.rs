//! Secrets are put wherever a program can put one; a process with rules of redaction works with them, fails, panics, is killed and goes on. Then every byte that was
//! written is searched: files of the log, its segments and blobs, backups, exports, a captured run, and what went to standard output and error.

mod program;
mod secrets;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use crate::durable_kit::Dir;
use crate::test_process;
use secrets::{PLACES, found_in};
use tiffany::Runtime;
use tiffany::durable::run_id;
use tiffany::history::{Format, export_to_file};
use tiffany::testing::{Over, Redaction, capture};
use tiffany::wal::backup::{self, Pace};
use tiffany::wal::{RealDisk, View};

/// Tells a process of this test what it is to do.
const PART: &str = "TIFFANY_REDACTION_PART";

fn process(part: &str, dir: &Path, format: &str, without: &str) -> Output {
    test_process::command(module_path!(), "no_byte_that_is_written_has_a_secret")
        .env(PART, part)
        .env(program::DIR, dir)
        .env(program::FORMAT, format)
        .env(program::WITHOUT, without)
        .output()
        .expect("it starts")
}

/// Everything that a program with these rules leaves: files, and what it said.
fn all_that_is_left(dir: &Dir, format: &str, without: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let log = dir.0.join("log");
    std::fs::create_dir_all(&dir.0).expect("it can be made");
    let killed = process("first", &log, format, without);
    assert!(!killed.status.success(), "it was to be killed:\n{}", shown(&killed));
    let over = process("second", &log, format, without);
    assert!(over.status.success(), "it was to come to its end:\n{}", shown(&over));
    let retained = process("third", &log, format, without);
    assert!(retained.status.success(), "{}", shown(&retained));

    let mut pace = Pace::full();
    backup::take(Arc::new(RealDisk), &log, &dir.0.join("backup"), &mut pace).expect("it is taken");
    let view = View::open(Arc::new(RealDisk), &log).expect("it opens");
    for (format, name) in
        [(Format::Json, "json"), (Format::Mermaid, "mermaid"), (Format::ChromeTrace, "trace")]
    {
        let to = dir.0.join(format!("export.{name}"));
        export_to_file(&view, run_id("shop-1"), format, &to).expect("it is exported");
    }
    let small = Runtime::builder().register("small", program::small);
    let captured =
        capture(small, &log, run_id("small-1"), &Redaction::new()).expect("it is captured");
    captured.write(&dir.0.join("captured.wal"), Over::Nothing).expect("it is written");

    let mut all = Vec::new();
    files(&dir.0, &mut all);
    for (process, said) in [("first", killed), ("second", over), ("third", retained)] {
        all.push((format!("stdout of the {process}").into(), said.stdout));
        all.push((format!("stderr of the {process}").into(), said.stderr));
    }
    all
}

fn shown(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{}\n{out}\n{err}", output.status)
}

/// All files below a directory.
pub(crate) fn files_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    files(dir, &mut all);
    all
}

fn files(dir: &Path, all: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).expect("it can be listed") {
        let path = entry.expect("it can be read").path();
        match path.is_dir() {
            true => files(&path, all),
            false => all.push((path.clone(), std::fs::read(&path).expect("it can be read"))),
        }
    }
}

#[test]
fn no_byte_that_is_written_has_a_secret() {
    if let Ok(part) = std::env::var(PART) {
        return program::play(&part);
    }
    assert!(PLACES.len() >= 20);
    for format in ["text", "json"] {
        let dir = Dir::new();
        let all = all_that_is_left(&dir, format, "");
        let mut found: Vec<String> = Vec::new();
        for (path, bytes) in &all {
            found.extend(
                found_in(bytes).iter().map(|place| format!("{place} in {}", path.display())),
            );
        }
        assert!(found.is_empty(), "{format}: {found:#?}");
        // It was looked where something is.
        let has = |part: &str, what: &str| {
            let mut these = all.iter().filter(|(path, _)| path.to_string_lossy().contains(part));
            these.any(|(_, bytes)| memchr::memmem::find(bytes, what.as_bytes()).is_some())
        };
        for (part, what) in [
            ("wal/blobs/", "[redacted]"),
            ("commit", "[redacted]"),
            (".wal", "[redacted]"),
            ("backup", "[redacted]"),
            ("export.json", "[redacted]"),
            ("captured.wal", "[redacted]"),
            ("stderr of the first", "panicked"),
            ("stderr of the first", "[redacted]"),
            ("stderr of the second", "[redacted]"),
            ("stdout of the second", "[redacted]"),
        ] {
            assert!(has(part, what), "{format}: nothing in {part} has {what}");
        }
    }
}

#[test]
fn without_a_rule_every_secret_is_found_somewhere() {
    let dir = Dir::new();
    let part = std::env::var(PART);
    assert!(part.is_err(), "this test has no parts");
    let all = all_that_is_left(&dir, "text", "all");
    let found: BTreeSet<&str> = all.iter().flat_map(|(_, bytes)| found_in(bytes)).collect();
    for place in PLACES {
        assert!(
            found.contains(place),
            "{place} is written nowhere, so the test shows nothing of it"
        );
    }
}
