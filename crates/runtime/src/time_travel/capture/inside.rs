//! Finds redacted values inside longer texts. It knows nothing of records.

use std::collections::BTreeMap;

use crate::time_travel::capture::placeholder::Secret;
use tiffany_records::redact::{FORMS, Kind};

/// What is as long as this is found wherever it stands, and what is shorter only as a word.
const LONG: usize = 4;

/// Which values are searched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Long,
    Any,
}

/// The values to find inside texts, the longest first.
pub(crate) struct Inside {
    /// By their first four bytes.
    long: BTreeMap<[u8; 4], Vec<Known>>,
    /// By their first byte.
    short: BTreeMap<u8, Vec<Known>>,
}

/// A value, and its placeholder.
pub(crate) struct Known {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    made: String,
}

impl Inside {
    pub(crate) fn new(by_value: &BTreeMap<Secret, String>) -> Inside {
        let mut inside = Inside { long: BTreeMap::new(), short: BTreeMap::new() };
        let values = by_value.iter().filter(|((kind, text), _)| is_told_by(*kind, text));
        for ((kind, text), made) in values {
            inside.add(Known { kind: *kind, text: text.clone(), made: made.clone() });
            // Other programs write a text in escaped forms: an error that quotes it, a URL.
            for form in FORMS.iter().filter(|_| *kind == Kind::Text && is_long(text)) {
                let (written, made) = (form(text), form(made));
                if written != *text {
                    inside.add(Known { kind: *kind, text: written, made });
                }
            }
        }
        let lists = inside.long.values_mut().chain(inside.short.values_mut());
        lists.for_each(|list| list.sort_by_key(|known| std::cmp::Reverse(known.text.len())));
        inside
    }

    fn add(&mut self, known: Known) {
        let bytes = known.text.as_bytes();
        match (bytes.first_chunk(), bytes.first()) {
            (Some(first), _) if is_long(&known.text) => {
                self.long.entry(*first).or_default().push(known);
            }
            (_, Some(first)) => self.short.entry(*first).or_default().push(known),
            (_, None) => {}
        }
    }

    /// Replaces the values in a text.
    pub(crate) fn cleaned(&self, text: &str, length: Length) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            match self.find(text, at, length) {
                Some(known) => {
                    out.push_str(&known.made);
                    at += known.text.len();
                }
                None => {
                    out.push(c);
                    at += c.len_utf8();
                }
            }
        }
        out
    }

    /// The values that are words of a text.
    pub(crate) fn words<'a>(&'a self, text: &str) -> impl Iterator<Item = &'a Known> {
        text.char_indices().flat_map(move |(at, _)| {
            let stands = move |known: &&Known| is_word(text, at, known.text.len());
            self.at(text, at, Length::Any).filter(stands)
        })
    }

    /// The longest value that is replaced at this position.
    fn find(&self, text: &str, at: usize, length: Length) -> Option<&Known> {
        self.at(text, at, length).find(|known| match known.kind {
            _ if !is_long(&known.text) => is_word(text, at, known.text.len()),
            Kind::Number => is_number(text, at, known.text.len()),
            _ => true,
        })
    }

    /// The values that begin at this position, whatever is around them.
    fn at(&self, text: &str, at: usize, length: Length) -> impl Iterator<Item = &Known> {
        let rest = &text[at..];
        let long = rest.as_bytes().first_chunk().and_then(|first| self.long.get(first));
        let short = rest.as_bytes().first().filter(|_| length == Length::Any);
        let short = short.and_then(|first| self.short.get(first));
        let known = long.into_iter().chain(short).flatten();
        known.filter(move |known| rest.starts_with(&*known.text))
    }
}

fn is_long(text: &str) -> bool {
    text.chars().filter(|c| *c != '-').count() >= LONG
}

/// Whether a value is recognizable inside a text: flags and marks are not.
fn is_told_by(kind: Kind, text: &str) -> bool {
    kind != Kind::Flag && !text.chars().all(|c| c.is_ascii_punctuation() || c.is_whitespace())
}

/// Whether it is not part of a longer number.
fn is_number(text: &str, at: usize, length: usize) -> bool {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    !is_digit(text[..at].chars().next_back()) && !is_digit(text[at + length..].chars().next())
}

/// Whether it is not part of a longer word or number.
fn is_word(text: &str, at: usize, length: usize) -> bool {
    let (before, after) = (&text[..at], &text[at + length..]);
    let word = &text[at..at + length];
    !goes_on(word.chars().next(), before.chars().rev())
        && !goes_on(word.chars().next_back(), after.chars())
}

/// Whether a word with this last character continues with these.
fn goes_on(edge: Option<char>, mut beyond: impl Iterator<Item = char>) -> bool {
    let Some(edge) = edge.filter(|edge| edge.is_alphanumeric()) else { return false };
    match beyond.next() {
        // 7 is not in 7.5.
        Some('.') if edge.is_ascii_digit() => beyond.next().is_some_and(|c| c.is_ascii_digit()),
        next => next.is_some_and(char::is_alphanumeric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_as_others_write_it() {
        let secret = "pa\"s's\\wörd";
        for (text, expected) in [
            ("KeyError: 'pa\"s\\'s\\\\wörd'", "KeyError: 'x'"),
            ("{\"a\":\"pa\\\"s's\\\\w\\u00f6rd\"}", "{\"a\":\"x\"}"),
            ("/?q=pa%22s%27s%5Cw%C3%B6rd&r", "/?q=x&r"),
            ("cGEicydzXHfDtnJk", "eA=="),
        ] {
            assert_eq!(cleaned(Kind::Text, secret, "x", text), expected, "{text}");
        }
    }

    fn cleaned(kind: Kind, secret: &str, made: &str, text: &str) -> String {
        let values = BTreeMap::from([((kind, secret.to_owned()), made.to_owned())]);
        Inside::new(&values).cleaned(text, Length::Any)
    }

    #[test]
    fn short_values_are_found_as_words_and_long_ones_everywhere() {
        for (kind, secret, text, expected) in [
            (Kind::Text, "tea", "line tea", "line x"),
            (Kind::Text, "tea", "tea_1:tea", "x_1:x"),
            (Kind::Text, "tea", "teapot, steam", "teapot, steam"),
            (Kind::Text, "é", "caf é café", "caf x café"),
            (Kind::Text, "♀", "a♀b", "axb"),
            (Kind::Text, "-", "a-b", "a-b"),
            (Kind::Text, "coffee", "icecoffees", "icexs"),
            (Kind::Number, "7", "cart-7-17 of 7.5, 7.", "cart-x-17 of 7.5, x."),
            (Kind::Number, "4711", "x4711y 47110", "xxy 47110"),
            (Kind::Flag, "true", "true", "true"),
        ] {
            assert_eq!(cleaned(kind, secret, "x", text), expected, "{secret}");
        }
    }
}
