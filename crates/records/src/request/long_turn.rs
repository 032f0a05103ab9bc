//! A turn that took so long that the watchdog reported it.

use std::fmt;

use serde::{Deserialize, Serialize};
use tiffany_kernel::Uuid;

use super::uuid_text::maybe_text;

/// A turn that a task kept for so long that the rest of its runtime could not make progress, or
/// other code of the program that blocked the runtime in this way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongTurn {
    /// The run of the task, if it is durable.
    #[serde(default, with = "maybe_text")]
    pub run: Option<Uuid>,
    /// The task's number; 0 for code outside turns.
    pub tid: u64,
    /// Its name, if it has one. Code outside turns is named after its purpose: the input of a run,
    /// an answer.
    pub name: Option<String>,
    /// The source line of the last call that returned before; if there was none, the line that
    /// spawned the task.
    pub at: Option<String>,
    /// When the turn began, RFC 3339.
    pub since: String,
    /// The duration of the turn so far, in seconds.
    pub seconds: f64,
    /// Whether the turn has ended.
    pub is_over: bool,
}

impl fmt::Display for LongTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match (&self.name, self.tid) {
            (Some(what), 0) => {
                write!(f, "the {what}")?;
                "the loop"
            }
            (Some(name), tid) => {
                write!(f, "task {tid} `{name}`")?;
                "its turn"
            }
            (None, tid) => {
                write!(f, "task {tid}")?;
                "its turn"
            }
        };
        if let Some(run) = &self.run {
            write!(f, " of run {run}")?;
        }
        let has = if self.is_over { "kept" } else { "has kept" };
        write!(f, " {has} {kept} for {:.1} s", self.seconds)?;
        self.at.iter().try_for_each(|at| write!(f, " since {at}"))
    }
}
