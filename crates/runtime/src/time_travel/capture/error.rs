//! Why a run could not be captured.

use std::path::PathBuf;

use tiffany_kernel::Uuid;

use tiffany_log::LogError;
use tiffany_records::RunError;

/// Why a run could not become the fixture of a test.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The program does not do what the log has: the test would fail from the beginning.
    #[error(
        "run {run} cannot be captured: {why} [TFY0137]; bring the program back that wrote the log; what a run does may follow only from its input and its answers, not from what its code has captured elsewhere"
    )]
    NotTheSame {
        /// The run.
        run: Uuid,
        /// Where the two part.
        why: String,
    },
    /// Something cannot be taken out of the log.
    #[error("cannot redact `{what}`: {why} [TFY0138]; {next}")]
    Redaction {
        /// The rule, or the rules.
        what: String,
        /// What is wrong with it.
        why: String,
        /// What to do.
        next: &'static str,
    },
    /// A file is there already.
    #[error("{} is there already [TFY0139]; give another name or directory, or replace it with `--force`", .0.display())]
    FileThere(PathBuf),
    /// The log could not be read, or a file not be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The run could not be tried.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl CaptureError {
    /// All codes of its own, in order.
    pub const CODES: &[&str] = &["TFY0137", "TFY0138", "TFY0139"];

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            CaptureError::NotTheSame { .. } => "TFY0137",
            CaptureError::Redaction { .. } => "TFY0138",
            CaptureError::FileThere(_) => "TFY0139",
            CaptureError::Log(error) => error.code(),
            CaptureError::Run(error) => error.code(),
        }
    }

    pub(crate) fn redaction(what: &str, why: &str, next: &'static str) -> CaptureError {
        CaptureError::Redaction { what: what.to_owned(), why: why.to_owned(), next }
    }
}
