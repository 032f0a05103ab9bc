//! Commands that need no server: who may come in, what was changed, and what a configuration says. Each gives what can be typed, and does it.

mod audit;
mod config;
mod print;
mod token;

use tiffany::cli::{Asked, GuestError, clap};

use crate::auth::AuthError;
use crate::config::ConfigError;

/// What can be typed.
pub(crate) fn all() -> Vec<clap::Command> {
    vec![token::command(), audit::command(), config::command()]
}

/// Does one of them. `None`: it is another one.
pub(crate) fn run(asked: &Asked<'_>) -> Option<Result<u8, GuestError>> {
    match asked.name {
        token::NAME => Some(token::run(asked)),
        audit::NAME => Some(audit::run(asked)),
        config::NAME => Some(config::run(asked)),
        _ => None,
    }
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
