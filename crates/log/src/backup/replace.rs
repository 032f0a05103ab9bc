//! How a restored log takes the place of what is there. It is written beside it and gets its names when it is whole:
//!
//! ```text
//! commit.restoring  wal.restoring    the new log
//! commit.replaced   wal.replaced     the one that was there
//! restoring                          a mark: names are changing, nobody opens this
//! ```
//!
//! Under the mark each step can be taken back, by this process or by the next one: what was there is kept until the
//! new log has its names and the mark is gone. It knows nothing of what is in a log, but for the names of its files.

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

    /// Whether a restore was cut off here.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// Where the new log is written.
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

    /// Says that what is here is not a log now.
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

    /// Gives the new log its names. What is there is kept.
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

    /// Puts back what was there, the last step first, and removes what was written. Under the mark, a part that is
    /// not beside its place any more is in it.
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

    /// Removes all that is not the log.
    pub(super) fn clear(&self) -> Result<(), LogError> {
        clear_leftovers(&*self.disk, &self.root)
    }
}

/// Whether a daemon keeps a file of this name beside the log: what was done through it, old files of that included, and who may come in. It is no part of a
/// log, and no restore touches it.
pub(super) fn is_of_daemon(name: &str) -> bool {
    name == "tokens.json" || name.starts_with("audit.jsonl")
}

/// Whether a file of this name is part of a log.
type IsOurs<'a> = &'a dyn Fn(&str) -> bool;

/// Something in a directory that is no part of a log, and where it is.
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
        // It can be listed, or is not there.
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
