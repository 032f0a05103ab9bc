//! Names that are kept as long as the process exists: files, steps and user-defined calls. Their
//! number is bounded by the program's code.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Mutex;

use tiffany::Site;

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Returns the kept text that is equal to this one.
pub(crate) fn name(text: &str) -> &'static str {
    let mut names = NAMES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(known) = names.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.into());
    names.insert(kept);
    kept
}

/// Returns the site of a line in a Python file.
pub(crate) fn site(file: &str, line: u32) -> Site {
    Site { file: Cow::Borrowed(name(file)), line }
}
