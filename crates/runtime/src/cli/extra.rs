//! What another crate adds to the command line: whole commands, such as `serve`. It knows nothing of what they do.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use clap::ArgMatches;

use super::Started;
use super::driver::quoted;
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

    /// The command as one types it into a shell that was just started here: with the name that `PATH` has for the program, if it has one.
    pub fn typed(&self) -> String {
        let mut words: Vec<&OsStr> =
            [&self.program].into_iter().chain(&self.arguments).map(OsString::as_os_str).collect();
        // A script that the system runs with its interpreter by itself.
        if words.get(1).is_some_and(|script| is_executable(Path::new(script))) {
            words.remove(0);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = shorter(Path::new(words.remove(0)), &path);
        let words = std::iter::once(&*program).chain(words);
        words.map(|word| quoted(&word.to_string_lossy()).into_owned()).collect::<Vec<_>>().join(" ")
    }

    /// A process that is not started yet.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn is_executable(file: &Path) -> bool {
    let has_bit =
        |meta: std::fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
    file.components().count() > 1 && file.metadata().is_ok_and(has_bit)
}

/// The shortest name of a program that a shell finds it by. Links are not followed: the Python of a virtual environment is one.
fn shorter(program: &Path, path: &OsStr) -> OsString {
    let Some(name) = program.file_name() else { return program.into() };
    let mut found = std::env::split_paths(path).map(|dir| dir.join(name));
    if found.find(|file| is_executable(file)).is_some_and(|file| file == program) {
        return name.to_owned();
    }
    let here = std::env::current_dir().ok();
    match here.as_ref().and_then(|here| program.strip_prefix(here).ok()) {
        // Without a directory a shell would look in `PATH` alone.
        Some(below) if below.components().count() == 1 => Path::new(".").join(below).into(),
        Some(below) => below.into(),
        None => program.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_name_that_a_shell_finds() {
        let dir = std::env::temp_dir().join(format!("tiffany-typed-{}", std::process::id()));
        let (first, second) = (dir.join("first"), dir.join("second"));
        for place in [&first, &second] {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join("program"), "").unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(place.join("program"), mode).unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(shorter(&first.join("program"), &path), "program");
        // Another one is found under this name.
        assert_eq!(shorter(&second.join("program"), &path), *second.join("program"));
        let script = Again::new("/usr/bin/python3").with([second.join("program")]);
        assert_eq!(script.typed(), second.join("program").display().to_string());
        let module = Again::new("/nowhere/python").with(["-m", "tiffany"]);
        assert_eq!(module.typed(), "/nowhere/python -m tiffany");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
