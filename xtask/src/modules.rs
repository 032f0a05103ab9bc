//! Finds the dependencies between the modules of a crate, and cycles of them. It reads the paths in
//! the sources (`crate::…`, `super::…`, and names that `lib.rs` re-exports); unit tests and
//! comments don't count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The top-level modules of a crate, each with the modules it depends on.
pub(crate) type Needs = BTreeMap<String, BTreeSet<String>>;

/// Reads the sources below `src`.
pub(crate) fn needs(src: &Path) -> Needs {
    let files: Vec<(Vec<String>, PathBuf)> = sources(src, &[]);
    let modules: BTreeSet<String> =
        files.iter().filter_map(|(module, _)| module.first().cloned()).collect();
    let lib = fs::read_to_string(src.join("lib.rs")).unwrap_or_default();
    let re_exported = re_exports(&tokens(&code_only(&lib)), &modules);
    let mut needs: Needs = modules.iter().map(|module| (module.clone(), BTreeSet::new())).collect();
    for (module, file) in files.iter().filter(|(module, _)| !module.is_empty()) {
        let text = fs::read_to_string(file).unwrap_or_default();
        for path in paths(&without_tests(tokens(&code_only(&text)))) {
            let Some(first) = resolve(module, &path) else { continue };
            let needed = modules.get(&first).or_else(|| re_exported.get(&first));
            if let Some(needed) = needed.filter(|needed| **needed != module[0]) {
                needs.get_mut(&module[0]).expect("a module").insert(needed.clone());
            }
        }
    }
    needs
}

/// Returns the cycles: sets of two or more modules that all depend on each other, directly or
/// indirectly.
pub(crate) fn circles(needs: &Needs) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|module| (module, reachable(needs, module))).collect();
    let mut circles: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (module, reached) in &reach {
        let back = reached.iter().filter(|other| reach[*other].contains(module));
        let circle: BTreeSet<String> = back.map(|other| (*other).clone()).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// Returns the modules that a module depends on, directly or indirectly.
fn reachable<'a>(needs: &'a Needs, from: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&String> = needs[from].iter().collect();
    while let Some(module) = left.pop() {
        if reached.insert(module) {
            left.extend(&needs[module]);
        }
    }
    reached
}

/// Returns the source files below a directory, with the paths of their modules.
fn sources(dir: &Path, module: &[String]) -> Vec<(Vec<String>, PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            found.extend(sources(&path, &[module, &[name]].concat()));
            continue;
        }
        match name.strip_suffix(".rs") {
            None | Some("tests") => {}
            Some("mod" | "lib" | "main") => found.push((module.to_vec(), path)),
            Some(stem) => found.push(([module, &[stem.to_string()]].concat(), path)),
        }
    }
    found
}

/// Returns the text without comments, string literals and character literals.
fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let len = match bytes[at] {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => block_comment(rest),
            b'r' if !is_inside_name(bytes, at) => raw_string(rest).unwrap_or(0),
            b'"' => string(rest),
            b'\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if len == 0 {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            out.push_str(&rest[..next]);
            at += next;
        } else {
            out.push(' ');
            at += len;
        }
    }
    out
}

fn is_inside_name(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let step = if rest.starts_with(b"/*") {
            depth += 1;
            2
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            2
        } else {
            1
        };
        at += step;
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inside = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(2 + hashes + inside.find(&end)? + end.len())
}

fn string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn character(text: &str) -> Option<usize> {
    let mut letters = text[1..].char_indices();
    let (_, first) = letters.next()?;
    let end =
        if first == '\\' { text[3..].find('\'').map(|at| at + 3)? } else { letters.next()?.0 + 1 };
    text[end..].starts_with('\'').then_some(end + 1)
}

/// Splits code into names, `::`, and single other characters.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut letters = code.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter.is_alphanumeric() || letter == '_' {
            let mut name = String::from(letter);
            while let Some(more) = letters.next_if(|c| c.is_alphanumeric() || *c == '_') {
                name.push(more);
            }
            tokens.push(name);
        } else if letter == ':' && letters.next_if_eq(&':').is_some() {
            tokens.push("::".into());
        } else if !letter.is_whitespace() {
            tokens.push(letter.into());
        }
    }
    tokens
}

/// Removes modules that are only for tests.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let after = &tokens[at..];
        if after.iter().take(mark.len()).eq(mark.iter())
            && let Some(open) = after.iter().position(|token| token == "{" || token == ";")
            && after[..open].contains(&"mod".into())
        {
            at += open + block_len(&after[open..]);
        } else {
            out.push(tokens[at].clone());
            at += 1;
        }
    }
    out
}

fn block_len(tokens: &[String]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Returns all paths that begin with `crate`, `super` or `self`, with their braces expanded.
fn paths(tokens: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let begins = matches!(tokens[at].as_str(), "crate" | "super" | "self")
            && tokens.get(at + 1).is_some_and(|next| next == "::")
            && (at == 0 || tokens[at - 1] != "::");
        at = if begins { tree(tokens, at, &[], &mut found) } else { at + 1 };
    }
    found
}

/// Reads one path of a `use` tree, and returns the index of the token after it.
fn tree(tokens: &[String], from: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let (mut path, mut at) = (prefix.to_vec(), from);
    while let Some(token) = tokens.get(at) {
        if token == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|token| token != "}") {
                at = if tokens[at] == "," { at + 1 } else { tree(tokens, at, &path, found) };
            }
            return at + 1;
        }
        if !(token == "*" || token.starts_with(|c: char| c.is_alphabetic() || c == '_')) {
            break;
        }
        path.push(token.clone());
        at += 1;
        if tokens.get(at).is_none_or(|next| next != "::") {
            break;
        }
        at += 1;
    }
    found.push(path);
    if tokens.get(at).is_some_and(|token| token == "as") { at + 2 } else { at }
}

/// Returns the name after `crate` that a path in a module refers to.
fn resolve(module: &[String], path: &[String]) -> Option<String> {
    match path.first()?.as_str() {
        "crate" => path.get(1).cloned(),
        "self" => Some(module[0].clone()),
        _ => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let base = &module[..module.len().saturating_sub(ups)];
            base.first().or(path.get(ups)).cloned()
        }
    }
}

/// Returns the names that the root of a crate re-exports, with their modules.
fn re_exports(tokens: &[String], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate() {
        if token != "use" {
            continue;
        }
        let mut found = Vec::new();
        tree(tokens, at + 1, &[], &mut found);
        for path in found.iter().filter(|path| path.len() > 1 && modules.contains(&path[0])) {
            names.insert(path[path.len() - 1].clone(), path[0].clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum size of a cycle of modules in each crate.
    const LARGEST_CIRCLE: &[(&str, usize)] = &[
        ("kernel", 18),
        ("log", 6),
        ("records", 6),
        ("runtime", 0),
        ("daemon", 6),
        ("cli", 6),
        ("sim", 6),
        ("python", 6),
        ("postgres", 6),
        ("sqlite", 6),
    ];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn cycles_of_modules_stay_small() {
        for (name, allowed) in LARGEST_CIRCLE {
            let needs = needs(&root().join("crates").join(name).join("src"));
            assert!(!needs.is_empty(), "{name} has no modules");
            for circle in circles(&needs) {
                let (len, names) = (circle.len(), circle.into_iter().collect::<Vec<_>>());
                assert!(len <= *allowed, "{len} modules of {name} need each other: {names:?}");
            }
        }
    }

    /// The crates in the order of the architecture, each with the crates of the workspace that it
    /// may depend on.
    const EDGES: &[(&str, &[&str])] = &[
        ("kernel", &[]),
        ("log", &["tiffany-kernel"]),
        ("records", &["tiffany-kernel", "tiffany-log"]),
        ("runtime", &["tiffany-kernel", "tiffany-log", "tiffany-records"]),
        ("sim", &["tiffany"]),
        ("sqlite", &["tiffany"]),
        ("postgres", &["tiffany"]),
        ("daemon", &["tiffany"]),
        ("cli", &["tiffany", "tiffany-daemon", "tiffany-kernel", "tiffany-log", "tiffany-records"]),
        ("python", &["tiffany", "tiffany-cli", "tiffany-daemon", "tiffany-sim"]),
    ];

    #[test]
    fn crates_depend_only_on_those_that_the_architecture_names() {
        let crates = fs::read_dir(root().join("crates")).unwrap().flatten();
        let mut names: Vec<String> =
            crates.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let mut known: Vec<&str> = EDGES.iter().map(|(name, _)| *name).collect();
        names.sort();
        known.sort_unstable();
        assert_eq!(names, known, "every crate has its place");
        for (name, expected) in EDGES {
            let manifest = root().join("crates").join(name).join("Cargo.toml");
            let manifest = fs::read_to_string(manifest).unwrap();
            let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
            let dependencies = dependencies.split("\n[").next().unwrap_or_default();
            let used = dependencies.lines().filter_map(|line| line.split_once(" =")?.0.into());
            let mut used: Vec<&str> =
                used.filter(|name: &&str| name.starts_with("tiffany")).collect();
            used.sort_unstable();
            assert_eq!(used, *expected, "the dependencies of {name}");
        }
    }

    fn paths_in(code: &str) -> Vec<String> {
        let tokens = without_tests(tokens(&code_only(code)));
        paths(&tokens).iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_and_braces_expanded() {
        let code = "use crate::{a, b::{C, d as e}, f::*};\nfn g() { super::h::i(self::j) }";
        let expected =
            ["crate::a", "crate::b::C", "crate::b::d", "crate::f::*", "super::h::i", "self::j"];
        assert_eq!(paths_in(code), expected);
    }

    #[test]
    fn comments_strings_characters_and_tests_do_not_count() {
        let code = r####"
            // crate::a
            /* crate::b /* crate::c */ crate::d */
            const E: &str = "crate::e"; const F: &str = r#"crate::f"#;
            const G: char = '"'; const H: char = '\''; fn i<'a>(x: &'a str) {}
            #[cfg(test)]
            mod tests { use crate::j; fn k() { crate::k() } }
            use crate::l;
        "####;
        assert_eq!(paths_in(code), ["crate::l"]);
    }

    #[test]
    fn a_path_is_resolved_relative_to_its_module() {
        let module = ["a".to_string(), "b".to_string()];
        let resolved = |path: &str| {
            let path: Vec<String> = path.split("::").map(str::to_string).collect();
            resolve(&module, &path).unwrap()
        };
        assert_eq!(resolved("crate::x::y"), "x");
        assert_eq!(resolved("super::x"), "a");
        assert_eq!(resolved("super::super::x::y"), "x");
        assert_eq!(resolved("self::x"), "a");
    }

    #[test]
    fn a_cycle_is_found_with_all_of_its_modules() {
        let needs = |pairs: &[(&str, &[&str])]| -> Needs {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
            pairs.iter().map(|(name, needed)| ((*name).to_string(), names(needed))).collect()
        };
        let found =
            circles(&needs(&[("a", &["b"]), ("b", &["c", "d"]), ("c", &["a"]), ("d", &[])]));
        assert_eq!(found.len(), 1);
        assert!(found[0].iter().eq(["a", "b", "c"]));
        assert!(circles(&needs(&[("a", &["b"]), ("b", &[])])).is_empty());
    }
}
