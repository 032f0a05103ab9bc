//! Values as they pass between a durable run and the world: JSON text.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{ErrorKind, Reply, TaskError, Value};

use super::finite::Finite;
use crate::call::{Decode, FromReply};
use crate::wal::{BLOB_LIMIT, BlobHash};

/// A value as JSON text, which is what the log has of it. The hash of a large one may be known: it is made where the
/// value is, and not by the loop.
#[derive(Clone)]
pub(crate) struct Json(pub(crate) Arc<str>, pub(crate) Option<BlobHash>);

impl Json {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Json {
        Json(text.into(), None)
    }

    /// The same on another thread than the loop's, which has the time to look at it.
    pub(crate) fn made_elsewhere(text: String) -> Json {
        let hash = (text.len() > BLOB_LIMIT).then(|| BlobHash::of(text.as_bytes()));
        Json(text.into(), hash)
    }
}

/// A value as JSON; if it cannot be, the error names the place inside the value.
pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<String, TaskError> {
    let unwritable = |path: String, why: &dyn std::fmt::Display| {
        let message = format!("a value cannot be written down at `{path}`: {why}");
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

/// JSON as a value; if it is of another form, the error names the place inside the text.
pub(crate) fn decode<T: DeserializeOwned>(json: &str) -> Result<T, TaskError> {
    let unreadable = |path: &str, why: &serde_json::Error| {
        let wanted = std::any::type_name::<T>();
        let message = format!("what was written down is no {wanted} at `{path}`: {why}");
        TaskError::new(ErrorKind::Unreadable, message)
    };
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| unreadable(&error.path().to_string(), error.inner()))?;
    // Nothing may come after it.
    reader.end().map_err(|error| unreadable(".", &error))?;
    Ok(value)
}

/// Whether two texts are the same value: a map has no order.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
    one == other || value(one).is_some_and(|one| value(other) == Some(one))
}

/// JSON on one line, as the log has it: without the white space between its parts.
pub(crate) fn compact(json: &str) -> String {
    let (mut text, mut in_string, mut escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if !in_string && c.is_ascii_whitespace() {
            continue;
        }
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
        text.push(c);
    }
    text
}

/// The reply is JSON, read as the type that is wanted.
pub struct Written;

impl<R: DeserializeOwned + 'static> Decode<R> for Written {
    fn decode(reply: Reply) -> Result<R, TaskError> {
        let value = match reply {
            Reply::Message(message) => message.value,
            reply => Value::from_reply(reply)?,
        };
        match value.borrow::<Json>() {
            Some(json) => decode(&json.0),
            // A handler or a test answered with the value itself.
            None => crate::call::typed(value),
        }
    }
}
