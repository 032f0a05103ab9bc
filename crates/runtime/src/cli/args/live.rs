//! What can be typed about what goes on: starting runs, watching them, answering what they ask.

use clap::{Args as ClapArgs, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Submit {
    /// The function.
    #[arg(value_name = "NAME")]
    pub(in crate::cli) function: String,
    /// The id of the run. A run of the same id and input is found again and not started twice. Without one, a new one is drawn.
    #[arg(long)]
    pub(in crate::cli) id: Option<String>,
    /// What the function is given: JSON, `@FILE`, or `-` for standard input.
    #[arg(long, value_name = "JSON", default_value = "null", allow_hyphen_values = true)]
    pub(in crate::cli) input: String,
    /// Wait for the end of the run, and print its value.
    #[arg(long)]
    pub(in crate::cli) wait: bool,
    /// The same, and show what the run does meanwhile, as `watch` does.
    #[arg(long, conflicts_with = "wait")]
    pub(in crate::cli) follow: bool,
    #[command(flatten)]
    pub(in crate::cli) approvals: ToDoAboutApprovals,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Ps {
    /// Show the tasks of this run: a UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: Option<String>,
    /// Only runs of this function.
    #[arg(long)]
    pub(in crate::cli) function: Option<String>,
    /// Show so many runs, those that began last.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    pub(in crate::cli) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Watch {
    /// A UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: String,
    #[command(flatten)]
    pub(in crate::cli) approvals: ToDoAboutApprovals,
}

/// What is done about questions of a run that is waited for.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(in crate::cli) struct ToDoAboutApprovals {
    /// What to do about its questions: `ask` who sits at the terminal, `deny` them, or `wait` until somebody else decides. Without it: `ask`, if standard
    /// input is a terminal; otherwise `submit` and `run` deny them, and `watch` waits.
    #[arg(long, value_name = "WHAT")]
    pub(in crate::cli) approvals: Option<AboutApprovals>,
    /// The same as `--approvals deny`.
    #[arg(long, conflicts_with = "approvals")]
    pub(in crate::cli) deny_approvals: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum AboutApprovals {
    Ask,
    Deny,
    Wait,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Approvals {
    /// Only those of this run: a UUID, the beginning of one, or the id the run was started with.
    pub(in crate::cli) run: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Approve {
    #[command(flatten)]
    pub(in crate::cli) of: Approved,
    /// What is chosen, if there are other choices than yes and no.
    #[arg(long, value_name = "CHOICE")]
    pub(in crate::cli) choice: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Reject {
    #[command(flatten)]
    pub(in crate::cli) of: Approved,
}

/// Which question, and who says what about it.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Approved {
    /// The id of a question, as `approvals` lists it, or a run that has only one. Without it: the only one there is.
    #[arg(value_name = "ID|RUN")]
    pub(in crate::cli) question: Option<String>,
    /// Why. It is recorded.
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) because: Option<String>,
    /// Who decides, if that is not the user of this machine. The number of the user is recorded beside it.
    #[arg(long = "as", value_name = "NAME")]
    pub(in crate::cli) by: Option<String>,
}
