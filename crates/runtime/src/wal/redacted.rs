//! Whether secrets are taken out of what is written to a log. Who has the log leaves that in it, for those who write while nobody has it and do not know the
//! rules. What the rules are is not said: they may have secrets in them.

use std::path::Path;

use super::disk::{Disk, OpenMode};
use super::error::{Doing, LogError};

const NAME: &str = "redacted";
const TEXT: &[u8] =
    b"Secrets are taken out of what is written here, by rules of the program that has this log.\n";

/// Says so, or that it is not so any more.
pub(crate) fn mark_redacted(disk: &dyn Disk, root: &Path, is_so: bool) -> Result<(), LogError> {
    let path = root.join(NAME);
    match (is_redacted(disk, root), is_so) {
        (false, true) => {
            let file = disk.open(&path, OpenMode::Create).doing("make", &path)?;
            file.write_at(TEXT, 0).doing("write", &path)
        }
        (true, false) => disk.remove(&path).doing("remove", &path),
        _ => Ok(()),
    }
}

pub(crate) fn is_redacted(disk: &dyn Disk, root: &Path) -> bool {
    disk.list(root).unwrap_or_default().iter().any(|(name, _)| name == NAME)
}
