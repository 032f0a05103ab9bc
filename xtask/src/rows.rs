//! The book's table of rows, which shows for each clause of the specification the tests in Rust and
//! Python that check it. It is generated from the doc comments of the semantic tests, and never
//! written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::python_rows;
use crate::specification::{self, Paragraph, Place};

/// Test files whose tests always quote the same paragraph, with that paragraph.
const FILES: &[(&str, &str)] = &[
    ("runs", "Runs"),
    ("states", "States"),
    ("state", "States"),
    ("order", "Order"),
    ("policies", "Order"),
    ("spawn", "Spawn"),
    ("wait", "Wait"),
    ("gather", "Gather"),
    ("race", "Race"),
    ("cancel", "Cancel"),
    ("unwind", "Cancel"),
    ("promises", "Promises"),
    ("external", "Promises"),
    ("store", "Store"),
    ("time", "Time"),
    ("descriptors", "Descriptors"),
    ("sync", "Also there"),
    ("handlers", "Handlers"),
    ("failure", "Failure"),
    ("end", "The end"),
    ("deadlock", "Deadlock"),
    ("calls", "Calls"),
    ("calls_errors", "Calls"),
];

/// Punctuation that may surround the words of a clause.
const PUNCTUATION: [char; 6] = ['(', ')', ',', ';', ':', '.'];

/// The generated page, and the gaps: clauses without a test, and quotations of words that don't
/// exist.
pub(crate) struct Rows {
    pub(crate) page: String,
    pub(crate) gaps: Vec<String>,
}

/// A language, and the heading in `semantics.md` of the clauses that it has no tests for.
struct Language {
    name: &'static str,
    not_for: &'static str,
}

const LANGUAGES: [Language; 2] = [
    Language { name: "Rust", not_for: "Not for Rust" },
    Language { name: "Python", not_for: "Not for Python" },
];

/// The heading of the clauses that no language can test.
const NOT_YET: &str = "Not testable yet";

/// The tests in one language, by the clause that they quote.
#[derive(Default)]
struct Column {
    cells: BTreeMap<Place, Vec<String>>,
    others: Vec<String>,
    files: String,
    count: usize,
}

/// Generates the page. Each paragraph of the specification has a heading and a table of its
/// clauses, with the tests of each clause in each language.
pub(crate) fn generate(root: &Path) -> Rows {
    let book = |name: &str| fs::read_to_string(root.join("docs/src").join(name));
    let paragraphs = specification::paragraphs(&book("specification.md").unwrap_or_default());
    let semantics = book("semantics.md").unwrap_or_default();
    let mut gaps = Vec::new();
    let columns: Vec<Column> = LANGUAGES
        .iter()
        .zip([test_rows(root), python_rows(root)])
        .map(|(language, rows)| {
            let mut column = Column::default();
            column.add_rows(root, &paragraphs, rows, &mut gaps);
            column.add_untested(&paragraphs, &semantics, NOT_YET, &mut gaps);
            column.add_untested(&paragraphs, &semantics, language.not_for, &mut gaps);
            column
        })
        .collect();
    let mut page = String::from(
        "# Rows\n\n\
         Which clause of the [specification](specification.md) is checked by which test, in each language. This page is made from \
         the tests by `cargo xtask rows`; do not edit it.\n",
    );
    for (at, paragraph) in paragraphs.iter().enumerate() {
        page.push_str(&format!(
            "\n## {}\n\n| clause | Rust | Python |\n|---|---|---|\n",
            paragraph.title
        ));
        for (number, clause) in paragraph.clauses.iter().enumerate() {
            let mut tests = columns.iter().map(|column| column.cells.get(&(at, number)));
            for (language, tests) in LANGUAGES.iter().zip(tests.clone()) {
                if tests.is_none() {
                    gaps.push(format!(
                        "{}: no test of {} quotes {clause:?}, and it is not in the lists of docs/src/semantics.md",
                        paragraph.title, language.name
                    ));
                }
            }
            let [rust, python] = [tests.next(), tests.next()]
                .map(|tests| tests.flatten().map_or(&[][..], Vec::as_slice));
            for at in 0..rust.len().max(python.len()).max(1) {
                let clause = if at == 0 { cell(clause) } else { String::new() };
                let test = |tests: &[String]| tests.get(at).cloned().unwrap_or_default();
                page.push_str(&row_of(&[clause, test(rust), test(python)]));
            }
        }
    }
    if columns.iter().any(|column| !column.others.is_empty()) {
        page.push_str("\n## Beside the specification\n\n");
        for test in columns.iter().flat_map(|column| &column.others) {
            page.push_str(&format!("- {test}\n"));
        }
    }
    page.push_str(&match columns.iter().map(|column| column.count).sum::<usize>() {
        0 => "\nThere are no semantic tests.\n".to_string(),
        _ => {
            let files: String = columns.iter().map(|column| column.files.as_str()).collect();
            let counts = LANGUAGES.iter().zip(&columns);
            let counts = counts
                .map(|(language, column)| format!("{} tests in {}", column.count, language.name));
            format!("\n## Files\n\n{files}\n{}.\n", counts.collect::<Vec<_>>().join(", "))
        }
    });
    Rows { page, gaps }
}

/// Formats one line of a table.
fn row_of(cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| match cell.is_empty() {
        true => " |".to_string(),
        false => format!(" {cell} |"),
    });
    format!("|{}\n", cells.collect::<String>())
}

impl Column {
    fn add_rows(
        &mut self,
        root: &Path,
        paragraphs: &[Paragraph],
        files: Vec<(PathBuf, Vec<Row>)>,
        gaps: &mut Vec<String>,
    ) {
        for (file, rows) in files {
            let stem = stem(&file);
            let shown =
                file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            self.files.push_str(&format!("- `{stem}`: `{shown}`\n"));
            self.count += rows.len();
            let home = home(&stem);
            for row in rows {
                let cell = row.cell(&stem);
                let places = specification::find(paragraphs, home, &row.sentence);
                match (places.is_empty(), row.sentence.is_empty()) {
                    (false, _) => {
                        places.iter().for_each(|at| self.add(*at, cell.clone()));
                    }
                    (true, true) => self.others.push(cell),
                    (true, false) => gaps.push(format!(
                        "{shown}: `{}` quotes what the specification does not say: {:?}",
                        row.test, row.sentence
                    )),
                }
            }
        }
    }

    /// Adds the clauses that are not tested, with the reasons, from a list in `semantics.md`.
    fn add_untested(
        &mut self,
        paragraphs: &[Paragraph],
        semantics: &str,
        heading: &str,
        gaps: &mut Vec<String>,
    ) {
        for untested in specification::untested(semantics, heading) {
            let places = specification::find(paragraphs, Some(&untested.title), &untested.words);
            if !places.iter().any(|(at, _)| paragraphs[*at].title == untested.title) {
                let (title, words) = (&untested.title, &untested.words);
                gaps.push(format!("docs/src/semantics.md: the paragraph {title} has no {words:?}"));
            }
            for at in places {
                let clause = paragraphs[at.0].clauses[at.1].trim_matches(PUNCTUATION);
                let part = match untested.words.contains(clause) {
                    true => String::new(),
                    false => format!("{:?}: ", untested.words),
                };
                let what = match heading == NOT_YET {
                    true => "not testable yet: waits for ",
                    false => "not here: ",
                };
                self.add(at, format!("*{part}{what}{}*", untested.reason));
            }
        }
    }

    fn add(&mut self, at: Place, cell: String) {
        self.cells.entry(at).or_default().push(cell);
    }
}

/// Returns the paragraph that a test file quotes.
fn home(stem: &str) -> Option<&'static str> {
    let stem = stem.strip_prefix("test_").unwrap_or(stem);
    FILES.iter().find(|(name, _)| *name == stem).map(|(_, home)| *home)
}

/// Returns the Python tests by file.
fn python_rows(root: &Path) -> Vec<(PathBuf, Vec<Row>)> {
    let files = entries(&root.join("tests/python/semantics")).into_iter();
    let mut all: Vec<(PathBuf, Vec<Row>)> = files
        .filter(|file| stem(file).starts_with("test_"))
        .map(|file| {
            let source = fs::read_to_string(&file).unwrap_or_default();
            let tests = python_rows::read(&source).into_iter();
            (file, tests.map(|(name, doc)| row(&doc, &name)).collect())
        })
        .collect();
    all.sort_by_key(|(file, _)| (place(file), file.clone()));
    all
}

/// Returns the Rust tests by file, in the order of the paragraphs; other files come last.
fn test_rows(root: &Path) -> Vec<(PathBuf, Vec<Row>)> {
    let read = |file: PathBuf| {
        let rows = read_rows(&fs::read_to_string(&file).unwrap_or_default());
        (file, rows)
    };
    let semantic = test_files(&root.join("crates/runtime/tests")).into_iter().map(read);
    // The kernel tests what only it can see. Among its own tests, those with a quotation are rows.
    let inside = entries(&root.join("crates/kernel/src")).into_iter().map(read);
    let inside = inside.map(|(file, mut rows)| {
        rows.retain(|row| !row.sentence.is_empty());
        (file, rows)
    });
    let mut all: Vec<(PathBuf, Vec<Row>)> =
        semantic.chain(inside).filter(|(_, rows)| !rows.is_empty()).collect();
    all.sort_by_key(|(file, _)| (place(file), stem(file), file.clone()));
    all
}

/// A test and the words it checks.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// The quoted sentence; empty if the test quotes none.
    sentence: String,
    /// The part of the doc comment after the quotation.
    remark: String,
    test: String,
}

impl Row {
    fn cell(&self, file: &str) -> String {
        match self.remark.is_empty() {
            true => format!("`{file}::{}`", self.test),
            false => format!("`{file}::{}`: {}", self.test, cell(&self.remark)),
        }
    }
}

/// Returns the tests of one file, in order.
fn read_rows(source: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut doc: Vec<&str> = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim());
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]");
        } else if !line.is_empty() && !line.starts_with("//") {
            if let (true, Some(name)) = (is_test, function_name(line)) {
                rows.push(row(&doc.join(" "), name));
            }
            doc.clear();
            is_test = false;
        }
    }
    rows
}

fn row(doc: &str, test: &str) -> Row {
    let (sentence, rest) = quotation(doc).unwrap_or(("", doc));
    let remark = rest.trim_start_matches([':', ',', '.', ';', ' ']).trim();
    Row {
        sentence: sentence.replace("\\\"", "\""),
        remark: remark.to_string(),
        test: test.to_string(),
    }
}

/// Returns the name in `fn name(` or `pub async fn name(`.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_modifier = |word| matches!(word, "pub" | "async" | "const" | "unsafe" | "pub(crate)");
    if !before.split_whitespace().all(is_modifier) {
        return None;
    }
    after.split(['(', '<']).next().map(str::trim).filter(|name| !name.is_empty())
}

/// Returns the text between the quotation mark that a comment begins with and the next one, and the
/// rest. A quotation mark after a backslash is part of the text.
fn quotation(doc: &str) -> Option<(&str, &str)> {
    let inside = doc.strip_prefix('"')?;
    let mut escaped = false;
    for (at, letter) in inside.char_indices() {
        if letter == '"' && !escaped {
            return Some((&inside[..at], &inside[at + 1..]));
        }
        escaped = letter == '\\';
    }
    None
}

/// Escapes text for a table cell, so that it contains no bars or tags.
fn cell(text: &str) -> String {
    let mut out = String::new();
    let mut in_code = false;
    for letter in text.chars() {
        match letter {
            '`' => {
                in_code = !in_code;
                out.push('`');
            }
            '|' => out.push_str("\\|"),
            '<' if !in_code => out.push_str("&lt;"),
            other => out.push(other),
        }
    }
    out
}

/// Returns the Rust files in the directories `semantics…`, at any depth.
fn test_files(tests: &Path) -> Vec<PathBuf> {
    let is_semantic = |folder: &PathBuf| {
        folder.is_dir()
            && folder
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("semantics"))
    };
    let mut open: Vec<PathBuf> = entries(tests).into_iter().filter(is_semantic).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(entries(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn place(file: &Path) -> usize {
    let stem = stem(file);
    let stem = stem.strip_prefix("test_").unwrap_or(&stem);
    FILES.iter().position(|(known, _)| known == &stem).unwrap_or(FILES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(source: &str) -> Row {
        let mut rows = read_rows(source);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }

    #[test]
    fn a_row_is_the_quotation_and_the_name() {
        let row = one("/// \"`[]` for nothing\"\n#[test]\nfn nothing_gives_nothing() {\n");
        assert_eq!(row.sentence, "`[]` for nothing");
        assert_eq!(row.cell("gather"), "`gather::nothing_gives_nothing`");
    }

    #[test]
    fn the_text_after_the_quotation_is_a_remark() {
        let row = one("/// \"in order\": whatever\n/// comes first.\n#[test]\nfn order() {}\n");
        assert_eq!(row.sentence, "in order");
        assert_eq!(row.cell("file"), "`file::order`: whatever comes first.");
        let row = one("/// \"It ends.\" By itself.\n#[test]\nfn end() {}\n");
        assert_eq!((row.sentence.as_str(), row.remark.as_str()), ("It ends.", "By itself."));
    }

    #[test]
    fn a_quotation_can_span_lines_and_contain_quotation_marks() {
        let row =
            one("/// \"`named(\\\"…\\\", fut)`\n/// adds labels\": too.\n#[test]\nfn named() {}\n");
        assert_eq!(row.sentence, "`named(\"…\", fut)` adds labels");
        assert_eq!(row.remark, "too.");
    }

    #[test]
    fn a_test_without_a_quotation_is_listed_with_its_doc_comment() {
        let row = one("/// A value moves.\n#[test]\nfn moves() {}\n");
        assert_eq!(row.cell("file"), "`file::moves`: A value moves.");
        assert_eq!(row.sentence, "");
        assert_eq!(one("#[test]\nfn bare() {}\n").cell("file"), "`file::bare`");
    }

    #[test]
    fn other_attributes_do_not_matter_and_helpers_are_not_rows() {
        let source = "
            /// \"Helpers\" are none.
            fn helper() {}

            /// \"words\"
            #[cfg(target_os = \"linux\")]
            #[test]
            #[should_panic(expected = \"fn x\")]
            fn words() {
                let fn_like = 1; // fn inside() {}
            }

            /// \"data\"
            const DATA: &str = \"\";
            #[test]
            fn after_data() {}
        ";
        let names: Vec<Row> = read_rows(source);
        let names: Vec<(&str, &str)> =
            names.iter().map(|row| (row.test.as_str(), row.sentence.as_str())).collect();
        assert_eq!(names, [("words", "words"), ("after_data", "")]);
    }

    #[test]
    fn cells_are_escaped() {
        assert_eq!(cell("a | b <T> `<T>`"), "a \\| b &lt;T> `<T>`");
    }

    /// Generates the rows of a repository that consists of these files.
    fn rows_of(name: &str, files: &[(&str, &str)]) -> Rows {
        let root = std::env::temp_dir().join(format!("tiffany-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let rows = generate(&root);
        fs::remove_dir_all(&root).unwrap();
        rows
    }

    #[test]
    fn the_page_has_a_table_for_each_paragraph() {
        let rows = rows_of(
            "rows",
            &[
                (
                    "docs/src/specification.md",
                    "## Runs\n\n- per run;\n- a log.\n\n## Gather\n\n- all\n",
                ),
                (
                    "docs/src/semantics.md",
                    "\n## Not testable yet\n\n- Runs, \"a log\": it.\n\n## Not for Python\n\n- Runs, \"per run\": no.\n",
                ),
                (
                    "tests/python/semantics/test_gather.py",
                    "def test_all() -> None:\n    \"\"\" \"all\": of them.\"\"\"\n",
                ),
                ("tests/python/semantics/dialects.py", "def test_no():\n"),
                ("crates/runtime/tests/semantics/gather.rs", "/// \"all\"\n#[test]\nfn all() {}\n"),
                ("crates/runtime/tests/semantics/common.rs", "fn helper() {}\n"),
                ("crates/runtime/tests/semantics/aside.rs", "#[test]\nfn aside() {}\n"),
                (
                    "crates/runtime/tests/semantics_objects/deeper/runs.rs",
                    "/// \"per run\"\n#[test]\nfn one() {}\n/// \"per run\"\n#[test]\nfn two() {}\n",
                ),
                ("crates/runtime/tests/logging.rs", "#[test]\nfn no() {}\n"),
                (
                    "crates/kernel/src/state.rs",
                    "#[test]\nfn no() {}\n/// \"all\"\n#[test]\nfn yes() {}\n",
                ),
            ],
        );
        let expected = "\
            \n## Runs\n\n| clause | Rust | Python |\n|---|---|---|\n\
            | per run; | `runs::one` | *not here: no* |\n| | `runs::two` | |\n\
            | a log. | *not testable yet: waits for it* | *not testable yet: waits for it* |\n\
            \n## Gather\n\n| clause | Rust | Python |\n|---|---|---|\n\
            | all | `state::yes` | `test_gather::test_all`: of them. |\n| | `gather::all` | |\n\
            \n## Beside the specification\n\n- `aside::aside`\n\
            \n## Files\n\n\
            - `runs`: `crates/runtime/tests/semantics_objects/deeper/runs.rs`\n\
            - `state`: `crates/kernel/src/state.rs`\n\
            - `gather`: `crates/runtime/tests/semantics/gather.rs`\n\
            - `aside`: `crates/runtime/tests/semantics/aside.rs`\n\
            - `test_gather`: `tests/python/semantics/test_gather.py`\n\
            \n5 tests in Rust, 1 tests in Python.\n";
        assert!(rows.page.ends_with(expected), "{}", rows.page);
        assert_eq!(rows.gaps, [""; 0]);
    }

    #[test]
    fn gaps_are_reported() {
        let rows = rows_of(
            "gaps",
            &[
                ("docs/src/specification.md", "## Runs\n\n- per run;\n- in order.\n"),
                ("docs/src/semantics.md", "\n## Not testable yet\n\n- Runs, \"a log\": it.\n"),
                (
                    "crates/runtime/tests/semantics/runs.rs",
                    "/// \"per run\"\n#[test]\nfn one() {}\n/// \"for all\"\n#[test]\nfn two() {}\n",
                ),
            ],
        );
        let told = [
            "crates/runtime/tests/semantics/runs.rs: `two` quotes what the specification does not say: \"for all\"",
            "docs/src/semantics.md: the paragraph Runs has no \"a log\"",
            "docs/src/semantics.md: the paragraph Runs has no \"a log\"",
            "Runs: no test of Python quotes \"per run;\", and it is not in the lists of docs/src/semantics.md",
            "Runs: no test of Rust quotes \"in order.\", and it is not in the lists of docs/src/semantics.md",
            "Runs: no test of Python quotes \"in order.\", and it is not in the lists of docs/src/semantics.md",
        ];
        assert_eq!(rows.gaps, told);
    }

    #[test]
    fn without_tests_the_page_says_so() {
        let page = generate(Path::new("/nowhere/at/all")).page;
        assert!(page.ends_with("There are no semantic tests.\n"));
    }
}
