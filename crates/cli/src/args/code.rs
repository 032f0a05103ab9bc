//! What can be typed to run code against a log: again, further, or another way.

use std::ffi::OsString;
use std::path::PathBuf;

use super::live::ToDoAboutApprovals;
use clap::{ArgGroup, Args as ClapArgs};

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("which").required(true).args(["run", "file"])))]
pub(crate) struct Replay {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: Option<String>,
    /// The run in this file, which `capture` wrote, instead of one in the directory; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Capture {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// Where the test and its fixture are written.
    #[arg(long, value_name = "DIR", default_value = "tests")]
    pub(crate) out: PathBuf,
    /// What the test and its files are called, instead of a name made of the id.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Take out what this field has: a name anywhere in a value, or a JSON pointer into a record, such as /input/card. May be repeated.
    #[arg(long, value_name = "FIELD")]
    pub(crate) redact: Vec<String>,
    /// Let a value stay here that is taken out elsewhere: a field's name, or a JSON pointer, such as /name for what steps are called. May be repeated.
    #[arg(long, value_name = "FIELD", requires = "redact")]
    pub(crate) leave: Vec<String>,
    /// Replace files that are there.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Step {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// Show this record and ask nothing.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Begin where the run failed.
    #[arg(long, conflicts_with = "at")]
    pub(crate) failure: bool,
    /// Open the debugger of the language where the run failed.
    #[arg(long, conflicts_with = "at")]
    pub(crate) pdb: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// Only these runs, also if they are over.
    pub(crate) runs: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Try {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Fork {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// The last record that the fork has in common with the run.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: u64,
    /// The answer in that record is the JSON in this file instead; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "fail")]
    pub(crate) set_reply: Option<PathBuf>,
    /// The answer in that record is an error with this message instead.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(crate) fail: Option<String>,
    /// The answer may have another shape than the one that is there.
    #[arg(long)]
    pub(crate) as_is: bool,
    /// Effects of this name may be done; `*` for all. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow: Vec<String>,
    /// The id of the fork. Without one it is that of the run and the record: order-17~4.
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Open the directory and drive the fork, and nothing else, to its end.
    #[arg(long = "run")]
    pub(crate) drives: bool,
    /// With `--run`: stop after so many seconds. A fork waits for messages that came to the run after the record.
    #[arg(long = "for", value_name = "SECONDS", requires = "drives")]
    pub(crate) seconds: Option<f64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Allow {
    /// A UUID, the beginning of one, or the id of the fork.
    pub(crate) run: String,
    /// Names of effects, `*` for all. Without one, only the answers of its parent are looked for again.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Resume {
    /// Drive until these are over. The others go on beside them.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) runs: Vec<String>,
    /// Drive until all runs are over.
    #[arg(long)]
    pub(crate) all: bool,
    /// Stop after so many seconds; what is unfinished then goes on another time.
    #[arg(long = "for", value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
}

/// Run a program out of a file, and print the value it gives.
#[derive(Debug, ClapArgs)]
pub(crate) struct RunFile {
    /// Write the run to the log in this directory. What is unfinished there goes on too.
    #[arg(long, value_name = "DIR", requires = "id")]
    pub(crate) wal: Option<PathBuf>,
    /// The id of the run: the same id is the same run.
    #[arg(long, requires = "wal")]
    pub(crate) id: Option<String>,
    /// Something that its tasks can ask for. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) env: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) approvals: ToDoAboutApprovals,
    /// The file, the function in it (by default `main`), and what that is given: texts, or JSON with `--json`.
    #[arg(value_names = ["FILE[:NAME]", "ARGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("it has the form KEY=VALUE".into()),
    }
}
