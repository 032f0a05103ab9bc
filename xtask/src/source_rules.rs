//! Tests for rules of CONTRIBUTING.md, "Style", that can be checked in the text of the sources:
//! names of constants, and lengths of files.

/// The maximum number of lines in a source file.
const MAX_LINES: usize = 800;

/// Words that don't say what a constant limits. `MAX_…`, `…_TIMEOUT`, `…_LIMIT` and `…_BATCH` do.
const VAGUE: &[&str] = &["MOST", "PATIENCE", "ENOUGH", "FEW", "LONGEST"];

/// Returns the constants and statics of a source file whose names begin or end with a vague word,
/// with their lines.
fn vague_constants(source: &str) -> Vec<(usize, &str)> {
    (1..)
        .zip(source.lines())
        .filter_map(|(at, line)| Some((at, constant(line)?)))
        .filter(is_vague)
        .collect()
}

/// Returns the name of a constant or static that a line declares, in Rust, TypeScript
/// (`const NAME`) or Python (`NAME = …`).
fn constant(line: &str) -> Option<&str> {
    let end = |text: &str| {
        text.find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_')
    };
    let mut words = line.split_whitespace().peekable();
    let declares = words.any(|word| matches!(word, "const" | "static"));
    let text = match declares {
        true => words.find(|word| *word != "mut")?,
        false => line,
    };
    let name = &text[..end(text).unwrap_or(text.len())];
    let is_declared = declares || text[name.len()..].trim_start().starts_with(['=', ':']);
    (is_declared && !name.is_empty()).then_some(name)
}

fn is_vague((_, name): &(usize, &str)) -> bool {
    let mut words = name.trim_start_matches('_').split('_');
    let first = words.next();
    let last = words.next_back();
    [first, last].into_iter().flatten().any(|word| VAGUE.contains(&word))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::prose;

    fn sources() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = prose::sources(&root).into_iter();
        files
            .map(|file| {
                let text = fs::read_to_string(root.join(&file)).expect("a source file");
                (file, text)
            })
            .collect()
    }

    #[test]
    fn constants_say_what_they_limit() {
        let mut found = Vec::new();
        for (file, text) in sources() {
            for (line, name) in vague_constants(&text) {
                found.push(format!("{file}:{line}: {name}; MAX_…, …_TIMEOUT, …_LIMIT or …_BATCH"));
            }
        }
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn source_files_are_short() {
        let sources = sources().into_iter().map(|(file, text)| (file, text.lines().count()));
        // A stub is one file because the compiled module that it describes is one; the other is generated from a table.
        let is_free = |file: &str| file.ends_with(".pyi") || file == "python/tiffany/errors.py";
        let long = sources.filter(|(file, lines)| *lines > MAX_LINES && !is_free(file));
        let long: Vec<_> = long.collect();
        assert!(long.is_empty(), "more than {MAX_LINES} lines; split by meaning: {long:?}");
    }

    #[test]
    fn vague_names_are_found() {
        let vague = |source: &str| vague_constants(source).len();
        for source in [
            "const MOST: usize = 1;",
            concat!("    pub(crate) const ", "LONGEST_WAIT: u8 = 1;"),
            "static mut CLIENT_PATIENCE: u8 = 1;",
            "_FEW = 3",
            "FEW: int = 3",
        ] {
            assert_eq!(vague(source), 1, "{source}");
        }
        for source in ["const ALMOST: u8 = 1;", "const A_FEW_MORE: u8 = 1;", "f(MOST)", "// MOST"] {
            assert_eq!(vague(source), 0, "{source}");
        }
    }
}
