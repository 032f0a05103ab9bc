//! Read access to the runs and blobs of one log. Code outside this crate reads through
//! [`LogReader`], so that lines can be stored elsewhere than in files. It changes nothing, and
//! doesn't interpret lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::blob::BlobHash;
use super::disk::Disk;
use super::error::LogError;
use super::index::RunEntry;
use super::run_reader::{RunReader, read_blob};
use super::view::RunFile;

/// Reads the runs and the blobs of one log.
pub trait LogReader: Send + Sync {
    /// Opens the file of a run for reads at any offset. While a process writes the run, its last
    /// lines may be missing.
    fn run_file(&self, run: Uuid) -> Result<RunFile, LogError>;

    /// Reads a blob, and checks it.
    fn blob(&self, hash: BlobHash) -> Result<Vec<u8>, LogError>;

    /// Reads the lines of a run in order. With an entry, exactly its lines are read, and missing
    /// ones are an error; without one, all lines that exist are read.
    fn lines(&self, run: Uuid, end: Option<RunEntry>) -> Result<RunReader, LogError> {
        match self.run_file(run) {
            Err(LogError::Vanished { .. }) if end.is_none() => Err(LogError::UnknownRun(run)),
            file => Ok(RunReader::of(file?, end)),
        }
    }
}

/// The files of a log, as they are at the time of each read.
#[derive(Clone)]
pub struct LogFiles {
    disk: Arc<dyn Disk>,
    root: PathBuf,
}

impl LogFiles {
    /// Makes a reader of the log in the directory `root`.
    pub fn new(disk: Arc<dyn Disk>, root: &Path) -> LogFiles {
        LogFiles { disk, root: root.to_path_buf() }
    }
}

impl LogReader for LogFiles {
    fn run_file(&self, run: Uuid) -> Result<RunFile, LogError> {
        RunFile::open(&*self.disk, &self.root, run)
    }

    fn blob(&self, hash: BlobHash) -> Result<Vec<u8>, LogError> {
        read_blob(&*self.disk, &self.root, hash)
    }
}
