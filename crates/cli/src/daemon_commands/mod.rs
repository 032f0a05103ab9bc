//! Commands that know the daemon: `serve` and what belongs to it. Each row of the table has what can be typed, and what is done.

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

/// A command: what it is called, what can be typed after that, and what it does.
type Row = (&'static str, fn() -> Command, fn(Invocation<'_>) -> Result<u8, GuestError>);

const COMMANDS: [Row; 5] = [
    (serve::NAME, serve::command, serve::serve),
    (demo::NAME, demo::command, |called| demo::run(&called)),
    (token::NAME, token::command, |called| token::run(&called)),
    (audit::NAME, audit::command, |called| audit::run(&called)),
    (config::NAME, config::command, |called| config::run(&called)),
];

/// What can be typed, of all of them.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    COMMANDS.iter().map(|(_, command, _)| command())
}

/// Whether this is the name of one of them.
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

/// Who sees what commands change in this directory where no process has it. Where a daemon was, its audit has that too.
pub(crate) fn audit_hook(dir: &Path) -> Option<Arc<dyn AuditHook>> {
    let is_audited = dir.join(AUDIT).symlink_metadata().is_ok();
    is_audited.then(|| Arc::new(ByHand(dir.into())) as Arc<dyn AuditHook>)
}

/// The builder with what the configuration says that was typed: the directory, and what is redacted.
pub(crate) fn configured(matches: &ArgMatches, builder: Builder) -> Result<Builder, GuestError> {
    let config = typed_config(matches)?.unwrap_or_default().with_rules_of_env()?;
    let builder = builder.redact(config.redactions().map_err(ConfigError::from)?);
    Ok(match config.dir {
        Some(dir) => builder.log_dir(dir),
        None => builder,
    })
}

/// What the option of all commands that names a configuration is called.
pub(crate) const CONFIG: &str = "config";

/// The option of all commands that names a configuration.
pub(crate) fn config_option() -> Arg {
    let option = Arg::new(CONFIG).long(CONFIG).value_name("FILE");
    let option = option.value_parser(value_parser!(PathBuf));
    let option = option.help_heading(crate::args::GLOBAL);
    option.help("Configuration of the daemon (see `config example`); other commands than `serve` use its directory and its redaction rules")
}

/// Reads the file that was typed, if one was.
pub(crate) fn typed_config(matches: &ArgMatches) -> Result<Option<Config>, ConfigError> {
    typed_config_file(matches).map(|file| Config::read(file)).transpose()
}

/// The file that was typed, if one was.
pub(crate) fn typed_config_file(matches: &ArgMatches) -> Option<&PathBuf> {
    matches.get_one(CONFIG)
}

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
