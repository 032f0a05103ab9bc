//! Placeholders of redacted values: of the same kind and shape, equal for equal values and
//! different for different ones. They are made by counting, and contain nothing of the value but
//! its shape.

use std::collections::{BTreeMap, BTreeSet};

use tiffany_records::redact::{Kind, moment};

/// A redacted value.
pub(crate) type Secret = (Kind, String);

/// A placeholder for each value. Values of one shape keep their order.
pub(crate) fn placeholders(secrets: &BTreeSet<Secret>) -> BTreeMap<Secret, String> {
    let mut next: BTreeMap<Secret, u64> = BTreeMap::new();
    let mut made = BTreeMap::new();
    for secret in secrets {
        let (kind, text) = secret;
        let number = next.entry((*kind, shape(*kind, text))).or_default();
        // A placeholder must not be one of the redacted values, as long as there are others.
        let fresh = (*number..number.saturating_add(secrets.len() as u64 + 1))
            .map(|number| (number, make(*kind, text, number)))
            .find(|(_, made)| *kind == Kind::Flag || !secrets.contains(&(*kind, made.clone())));
        let (at, placeholder) = fresh.unwrap_or_else(|| (*number, make(*kind, text, *number)));
        *number = at + 1;
        made.insert(secret.clone(), placeholder);
    }
    made
}

/// The shape of a value; values of one shape are counted together.
fn shape(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Bytes | Kind::Moment => text.len().to_string(),
        _ => make(kind, text, 0),
    }
}

/// The placeholder with this number.
fn make(kind: Kind, text: &str, number: u64) -> String {
    match kind {
        Kind::Text => letters(text, number),
        Kind::Bytes => bytes(text, number),
        Kind::Moment => moment(text, number),
        Kind::Number => figure(text, number),
        Kind::Flag => "false".into(),
    }
}

/// Letters become letters that are also hex digits, and digits become digits other than 0, so that
/// code that reads numbers or UUIDs still can. The number is in the last ones.
fn letters(text: &str, mut number: u64) -> String {
    let is_plain = !text.chars().any(char::is_alphanumeric);
    let mut out: Vec<char> = text.chars().rev().collect();
    for c in &mut out {
        let (first, count) = match *c {
            '0'..='9' => ('1', 9),
            'A'..='Z' => ('A', 6),
            c if c.is_alphanumeric() || is_plain => ('a', 6),
            _ => continue,
        };
        *c = char::from(first as u8 + (number % count) as u8);
        number /= count;
    }
    out.iter().rev().collect()
}

/// The same number of bytes, all 0 but the last ones.
fn bytes(text: &str, number: u64) -> String {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let count = (text.len() / 4 * 3).saturating_sub(padding);
    let mut content = vec![0; count];
    let digits = number.saturating_add(1).to_be_bytes();
    for (byte, digit) in content.iter_mut().rev().zip(digits.iter().rev()) {
        *byte = *digit;
    }
    let mut out = Vec::new();
    tiffany_log::push_base64(&mut out, &content);
    String::from_utf8(out).expect("base 64 is text")
}

/// A number with the same number of digits before the point.
fn figure(text: &str, number: u64) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
    let is_whole = whole == digits.len();
    // A `float` keeps no more digits than these.
    let count = if is_whole { whole } else { whole.min(15) };
    let counted = number.to_string();
    let whole = match count {
        0 | 1 => ((number + 1) % 10).to_string(),
        _ if counted.len() < count => format!("1{counted:0>width$}", width = count - 1),
        _ => counted,
    };
    format!("{sign}{whole}{}", if is_whole { "" } else { ".5" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, texts: &[&str]) -> Vec<String> {
        let secrets: BTreeSet<Secret> =
            texts.iter().map(|text| (kind, (*text).to_owned())).collect();
        let made = placeholders(&secrets);
        texts.iter().map(|text| made[&(kind, (*text).to_owned())].clone()).collect()
    }

    #[test]
    fn a_placeholder_has_the_kind_and_the_shape_of_the_value() {
        for (kind, text, expected) in [
            (Kind::Text, "ada@example.org", "aaa@aaaaaaa.aaa"),
            (Kind::Text, "Zoë 40711", "Aaa 11111"),
            (Kind::Text, "!?", "aa"),
            (Kind::Text, "7c9e6679-7425-40de", "1a1a1111-1111-11aa"),
            (Kind::Bytes, "aGVsbG8=", "AAAAAAE="),
            (Kind::Moment, "2026-11-16", "2000-01-01"),
            (Kind::Moment, "2026-11-16T04:14:18.665+02:00", "2000-01-01T00:00:00.001+02:00"),
            (Kind::Moment, "04:14:18", "00:00:00"),
            (Kind::Number, "4711", "1000"),
            (Kind::Number, "-42", "-10"),
            (Kind::Number, "7", "1"),
            (Kind::Number, "1234.56", "1000.5"),
            (Kind::Number, "1e-7", "1.5"),
            (Kind::Flag, "true", "false"),
        ] {
            assert_eq!(of(kind, &[text]), [expected], "{text}");
        }
    }

    #[test]
    fn other_values_have_other_placeholders_in_the_same_order() {
        for (kind, texts) in [
            (Kind::Text, ["ann@x.org", "bob@x.org", "cyd@x.org", "zoe@x.org"]),
            (Kind::Text, ["4711", "4712", "5000", "9999"]),
            (Kind::Moment, ["2020-01-02", "2021-01-02", "2022-01-02", "2023-01-02"]),
            (Kind::Number, ["10", "11", "50", "99"]),
            (Kind::Bytes, ["AAAA", "aGVs", "bGVs", "cGVs"]),
        ] {
            let made = of(kind, &texts);
            assert!(made.is_sorted_by(|one, other| one < other), "{made:?}");
            assert!(made.iter().all(|made| !texts.contains(&&**made)), "{made:?}");
        }
    }

    #[test]
    fn where_all_values_are_taken_there_is_still_one_for_each() {
        let digits: Vec<String> = (0..10).map(|digit: u32| digit.to_string()).collect();
        let digits: Vec<&str> = digits.iter().map(String::as_str).collect();
        let mut made = of(Kind::Number, &digits);
        made.sort();
        made.dedup();
        assert_eq!(made.len(), 10);
    }
}
