//! Arguments of the commands that run recorded runs again, or another way. It knows nothing of what the commands do.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["run", "file", "all"])))]
#[command(group(ArgGroup::new("form").args(["file", "all", "ahead", "step", "capture"])))]
#[command(override_usage = "tiffany replay [OPTIONS] <RUN|--file <FILE>>
       tiffany replay [OPTIONS] --all [RUN]...
       tiffany replay [OPTIONS] <RUN> --ahead
       tiffany replay [OPTIONS] <RUN> --step [--at <SEQ>|--failure|--pdb]
       tiffany replay [OPTIONS] <RUN> --capture <DIR>")]
#[command(after_help = "\
Examples:
  tiffany replay order-17                  is the run still the same with the current code?
  tiffany replay --all                     before a deploy: which unfinished runs would diverge?
  tiffany replay order-17 --ahead          what would the run do next?
  tiffany replay order-17 --step --at 7    tasks, stores and variables at record 7
  tiffany replay order-17 --capture tests  write a test with the log of the run as its fixture

No form runs a step or changes the log.")]
pub(crate) struct Replay {
    /// UUID, unique UUID prefix, or id of the run
    pub(crate) run: Option<String>,
    /// Further runs, with `--all`
    #[arg(value_name = "RUN", requires = "all", hide = true)]
    pub(crate) more: Vec<String>,
    /// Replay the run in this file, which `--capture` wrote; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    pub(crate) file: Option<PathBuf>,
    /// Replay all unfinished runs, or the named ones, and report which could not continue
    #[arg(long)]
    pub(crate) all: bool,
    /// Run an unfinished run past the end of its log, with steps refused, and show what it would do next. Where the code
    /// diverges from the log, propose a fix
    #[arg(long)]
    pub(crate) ahead: bool,
    /// Move through the run record by record, forwards and backwards
    #[arg(long)]
    pub(crate) step: bool,
    #[command(flatten)]
    pub(crate) place: StepPlace,
    /// Write a test and its fixture to this directory. The test fails when the program's behaviour changes
    #[arg(long, value_name = "DIR")]
    pub(crate) capture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) fixture: CaptureOptions,
}

/// Where stepping begins.
#[derive(Debug, ClapArgs)]
pub(crate) struct StepPlace {
    /// With `--step`: show this record and exit
    #[arg(long, value_name = "SEQ", requires = "step")]
    pub(crate) at: Option<u64>,
    /// With `--step`: start where the run failed
    #[arg(long, requires = "step", conflicts_with = "at")]
    pub(crate) failure: bool,
    /// With `--step`: open Python's debugger where the run failed
    #[arg(long, requires = "step", conflicts_with = "at")]
    pub(crate) pdb: bool,
}

/// What a captured test is called, and what is taken out of it.
#[derive(Debug, ClapArgs)]
pub(crate) struct CaptureOptions {
    /// With `--capture`: name of the test and its files. [default: made from the id of the run]
    #[arg(long, requires = "capture")]
    pub(crate) name: Option<String>,
    /// With `--capture`: replace the value of this field: a field name anywhere in a value, or a JSON pointer into a record,
    /// such as /input/card. May be repeated
    #[arg(long, value_name = "FIELD", requires = "capture")]
    pub(crate) redact: Vec<String>,
    /// With `--redact`: keep a value here that is redacted elsewhere: a field name, or a JSON pointer, such as /name for the
    /// names of steps. May be repeated
    #[arg(long, value_name = "FIELD", requires = "redact")]
    pub(crate) leave: Vec<String>,
    /// With `--capture`: replace existing files
    #[arg(long, requires = "capture")]
    pub(crate) force: bool,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("form").required(true).multiple(true).args(["at", "allow"])))]
#[command(override_usage = "tiffany fork [OPTIONS] <RUN> --at <SEQ>
       tiffany fork [OPTIONS] <FORK> --allow [NAME]...")]
#[command(after_help = "\
Examples:
  tiffany fork order-17 --at 4 --set-reply 1500         the same run with another answer in record 4
  tiffany fork order-17 --at 4 --set-reply price.json   the same, with the answer in a file
  tiffany fork order-17~4 --allow charge                let the fork run the step `charge`")]
pub(crate) struct Fork {
    /// UUID, unique UUID prefix, or id of the run to fork; without `--at`, of the fork
    pub(crate) run: String,
    /// Last record that the fork shares with the run
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Replace the answer in that record with this JSON, or with the JSON in this file; `-` is standard input
    #[arg(long, value_name = "JSON", requires = "at", conflicts_with = "fail")]
    pub(crate) set_reply: Option<PathBuf>,
    /// Replace the answer in that record with an error with this message
    #[arg(long, value_name = "MESSAGE", requires = "at", allow_hyphen_values = true)]
    pub(crate) fail: Option<String>,
    /// Accept an answer whose shape differs from the recorded one
    #[arg(long, requires = "at")]
    pub(crate) as_is: bool,
    /// Steps that the fork may run, by name; `*` for all. Without `--at`, steps that an existing fork may run from now on;
    /// without a name, the fork only looks again for its parent's answers
    #[arg(long, value_name = "NAME", num_args = 0..)]
    pub(crate) allow: Option<Vec<String>>,
    /// Id of the fork. [default: id of the run and the record, such as order-17~4]
    #[arg(long, requires = "at")]
    pub(crate) id: Option<String>,
    /// Open the directory and drive the fork, and no other run, to its end
    #[arg(long = "run", requires = "at")]
    pub(crate) drives: bool,
    /// With `--run`: stop after this many seconds. A fork waits for messages that the run received after the record
    #[arg(long = "for", value_name = "SECONDS", requires = "drives")]
    pub(crate) seconds: Option<f64>,
}
