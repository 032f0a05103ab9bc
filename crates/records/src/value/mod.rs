//! Values as they pass between a durable run and the world: JSON text.

mod finite;
pub mod plain;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError};

use self::finite::Finite;
use self::plain::{protect, unmark};
use tiffany_log::{BLOB_LIMIT, BlobHash};

/// A value as JSON text, which is what the log has of it. The hash of a large one may be known: it is made where the
/// value is, and not by the loop.
#[derive(Clone)]
pub struct Json(pub Arc<str>, pub Option<BlobHash>);

impl Json {
    /// A value whose text this is.
    pub fn new(text: impl Into<Arc<str>>) -> Json {
        Json(text.into(), None)
    }

    /// The same on another thread than the loop's, which has the time to look at it.
    pub fn made_elsewhere(text: String) -> Json {
        let hash = (text.len() > BLOB_LIMIT).then(|| BlobHash::of(text.as_bytes()));
        Json(text.into(), hash)
    }
}

/// A value as JSON that [`decode`] reads; if it cannot be, the error names the place inside the value.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, TaskError> {
    serialize(value).map(protect)
}

/// A value as the JSON that serde makes of it.
pub fn serialize<T: Serialize + ?Sized>(value: &T) -> Result<String, TaskError> {
    let unwritable = |path: String, why: &dyn std::fmt::Display| {
        let message = format!("a value cannot be recorded, at `{path}`: {why}");
        TaskError::new(ErrorKind::Unserializable, message)
    };
    let mut bytes = Vec::new();
    let mut writer = serde_json::Serializer::new(&mut bytes);
    serde_path_to_error::serialize(value, &mut writer)
        .map_err(|error| unwritable(error.path().to_string(), error.inner()))?;
    // A number that JSON does not have stands as `null` there.
    if memchr::memmem::find(&bytes, b"null").is_some() {
        serde_path_to_error::serialize(value, Finite)
            .map_err(|error| unwritable(error.path().to_string(), error.inner()))?;
    }
    Ok(String::from_utf8(bytes).expect("JSON is UTF-8"))
}

/// JSON of the log as a value; if it is of another form, the error names the place inside the text.
pub fn decode<T: DeserializeOwned>(json: &str) -> Result<T, TaskError> {
    deserialize(unmark(json))
}

/// Reads a value from JSON in the form that serde writes.
pub fn deserialize<T: DeserializeOwned>(json: &str) -> Result<T, TaskError> {
    let unreadable = |path: &str, why: &serde_json::Error| {
        let wanted = std::any::type_name::<T>();
        let message = format!("the recorded value is not of type `{wanted}` at `{path}`: {why}");
        TaskError::new(ErrorKind::Unreadable, message)
    };
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| unreadable(&error.path().to_string(), error.inner()))?;
    // Nothing may come after it.
    reader.end().map_err(|error| unreadable(".", &error))?;
    Ok(value)
}

/// A value in a request from outside, which is plain JSON.
pub fn raw(value: &impl Serialize) -> Result<Box<RawValue>, TaskError> {
    serialize(value).and_then(raw_text)
}

/// A value of the program's own, as the log has it.
pub fn own(value: &impl Serialize) -> Result<Box<RawValue>, TaskError> {
    encode(value).and_then(raw_text)
}

fn raw_text(json: String) -> Result<Box<RawValue>, TaskError> {
    RawValue::from_string(json)
        .map_err(|error| TaskError::new(ErrorKind::Unserializable, error.to_string()))
}

/// Whether two texts are the same value: a map has no order.
pub fn is_same(one: &str, other: &str) -> bool {
    one == other || same_within(one, other, DEPTH)
}

/// So deep maps and lists are looked at whose texts differ.
const DEPTH: usize = 128;

fn same_within(one: &str, other: &str, depth: usize) -> bool {
    fn both<'a, T: serde::Deserialize<'a>>(one: &'a str, other: &'a str) -> Option<(T, T)> {
        Some((serde_json::from_str(one).ok()?, serde_json::from_str(other).ok()?))
    }
    let same =
        |(one, other): (&RawValue, &RawValue)| same_within(one.get(), other.get(), depth - 1);
    // A whole number of any length is the same only as the same digits.
    let is_whole = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let (one, other) = (one.trim(), other.trim());
    match one.as_bytes().first() {
        _ if one == other => true,
        _ if depth == 0 => false,
        Some(b'{') => {
            both::<BTreeMap<String, &RawValue>>(one, other).is_some_and(|(one, other)| {
                one.keys().eq(other.keys()) && one.into_values().zip(other.into_values()).all(same)
            })
        }
        Some(b'[') => both::<Vec<&RawValue>>(one, other).is_some_and(|(one, other)| {
            one.len() == other.len() && one.into_iter().zip(other).all(same)
        }),
        _ if is_whole(one) || is_whole(other) => false,
        _ => both::<serde_json::Value>(one, other).is_some_and(|(one, other)| one == other),
    }
}

/// A hash that is the same for all texts of one value.
pub fn hash_of(json: &str) -> BlobHash {
    let mut text = String::with_capacity(json.len());
    push_in_order(&mut text, json, DEPTH);
    BlobHash::of(text.as_bytes())
}

/// Writes a value in the one form that all its texts have in common.
fn push_in_order(text: &mut String, json: &str, depth: usize) {
    let json = json.trim();
    let is_whole = json.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let mut comma = "";
    match json.as_bytes().first() {
        _ if depth == 0 || is_whole => text.push_str(json),
        Some(b'{') => match serde_json::from_str::<BTreeMap<String, &RawValue>>(json) {
            Ok(map) => {
                text.push('{');
                for (name, value) in map {
                    text.push_str(comma);
                    text.push_str(&serde_json::Value::from(name).to_string());
                    text.push(':');
                    push_in_order(text, value.get(), depth - 1);
                    comma = ",";
                }
                text.push('}');
            }
            Err(_) => text.push_str(json),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(json) {
            Ok(list) => {
                text.push('[');
                for value in list {
                    text.push_str(comma);
                    push_in_order(text, value.get(), depth - 1);
                    comma = ",";
                }
                text.push(']');
            }
            Err(_) => text.push_str(json),
        },
        _ => match serde_json::from_str::<serde_json::Value>(json) {
            Ok(value) => text.push_str(&value.to_string()),
            Err(_) => text.push_str(json),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{hash_of, is_same};

    #[test]
    fn a_map_has_no_order_and_a_whole_number_all_of_its_digits() {
        let rows = [
            (r#"{"a":1,"b":[2,"x"]}"#, r#"{ "b": [2, "\u0078"], "a": 1 }"#, true),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,1]", false),
            ("1.50", "1.5", true),
            ("1", "1.0", false),
            ("1", "\"1\"", false),
            ("null", "false", false),
            ("18446744073709551616", "18446744073709551617", false),
            ("[-99999999999999999999999]", "[-99999999999999999999998]", false),
            (r#"{"a":1e400}"#, r#"{"a":1e400 }"#, true),
            ("no JSON", "no  JSON", false),
        ];
        for (one, other, expected) in rows {
            assert_eq!(is_same(one, other), expected, "{one} and {other}");
            assert_eq!(is_same(other, one), expected, "{other} and {one}");
            assert_eq!(hash_of(one) == hash_of(other), expected, "hashes of {one} and {other}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_the_same_only_as_the_same_text() {
        let nested = |space: &str| format!("{}1{space}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(is_same(&nested(""), &nested("")));
        assert!(!is_same(&nested(""), &nested(" ")));
    }
}
