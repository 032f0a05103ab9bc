//! The book's page of the log format against the codes of the log's errors: each has a section with its three
//! parts, and every message carries its code and a next step.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tiffany::Uuid;
use tiffany::wal::{BlobHash, Broken, Flaw, LogError, NotRegular};

fn one_of_each() -> Vec<LogError> {
    let (run, path) = (Uuid::from_random(1), Path::new("/log/x").to_path_buf());
    let full = LogError::Full { act: "write", path: path.clone() };
    vec![
        LogError::Locked { dir: path.clone(), owner: "process 7 on a".into() },
        LogError::Io { act: "sync", path: path.clone(), why: "input/output error".into() },
        full.clone(),
        LogError::ReadOnly { act: "make", path: path.clone() },
        LogError::Vanished { act: "open", path: path.clone() },
        LogError::Poisoned(Arc::new(full)),
        LogError::DamagedRun {
            run,
            broken: Broken { record: 3, offset: 512, flaw: Flaw::Checksum },
        },
        LogError::DamagedCommitLog { path: path.clone(), offset: 4096, block: 9 },
        LogError::DamagedIndex { path: path.clone(), offset: 48 },
        LogError::Newer { path: path.clone(), version: 2 },
        LogError::MissingBlob(BlobHash::of(b"a")),
        LogError::DamagedBlob(BlobHash::of(b"a")),
        LogError::UnknownRun(run),
        LogError::OutOfOrder { run, generation: 1, seq: 4 },
        LogError::NoRecord { run, seq: 9, records: 4 },
        LogError::HalfRestored(path.clone()),
        LogError::Mismatch { run, record: 7, offset: 900 },
        LogError::NoDescriptor { act: "open", path: path.clone() },
        LogError::Link { act: "open", path: path.clone() },
        LogError::NoCommitLog(path.clone()),
        LogError::LostBlocks { commit: path.clone(), runs: 2 },
        LogError::DamagedEnd { path: path.clone(), offset: 20 },
        LogError::NotRegular { act: "open", path, what: NotRegular("a FIFO") },
    ]
}

#[test]
fn every_error_has_its_code_and_a_next_step() {
    let errors = one_of_each();
    let codes: Vec<&str> = errors.iter().map(LogError::code).collect();
    assert_eq!(codes, LogError::CODES);
    for error in &errors {
        let text = error.to_string();
        let mark = format!(" [{}]; ", error.code());
        assert_eq!(text.matches(&mark).count(), 1, "{text}");
        assert!(text.starts_with(|c: char| !c.is_uppercase()), "{text}");
    }
}

#[test]
fn every_code_has_a_section_in_the_book() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/wal-format.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut seen = BTreeSet::new();
    for section in text.split("\n### TFY").skip(1) {
        let (number, body) = section.split_once('\n').unwrap();
        let body = body.split("\n## ").next().unwrap();
        for part in ["**What happened.** ", "**Why.** ", "**What to do.** "] {
            assert_eq!(body.matches(part).count(), 1, "TFY{number} has no {part}");
        }
        seen.insert(format!("TFY{number}"));
    }
    let known: BTreeSet<String> = LogError::CODES.iter().map(|code| (*code).to_string()).collect();
    assert_eq!(seen, known);
}
