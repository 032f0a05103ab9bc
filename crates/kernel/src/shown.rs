//! What a task shows to those who watch: how far it is, a line of a log, a piece of output, the stage it is in. The kernel only hands it on; it
//! changes nothing, and is not written down.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Something a task shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What it is.
    pub what: Showing,
    /// In words.
    pub message: Cow<'static, str>,
}

/// The kinds of things that can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Showing {
    /// How far it is: so much of so much, where that is known.
    Progress {
        /// What is done.
        done: u64,
        /// What there is to do.
        total: Option<u64>,
    },
    /// A line of a log.
    Log(LogLevel),
    /// A piece of what the task, or a program it runs, writes.
    Output(Cow<'static, str>),
    /// The task is in this stage now.
    Stage(Stage),
}

/// How much a line of a log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For who looks for a mistake step by step.
    Trace,
    /// For who looks for a mistake.
    Debug,
    /// What happens.
    Info,
    /// What should be looked at.
    Warn,
    /// What went wrong.
    Error,
}

macro_rules! stages {
    ($($(#[$doc:meta])+ $name:ident),+ $(,)?) => {
        /// What a run or a task of it is at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Stage {
            $($(#[$doc])+ $name),+
        }

        impl Stage {
            /// All of them.
            pub const ALL: &[Stage] = &[$(Stage::$name),+];

            /// Its name, as events have it.
            pub fn name(self) -> &'static str {
                match self { $(Stage::$name => stringify!($name)),+ }
            }

            /// The stage of this name.
            pub fn parse(name: &str) -> Option<Stage> {
                Stage::ALL.iter().copied().find(|stage| stage.name() == name)
            }
        }
    };
}

stages! {
    /// A run was given its input and begins.
    ReceivedInstruction,
    /// A language model was asked.
    WaitingForLLM,
    /// An attempt at a step begins.
    ToolExecutionStart,
    /// An attempt at a step is over.
    ToolExecutionComplete,
    /// A change is shown before it is made.
    PreviewingPatch,
    /// A person is asked.
    AwaitingUserApproval,
    /// A change is being made.
    CommittingPatch,
    /// There is nothing to do.
    Idle,
    /// A task, or the run, has its result.
    Completed,
    /// A task came to be.
    Spawned,
    /// A task has its turn.
    Running,
    /// A task waits.
    Blocked,
    /// A task that waited is ready again.
    Woken,
    /// A task was asked to stop.
    Cancelling,
    /// A task says how far it is.
    Progress,
    /// A line of a log.
    Log,
    /// A piece of output.
    Output,
    /// A task, or the run, ended with an error.
    Failed,
    /// A task, or the run, was stopped.
    Cancelled,
}

impl Stage {
    /// Whether it only says who has the turn: there are as many of these as turns, and they are told to those alone who ask for them.
    pub fn is_churn(self) -> bool {
        matches!(self, Stage::Running | Stage::Blocked | Stage::Woken)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Shown {
    /// The stage it is told as.
    pub fn stage(&self) -> Stage {
        match &self.what {
            Showing::Progress { .. } => Stage::Progress,
            Showing::Log(_) => Stage::Log,
            Showing::Output(_) => Stage::Output,
            Showing::Stage(stage) => *stage,
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Showing::Progress { done, total: Some(total) } => write!(f, "{done} of {total}")?,
            Showing::Progress { done, total: None } => write!(f, "{done}")?,
            Showing::Log(level) => write!(f, "{level}")?,
            Showing::Output(stream) => f.write_str(stream)?,
            Showing::Stage(stage) => write!(f, "{stage}")?,
        }
        match self.message.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.message),
        }
    }
}

impl LogLevel {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Trace => "trace",
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        }
    }

    /// The level that this is the word for.
    pub fn parse(name: &str) -> Option<LogLevel> {
        use LogLevel::*;
        [Trace, Debug, Info, Warn, Error].into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
