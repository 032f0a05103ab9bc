//! What another crate adds to the command line: whole commands, such as `serve`. It knows nothing of what they do.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use clap::ArgMatches;

use super::Started;
use super::guest::GuestError;
use crate::builder::Builder;

/// Commands that another crate adds.
///
/// ```
/// use tiffany::Runtime;
/// use tiffany::cli::{Asked, CommandLine, Extra, GuestError, clap};
///
/// struct Hello;
///
/// impl Extra for Hello {
///     fn commands(&self) -> Vec<clap::Command> {
///         vec![clap::Command::new("hello").about("Say hello.")]
///     }
///
///     fn run(&self, asked: Asked<'_>) -> Result<u8, GuestError> {
///         println!("hello from {}", asked.dir.display());
///         Ok(0)
///     }
/// }
///
/// let arguments = ["tiffany".into(), "hello".into()];
/// assert_eq!(CommandLine::new(Runtime::builder()).extra(&Hello).run(&arguments), 0);
/// ```
pub trait Extra {
    /// What can be typed. The name of a command must not be that of another one.
    fn commands(&self) -> Vec<clap::Command>;

    /// Does one of them, and gives the exit code.
    fn run(&self, asked: Asked<'_>) -> Result<u8, GuestError>;
}

/// What was typed, and for whom.
#[non_exhaustive]
pub struct Asked<'a> {
    /// The name of the command.
    pub name: &'a str,
    /// What was typed after it.
    pub matches: &'a ArgMatches,
    /// The log directory.
    pub dir: PathBuf,
    /// The functions of the program, or of the file that `--app` names.
    pub builder: Builder,
    /// Whether JSON is to be printed.
    pub json: bool,
    /// This program once more, with its functions and its directory: a command and its options can be added.
    pub again: Again,
}

/// How a program is started once more.
#[derive(Clone, Debug)]
pub struct Again {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Again {
    pub(super) fn of(started: &Started<'_>, dir: &std::path::Path) -> Again {
        let mut arguments: Vec<OsString> = Vec::new();
        let program = match started.guest {
            Some(guest) => {
                let command = guest.again();
                arguments.extend(command.get_args().map(OsString::from));
                command.get_program().to_owned()
            }
            None => {
                std::env::current_exe().map_or_else(|_| started.name.clone().into(), Into::into)
            }
        };
        if let Some(app) = &started.app {
            arguments.extend(["--app".into(), app.clone()]);
        }
        arguments.extend(["--dir".into(), dir.into()]);
        Again { program, arguments }
    }

    /// A process that is not started yet.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}
