//! Errors that are too long for their line. The log stores them as blobs, so code that shows an
//! error reads its blob and shortens it.

use serde_json::Value;
use tiffany_kernel::TaskError;

use crate::redact;
use tiffany_log::{BlobHash, LogError, Payload};

/// The maximum number of characters of each text in an error that is shown.
const MAX_CHARS: usize = 2_000;

/// Returns the blob that contains an error, and its length; `None` if the error is in the line.
pub(crate) fn blob_of(error: &Value) -> Option<(BlobHash, u64)> {
    error.get("$blob")?;
    match Payload::parse(&error.to_string())? {
        Payload::Blob { hash, len, .. } => Some((hash, len)),
        _ => None,
    }
}

/// Returns an error of the log for display. If it is in a blob, it is read from there and
/// shortened, with a note that names the blob.
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
            // Secrets are redacted before the text is cut, because no rule would match the
            // beginning of one.
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

/// Returns whether a text is too long to be shown. A shortened encoding of another language would
/// be useless.
fn is_long(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.chars().nth(MAX_CHARS).is_some())
}
