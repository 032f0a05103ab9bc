//! Names that live as long as the process: files, steps and calls of the user's own. There are as many as the program has, so they
//! are kept for ever.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Mutex;

use tiffany::Site;

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The one text that is equal to this one and never goes away.
pub(crate) fn name(text: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(known) = names.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.into());
    names.insert(kept);
    kept
}

/// A line of a Python file.
pub(crate) fn site(file: &str, line: u32) -> Site {
    Site { file: Cow::Borrowed(name(file)), line }
}
