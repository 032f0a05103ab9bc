//! Every code of the daemon has its section in the book, and every message its code and a next
//! step.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tiffany_daemon::{Crowd, DaemonError};

fn one_of_each() -> Vec<DaemonError> {
    let text = || String::from("x");
    vec![
        DaemonError::Demo(text()),
        DaemonError::Listen { address: "127.0.0.1:80".parse().unwrap(), why: text() },
        DaemonError::BadRequest(text()),
        DaemonError::TooLarge { most: 1 },
        DaemonError::TooMany { what: text(), wait: Duration::from_millis(1) },
        DaemonError::NotNow("is ending"),
        DaemonError::NoAnswer { patience: Duration::from_secs(1), turn: None },
        DaemonError::Busy(Crowd::Requests, 1),
        DaemonError::NoPath(text()),
        DaemonError::NoMethod(text()),
        DaemonError::Child(text()),
        DaemonError::ChildSlow(Duration::from_secs(1)),
        DaemonError::NotJson(text()),
        DaemonError::Start(text()),
        DaemonError::HeadTooLarge { most: 1 },
        DaemonError::TooLong { run: tiffany::Uuid::from_random(7), records: 1, bytes: 2 },
        DaemonError::Clock(1),
        DaemonError::NoDescriptor,
        DaemonError::FewDescriptors { limit: 1, required: 2 },
    ]
}

#[test]
fn every_error_has_its_code_and_a_next_step() {
    let errors = one_of_each();
    let codes: Vec<&str> = errors.iter().map(DaemonError::code).collect();
    assert_eq!(codes, DaemonError::CODES);
    for error in &errors {
        let (text, mark) = (error.to_string(), format!(" [{}]; ", error.code()));
        assert_eq!(text.matches(&mark).count(), 1, "{text}");
        assert!(text.starts_with(|c: char| !c.is_uppercase()), "{text}");
        assert!((400..600).contains(&error.status()));
    }
}

#[test]
fn every_code_has_a_section_in_the_book() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/daemon.md");
    let text = std::fs::read_to_string(page).unwrap();
    let mut seen = BTreeSet::new();
    for section in text.split("\n### TFY").skip(1) {
        let (number, body) = section.split_once('\n').unwrap();
        for part in ["**What happened.** ", "**Why.** ", "**What to do.** "] {
            assert_eq!(body.matches(part).count(), 1, "TFY{number} has no {part}");
        }
        seen.insert(format!("TFY{number}"));
    }
    let codes: BTreeSet<String> = DaemonError::CODES.iter().map(ToString::to_string).collect();
    assert_eq!(seen, codes);
}
