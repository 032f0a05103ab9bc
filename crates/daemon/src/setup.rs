//! The directory of a daemon that may fail to start. If it does, everything that was created there
//! is removed again. It knows the names of a log's parts, but not their content.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tiffany::wal::holder;

use crate::audit::AUDIT;
use crate::private;

/// The names that a daemon and its log create in their directory.
const OURS: [&str; 6] = [AUDIT, "commit", "control.sock", "lock", "redacted", "wal"];

/// The directory of a daemon that may not start.
pub(crate) struct Making {
    dir: PathBuf,
    /// Directories that were created, the innermost first.
    made: Vec<PathBuf>,
    /// The names in the directory before.
    before: BTreeSet<OsString>,
    is_kept: bool,
}

impl Making {
    pub(crate) fn at(dir: &Path) -> io::Result<Making> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made: Vec<PathBuf> =
            dir.ancestors().take_while(missing).map(Path::to_path_buf).collect();
        let making = Making { dir: dir.into(), made, before: names(dir), is_kept: false };
        private::make_dir(dir)?;
        Ok(making)
    }

    /// Keeps the directory: the daemon has started.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        // A log that another process has started here in the meantime is kept.
        if self.is_kept || holder(&self.dir).is_some() || has_runs(&self.dir) {
            return;
        }
        for name in OURS.into_iter().filter(|name| !self.before.contains(OsStr::new(name))) {
            let path = self.dir.join(name);
            drop(if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) });
        }
        // A directory that has other files is kept.
        self.made.iter().take_while(|dir| fs::remove_dir(dir).is_ok()).for_each(drop);
    }
}

fn names(dir: &Path) -> BTreeSet<OsString> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

fn has_runs(dir: &Path) -> bool {
    names(&dir.join("wal")).iter().any(|name| Path::new(name).extension().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Dir;

    #[test]
    fn what_was_not_there_goes_again_and_what_was_stays() {
        let home = Dir::new();
        let dir = home.0.join("a/b");
        drop(Making::at(&dir).unwrap());
        assert!(!home.0.join("a").exists());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        let making = Making::at(&dir).unwrap();
        fs::write(dir.join(AUDIT), "").unwrap();
        fs::create_dir_all(dir.join("wal/blobs")).unwrap();
        drop(making);
        assert_eq!(names(&dir), [OsString::from("notes.txt")].into());
        // A run is never deleted.
        let making = Making::at(&dir).unwrap();
        fs::create_dir_all(dir.join("wal")).unwrap();
        fs::write(dir.join("wal/1.wal"), "").unwrap();
        drop(making);
        assert!(dir.join("wal/1.wal").exists());
        fs::remove_dir_all(dir.join("wal")).unwrap();
        let making = Making::at(&dir).unwrap();
        fs::create_dir_all(dir.join("wal")).unwrap();
        making.keep();
        assert!(dir.join("wal").exists());
    }
}
