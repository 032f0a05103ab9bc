//! What can be typed to look at a log.

use std::path::PathBuf;

use tiffany_kernel::Time;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};
use tiffany::control::{SortBy, State};
use tiffany::units;
use tiffany_records::EffectQuery;

#[derive(Debug, ClapArgs)]
pub(crate) struct Diff {
    /// A UUID, the beginning of one, or the id the run was started with.
    #[arg(value_name = "RUN")]
    pub(crate) a: String,
    /// The other run.
    #[arg(value_name = "OTHER_RUN")]
    pub(crate) b: String,
    /// The directory of the other run, if it is in another one.
    #[arg(long, value_name = "DIR")]
    pub(crate) other: Option<PathBuf>,
    /// Show so many differences; the others are counted.
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) limit: usize,
    /// Show all differences.
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// What is written.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: ExportFormat,
    /// The file it is written to, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The timeline, for Perfetto.
    ChromeTrace,
    /// The graph of tasks.
    Mermaid,
    /// All records, with what is in blobs in its place.
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// Only runs in this state. May be repeated.
    #[arg(long, value_name = "STATE", value_parser = words_of(State::ALL, |state| state.word()))]
    pub(crate) state: Vec<State>,
    /// Only runs of this function.
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only runs that have this in their id, function or UUID.
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only runs that began at this moment or later: 2026-11-05T09:41:00Z, or so long ago: 15m, 12h, 30d.
    #[arg(long, value_name = "MOMENT", value_parser = units::moment)]
    pub(crate) since: Option<Time>,
    /// Only runs that began before this moment.
    #[arg(long, value_name = "MOMENT", value_parser = units::moment)]
    pub(crate) before: Option<Time>,
    /// Only forks of this run.
    #[arg(long, value_name = "RUN")]
    pub(crate) forks_of: Option<String>,
    /// By what they are sorted.
    #[arg(long, value_name = "BY", default_value = "started", value_parser = words_of(SortBy::ALL, |by| by.word()))]
    pub(crate) sort: SortBy,
    /// The other way round.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// So many of them. [default: all]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<usize>,
    /// Removed runs too, of which only the UUID is known.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// Only from the records, even if this program could replay the run.
    #[arg(long)]
    pub(crate) records: bool,
    /// Also list what was forked from it, for which the beginning of every run is read.
    #[arg(long)]
    pub(crate) forks: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Log {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// Only records of this task. May be repeated.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) task: Vec<u64>,
    /// Only records of this type, such as EffectResult. May be repeated.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Vec<String>,
    /// From this record on.
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Up to this record.
    #[arg(long, value_name = "SEQ")]
    pub(crate) to: Option<u64>,
    /// Only what failed, each with the way to the line where that is recorded.
    #[arg(long)]
    pub(crate) failed: bool,
    /// Go on with records as they are written, until the run is over.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Events {
    /// Only of this run: a UUID, the beginning of one, or the id it was started with.
    pub(crate) run: Option<String>,
    /// Go on with what happens, until the run is over; without a run, until this is interrupted. If the process is gone, wait for the next one.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// From this event on.
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Nothing of what has happened: only what happens from now on.
    #[arg(long, requires = "follow", conflicts_with = "from")]
    pub(crate) new: bool,
    /// Every turn of every task too: who runs, waits and is woken.
    #[arg(long)]
    pub(crate) all: bool,
    /// Not what happens again while a run is brought back.
    #[arg(long)]
    pub(crate) no_ghosts: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Effects {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// Only those of this task.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) task: Option<u64>,
    /// Only those of this name.
    #[arg(long, value_name = "STEP")]
    pub(crate) name: Option<String>,
    /// Only those in this state; `left`: its task ended without it.
    #[arg(long, value_parser = PossibleValuesParser::new(EffectQuery::STATES))]
    pub(crate) state: Option<String>,
    /// How many to list at the most.
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Blob {
    /// Its hash.
    pub(crate) hash: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Verify {
    /// Only these runs, instead of the whole directory.
    pub(crate) runs: Vec<String>,
    /// Search every byte of the directory for what is left of these runs, which were removed or compacted.
    #[arg(long, requires = "runs")]
    pub(crate) erased: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inspect {
    /// Only these runs.
    pub(crate) runs: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Metrics {
    /// Only metrics whose names begin so.
    pub(crate) name: Option<String>,
}

/// A parser of the words that values of the library have.
fn words_of<T, const N: usize>(
    all: [T; N],
    word: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.map(|one| word(&one))).try_map(move |typed| {
        let found = all.into_iter().find(|one| word(one) == typed);
        found.ok_or("it is none of the words that there are")
    })
}
