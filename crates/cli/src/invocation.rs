//! What a command that needs more than a log directory is called with: the program's functions, and how to start it once more.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::ArgMatches;
use tiffany::Builder;
use tiffany_daemon::Relaunch;

use super::Started;
use super::guest::GuestError;

/// What was typed, and for whom.
pub(crate) struct Invocation<'a> {
    /// The name of the command.
    pub(crate) name: &'a str,
    /// What was typed after it.
    pub(crate) matches: &'a ArgMatches,
    /// The log directory.
    pub(crate) dir: PathBuf,
    /// Whether that was typed, or said by `TIFFANY_DIR`.
    pub(crate) dir_is_given: bool,
    /// The functions of the program, or of the file that `--app` names.
    pub(crate) builder: Builder,
    /// Whether JSON is to be printed.
    pub(crate) json: bool,
    /// Whether what people read is in colours.
    pub(crate) colour: bool,
    /// This program once more, with its functions: a command and its options can be added.
    pub(crate) relaunch: Relaunch,
    pub(super) started: &'a Started<'a>,
}

impl Invocation<'_> {
    /// The functions of a file that something else than `--app` names. `None`: this program has no language with files, or `--app` was given.
    pub(crate) fn functions_of(&self, file: &OsStr) -> Option<Result<Builder, GuestError>> {
        let guest = self.started.guest.filter(|_| self.started.app.is_none())?;
        Some(guest.app(&file.to_owned()))
    }
}

/// How this program is started once more, with the functions it has now.
pub(crate) fn relaunch(started: &Started<'_>) -> Relaunch {
    let mut arguments: Vec<OsString> = Vec::new();
    let program = match started.guest {
        Some(guest) => {
            let command = guest.again();
            arguments.extend(command.get_args().map(OsString::from));
            // What was typed for this command is not for the next one.
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
