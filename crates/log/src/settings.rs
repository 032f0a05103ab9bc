//! What can be set about the log.

use std::time::Duration;

use super::batch::BLOB_LIMIT;

/// When a commit is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncWhen {
    /// At every commit. What is reported durable survives a loss of power.
    #[default]
    Commit,
    /// At this distance. What is reported survives the end of the process at once, and a loss of power after
    /// the next sync.
    Interval(Duration),
    /// When the system decides to. Commits that were reported survive the end of the process; after a power failure,
    /// each run has some beginning of its lines.
    Never,
}

/// How the log is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When a commit is synced.
    pub sync: SyncWhen,
    /// How long the log thread waits for more lines before it commits. By default not at all, because more lines arrive
    /// while the disk is busy.
    pub batch_window: Duration,
    /// The size of a segment of the commit log, in bytes.
    pub segment_bytes: u64,
    /// The maximum number of segments, as long as the background thread keeps up.
    pub segments: usize,
    /// Payloads of more bytes than this are stored by their content.
    pub blob_limit: usize,
    /// How many run files are held open at most. It is less where the process may have few descriptors: a quarter of
    /// them at most.
    pub open_files: usize,
    /// How long the log waits for a file descriptor when none is left. After that it fails.
    pub descriptor_timeout: Duration,
    /// When more bytes than this wait for the disk, durable runs have no turns until it has caught up, so that a run
    /// that records faster than the disk writes does not fill the memory.
    pub backlog_bytes: usize,
    /// Up to this many files are synced one by one; more are synced by one sync of the file system.
    pub single_syncs: usize,
    /// When runs that began a new generation may have left blobs that no run names, and this many bytes of blobs were stored
    /// since, those blobs are looked for and removed. It is more where reading the runs is more than that.
    pub garbage_bytes: u64,
    /// How many entries the index may have beyond twice the number of runs before it is written anew.
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
