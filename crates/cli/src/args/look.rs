//! Arguments of the commands that look at runs. It knows nothing of what the commands do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use tiffany::units;

use super::runs::ToDoAboutApprovals;

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany log [OPTIONS] <RUN>
       tiffany log [OPTIONS] <RUN> --format <FORMAT> [--out <FILE>]")]
#[command(after_help = "\
Examples:
  tiffany log order-17 --failed                             failures, with their tracebacks
  tiffany log order-17 --follow                             records as they are written
  tiffany log order-17 --format perfetto --out trace.json   a timeline for https://ui.perfetto.dev")]
pub(crate) struct Log {
    /// UUID, unique UUID prefix, or id of the run
    pub(crate) run: String,
    /// Only records of this task; may be repeated
    #[arg(long, value_name = "NUMBER")]
    pub(crate) task: Vec<u64>,
    /// Only records of this type, such as EffectResult; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Vec<String>,
    /// First record to print
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Last record to print
    #[arg(long, value_name = "SEQ")]
    pub(crate) to: Option<u64>,
    /// Only failures, each with its traceback where one is recorded
    #[arg(long)]
    pub(crate) failed: bool,
    /// Print new records as they are written, until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Export the whole run for another program instead of printing its records
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["task", "kind", "from", "to", "failed", "follow"])]
    pub(crate) format: Option<ExportFormat>,
    /// With `--format`: write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", requires = "format")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A timeline in the Chrome trace format, for Perfetto
    #[value(alias = "chrome-trace")]
    Perfetto,
    /// The task tree as a Mermaid flowchart
    Mermaid,
    /// One JSON document with all records, blobs included
    Json,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany watch [OPTIONS] <RUN>
       tiffany watch [OPTIONS]
       tiffany watch --events [OPTIONS] [RUN]")]
#[command(after_help = "\
Examples:
  tiffany watch order-17                   the tasks of a run as a tree, until it ends
  tiffany watch                            all runs, full screen
  tiffany watch --events order-17 -f       the events of a run, as they happen")]
pub(crate) struct Watch {
    /// UUID, unique UUID prefix, or id of the run; without it, all runs are shown full screen
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) approvals: ToDoAboutApprovals,
    /// Without a run: how often to refresh. [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::time, conflicts_with_all = ["run", "events"])]
    pub(crate) every: Option<Duration>,
    /// Print events of the owning process, one per line
    #[arg(long, conflicts_with_all = ["approvals", "deny_approvals"])]
    pub(crate) events: bool,
    #[command(flatten)]
    pub(crate) filter: EventFilter,
}

/// Which events are printed.
#[derive(Debug, ClapArgs)]
pub(crate) struct EventFilter {
    /// With `--events`: print new events until the run ends or the command is interrupted. If the process ends, wait for
    /// the next one
    #[arg(short, long, requires = "events")]
    pub(crate) follow: bool,
    /// With `--events`: first event to print
    #[arg(long, value_name = "SEQ", requires = "events")]
    pub(crate) from: Option<u64>,
    /// With `--events --follow`: skip events that have already happened
    #[arg(long, requires = "follow", conflicts_with = "from")]
    pub(crate) new: bool,
    /// With `--events`: include every turn of every task (Running, Blocked, Woken)
    #[arg(long, requires = "events")]
    pub(crate) all: bool,
    /// With `--events`: leave out events that are repeated while a run is resumed
    #[arg(long, requires = "events")]
    pub(crate) no_ghosts: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  tiffany diff order-17 order-17~4
  tiffany diff order-17 order-17 --other ../backup/orders")]
pub(crate) struct Diff {
    /// UUID, unique UUID prefix, or id of the run
    #[arg(value_name = "RUN")]
    pub(crate) a: String,
    /// The run to compare it with
    #[arg(value_name = "OTHER_RUN")]
    pub(crate) b: String,
    /// Directory of the other run, if it is not in this one
    #[arg(long, value_name = "DIR")]
    pub(crate) other: Option<PathBuf>,
    /// Show at most this many differences and count the others
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Show all differences
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}
