//! Names of calls for people: what the log and the kernel call an effect is a step to its author.
//! Names of fields and tags don't belong here.

use tiffany_kernel::CallKind;

/// Returns the word for a call with this tag.
pub fn call_word(tag: &str) -> &str {
    if tag == CallKind::Effect.tag() { "step" } else { tag }
}

/// Formats a call with this tag, and its name if it has one.
pub fn call_shown(tag: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{} `{name}`", call_word(tag)),
        None => format!("`{}`", call_word(tag)),
    }
}
