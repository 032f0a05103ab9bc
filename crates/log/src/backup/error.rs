//! Why a backup could not be taken, checked or restored. What goes wrong with the log itself has errors of its own.

use std::path::PathBuf;

use super::super::error::LogError;

/// Why there is no backup, or no log of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There is no backup that came to its end.
    #[error("there is no complete backup in {} [TFY0087]; check the directory, or take a backup to it first", .0.display())]
    NoBackup(PathBuf),
    /// A backup is not what was written.
    #[error("the backup is damaged: {what} of {} [TFY0088]; use another backup, or take a full one to another directory", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The directory has the backup of another log.
    #[error("{} has the backup of another log [TFY0089]; give every log a directory of its own", .0.display())]
    OtherLog(PathBuf),
    /// A directory has something in it that would be lost.
    #[error("{} is not empty: it has {found} [TFY0090]; use another directory; to replace a log that is there, restore with `--force`", .dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// Something that is in it.
        found: String,
    },
    /// A backup was to be put into the log that it is of.
    #[error("{} is inside {}, the log to be copied [TFY0090]; use a directory beside it, or on another disk", .dest.display(), .root.display())]
    Inside {
        /// The directory for the backup.
        dest: PathBuf,
        /// The log.
        root: PathBuf,
    },
    /// Runs were replaced or removed faster than they could be copied.
    #[error(
        "the log changed faster than it could be copied: {0} runs were replaced meanwhile [TFY0121]; copy at a higher rate, or when the load is lower"
    )]
    Restless(usize),
    /// It was stopped in the middle.
    #[error("the {what} did not finish: {cause} [TFY0122]; {next}")]
    Stopped {
        /// A backup or a restore.
        what: &'static str,
        /// What stopped it, in words.
        cause: String,
        /// What to do.
        next: &'static str,
    },
    /// The log, or a directory, could not be used.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl BackupError {
    /// All codes of its own, in order.
    pub const CODES: &[&str] = &["TFY0087", "TFY0088", "TFY0089", "TFY0090", "TFY0121", "TFY0122"];

    /// The stable code.
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

    /// A failure to write a backup.
    pub(super) fn backup(error: &LogError) -> BackupError {
        let next = "fix the cause and take the backup again: the previous backup is unchanged";
        BackupError::Stopped { what: "backup", cause: words(error), next }
    }

    /// A failure to write a log that is restored.
    pub(super) fn restore(error: &LogError) -> BackupError {
        let next = "fix the cause and restore again: the backup is unchanged, and so is a log that existed before";
        BackupError::Stopped { what: "restore", cause: words(error), next }
    }

    /// A failure to put back what was there.
    pub(super) fn half(error: &LogError) -> BackupError {
        let next =
            "fix the cause and restore again: that first puts back a log that existed before";
        BackupError::Stopped { what: "restore", cause: words(error), next }
    }

    /// A failure to remove the log that was there before.
    pub(super) fn leftovers(error: &LogError) -> BackupError {
        let next = "the restored log is in its place; remove `commit.replaced` and `wal.replaced` beside it";
        BackupError::Stopped { what: "restore", cause: words(error), next }
    }
}

/// An error without its code and its next step.
fn words(error: &LogError) -> String {
    let text = error.to_string();
    let mark = format!(" [{}]", error.code());
    text.split_once(&mark).map_or(text.as_str(), |(words, _)| words).to_owned()
}
