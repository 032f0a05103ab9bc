//! Turns that took so long that the watchdog reported them. They are told without asking the loop, because such a turn is what keeps it.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tiffany_kernel::Uuid;

use super::request::maybe_text;
use crate::handle::RuntimeHandle;
use crate::inbox::Inbox;
use crate::watchdog::Long;
use tiffany_log::Stamp;
use tiffany_records::redact::shown;

/// A turn that a task kept, or keeps still, for so long that nothing else of its runtime went on; or code of the
/// program that did so outside turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LongTurn {
    /// The run of the task, if it is durable.
    #[serde(default, with = "maybe_text")]
    pub run: Option<Uuid>,
    /// The task's number; 0 for code outside turns.
    pub tid: u64,
    /// Its name, if it has one. Code outside turns is named after what it makes: the input of a run, an answer.
    pub name: Option<String>,
    /// The line of the last call that returned before, and if there was none, the line that spawned it.
    pub at: Option<String>,
    /// When the turn began, RFC 3339.
    pub since: String,
    /// For how long it had its turn, or has had it by now.
    pub seconds: f64,
    /// Whether it gave it back.
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

impl From<Long> for LongTurn {
    fn from(Long { task, since, is_over, .. }: Long) -> LongTurn {
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        LongTurn {
            run: task.uuid,
            tid: task.tid.0,
            name: task.name.map(|name| shown(&name).to_string()),
            at: task.last_call.or(task.spawned_at).map(|site| site.to_string()),
            since: Stamp::from_unix_nanos(nanos).as_str().to_owned(),
            seconds: task.running_for.as_secs_f64(),
            is_over,
        }
    }
}

/// The last ones, the oldest first.
pub(super) fn long_turns(inbox: &Inbox) -> Vec<LongTurn> {
    inbox.meters.long_turns.list().into_iter().map(LongTurn::from).collect()
}

/// The one that keeps the loop now, as words that go on with a sentence.
pub(super) fn who_keeps_it(inbox: &Inbox) -> Option<String> {
    long_turns(inbox).pop().filter(|turn| !turn.is_over).map(|turn| turn.to_string())
}

impl RuntimeHandle {
    /// The last turns that the [watchdog](crate::Builder::watchdog) reported, the oldest first. The loop is not asked.
    pub fn long_turns(&self) -> Vec<LongTurn> {
        long_turns(self.inbox())
    }
}
