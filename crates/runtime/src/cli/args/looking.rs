//! What can be typed to look at a log.

use std::path::PathBuf;

use tiffany_kernel::Time;

use crate::cli::units;
use crate::control::{SortBy, State};
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, ValueEnum};
use tiffany_records::EffectQuery;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Diff {
    /// A UUID, the beginning of one, or the id the run was started with.
    #[arg(value_name = "RUN")]
    pub(in crate::cli) a: String,
    /// The other run.
    #[arg(value_name = "OTHER_RUN")]
    pub(in crate::cli) b: String,
    /// The directory of the other run, if it is in another one.
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) other: Option<PathBuf>,
    /// Show so many differences; the others are counted.
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(in crate::cli) limit: usize,
    /// Show all differences.
    #[arg(long, conflicts_with = "limit")]
    pub(in crate::cli) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Export {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// What is written.
    #[arg(long, value_name = "FORMAT")]
    pub(in crate::cli) format: ExportFormat,
    /// The file it is written to, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ExportFormat {
    /// The timeline, for Perfetto.
    ChromeTrace,
    /// The graph of tasks.
    Mermaid,
    /// All records, with what is in blobs in its place.
    Json,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Ls {
    /// Only runs in this state. May be repeated.
    #[arg(long, value_name = "STATE")]
    pub(in crate::cli) state: Vec<State>,
    /// Only runs of this function.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) function: Option<String>,
    /// Only runs that have this in their id, function or UUID.
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) text: Option<String>,
    /// Only runs that began at this moment or later: 2026-11-05T09:41:00Z, or so long ago: 15m, 12h, 30d.
    #[arg(long, value_name = "MOMENT", value_parser = units::moment)]
    pub(in crate::cli) since: Option<Time>,
    /// Only runs that began before this moment.
    #[arg(long, value_name = "MOMENT", value_parser = units::moment)]
    pub(in crate::cli) before: Option<Time>,
    /// Only forks of this run.
    #[arg(long, value_name = "RUN")]
    pub(in crate::cli) forks_of: Option<String>,
    /// By what they are sorted.
    #[arg(long, value_name = "BY", default_value = "started")]
    pub(in crate::cli) sort: SortBy,
    /// The other way round.
    #[arg(long)]
    pub(in crate::cli) reverse: bool,
    /// So many of them. [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) limit: Option<usize>,
    /// Removed runs too, of which only the UUID is known.
    #[arg(long)]
    pub(in crate::cli) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Show {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// Only from the records, even if this program could replay the run.
    #[arg(long)]
    pub(in crate::cli) records: bool,
    /// Also list what was forked from it, for which the beginning of every run is read.
    #[arg(long)]
    pub(in crate::cli) forks: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Log {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// Only records of this task. May be repeated.
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) task: Vec<u64>,
    /// Only records of this type, such as EffectResult. May be repeated.
    #[arg(long = "type", value_name = "TYPE")]
    pub(in crate::cli) kind: Vec<String>,
    /// From this record on.
    #[arg(long, value_name = "SEQ")]
    pub(in crate::cli) from: Option<u64>,
    /// Up to this record.
    #[arg(long, value_name = "SEQ")]
    pub(in crate::cli) to: Option<u64>,
    /// Only what failed, each with the way to the line where that is recorded.
    #[arg(long)]
    pub(in crate::cli) failed: bool,
    /// Go on with records as they are written, until the run is over.
    #[arg(short, long)]
    pub(in crate::cli) follow: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Events {
    /// Only of this run: a UUID, the beginning of one, or the id it was started with.
    pub(in crate::cli) run: Option<String>,
    /// Go on with what happens, until the run is over; without a run, until this is interrupted. If the process is gone, wait for the next one.
    #[arg(short, long)]
    pub(in crate::cli) follow: bool,
    /// From this event on.
    #[arg(long, value_name = "SEQ")]
    pub(in crate::cli) from: Option<u64>,
    /// Nothing of what has happened: only what happens from now on.
    #[arg(long, requires = "follow", conflicts_with = "from")]
    pub(in crate::cli) new: bool,
    /// Every turn of every task too: who runs, waits and is woken.
    #[arg(long)]
    pub(in crate::cli) all: bool,
    /// Not what happens again while a run is brought back.
    #[arg(long)]
    pub(in crate::cli) no_ghosts: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Effects {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// Only those of this task.
    #[arg(long, value_name = "NUMBER")]
    pub(in crate::cli) task: Option<u64>,
    /// Only those of this name.
    #[arg(long, value_name = "STEP")]
    pub(in crate::cli) name: Option<String>,
    /// Only those in this state; `left`: its task ended without it.
    #[arg(long, value_parser = PossibleValuesParser::new(EffectQuery::STATES))]
    pub(in crate::cli) state: Option<String>,
    /// How many to list at the most.
    #[arg(long, value_name = "N", default_value = "100")]
    pub(in crate::cli) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Blob {
    /// Its hash.
    pub(in crate::cli) hash: String,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Verify {
    /// Only these runs, instead of the whole directory.
    pub(in crate::cli) runs: Vec<String>,
    /// Search every byte of the directory for what is left of these runs, which were removed or compacted.
    #[arg(long, requires = "runs")]
    pub(in crate::cli) erased: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Inspect {
    /// Only these runs.
    pub(in crate::cli) runs: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Metrics {
    /// Only metrics whose names begin so.
    pub(in crate::cli) name: Option<String>,
}
