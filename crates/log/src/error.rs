//! Errors of the log on disk. Errors of tasks are elsewhere, and bugs of the log are assertions.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::blob::BlobHash;
use super::read::{Broken, Flaw};
use super::regular_file::NotRegular;
use super::retry_disk::lacks_descriptor;

/// The owner's name in the error for a directory that this process opens twice.
pub(crate) const THIS_PROCESS: &str = "another runtime of this process";

/// Returns the advice for a directory that is in use.
fn instead_of(owner: &str) -> &'static str {
    match owner == THIS_PROCESS {
        true => {
            "use that runtime: other threads reach its runs with its handle, and coroutines of its event loop share an \
             `AsyncRuntime`, or await `tiffany.arun`; or use another directory"
        }
        false => {
            "reach its runs as a client, with the command line or in Python with `tiffany.connect`; or stop that process, \
             or use another directory"
        }
    }
}

/// A failure to open, write or read the log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Another process uses the directory.
    #[error("{} is in use by {owner} [TFY0101]; {}", .dir.display(), instead_of(.owner))]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The description that the other process left of itself.
        owner: String,
    },
    /// The system refused an operation.
    #[error("cannot {act} {}: {why} [TFY0102]; see the system's message", .path.display())]
    Io {
        /// The operation that failed.
        act: &'static str,
        /// The file or directory it was applied to.
        path: PathBuf,
        /// The system's message.
        why: String,
    },
    /// The disk is full.
    #[error("cannot {act} {}: the disk is full [TFY0103]; make room, then open the log again", .path.display())]
    Full {
        /// The operation that failed.
        act: &'static str,
        /// The file or directory it was applied to.
        path: PathBuf,
    },
    /// There is no permission to write the directory.
    #[error("cannot {act} {}: there is no write permission [TFY0104]; check its permissions and how it is mounted", .path.display())]
    ReadOnly {
        /// The operation that failed.
        act: &'static str,
        /// The file or directory it was applied to.
        path: PathBuf,
    },
    /// A directory or file of the log does not exist.
    #[error("cannot {act} {}: it does not exist [TFY0105]; check whether the log's directory was moved or removed", .path.display())]
    Vanished {
        /// The operation that failed.
        act: &'static str,
        /// The file or directory it was applied to.
        path: PathBuf,
    },
    /// A file or directory of the log is a symbolic link that may have been planted.
    #[error("cannot {act} {}: it is a symbolic link [TFY0211]; remove the link, and check which users can write the directory", .path.display())]
    Link {
        /// The operation that failed.
        act: &'static str,
        /// The file or directory it was applied to.
        path: PathBuf,
    },
    /// Something other than a regular file is in the place of one.
    #[error("cannot {act} {}: {what} [TFY0255]; move it away, and restore the file from a copy", .path.display())]
    NotRegular {
        /// The operation that failed.
        act: &'static str,
        /// The file it was applied to.
        path: PathBuf,
        /// The kind of file that is there instead.
        what: NotRegular,
    },
    /// The log has stopped because of an earlier failure.
    #[error(
        "the log stopped at an earlier failure [TFY0106]; fix its cause and open the log again: {0}"
    )]
    Poisoned(Arc<LogError>),
    /// The file of a run is damaged.
    #[error(
        "run {run} is damaged: {broken} [TFY0107]; restore {run}.wal from a copy; the other runs continue without it"
    )]
    DamagedRun {
        /// The run.
        run: Uuid,
        /// The first damaged line, and what is wrong with it.
        broken: Broken,
    },
    /// The file of a run and the commit log have different lines in the same place.
    #[error(
        "run {run} has other lines in its file than in the commit log, from record {record} at byte {offset} on: the two come from different copies [TFY0200]; restore the directory from one backup; the other runs continue without it"
    )]
    Mismatch {
        /// The run.
        run: Uuid,
        /// The first record that differs.
        record: u64,
        /// The offset of that record in the file, in bytes.
        offset: u64,
    },
    /// No file descriptor was left for a file of the log.
    #[error(
        "cannot {act} {}: no file descriptor is left [TFY0201]; raise the limit of open files (`ulimit -n`, `LimitNOFILE=`), or close what else is open, then open the log again", .path.display()
    )]
    NoDescriptor {
        /// The operation that failed.
        act: &'static str,
        /// The file or directory it was applied to.
        path: PathBuf,
    },
    /// The commit log lacks a block that was durable.
    #[error("the commit log is damaged: block {block} at byte {offset} of {} cannot be read [TFY0108]; restore the directory from a copy", .path.display())]
    DamagedCommitLog {
        /// The segment.
        path: PathBuf,
        /// The offset where the block is or should be.
        offset: u64,
        /// The number of the block.
        block: u64,
    },
    /// The index is damaged.
    #[error("the index is damaged at byte {offset} of {} [TFY0109]; restore the directory from a copy", .path.display())]
    DamagedIndex {
        /// The file.
        path: PathBuf,
        /// The offset of the damage.
        offset: u64,
    },
    /// The file was written by a newer version.
    #[error("{} has format version {version}, which is newer than this program [TFY0110]; use a newer program", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        version: u64,
    },
    /// The directory has run files but no commit log.
    #[error(
        "{} has run files and no commit log: ids of removed runs are free again, and records may be missing [TFY0251]; restore the directory from a backup, or see which runs are there with `tiffany ls` and remove those that should not continue", .0.display()
    )]
    NoCommitLog(PathBuf),
    /// The files of some runs have records that the commit log lacks.
    #[error(
        "{} lacks records that the files of {runs} run(s) have: other runs may have lost records, or their whole files [TFY0252]; restore the directory from one backup, or compare the runs with what they did", .commit.display()
    )]
    LostBlocks {
        /// The directory of the commit log.
        commit: PathBuf,
        /// The number of these runs.
        runs: usize,
    },
    /// The end of the index or of the list of removed runs is damaged.
    #[error("{} is damaged or incomplete from byte {offset} on [TFY0253]; open the directory, which writes it again from what else is known, and check the medium if the power was not lost", .path.display())]
    DamagedEnd {
        /// The file.
        path: PathBuf,
        /// The offset of the damage.
        offset: u64,
    },
    /// A blob is missing.
    #[error("blob {0} is missing [TFY0111]; restore wal/blobs from a copy")]
    MissingBlob(BlobHash),
    /// A blob is damaged.
    #[error(
        "blob {0} is damaged: its content has another hash [TFY0112]; restore wal/blobs from a copy"
    )]
    DamagedBlob(BlobHash),
    /// The log has no run with this UUID.
    #[error("there is no run {0} [TFY0113]; check the UUID, and that the run was not removed")]
    UnknownRun(Uuid),
    /// Lines don't follow the last record of their run.
    #[error(
        "lines of run {run} do not follow its record {seq} of generation {generation} [TFY0114]; write a run's lines with one chain, in one order"
    )]
    OutOfOrder {
        /// The run.
        run: Uuid,
        /// Its current generation.
        generation: u32,
        /// The number of its last record.
        seq: u64,
    },
    /// The run has no record with this number.
    #[error("run {run} has no record {seq} [TFY0115]; give a number from 1 to {records}")]
    NoRecord {
        /// The run.
        run: Uuid,
        /// The number that was requested.
        seq: u64,
        /// The number of records that the run has.
        records: u64,
    },
    /// A restore into the directory was interrupted.
    #[error("{} is half restored [TFY0120]; restore it again from the backup", .0.display())]
    HalfRestored(PathBuf),
}

impl LogError {
    /// All codes, in order.
    pub const CODES: &[&str] = &[
        "TFY0101", "TFY0102", "TFY0103", "TFY0104", "TFY0105", "TFY0106", "TFY0107", "TFY0108",
        "TFY0109", "TFY0110", "TFY0111", "TFY0112", "TFY0113", "TFY0114", "TFY0115", "TFY0120",
        "TFY0200", "TFY0201", "TFY0211", "TFY0251", "TFY0252", "TFY0253", "TFY0255",
    ];

    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            LogError::Locked { .. } => "TFY0101",
            LogError::Io { .. } => "TFY0102",
            LogError::Full { .. } => "TFY0103",
            LogError::ReadOnly { .. } => "TFY0104",
            LogError::Vanished { .. } => "TFY0105",
            LogError::Link { .. } => "TFY0211",
            LogError::NoCommitLog(_) => "TFY0251",
            LogError::LostBlocks { .. } => "TFY0252",
            LogError::DamagedEnd { .. } => "TFY0253",
            LogError::NotRegular { .. } => "TFY0255",
            LogError::Poisoned(_) => "TFY0106",
            LogError::DamagedRun { .. } => "TFY0107",
            LogError::DamagedCommitLog { .. } => "TFY0108",
            LogError::DamagedIndex { .. } => "TFY0109",
            LogError::Newer { .. } => "TFY0110",
            LogError::MissingBlob(_) => "TFY0111",
            LogError::DamagedBlob(_) => "TFY0112",
            LogError::UnknownRun(_) => "TFY0113",
            LogError::OutOfOrder { .. } => "TFY0114",
            LogError::NoRecord { .. } => "TFY0115",
            LogError::HalfRestored(_) => "TFY0120",
            LogError::Mismatch { .. } => "TFY0200",
            LogError::NoDescriptor { .. } => "TFY0201",
        }
    }

    /// Makes the error for a failed system call.
    pub fn io(act: &'static str, path: &Path, error: &io::Error) -> LogError {
        let path = path.to_path_buf();
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return LogError::Link { act, path };
        }
        if let Some(what) = NotRegular::cause(error) {
            return LogError::NotRegular { act, path, what };
        }
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                LogError::Full { act, path }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                LogError::ReadOnly { act, path }
            }
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                LogError::Vanished { act, path }
            }
            _ if lacks_descriptor(error) => LogError::NoDescriptor { act, path },
            _ => LogError::Io { act, path, why: error.to_string() },
        }
    }

    /// Returns whether written data is lost or changed. Other errors may be temporary.
    pub fn is_damage(&self) -> bool {
        use LogError::{DamagedBlob, DamagedRun, Mismatch, MissingBlob, UnknownRun, Vanished};
        matches!(
            self,
            DamagedRun { .. }
                | Mismatch { .. }
                | MissingBlob(_)
                | DamagedBlob(_)
                | UnknownRun(_)
                | Vanished { .. }
        )
    }

    /// Returns whether something other than a regular file is in the place of one.
    pub fn is_not_a_file(&self) -> bool {
        matches!(self, LogError::NotRegular { .. } | LogError::Link { .. })
    }

    /// Makes the error for a broken line of a run.
    pub fn run(run: Uuid, path: &Path, broken: Broken) -> LogError {
        match broken.flaw {
            Flaw::Newer(version) => LogError::Newer { path: path.to_path_buf(), version },
            _ => LogError::DamagedRun { run, broken },
        }
    }
}

/// Adds the operation and the path to an I/O error.
pub(crate) trait Doing<T> {
    fn doing(self, act: &'static str, path: &Path) -> Result<T, LogError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, act: &'static str, path: &Path) -> Result<T, LogError> {
        self.map_err(|error| LogError::io(act, path, &error))
    }
}
