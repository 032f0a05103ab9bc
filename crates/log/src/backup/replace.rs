//! Replaces an existing log with a restored one. The new log is written next to the old one, and
//! renamed when it is complete:
//!
//! ```text
//! commit.restoring  wal.restoring    the new log
//! commit.replaced   wal.replaced     the previous log
//! restoring                          a marker: renaming is in progress, the log can't be opened
//! ```
//!
//! While the marker exists, this process or the next one can undo each step: the previous log is
//! kept until the new one has its names and the marker is removed. Of the contents of a log, this
//! module knows only the names of the files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::super::applier::Places;
use super::super::blob::BlobHash;
use super::super::disk::{Barrier, Disk, OpenMode};
use super::super::error::{Doing, LogError};
use super::super::leftovers::{NEW, OLD, PARTS, clear_leftovers, list};
use super::super::reconcile::open_if_there;
use super::super::removals;
use super::super::segments::Segment;
use super::parent;

pub(super) struct Replacing {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    is_marked: bool,
}

impl Replacing {
    pub(super) fn new(disk: Arc<dyn Disk>, root: &Path) -> Result<Replacing, LogError> {
        let mark = Places::new(root).restoring();
        let is_marked = open_if_there(&*disk, &mark, OpenMode::Read)?.is_some();
        Ok(Replacing { disk, root: root.to_path_buf(), is_marked })
    }

    /// Returns whether an earlier restore was interrupted here.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// Returns the paths that the new log is written to.
    pub(super) fn places(&self) -> Places {
        let [commit, wal] = PARTS.map(|part| self.path(part, NEW));
        Places { root: self.root.clone(), commit, blobs: wal.join("blobs"), wal }
    }

    fn path(&self, part: &str, suffix: &str) -> PathBuf {
        self.root.join(format!("{part}{suffix}"))
    }

    fn is_there(&self, dir: &Path) -> Result<bool, LogError> {
        Ok(list(&*self.disk, dir)?.is_some())
    }

    fn sync(&self, barrier: Barrier) -> Result<(), LogError> {
        self.disk.sync_dir(&self.root, barrier).doing("sync", &self.root)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), LogError> {
        self.disk.rename(from, to).doing("rename", from)
    }

    /// Makes the marker, so that no process opens what is here as a log.
    pub(super) fn mark(&mut self) -> Result<(), LogError> {
        self.is_marked = true;
        let mark = Places::new(&self.root).restoring();
        let file = self.disk.open(&mark, OpenMode::Create).doing("make", &mark)?;
        file.sync(Barrier::Restoring).doing("sync", &mark)?;
        for dir in [parent(&self.root), &self.root] {
            self.disk.sync_dir(dir, Barrier::Restoring).doing("sync", dir)?;
        }
        Ok(())
    }

    fn unmark(&self) -> Result<(), LogError> {
        let mark = Places::new(&self.root).restoring();
        self.disk.remove(&mark).doing("remove", &mark)?;
        self.sync(Barrier::Restored)
    }

    /// Renames the new log into place. The previous log is kept under another name.
    pub(super) fn replace(&mut self) -> Result<(), LogError> {
        self.mark()?;
        for part in PARTS {
            let (here, new) = (self.root.join(part), self.path(part, NEW));
            if self.is_there(&here)? {
                self.rename(&here, &self.path(part, OLD))?;
            }
            self.rename(&new, &here)?;
        }
        self.sync(Barrier::Replaced)?;
        self.unmark()
    }

    /// Puts the previous log back, in reverse order of the steps, and removes what was written.
    /// While the marker exists, a part of the new log that has lost its temporary name has been
    /// renamed into place.
    pub(super) fn undo(&mut self) -> Result<(), LogError> {
        if self.is_marked {
            self.mark()?;
            for part in PARTS.iter().rev() {
                let (here, new) = (self.root.join(part), self.path(part, NEW));
                let old = self.path(part, OLD);
                if self.is_there(&here)? && !self.is_there(&new)? {
                    self.rename(&here, &new)?;
                }
                if self.is_there(&old)? {
                    self.rename(&old, &here)?;
                }
            }
            self.sync(Barrier::Replaced)?;
            self.unmark()?;
            self.is_marked = false;
        }
        self.clear()
    }

    /// Removes the directories that a restore leaves next to the log.
    pub(super) fn clear(&self) -> Result<(), LogError> {
        clear_leftovers(&*self.disk, &self.root)
    }
}

/// Returns whether a daemon keeps a file of this name next to the log: its tokens, and the current
/// and old audit logs. Such a file is not part of a log, and a restore leaves it alone.
pub(super) fn is_of_daemon(name: &str) -> bool {
    name == "tokens.json" || name.starts_with("audit.jsonl")
}

/// Returns whether a file of this name is part of a log.
type IsOurs<'a> = &'a dyn Fn(&str) -> bool;

/// Finds a file or directory that is not part of a log, and returns its path.
pub(super) fn stranger(disk: &dyn Disk, root: &Path) -> Result<Option<PathBuf>, LogError> {
    let is_root = |name: &str| {
        matches!(name, "lock" | "redacted" | "restoring" | "turn" | "turn.json")
            || is_of_daemon(name)
    };
    let is_commit = |name: &str| {
        let name = name.strip_suffix(".new").unwrap_or(name);
        matches!(name, "index" | removals::NAME) || Segment::parse_name(name).is_some()
    };
    let is_wal = |name: &str| {
        let name = name.strip_suffix(".new").or(name.strip_suffix(".unplaced")).unwrap_or(name);
        name.strip_suffix(".wal").and_then(Uuid::parse).is_some()
    };
    let is_blob = |name: &str| BlobHash::parse(name).is_some();
    let file = |dir: &Path, is_ours: IsOurs<'_>| {
        let mut names = list(disk, dir)?.unwrap_or_default().into_iter().map(|(name, _)| name);
        Ok(names.find(|name| !is_ours(name)).map(|name| dir.join(name)))
    };
    let other = |dir: &Path, ours: &str| {
        // Either it can be listed, or it doesn't exist.
        let mut others = disk.others(dir).unwrap_or_default().into_iter();
        others.find(|name| name != ours).map(|name| dir.join(name))
    };
    if let Some(found) = file(root, &is_root)? {
        return Ok(Some(found));
    }
    for suffix in ["", NEW, OLD] {
        let [commit, wal] = PARTS.map(|part| root.join(format!("{part}{suffix}")));
        let blobs = wal.join("blobs");
        let dirs: [(&Path, IsOurs<'_>, &str); 3] =
            [(&commit, &is_commit, ""), (&wal, &is_wal, "blobs"), (&blobs, &is_blob, "")];
        for (dir, is_ours, ours) in dirs {
            if let Some(found) = file(dir, is_ours)?.or_else(|| other(dir, ours)) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}
