//! The directories for the logs of a measurement. They are removed after all measures, even after a
//! failure, but not earlier: for one to five minutes, ext4 does not reuse the inode number of a
//! removed file, and a new file in the same part of the disk has to search past all of them. This
//! made new files ten times as expensive.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory for all measures of this process. It is created when it is first used.
pub(crate) struct Place {
    root: PathBuf,
    next: Cell<usize>,
}

impl Place {
    /// Chooses a new directory below `base`, or below the system's directory for temporary files.
    pub(crate) fn new(base: Option<PathBuf>) -> Place {
        let base = base.unwrap_or_else(std::env::temp_dir);
        let root = base.join(format!("tiffany-bench-durable-{}", std::process::id()));
        Place { root, next: Cell::new(0) }
    }

    /// Makes a new, empty directory. Everything that was written before is flushed to the disk
    /// first, so that no measure pays for an earlier one.
    pub(crate) fn fresh(&self, name: &str) -> Result<Scratch, String> {
        let number = self.next.replace(self.next.get() + 1);
        let path = self.root.join(format!("{number}-{name}"));
        fs::create_dir_all(&path)
            .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        rustix::fs::sync();
        Ok(Scratch { path })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Waits until the threads of a log and the disk have finished earlier work.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(200));
    rustix::fs::sync();
}

/// A directory for one sample.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the log in it.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Returns the size of all run files of that log, in bytes.
    pub(super) fn run_bytes(&self) -> Result<u64, String> {
        let dir = self.log().join("wal");
        let sizes = fs::read_dir(&dir).and_then(|files| {
            files.map(|file| file?.metadata()).collect::<std::io::Result<Vec<_>>>()
        });
        let sizes = sizes.map_err(|error| format!("cannot list {}: {error}", dir.display()))?;
        Ok(sizes.iter().filter(|file| file.is_file()).map(fs::Metadata::len).sum())
    }
}
