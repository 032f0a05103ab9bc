//! Backups of a log while it is in use: [`take`] copies what is durable at one moment to another
//! directory, [`restore`] makes a log from a backup, and [`check`] verifies a backup. All three
//! access files through [`Disk`], as the log does, and read the log through
//! [`View`](crate::view::View). They know nothing of runtimes.
//!
//! A backup is a directory:
//!
//! ```text
//! DEST/
//!   lock                       the process that works on the backup
//!   manifest                   the contents of the last complete backup
//!   runs/<uuid>.<gen>.wal      the lines of a run, in one generation
//!   blobs/<sha256>             the blobs that these lines reference
//! ```
//!
//! Only what the manifest lists belongs to the backup. A new backup appends to files beyond the
//! lengths in the manifest, or makes new files. It then writes and syncs a new manifest, renames it
//! over the old one, and removes the files that the new manifest doesn't list. At every moment,
//! either the old or the new backup is complete.
//!
//! ```
//! # use std::sync::Arc;
//! # use tiffany_log::sim::SimDisk;
//! # use tiffany_log::{Batch, Chain, RecordType, Settings, Stamp, View, Writer, backup};
//! # use tiffany_kernel::{Tid, Uuid};
//! # let disk = Arc::new(SimDisk::new());
//! # let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
//! # let (mut writer, _) = Writer::open(disk.clone(), "/log".as_ref(), settings)?;
//! # let mut batch = Batch::new();
//! # let mut chain = Chain::new(Uuid::from_random(7));
//! # let now = Stamp::from_unix_nanos(0);
//! # batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("id", "a").end();
//! # writer.commit(&mut batch, |_| ())?;
//! // `writer` keeps the log open, and may continue to write.
//! let taken = backup::take(disk.clone(), "/log".as_ref(), "/copy".as_ref(), &mut backup::Pace::full())?;
//! assert_eq!((taken.runs, taken.records), (1, 1));
//!
//! backup::restore(disk.clone(), "/copy".as_ref(), "/again".as_ref(), backup::Over::Nothing)?;
//! assert_eq!(View::open(disk, "/again".as_ref())?.runs().count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod copy;
mod error;
mod manifest;
mod pace;
mod replace;
mod restore;
mod sink;
mod take;

pub use check::{Checked, check};
pub use error::BackupError;
pub use pace::Pace;
pub use restore::{Over, Restored, restore};
pub use take::{DamagedRun, Taken, take};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::blob::BlobHash;
use super::disk::{DirLock, Disk, Locking};
use super::error::{Doing, LogError};
use super::lock::{LockTerm, describe, owner};

/// The directories of a backup.
#[derive(Clone, Debug)]
struct FinishedRuns {
    root: PathBuf,
    runs: PathBuf,
    blobs: PathBuf,
}

impl FinishedRuns {
    fn new(root: &Path) -> FinishedRuns {
        FinishedRuns {
            root: root.to_path_buf(),
            runs: root.join("runs"),
            blobs: root.join("blobs"),
        }
    }

    fn run_file(&self, run: Uuid, generation: u32) -> PathBuf {
        self.runs.join(run_name(run, generation))
    }

    fn blob_file(&self, hash: BlobHash) -> PathBuf {
        self.blobs.join(hash.to_string())
    }
}

/// Returns the name of a run's file in a backup.
fn run_name(run: Uuid, generation: u32) -> String {
    format!("{run}.{generation}.wal")
}

/// Locks a directory.
fn lock(disk: &dyn Disk, dir: &Path, term: LockTerm) -> Result<Arc<dyn DirLock>, LogError> {
    let path = dir.join("lock");
    match disk.lock(&path, &owner(term)).doing("lock", &path)? {
        Locking::Ours(lock) => Ok(lock.into()),
        Locking::Theirs(note) => {
            Err(LogError::Locked { dir: dir.to_path_buf(), owner: describe(&note, &path) })
        }
    }
}

/// Returns the directory that contains a path.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|dir| *dir != Path::new(""));
    parent.unwrap_or(Path::new("."))
}
