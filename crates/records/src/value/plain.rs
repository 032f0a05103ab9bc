//! Values from outside the program: from HTTP clients, the command line and other processes. They
//! are plain JSON. A value is checked before it is accepted, and marked if the codec of a language
//! could mistake it for its own encoding. This module knows nothing of requests.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError};

use crate::json::compact;

/// The maximum depth of a value from outside. With it, both languages can read the value however it
/// is wrapped.
const MAX_LEVELS: usize = 100;

/// The text before a value that contains no tags; `}` follows the value.
const MARK: &str = "{\"$plain\":";

/// The name that a value has in the log when it is encrypted.
pub const ENCRYPTED: &str = "$enc";

/// Returns an error if a value is an object with a member `$enc`: the log has that only where a value is encrypted. A
/// value further inside may have such a member.
pub fn refuse_reserved(json: &str) -> Result<(), TaskError> {
    // Nearly all values have neither.
    let bytes = json.as_bytes();
    let may_have = |text: &[u8]| memchr::memmem::find(bytes, text).is_some();
    if !json.trim_start().starts_with('{') || !(may_have(b"$enc") || may_have(b"\\u")) {
        return Ok(());
    }
    let members = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(json);
    match members {
        Ok(members) if members.contains_key(ENCRYPTED) => {
            let message =
                "a value has a member `$enc`, which stands for encrypted values in the log";
            Err(TaskError::new(ErrorKind::ReservedName, message))
        }
        _ => Ok(()),
    }
}

/// Converts a value from outside to the form of the log. Fails if a program could not read it, or if
/// it has a reserved name.
pub fn accept(json: &RawValue) -> Result<Box<RawValue>, TaskError> {
    let has_dollar = check(json)?;
    if has_dollar {
        refuse_reserved(json.get())?;
    }
    let text = compact(json.get());
    let text = if has_dollar { mark(&text) } else { text };
    RawValue::from_string(text).map_err(|error| refused(&error))
}

/// Accepts an encoded value unchanged, where the codec is not available. Fails if no program could
/// read it, or if it has a reserved name.
pub fn check_readable(json: Box<RawValue>) -> Result<Box<RawValue>, TaskError> {
    check(&json)?;
    refuse_reserved(unmark(json.get())).map(|()| json)
}

/// Returns whether something in a value could be mistaken for a tag. Fails if no program could read
/// the value.
fn check(json: &RawValue) -> Result<bool, TaskError> {
    let mut has_dollar = false;
    let mut reader = serde_json::Deserializer::from_str(json.get());
    let level = Level { left: MAX_LEVELS, has_dollar: &mut has_dollar };
    level.deserialize(&mut reader).map_err(|error| refused(&error))?;
    Ok(has_dollar)
}

fn refused(error: &serde_json::Error) -> TaskError {
    let message = format!("the value cannot be accepted: {error}");
    TaskError::new(ErrorKind::RefusedValue, message)
}

fn mark(json: &str) -> String {
    format!("{MARK}{json}}}")
}

/// Returns the value inside the mark, if there is a mark.
pub fn marked(json: &str) -> Option<&str> {
    json.strip_prefix(MARK)?.strip_suffix('}')
}

/// Returns the value without the mark.
pub fn unmark(json: &str) -> &str {
    marked(json).unwrap_or(json)
}

/// Marks the value of a Rust program if it looks like a marked one.
pub fn protect(json: String) -> String {
    if json.starts_with(MARK) { mark(&json) } else { json }
}

/// Reads a value to its end without keeping it. serde_json itself refuses numbers outside the range
/// of `f64` and lone surrogates.
struct Level<'a> {
    left: usize,
    /// Set if the name of a member begins with `$`, as tags do.
    has_dollar: &'a mut bool,
}

impl Level<'_> {
    fn deeper<E: Error>(&mut self) -> Result<Level<'_>, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Level { left, has_dollar: self.has_dollar }),
            None => Err(E::custom(format_args!("it has more than {MAX_LEVELS} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let mut level = self.deeper()?;
        while items.next_element_seed(level.again())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let mut level = self.deeper()?;
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            *level.has_dollar |= name.starts_with('$');
            if names.contains(&name) {
                return Err(A::Error::custom(format_args!("the name {name:?} is there twice")));
            }
            names.insert(name);
            members.next_value_seed(level.again())?;
        }
        Ok(())
    }
}

impl Level<'_> {
    /// Returns the same level for the next part.
    fn again(&mut self) -> Level<'_> {
        Level { left: self.left, has_dollar: self.has_dollar }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::super::{decode, encode};
    use super::accept;

    fn accepted(json: &str) -> Result<String, String> {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        accept(&raw).map(|json| json.get().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_unchanged_unless_it_contains_the_name_of_a_tag() {
        for (json, expected) in [
            ("[1, {\"a\": \"b c\"}]", "[1,{\"a\":\"b c\"}]"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("{\"$ref\": 1}", "{\"$plain\":{\"$ref\":1}}"),
            ("[{\"a\":{\"\\u0024b\":2}}]", "{\"$plain\":[{\"a\":{\"\\u0024b\":2}}]}"),
            ("{\"$plain\":1}", "{\"$plain\":{\"$plain\":1}}"),
            ("\"$ref\"", "\"$ref\""),
        ] {
            let accepted = accepted(json).unwrap();
            assert_eq!(accepted, expected);
            let given: Value = serde_json::from_str(json).unwrap();
            assert_eq!(decode::<Value>(&accepted).unwrap(), given);
        }
    }

    #[test]
    fn a_value_that_no_program_could_read_is_refused() {
        let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
        let very_deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for (json, why) in [
            ("1e999", "number out of range"),
            ("\"\\ud800\"", "hex escape"),
            ("{\"\\udc00\":1}", "surrogate"),
            ("{\"a\":1,\"\\u0061\":2}", "the name \"a\" is there twice"),
            (&deep, "more than 100 levels"),
            (&very_deep, "more than 100 levels"),
        ] {
            let refused = accepted(json).unwrap_err();
            assert!(refused.contains(why) && refused.contains("TFY0220"), "{refused}");
        }
        assert!(accepted(&deep[1..201]).is_ok());
    }

    #[test]
    fn the_name_of_encrypted_values_is_reserved_where_a_value_begins() {
        for reserved in [
            r#"{"$enc":"k1"}"#,
            r#"{"a":1,"$enc":"k1"}"#,
            r#" { "\u0024enc" : null }"#,
            r#"{"a":{"$enc":1},"$enc":2}"#,
        ] {
            assert!(accepted(reserved).unwrap_err().contains("TFY0272"), "{reserved}");
            let value: Value = serde_json::from_str(reserved).unwrap();
            assert_eq!(encode(&value).unwrap_err().code(), "TFY0272", "{reserved}");
        }
        for free in [
            r#"[{"$enc":1}]"#,
            r#"{"a":{"$enc":1}}"#,
            r#"{"$encrypted":1}"#,
            r#"{"enc":"$enc"}"#,
            r#""$enc""#,
        ] {
            let value: Value = serde_json::from_str(free).unwrap();
            assert_eq!(decode::<Value>(&accepted(free).unwrap()).unwrap(), value, "{free}");
            assert_eq!(decode::<Value>(&encode(&value).unwrap()).unwrap(), value, "{free}");
        }
    }

    #[test]
    fn a_rust_value_that_looks_marked_round_trips() {
        for value in [
            serde_json::json!({ "$plain": 1 }),
            serde_json::json!({ "$plain": { "$plain": null } }),
            serde_json::json!({ "$plain": 1, "b": 2 }),
        ] {
            assert_eq!(decode::<Value>(&encode(&value).unwrap()).unwrap(), value);
        }
    }
}
