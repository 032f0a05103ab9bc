//! The input of commands that need more than a log directory: the program's functions, and the
//! command that starts it again.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::ArgMatches;
use tiffany::Builder;
use tiffany_daemon::Relaunch;

use super::Started;
use super::guest::GuestError;

/// The arguments of a command, and its surroundings.
pub(crate) struct Invocation<'a> {
    /// The name of the command.
    pub(crate) name: &'a str,
    /// The arguments of the command.
    pub(crate) matches: &'a ArgMatches,
    /// The log directory.
    pub(crate) dir: PathBuf,
    /// Whether the directory was set by an option or by `TIFFANY_DIR`.
    pub(crate) dir_is_given: bool,
    /// The functions of the program, or of the file in `--app`.
    pub(crate) builder: Builder,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Whether to print in colours.
    pub(crate) colour: bool,
    /// The command that starts this program again with its functions; a subcommand and options can
    /// be added.
    pub(crate) relaunch: Relaunch,
    pub(super) started: &'a Started<'a>,
}

impl Invocation<'_> {
    /// Returns the functions of a file that was not given by `--app`. `None` if the program has no
    /// guest language, or `--app` was given.
    pub(crate) fn functions_of(&self, file: &OsStr) -> Option<Result<Builder, GuestError>> {
        let guest = self.started.guest.filter(|_| self.started.app.is_none())?;
        Some(guest.app(&file.to_owned()))
    }
}

/// Returns the command that starts this program again with its current functions.
pub(crate) fn relaunch(started: &Started<'_>) -> Relaunch {
    let mut arguments: Vec<OsString> = Vec::new();
    let program = match started.guest {
        Some(guest) => {
            let command = guest.again();
            arguments.extend(command.get_args().map(OsString::from));
            // The arguments of this command are left out.
            arguments.truncate(arguments.len().saturating_sub(started.typed));
            command.get_program().to_owned()
        }
        None => std::env::current_exe().map_or_else(|_| started.name.clone().into(), Into::into),
    };
    if let Some(app) = &started.app {
        arguments.extend(["--app".into(), app.clone()]);
    }
    Relaunch::new(program).with(arguments)
}
