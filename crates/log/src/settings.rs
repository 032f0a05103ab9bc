//! The settings of the log.

use std::time::Duration;

use super::batch::BLOB_LIMIT;

/// When a commit is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncWhen {
    /// At every commit. Lines that were reported durable survive a power failure.
    #[default]
    Commit,
    /// At this interval. Lines that were reported durable survive the end of the process at once,
    /// and a power failure after the next sync.
    Interval(Duration),
    /// When the system decides to. Commits that were reported survive the end of the process; after
    /// a power failure, each run has a prefix of its lines.
    Never,
}

/// The settings of a log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When a commit is synced.
    pub sync: SyncWhen,
    /// How long the log thread waits for more lines before it commits. By default not at all,
    /// because more lines arrive while the disk is busy.
    pub batch_window: Duration,
    /// The size of a commit log segment, in bytes.
    pub segment_bytes: u64,
    /// The maximum number of segments, as long as the background thread keeps up.
    pub segments: usize,
    /// The number of bytes above which payloads are stored as blobs.
    pub blob_limit: usize,
    /// The maximum number of open run files. At most a quarter of the process's file descriptors
    /// are used, so the actual limit may be lower.
    pub open_files: usize,
    /// How long the log waits for a free file descriptor before it fails.
    pub descriptor_timeout: Duration,
    /// The number of bytes waiting for the disk above which durable runs get no turns until it has
    /// caught up. This keeps a run that records faster than the disk writes from filling the
    /// memory.
    pub backlog_bytes: usize,
    /// The maximum number of files that are synced individually; more are synced with one sync of
    /// the file system.
    pub single_syncs: usize,
    /// The number of bytes of new blobs after which blobs that runs left behind with their old
    /// generations are looked for and removed. It is higher if reading the runs takes more bytes
    /// than that.
    pub garbage_bytes: u64,
    /// The number of entries that the index may have beyond twice the number of runs before it is
    /// rewritten.
    pub index_slack: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sync: SyncWhen::Commit,
            batch_window: Duration::ZERO,
            segment_bytes: 16 << 20,
            segments: 4,
            blob_limit: BLOB_LIMIT,
            open_files: 512,
            descriptor_timeout: Duration::from_secs(30),
            backlog_bytes: 16 << 20,
            single_syncs: 16,
            garbage_bytes: 64 << 20,
            index_slack: 1024,
        }
    }
}
