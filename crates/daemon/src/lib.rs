//! The daemon: one process that has a log directory, and durable runs over HTTP, WebSocket and SSE for everybody who may. Its loop is that of
//! [`tiffany::Runtime`]; everything of the network is on threads of its own, and reaches runs by way of [`tiffany::control`] alone.
//!
//! A program with functions of its own has the whole command line, `serve` included, by [`main`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use tiffany::{Runtime, TaskError};
//!
//! fn main() -> ExitCode {
//!     tiffany_daemon::main(Runtime::builder().register("order", |item: String| async move {
//!         Ok::<_, TaskError>(format!("ordered {item}"))
//!     }))
//! }
//! ```
//!
//! `daemon.rs` is a daemon as a value, `serve.rs` the command. `http/` knows connections, requests and errors and nothing of runs; `api/` has what can
//! be asked, and `api/routes.rs` the one table of it. Every row there says which [`Role`](auth::Role) it takes and whether it changes something: `http/door.rs`
//! stands before each route, asks the [`Gate`](auth::Gate) who it is, compares, and writes what was changed into the [audit file](audit).

mod api;
mod app;
pub mod audit;
pub mod auth;
mod chronicles;
mod commands;
pub mod config;
mod daemon;
mod demo;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod limits;
mod making;
mod notify;
pub mod otlp;
mod private;
#[cfg(test)]
mod scratch;
mod serve;
pub mod sinks;
mod stuck;
mod telemetry;
pub mod tls;
mod top;
mod witness;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tiffany::Builder;
use tiffany::cli::clap::{self, ArgMatches};
use tiffany::cli::{Asked, CommandLine, Extra, GuestError};
use tiffany::control::Witness;

use commands::{audit as audit_command, config as config_command, stuck as stuck_command, token};
use config::{Config, ConfigError};

pub use daemon::{Daemon, GRACE, LISTEN, ServeError, Serving};
pub use error::{Crowd, DaemonError};
pub use limits::Limits;

/// The commands of this crate, for a [command line](tiffany::cli::CommandLine).
#[derive(Clone, Copy, Debug, Default)]
pub struct Commands;

/// A command: what it is called, what can be typed after that, and what it does.
type Row = (&'static str, fn() -> clap::Command, fn(Asked<'_>) -> Result<u8, GuestError>);

/// All commands of this crate.
const COMMANDS: [Row; 7] = [
    (serve::NAME, serve::command, serve::serve),
    (top::NAME, top::command, |asked| top::run(&asked)),
    (demo::NAME, demo::command, |asked| demo::run(&asked)),
    (stuck_command::NAME, stuck_command::command, |asked| stuck_command::run(&asked)),
    (token::NAME, token::command, |asked| token::run(&asked)),
    (audit_command::NAME, audit_command::command, |asked| audit_command::run(&asked)),
    (config_command::NAME, config_command::command, |asked| config_command::run(&asked)),
];

impl Extra for Commands {
    fn commands(&self) -> Vec<clap::Command> {
        COMMANDS.iter().map(|(_, command, _)| command()).collect()
    }

    fn run(&self, mut asked: Asked<'_>) -> Result<u8, GuestError> {
        let config = Config::typed(asked.matches)?.unwrap_or_default();
        if let Some(dir) = config.dir.filter(|_| !asked.dir_is_given) {
            asked.dir = dir;
        }
        match COMMANDS.iter().find(|(name, ..)| *name == asked.name) {
            Some((.., run)) => run(asked),
            None => Ok(0),
        }
    }

    /// Where a daemon was, its audit has what is done without it, too.
    fn witness(&self, dir: &Path) -> Option<Arc<dyn Witness>> {
        let is_audited = dir.join(audit::AUDIT).symlink_metadata().is_ok();
        is_audited.then(|| Arc::new(witness::ByHand(dir.into())) as Arc<dyn Witness>)
    }

    fn options(&self) -> Vec<clap::Arg> {
        vec![config::option()]
    }

    fn prepare(&self, matches: &ArgMatches, builder: Builder) -> Result<Builder, GuestError> {
        let config = Config::typed(matches)?.unwrap_or_default().with_rules_of_env()?;
        let builder = builder.redact(config.redactions().map_err(ConfigError::from)?);
        Ok(match config.dir {
            Some(dir) => builder.log_dir(dir),
            None => builder,
        })
    }
}

/// The command line of [`tiffany::cli::main`] with the commands of this crate, for the functions that are registered with this builder.
pub fn main(builder: Builder) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(CommandLine::new(builder).extra(&Commands).run(&arguments))
}
