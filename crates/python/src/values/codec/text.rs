//! Encodes scalars as JSON text. It doesn't depend on Python.

use std::fmt::Write as _;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Returns the number of leading bytes that need no escape in a JSON string: no quote, no
/// backslash, no control character. It checks eight bytes at a time.
pub(super) fn plain_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let zero_in = |x: u64| x.wrapping_sub(ONES) & !x;
        let quote = zero_in(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_in(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        // A borrow may mark a byte wrongly, but only after one that is marked correctly.
        let marks = (quote | backslash | control) & HIGH;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\').unwrap_or(rest.len())
}

/// Writes a JSON string, on one line.
pub(super) fn write_str(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    loop {
        let plain = plain_prefix(rest.as_bytes());
        out.push_str(&rest[..plain]);
        let Some(&odd) = rest.as_bytes().get(plain) else { break };
        match odd {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => _ = write!(out, "\\u{control:04x}"),
        }
        rest = &rest[plain + 1..];
    }
    out.push('"');
}

/// Writes a whole number.
pub(super) fn write_i64(out: &mut String, number: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push('-');
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// Writes a finite number: the shortest text that reads as the same number, and never as a whole
/// number.
pub(super) fn write_f64(out: &mut String, number: f64) {
    _ = write!(out, "{number:?}");
}

/// Escapes lone surrogates in a text that is encoded as Python's `surrogatepass`: a surrogate
/// becomes `\udc80`, a backslash is doubled.
pub(super) fn escape_surrogates(bytes: &[u8]) -> String {
    let mut out = String::new();
    let (mut at, mut start) = (0, 0);
    while at < bytes.len() {
        let escaped = match bytes[at..] {
            [b'\\', ..] => "\\\\".to_owned(),
            [0xed, high @ 0xa0..=0xbf, low, ..] => {
                let unit = 0xd000 | u32::from(high & 0x3f) << 6 | u32::from(low & 0x3f);
                format!("\\u{unit:04x}")
            }
            _ => {
                at += 1;
                continue;
            }
        };
        out.push_str(&String::from_utf8_lossy(&bytes[start..at]));
        at += if escaped.len() == 2 { 1 } else { 3 };
        start = at;
        out.push_str(&escaped);
    }
    out.push_str(&String::from_utf8_lossy(&bytes[start..]));
    out
}

/// Reverses [`escape_surrogates`]; `None` if the text is not in this form.
pub(super) fn unescape_surrogates(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        if let Some(after) = escape.strip_prefix('\\') {
            bytes.push(b'\\');
            rest = after;
            continue;
        }
        let digits = escape.strip_prefix('u')?.get(..4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let unit = u16::from_str_radix(digits, 16).ok().filter(|u| (0xd800..0xe000).contains(u))?;
        let [high, low] = [(unit >> 6) as u8 & 0x3f, unit as u8 & 0x3f];
        bytes.extend_from_slice(&[0xed, 0x80 | high, 0x80 | low]);
        rest = &escape[5..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_odd_byte_is_found_wherever_it_stands() {
        for odd in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for filler in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                for len in 0..40 {
                    let mut bytes = vec![filler; len];
                    assert_eq!(plain_prefix(&bytes), len);
                    for at in 0..len {
                        bytes[at] = odd;
                        assert_eq!(plain_prefix(&bytes), at, "{odd} at {at} of {len} in {filler}");
                        bytes[at] = filler;
                    }
                }
            }
        }
    }

    #[test]
    fn whole_numbers_are_written_in_full() {
        for number in [0, 1, -1, 9, 10, -10, 1_000_000, i64::MAX, i64::MIN] {
            let mut out = String::new();
            write_i64(&mut out, number);
            assert_eq!(out, number.to_string());
        }
    }

    #[test]
    fn a_float_never_looks_like_a_whole_number() {
        for (number, text) in
            [(1.0, "1.0"), (-0.0, "-0.0"), (1e16, "1e16"), (0.1, "0.1"), (5e-324, "5e-324")]
        {
            let mut out = String::new();
            write_f64(&mut out, number);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn surrogates_come_back() {
        let bytes = b"a\\\xed\xb2\x80\xc3\xa9\xed\xa0\xbd";
        let text = escape_surrogates(bytes);
        assert_eq!(text, "a\\\\\\udc80é\\ud83d");
        assert_eq!(unescape_surrogates(&text).as_deref(), Some(&bytes[..]));
        for bad in ["\\", "\\u12", "\\u0041", "\\x41", "\\u+dc8", "\\ué34"] {
            assert_eq!(unescape_surrogates(bad), None, "{bad}");
        }
    }
}
