//! The arguments of the command line: the commands, their groups, and the options of all commands.
//! The options of each command are in the file of its group. It doesn't depend on what the commands
//! do.

mod admin;
pub(super) mod groups;
mod keep;
mod look;
mod runs;
pub(super) mod serve;
mod steer;
mod time_travel;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use super::remote::RemoteOptions;

pub(super) use admin::{Completions, Doctor};
pub(super) use keep::{Backup, BackupCheck, BackupCreate, BackupRestore, Rm, Rules};
pub(super) use look::{Diff, EventFilter, ExportFormat, Log, Watch};
pub(super) use runs::{
    AboutApprovals, Ls, Resume, RunFile, Show, Status, StepFilter, Submit, ToDoAboutApprovals,
};
pub(super) use steer::{Approve, Cancel, Decide, Doubt, DoubtCommand, Hold, Query, Send, Settle};
pub(super) use tiffany::control::State;
pub(super) use time_travel::{CaptureOptions, Fork, Replay, StepPlace};

/// What `--version` shows: the version and the build id (see `build.rs`).
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (build ", env!("TIFFANY_BUILD"), ")");

/// Start, watch, steer and replay durable runs
#[derive(Debug, Parser)]
#[command(name = "tiffany", version = VERSION, disable_help_subcommand = true, infer_long_args = false)]
#[command(
    after_help = "First steps: `serve` hosts the runs of a directory, `submit` starts one, `watch` shows it, `approve`\nanswers its questions, and `ls`, `show` and `log` report what happened. `COMMAND --help` describes a command."
)]
pub(super) struct Args {
    /// Log directory
    #[arg(long, global = true, env = "TIFFANY_DIR", value_name = "DIR", help_heading = GLOBAL)]
    pub(super) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) remote: RemoteOptions,
    /// Print JSON, one object per line; errors too
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = GLOBAL)]
    pub(super) color: When,
    /// Do not cut long values to the width of the terminal
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(super) wide: bool,
    /// Log to standard error; twice for more detail
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = GLOBAL)]
    pub(super) verbose: u8,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The heading above options that every command has.
pub(crate) const GLOBAL: &str = "Global options";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start a run in the process that owns the directory
    Submit(Submit),
    /// Drive unfinished runs to their end, or show what would happen
    Resume(Resume),
    /// List runs: all, those running now, or stuck tasks
    Ls(Ls),
    /// Show one run and its tasks, its steps, or a long value
    Show(Show),
    /// Show which process owns the directory, and its health or metrics
    Status(Status),
    /// Print or export the records of a run
    Log(Log),
    /// Follow one run, all runs, or their events
    Watch(Watch),
    /// Compare two runs
    Diff(Diff),
    /// Send a message to a run
    Send(Send),
    /// Settle an external promise of a run
    Settle(Settle),
    /// Query the state of a run
    Query(Query),
    /// Cancel a run; a second time, end it without waiting for its cleanup
    Cancel(Cancel),
    /// Hold a run, or let it continue
    Hold(Hold),
    /// List the questions that runs ask people, and answer them
    Approve(Approve),
    /// List the steps that may or may not have happened, and decide about them
    Doubt(Doubt),
    /// Run a recorded run again, without its steps, with the current code
    Replay(Replay),
    /// Copy a run up to a record and continue it another way
    Fork(Fork),
    /// Remove or compact finished runs, by name or by rules
    Rm(Rm),
    /// Create, restore and check backups
    #[command(subcommand)]
    Backup(Backup),
    /// Check the directory, the machine and every checksum
    Doctor(Doctor),
    /// Print a completion decoded for a shell
    Completions(Completions),
}
