//! Whether somebody drives the runs of a directory, and what to do where nobody does. A run whose process is gone is `live` in its log: it looks alive.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use tiffany_kernel::{TaskError, Uuid};

use crate::control::Control;
use crate::wal::lasting_holder;

/// The number of the process that has the log, and so drives its runs. One that only writes something down is none.
pub(super) fn process(dir: &Path) -> Option<u32> {
    let holder = lasting_holder(dir).map(|holder| holder.pid);
    // The lock of a process in another container is not seen, and its socket answers all the same.
    holder.or_else(|| Control::connect(dir).ok().flatten()?.peer())
}

/// Runs that the process does not drive, and why: to their logs they are live.
pub(super) fn paused(dir: &Path) -> BTreeMap<Uuid, TaskError> {
    let status = Control::connect(dir).ok().flatten().and_then(|mut control| control.status().ok());
    let paused = status.into_iter().flat_map(|status| status.paused);
    paused.map(|paused| (paused.run, paused.error)).collect()
}

/// What to do where nobody does.
pub(super) fn start(dir: &Path) -> String {
    let dir = dir.display().to_string();
    format!(
        "start `tiffany serve --app FILE --dir {}` (Python), or the program that has the functions (by its own `serve`, if it has one)",
        quoted(&dir)
    )
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-~+:,@%".contains(c);
    match !word.is_empty() && !word.starts_with('~') && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        for (word, expected) in [
            ("/var/log-1", "/var/log-1"),
            ("only half", "'only half'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a|b", "'a|b'"),
            ("summer~4", "summer~4"),
            ("~", "'~'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
