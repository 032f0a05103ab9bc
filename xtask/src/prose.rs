//! Checks the prose of the README, CONTRIBUTING.md, ARCHITECTURE.md and the book: words that are no longer used, and long
//! lines. Code, tables, quotations and the targets of links are not prose. The rules are in CONTRIBUTING.md, "Writing".

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that are no longer used, each with what to write instead.
const RETIRED: &[(&str, &str)] = &[
    ("anew", "again, from the start"),
    ("belong into", "belong in"),
    ("belongs into", "belongs in"),
    ("bring it back", "resume it"),
    ("bring them back", "resume them"),
    ("bringing back", "resuming"),
    ("brought back", "resumed"),
    ("brings back", "resumes"),
    ("are over", "are finished"),
    ("be over", "be finished"),
    ("is over", "is finished"),
    ("was over", "was finished"),
    ("were over", "were finished"),
    ("come to an end", "end"),
    ("comes to its end", "ends"),
    ("for ever", "forever"),
    ("function of python", "Python function"),
    ("functions of python", "Python functions"),
    ("go on", "continue, keep running"),
    ("goes on", "continues, keeps running"),
    ("going on", "continuing, running, happening"),
    ("went on", "continued, kept running"),
    ("has the directory", "owns the directory"),
    ("has the log", "owns the directory"),
    ("have the directory", "own the directory"),
    ("is no", "is not a"),
    ("are no", "are not"),
    ("nobody", "no task, no process, no person"),
    ("not to be had", "not available"),
    ("to be had", "available"),
    ("of one's own", "of your own"),
    ("so many", "a number, a limit"),
    ("somebody", "a person, a process, a user"),
    ("somebody else", "another person, another process"),
    ("stand still", "don't progress"),
    ("stands still", "doesn't progress"),
    ("standing still", "not progressing"),
    ("stands under", "is below"),
    ("what there is", "a noun"),
    ("who may", "access control, or the role that may"),
    ("who wants", "anyone who wants, or a noun"),
    ("who waits", "a task that waits, or another noun"),
    ("whoever", "anyone who, or a noun"),
    ("write it down", "record it"),
    ("writes down", "records"),
    ("written down", "recorded"),
    ("wrote down", "recorded"),
];

/// Phrases that contain a retired one and are good English.
const ALLOWED: &[&str] = &["there is no", "there are no", "is no longer", "are no longer"];

/// The most characters of a line.
const MAX_LINE: usize = 110;

/// Pages that are not checked: generated ones, and the specification, whose sentences are quoted by tests.
const NOT_PROSE: &[&str] = &["docs/src/rows.md", "docs/src/specification.md"];

/// A line or a phrase that should be rewritten.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    what: String,
}

/// Files with prose, as paths below the root: three at the top, and the pages of the book.
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

/// Everything in a text that should be rewritten.
fn findings(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, text) in prose_lines(text) {
        let length = without_quotations(&without_targets(text)).chars().count();
        if length > MAX_LINE {
            found.push(Finding { line, what: format!("{length} characters; wrap it at 100") });
        }
    }
    for (line, paragraph) in paragraphs(text) {
        let words = words(&without_quotations(&without_code(&without_targets(&paragraph))));
        let words = without_allowed(words);
        for (phrase, instead) in RETIRED {
            if contains_phrase(&words, phrase) {
                found.push(Finding { line, what: format!("\"{phrase}\": write {instead}") });
            }
        }
    }
    found.sort_by_key(|finding| finding.line);
    found
}

/// The lines outside code blocks, tables and comments, with their numbers.
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

/// Lines that belong together, joined, because a phrase may be wrapped; each with the number of its first line.
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
        // A blank line and a heading end a paragraph.
        next = match line.trim().is_empty() || line.starts_with('#') {
            true => 0,
            false => number + 1,
        };
    }
    paragraphs
}

/// A text without what is between backticks.
fn without_code(text: &str) -> String {
    outside(text, '`')
}

/// A text without what is between quotation marks.
fn without_quotations(text: &str) -> String {
    outside(text, '"')
}

/// The parts of a text outside pairs of a mark; an odd mark at the end takes nothing away.
fn outside(text: &str, mark: char) -> String {
    let parts: Vec<&str> = text.split(mark).collect();
    let pairs = (parts.len() - 1) / 2;
    let kept = parts.iter().enumerate().filter(|(at, _)| at % 2 == 0 || *at > 2 * pairs);
    // A code word stands for something, so the words around it are not neighbours.
    kept.map(|(_, part)| *part).collect::<Vec<_>>().join(" \u{b7} ")
}

/// A text whose links have lost their targets: `[a page](page.md)` becomes `[a page]`.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| {
        let after = part.split_once(')').map_or("", |(_, after)| after);
        text + "]" + after
    })
}

/// The words of a text in lower case. Punctuation ends a phrase, so it is a word of its own.
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

/// The words with an empty one in the place of each phrase that is allowed.
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

    /// Pages that have not been rewritten yet. Whatever is below a directory counts as one.
    const NOT_YET: &[&str] = &[];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn findings_in(file: &str) -> Vec<String> {
        let text = fs::read_to_string(root().join(file)).expect("a page");
        let found = findings(&text).into_iter();
        found.map(|finding| format!("{file}:{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn the_book_uses_no_retired_words_and_no_long_lines() {
        let files = files(&root());
        assert!(files.len() > 30, "only {} files", files.len());
        let checked = files.iter().filter(|file| !NOT_YET.iter().any(|not| file.starts_with(not)));
        let found: Vec<String> = checked.flat_map(|file| findings_in(file)).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn pages_that_are_clean_are_not_excepted() {
        let files = files(&root());
        let clean = |not: &&&str| {
            let below = files.iter().filter(|file| file.starts_with(**not));
            below.flat_map(|file| findings_in(file)).next().is_none()
        };
        let clean: Vec<_> = NOT_YET.iter().filter(clean).collect();
        assert!(clean.is_empty(), "take these off the list: {clean:?}");
    }

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = findings(text);
        let found: Vec<(usize, &str)> = found
            .iter()
            .map(|finding| (finding.line, finding.what.split(": ").next().unwrap()))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn retired_words_are_found_in_prose() {
        check("The run goes on.", &[(1, "\"goes on\"")]);
        check("A title\n\nThe run\ngoes\non.", &[(3, "\"goes on\"")]);
        check("- one\n- Goes on, it.", &[(2, "\"goes on\"")]);
        check("# What there is", &[(1, "\"what there is\"")]);
        check("[it is over](page.md)", &[(1, "\"is over\"")]);
    }

    #[test]
    fn what_only_looks_like_a_retired_word_is_not_found() {
        check("It goes. On Monday it is `over`; overdue, agoes on.", &[]);
        check("```text\nThe run goes on\n```\n\n| a cell | goes on |", &[]);
        check("The words \"goes on\" and `is no`.", &[]);
        check("[a page](goes on.md)", &[]);
        check("There is no log; it is no longer there.", &[]);
        check("the run goes\n\non", &[]);
    }

    #[test]
    fn long_lines_are_found() {
        let long = "word ".repeat(23);
        check(&long, &[(1, "115 characters; wrap it at 100")]);
        check(&format!("| {long} |"), &[]);
        check(&format!("```\n{long}\n```"), &[]);
        check(&format!("[page]({})", long.replace(' ', "/")), &[]);
        check(&format!("- Runs, \"{long}\"{}", ": why."), &[]);
    }
}
