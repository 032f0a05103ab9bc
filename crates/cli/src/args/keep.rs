//! Arguments of the commands that remove and copy runs. It knows nothing of what the commands do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs, Subcommand, ValueEnum};
use tiffany::units;
use tiffany_records::Outcome;

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("rule").multiple(true).args(["older_than", "keep", "max_size", "compact_after"])))]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["runs", "all", "older_than", "keep", "max_size", "compact_after"])))]
#[command(override_usage = "tiffany rm [OPTIONS] <RUN>...
       tiffany rm [OPTIONS] --compact <RUN...|--all>
       tiffany rm [OPTIONS] <--older-than <AGE>|--keep <NUMBER>|--max-size <SIZE>|--compact-after <AGE>>")]
#[command(after_help = "\
Examples:
  tiffany rm order-17                               remove a finished run
  tiffany rm --all --compact                        keep only input and outcome of all finished runs
  tiffany rm --older-than 30d --keep 1000 --dry-run show what these rules would remove

Unfinished runs, and runs that a fork needs, are never removed. The ids of removed runs stay known and
are not run again.")]
pub(crate) struct Rm {
    /// UUIDs, unique UUID prefixes, or ids of the runs
    #[arg(value_name = "RUN", conflicts_with_all = ["all", "rule"])]
    pub(crate) runs: Vec<String>,
    /// Also remove damaged runs, finished or not; what they recorded is lost
    #[arg(long, requires = "runs", conflicts_with = "compact")]
    pub(crate) damaged: bool,
    /// Keep what the runs were started with and their outcome, and remove everything in between
    #[arg(long, conflicts_with = "rule")]
    pub(crate) compact: bool,
    /// With `--compact`: all finished runs
    #[arg(long, requires = "compact")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// Rules by which finished runs are removed and compacted.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Rules")]
pub(crate) struct Rules {
    /// Remove runs that ended longer ago than this: 90s, 15m, 12h, 30d or 2w
    #[arg(long, value_name = "AGE", value_parser = units::time)]
    pub(crate) older_than: Option<Duration>,
    /// Keep this many runs, those that ended last, and remove the others
    #[arg(long, value_name = "NUMBER")]
    pub(crate) keep: Option<usize>,
    /// Remove runs, oldest end first, until the files and blobs of the others fit in this size: 500kB, 20MB or 1GB
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub(crate) max_size: Option<u64>,
    /// Compact runs that ended longer ago than this and are not removed
    #[arg(long, value_name = "AGE", value_parser = units::time)]
    pub(crate) compact_after: Option<Duration>,
    /// Apply the rules only to runs that ended in this state; may be repeated
    #[arg(long, value_name = "STATE", requires = "rule")]
    pub(crate) state: Vec<EndState>,
    /// Show what the rules would do; change nothing
    #[arg(long, requires = "rule")]
    pub(crate) dry_run: bool,
}

impl Rules {
    /// Whether there is a rule at all.
    pub(crate) fn any(&self) -> bool {
        let Rules { older_than, keep, max_size, compact_after, .. } = self;
        older_than.is_some() || keep.is_some() || max_size.is_some() || compact_after.is_some()
    }
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

#[derive(Debug, Subcommand)]
pub(crate) enum Backup {
    /// Copy the directory while it is in use; unchanged data is not copied again
    Create(BackupCreate),
    /// Make a log directory from a backup
    Restore(BackupRestore),
    /// Read a backup through and check it
    Check(BackupCheck),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  tiffany backup create /backup/orders --dir orders")]
pub(crate) struct BackupCreate {
    /// Directory of the backup, one for each log
    #[arg(value_name = "DEST")]
    pub(crate) to: PathBuf,
    /// Read at most this many megabytes per second; 0 for no limit. [default: 16 while a process owns the directory,
    /// otherwise no limit]
    #[arg(long, value_name = "MB", value_parser = megabytes)]
    pub(crate) rate: Option<f64>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  tiffany backup restore /backup/orders --to orders")]
pub(crate) struct BackupRestore {
    /// Directory of the backup
    #[arg(value_name = "DEST")]
    pub(crate) backup: PathBuf,
    /// Directory that becomes the log; new or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Remove the log that is in the directory, if no process owns it
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  tiffany backup check /backup/orders")]
pub(crate) struct BackupCheck {
    /// Directory of the backup
    #[arg(value_name = "DEST")]
    pub(crate) backup: PathBuf,
}

fn megabytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("expected a number, such as 10 or 0.5".into()),
    }
}
