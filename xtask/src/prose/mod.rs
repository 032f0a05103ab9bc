//! Checks the prose of the README, CONTRIBUTING.md, ARCHITECTURE.md, the book and the sources:
//! words that are no longer used, and, in pages, long lines. Code, tables, quotations and the
//! targets of links are not prose; in sources, comments and string literals are. The rules are in
//! CONTRIBUTING.md, "Writing".

mod retired;
mod source_texts;

use std::fs;
use std::path::{Path, PathBuf};

use retired::{ALLOWED, RETIRED};
use source_texts::{Language, Texts};

/// The maximum number of characters in a line.
const MAX_LINE: usize = 110;

/// Pages that are not checked: generated ones, and the specification, because tests quote its
/// sentences.
const NOT_PROSE: &[&str] = &["docs/src/rows.md", "docs/src/specification.md"];

/// Directories of sources whose comments and messages are checked.
const SOURCES: &[&str] = &[
    "crates",
    "bench",
    "xtask",
    "fuzz",
    "python",
    "examples",
    "tests",
    "dashboard/src",
    "dashboard/e2e",
    "dashboard/tests",
];

/// The sources with findings, each with the number that it may have, which may only become smaller.
#[cfg(test)]
const NOT_YET: &str = include_str!("not_yet.txt");

/// A line or a phrase that should be rewritten.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    what: String,
}

/// Returns the files with prose, as paths below the root: three at the top, and the pages of the
/// book.
fn files(root: &Path) -> Vec<String> {
    let top = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(PathBuf::from);
    let book = ["docs/src", "docs/src/adr"].into_iter().flat_map(|dir| {
        let entries = fs::read_dir(root.join(dir)).expect("a directory of the book");
        entries.map(move |entry| Path::new(dir).join(entry.expect("an entry").file_name()))
    });
    let pages = top.into_iter().chain(book);
    let mut files: Vec<String> = pages
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| path.to_string_lossy().replace('\\', "/"))
        .filter(|path| !NOT_PROSE.contains(&path.as_str()))
        .collect();
    files.sort();
    files
}

/// Returns the source files whose language is known, as paths below the root.
pub(crate) fn sources(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for dir in SOURCES {
        add_sources(root, Path::new(dir), &mut files);
    }
    files.sort();
    files
}

fn add_sources(root: &Path, dir: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(dir)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let path = dir.join(&name);
        let not_ours = ["assets", "target", "corpus", "artifacts", "node_modules", "__pycache__"];
        let is_ours = !not_ours.iter().any(|other| name == *other)
            && !name.to_string_lossy().starts_with('.');
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if is_ours {
                add_sources(root, &path, files);
            }
        } else if let Some(path) = path.to_str()
            && Language::of(path).is_some()
        {
            files.push(path.into());
        }
    }
}

/// Prints all findings in the files below some paths; without paths, in all files.
pub(crate) fn check(root: &Path, paths: &[String]) -> Result<(), String> {
    let paths: Vec<&str> = paths.iter().map(|path| path.trim_start_matches("./")).collect();
    let files = files(root).into_iter().chain(sources(root));
    let chosen =
        |file: &str| paths.is_empty() || paths.iter().any(|path| Path::new(file).starts_with(path));
    let mut count = 0;
    let mut seen = 0;
    for file in files.filter(|file| chosen(file)) {
        seen += 1;
        for finding in findings_in(root, &file)? {
            println!("{finding}");
            count += 1;
        }
    }
    match (seen, count) {
        (0, _) => Err(format!("no page and no source file is below {}", paths.join(", "))),
        (_, 0) => Ok(()),
        _ => Err(format!("{count} findings; the rules are in CONTRIBUTING.md, \"Writing\"")),
    }
}

/// Returns all findings in a file, each with its place.
fn findings_in(root: &Path, file: &str) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
    let found = match Language::of(file) {
        Some(language) => source_findings(&text, language, texts_of(file)),
        None => findings(&text),
    };
    let found = found.into_iter();
    Ok(found.map(|finding| format!("{file}:{}: {}", finding.line, finding.what)).collect())
}

/// Returns which texts of a source file are checked. String literals of tests are test data.
fn texts_of(file: &str) -> Texts {
    let is_test =
        ["tests", "e2e", "fuzz"].iter().any(|dir| file.split('/').any(|part| part == *dir));
    // The table of retired words consists of them.
    match is_test || file == "xtask/src/prose/retired.rs" {
        true => Texts::Comments,
        false => Texts::All,
    }
}

/// Returns the files that may have findings, each with their number.
#[cfg(test)]
fn not_yet() -> std::collections::BTreeMap<&'static str, usize> {
    let entry = |line: &'static str| {
        let (file, count) = line.split_once(' ')?;
        Some((file, count.parse().ok()?))
    };
    NOT_YET.lines().filter_map(entry).collect()
}

/// Returns the retired phrases in the comments and string literals of a source file.
fn source_findings(source: &str, language: Language, which: Texts) -> Vec<Finding> {
    let mut found = Vec::new();
    for text in source_texts::texts(source, language, which) {
        for finding in retired_phrases(&text.text) {
            found.push(Finding { line: text.line + finding.line - 1, ..finding });
        }
    }
    found
}

/// Returns all findings in a page.
fn findings(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, text) in prose_lines(text) {
        let length = without_quotations(&without_targets(text)).chars().count();
        if length > MAX_LINE {
            found.push(Finding { line, what: format!("{length} characters; wrap it at 100") });
        }
    }
    found.extend(retired_phrases(text));
    found.sort_by_key(|finding| finding.line);
    found
}

/// Returns the retired phrases in a text.
fn retired_phrases(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, paragraph) in paragraphs(text) {
        let words = words(&without_quotations(&without_code(&without_targets(&paragraph))));
        let words = without_allowed(words);
        for (phrase, instead) in RETIRED {
            if contains_phrase(&words, phrase) {
                found.push(Finding { line, what: format!("\"{phrase}\": write {instead}") });
            }
        }
    }
    found
}

/// Returns the lines outside code blocks, tables and comments, with their numbers.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return false;
        }
        !in_code && !line.starts_with('|') && !line.starts_with("<!--")
    })
}

/// Joins lines into paragraphs, because a phrase may be wrapped. Each has the number of its first
/// line.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut next = 0;
    for (number, line) in prose_lines(text) {
        let starts = ["- ", "#"].iter().any(|mark| line.trim_start().starts_with(mark));
        match paragraphs.last_mut() {
            Some((_, text)) if number == next && !starts && !line.trim().is_empty() => {
                text.push(' ');
                text.push_str(line.trim());
            }
            _ => paragraphs.push((number, line.trim().to_string())),
        }
        // A blank line or a heading ends a paragraph.
        next = match line.trim().is_empty() || line.starts_with('#') {
            true => 0,
            false => number + 1,
        };
    }
    paragraphs
}

/// Removes what is between backticks.
fn without_code(text: &str) -> String {
    outside(text, '`')
}

/// Removes what is between quotation marks.
fn without_quotations(text: &str) -> String {
    outside(text, '"')
}

/// Returns the parts of a text outside pairs of a mark. An unpaired mark at the end removes
/// nothing.
fn outside(text: &str, mark: char) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let pairs = (parts.len() - 1) / 2;
    let kept = parts.iter().enumerate().filter(|(at, _)| at % 2 == 0 || *at > 2 * pairs);
    // Code stands for a word, so the words around it are not neighbors.
    kept.map(|(_, part)| *part).collect::<Vec<_>>().join(" \u{b7} ")
}

/// Removes the targets of links: `[a page](page.md)` becomes `[a page]`.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| {
        let after = part.split_once(')').map_or("", |(_, after)| after);
        text + "]" + after
    })
}

/// Returns the words of a text in lower case. Punctuation ends a phrase, so it counts as a word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.to_lowercase().split_whitespace() {
        let word = part.trim_matches(|c: char| !c.is_alphanumeric());
        words.push(word.to_string());
        if part.ends_with(['.', ',', ';', ':', '!', '?', ')']) {
            words.push(String::new());
        }
    }
    words
}

/// Replaces each allowed phrase with an empty word.
fn without_allowed(mut words: Vec<String>) -> Vec<String> {
    for allowed in ALLOWED {
        let allowed: Vec<&str> = allowed.split(' ').collect();
        while let Some(at) = words.windows(allowed.len()).position(|window| window == allowed) {
            words.splice(at..at + allowed.len(), [String::new()]);
        }
    }
    words
}

fn contains_phrase(words: &[String], phrase: &str) -> bool {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    words.windows(phrase.len()).any(|window| window == phrase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn the_book_uses_no_retired_words_and_no_long_lines() {
        let root = root();
        let files = files(&root);
        assert!(files.len() > 30, "only {} files", files.len());
        let found = files.iter().flat_map(|file| findings_in(&root, file).expect("a page"));
        let found: Vec<String> = found.collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn sources_use_no_more_retired_words_than_they_did() {
        let root = root();
        let files = sources(&root);
        assert!(files.len() > 700, "only {} files", files.len());
        let not_yet = not_yet();
        let mut more = Vec::new();
        for file in &files {
            let found = findings_in(&root, file).expect("a source file");
            let allowed = not_yet.get(file.as_str()).copied().unwrap_or(0);
            if found.len() > allowed {
                more.push(format!("{file}: {allowed} allowed\n  {}", found.join("\n  ")));
            }
        }
        assert!(more.is_empty(), "{}", more.join("\n"));
    }

    #[track_caller]
    fn check_page(text: &str, expected: &[(usize, &str)]) {
        let found = findings(text);
        let found: Vec<(usize, &str)> = found
            .iter()
            .map(|finding| (finding.line, finding.what.split(": ").next().unwrap()))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn retired_words_are_found_in_prose() {
        check_page("The run goes on.", &[(1, "\"goes on\"")]);
        check_page("A title\n\nThe run\ngoes\non.", &[(3, "\"goes on\"")]);
        check_page("- one\n- Goes on, it.", &[(2, "\"goes on\"")]);
        check_page("# What there is", &[(1, "\"what there is\"")]);
        check_page("[it is over](page.md)", &[(1, "\"is over\"")]);
    }

    #[test]
    fn phrases_that_only_resemble_a_retired_one_are_not_found() {
        check_page("It goes. On Monday it is `over`; overdue, agoes on.", &[]);
        check_page("```text\nThe run goes on\n```\n\n| a cell | goes on |", &[]);
        check_page("The words \"goes on\" and `is no`.", &[]);
        check_page("[a page](goes on.md)", &[]);
        check_page("There is no log; it is no longer there.", &[]);
        check_page("the run goes\n\non", &[]);
    }

    #[test]
    fn long_lines_are_found() {
        let long = "word ".repeat(23);
        check_page(&long, &[(1, "115 characters; wrap it at 100")]);
        check_page(&format!("| {long} |"), &[]);
        check_page(&format!("```\n{long}\n```"), &[]);
        check_page(&format!("[page]({})", long.replace(' ', "/")), &[]);
        check_page(&format!("- Runs, \"{long}\"{}", ": why."), &[]);
    }
}
