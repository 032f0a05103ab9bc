//! What can be typed to change what waits in a run.

use clap::{ArgGroup, Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Doubt {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<DoubtCommand>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DoubtCommand {
    /// Say what came of a step.
    Decide(Decide),
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("decision").required(true).args(["done", "failed", "again"])))]
pub(in crate::cli) struct Decide {
    /// The step's key, as `doubt` lists it.
    pub(in crate::cli) key: String,
    /// It happened, and this is its result.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(in crate::cli) done: Option<String>,
    /// It did not happen: its task is given an error with this message.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(in crate::cli) failed: Option<String>,
    /// It did not happen: it is done again.
    #[arg(long)]
    pub(in crate::cli) again: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Send {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// The name under which the run receives it.
    pub(in crate::cli) name: String,
    /// The message.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(in crate::cli) message: String,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("settlement").required(true).args(["value", "fail"])))]
#[command(override_usage = "tiffany settle [OPTIONS] <UUID> <JSON|--fail <MESSAGE>>")]
pub(in crate::cli) struct Settle {
    /// The promise.
    #[arg(value_name = "UUID")]
    pub(in crate::cli) promise: String,
    /// Its value.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(in crate::cli) value: Option<String>,
    /// Fail it with this message instead.
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(in crate::cli) fail: Option<String>,
    /// The run whose promise it is: for a promise that a fork has in common with its parent, the fork.
    #[arg(long, value_name = "RUN")]
    pub(in crate::cli) run: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Cancel {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Hold {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// The reason, which `show` tells.
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) why: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Release {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// The reason, which is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) why: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Query {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    /// The name of the question.
    pub(in crate::cli) name: String,
    /// What the question is given.
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(in crate::cli) input: Option<String>,
}
