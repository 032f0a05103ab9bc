//! Where the logs of a measurement are. They are removed at the end of all measures, also when something fails in
//! between, and not earlier: ext4 does not use the number of a removed file again for one to five minutes, and a new file in the same
//! part of the disk has to look past all of them, which made new files ten times as dear.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of all measures of this process. It is made when something is put there.
pub(crate) struct Place {
    root: PathBuf,
    next: Cell<usize>,
}

impl Place {
    /// A directory of its own in this one, or in the system's directory for temporary files.
    pub(crate) fn new(base: Option<PathBuf>) -> Place {
        let base = base.unwrap_or_else(std::env::temp_dir);
        let root = base.join(format!("tiffany-bench-durable-{}", std::process::id()));
        Place { root, next: Cell::new(0) }
    }

    /// A new and empty directory. All that was written before goes to the disk first, so that nobody pays for
    /// the one before him.
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

/// Lets a log's threads finish what they have from before, and the disk too.
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

    /// The directory of a log in it.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// The bytes of all run files of that log.
    pub(super) fn run_bytes(&self) -> Result<u64, String> {
        let dir = self.log().join("wal");
        let sizes = fs::read_dir(&dir).and_then(|files| {
            files.map(|file| file?.metadata()).collect::<std::io::Result<Vec<_>>>()
        });
        let sizes = sizes.map_err(|error| format!("cannot list {}: {error}", dir.display()))?;
        Ok(sizes.iter().filter(|file| file.is_file()).map(fs::Metadata::len).sum())
    }
}
