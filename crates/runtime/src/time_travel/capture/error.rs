//! The errors of capturing a run.

use std::path::PathBuf;

use tiffany_kernel::Uuid;

use tiffany_log::LogError;
use tiffany_records::RunError;

/// Why a run could not be captured as the fixture of a test.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The program does something other than its log: the test would fail from the start.
    #[error(
        "run {run} cannot be captured: {why} [TFY0137]; use the program that wrote the log; a run may depend only on its input and its answers, not on other values that its code has captured"
    )]
    NotTheSame {
        /// The run.
        run: Uuid,
        /// Where they diverge.
        why: String,
    },
    /// Something cannot be redacted in the log.
    #[error("cannot redact `{what}`: {why} [TFY0138]; {next}")]
    Redaction {
        /// The rule, or the rules.
        what: String,
        /// The problem.
        why: String,
        /// The next step.
        next: &'static str,
    },
    /// The file exists already.
    #[error("{} exists already [TFY0139]; give another name or directory, or replace it with `--force`", .0.display())]
    FileThere(PathBuf),
    /// The log could not be read, or a file not be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The run could not be replayed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl CaptureError {
    /// All codes of this type, in order.
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
