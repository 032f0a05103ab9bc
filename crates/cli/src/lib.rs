//! The command line for a log directory: commands that show and check runs, and that change waiting
//! runs. The plain binary `tiffany` only reads records; a program that calls [`main`] with its own
//! functions can also replay and resume them. The chapter "Command line" of the book has the output
//! and the exit codes of each command.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use tiffany::{Runtime, TaskError};
//!
//! async fn order(item: String) -> Result<String, TaskError> {
//!     Ok(format!("ordered {item}"))
//! }
//!
//! fn main() -> ExitCode {
//!     tiffany_cli::main(Runtime::builder().register("order", order))
//! }
//! ```

mod active;
mod ahead;
mod approvals;
mod args;
mod asking;
mod backup;
mod capture;
mod change;
mod daemon_commands;
mod demo;
mod diff;
mod dispatch;
mod doctor;
mod dormant_runs;
mod doubt;
mod driver;
mod dry_run;
mod erased;
mod error;
mod events;
mod export;
mod fork;
mod guest;
mod invocation;
mod json;
mod keep;
mod live;
mod log;
mod ls;
mod metrics;
mod notify;
mod out;
mod place;
mod progress;
mod prospect;
mod remote;
mod replay;
mod replay_all;
mod resume;
mod retired;
mod screen;
mod serve;
mod show;
mod status;
mod step;
mod steps;
mod stuck;
mod submit;
mod summary;
mod table;
mod top;
mod verify;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use dispatch::dispatch;
pub use error::CliError;
use error::Ending;
pub use guest::{Guest, GuestError, OnQuestion, ProgramFile, TestFile, TestOf};
use guest::{Typed, Typing};
use invocation::Invocation;
use out::Out;
use tiffany::Builder;
use tiffany::logging::{Format, Level};

/// The default log directory.
pub const DEFAULT_DIR: &str = ".tiffany";

/// Runs the command line of this process for the functions of this builder, and returns the exit
/// code. The directory is set by `--dir`, by the environment variable `TIFFANY_DIR`, or by the
/// builder's [`log_dir`](Builder::log_dir); otherwise it is [`DEFAULT_DIR`].
pub fn main(builder: Builder) -> ExitCode {
    run(builder, std::env::args_os())
}

/// Runs the command line with these arguments, the first of which is the name of the program.
pub fn run<A>(builder: Builder, arguments: impl IntoIterator<Item = A>) -> ExitCode
where
    A: Into<OsString>,
{
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    ExitCode::from(CommandLine::new(builder).run(&arguments))
}

/// Runs the command line for a guest language, which adds `run` and `--app`.
pub fn run_for(guest: &dyn Guest, arguments: &[OsString]) -> u8 {
    CommandLine::new(Builder::new()).guest(guest).run(arguments)
}

/// A command line with optional extensions.
pub struct CommandLine<'a> {
    builder: Builder,
    guest: Option<&'a dyn Guest>,
}

impl<'a> CommandLine<'a> {
    /// Creates a command line for the functions of this builder.
    pub fn new(builder: Builder) -> CommandLine<'a> {
        CommandLine { builder, guest: None }
    }

    /// Adds a guest language, and with it `run` and `--app`.
    #[must_use]
    pub fn guest(self, guest: &'a dyn Guest) -> CommandLine<'a> {
        CommandLine { guest: Some(guest), ..self }
    }

    /// Runs the command in these arguments, the first of which is the name of the program, and
    /// returns the exit code.
    pub fn run(self, arguments: &[OsString]) -> u8 {
        let CommandLine { builder, guest } = self;
        // Errors are redacted even before a runtime is built, or without one.
        if let Some(rules) = builder.redactions() {
            tiffany_records::redact::install(rules);
        }
        let typed = arguments.len().saturating_sub(1);
        let name = name_of(arguments);
        let started = |app| Started { guest, app, name: name.clone(), typed };
        match guest::parse(guest, arguments, &dir_of(None, &builder)) {
            Err(error) => match retired::answer(&error, arguments) {
                Some(shown) => {
                    let is_json = arguments.iter().any(|argument| argument == "--json");
                    error::show(&shown, is_json, out::colours_errors())
                }
                None => error::usage(&error, arguments),
            },
            Ok(Typed::Command(args, app, matches)) => {
                let out = Out::new(&args);
                let (is_json, colour) = (args.json, out.colours_errors(&args));
                let started = started(app);
                ending(dispatch(builder, *args, &matches, out, &started), is_json, colour)
            }
            Ok(Typed::Run(program)) => {
                let ran = guest.map_or(Ok(0), |guest| guest.run(&program).map_err(Ending::from));
                ending(ran, program.json, out::colours_errors())
            }
            Ok(Typed::WithDaemon(typing)) => {
                let started = started(typing.app.clone());
                let json = typing.json;
                ending(run_with_daemon(builder, &typing, &started), json, out::colours_errors())
            }
        }
    }
}

fn ending(ended: Done, is_json: bool, colour: bool) -> u8 {
    match ended {
        Ok(code) => code,
        Err(Ending::Quiet) => 0,
        Err(Ending::Error(error)) => error::show(&error, is_json, colour),
    }
}

/// How this program was started.
struct Started<'a> {
    /// The guest language that the program is part of.
    guest: Option<&'a dyn Guest>,
    /// The file with the code of the runs.
    app: Option<OsString>,
    /// The name of the program.
    name: String,
    /// The number of arguments after the name.
    typed: usize,
}

impl Started<'_> {
    /// Returns the name of the program's file, which is cargo's name for it, however it was
    /// started.
    fn program(&self) -> String {
        let path = std::env::current_exe().ok();
        let name = path.as_ref().and_then(|path| path.file_stem()?.to_str());
        name.unwrap_or(&self.name).to_owned()
    }

    /// Returns the builder with the functions of the runs, for a command that can use them.
    fn with_app(&self, builder: Builder) -> Result<Builder, Ending> {
        match (self.guest, &self.app) {
            (Some(guest), Some(file)) => Ok(guest.app(file)?),
            _ => Ok(builder),
        }
    }
}

fn name_of(arguments: &[OsString]) -> String {
    let path = arguments.first().map(PathBuf::from);
    let name = path.as_ref().and_then(|path| path.file_name()?.to_str());
    name.unwrap_or("tiffany").to_owned()
}

/// A command's exit code, or why it stopped.
type Done = Result<u8, Ending>;

/// Runs a command that involves the daemon.
fn run_with_daemon(builder: Builder, typing: &Typing, started: &Started<'_>) -> Done {
    log_to_stderr(typing.verbose, typing.json);
    let builder = started.with_app(builder)?;
    let dir = dir_of(typing.dir.as_ref(), &builder);
    let called = Invocation {
        name: &typing.name,
        matches: &typing.matches,
        relaunch: invocation::relaunch(started),
        dir,
        dir_is_given: typing.dir.is_some(),
        builder,
        json: typing.json,
        colour: typing.color.is_wanted() && !typing.json,
        started,
    };
    Ok(daemon_commands::run(called)?)
}

fn log_to_stderr(verbose: u8, json: bool) {
    if verbose > 0 {
        let level = if verbose == 1 { Level::INFO } else { Level::DEBUG };
        let format = if json { Format::Json } else { Format::Text };
        tiffany::logging::init(format, level);
    }
}

fn dir_of(typed: Option<&PathBuf>, builder: &Builder) -> PathBuf {
    match (typed, builder.given_log_dir()) {
        (Some(dir), _) => dir.clone(),
        (None, Some(dir)) => dir.to_path_buf(),
        (None, None) => PathBuf::from(DEFAULT_DIR),
    }
}

/// Escapes the control characters in a text.
pub fn clean(text: &str) -> std::borrow::Cow<'_, str> {
    out::clean(text)
}

/// Serializes a value as one line of JSON, including the line end, with control characters escaped.
pub fn json_line(value: &impl serde::Serialize) -> String {
    json::line(value)
}

/// Prints the completion script of a shell.
fn completions(
    mut out: Out,
    shell: clap_complete::Shell,
    started: &Started<'_>,
    dir: &std::path::Path,
) -> Done {
    let mut command = guest::command(started.guest, dir);
    let mut decoded = Vec::new();
    clap_complete::generate(shell, &mut command, &started.name, &mut decoded);
    out.raw(&decoded)?;
    out.end(0)
}
