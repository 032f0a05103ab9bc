//! Commands that need no server: who may come in, what was changed, what a configuration says, and which tasks are stuck. Each gives what can be typed, and does it.

pub(crate) mod audit;
pub(crate) mod config;
mod print;
pub(crate) mod stuck;
pub(crate) mod token;

use tiffany::TaskError;
use tiffany::cli::GuestError;

use crate::auth::AuthError;
use crate::config::ConfigError;

/// What the process that has the directory, or the log, says no by.
pub(crate) fn refused(error: &TaskError) -> GuestError {
    GuestError { code: error.code().into(), text: error.to_string(), exit: None }
}

impl From<AuthError> for GuestError {
    fn from(error: AuthError) -> GuestError {
        GuestError { code: error.code().into(), text: error.to_string(), exit: None }
    }
}

impl From<ConfigError> for GuestError {
    fn from(error: ConfigError) -> GuestError {
        GuestError { code: error.code().into(), text: error.to_string(), exit: None }
    }
}
