//! Values as JSON text, the form in which they pass between a durable run and the outside world.

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

/// A value as JSON text in the form of the log. The hash of a large value may be known, if it was
/// computed by the thread that made the value instead of by the loop.
#[derive(Clone)]
pub struct Json(pub Arc<str>, pub Option<BlobHash>);

impl Json {
    /// Makes a value from its text.
    pub fn new(text: impl Into<Arc<str>>) -> Json {
        Json(text.into(), None)
    }

    /// Makes a value on another thread than the loop's, which has the time to compute its hash.
    pub fn made_elsewhere(text: String) -> Json {
        let hash = (text.len() > BLOB_LIMIT).then(|| BlobHash::of(text.as_bytes()));
        Json(text.into(), hash)
    }
}

/// Encodes a value as JSON for [`decode`]. If that is not possible, the error names the place
/// inside the value.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, TaskError> {
    let json = serialize(value)?;
    plain::refuse_reserved(&json)?;
    Ok(protect(json))
}

/// Converts a value to the JSON that serde makes of it.
pub fn serialize<T: Serialize + ?Sized>(value: &T) -> Result<String, TaskError> {
    let unwritable = |path: String, why: &dyn std::fmt::Display| {
        let message = format!("a value cannot be recorded, at `{path}`: {why}");
        TaskError::new(ErrorKind::Unserializable, message)
    };
    let mut bytes = Vec::new();
    let mut writer = serde_json::Serializer::new(&mut bytes);
    serde_path_to_error::serialize(value, &mut writer)
        .map_err(|error| unwritable(error.path().to_string(), error.inner()))?;
    // A number that JSON does not have becomes `null`.
    if memchr::memmem::find(&bytes, b"null").is_some() {
        serde_path_to_error::serialize(value, Finite)
            .map_err(|error| unwritable(error.path().to_string(), error.inner()))?;
    }
    Ok(String::from_utf8(bytes).expect("JSON is UTF-8"))
}

/// Decodes JSON from the log. If it has another form, the error names the place inside the text.
pub fn decode<T: DeserializeOwned>(json: &str) -> Result<T, TaskError> {
    deserialize(unmark(json))
}

/// Reads a value from the JSON that serde makes of it.
pub fn deserialize<T: DeserializeOwned>(json: &str) -> Result<T, TaskError> {
    let unreadable = |path: &str, why: &serde_json::Error| {
        let wanted = std::any::type_name::<T>();
        let message = format!("the recorded value is not of type `{wanted}` at `{path}`: {why}");
        TaskError::new(ErrorKind::Unreadable, message)
    };
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| unreadable(&error.path().to_string(), error.inner()))?;
    // Nothing may follow the value.
    reader.end().map_err(|error| unreadable(".", &error))?;
    Ok(value)
}

/// Makes a value for a request from outside, which is plain JSON.
pub fn raw(value: &impl Serialize) -> Result<Box<RawValue>, TaskError> {
    serialize(value).and_then(raw_text)
}

/// Makes a value of the program in the form of the log.
pub fn own(value: &impl Serialize) -> Result<Box<RawValue>, TaskError> {
    encode(value).and_then(raw_text)
}

fn raw_text(json: String) -> Result<Box<RawValue>, TaskError> {
    RawValue::from_string(json)
        .map_err(|error| TaskError::new(ErrorKind::Unserializable, error.to_string()))
}

/// Returns whether two texts represent the same value. The order of members has no meaning.
pub fn is_same(one: &str, other: &str) -> bool {
    one == other || same_within(one, other, DEPTH)
}

/// The depth up to which arrays and objects with different texts are compared.
const DEPTH: usize = 128;

fn same_within(one: &str, other: &str, depth: usize) -> bool {
    fn both<'a, T: serde::Deserialize<'a>>(one: &'a str, other: &'a str) -> Option<(T, T)> {
        Some((serde_json::from_str(one).ok()?, serde_json::from_str(other).ok()?))
    }
    let same =
        |(one, other): (&RawValue, &RawValue)| same_within(one.get(), other.get(), depth - 1);
    // Integers of any length are compared digit by digit.
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

/// Computes a hash that is the same for all texts of one value.
pub fn hash_of(json: &str) -> BlobHash {
    let mut text = String::with_capacity(json.len());
    push_in_order(&mut text, json, DEPTH);
    BlobHash::of(text.as_bytes())
}

/// Writes a value in a canonical form.
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
    fn objects_are_equal_in_any_order_and_integers_by_all_digits() {
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
    fn values_nested_too_deep_are_equal_only_as_texts() {
        let nested = |space: &str| format!("{}1{space}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(is_same(&nested(""), &nested("")));
        assert!(!is_same(&nested(""), &nested(" ")));
    }
}
