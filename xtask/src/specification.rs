//! Parses the clauses of the specification, and finds those that contain the words of a test's
//! quotation.

/// A heading of the specification with its clauses.
pub(crate) struct Paragraph {
    pub(crate) title: String,
    pub(crate) clauses: Vec<String>,
}

/// A clause that is not tested, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Untested {
    pub(crate) title: String,
    pub(crate) words: String,
    pub(crate) reason: String,
}

/// The place of a clause: the index of its paragraph, and its index there.
pub(crate) type Place = (usize, usize);

/// Parses the headings and the points under them.
pub(crate) fn paragraphs(page: &str) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            all.push(Paragraph { title: title.trim().into(), clauses: Vec::new() });
        } else if let (Some(clause), Some(last)) = (line.strip_prefix("- "), all.last_mut()) {
            last.clauses.push(clause.trim().into());
        }
    }
    all
}

/// Parses the points under a heading. Each is a paragraph's title, words of it, and the reason why
/// it is not tested: `- Failure, "recorded": the log.` A point may be wrapped.
pub(crate) fn untested(page: &str, heading: &str) -> Vec<Untested> {
    let after = page.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_default();
    let list = after.split("\n## ").next().unwrap_or_default().replace("\n  ", " ");
    let points = list.lines().filter_map(|line| line.strip_prefix("- "));
    points
        .filter_map(|point| {
            let (title, rest) = point.split_once(", \"")?;
            let (words, reason) = rest.split_once("\": ")?;
            Some(Untested {
                title: title.into(),
                words: words.into(),
                reason: reason.trim_end_matches('.').into(),
            })
        })
        .collect()
}

/// Returns the clauses that a quotation overlaps: in its home paragraph, or otherwise in the first
/// paragraph that contains all of its words. Gaps in a quotation are `…` or anything in square
/// brackets.
pub(crate) fn find(all: &[Paragraph], home: Option<&str>, quotation: &str) -> Vec<Place> {
    let parts = parts(quotation);
    let is_home = |paragraph: &Paragraph| home == Some(paragraph.title.as_str());
    let (first, others): (Vec<usize>, Vec<usize>) =
        (0..all.len()).partition(|at| is_home(&all[*at]));
    let places = first.into_iter().chain(others).filter_map(|at| {
        let clauses = find_in(&all[at], &parts)?;
        Some(clauses.into_iter().map(|clause| (at, clause)).collect())
    });
    places.into_iter().next().unwrap_or_default()
}

fn find_in(paragraph: &Paragraph, parts: &[String]) -> Option<Vec<usize>> {
    // The text of the paragraph, and the offset of the end of each clause.
    let mut text = String::new();
    let mut ends = Vec::new();
    for clause in &paragraph.clauses {
        text.push_str(&plain(clause));
        text.push(' ');
        ends.push(text.len());
    }
    let mut touched = Vec::new();
    let mut from = 0;
    for part in parts {
        let start = words_at(&text, part, from).or_else(|| words_at(&text, part, 0))?;
        from = start + part.len();
        let first = ends.iter().position(|end| start < *end)?;
        let last = ends.iter().position(|end| from <= *end)?;
        touched.extend(first..=last);
    }
    touched.sort_unstable();
    touched.dedup();
    (!touched.is_empty()).then_some(touched)
}

/// Finds these words in a text, but not as parts of longer words.
fn words_at(text: &str, words: &str, from: usize) -> Option<usize> {
    let in_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let found = text[from..].match_indices(words).map(|(at, _)| from + at);
    found.into_iter().find(|at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + words.len()..].chars().next();
        !in_word(before) && !in_word(after)
    })
}

/// Splits a quotation at its gaps.
fn parts(quotation: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut in_brackets = false;
    for letter in plain(quotation).chars() {
        match letter {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ if in_brackets => {}
            '…' => {}
            other => {
                parts.last_mut().expect("there is one").push(other);
                continue;
            }
        }
        parts.push(String::new());
    }
    let trim = |part: &String| part.trim_matches(|c: char| !c.is_alphanumeric()).to_string();
    parts.iter().map(trim).filter(|part| !part.is_empty()).collect()
}

/// Removes emphasis and repeated spaces.
fn plain(text: &str) -> String {
    text.replace('*', "").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# S\n\n- no clause\n\n## Wait\n\n- **Wait** gives (shared: many);\n\
                        - on itself is an error;\n- else blocks.\n\n## Race\n\n- the first wins\n\
                        - on nothing is an error.\n";

    #[test]
    fn clauses_belong_to_their_headings() {
        let all = paragraphs(PAGE);
        let shape: Vec<(&str, usize)> =
            all.iter().map(|paragraph| (&*paragraph.title, paragraph.clauses.len())).collect();
        assert_eq!(shape, [("Wait", 3), ("Race", 2)]);
    }

    #[test]
    fn a_quotation_overlaps_the_clauses_that_have_its_words() {
        let all = paragraphs(PAGE);
        let find = |home, words| find(&all, home, words);
        assert_eq!(find(None, "Wait gives […] else blocks."), [(0, 0), (0, 2)]);
        assert_eq!(find(None, "(shared: many); on itself"), [(0, 0), (0, 1)]);
        assert_eq!(find(None, "is an error"), [(0, 1)]);
        assert_eq!(find(Some("Race"), "is an error"), [(1, 1)]);
        assert_eq!(find(Some("Race"), "on itself … error"), [(0, 1)]);
        assert_eq!(find(None, "its"), [], "a part of a word is none");
        assert_eq!(find(None, "is a mistake"), []);
        assert_eq!(find(None, "…"), []);
    }

    #[test]
    fn untested_clauses_are_a_list() {
        let page = "- Wait, \"no\": yes.\n\n## Not testable yet\n\nWords.\n\n\
                    - Wait, \"else blocks\": the log.\n\n## After\n\n- Race, \"no\": no.\n";
        let expected = Untested {
            title: "Wait".into(),
            words: "else blocks".into(),
            reason: "the log".into(),
        };
        assert_eq!(untested(page, "Not testable yet"), [expected]);
        assert_eq!(untested(page, "Nowhere"), []);
    }
}
