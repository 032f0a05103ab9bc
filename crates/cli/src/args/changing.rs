//! What can be typed to change what waits in a run.

use clap::{ArgGroup, Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
pub(crate) struct Doubt {
    #[command(subcommand)]
    pub(crate) command: Option<DoubtCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoubtCommand {
    /// Say what came of a step.
    Decide(Decide),
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("decision").required(true).args(["done", "failed", "again"])))]
pub(crate) struct Decide {
    /// The step's key, as `doubt` lists it.
    pub(crate) key: String,
    /// It happened, and this is its result.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) done: Option<String>,
    /// It did not happen: its task is given an error with this message.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(crate) failed: Option<String>,
    /// It did not happen: it is done again.
    #[arg(long)]
    pub(crate) again: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Send {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// The name under which the run receives it.
    pub(crate) name: String,
    /// The message.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) message: String,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("settlement").required(true).args(["value", "fail"])))]
#[command(override_usage = "tiffany settle [OPTIONS] <UUID> <JSON|--fail <MESSAGE>>")]
pub(crate) struct Settle {
    /// The promise.
    #[arg(value_name = "UUID")]
    pub(crate) promise: String,
    /// Its value.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
    /// Fail it with this message instead.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(crate) fail: Option<String>,
    /// The run whose promise it is: for a promise that a fork has in common with its parent, the fork.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Cancel {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Hold {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// The reason, which `show` tells.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Release {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// The reason, which is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Query {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    /// The name of the question.
    pub(crate) name: String,
    /// What the question is given.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,
}
