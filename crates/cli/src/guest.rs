//! What another language adds to the command line: `run FILE`, and `--app FILE` for the commands
//! that use the code of the runs. It doesn't depend on the language.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args as _, Command, CommandFactory, FromArgMatches};

use super::args::{AboutApprovals, Args, GLOBAL, RunFile, When, groups};
use super::daemon_commands;
use super::error::{Shown, exit};
use tiffany::Builder;

/// A language whose programs are files.
pub trait Guest {
    /// Runs a program from a file to its end, and returns the exit code.
    fn run(&self, program: &ProgramFile) -> Result<u8, GuestError>;

    /// Returns a builder with the functions in a file.
    fn app(&self, file: &OsString) -> Result<Builder, GuestError>;

    /// Generates the test of a captured run.
    fn test(&self, test: &TestOf) -> Result<TestFile, GuestError>;

    /// Returns the command that starts this process again, with all arguments.
    fn again(&self) -> std::process::Command;
}

/// The arguments of `run`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProgramFile {
    /// The file, optionally followed by a colon and the name of a function.
    pub program: OsString,
    /// The arguments of the function.
    pub arguments: Vec<OsString>,
    /// The log directory of a durable run.
    pub wal: Option<PathBuf>,
    /// The id of a durable run.
    pub id: Option<String>,
    /// Values that its tasks can read with `env`.
    pub env: Vec<(String, String)>,
    /// Whether arguments and the printed value are JSON.
    pub json: bool,
    /// How to handle its questions to people.
    pub questions: OnQuestion,
}

/// How to handle a question to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnQuestion {
    /// Ask the question at the terminal.
    Ask,
    /// Deny the question, so that nothing hangs without a person.
    Deny,
    /// Wait until the question is decided elsewhere.
    Wait,
}

impl OnQuestion {
    /// Returns the name of the option's value.
    pub fn word(self) -> &'static str {
        match self {
            OnQuestion::Ask => "ask",
            OnQuestion::Deny => "deny",
            OnQuestion::Wait => "wait",
        }
    }
}

/// The input for generating a test.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TestOf {
    /// The file with the code of the run.
    pub app: OsString,
    /// The directory for the test and its fixture.
    pub out: PathBuf,
    /// The name of the test: lower-case letters, digits and `_`.
    pub name: String,
    /// The file name of the fixture, which is in the directory of the test.
    pub fixture: String,
    /// A description of what generated the test, as a comment.
    pub made_by: String,
}

/// A generated test.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// The name of the file.
    pub file: String,
    /// The content of the file.
    pub text: String,
    /// The command that runs the test.
    pub command: String,
}

/// An error of a language, in the form of all errors: `message [CODE]; next step`.
#[derive(Clone, Debug)]
pub struct GuestError {
    /// The error code.
    pub code: String,
    /// The whole text, with the code and the next step.
    pub text: String,
    /// The exit code, if it is not that of most errors.
    pub exit: Option<u8>,
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for GuestError {}

impl From<GuestError> for Shown {
    fn from(error: GuestError) -> Shown {
        let exit = error.exit.unwrap_or(match error.code.as_str() {
            "TFY0043" | "TFY0101" => exit::IN_USE,
            _ => exit::FAILED,
        });
        Shown::new(&error.code, &error, exit)
    }
}

/// A parsed command line.
pub(super) enum Typed {
    /// One of the built-in commands, the file whose code it may use, and all arguments.
    Command(Box<Args>, Option<OsString>, ArgMatches),
    Run(ProgramFile),
    /// A command that involves the daemon.
    WithDaemon(Typing),
}

/// The arguments of a command that involves the daemon.
pub(super) struct Typing {
    pub(super) name: String,
    pub(super) matches: ArgMatches,
    pub(super) dir: Option<PathBuf>,
    pub(super) app: Option<OsString>,
    pub(super) json: bool,
    pub(super) color: When,
    pub(super) verbose: u8,
}

/// Builds the parser of the whole command line.
pub(super) fn command(guest: Option<&dyn Guest>, dir: &Path) -> Command {
    // Not clap's default, since a configuration may set another value.
    let command = Args::command();
    let command = command
        .mut_arg("dir", |arg| arg.help(format!("Log directory [default: {}]", dir.display())));
    let command = command.subcommands(daemon_commands::commands());
    let command = command.arg(daemon_commands::config_option().global(true));
    let command = match guest {
        Some(_) => {
            let app = Arg::new(APP).long(APP).env("TIFFANY_APP").value_name("FILE").global(true);
            let app = app.help_heading(GLOBAL);
            let app = app.value_parser(clap::value_parser!(OsString));
            command
                .arg(app.help("Python file with the code of the runs, for commands that run it"))
                .subcommand(RunFile::augment_args(Command::new(RUN)))
        }
        None => command,
    };
    groups::grouped(command)
}

const APP: &str = "app";
const RUN: &str = "run";

/// Parses the command line.
pub(super) fn parse(
    guest: Option<&dyn Guest>,
    arguments: &[OsString],
    dir: &Path,
) -> Result<Typed, clap::Error> {
    let mut command = command(guest, dir);
    let matches = command.try_get_matches_from_mut(arguments)?;
    let app = guest.and_then(|_| matches.get_one::<OsString>(APP).cloned());
    let read = match matches.subcommand() {
        Some((RUN, run)) if guest.is_some() => program_file(run).map(Typed::Run),
        Some((name, typed)) if daemon_commands::has(name) => Ok(Typed::WithDaemon(Typing {
            name: name.to_owned(),
            matches: typed.clone(),
            dir: matches.get_one::<PathBuf>("dir").cloned(),
            app,
            json: matches.get_flag("json"),
            color: matches.get_one("color").copied().unwrap_or_default(),
            verbose: matches.get_count("verbose"),
        })),
        _ => Args::from_arg_matches(&matches)
            .map(|args| Typed::Command(Box::new(args), app, matches)),
    };
    read.map_err(|error| error.format(&mut command))
}

fn program_file(matches: &ArgMatches) -> Result<ProgramFile, clap::Error> {
    let is_typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let refused = |message: &str| Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
    if is_typed("dir") {
        return refused(
            "`run` has its log in `--wal DIR`; `--dir` is for commands that look at one",
        );
    }
    if is_typed(daemon_commands::CONFIG) {
        return refused("`run` takes no `--config`: the program sets the configuration");
    }
    let RunFile { wal, id, env, approvals, program } = RunFile::from_arg_matches(matches)?;
    let questions = match approvals.manner(AboutApprovals::Deny) {
        Ok(AboutApprovals::Ask) => OnQuestion::Ask,
        Ok(AboutApprovals::Deny) => OnQuestion::Deny,
        Ok(AboutApprovals::Wait) => OnQuestion::Wait,
        Err(_) => return refused("`--approvals ask` takes a terminal as standard input"),
    };
    let mut words = program.into_iter();
    Ok(ProgramFile {
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        wal,
        id,
        env,
        json: matches.get_flag("json"),
        questions,
    })
}
