//! Replaces matches of patterns in text. It knows nothing of fields and records.

use std::borrow::Cow;

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::PLACEHOLDER;
use super::forms::FORMS;

/// The maximum size of a compiled pattern, in bytes of memory.
const LARGEST: usize = 1 << 20;
/// The maximum size of all compiled patterns together, in bytes.
const LARGEST_SET: usize = 16 << 20;

/// All patterns. They work on bytes, in time that is linear in the length of the text.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    /// Groups of patterns, each of which finds out in a single pass which of its patterns match.
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    sources: Vec<String>,
    each: Vec<Regex>,
    set: RegexSet,
}

impl Patterns {
    /// Adds a pattern. The error is a description of what is wrong.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), String> {
        let regex = RegexBuilder::new(pattern).unicode(false).size_limit(LARGEST).build();
        let regex = regex.map_err(|error| why(&error))?;
        if regex.is_match(b"") {
            return Err(
                "it finds something in an empty text, so it would find it everywhere".into()
            );
        }
        let mut sources = self.parts.last().map_or(Vec::new(), |part| part.sources.clone());
        sources.push(pattern.to_owned());
        let set = RegexSetBuilder::new(&sources).unicode(false).size_limit(LARGEST_SET).build();
        let set =
            set.map_err(|error| format!("together with the patterns before it, {}", why(&error)))?;
        let mut each = self.parts.pop().map_or(Vec::new(), |part| part.each);
        each.push(regex);
        self.parts.push(Part { sources, each, set });
        Ok(())
    }

    /// Adds the patterns of another set.
    pub(super) fn join(&mut self, others: Patterns) {
        self.parts.extend(others.parts);
    }

    /// Returns whether both have the same patterns.
    pub(super) fn is_same(&self, other: &Patterns) -> bool {
        let sources = |patterns: &Patterns| -> Vec<String> {
            patterns.parts.iter().flat_map(|part| part.sources.clone()).collect()
        };
        sources(self) == sources(other)
    }

    /// Makes a pattern that matches a text in all its encodings.
    pub(super) fn of_value(value: &str) -> String {
        let written = FORMS.iter().map(|form| form(value));
        let mut forms: Vec<String> = std::iter::once(value.to_owned()).chain(written).collect();
        forms.extend((0..3).map(|before| in_base64(value, before)).filter(|core| core.len() > 5));
        // The longest first, because one may contain another.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        let forms: Vec<String> = forms.iter().map(|form| regex::escape(form)).collect();
        forms.join("|")
    }

    /// Returns whether any pattern matches.
    #[inline]
    pub(super) fn find_in(&self, text: &[u8]) -> bool {
        self.parts.iter().any(|part| part.set.is_match(text))
    }

    /// Replaces all matches in a text; `None` if there are none.
    pub(super) fn cleaned(&self, text: &str) -> Option<String> {
        let cleaned = self.cleaned_bytes(text.as_bytes(), |at| text.is_char_boundary(at))?;
        match String::from_utf8_lossy(&cleaned) {
            Cow::Borrowed(_) => String::from_utf8(cleaned).ok(),
            Cow::Owned(mended) => Some(mended),
        }
    }

    /// Replaces all matches in bytes; `None` if there are none.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.cleaned_bytes(bytes, |_| true)
    }

    /// Replaces all matches. `is_edge` tells where the bytes may be cut.
    fn cleaned_bytes(&self, bytes: &[u8], is_edge: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
        let mut cleaned = self.once(bytes, is_edge)?;
        // A replacement may let another pattern match next to it. There is less left to find each
        // time.
        while let Some(again) = self.once(&cleaned, |at| is_char_edge(&cleaned, at)) {
            cleaned = again;
        }
        Some(cleaned)
    }

    /// Replaces all matches of all patterns once. Placeholders are not searched, so they stay
    /// unchanged.
    fn once(&self, bytes: &[u8], is_edge: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for (from, piece) in pieces(bytes) {
            for part in self.parts.iter().filter(|part| part.set.is_match(piece)) {
                for which in part.set.matches(piece) {
                    taken_by(&part.each[which], piece, |start, end| {
                        spans.push((from + start, from + end));
                    });
                }
            }
        }
        if spans.is_empty() {
            return None;
        }
        for (start, end) in &mut spans {
            while *start > 0 && !is_edge(*start) {
                *start -= 1;
            }
            while !is_edge(*end) {
                *end += 1;
            }
        }
        spans.sort_unstable();
        let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
        let mut spans = spans.into_iter().peekable();
        while let Some((start, mut end)) = spans.next() {
            while let Some((_, further)) = spans.next_if(|(next, _)| *next < end) {
                end = end.max(further);
            }
            out.extend_from_slice(&bytes[at..start]);
            out.extend_from_slice(PLACEHOLDER.as_bytes());
            at = end;
        }
        out.extend_from_slice(&bytes[at..]);
        Some(out)
    }
}

/// Reports what to replace in each match of a pattern: its groups, or the whole match if it has
/// none.
fn taken_by(regex: &Regex, piece: &[u8], mut found: impl FnMut(usize, usize)) {
    if regex.captures_len() == 1 {
        let all = regex.find_iter(piece).filter(|all| !all.is_empty());
        return all.for_each(|all| found(all.start(), all.end()));
    }
    for captures in regex.captures_iter(piece) {
        let no_group = captures.iter().skip(1).all(|group| group.is_none());
        let taken = captures.iter().skip(usize::from(!no_group)).flatten();
        let taken = taken.filter(|taken| !taken.is_empty());
        taken.for_each(|taken| found(taken.start(), taken.end()));
    }
}

/// Splits a text at placeholders, and returns the offset of each piece.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut marks = memchr::memmem::find_iter(bytes, PLACEHOLDER).chain([bytes.len()]);
    let mut from = Some(0);
    std::iter::from_fn(move || {
        let (start, end) = (from?, marks.next()?);
        from = Some(end + PLACEHOLDER.len());
        Some((start, &bytes[start..end]))
    })
}

fn is_char_edge(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

/// Returns the part of a text's Base64 encoding that does not depend on the text around it, if this
/// many bytes (modulo 3) are before it.
fn in_base64(text: &str, before: usize) -> String {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(text.as_bytes());
    let whole = bytes.len() * 8 / 6;
    let mut out = Vec::new();
    tiffany_log::push_base64(&mut out, &bytes);
    out.truncate(whole);
    let core = out.split_off((before * 8).div_ceil(6).min(out.len()));
    String::from_utf8(core).unwrap_or_default()
}

fn why(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large".into(),
        // The last line of the message is the reason; the others show the pattern.
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(all: &[&str]) -> Patterns {
        let mut patterns = Patterns::default();
        all.iter().for_each(|pattern| patterns.add(pattern).expect(pattern));
        patterns
    }

    #[test]
    fn only_matches_are_replaced() {
        for (all, text, expected) in [
            (&["sk-[a-z]+"][..], "a sk-abc b sk-d", "a [redacted] b [redacted]"),
            (&["key=(\\S+)"], "key=abc; key=d", "key=[redacted] key=[redacted]"),
            (&["(a)x(b)"], "axb", "[redacted]x[redacted]"),
            (&["(a)?xb"], "1xb", "1[redacted]"),
            (&["ab", "bc"], "abc", "[redacted]"),
            (&["ab", "cd"], "abcd", "[redacted][redacted]"),
            (&["^b+", "a"], "abb", "[redacted][redacted]"),
            (&["(?i)bearer"], "BEARER é", "[redacted] é"),
            // If one byte of a character matches, the whole character is replaced.
            (&["x."], "xé!", "[redacted]!"),
            (&[".x"], "éx", "[redacted]"),
            (&["(?-u)\\d{4}"], "é1234é", "é[redacted]é"),
            (&["\\w{6,}"], "a[redacted]b secret", "a[redacted]b [redacted]"),
            (&["(?x) a b # c"], "xaby", "x[redacted]y"),
        ] {
            let patterns = patterns(all);
            let cleaned = patterns.cleaned(text).expect(text);
            assert_eq!(cleaned, expected, "{all:?}");
            assert_eq!(patterns.cleaned(&cleaned), None, "{cleaned}");
        }
        assert_eq!(patterns(&["sk-\\d"]).cleaned("sk-a [redacted]"), None);
    }

    #[test]
    fn a_value_is_found_in_all_its_encodings() {
        let secret = "pa\"s's\\wörd/7";
        let patterns = patterns(&[&Patterns::of_value(secret)]);
        for (text, expected) in [
            ("it is pa\"s's\\wörd/7!", "it is [redacted]!"),
            ("KeyError: 'pa\"s\\'s\\\\wörd/7'", "KeyError: '[redacted]'"),
            ("{\"a\":\"pa\\\"s's\\\\w\\u00f6rd/7\"}", "{\"a\":\"[redacted]\"}"),
            ("/?q=pa%22s%27s%5Cw%C3%B6rd%2F7&r", "/?q=[redacted]&r"),
        ] {
            assert_eq!(patterns.cleaned(text).as_deref(), Some(expected), "{text}");
        }
        for around in ["", "x", "xy", "xyz"] {
            let mut text = Vec::new();
            tiffany_log::push_base64(&mut text, format!("{around}{secret}{around}").as_bytes());
            let text = String::from_utf8(text).unwrap();
            assert!(patterns.cleaned(&text).is_some(), "{around}: {text}");
        }
    }

    #[test]
    fn unsupported_patterns_are_refused() {
        for (pattern, part) in [
            ("(", "unclosed group"),
            ("a*", "empty text"),
            ("(?:a{1000}){1000}", "too large"),
            ("[é]", "Unicode"),
        ] {
            let why = Patterns::default().add(pattern).expect_err(pattern);
            assert!(why.contains(part), "{pattern}: {why}");
        }
    }
}
