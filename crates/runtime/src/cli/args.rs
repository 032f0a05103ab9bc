//! What can be typed. It knows nothing of what the commands do.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::units;
pub(super) use crate::control::State;
use crate::history::Outcome;
use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Looks at a log directory of durable runs, and changes what waits there.
#[derive(Debug, Parser)]
#[command(version, disable_help_subcommand = true, infer_long_args = false)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
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
    /// Cancel a run.
    Cancel(Cancel),
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
    /// Kill a process in the middle of its work, again and again, and see that nothing is lost and nothing done twice.
    Demo(Demo),
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

#[derive(Debug, ClapArgs)]
pub(super) struct Diff {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) a: String,
    /// The other run.
    pub(super) b: String,
    /// The directory of the other run, if it is in another one.
    #[arg(long, value_name = "DIR")]
    pub(super) other: Option<PathBuf>,
    /// Show so many differences; the others are counted.
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(super) limit: usize,
    /// Show all differences.
    #[arg(long, conflicts_with = "limit")]
    pub(super) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Export {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// What is written.
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: ExportFormat,
    /// The file it is written to, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// The timeline, for Perfetto.
    ChromeTrace,
    /// The graph of tasks.
    Mermaid,
    /// All records, with what is in blobs in its place.
    Json,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Rm {
    /// UUIDs, beginnings of them, or the ids the runs were started with.
    #[arg(required = true, value_name = "RUN")]
    pub(super) runs: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Compact {
    /// UUIDs, beginnings of them, or the ids the runs were started with.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "RUN")]
    pub(super) runs: Vec<String>,
    /// All runs that are over.
    #[arg(long)]
    pub(super) all: bool,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("rule").required(true).multiple(true).args(["older_than", "keep", "max_size", "compact_after"])))]
pub(super) struct Prune {
    /// Remove runs that ended longer ago than this: 90s, 15m, 12h, 30d or 2w.
    #[arg(long, value_name = "AGE", value_parser = units::time)]
    pub(super) older_than: Option<Duration>,
    /// Keep so many runs, those that ended last, and remove the others.
    #[arg(long, value_name = "NUMBER")]
    pub(super) keep: Option<usize>,
    /// Remove the runs that ended first until the others have so much in their files and blobs: 500kB, 20MB or 1GB.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub(super) max_size: Option<u64>,
    /// Compact runs that ended longer ago than this and are not removed.
    #[arg(long, value_name = "AGE", value_parser = units::time)]
    pub(super) compact_after: Option<Duration>,
    /// Only runs that ended like this. May be repeated.
    #[arg(long, value_name = "STATE")]
    pub(super) state: Vec<EndState>,
    /// Only show what would be done.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// How a run can have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EndState {
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
pub(super) struct Backup {
    /// The log directory; by default that of `--dir`.
    #[arg(value_name = "DIR")]
    pub(super) from: Option<PathBuf>,
    /// Where the backup is kept: a directory of its own for each log.
    #[arg(long, value_name = "DEST")]
    pub(super) to: PathBuf,
    /// So many megabytes a second at most; 0 for no limit. Beside a process that has the directory it is 16, otherwise
    /// there is none.
    #[arg(long, value_name = "MB", value_parser = megabytes)]
    pub(super) rate: Option<f64>,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("what").required(true).args(["to", "check"])))]
pub(super) struct Restore {
    /// The backup.
    #[arg(value_name = "DEST")]
    pub(super) backup: PathBuf,
    /// The directory that becomes a log: a new or an empty one.
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Only read the backup through.
    #[arg(long)]
    pub(super) check: bool,
    /// Remove the log that is in the directory, if no process has it.
    #[arg(long, requires = "to")]
    pub(super) force: bool,
}

fn megabytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("it takes a number, such as 10 or 0.5".into()),
    }
}

#[derive(Debug, ClapArgs)]
pub(super) struct Demo {
    /// Where its log and its ledger are kept; a new directory, by default one for temporary files.
    #[arg(value_name = "DIR")]
    pub(super) place: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Ls {
    /// Only runs in this state.
    #[arg(long, value_name = "STATE")]
    pub(super) state: Option<State>,
    /// Only runs of this function.
    #[arg(long, value_name = "NAME")]
    pub(super) function: Option<String>,
    /// Removed runs too, of which only the UUID is known.
    #[arg(long)]
    pub(super) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Show {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// Only from the records, even if this program could replay the run.
    #[arg(long)]
    pub(super) records: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Log {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// Only records of this task. May be repeated.
    #[arg(long, value_name = "NUMBER")]
    pub(super) task: Vec<u64>,
    /// Only records of this type, such as EffectResult. May be repeated.
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Vec<String>,
    /// From this record on.
    #[arg(long, value_name = "SEQ")]
    pub(super) from: Option<u64>,
    /// Up to this record.
    #[arg(long, value_name = "SEQ")]
    pub(super) to: Option<u64>,
    /// Only what failed.
    #[arg(long)]
    pub(super) failed: bool,
    /// Go on with records as they are written, until the run is over.
    #[arg(short, long)]
    pub(super) follow: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Events {
    /// Only of this run: a UUID, the beginning of one, or the id it was started with.
    pub(super) run: Option<String>,
    /// Go on with what happens, until the run is over; without a run, until this is interrupted. If the process is gone, wait for the next one.
    #[arg(short, long)]
    pub(super) follow: bool,
    /// From this event on.
    #[arg(long, value_name = "SEQ")]
    pub(super) from: Option<u64>,
    /// Every turn of every task too: who runs, waits and is woken.
    #[arg(long)]
    pub(super) all: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Verify {
    /// Only these runs, instead of the whole directory.
    pub(super) runs: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Inspect {
    /// Only these runs.
    pub(super) runs: Vec<String>,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("which").required(true).args(["run", "file"])))]
pub(super) struct Replay {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: Option<String>,
    /// The run in this file, which `capture` wrote, instead of one in the directory; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Capture {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// Where the test and its fixture are written.
    #[arg(long, value_name = "DIR", default_value = "tests")]
    pub(super) out: PathBuf,
    /// What the test and its files are called, instead of a name made of the id.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Take out what this field has: a name anywhere in a value, or a JSON pointer into a record, such as /input/card. May be repeated.
    #[arg(long, value_name = "FIELD")]
    pub(super) redact: Vec<String>,
    /// Let a value stay here that is taken out elsewhere: a field's name, or a JSON pointer, such as /name for what steps are called. May be repeated.
    #[arg(long, value_name = "FIELD", requires = "redact")]
    pub(super) leave: Vec<String>,
    /// Replace files that are there.
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Step {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// Show this record and ask nothing.
    #[arg(long, value_name = "SEQ")]
    pub(super) at: Option<u64>,
    /// Begin where the run failed.
    #[arg(long, conflicts_with = "at")]
    pub(super) failure: bool,
    /// Open the debugger of the language where the run failed.
    #[arg(long, conflicts_with = "at")]
    pub(super) pdb: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Check {
    /// Only these runs, also if they are over.
    pub(super) runs: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Try {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Fork {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// The last record that the fork has in common with the run.
    #[arg(long, value_name = "SEQ")]
    pub(super) at: u64,
    /// The answer in that record is the JSON in this file instead; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "fail")]
    pub(super) set_reply: Option<PathBuf>,
    /// The answer in that record is an error with this message instead.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(super) fail: Option<String>,
    /// The answer may have another shape than the one that is there.
    #[arg(long)]
    pub(super) as_is: bool,
    /// Effects of this name may be done; `*` for all. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(super) allow: Vec<String>,
    /// The id of the fork. Without one it is that of the run and the record: order-17~4.
    #[arg(long)]
    pub(super) id: Option<String>,
    /// Open the directory and drive the fork, and nothing else, to its end.
    #[arg(long = "run")]
    pub(super) drives: bool,
    /// With `--run`: stop after so many seconds. A fork waits for messages that came to the run after the record.
    #[arg(long = "for", value_name = "SECONDS", requires = "drives")]
    pub(super) seconds: Option<f64>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Allow {
    /// A UUID, the beginning of one, or the id of the fork.
    pub(super) run: String,
    /// Names of effects, `*` for all. Without one, only the answers of its parent are looked for again.
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Resume {
    /// Drive until these are over. The others go on beside them.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(super) runs: Vec<String>,
    /// Drive until all runs are over.
    #[arg(long)]
    pub(super) all: bool,
    /// Stop after so many seconds; what is unfinished then goes on another time.
    #[arg(long = "for", value_name = "SECONDS")]
    pub(super) seconds: Option<f64>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Metrics {
    /// Only metrics whose names begin so.
    pub(super) name: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Doubt {
    #[command(subcommand)]
    pub(super) command: Option<DoubtCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum DoubtCommand {
    /// Say what came of a step.
    Decide(Decide),
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("decision").required(true).args(["done", "failed", "again"])))]
pub(super) struct Decide {
    /// The step's key, as `doubt` lists it.
    pub(super) key: String,
    /// It happened, and this is its result.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(super) done: Option<String>,
    /// It did not happen: its task is given an error with this message.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(super) failed: Option<String>,
    /// It did not happen: it is done again.
    #[arg(long)]
    pub(super) again: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Submit {
    /// The function.
    #[arg(value_name = "NAME")]
    pub(super) function: String,
    /// The id of the run. A run of the same id and input is found again and not started twice. Without one, a new one is drawn.
    #[arg(long)]
    pub(super) id: Option<String>,
    /// What the function is given: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    pub(super) input: String,
    /// Wait for the end of the run, and print its value.
    #[arg(long)]
    pub(super) wait: bool,
    /// The same, and show what the run does meanwhile, as `watch` does.
    #[arg(long, conflicts_with = "wait")]
    pub(super) follow: bool,
    #[command(flatten)]
    pub(super) approvals: ToDoAboutApprovals,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Ps {
    /// Show the tasks of this run: a UUID, the beginning of one, or the id the run was started with.
    pub(super) run: Option<String>,
    /// Only runs of this function.
    #[arg(long)]
    pub(super) function: Option<String>,
    /// Show so many runs, those that began last.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    pub(super) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Watch {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    #[command(flatten)]
    pub(super) approvals: ToDoAboutApprovals,
}

/// What is done about questions of a run that is waited for.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(super) struct ToDoAboutApprovals {
    /// What to do about its questions: `ask` who sits at the terminal, `deny` them, or `wait` until somebody else decides. Without it: `ask`, if standard
    /// input is a terminal, and `deny` otherwise.
    #[arg(long, value_name = "WHAT")]
    pub(super) approvals: Option<AboutApprovals>,
    /// The same as `--approvals deny`.
    #[arg(long, conflicts_with = "approvals")]
    pub(super) deny_approvals: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AboutApprovals {
    Ask,
    Deny,
    Wait,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Approvals {
    /// Only those of this run: a UUID, the beginning of one, or the id the run was started with.
    pub(super) run: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Approve {
    #[command(flatten)]
    pub(super) of: Approved,
    /// What is chosen, if there are other choices than yes and no.
    #[arg(long, value_name = "CHOICE")]
    pub(super) choice: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Reject {
    #[command(flatten)]
    pub(super) of: Approved,
}

/// Which question, and who says what about it.
#[derive(Debug, ClapArgs)]
pub(super) struct Approved {
    /// The id of a question, as `approvals` lists it, or a run that has only one. Without it: the only one there is.
    #[arg(value_name = "ID|RUN")]
    pub(super) question: Option<String>,
    /// Why. It is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(super) because: Option<String>,
    /// Who decides, if that is not the user of this machine. The number of the user is recorded beside it.
    #[arg(long = "as", value_name = "NAME")]
    pub(super) by: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Send {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// The name under which the run receives it.
    pub(super) name: String,
    /// The message.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(super) message: String,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("settlement").required(true).args(["value", "fail"])))]
pub(super) struct Settle {
    /// The promise.
    #[arg(value_name = "UUID")]
    pub(super) promise: String,
    /// Its value.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(super) value: Option<String>,
    /// Fail it with this message instead.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(super) fail: Option<String>,
    /// The run whose promise it is: for a promise that a fork has in common with its parent, the fork.
    #[arg(long, value_name = "RUN")]
    pub(super) run: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Cancel {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Query {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(super) run: String,
    /// The name of the question.
    pub(super) name: String,
    /// What the question is given.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(super) input: Option<String>,
}

/// Run a program out of a file, and print the value it gives.
#[derive(Debug, ClapArgs)]
pub(super) struct RunFile {
    /// Write the run to the log in this directory. What is unfinished there goes on too.
    #[arg(long, value_name = "DIR", requires = "id")]
    pub(super) wal: Option<PathBuf>,
    /// The id of the run: the same id is the same run.
    #[arg(long, requires = "wal")]
    pub(super) id: Option<String>,
    /// Something that its tasks can ask for. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) env: Vec<(String, String)>,
    /// The file, the function in it (by default `main`), and what that is given: texts, or JSON with `--json`.
    #[arg(value_names = ["FILE[:NAME]", "ARGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    pub(super) program: Vec<OsString>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("it has the form KEY=VALUE".into()),
    }
}
