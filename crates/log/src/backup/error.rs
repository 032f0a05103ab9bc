//! Errors of taking, checking and restoring a backup. Failures of the log itself have errors of
//! their own.

use std::path::PathBuf;

use super::super::error::LogError;

/// A failure to take, check or restore a backup.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The directory has no complete backup.
    #[error("there is no complete backup in {} [TFY0087]; check the directory, or take a backup to it first", .0.display())]
    NoBackup(PathBuf),
    /// The backup is damaged.
    #[error("the backup is damaged: {what} of {} [TFY0088]; use another backup, or take a full one to another directory", .path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The directory contains the backup of another log.
    #[error("{} has the backup of another log [TFY0089]; give every log a directory of its own", .0.display())]
    OtherLog(PathBuf),
    /// The directory is not empty, and its contents would be lost.
    #[error("{} is not empty: it has {found} [TFY0090]; use another directory; to replace a log that is there, restore with `--force`", .dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// A file that is in it.
        found: String,
    },
    /// The backup directory is inside the log.
    #[error("{} is inside {}, the log to be copied [TFY0090]; use a directory beside it, or on another disk", .dest.display(), .root.display())]
    Inside {
        /// The directory for the backup.
        dest: PathBuf,
        /// The log.
        root: PathBuf,
    },
    /// Runs were replaced or removed faster than they could be copied. The number is how many.
    #[error(
        "the log changed faster than it could be copied: {0} runs were replaced meanwhile [TFY0121]; copy at a higher rate, or when the load is lower"
    )]
    Restless(usize),
    /// The backup or restore was interrupted.
    #[error("the {what} did not finish: {cause} [TFY0122]; {next}")]
    Stopped {
        /// `backup` or `restore`.
        what: &'static str,
        /// The reason, as text.
        cause: String,
        /// The next step for the user.
        next: &'static str,
    },
    /// The log, or a directory, could not be used.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl BackupError {
    /// All codes of this type, in order.
    pub const CODES: &[&str] = &["TFY0087", "TFY0088", "TFY0089", "TFY0090", "TFY0121", "TFY0122"];

    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            BackupError::NoBackup(_) => "TFY0087",
            BackupError::Damaged { .. } => "TFY0088",
            BackupError::OtherLog(_) => "TFY0089",
            BackupError::NotEmpty { .. } | BackupError::Inside { .. } => "TFY0090",
            BackupError::Restless(_) => "TFY0121",
            BackupError::Stopped { .. } => "TFY0122",
            BackupError::Log(error) => error.code(),
        }
    }

    /// Makes the error for a failure to write a backup.
    pub(super) fn backup(error: &LogError) -> BackupError {
        let next = "fix the cause and take the backup again: the previous backup is unchanged";
        BackupError::Stopped { what: "backup", cause: words(error), next }
    }

    /// Makes the error for a failure to write the restored log.
    pub(super) fn restore(error: &LogError) -> BackupError {
        let next = "fix the cause and restore again: the backup is unchanged, and so is a log that existed before";
        BackupError::Stopped { what: "restore", cause: words(error), next }
    }

    /// Makes the error for a failure to put the previous log back.
    pub(super) fn half(error: &LogError) -> BackupError {
        let next =
            "fix the cause and restore again: that first puts back a log that existed before";
        BackupError::Stopped { what: "restore", cause: words(error), next }
    }

    /// Makes the error for a failure to remove the log that was replaced.
    pub(super) fn leftovers(error: &LogError) -> BackupError {
        let next = "the restored log is in its place; remove `commit.replaced` and `wal.replaced` beside it";
        BackupError::Stopped { what: "restore", cause: words(error), next }
    }
}

/// Returns the text of an error without its code and next step.
fn words(error: &LogError) -> String {
    let text = error.to_string();
    let mark = format!(" [{}]", error.code());
    text.split_once(&mark).map_or(text.as_str(), |(words, _)| words).to_owned()
}
