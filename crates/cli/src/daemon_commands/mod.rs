//! Commands that involve the daemon: `serve` and those around it. Each row of the table has the
//! arguments and the function of a command.

pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod print;
pub(crate) mod token;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command, value_parser};
use tiffany::control::AuditHook;
use tiffany::{Builder, TaskError};
use tiffany_daemon::audit::AUDIT;
use tiffany_daemon::audit_hook::ByHand;
use tiffany_daemon::auth::AuthError;
use tiffany_daemon::config::{Config, ConfigError};

use crate::{GuestError, Invocation, demo, serve};

/// A command: its name, its arguments, and its function.
type Row = (&'static str, fn() -> Command, fn(Invocation<'_>) -> Result<u8, GuestError>);

const COMMANDS: [Row; 5] = [
    (serve::NAME, serve::command, serve::serve),
    (demo::NAME, demo::command, |called| demo::run(&called)),
    (token::NAME, token::command, |called| token::run(&called)),
    (audit::NAME, audit::command, |called| audit::run(&called)),
    (config::NAME, config::command, |called| config::run(&called)),
];

/// Returns the arguments of all commands.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    COMMANDS.iter().map(|(_, command, _)| command())
}

/// Returns whether one of the commands has this name.
pub(crate) fn has(name: &str) -> bool {
    COMMANDS.iter().any(|(one, ..)| *one == name)
}

pub(crate) fn run(mut called: Invocation<'_>) -> Result<u8, GuestError> {
    let config = typed_config(called.matches)?.unwrap_or_default();
    if let Some(dir) = config.dir.filter(|_| !called.dir_is_given) {
        called.dir = dir;
    }
    match COMMANDS.iter().find(|(name, ..)| *name == called.name) {
        Some((.., run)) => run(called),
        None => Ok(0),
    }
}

/// Returns the hook that audits what commands change in this directory while no process owns it.
/// Only a directory that a daemon has used has an audit file.
pub(crate) fn audit_hook(dir: &Path) -> Option<Arc<dyn AuditHook>> {
    let is_audited = dir.join(AUDIT).symlink_metadata().is_ok();
    is_audited.then(|| Arc::new(ByHand(dir.into())) as Arc<dyn AuditHook>)
}

/// Returns the builder with the directory and the redaction rules of the configuration on the
/// command line.
pub(crate) fn configured(matches: &ArgMatches, builder: Builder) -> Result<Builder, GuestError> {
    let config = typed_config(matches)?.unwrap_or_default().with_rules_of_env()?;
    let builder = builder.redact(config.redactions().map_err(ConfigError::from)?);
    Ok(match config.dir {
        Some(dir) => builder.log_dir(dir),
        None => builder,
    })
}

/// The name of the option for a configuration, which all commands have.
pub(crate) const CONFIG: &str = "config";

/// Returns the option for a configuration, which all commands have.
pub(crate) fn config_option() -> Arg {
    let option = Arg::new(CONFIG).long(CONFIG).value_name("FILE");
    let option = option.value_parser(value_parser!(PathBuf));
    let option = option.help_heading(crate::args::GLOBAL);
    option.help("Configuration of the daemon (see `config example`); other commands than `serve` use its directory and its redaction rules")
}

/// Reads the configuration file on the command line, if there is one.
pub(crate) fn typed_config(matches: &ArgMatches) -> Result<Option<Config>, ConfigError> {
    typed_config_file(matches).map(|file| Config::read(file)).transpose()
}

/// Returns the configuration file on the command line, if there is one.
pub(crate) fn typed_config_file(matches: &ArgMatches) -> Option<&PathBuf> {
    matches.get_one(CONFIG)
}

/// Converts a refusal of the owning process, or of the log.
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
