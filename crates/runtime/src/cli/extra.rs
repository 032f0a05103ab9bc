//! What another crate adds to the command line: whole commands, such as `serve`. It knows nothing of what they do.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clap::ArgMatches;

use super::Started;
use super::guest::GuestError;
use crate::builder::Builder;
use crate::control::Witness;

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

    /// Who sees what commands change in this directory where no process has it.
    fn witness(&self, _dir: &Path) -> Option<Arc<dyn Witness>> {
        None
    }

    /// Options that every command takes.
    fn options(&self) -> Vec<clap::Arg> {
        Vec::new()
    }

    /// What they change for the commands that there always are. Commands that are added find them in what was typed.
    fn prepare(&self, _matches: &ArgMatches, builder: Builder) -> Result<Builder, GuestError> {
        Ok(builder)
    }
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
    /// Whether that was typed, or said by `TIFFANY_DIR`.
    pub dir_is_given: bool,
    /// The functions of the program, or of the file that `--app` names.
    pub builder: Builder,
    /// Whether JSON is to be printed.
    pub json: bool,
    /// Whether what people read is in colours.
    pub colour: bool,
    /// This program once more, with its functions: a command and its options can be added.
    pub again: Again,
    pub(super) started: &'a Started<'a>,
}

impl Asked<'_> {
    /// The functions of a file that something else than `--app` names. `None`: this program has no language with files, or `--app` was given.
    pub fn functions_of(&self, file: &OsStr) -> Option<Result<Builder, GuestError>> {
        let guest = self.started.guest.filter(|_| self.started.app.is_none())?;
        Some(guest.app(&file.to_owned()))
    }
}

/// How a program is started once more.
#[derive(Clone)]
pub struct Again {
    program: OsString,
    arguments: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

/// What is in the environment may be secret.
impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, arguments) = (&self.program, &self.arguments);
        f.debug_struct("Again")
            .field("program", program)
            .field("arguments", arguments)
            .finish_non_exhaustive()
    }
}

impl Again {
    pub(super) fn of(started: &Started<'_>) -> Again {
        let mut arguments: Vec<OsString> = Vec::new();
        let program = match started.guest {
            Some(guest) => {
                let command = guest.again();
                arguments.extend(command.get_args().map(OsString::from));
                // What was typed for this command is not for the next one.
                arguments.truncate(arguments.len().saturating_sub(started.typed));
                command.get_program().to_owned()
            }
            None => {
                std::env::current_exe().map_or_else(|_| started.name.clone().into(), Into::into)
            }
        };
        if let Some(app) = &started.app {
            arguments.extend(["--app".into(), app.clone()]);
        }
        Again { program, arguments, env: Vec::new() }
    }

    /// A program with these arguments.
    pub fn new(program: impl Into<OsString>) -> Again {
        Again { program: program.into(), arguments: Vec::new(), env: Vec::new() }
    }

    /// The same with more arguments.
    #[must_use]
    pub fn with(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Again {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// The same with a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Again {
        self.env.push((name.into(), value.into()));
        self
    }

    /// A process that is not started yet.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}
