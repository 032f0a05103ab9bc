//! Runs the tests on a copy of the sources with mistakes that they must detect. The copy is below
//! `target`, so that the product contains no mistakes: `crates/sim/mutations/edits.txt` lists the
//! edits, and `mutation.rs` next to it describes each mistake.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Shop;

/// The parts of the repository that the copy needs.
const COPIED: &[&str] = &[
    ".config",
    "Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "bench",
    "crates",
    "docs/src",
    "xtask",
];

/// The list of edits, and the module with the switches.
const EDITS: &str = "crates/sim/mutations/edits.txt";
const SWITCHES: (&str, &str) = ("crates/sim/mutations/mutation.rs", "crates/log/src/mutation.rs");
const TESTS: (&str, &str) = ("crates/sim/mutations/tests.rs", "crates/sim/tests/mutations.rs");

/// An edit of one file.
#[derive(Debug, PartialEq, Eq)]
struct Edit<'a> {
    file: &'a str,
    find: String,
    replace: String,
}

/// Makes the copy, and runs the tests of the tests in it.
pub(crate) fn check(shop: &Shop, _: &[String]) -> Result<(), String> {
    let copy = shop.target().join("mutated");
    for name in COPIED {
        mirror(&shop.root.join(name), &copy.join(name))
            .map_err(|error| format!("{name}: {error}"))?;
    }
    let manifest = with_own_version(&read(&shop.root.join("Cargo.toml"))?)?;
    write(&copy.join("Cargo.toml"), manifest.as_bytes())
        .map_err(|error| format!("Cargo.toml: {error}"))?;
    let edits = read(&shop.root.join(EDITS))?;
    let edits = parse(&edits)?;
    let mut files: Vec<&str> = edits.iter().map(|edit| edit.file).collect();
    files.dedup();
    for file in files {
        let mut text = read(&shop.root.join(file))?;
        for edit in edits.iter().filter(|edit| edit.file == file) {
            text = apply(&text, edit)?;
        }
        write(&copy.join(file), text.as_bytes()).map_err(|error| format!("{file}: {error}"))?;
    }
    for (from, to) in [SWITCHES, TESTS] {
        let text = read(&shop.root.join(from))?;
        write(&copy.join(to), text.as_bytes()).map_err(|error| format!("{to}: {error}"))?;
    }
    let mut tests: Command = shop.cargo(["nextest", "run", "--workspace", "--no-fail-fast"]);
    tests.args(["--test", "mutations"]);
    tests.current_dir(&copy).env("CARGO_TARGET_DIR", shop.target());
    shop.step("mistakes that the tests must notice", &mut tests)
}

/// Returns the workspace's manifest with another version. Cargo distinguishes crates in one target
/// directory by name, version and path below the workspace; with the same version, later builds
/// could link the crates with mistakes.
fn with_own_version(manifest: &str) -> Result<String, String> {
    let (own, copys) = ("version = \"0.1.0\"\nedition", "version = \"0.1.999\"\nedition");
    match manifest.matches(own).count() {
        1 => Ok(manifest.replacen(own, copys, 1)),
        _ => Err(format!("Cargo.toml doesn't have {own:?} once; correct xtask/src/mutations.rs")),
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file unless it has this content already, because cargo rebuilds what is newer.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, content)
}

/// Copies a file or a directory, and removes what no longer exists. Files that edits change are
/// left alone.
fn mirror(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_file() {
        return write(to, &fs::read(from)?);
    }
    fs::create_dir_all(to)?;
    let built = |name: &std::ffi::OsStr| name == "node_modules" || name == "target";
    for entry in fs::read_dir(from)?.flatten().filter(|entry| !built(&entry.file_name())) {
        mirror(&entry.path(), &to.join(entry.file_name()))?;
    }
    for entry in fs::read_dir(to)?.flatten() {
        let is_gone = !from.join(entry.file_name()).exists()
            && !to.ends_with("crates/log/src")
            && !to.ends_with("crates/sim/tests");
        match (is_gone, entry.path().is_dir()) {
            (true, true) => fs::remove_dir_all(entry.path())?,
            (true, false) => fs::remove_file(entry.path())?,
            (false, _) => {}
        }
    }
    Ok(())
}

/// Parses the list of edits.
fn parse(text: &str) -> Result<Vec<Edit<'_>>, String> {
    let mut edits: Vec<Edit<'_>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = || format!("{EDITS}:{}: {line}", number + 1);
        let (mark, rest) = line.split_at(line.len().min(1));
        match mark {
            "" | "#" => {}
            "@" => {
                edits.push(Edit { file: rest.trim(), find: String::new(), replace: String::new() })
            }
            "-" => {
                let edit = edits.last_mut().filter(|edit| edit.replace.is_empty());
                edit.ok_or_else(wrong)?.find.push_str(&format!("{rest}\n"));
            }
            "+" => edits.last_mut().ok_or_else(wrong)?.replace.push_str(&format!("{rest}\n")),
            _ => return Err(wrong()),
        }
    }
    Ok(edits)
}

/// Applies an edit to a text. Fails unless the text to replace occurs exactly once.
fn apply(text: &str, edit: &Edit<'_>) -> Result<String, String> {
    match text.matches(&edit.find).count() {
        1 => Ok(text.replacen(&edit.find, &edit.replace, 1)),
        count => Err(format!(
            "{EDITS} looks for this in {}, where it is {count} times; correct the list:\n{}",
            edit.file, edit.find
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_fits_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let list = read(&root.join(EDITS)).unwrap();
        let edits = parse(&list).unwrap();
        assert!(edits.len() > 20, "{}", edits.len());
        for edit in &edits {
            let text = read(&root.join(edit.file)).unwrap();
            apply(&text, edit).unwrap();
        }
        let switches = read(&root.join(SWITCHES.0)).unwrap();
        let named = switches.lines().filter_map(|line| line.trim().strip_prefix("Mutation::"));
        for mistake in named.map(|name| name.trim_end_matches(',')) {
            let is_used = edits.iter().any(|edit| edit.replace.contains(&format!("::{mistake}.")));
            assert!(is_used, "no edit makes the mistake {mistake}");
        }
    }

    #[test]
    fn the_copy_has_a_version_of_its_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = read(&root.join("Cargo.toml")).unwrap();
        assert_ne!(with_own_version(&manifest).unwrap(), manifest);
        assert!(with_own_version("").is_err());
    }

    #[test]
    fn an_edit_whose_text_does_not_occur_once_is_an_error() {
        let list = "# a\n@ f\n-b\n+c\n+d\n";
        let edits = parse(list).unwrap();
        let edit = Edit { file: "f", find: "b\n".into(), replace: "c\nd\n".into() };
        assert_eq!(edits, [edit]);
        assert_eq!(apply("a\nb\n", &edits[0]).unwrap(), "a\nc\nd\n");
        assert!(apply("a\n", &edits[0]).is_err());
        assert!(apply("b\nb\n", &edits[0]).is_err());
        assert!(parse("+a\n").is_err());
    }
}
