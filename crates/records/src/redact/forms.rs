//! The ways in which a text is written inside of another one: as JSON, Python, Rust, addresses and bytes write it. It knows nothing of what is looked for.

use std::fmt::Write;

use tiffany_log::push_base64;

/// A text as it is written inside of another one.
pub(super) type Form = fn(&str) -> String;

/// All of them. A text without anything to be escaped is the same in most.
pub const FORMS: [Form; 8] =
    [as_json, as_ascii_json, as_repr, as_quoted_repr, as_debug, in_address, in_path, as_bytes];

fn as_json(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap_or_default();
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

fn as_ascii_json(text: &str) -> String {
    let mut out = String::new();
    for c in as_json(text).chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out
}

/// As Python writes a text between quotes that it does not have in it.
fn as_repr(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// And one that has both kinds of quotes.
fn as_quoted_repr(text: &str) -> String {
    as_repr(text).replace('\'', "\\'")
}

fn as_debug(text: &str) -> String {
    text.escape_debug().to_string()
}

fn percent(text: &str, kept: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || kept.contains(char::from(byte)) {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn in_address(text: &str) -> String {
    percent(text, "-_.~")
}

fn in_path(text: &str) -> String {
    percent(text, "-_.~/")
}

fn as_bytes(text: &str) -> String {
    let mut out = Vec::new();
    push_base64(&mut out, text.as_bytes());
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_as_others_write_it() {
        let text = "pa\"s's\\wörd/\n\u{1}x";
        let all: Vec<String> = FORMS.iter().map(|form| form(text)).collect();
        assert_eq!(
            all,
            [
                "pa\\\"s's\\\\wörd/\\n\\u0001x",
                "pa\\\"s's\\\\w\\u00f6rd/\\n\\u0001x",
                "pa\"s's\\\\wörd/\\n\\x01x",
                "pa\"s\\'s\\\\wörd/\\n\\x01x",
                "pa\\\"s\\'s\\\\wörd/\\n\\u{1}x",
                "pa%22s%27s%5Cw%C3%B6rd%2F%0A%01x",
                "pa%22s%27s%5Cw%C3%B6rd/%0A%01x",
                "cGEicydzXHfDtnJkLwoBeA==",
            ]
        );
        assert_eq!(as_json("\"\"a\""), "\\\"\\\"a\\\"");
    }
}
