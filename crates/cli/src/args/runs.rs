//! Arguments of the commands that start runs and list them. It knows nothing of what the commands do.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};
use tiffany::control::{AttributeFilter, SortBy, State};
use tiffany::durable::StartDeadline;
use tiffany::units;
use tiffany_kernel::Time;
use tiffany_records::EffectQuery;

/// Run a Python program from a file and print its result
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  tiffany run hello.py                            call `main` in hello.py
  tiffany run orders.py:nightly 2026-11-18        call `nightly` with one argument
  tiffany run --wal .tiffany --id n-18 orders.py  as a durable run, resumed if it was interrupted")]
pub(crate) struct RunFile {
    /// Make the run durable, with its log in this directory; unfinished runs there are resumed
    #[arg(long, value_name = "DIR", requires = "id")]
    pub(crate) wal: Option<PathBuf>,
    /// Id of the durable run; the same id is the same run
    #[arg(long, requires = "wal")]
    pub(crate) id: Option<String>,
    /// Set a value in the environment of the program's tasks; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) env: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) approvals: ToDoAboutApprovals,
    /// File, function (`main` by default) and its arguments: strings, or JSON with `--json`
    #[arg(value_names = ["FILE[:NAME]", "ARGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

fn attribute_filter(text: &str) -> Result<AttributeFilter, String> {
    AttributeFilter::parse(text).map_err(|error| error.message().to_owned())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  tiffany submit order --id order-17 --input '\"tea\"'
  tiffany submit order --input @order.json --wait
  tiffany submit order --tag gold --attribute customer=ada --attribute amount=17 --deadline 2h")]
pub(crate) struct Submit {
    /// Name of the function
    #[arg(value_name = "NAME")]
    pub(crate) function: String,
    /// Id of the run. A run with the same id and input is not started twice. [default: a new UUID]
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Input of the function: JSON, `@FILE`, or `-` for standard input
    #[arg(long, value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    pub(crate) input: String,
    /// Tag of the run; may be repeated
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Attribute of the run; may be repeated. Numbers, true, false and moments have their types; quotation marks make a text
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub(crate) attribute: Vec<(String, String)>,
    /// When the run fails if it has not ended: a duration from its start (90s, 15m, 2h) or a moment
    #[arg(long, value_name = "WHEN", value_parser = units::deadline)]
    pub(crate) deadline: Option<StartDeadline>,
    /// Wait until the run ends and print its value
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait until the run ends, show its tasks as `watch` does, and print its value
    #[arg(long, conflicts_with = "wait")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) approvals: ToDoAboutApprovals,
}

/// What is done about questions of a run that is waited for.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct ToDoAboutApprovals {
    /// What to do when the run asks a person: `ask` at this terminal, `deny`, or `wait` for a decision made elsewhere.
    /// [default: `ask` if standard input is a terminal; otherwise `submit` and `run` deny, and `watch` waits]
    #[arg(long, value_name = "WHAT")]
    pub(crate) approvals: Option<AboutApprovals>,
    /// Short for `--approvals deny`
    #[arg(long, conflicts_with = "approvals")]
    pub(crate) deny_approvals: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AboutApprovals {
    Ask,
    Deny,
    Wait,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany resume [OPTIONS] <RUN...|--all>
       tiffany resume [OPTIONS] --dry-run [RUN]...")]
#[command(after_help = "\
Examples:
  tiffany resume order-17           drive one run to its end
  tiffany resume --all --for 60     drive all unfinished runs for a minute
  tiffany resume --dry-run          show what resuming would do; change nothing")]
pub(crate) struct Resume {
    /// Runs to drive to their end; other unfinished runs continue beside them
    #[arg(value_name = "RUN", required_unless_present_any = ["all", "dry_run"], conflicts_with = "all")]
    pub(crate) runs: Vec<String>,
    /// Drive all unfinished runs to their end
    #[arg(long)]
    pub(crate) all: bool,
    /// Show what is in the directory and what resuming would do; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Stop after this many seconds; unfinished runs can be resumed later
    #[arg(long = "for", value_name = "SECONDS", conflicts_with = "dry_run")]
    pub(crate) seconds: Option<f64>,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany ls [OPTIONS]
       tiffany ls --active [OPTIONS] [RUN]
       tiffany ls --stuck [OPTIONS]")]
#[command(after_help = "\
Examples:
  tiffany ls --state failed --since 12h    runs that started in the last 12 hours and failed
  tiffany ls --active order-17             the tasks of a live run, and what each waits for
  tiffany ls --stuck --after 10m           tasks that have waited for ten minutes or longer")]
pub(crate) struct Ls {
    /// With `--active`: show the tasks of this run
    #[arg(requires = "active")]
    pub(crate) run: Option<String>,
    /// Show what the owning process is running now: live runs, or the tasks of one
    #[arg(long, conflicts_with_all = ["stuck", "state", "text", "since", "before", "forks_of", "sort", "reverse", "all"])]
    pub(crate) active: bool,
    /// Show tasks that have waited too long for something other than a clock or a person
    #[arg(long, conflicts_with_all = ["function", "state", "text", "since", "before", "forks_of", "tag", "attribute", "sort", "reverse", "all"])]
    pub(crate) stuck: bool,
    /// With `--stuck`: how long is too long. [default: 5m for a step, a lock or a descriptor, 1h for a message or a
    /// promise]
    #[arg(long, value_name = "TIME", value_parser = units::time, requires = "stuck")]
    pub(crate) after: Option<Duration>,
    /// Only runs in this state; may be repeated
    #[arg(long, value_name = "STATE", value_parser = words_of(State::ALL, |state| state.word()))]
    pub(crate) state: Vec<State>,
    /// Only runs of this function
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// Only runs with this text in their id, function or UUID
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Only runs that started at this moment or later: 2026-11-05T09:41:00Z, or an age such as 15m, 12h, 30d
    #[arg(long, value_name = "MOMENT", value_parser = units::moment)]
    pub(crate) since: Option<Time>,
    /// Only runs that started before this moment
    #[arg(long, value_name = "MOMENT", value_parser = units::moment)]
    pub(crate) before: Option<Time>,
    /// Only forks of this run
    #[arg(long, value_name = "RUN")]
    pub(crate) forks_of: Option<String>,
    /// Only runs with this tag; may be repeated
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Only runs whose attribute fulfils this condition, such as `customer=ada` or `amount>=10`; may be repeated
    #[arg(long, value_name = "CONDITION", value_parser = attribute_filter)]
    pub(crate) attribute: Vec<AttributeFilter>,
    /// Sort order
    #[arg(long, value_name = "BY", default_value = "started", value_parser = words_of(SortBy::ALL, |by| by.word()))]
    pub(crate) sort: SortBy,
    /// Reverse the order
    #[arg(long)]
    pub(crate) reverse: bool,
    /// List at most this many. [default: all; 10000 with `--active`, 100 with `--stuck`]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<usize>,
    /// Include removed runs, of which only the UUID is known
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany show [OPTIONS] <RUN>
       tiffany show [OPTIONS] <RUN> --steps
       tiffany show [OPTIONS] --blob <HASH>")]
#[command(after_help = "\
Examples:
  tiffany show order-17                         the run, its tasks, and what each waits for
  tiffany show order-17 --steps --state failed  its failed steps, with their attempts
  tiffany show --blob 8242d1e19f39e777…         a long value that a record names by its hash (`$blob`)")]
pub(crate) struct Show {
    /// UUID, unique UUID prefix, or id of the run
    #[arg(required_unless_present = "blob")]
    pub(crate) run: Option<String>,
    /// Use only the records, even if this program could replay the run
    #[arg(long, conflicts_with_all = ["steps", "blob"])]
    pub(crate) records: bool,
    /// Also list the forks of the run, which reads the beginning of every run
    #[arg(long, conflicts_with_all = ["steps", "blob"])]
    pub(crate) forks: bool,
    /// List the steps of the run with their attempts, newest first
    #[arg(long, conflicts_with = "blob")]
    pub(crate) steps: bool,
    #[command(flatten)]
    pub(crate) filter: StepFilter,
    /// Print the value with this hash
    #[arg(long, value_name = "HASH", conflicts_with = "run")]
    pub(crate) blob: Option<String>,
}

/// Which steps are listed.
#[derive(Debug, ClapArgs)]
pub(crate) struct StepFilter {
    /// With `--steps`: only steps of this task
    #[arg(long, value_name = "NUMBER", requires = "steps")]
    pub(crate) task: Option<u64>,
    /// With `--steps`: only steps of this name
    #[arg(long, value_name = "STEP", requires = "steps")]
    pub(crate) name: Option<String>,
    /// With `--steps`: only steps in this state; `left` means that the task ended without the result
    #[arg(long, requires = "steps", value_parser = PossibleValuesParser::new(EffectQuery::STATES))]
    pub(crate) state: Option<String>,
    /// With `--steps`: list at most this many
    #[arg(long, value_name = "N", default_value = "100", requires = "steps")]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany status [OPTIONS]
       tiffany status [OPTIONS] --metrics [NAME]")]
#[command(after_help = "\
Examples:
  tiffany status                          process, functions, live and paused runs
  tiffany status --metrics tiffany_runs   metrics whose names begin with `tiffany_runs`")]
pub(crate) struct Status {
    /// Print the metrics of the owning process in the Prometheus text format; with NAME, those that begin with it
    #[arg(long, value_name = "NAME")]
    pub(crate) metrics: Option<Option<String>>,
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
        found.ok_or("not one of the possible values")
    })
}
