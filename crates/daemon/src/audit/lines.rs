//! The lines of an audit file: formatting, parsing and joining. It doesn't access files.

use std::collections::HashMap;
use std::io;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{BEGUN, Entry};

/// Formats an entry as a line that follows a line with the checksum `last`. Returns the line and
/// its checksum.
pub(super) fn line(at: SystemTime, entry: &Entry, last: u32) -> io::Result<(String, u32)> {
    #[derive(Serialize)]
    struct Stamped<'a> {
        ts: &'a str,
        #[serde(flatten)]
        entry: &'a Entry,
    }
    let nanos = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let stamp = tiffany::wal::Stamp::from_unix_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    let mut line = serde_json::to_string(&Stamped { ts: stamp.as_str(), entry })?;
    line.pop();
    let crc = crc32c::crc32c_append(last, line.as_bytes());
    line.push_str(&format!(",\"crc\":\"{crc:08x}\"}}\n"));
    Ok((line, crc))
}

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// When the line was written.
    pub ts: String,
    /// The entry that the line records.
    #[serde(flatten)]
    pub entry: Entry,
    /// The line's checksum.
    crc: String,
}

/// Parses a line, and returns it with its checksum.
pub(super) fn parse(line: &str) -> Result<(Written, u32), String> {
    let read: Written = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let crc = u32::from_str_radix(&read.crc, 16).map_err(|error| error.to_string())?;
    Ok((read, crc))
}

/// Iterates over the lines of a file, each with its errors, if any.
///
/// ```
/// use tiffany_daemon::audit::{Audit, Entry, read};
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-audit-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let audit = Audit::at(&dir)?;
/// let intent = audit.begin(&Entry {
///     who: "ada".into(),
///     role: "operator".into(),
///     by: "loopback".into(),
///     from: "127.0.0.1:40000".into(),
///     did: "cancel".into(),
///     to: Some("order-1".into()),
///     ..Entry::default()
/// })?;
/// // … the run is cancelled here …
/// audit.finish(intent, "ok")?;
/// let text = std::fs::read_to_string(dir.join("audit.jsonl"))?;
/// let lines: Vec<_> = read(&text).collect::<Result<_, _>>()?;
/// assert_eq!((&*lines[0].entry.did, &*lines[0].entry.outcome), ("cancel", "begun"));
/// assert_eq!((&*lines[1].entry.did, &*lines[1].entry.outcome), ("cancel", "ok"));
/// assert!(read(&text.replace("cancel", "query")).all(|line| line.is_err()));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(text: &str) -> impl Iterator<Item = Result<Written, String>> {
    let mut last = 0;
    text.lines().enumerate().map(move |(number, line)| {
        let number = number + 1;
        let (read, crc) = parse(line).map_err(|why| format!("line {number}: {why}"))?;
        let body = line.rfind(",\"crc\":\"").map_or(line, |end| &line[..end]);
        let should_be = crc32c::crc32c_append(last, body.as_bytes());
        last = crc;
        match crc == should_be {
            true => Ok(read),
            false => Err(format!("line {number}: it or the one before it was changed")),
        }
    })
}

/// Joins the two lines of each change: the outcome replaces the intent. An entry that is still
/// `begun` has no outcome: the change is in progress, or its process ended before it was recorded.
pub fn joined(lines: impl IntoIterator<Item = Written>) -> Vec<Written> {
    let mut rows: Vec<Written> = Vec::new();
    let mut begun: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let change = line.entry.change.clone();
        match change.as_ref().and_then(|change| begun.remove(change)) {
            Some(place) => rows[place].entry = line.entry,
            None => {
                if let Some(change) = change.filter(|_| line.entry.outcome == BEGUN) {
                    begun.insert(change, rows.len());
                }
                rows.push(line);
            }
        }
    }
    rows
}
