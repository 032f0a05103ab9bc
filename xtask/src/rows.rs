//! The book's table of rows: which sentence of the specification is checked by which test. It is read
//! from the doc comments of the semantic tests, line by line, and never written by hand.

use std::fs;
use std::path::{Path, PathBuf};

/// Files in the order of the specification's paragraphs; those not named here come after them.
const PARAGRAPHS: &[&str] = &[
    "runs",
    "states",
    "order",
    "policies",
    "spawn",
    "wait",
    "gather",
    "race",
    "cancel",
    "unwind",
    "promises",
    "external",
    "store",
    "time",
    "descriptors",
    "sync",
    "handlers",
    "failure",
    "end",
    "deadlock",
    "calls",
    "calls_errors",
    "bad_input",
    "determinism",
];

/// The page: a heading for each file of tests, and under it a table of its rows.
pub(crate) fn generate(root: &Path) -> String {
    let mut page = String::from(
        "# Rows\n\n\
         Which sentence of the semantics is checked by which test. This page is made from the tests by \
         `cargo xtask rows`; do not edit it.\n",
    );
    let mut files = test_files(&root.join("crates/runtime/tests"));
    files.sort_by_key(|file| (place(file), stem(file), file.clone()));
    let mut count = 0;
    for file in files {
        let rows = read_rows(&fs::read_to_string(&file).unwrap_or_default());
        if rows.is_empty() {
            continue;
        }
        count += rows.len();
        let shown = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        page.push_str(&format!("\n## {}\n\n`{shown}`\n\n", title(&stem(&file))));
        page.push_str("| sentence | test |\n|---|---|\n");
        for row in rows {
            page.push_str(&row.line());
        }
    }
    page.push_str(&match count {
        0 => "\nThere are no semantic tests.\n".to_string(),
        count => format!("\n{count} rows.\n"),
    });
    page
}

/// One test and the words it checks.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// The quoted sentence; empty where the test quotes none.
    sentence: String,
    /// What the doc comment says after the quotation.
    remark: String,
    test: String,
}

impl Row {
    fn line(&self) -> String {
        let sentence =
            if self.sentence.is_empty() { "—".to_string() } else { cell(&self.sentence) };
        match self.remark.is_empty() {
            true => format!("| {sentence} | `{}` |\n", self.test),
            false => format!("| {sentence} | `{}`: {} |\n", self.test, cell(&self.remark)),
        }
    }
}

/// The tests of one file, in its order.
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

/// The name in `fn name(` or `pub async fn name(`.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_modifier = |word| matches!(word, "pub" | "async" | "const" | "unsafe" | "pub(crate)");
    if !before.split_whitespace().all(is_modifier) {
        return None;
    }
    after.split(['(', '<']).next().map(str::trim).filter(|name| !name.is_empty())
}

/// The text between the quotation mark a comment begins with and the next one, and what follows. A
/// quotation mark after a backslash is part of the text.
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

/// Text that stays inside its cell: no bar ends it, and nothing in it looks like a tag.
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

/// The Rust files in the folders `semantics…`, at any depth.
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
    PARAGRAPHS.iter().position(|known| *known == stem).unwrap_or(PARAGRAPHS.len())
}

/// `bad_input` as a heading: `Bad input`.
fn title(stem: &str) -> String {
    let words = stem.replace('_', " ");
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => words,
    }
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
        assert_eq!(row.line(), "| `[]` for nothing | `nothing_gives_nothing` |\n");
    }

    #[test]
    fn what_follows_the_quotation_is_a_remark() {
        let row = one("/// \"in order\": whatever\n/// comes first.\n#[test]\nfn order() {}\n");
        assert_eq!(row.line(), "| in order | `order`: whatever comes first. |\n");
        let row = one("/// \"It ends.\" By itself.\n#[test]\nfn end() {}\n");
        assert_eq!((row.sentence.as_str(), row.remark.as_str()), ("It ends.", "By itself."));
    }

    #[test]
    fn a_quotation_can_run_over_lines_and_hold_quotation_marks() {
        let row =
            one("/// \"`named(\\\"…\\\", fut)`\n/// adds labels\": too.\n#[test]\nfn named() {}\n");
        assert_eq!(row.sentence, "`named(\"…\", fut)` adds labels");
        assert_eq!(row.remark, "too.");
    }

    #[test]
    fn a_test_without_a_quotation_is_listed_with_what_it_says() {
        let row = one("/// A value moves.\n#[test]\nfn moves() {}\n");
        assert_eq!(row.line(), "| — | `moves`: A value moves. |\n");
        assert_eq!(one("#[test]\nfn bare() {}\n").line(), "| — | `bare` |\n");
    }

    #[test]
    fn other_attributes_do_not_matter_and_helpers_are_no_rows() {
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
    fn cells_keep_to_themselves() {
        assert_eq!(cell("a | b <T> `<T>`"), "a \\| b &lt;T> `<T>`");
    }

    #[test]
    fn titles_are_words() {
        assert_eq!(title("bad_input"), "Bad input");
        assert_eq!(title(""), "");
    }

    #[test]
    fn the_page_has_a_table_for_each_file_in_the_order_of_the_paragraphs() {
        let root = std::env::temp_dir().join(format!("tiffany-rows-{}", std::process::id()));
        let one = root.join("crates/runtime/tests/semantics");
        let two = root.join("crates/runtime/tests/semantics_objects/deeper");
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        fs::write(one.join("gather.rs"), "/// \"all\"\n#[test]\nfn all() {}\n").unwrap();
        fs::write(one.join("common.rs"), "fn helper() {}\n").unwrap();
        fs::write(one.join("aside.rs"), "#[test]\nfn aside() {}\n").unwrap();
        fs::write(two.join("runs.rs"), "/// \"per run\"\n#[test]\nfn per_run() {}\n").unwrap();
        fs::write(root.join("crates/runtime/tests/logging.rs"), "#[test]\nfn no() {}\n").unwrap();
        let page = generate(&root);
        fs::remove_dir_all(&root).unwrap();
        let expected = "\
            \n## Runs\n\n`crates/runtime/tests/semantics_objects/deeper/runs.rs`\n\n\
            | sentence | test |\n|---|---|\n| per run | `per_run` |\n\
            \n## Gather\n\n`crates/runtime/tests/semantics/gather.rs`\n\n\
            | sentence | test |\n|---|---|\n| all | `all` |\n\
            \n## Aside\n\n`crates/runtime/tests/semantics/aside.rs`\n\n\
            | sentence | test |\n|---|---|\n| — | `aside` |\n\
            \n3 rows.\n";
        assert!(page.ends_with(expected), "{page}");
    }

    #[test]
    fn without_tests_the_page_says_so() {
        let page = generate(Path::new("/nowhere/at/all"));
        assert!(page.ends_with("There are no semantic tests.\n"));
    }
}
