//! The note in the lock file: which process has the log.

use std::time::{SystemTime, UNIX_EPOCH};

use super::json::{Fields, parse_string, push_string, push_u64};
use super::stamp::Stamp;

/// How long a process holds a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// As long as it runs.
    ForLong,
    /// To write something down, so that others wait for it.
    Briefly,
}

/// The note of this process: `{"pid":1,"host":"a","started":"…"}`, and `"brief":true` if it holds the directory only
/// for a moment.
pub(crate) fn owner(holding: Holding) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started = Stamp::from_unix_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let mut note = b"{\"pid\":".to_vec();
    push_u64(&mut note, u64::from(std::process::id()));
    note.extend_from_slice(b",\"host\":");
    push_string(&mut note, host.trim());
    note.extend_from_slice(b",\"started\":");
    push_string(&mut note, started.as_str());
    if holding == Holding::Briefly {
        note.extend_from_slice(b",\"brief\":true");
    }
    note.extend_from_slice(b"}\n");
    String::from_utf8(note).expect("the note is text")
}

/// Whether who left this note is about to let go, or about to write the rest of it.
pub(crate) fn is_brief(note: &str) -> bool {
    let note = note.trim_end();
    note.ends_with(",\"brief\":true}") || !note.ends_with('}')
}

/// A note in words.
pub(crate) fn describe(note: &str) -> String {
    let inside = note.trim().strip_prefix('{').and_then(|note| note.strip_suffix('}'));
    let get = |field: &str| {
        let mut fields = Fields { rest: inside.unwrap_or("") };
        fields.find(|(name, _)| *name == field).map(|(_, value)| value)
    };
    let text = |field: &str| get(field).and_then(parse_string);
    match (get("pid"), text("host"), text("started")) {
        (Some(pid), Some(host), Some(started)) => {
            format!("process {pid} on {host} since {started}")
        }
        // It may be just about to write its note.
        _ => "another process".to_string(),
    }
}
