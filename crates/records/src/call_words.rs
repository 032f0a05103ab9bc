//! Calls in the words that people have for them: what the log and the kernel call an effect is a step to who writes one. Names of fields and
//! tags are not for here.

use tiffany_kernel::CallKind;

/// The word for a call, by its tag.
pub fn call_word(tag: &str) -> &str {
    if tag == CallKind::Effect.tag() { "step" } else { tag }
}

/// A call by its tag, and its name if it has one.
pub fn call_shown(tag: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{} `{name}`", call_word(tag)),
        None => format!("`{}`", call_word(tag)),
    }
}
