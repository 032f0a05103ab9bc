//! Hand-written JSON: appends the parts of a line to a buffer, and finds the fields of a line. It
//! builds no tree and trusts no input: any bytes parse to a value or `None`, never to a panic.

use std::borrow::Cow;

/// The two decimal digits of each number below 100.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends a number in decimal.
#[inline]
pub(crate) fn push_u64(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 100 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number >= 10 {
        let pair = number as usize * 2;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a number with its sign.
pub(crate) fn push_i64(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_u64(out, number.unsigned_abs());
}

/// Formats a number below 100 as two digits.
pub(crate) fn two_digits(number: u32) -> [u8; 2] {
    let pair = (number % 100) as usize * 2;
    [PAIRS[pair], PAIRS[pair + 1]]
}

/// Formats a checksum as eight lower-case hex digits.
pub(crate) fn hex32(number: u32) -> [u8; 8] {
    let mut out = [0; 8];
    for (at, digit) in out.iter_mut().enumerate() {
        *digit = HEX[(number >> (28 - 4 * at)) as usize & 0xf];
    }
    out
}

/// Parses eight lower-case hex digits. Upper case is refused, so that a line has only one form.
pub(crate) fn parse_hex32(text: &[u8]) -> Option<u32> {
    if text.len() != 8 {
        return None;
    }
    text.iter().try_fold(0, |number, byte| match byte {
        b'0'..=b'9' => Some(number << 4 | u32::from(byte - b'0')),
        b'a'..=b'f' => Some(number << 4 | u32::from(byte - b'a' + 10)),
        _ => None,
    })
}

/// Appends bytes as lower-case hex digits.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 0xf)]);
    }
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Compares eight bytes at once: sets the top bit of the first byte that is below `limit`, and of
/// none before it. Bits after that byte are not reliable.
#[inline]
const fn below(word: u64, limit: u64) -> u64 {
    word.wrapping_sub(ONES * limit) & !word
}

/// Compares eight bytes at once: sets the top bit of the first byte that equals `byte`. Bits after
/// it are not reliable.
#[inline]
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * byte as u64), 1)
}

/// Finds the first byte that must be escaped in a JSON string.
#[inline]
fn first_special(bytes: &[u8]) -> Option<usize> {
    let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        if (below(word, 0x20) | equal(word, b'"') | equal(word, b'\\')) & TOPS != 0 {
            break;
        }
        at += 8;
    }
    bytes[at..].iter().position(|byte| special(*byte)).map(|more| at + more)
}

/// Returns whether a JSON string can contain these bytes unescaped.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    first_special(bytes).is_none()
}

/// Appends a JSON string with its quotation marks.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = first_special(rest) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                out.extend_from_slice(b"\\u00");
                push_hex(out, &[control]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends a JSON text on one line: line breaks between tokens are white space, and strings can't
/// contain any.
pub(crate) fn push_on_one_line(out: &mut Vec<u8>, json: &str) {
    let from = out.len();
    out.extend_from_slice(json.as_bytes());
    if memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some() {
        for byte in &mut out[from..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes in Base64 with padding (RFC 4648).
pub fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for at in 0..4 {
            let sextet = (bits >> (18 - 6 * at)) as usize & 0x3f;
            out.push(if at <= chunk.len() { BASE64[sextet] } else { b'=' });
        }
    }
}

/// Parses Base64 with padding.
pub fn parse_base64(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let last = bytes.len() / 4;
    for (at, chunk) in bytes.chunks(4).enumerate() {
        let padding = chunk.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && at + 1 != last) {
            return None;
        }
        let mut bits = 0;
        for byte in &chunk[..4 - padding] {
            bits = bits << 6 | BASE64.iter().position(|known| known == byte)? as u32;
        }
        let word = (bits << (6 * padding)).to_be_bytes();
        out.extend_from_slice(&word[1..4 - padding]);
    }
    Some(out)
}

/// Parses a JSON string, given with its quotation marks.
pub fn parse_string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return (!inner.contains('"')).then_some(Cow::Borrowed(inner));
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = *rest.as_bytes().get(at + 1)?;
        rest = rest.get(at + 2..)?;
        match escape {
            b'"' => out.push('"'),
            b'\\' => out.push('\\'),
            b'/' => out.push('/'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'u' => {
                let (character, after) = parse_unicode(rest)?;
                out.push(character);
                rest = after;
            }
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// Parses the character after `\u`, of one escape or of a surrogate pair, and returns the rest of
/// the text.
fn parse_unicode(text: &str) -> Option<(char, &str)> {
    let unit = |text: &str| u32::from_str_radix(text.get(..4)?, 16).ok();
    let first = unit(text)?;
    let rest = text.get(4..)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, rest));
    }
    let second = unit(rest.strip_prefix("\\u")?)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    let whole = 0x10000 + ((first - 0xd800) << 10) + low;
    Some((char::from_u32(whole)?, rest.get(6..)?))
}

/// Finds the end of the value that begins at `from`.
pub fn end_of_value(bytes: &[u8], from: usize) -> Option<usize> {
    match bytes.get(from)? {
        b'"' => end_of_string(bytes, from),
        b'{' | b'[' => end_of_nest(bytes, from),
        _ => {
            let length = bytes[from..].iter().position(|byte| b",}] \t".contains(byte));
            let end = length.map_or(bytes.len(), |length| from + length);
            (end > from).then_some(end)
        }
    }
}

fn end_of_string(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        at += find_mark(bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Finds the first quotation mark or backslash. Most strings are short, so the first bytes are
/// compared here, eight at a time.
#[inline]
fn find_mark(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < 64
        && let Some(chunk) = bytes[at..].first_chunk::<8>()
    {
        let word = u64::from_le_bytes(*chunk);
        let found = (equal(word, b'"') | equal(word, b'\\')) & TOPS;
        if found != 0 {
            // Only the lowest bit that is set is reliable.
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &bytes[at..]).map(|more| at + more)
}

fn end_of_nest(bytes: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = from;
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = end_of_string(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Iterates over the fields of an object in order, given the text between its braces:
/// `,"a":1,"b":[2]` (a leading comma is allowed). It stops at the first thing that is not a field.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    /// The text that has not been read yet.
    pub rest: &'a str,
}

impl<'a> Iterator for Fields<'a> {
    /// The name of a field, and its value as raw JSON.
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let rest = after(self.rest, b", ");
        let name_end = end_of_string(rest.as_bytes(), 0).filter(|_| rest.starts_with('"'))?;
        let name = rest.get(1..name_end - 1)?;
        let value = after(rest.get(name_end..)?.strip_prefix(':')?, b" ");
        let value_end = end_of_value(value.as_bytes(), 0)?;
        self.rest = value.get(value_end..)?;
        Some((name, value.get(..value_end)?))
    }
}

/// Skips all of these bytes, each a character of its own, at the beginning of a text.
#[inline]
fn after<'a>(text: &'a str, skipped: &[u8]) -> &'a str {
    let count = text.bytes().take_while(|byte| skipped.contains(byte)).count();
    &text[count..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(make: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        make(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let edges = [0, 1, 9, 10, 99, 100, 101, 999, 1000, 12_345, u64::from(u32::MAX), u64::MAX];
        for number in edges {
            assert_eq!(made(|out| push_u64(out, number)), number.to_string());
        }
        for number in [i64::MIN, -100, -1, 0, 7, i64::MAX] {
            assert_eq!(made(|out| push_i64(out, number)), number.to_string());
        }
    }

    #[test]
    fn every_byte_that_must_be_escaped_is_found_wherever_it_stands() {
        for byte in 0..=0x7f_u8 {
            let must = byte < 0x20 || byte == b'"' || byte == b'\\';
            for at in 0..19 {
                let mut text = "é~ !#[]\u{7f}é~ !#[]\u{7f}".to_owned();
                while !text.is_char_boundary(at) {
                    text.insert(0, 'x');
                }
                text.insert(at, char::from(byte));
                assert_eq!(is_plain(text.as_bytes()), !must, "{text:?}");
                let written = made(|out| push_string(out, &text));
                assert_eq!(parse_string(&written).as_deref(), Some(&*text), "{written}");
                assert!(written.bytes().all(|byte| byte >= 0x20), "{written}");
            }
        }
    }

    #[test]
    fn base64_round_trips() {
        for length in 0..40_u8 {
            let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(67)).collect();
            let text = made(|out| push_base64(out, &bytes));
            assert_eq!(parse_base64(&text), Some(bytes), "{text}");
        }
        assert_eq!(made(|out| push_base64(out, b"hello")), "aGVsbG8=");
        for bad in ["a", "a===", "====", "aGV=bG8=", "a*Vs"] {
            assert_eq!(parse_base64(bad), None, "{bad}");
        }
    }

    #[test]
    fn strings_with_escapes_are_read() {
        let cases = [
            (r#""""#, Some("")),
            (r#""plain""#, Some("plain")),
            (r#""a\n\t\"\\\/b""#, Some("a\n\t\"\\/b")),
            (r#""\u00e9\ud83d\ude00""#, Some("é😀")),
            (r#""\ud83d""#, None),
            (r#""\ud83dx""#, None),
            (r#""\x""#, None),
            (r#""\u12""#, None),
            (r#""a"b""#, None),
            ("\"", None),
            ("7", None),
        ];
        for (raw, expected) in cases {
            assert_eq!(parse_string(raw).as_deref(), expected, "{raw}");
        }
    }

    #[test]
    fn the_end_of_a_string_is_found_at_any_length() {
        for length in 0..200 {
            for (escape, more) in [("", 0), ("\\\"", 2), ("\\\\", 2), ("#]", 2), ("!é", 3)] {
                let text = format!("\"{escape}{}\" \"", "x".repeat(length));
                let end = length + more + 2;
                assert_eq!(end_of_value(text.as_bytes(), 0), Some(end), "{text}");
                assert_eq!(end_of_value(&text.as_bytes()[..end - 1], 0), None, "{text}");
            }
        }
    }

    #[test]
    fn fields_stop_at_the_first_thing_that_is_not_a_field() {
        let text = r#","a":1,"b":"x,\"}","c":{"d":[1,{"e":"]"}]},"f":null"#;
        let fields: Vec<_> = Fields { rest: text }.collect();
        let expected =
            [("a", "1"), ("b", r#""x,\"}""#), ("c", r#"{"d":[1,{"e":"]"}]}"#), ("f", "null")];
        assert_eq!(fields, expected);
        for broken in
            ["", ",", r#","a"#, r#","a":"#, r#","a":""#, r#","a":[1"#, "a:1", "]", r#","a":]"#]
        {
            assert_eq!(Fields { rest: broken }.count(), 0, "{broken}");
        }
    }
}
