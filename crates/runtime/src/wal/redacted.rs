//! Whether secrets are taken out of what is written to a log. Who has the log leaves that in it, for those who write while nobody has it and do not know the
//! rules. What the rules are is not said: they may have secrets in them.

use std::path::Path;

use super::disk::{Disk, OpenMode, read_from};
use super::error::{Doing, LogError};

const NAME: &str = "redacted";
const TEXT: &[u8] =
    b"Secrets are taken out of what is written here, by rules of the program that has this log.\n";
/// What stands before the digest.
const RULES: &str = "Digest of the rules: ";

/// Says so, with a digest of the rules; or, without one, that it is not so any more.
pub(crate) fn mark_redacted(
    disk: &dyn Disk,
    root: &Path,
    rules: Option<u32>,
) -> Result<(), LogError> {
    let path = root.join(NAME);
    let Some(digest) = rules else {
        return match is_redacted(disk, root) {
            true => disk.remove(&path).doing("remove", &path),
            false => Ok(()),
        };
    };
    if redacted_by(disk, root) == Some(Some(digest)) {
        return Ok(());
    }
    let file = disk.open(&path, OpenMode::Create).doing("make", &path)?;
    let text = [TEXT, format!("{RULES}{digest:08x}\n").as_bytes()].concat();
    file.write_at(&text, 0).doing("write", &path)
}

pub(crate) fn is_redacted(disk: &dyn Disk, root: &Path) -> bool {
    disk.list(root).unwrap_or_default().iter().any(|(name, _)| name == NAME)
}

/// The digest of the rules, if secrets are taken out; `Some(None)`: an older version did not say it.
pub(crate) fn redacted_by(disk: &dyn Disk, root: &Path) -> Option<Option<u32>> {
    if !is_redacted(disk, root) {
        return None;
    }
    let file = disk.open(&root.join(NAME), OpenMode::Read).ok();
    let bytes = file.and_then(|file| read_from(&*file, 0).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let digest = text.lines().find_map(|line| line.strip_prefix(RULES));
    Some(digest.and_then(|digest| u32::from_str_radix(digest, 16).ok()))
}
