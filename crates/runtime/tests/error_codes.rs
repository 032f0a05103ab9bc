//! The book's page of error codes against the codes there are: none lacks a section, and no section
//! lacks its code.

use std::path::Path;

use tiffany::ErrorKind;

/// The sections of the page: the heading, and what is under it.
fn sections() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/errors.md");
    let text = std::fs::read_to_string(&page)
        .unwrap_or_else(|error| panic!("the book lacks {}: {error}", page.display()));
    let sections = text.split("\n## ").skip(1);
    let cut = sections.map(|section| section.split_once('\n').unwrap_or((section, "")));
    cut.map(|(heading, body)| (heading.trim().to_string(), body.to_string())).collect()
}

#[test]
fn every_code_has_a_section_and_every_section_a_code() {
    let sections = sections();
    let headings: Vec<&str> = sections.iter().map(|(heading, _)| heading.as_str()).collect();
    let codes: Vec<&str> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(headings, codes, "the headings of docs/src/errors.md against ErrorKind::ALL");
}

#[test]
fn every_section_names_its_kind_and_has_its_three_parts() {
    for (kind, (heading, body)) in ErrorKind::ALL.iter().zip(sections()) {
        let first = format!("`ErrorKind::{kind:?}`: ");
        assert!(body.trim_start().starts_with(&first), "{heading} does not begin with {first}");
        for part in ["**What happened.** ", "**Why.** ", "**What to do.** "] {
            assert_eq!(body.matches(part).count(), 1, "{heading} has no {part}");
        }
    }
}

#[test]
fn codes_are_in_order_and_none_is_twice() {
    for pair in ErrorKind::ALL.windows(2) {
        assert!(pair[0].code() < pair[1].code(), "{:?}, {:?}", pair[0], pair[1]);
    }
    let is_code = |code: &str| code.len() == 7 && code[3..].parse::<u32>().is_ok();
    assert!(ErrorKind::ALL.iter().all(|kind| is_code(kind.code())));
}
