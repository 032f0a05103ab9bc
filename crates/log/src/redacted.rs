//! Whether secrets are taken out of what is written to a log. Who has the log leaves that in it, for those who write while nobody has it and do not know the
//! rules. What the rules are is not said: they may have secrets in them.

use std::collections::BTreeSet;
use std::path::Path;

use super::disk::{Disk, OpenMode, read_from};
use super::error::{Doing, LogError};

const NAME: &str = "redacted";
const TEXT: &[u8] =
    b"Secrets are taken out of what is written here, by rules of the program that has this log.\n";
/// What stands before the marks of the rules.
const MARKS: &str = "Marks of the rules:";

/// What a rule is known by. It is too short to find out what the rule says.
pub type RuleMark = u16;

/// Says so, with the marks of the rules; or, without any, that it is not so any more.
pub fn mark_redacted(
    disk: &dyn Disk,
    root: &Path,
    rules: &BTreeSet<RuleMark>,
) -> Result<(), LogError> {
    let path = root.join(NAME);
    let is_so = is_redacted(disk, root);
    if is_so {
        // Something else in its place has an error of its own.
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

/// Whether secrets are taken out of what is written to the log in this directory.
pub fn is_redacted(disk: &dyn Disk, root: &Path) -> bool {
    let is_file = match disk.list(root) {
        Ok(files) => files.iter().any(|(name, _)| name == NAME),
        // As long as that can't be seen, nothing secret is written.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    // Whatever is in its place, nobody said that secrets may be written.
    is_file || disk.others(root).unwrap_or_default().iter().any(|name| name == NAME)
}

/// The marks of the rules; none where an older version did not say them.
pub fn rules_of(disk: &dyn Disk, root: &Path) -> BTreeSet<RuleMark> {
    let file = disk.open(&root.join(NAME), OpenMode::Read).ok();
    let bytes = file.and_then(|file| read_from(&*file, 0).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let marks = text.lines().find_map(|line| line.strip_prefix(MARKS)).unwrap_or_default();
    marks.split_whitespace().filter_map(|mark| RuleMark::from_str_radix(mark, 16).ok()).collect()
}
