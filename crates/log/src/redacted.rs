//! A marker file which says that secrets are removed from everything that is written to a log. The
//! process that uses the log leaves it for those that write later and don't know the rules. It
//! doesn't contain the rules themselves, because they may contain secrets.

use std::collections::BTreeSet;
use std::path::Path;

use super::disk::{Disk, OpenMode, read_from};
use super::error::{Doing, LogError};

const NAME: &str = "redacted";
const TEXT: &[u8] =
    b"Secrets are taken out of what is written here, by rules of the program that has this log.\n";
/// The text before the marks of the rules.
const MARKS: &str = "Marks of the rules:";

/// A short hash that identifies a rule. It is too short to reveal the rule.
pub type RuleMark = u16;

/// Writes the marker with the marks of the rules, or removes it if there are none.
pub fn mark_redacted(
    disk: &dyn Disk,
    root: &Path,
    rules: &BTreeSet<RuleMark>,
) -> Result<(), LogError> {
    let path = root.join(NAME);
    let is_so = is_redacted(disk, root);
    if is_so {
        // If something else is in its place, this reports an error of its own.
        disk.open(&path, OpenMode::Read).doing("open", &path)?;
    }
    if rules.is_empty() {
        return if is_so { disk.remove(&path).doing("remove", &path) } else { Ok(()) };
    }
    if is_so && rules_of(disk, root) == *rules {
        return Ok(());
    }
    if is_so {
        disk.remove(&path).doing("remove", &path)?;
    }
    let file = disk.open(&path, OpenMode::Create).doing("make", &path)?;
    let marks: String = rules.iter().map(|rule| format!(" {rule:04x}")).collect();
    file.write_at(&[TEXT, MARKS.as_bytes(), marks.as_bytes(), b"\n"].concat(), 0)
        .doing("write", &path)
}

/// Returns whether secrets are removed from what is written to the log in this directory.
pub fn is_redacted(disk: &dyn Disk, root: &Path) -> bool {
    let is_file = match disk.list(root) {
        Ok(files) => files.iter().any(|(name, _)| name == NAME),
        // If the directory can't be read, assume that there are rules.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    // Anything with this name counts, even if it is not a file.
    is_file || disk.others(root).unwrap_or_default().iter().any(|name| name == NAME)
}

/// Returns the marks of the rules; none if an older version wrote the marker.
pub fn rules_of(disk: &dyn Disk, root: &Path) -> BTreeSet<RuleMark> {
    let file = disk.open(&root.join(NAME), OpenMode::Read).ok();
    let bytes = file.and_then(|file| read_from(&*file, 0).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let marks = text.lines().find_map(|line| line.strip_prefix(MARKS)).unwrap_or_default();
    marks.split_whitespace().filter_map(|mark| RuleMark::from_str_radix(mark, 16).ok()).collect()
}
