//! Events serialized as text, once each, however many clients watch.

use std::sync::{Mutex, PoisonError};

use axum::extract::ws::Utf8Bytes;
use tiffany::pal::Activity;

/// How many of the last events are kept as text.
const KEPT: usize = 1024;

/// The start of the WebSocket message around an event.
const BEFORE: &str = "{\"event\":";
const AFTER: &str = "}";

/// The last events, as WebSocket messages.
pub(crate) struct Texts(Vec<Mutex<(u64, Utf8Bytes)>>);

/// An event as a WebSocket message.
pub(crate) struct Text(Utf8Bytes);

impl Text {
    /// Returns the whole message. Clones share its bytes.
    pub(crate) fn message(self) -> Utf8Bytes {
        self.0
    }

    /// Returns the event alone, as JSON.
    pub(crate) fn event(&self) -> &str {
        &self.0[BEFORE.len()..self.0.len() - AFTER.len()]
    }
}

impl Texts {
    pub(crate) fn new() -> Texts {
        Texts((0..KEPT).map(|_| Mutex::new((0, Utf8Bytes::from_static("")))).collect())
    }

    pub(crate) fn of(&self, event: &Activity) -> Text {
        let place = &self.0[event.seq as usize % KEPT];
        let mut kept = place.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != event.seq || kept.1.is_empty() {
            let text = serde_json::to_string(event).unwrap_or_else(|_| "null".into());
            *kept = (event.seq, format!("{BEFORE}{text}{AFTER}").into());
        }
        Text(kept.1.clone())
    }
}
