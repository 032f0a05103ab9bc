//! What can be typed about what is kept and copied.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs, ValueEnum};
use tiffany::units;
use tiffany_records::Outcome;

#[derive(Debug, ClapArgs)]
pub(crate) struct Rm {
    /// UUIDs, beginnings of them, or the ids the runs were started with.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// Remove runs that are damaged, whether they are over or not. What they had is lost.
    #[arg(long)]
    pub(crate) damaged: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Compact {
    /// UUIDs, beginnings of them, or the ids the runs were started with.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// All runs that are over.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("rule").required(true).multiple(true).args(["older_than", "keep", "max_size", "compact_after"])))]
pub(crate) struct Prune {
    /// Remove runs that ended longer ago than this: 90s, 15m, 12h, 30d or 2w.
    #[arg(long, value_name = "AGE", value_parser = units::time)]
    pub(crate) older_than: Option<Duration>,
    /// Keep so many runs, those that ended last, and remove the others.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) keep: Option<usize>,
    /// Remove the runs that ended first until the others have so much in their files and blobs: 500kB, 20MB or 1GB.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub(crate) max_size: Option<u64>,
    /// Compact runs that ended longer ago than this and are not removed.
    #[arg(long, value_name = "AGE", value_parser = units::time)]
    pub(crate) compact_after: Option<Duration>,
    /// Only runs that ended like this. May be repeated.
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Vec<EndState>,
    /// Only show what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How a run can have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EndState {
    Completed,
    Failed,
    Cancelled,
}

impl From<EndState> for Outcome {
    fn from(state: EndState) -> Outcome {
        match state {
            EndState::Completed => Outcome::Completed,
            EndState::Failed => Outcome::Failed,
            EndState::Cancelled => Outcome::Cancelled,
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Backup {
    /// The log directory; by default that of `--dir`.
    #[arg(value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// Where the backup is kept: a directory of its own for each log.
    #[arg(long, value_name = "DEST")]
    pub(crate) to: PathBuf,
    /// So many megabytes a second at most; 0 for no limit. Beside a process that has the directory it is 16, otherwise
    /// there is none.
    #[arg(long, value_name = "MB", value_parser = megabytes)]
    pub(crate) rate: Option<f64>,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("what").required(true).args(["to", "check"])))]
pub(crate) struct Restore {
    /// The backup.
    #[arg(value_name = "DEST")]
    pub(crate) backup: PathBuf,
    /// The directory that becomes a log: a new or an empty one.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Only read the backup through.
    #[arg(long)]
    pub(crate) check: bool,
    /// Remove the log that is in the directory, if no process has it.
    #[arg(long, requires = "to")]
    pub(crate) force: bool,
}

fn megabytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("it takes a number, such as 10 or 0.5".into()),
    }
}
