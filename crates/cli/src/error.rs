//! Errors of commands, and the exit codes. Errors of a log or a run are defined elsewhere, and only
//! printed here.

use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::driver;
use super::out::{Style, clean, paint};
use tiffany::command::{CaptureError, UNANSWERED};
use tiffany_log::LogError;
use tiffany_log::backup::BackupError;
use tiffany_records::RunError;
use tiffany_records::redact::shown;

/// The exit codes.
pub(super) mod exit {
    /// The run or directory in question failed, is damaged, differs or doesn't exist.
    pub(crate) const FAILED: u8 = 1;
    /// The command line is not valid.
    pub(crate) const USAGE: u8 = 2;
    /// The command needs the program that the runs belong to.
    pub(crate) const NEEDS_PROGRAM: u8 = 3;
    /// Another process owns the directory, or cannot be reached.
    pub(crate) const IN_USE: u8 = 4;
    /// The time was up before all runs had finished, or no process was running them any more.
    pub(crate) const UNFINISHED: u8 = 5;
}

/// An error of a command.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// There is no log in the directory.
    #[error("there is no log in {} [TFY0060]; give its directory with `--dir` or TIFFANY_DIR; to create one there, {}", .0.display(), driver::start(.0))]
    NoLog(PathBuf),
    /// Several runs match a name.
    #[error("`{prefix}` is the beginning of several runs: {} [TFY0062]; give more of the UUID", .runs.join(", "))]
    Ambiguous {
        /// The name.
        prefix: String,
        /// Some of the runs that match.
        runs: Vec<String>,
    },
    /// Only the program that the runs belong to can do this.
    #[error(
        "{0} [TFY0063]; use the program that the runs belong to: one that calls `tiffany_cli::main` with its functions registered; in Python, give its file with `--app`"
    )]
    NeedsProgram(String),
    /// An argument is not JSON.
    #[error(
        "`{what}` is not JSON: {why} [TFY0064]; strings need quotation marks of their own: '\"tea\"', '{{\"item\": \"tea\"}}'"
    )]
    BadJson {
        /// The argument.
        what: String,
        /// The reason.
        why: String,
    },
    /// The check found damage.
    #[error("{0} [TFY0065]; each finding above has its next step")]
    Damage(String),
    /// A replay differed from the log.
    #[error(
        "{0} [TFY0066]; use the program that wrote the log, or keep old runs working with `patched`"
    )]
    OtherOutcome(String),
    /// The command line is not valid.
    #[error("{0} [TFY0067]; `--help` lists the commands and options")]
    Usage(String),
    /// The output could not be written.
    #[error("cannot write the output: {0} [TFY0068]; see the system's message")]
    Output(String),
    /// Runs could not continue with this program.
    #[error(
        "{0} [TFY0081]; restore the recorded calls, or keep old runs working with `patched`; `replay RUN --ahead` shows where"
    )]
    WouldDiverge(String),
    /// The run did not fail, so there is no failure to show.
    #[error("the run `{0}` did not fail [TFY0082]; `replay RUN --step` shows its last record")]
    NotFailed(String),
    /// No debugger is available for the language of the run.
    #[error(
        "there is no debugger for what failed here [TFY0083]; `replay RUN --step --failure` shows the run there; a debugger is available for Python tasks"
    )]
    NoDebugger,
    /// The request needs an active run, but the run has ended.
    #[error(
        "the run `{0}` has ended [TFY0084]; `replay` runs it again, and `replay RUN --step` shows it at any record"
    )]
    IsOver(String),
    /// The answer for a fork cannot be read.
    #[error("cannot read the answer from {}: {why} [TFY0085]; give a file with JSON in it, or `-` for standard input", .file.display())]
    NoReply {
        /// The path of the file with the answer.
        file: PathBuf,
        /// The error from the operating system.
        why: String,
    },
    /// Some of the runs that were driven did not complete.
    #[error(
        "{0} [TFY0069]; `show` and `log --failed` show more about each, and `fork FORK --allow NAME` lets a fork continue"
    )]
    NotAllWell(String),
    /// Several questions match.
    #[error("{what}: {} [TFY0185]; give the id of one, as `approve` without arguments lists it", .ids.join(", "))]
    SeveralApprovals {
        /// The name that was given.
        what: String,
        /// Some of the questions that match.
        ids: Vec<String>,
    },
    /// Questions of a run were denied, because no person could be asked.
    #[error(
        "{0} [TFY0186]; see the state of the run with `show`; run the command in a terminal, or let another user decide with `--approvals wait`"
    )]
    Denied(String),
    /// A run cannot be started, because no process owns the directory.
    #[error(
        "no process owns {}, so nothing could run `{function}` [TFY0187]; {}, and submit again; or use `--wait` with a command line that has the function, which runs it here", .dir.display(), driver::start(.dir)
    )]
    NobodyRuns {
        /// The function to be started.
        function: String,
        /// The log directory.
        dir: PathBuf,
    },
    /// The input of a run cannot be read.
    #[error("cannot read the input from {}: {why} [TFY0188]; give JSON, `@FILE` with a file that has JSON in it, or `-` for standard input", .file.display())]
    NoInput {
        /// The path of the file with the input.
        file: PathBuf,
        /// The error from the operating system.
        why: String,
    },
    /// The backup is complete, but the log is damaged.
    #[error(
        "the backup is complete, but {0} of the log cannot be read to the end [TFY0123]; `doctor --verify` shows where; what can be read is in the backup, and what an earlier one had is kept"
    )]
    DamagedInLog(String),
    /// No process owns the log, so there are no metrics.
    #[error(
        "metrics come from a process, and none owns {} [TFY0195]; {}", .0.display(), driver::start(.0)
    )]
    NobodyMeasures(PathBuf),
    /// Remains of removed runs were found.
    #[error(
        "{0} [TFY0205]; if a process owns the directory, wait a few seconds and look again; otherwise erase it with `tiffany rm RUN`"
    )]
    NotErased(String),
    /// The log is redacted with rules that this command doesn't have.
    #[error(
        "the log in {} is redacted with rules that this command does not have [TFY0212]; name the configuration that has them with `--config FILE`, or use the program that sets them", .0.display()
    )]
    NeedsRules(PathBuf),
    /// The process that ran a run has ended, and no other has taken over.
    #[error(
        "no process has owned {} for some seconds, and run {run} has not ended [TFY0261]; {}, which continues the run; then wait for its end with `tiffany watch {run}`", .dir.display(), driver::start(.dir)
    )]
    NobodyDrives {
        /// The run that has not ended.
        run: Uuid,
        /// The log directory.
        dir: PathBuf,
    },
}

impl CliError {
    /// All error codes, in order.
    pub const CODES: &[&str] = &[
        "TFY0060", "TFY0062", "TFY0063", "TFY0064", "TFY0065", "TFY0066", "TFY0067", "TFY0068",
        "TFY0069", "TFY0081", "TFY0082", "TFY0083", "TFY0084", "TFY0085", "TFY0123", "TFY0185",
        "TFY0186", "TFY0187", "TFY0188", "TFY0195", "TFY0205", "TFY0212", "TFY0261",
    ];

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            CliError::NoLog(_) => "TFY0060",
            CliError::Ambiguous { .. } => "TFY0062",
            CliError::NeedsProgram(_) => "TFY0063",
            CliError::BadJson { .. } => "TFY0064",
            CliError::Damage(_) => "TFY0065",
            CliError::OtherOutcome(_) => "TFY0066",
            CliError::Usage(_) => "TFY0067",
            CliError::Output(_) => "TFY0068",
            CliError::NotAllWell(_) => "TFY0069",
            CliError::WouldDiverge(_) => "TFY0081",
            CliError::NotFailed(_) => "TFY0082",
            CliError::NoDebugger => "TFY0083",
            CliError::IsOver(_) => "TFY0084",
            CliError::NoReply { .. } => "TFY0085",
            CliError::DamagedInLog(_) => "TFY0123",
            CliError::SeveralApprovals { .. } => "TFY0185",
            CliError::NobodyMeasures(_) => "TFY0195",
            CliError::NeedsRules(_) => "TFY0212",
            CliError::Denied(_) => "TFY0186",
            CliError::NobodyRuns { .. } => "TFY0187",
            CliError::NoInput { .. } => "TFY0188",
            CliError::NotErased(_) => "TFY0205",
            CliError::NobodyDrives { .. } => "TFY0261",
        }
    }
}

/// Why a command stops early.
pub(super) enum Ending {
    /// The reader of standard output has left.
    Quiet,
    Error(Shown),
}

/// An error as it is printed.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) next: String,
    pub(super) exit: u8,
}

impl Shown {
    /// Splits the text of an error: `message [CODE]; next step`, and redacts it.
    pub(super) fn new(code: &str, text: &impl fmt::Display, exit: u8) -> Shown {
        let text = shown(text).to_string();
        let mark = format!(" [{code}]");
        let (message, next) = match text.rsplit_once(&mark) {
            Some((message, next)) => (message, next.trim_start_matches("; ")),
            None => (text.as_str(), ""),
        };
        Shown { code: code.into(), message: message.into(), next: next.into(), exit }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        json!({ "code": self.code, "message": self.message, "next": self.next })
    }
}

impl From<LogError> for Shown {
    fn from(error: LogError) -> Shown {
        let exit =
            if matches!(error, LogError::Locked { .. }) { exit::IN_USE } else { exit::FAILED };
        Shown::new(error.code(), &error, exit)
    }
}

impl From<BackupError> for Shown {
    fn from(error: BackupError) -> Shown {
        match error {
            BackupError::Log(error) => error.into(),
            error => Shown::new(error.code(), &error, exit::FAILED),
        }
    }
}

impl From<CaptureError> for Shown {
    fn from(error: CaptureError) -> Shown {
        match error {
            CaptureError::Log(error) => error.into(),
            CaptureError::Run(error) => error.into(),
            error => Shown::new(error.code(), &error, exit::FAILED),
        }
    }
}

impl From<TaskError> for Shown {
    fn from(error: TaskError) -> Shown {
        if error.kind() != ErrorKind::Unreachable {
            return Shown::new(error.code(), &error, exit::FAILED);
        }
        // Errors that came over HTTP have codes of their own.
        if let Some(coded) = of_daemon(&error) {
            return coded;
        }
        // The user of a command doesn't write code that drives a runtime, so the next step is
        // another.
        let next = match error.message() {
            text if text.starts_with("no process has ") => {
                "start the program that has the functions, or `serve`, and try again"
            }
            text if text.ends_with(UNANSWERED) => {
                "see with `tiffany doctor` why the process does not answer"
            }
            _ => {
                "`status` and `doctor` show which process owns the directory; try again when it answers, as the same user, or end it"
            }
        };
        Shown { next: next.into(), ..Shown::new(error.code(), &error, exit::IN_USE) }
    }
}

/// An error of the connection to a daemon, or one whose code only a daemon has.
fn of_daemon(error: &TaskError) -> Option<Shown> {
    let (_, rest) = error.message().rsplit_once(" [")?;
    let code = rest.get(..7).filter(|_| rest[7..].starts_with("];"))?;
    let is_of_daemon = ("TFY0155"..="TFY0179").contains(&code)
        || ("TFY0250"..="TFY0260").contains(&code)
        || ("TFY0300"..="TFY0304").contains(&code);
    if !is_of_daemon {
        return None;
    }
    let exit = match code {
        "TFY0300" | "TFY0301" => exit::IN_USE,
        "TFY0303" | "TFY0304" => exit::USAGE,
        _ => exit::FAILED,
    };
    Some(Shown::new(code, &error.message(), exit))
}

impl From<RunError> for Shown {
    fn from(error: RunError) -> Shown {
        match error {
            RunError::Log(error) => error.into(),
            error => Shown::new(error.code(), &error, exit::FAILED),
        }
    }
}

impl From<CliError> for Shown {
    fn from(error: CliError) -> Shown {
        let exit = match error {
            CliError::Ambiguous { .. }
            | CliError::BadJson { .. }
            | CliError::SeveralApprovals { .. }
            | CliError::Usage(_) => exit::USAGE,
            CliError::NobodyMeasures(_) => exit::IN_USE,
            CliError::NobodyDrives { .. } => exit::UNFINISHED,
            CliError::NeedsProgram(_) | CliError::NobodyRuns { .. } => exit::NEEDS_PROGRAM,
            _ => exit::FAILED,
        };
        Shown::new(error.code(), &error, exit)
    }
}

impl<E: Into<Shown>> From<E> for Ending {
    fn from(error: E) -> Ending {
        Ending::Error(error.into())
    }
}

impl From<std::io::Error> for Ending {
    fn from(error: std::io::Error) -> Ending {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Ending::Quiet,
            _ => CliError::Output(error.to_string()).into(),
        }
    }
}

/// Prints an error on standard error, and returns the exit code.
pub(super) fn show(error: &Shown, is_json: bool, colour: bool) -> u8 {
    let mut text = match is_json {
        true => super::json::line(&json!({ "error": error.json(), "exit": error.exit })),
        false => {
            let head = paint(colour, Style::Bad, &format!("error[{}]", error.code));
            let mut text = format!("{head}: {}\n", clean(&error.message));
            if !error.next.is_empty() {
                let mark = paint(colour, Style::Dim, "  next:");
                text.push_str(&format!("{mark} {}\n", clean(&error.next)));
            }
            text
        }
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // If this fails, there is no other way to report it.
    let _ = std::io::stderr().write_all(text.as_bytes());
    error.exit
}

/// Handles a command line that is not valid, or that asks for help.
pub(super) fn usage(error: &clap::Error, arguments: &[OsString]) -> u8 {
    if !error.use_stderr() {
        // Help and version go to standard output.
        let _ = std::io::stdout().write_all(error.render().to_string().as_bytes());
        return 0;
    }
    let is_json = arguments.iter().any(|argument| argument == "--json");
    let text = error.render().to_string();
    // Without arguments, the help is printed.
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !is_json
    {
        let _ = std::io::stderr().write_all(text.as_bytes());
        return exit::USAGE;
    }
    if !is_json {
        let colour = super::out::colours_errors();
        let head = paint(colour, Style::Bad, "error[TFY0067]");
        let body = clean_lines(text.strip_prefix("error: ").unwrap_or(&text));
        let _ = std::io::stderr().write_all(format!("{head}: {body}").as_bytes());
        return exit::USAGE;
    }
    let first = text.lines().next().unwrap_or("").trim_start_matches("error: ");
    show(&CliError::Usage(first.into()).into(), is_json, false)
}

fn clean_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", clean(line))).collect()
}
