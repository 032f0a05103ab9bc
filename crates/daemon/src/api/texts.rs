//! Events as text, each made once: a thousand who watch one run read the same bytes.

use std::sync::{Arc, Mutex, PoisonError};

use tiffany::pal::Activity;

/// So many of the last events are kept.
const KEPT: usize = 1024;

/// The last events as text.
pub(crate) struct Texts(Vec<Mutex<(u64, Arc<str>)>>);

impl Texts {
    pub(crate) fn new() -> Texts {
        Texts((0..KEPT).map(|_| Mutex::new((0, "".into()))).collect())
    }

    /// An event as JSON.
    pub(crate) fn of(&self, event: &Activity) -> Arc<str> {
        let place = &self.0[event.seq as usize % KEPT];
        let mut kept = place.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != event.seq || kept.1.is_empty() {
            let text = serde_json::to_string(event).unwrap_or_else(|_| "null".into());
            *kept = (event.seq, text.into());
        }
        Arc::clone(&kept.1)
    }
}
