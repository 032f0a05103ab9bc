//! Errors that are too long for their line. The log has them as blobs, so whatever shows one reads its blob and cuts it.

use serde_json::Value;
use tiffany_kernel::TaskError;

use crate::redact;
use tiffany_log::{BlobHash, LogError, Payload};

/// The most characters of a text in an error that is shown.
const MAX_CHARS: usize = 2_000;

/// The blob that an error is in, and its length, if it is in one.
pub(crate) fn blob_of(error: &Value) -> Option<(BlobHash, u64)> {
    error.get("$blob")?;
    match Payload::parse(&error.to_string())? {
        Payload::Blob { hash, len, .. } => Some((hash, len)),
        _ => None,
    }
}

/// An error of the log as it can be shown. One that is in a blob is read from there, and cut with a note that names the blob.
pub fn shown_error(
    error: Value,
    read_blob: impl FnOnce(BlobHash) -> Result<Vec<u8>, LogError>,
) -> Value {
    let Some((hash, len)) = blob_of(&error) else { return error };
    let read = read_blob(hash).map_err(|error| error.to_string()).and_then(|bytes| {
        serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
    });
    let mut error = match read {
        Ok(error) => error,
        Err(why) => {
            let unread = TaskError::failed(format!("its error can't be read: {why}"));
            return serde_json::to_value(unread).unwrap_or(error);
        }
    };
    cut_texts(&mut error);
    if let Some(Value::String(message)) = error.get_mut("message") {
        message.push_str(&format!(
            " (the whole error has {len} bytes; `tiffany show --blob {hash}` prints it)"
        ));
    }
    error
}

fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) => {
            // Secrets are looked for before it is cut: nobody finds the beginning of one.
            let whole = redact::clean(text);
            if let Some((at, _)) = whole.char_indices().nth(MAX_CHARS) {
                *text = format!("{}…", &whole[..at]);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(cut_texts),
        Value::Object(fields) => {
            fields.retain(|name, value| name != "detail" || !is_long(value));
            fields.values_mut().for_each(cut_texts);
        }
        _ => {}
    }
}

/// Whether a text is too long to be shown. The code of a language, cut somewhere, says nothing.
fn is_long(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.chars().nth(MAX_CHARS).is_some())
}
