//! What can be typed about what goes on: starting runs, watching them, answering what they ask.

use clap::{Args as ClapArgs, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(crate) struct Submit {
    /// The function.
    #[arg(value_name = "NAME")]
    pub(crate) function: String,
    /// The id of the run. A run of the same id and input is found again and not started twice. Without one, a new one is drawn.
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// What the function is given: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    pub(crate) input: String,
    /// Wait for the end of the run, and print its value.
    #[arg(long)]
    pub(crate) wait: bool,
    /// The same, and show what the run does meanwhile, as `watch` does.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) approvals: ToDoAboutApprovals,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ps {
    /// Show the tasks of this run: a UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: Option<String>,
    /// Only runs of this function.
    #[arg(long)]
    pub(crate) function: Option<String>,
    /// Show so many runs, those that began last.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Watch {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) approvals: ToDoAboutApprovals,
}

/// What is done about questions of a run that is waited for.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct ToDoAboutApprovals {
    /// What to do about its questions: `ask` who sits at the terminal, `deny` them, or `wait` until somebody else decides. Without it: `ask`, if standard
    /// input is a terminal; otherwise `submit` and `run` deny them, and `watch` waits.
    #[arg(long, value_name = "WHAT")]
    pub(crate) approvals: Option<AboutApprovals>,
    /// The same as `--approvals deny`.
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
pub(crate) struct Approvals {
    /// Only those of this run: a UUID, the beginning of one, or the id the run was started with.
    pub(crate) run: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Approve {
    #[command(flatten)]
    pub(crate) of: Approved,
    /// What is chosen, if there are other choices than yes and no.
    #[arg(long, value_name = "CHOICE")]
    pub(crate) choice: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Reject {
    #[command(flatten)]
    pub(crate) of: Approved,
}

/// Which question, and who says what about it.
#[derive(Debug, ClapArgs)]
pub(crate) struct Approved {
    /// The id of a question, as `approvals` lists it, or a run that has only one. Without it: the only one there is.
    #[arg(value_name = "ID|RUN")]
    pub(crate) question: Option<String>,
    /// Why. It is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(crate) because: Option<String>,
    /// Who decides, if that is not the user of this machine. The number of the user is recorded beside it.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) by: Option<String>,
}
