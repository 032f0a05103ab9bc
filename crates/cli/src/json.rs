//! JSON output: one object per line, with control characters escaped.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;

use super::out::is_unsafe;
pub(super) use tiffany_records::json_value as value;

/// Serializes a value as one line.
pub(super) fn line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|error| {
        let why = error.to_string();
        serde_json::json!({ "error": { "message": why } }).to_string()
    });
    format!("{}\n", escape(&text))
}

/// Escapes control characters in JSON. They can only occur in strings, where each has an escape.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unsafe(c) {
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_means_the_same() {
        let odd = "a\u{7f}\u{9b}\u{202e}\n";
        let line = line(&odd);
        assert_eq!(line, "\"a\\u007f\\u009b\\u202e\\n\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), odd);
    }
}
