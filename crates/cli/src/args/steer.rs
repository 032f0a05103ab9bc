//! Arguments of the commands that steer runs. It knows nothing of what the commands do.

use clap::{ArgGroup, Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  tiffany send order-17 address '{\"city\": \"Bern\"}'")]
pub(crate) struct Send {
    /// UUID, unique UUID prefix, or id of the run
    pub(crate) run: String,
    /// Name under which the run receives the message
    pub(crate) name: String,
    /// The message
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) message: String,
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("settlement").required(true).args(["value", "fail"])))]
#[command(override_usage = "tiffany settle [OPTIONS] <UUID> <JSON|--fail <MESSAGE>>")]
#[command(after_help = "\
Examples:
  tiffany settle b5e18e3f-a3b5-4ec5-8c3c-ae267504ac24 '\"paid\"'
  tiffany settle b5e18e3f-a3b5-4ec5-8c3c-ae267504ac24 --fail 'card refused'")]
pub(crate) struct Settle {
    /// UUID of the promise
    #[arg(value_name = "UUID")]
    pub(crate) promise: String,
    /// Its value
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
    /// Fail the promise with this message
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(crate) fail: Option<String>,
    /// Run that waits for the promise; needed for a promise that a fork shares with its parent
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  tiffany query order-17 progress")]
pub(crate) struct Query {
    /// UUID, unique UUID prefix, or id of the run
    pub(crate) run: String,
    /// Name of the query
    pub(crate) name: String,
    /// Argument of the query. [default: null]
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) input: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Cancel {
    /// UUID, unique UUID prefix, or id of the run
    pub(crate) run: String,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany hold [OPTIONS] <RUN>
       tiffany hold [OPTIONS] <RUN> --release")]
#[command(after_help = "\
Examples:
  tiffany hold order-17 --why 'prices are wrong'
  tiffany hold order-17 --release")]
pub(crate) struct Hold {
    /// UUID, unique UUID prefix, or id of the run
    pub(crate) run: String,
    /// Let the run continue, whether a person or a limit holds it
    #[arg(long)]
    pub(crate) release: bool,
    /// The reason, which is recorded and shown by `show`
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany approve [OPTIONS]
       tiffany approve [OPTIONS] <ID|RUN> [--choice <CHOICE>]
       tiffany approve [OPTIONS] <ID|RUN> --reject")]
#[command(after_help = "\
Examples:
  tiffany approve                                     list the open questions
  tiffany approve order-17 --because 'within budget'  say yes
  tiffany approve order-17 --choice express           choose one of several answers
  tiffany approve order-17 --reject                   say no")]
pub(crate) struct Approve {
    /// Id of a question, or a run with one open question. With only `--choice`, `--reject`, `--because` or `--as`: the
    /// only open question
    #[arg(value_name = "ID|RUN")]
    pub(crate) question: Option<String>,
    /// List open questions and decide nothing; with RUN, only those of that run
    #[arg(long, conflicts_with_all = ["choice", "reject", "because", "by"])]
    pub(crate) list: bool,
    /// Choose this answer, for a question with other choices than yes and no
    #[arg(long, value_name = "CHOICE", conflicts_with = "reject")]
    pub(crate) choice: Option<String>,
    /// Say no: choose the last of the answers
    #[arg(long)]
    pub(crate) reject: bool,
    /// The reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    pub(crate) because: Option<String>,
    /// Name of the person who decides. [default: the user of this machine, whose number is always recorded]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) by: Option<String>,
}

impl Approve {
    /// Whether questions are listed instead of decided.
    pub(crate) fn lists(&self) -> bool {
        let Approve { question, list, choice, reject, because, by } = self;
        let decides = question.is_some() || choice.is_some() || *reject;
        *list || !(decides || because.is_some() || by.is_some())
    }
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany doubt [OPTIONS]
       tiffany doubt decide [OPTIONS] <KEY> <--done <JSON>|--failed <MESSAGE>|--again>")]
#[command(after_help = "\
Examples:
  tiffany doubt                                                     list the steps in doubt
  tiffany doubt decide 0da3174c-441a-46c8-8c2e-cf4b09fc7fa4/2 --again  do a step again")]
pub(crate) struct Doubt {
    #[command(subcommand)]
    pub(crate) command: Option<DoubtCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DoubtCommand {
    /// Decide what happened to a step
    Decide(Decide),
}

#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("decision").required(true).args(["done", "failed", "again"])))]
pub(crate) struct Decide {
    /// Key of the step, as `doubt` lists it
    pub(crate) key: String,
    /// The step happened, with this result
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) done: Option<String>,
    /// The step did not happen; its task gets an error with this message
    #[arg(long, value_name = "MESSAGE", allow_hyphen_values = true)]
    pub(crate) failed: Option<String>,
    /// The step did not happen; do it again
    #[arg(long)]
    pub(crate) again: bool,
}
