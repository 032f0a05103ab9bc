//! Extracts the texts from source files: comments and string literals. It knows just enough of each
//! language to find them.

/// A language of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    TypeScript,
    Svelte,
}

/// The kinds of texts to read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Texts {
    /// Comments and string literals. In Rust, literals in `#[cfg(test)]` modules at the end of a
    /// file are skipped.
    All,
    /// Only comments, because string literals are test data.
    Comments,
}

/// A text in a source file. Consecutive comment lines are one text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// The number of its first line, from 1.
    pub line: usize,
    pub text: String,
}

impl Language {
    pub(super) fn of(path: &str) -> Option<Language> {
        match path.rsplit('.').next()? {
            "rs" => Some(Language::Rust),
            "py" | "pyi" => Some(Language::Python),
            "ts" | "mjs" | "js" => Some(Language::TypeScript),
            "svelte" => Some(Language::Svelte),
            _ => None,
        }
    }
}

/// Returns the texts of a source file, in order.
pub(super) fn texts(source: &str, language: Language, which: Texts) -> Vec<Text> {
    let mut reader = Reader {
        rest: source,
        line: 1,
        language,
        which,
        starts_line: true,
        found: Vec::new(),
        last_comment: 0,
    };
    match language {
        Language::Svelte => reader.read_svelte(),
        _ => reader.read_code(),
    }
    reader.found
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    language: Language,
    which: Texts,
    /// Whether only white space was read in this line so far.
    starts_line: bool,
    found: Vec<Text>,
    /// The last line that consisted of a line comment.
    last_comment: usize,
}

impl<'a> Reader<'a> {
    /// Takes this number of bytes from the rest.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Takes everything up to and including a mark, or the whole rest; returns the part before the
    /// mark.
    fn take_through(&mut self, mark: &str) -> &'a str {
        match self.rest.find(mark) {
            Some(at) => {
                let before = self.take(at);
                self.take(mark.len());
                before
            }
            None => self.take(self.rest.len()),
        }
    }

    fn read_code(&mut self) {
        let mut before = ' ';
        while let Some(next) = self.rest.chars().next() {
            if self.comment() {
                before = ' ';
                continue;
            }
            if self.language == Language::Rust && self.rest.starts_with("#[cfg(test)]\nmod ") {
                self.which = Texts::Comments;
            }
            if let Some(string) = self.string(before) {
                let (line, text) = string;
                if self.which == Texts::All {
                    self.found.push(Text { line, text });
                }
                self.starts_line = false;
                before = '"';
                continue;
            }
            self.starts_line = next == '\n' || (self.starts_line && next.is_whitespace());
            before = next;
            self.take(next.len_utf8());
        }
    }

    /// Reads a comment if the rest begins with one.
    fn comment(&mut self) -> bool {
        let mark = if self.language == Language::Python { "#" } else { "//" };
        if self.rest.starts_with(mark) {
            let line = self.line;
            let text = self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            let text = text.trim_start_matches(['/', '!', '#', ':']);
            let continues = self.starts_line && self.last_comment + 1 == line;
            match self.found.last_mut() {
                Some(last) if continues => last.text = format!("{}\n{text}", last.text),
                _ => self.found.push(Text { line, text: text.to_string() }),
            }
            self.last_comment = if self.starts_line { line } else { 0 };
            return true;
        }
        if self.language != Language::Python && self.rest.starts_with("/*") {
            let line = self.line;
            self.take(2);
            let text = self.take_through("*/");
            let lines = text.lines().map(|line| line.trim_start().trim_start_matches('*'));
            self.found.push(Text { line, text: lines.collect::<Vec<_>>().join("\n") });
            return true;
        }
        false
    }

    /// Reads a string literal if the rest begins with one; returns its line and text.
    fn string(&mut self, before: char) -> Option<(usize, String)> {
        let line = self.line;
        if self.language == Language::Rust {
            if let Some(hashes) = self.raw_string(before) {
                self.take(1 + hashes.len() + 1);
                return Some((line, self.take_through(&format!("\"{hashes}")).to_string()));
            }
            if self.rest.starts_with('\'') {
                self.character();
                return None;
            }
        }
        let marks: &[&str] = match self.language {
            Language::Rust => &["\""],
            Language::Python => &["\"\"\"", "'''", "\"", "'"],
            Language::TypeScript | Language::Svelte => &["\"", "'", "`"],
        };
        let mark = marks.iter().find(|mark| self.rest.starts_with(**mark))?;
        self.take(mark.len());
        let mut text = String::new();
        // Such a literal ends with its line at the latest, even if something before was misread.
        let one_line = self.language != Language::Rust && mark.len() == 1 && *mark != "`";
        while !self.rest.is_empty() && !self.rest.starts_with(mark) {
            if one_line && self.rest.starts_with('\n') {
                return Some((line, text));
            }
            let next = self.rest.chars().next()?;
            self.take(next.len_utf8());
            match next {
                '\\' => text.push_str(&self.escaped()),
                _ => text.push(next),
            }
        }
        self.take(mark.len().min(self.rest.len()));
        Some((line, text))
    }

    /// Returns the hashes of a raw string if the rest begins with one.
    fn raw_string(&self, before: char) -> Option<&'a str> {
        let rest = self.rest.strip_prefix('r')?;
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let is_word = (before.is_alphanumeric() && before != 'b') || before == '_';
        (!is_word && rest[hashes..].starts_with('"')).then(|| &rest[..hashes])
    }

    /// Takes a Rust character literal, but leaves the apostrophe of a lifetime.
    fn character(&mut self) {
        let mut characters = self.rest.char_indices().skip(1);
        let Some((_, first)) = characters.next() else { return };
        let end = match first {
            '\\' => self.rest[3.min(self.rest.len())..].find('\'').map(|at| at + 3),
            _ => characters.next().and_then(|(at, second)| (second == '\'').then_some(at)),
        };
        // The rest now begins with the closing apostrophe, which the caller skips.
        if let Some(end) = end {
            self.take(end);
        }
    }

    /// Takes an escape sequence after its backslash; returns the character it stands for.
    fn escaped(&mut self) -> String {
        let Some(next) = self.rest.chars().next() else { return String::new() };
        self.take(next.len_utf8());
        match next {
            'n' => "\n".into(),
            't' => " ".into(),
            // The literal continues on the next line.
            '\n' => {
                let spaces = self.rest.len() - self.rest.trim_start().len();
                self.take(spaces);
                String::new()
            }
            other => other.into(),
        }
    }

    /// Reads scripts as code, skips styles, and reads the markup as text in which tags and
    /// expressions end a phrase.
    fn read_svelte(&mut self) {
        while !self.rest.is_empty() {
            let end = ["<script", "<style", "<!--"].iter().filter_map(|tag| self.rest.find(tag));
            let end = end.min().unwrap_or(self.rest.len());
            let line = self.line;
            let markup = self.take(end);
            if self.which == Texts::All {
                let text = markup.replace(['<', '>', '{', '}', '"', '`', '='], " · ");
                self.found.push(Text { line, text });
            }
            if self.rest.starts_with("<script") {
                self.take_through(">");
                let line = self.line;
                let script = self.take_through("</script>");
                let inner = texts(script, Language::TypeScript, self.which).into_iter();
                self.found.extend(inner.map(|text| Text { line: text.line + line - 1, ..text }));
            } else if self.rest.starts_with("<style") {
                self.take_through("</style>");
            } else if self.rest.starts_with("<!--") {
                let line = self.line;
                self.take(4);
                let text = self.take_through("-->").to_string();
                self.found.push(Text { line, text });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, language: Language, which: Texts, expected: &[(usize, &str)]) {
        let found = texts(source, language, which);
        let found: Vec<(usize, &str)> =
            found.iter().map(|text| (text.line, text.text.trim())).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn comments_in_a_row_are_one_text() {
        let source =
            "//! one\n//! two\n\n/// three\nfn f() {} // four\n// five\n/* six\n * seven */";
        let expected =
            [(1, "one\n two"), (4, "three"), (5, "four"), (6, "five"), (7, "six\n seven")];
        check(source, Language::Rust, Texts::All, &expected);
    }

    #[test]
    fn strings_of_rust_are_read() {
        let source = r##"f("a \"b\" // c", '"', 'x', &'a str, r#"raw "x""#, b"d\
            e", '\'', "f");"##;
        let expected = [(1, "a \"b\" // c"), (1, "raw \"x\""), (1, "de"), (2, "f")];
        check(source, Language::Rust, Texts::All, &expected);
        check(source, Language::Rust, Texts::Comments, &[]);
    }

    #[test]
    fn strings_in_test_modules_of_rust_are_not_read() {
        let source = "f(\"a\");\n#[cfg(test)]\nmod tests {\n// b\nf(\"c\");\n}";
        check(source, Language::Rust, Texts::All, &[(1, "a"), (4, "b")]);
    }

    #[test]
    fn comments_and_strings_of_python_are_read() {
        let source = "#: a\n\"\"\"b\n  'c'\"\"\"\nf('d', f\"e # f\")  # g";
        let expected = [(1, "a"), (2, "b\n  'c'"), (4, "d"), (4, "e # f"), (4, "g")];
        check(source, Language::Python, Texts::All, &expected);
    }

    #[test]
    fn scripts_and_markup_of_svelte_are_read() {
        let script = "<script lang=\"ts\">\nf('b')\n</script>";
        let source = format!("<!-- a -->\n{script}\n<p>it's</p>\n<style>\nc\n</style>");
        let found = texts(&source, Language::Svelte, Texts::All);
        let found: Vec<(usize, &str)> = found
            .iter()
            .map(|text| (text.line, text.text.trim_matches([' ', '·', '\n'])))
            .filter(|(_, text)| !text.is_empty())
            .collect();
        assert_eq!(found, [(1, "a"), (3, "b"), (4, "p · it's · /p")]);
    }
}
