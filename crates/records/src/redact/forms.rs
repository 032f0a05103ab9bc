//! Encodings of a text inside another one: in JSON, Python, Rust, URLs and bytes. It knows nothing
//! of what is searched for.

use std::fmt::Write;

use tiffany_log::push_base64;

/// An encoding of a text inside another one.
pub(super) type Form = fn(&str) -> String;

/// All encodings. A text without special characters is the same in most of them.
pub const FORMS: [Form; 18] = [
    as_json,
    as_ascii_json,
    as_upper_ascii_json,
    as_nested_json,
    as_repr,
    as_quoted_repr,
    as_ascii_repr,
    as_quoted_ascii_repr,
    as_bytes_repr,
    as_quoted_bytes_repr,
    as_debug,
    in_address,
    in_lower_address,
    in_path,
    in_lower_path,
    in_form,
    in_lower_form,
    as_bytes,
];

fn as_json(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap_or_default();
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

fn as_ascii_json(text: &str) -> String {
    ascii_json(text, |unit| format!("\\u{unit:04x}"))
}

fn as_upper_ascii_json(text: &str) -> String {
    ascii_json(text, |unit| format!("\\u{unit:04X}"))
}

fn ascii_json(text: &str, escaped: impl Fn(u16) -> String) -> String {
    let mut out = String::new();
    for c in as_json(text).chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&escaped(*unit)));
            }
        }
    }
    out
}

/// Escapes a text in JSON that is itself inside a JSON string.
fn as_nested_json(text: &str) -> String {
    as_json(&as_json(text))
}

/// Escapes a text as Python's `repr` does between quotes that the text does not contain.
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

/// Escapes a text as Python's `repr` does if it contains both kinds of quotes.
fn as_quoted_repr(text: &str) -> String {
    as_repr(text).replace('\'', "\\'")
}

/// Escapes a text as Python's `ascii` does.
fn as_ascii_repr(text: &str) -> String {
    let mut out = String::new();
    for c in as_repr(text).chars() {
        let _ = match u32::from(c) {
            ..0x80 => write!(out, "{c}"),
            code @ ..0x100 => write!(out, "\\x{code:02x}"),
            code @ ..0x10000 => write!(out, "\\u{code:04x}"),
            code => write!(out, "\\U{code:08x}"),
        };
    }
    out
}

fn as_quoted_ascii_repr(text: &str) -> String {
    as_ascii_repr(text).replace('\'', "\\'")
}

/// Escapes a text as Python's `repr` of its bytes does.
fn as_bytes_repr(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        let _ = match byte {
            b'\\' => write!(out, "\\\\"),
            b'\n' => write!(out, "\\n"),
            b'\r' => write!(out, "\\r"),
            b'\t' => write!(out, "\\t"),
            b' '..=b'~' => write!(out, "{}", char::from(byte)),
            byte => write!(out, "\\x{byte:02x}"),
        };
    }
    out
}

fn as_quoted_bytes_repr(text: &str) -> String {
    as_bytes_repr(text).replace('\'', "\\'")
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

/// Escapes a text for a URL, with lower-case digits.
fn in_lower_address(text: &str) -> String {
    lower_digits(&in_address(text))
}

fn in_lower_path(text: &str) -> String {
    lower_digits(&in_path(text))
}

/// Escapes a text as HTML forms are sent.
fn in_form(text: &str) -> String {
    in_address(text).replace("%20", "+")
}

fn in_lower_form(text: &str) -> String {
    lower_digits(&in_form(text))
}

/// Turns the two digits after each `%` into lower case.
fn lower_digits(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(part.len().min(2));
        let _ = write!(out, "%{}{rest}", digits.to_lowercase());
    }
    out
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
    fn texts_are_encoded_as_other_programs_do() {
        let text = "pa\"s's\\wörd/\n\u{1} x";
        let all: Vec<String> = FORMS.iter().map(|form| form(text)).collect();
        assert_eq!(
            all,
            [
                "pa\\\"s's\\\\wörd/\\n\\u0001 x",
                "pa\\\"s's\\\\w\\u00f6rd/\\n\\u0001 x",
                "pa\\\"s's\\\\w\\u00F6rd/\\n\\u0001 x",
                "pa\\\\\\\"s's\\\\\\\\wörd/\\\\n\\\\u0001 x",
                "pa\"s's\\\\wörd/\\n\\x01 x",
                "pa\"s\\'s\\\\wörd/\\n\\x01 x",
                "pa\"s's\\\\w\\xf6rd/\\n\\x01 x",
                "pa\"s\\'s\\\\w\\xf6rd/\\n\\x01 x",
                "pa\"s's\\\\w\\xc3\\xb6rd/\\n\\x01 x",
                "pa\"s\\'s\\\\w\\xc3\\xb6rd/\\n\\x01 x",
                "pa\\\"s\\'s\\\\wörd/\\n\\u{1} x",
                "pa%22s%27s%5Cw%C3%B6rd%2F%0A%01%20x",
                "pa%22s%27s%5cw%c3%b6rd%2f%0a%01%20x",
                "pa%22s%27s%5Cw%C3%B6rd/%0A%01%20x",
                "pa%22s%27s%5cw%c3%b6rd/%0a%01%20x",
                "pa%22s%27s%5Cw%C3%B6rd%2F%0A%01+x",
                "pa%22s%27s%5cw%c3%b6rd%2f%0a%01+x",
                "cGEicydzXHfDtnJkLwoBIHg=",
            ]
        );
        assert_eq!(as_ascii_repr("\u{20ac}\u{1f600}"), "\\u20ac\\U0001f600");
        assert_eq!(as_json("\"\"a\""), "\\\"\\\"a\\\"");
    }
}
