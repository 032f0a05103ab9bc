//! Backups of a log while it is in use: [`take`] copies what is durable at one moment to another directory,
//! [`restore`] makes a log of it again, and [`check`] reads a backup through. It goes through [`Disk`] like the log
//! itself, reads the log by way of [`View`](crate::view::View), and knows nothing of runtimes.
//!
//! A backup is a directory:
//!
//! ```text
//! DEST/
//!   lock                       who is at work on it
//!   manifest                   what belongs to the last backup that came to its end
//!   runs/<uuid>.<gen>.wal      the lines of a run, in one generation
//!   blobs/<sha256>             the blobs they name
//! ```
//!
//! Only what the manifest names counts. A backup adds to files behind what the manifest counts on, or makes new ones;
//! then it writes a new manifest, syncs it, and gives it the name of the old one; and only then does it remove what
//! the new one has no use for. So there is the old backup or the new one at every moment.
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
//! // `writer` has the log, and goes on.
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

/// The name of a run's file in a backup.
fn run_name(run: Uuid, generation: u32) -> String {
    format!("{run}.{generation}.wal")
}

/// Takes the lock of a directory.
fn lock(disk: &dyn Disk, dir: &Path, term: LockTerm) -> Result<Arc<dyn DirLock>, LogError> {
    let path = dir.join("lock");
    match disk.lock(&path, &owner(term)).doing("lock", &path)? {
        Locking::Ours(lock) => Ok(lock.into()),
        Locking::Theirs(note) => {
            Err(LogError::Locked { dir: dir.to_path_buf(), owner: describe(&note, &path) })
        }
    }
}

/// The directory a path is in.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|dir| *dir != Path::new(""));
    parent.unwrap_or(Path::new("."))
}
