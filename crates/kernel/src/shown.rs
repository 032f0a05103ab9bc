//! Progress, log lines, output and stages that a task shows to watchers. The kernel only passes
//! them on; they change nothing and are not recorded.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Progress, a log line, output or a stage that a task shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The kind, with its data.
    pub what: Showing,
    /// The text that is shown.
    pub message: Cow<'static, str>,
}

/// The kinds of data that a task can show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Showing {
    /// Progress, with the total if it is known.
    Progress {
        /// The amount that is complete.
        done: u64,
        /// The total amount.
        total: Option<u64>,
    },
    /// A log line.
    Log(LogLevel),
    /// A piece of the output of the task, or of a program that it runs.
    Output(Cow<'static, str>),
    /// The task enters this stage.
    Stage(Stage),
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for debugging step by step.
    Trace,
    /// Details for debugging.
    Debug,
    /// Normal activity.
    Info,
    /// A condition that needs attention.
    Warn,
    /// A failure.
    Error,
}

macro_rules! stages {
    ($($(#[$doc:meta])+ $name:ident),+ $(,)?) => {
        /// The stage that a run or a task is in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Stage {
            $($(#[$doc])+ $name),+
        }

        impl Stage {
            /// All stages.
            pub const ALL: &[Stage] = &[$(Stage::$name),+];

            /// Returns the stage's name in events.
            pub fn name(self) -> &'static str {
                match self { $(Stage::$name => stringify!($name)),+ }
            }

            /// Returns the stage with this name.
            pub fn parse(name: &str) -> Option<Stage> {
                Stage::ALL.iter().copied().find(|stage| stage.name() == name)
            }
        }
    };
}

stages! {
    /// A run received its input and begins.
    ReceivedInstruction,
    /// A language model was asked.
    WaitingForLLM,
    /// An attempt at a step begins.
    ToolExecutionStart,
    /// An attempt at a step has ended.
    ToolExecutionComplete,
    /// A change is shown before it is made.
    PreviewingPatch,
    /// A person is asked.
    AwaitingUserApproval,
    /// A change is being made.
    CommittingPatch,
    /// The process has no work.
    Idle,
    /// A task, or the run, has its result.
    Completed,
    /// A task was spawned.
    Spawned,
    /// A task has its turn.
    Running,
    /// A task waits.
    Blocked,
    /// A task that waited is ready again.
    Woken,
    /// A task was cancelled.
    Cancelling,
    /// A task reports progress.
    Progress,
    /// A task writes a log line.
    Log,
    /// A task writes output.
    Output,
    /// A task, or the run, ended with an error.
    Failed,
    /// A task, or the run, was cancelled and has ended.
    Cancelled,
}

impl Stage {
    /// Whether the event only reports turns. Such events are as many as turns, so they are sent
    /// only to watchers that request them.
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
    /// Returns the stage under which this is reported.
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
    /// Returns the level's name.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Trace => "trace",
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        }
    }

    /// Returns the level with this name.
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
