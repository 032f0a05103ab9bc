//! What can be typed: the commands, and what all of them take. What each takes is in a file for its family. It knows nothing of what the commands do.

mod changing;
mod code;
mod keeping;
mod live;
mod looking;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub(super) use changing::{
    Cancel, Decide, Doubt, DoubtCommand, Hold, Query, Release, Send, Settle,
};
pub(super) use code::{Allow, Capture, Check, Fork, Replay, Resume, RunFile, Step, Try};
pub(super) use keeping::{Backup, Compact, Prune, Restore, Rm};
pub(super) use live::{
    AboutApprovals, Approvals, Approve, Approved, Ps, Reject, Submit, ToDoAboutApprovals, Watch,
};
pub(super) use looking::{
    Blob, Diff, Effects, Events, Export, ExportFormat, Inspect, Log, Ls, Metrics, Show, Verify,
};
pub(super) use tiffany::control::State;

/// What `--version` shows: the version and the build id (see `build.rs`).
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (build ", env!("TIFFANY_BUILD"), ")");

/// Looks at a log directory of durable runs, and changes what waits there.
#[derive(Debug, Parser)]
#[command(name = "tiffany", version = VERSION, disable_help_subcommand = true, infer_long_args = false)]
#[command(
    after_help = "First steps: `serve` hosts the runs of a directory, `submit` starts one, `watch` shows it, `approve` answers what it asks, and `ls`, `show` and `log` tell what happened."
)]
pub(super) struct Args {
    /// The log directory.
    #[arg(long, global = true, env = "TIFFANY_DIR", value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Print JSON, one object a line, and errors as JSON too.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(super) color: When,
    /// Do not cut long values to the width of the terminal.
    #[arg(long, global = true)]
    pub(super) wide: bool,
    /// Log what happens to standard error; twice for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the runs.
    Ls(Ls),
    /// Show one run: what it is, its tasks, and where each of them stands.
    Show(Show),
    /// Print the records of a run.
    Log(Log),
    /// List the steps of a run with their attempts, the newest first.
    Effects(Effects),
    /// Print a long value, which records name by its hash (`$blob`).
    Blob(Blob),
    /// Print what runs are doing, as the process that has the directory tells it.
    Events(Events),
    /// Check every checksum: index, commit log, runs, blobs.
    Verify(Verify),
    /// Tell what there is and what would happen on resume. Changes nothing.
    Inspect(Inspect),
    /// Run a run again against its log, without its effects, and tell whether it is the same. Changes nothing.
    Replay(Replay),
    /// Show a run at any of its records, forwards and backwards: tasks, what they wait for, what they stored, their variables. Changes nothing.
    Step(Step),
    /// Run everything that is unfinished against its log with this program, and tell which runs would not go on, and why. Changes nothing.
    Check(Check),
    /// Run an unfinished run in this program without its effects, show what it would do next, and propose a line where the two part. Changes nothing.
    Try(Try),
    /// Write a test with the log of a run as its fixture: it fails where the program does something else.
    Capture(Capture),
    /// Make another run that is what a run was up to a record, perhaps with another answer there, and goes its own way. What its parent was not answered
    /// it may not do, unless it is allowed.
    Fork(Fork),
    /// Let a fork do effects that it was refused.
    Allow(Allow),
    /// Open the directory and drive what is unfinished to its end.
    Resume(Resume),
    /// List the steps that may have happened or not, or decide on one.
    Doubt(Doubt),
    /// Start a run, in the process that has the directory; with `--wait` or `--follow`, see it to its end.
    Submit(Submit),
    /// List what goes on at present: runs, or the tasks of one, what they wait for and since when.
    Ps(Ps),
    /// Watch a run: its tasks as a tree, what they wait for, how far they are. Ends with the run.
    Watch(Watch),
    /// List the questions that wait for a person.
    Approvals(Approvals),
    /// Say yes to a question of a run, or choose one of its choices.
    Approve(Approve),
    /// Say no to a question of a run: choose the last of its choices.
    Reject(Reject),
    /// Send a message to a run.
    Send(Send),
    /// Settle an external promise of a run.
    Settle(Settle),
    /// Cancel a run; a second time: end it without waiting for its cleanup.
    Cancel(Cancel),
    /// Hold a run: it gets no turns until it is released.
    Hold(Hold),
    /// Let a run continue that a person or a limit holds.
    Release(Release),
    /// Ask a run a question, which it answers from its memory.
    Query(Query),
    /// Show where two runs part: record by record, and task by task.
    Diff(Diff),
    /// Write a run as a timeline for Perfetto, a graph of Mermaid, or one JSON document.
    Export(Export),
    /// Remove runs that are over. Their ids stay known, and are not run again.
    Rm(Rm),
    /// Leave of runs that are over what they were started with and what came of them.
    Compact(Compact),
    /// Remove and compact runs that are over by a rule: age, number, size, state. A run that goes on is never touched, nor one that a fork needs.
    Prune(Prune),
    /// Copy the directory while it is in use. What is copied already is not copied again.
    Backup(Backup),
    /// Make a log of a backup, or check one.
    Restore(Restore),
    /// Tell which process has the directory, what it can run, and whether anything is wrong.
    Status,
    /// Print what the process that has the log counts and measures, as Prometheus reads it.
    Metrics(Metrics),
    /// Look at the directory and the machine for what could go wrong.
    Doctor,
    /// Print the script by which a shell completes these commands.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}
