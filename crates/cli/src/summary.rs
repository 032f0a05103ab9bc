//! A run in one line, as `ls` has it.

use tiffany_kernel::Uuid;

use super::args::State;
use tiffany::command::Row;
use tiffany::control::parse_moment;
use tiffany_log::{RunEntry, RunState, View, to_the_second};
use tiffany_records::RunOutline;

/// What `ls` tells of a run.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) run: Uuid,
    pub(super) entry: RunEntry,
    pub(super) state: State,
    pub(super) id: String,
    pub(super) function: String,
    /// The run it was forked from, and the record there.
    pub(super) fork: Option<(Uuid, u64)>,
    pub(super) started: String,
    pub(super) changed: String,
    /// How many calls it made in earlier generations.
    pub(super) calls_before: u64,
    /// The records and bytes that there were before it was compacted.
    pub(super) compacted: Option<(u64, u64)>,
}

impl Summary {
    pub(super) fn read(view: &View, run: Uuid, entry: RunEntry) -> Summary {
        let outline = match entry.state {
            RunState::Removed => Ok(RunOutline::default()),
            _ => RunOutline::at(view, run, &entry),
        };
        let is_read = outline.is_ok();
        let outline = outline.unwrap_or_default();
        let is_damaged = !is_read || outline.damage.is_some() || view.refused(run).is_some();
        let state = match (entry.state, outline.outcome) {
            (RunState::Removed, _) => State::Removed,
            _ if is_damaged => State::Damaged,
            (_, Some(outcome)) => State::from(outcome),
            _ if outline.is_held => State::Held,
            _ if outline.is_paused => State::Paused,
            _ if outline.is_ending => State::Ending,
            _ => State::Live,
        };
        let RunOutline { id, function, fork, started, changed, calls_before, compacted, .. } =
            outline;
        Summary { run, entry, state, id, function, fork, started, changed, calls_before, compacted }
    }
}

impl Summary {
    /// The summary as a query sees it.
    pub(super) fn row(&self) -> Row<'_, &Summary> {
        let moment = |text: &str| parse_moment(text).unwrap_or_default();
        Row {
            uuid: self.run,
            id: &self.id,
            function: &self.function,
            state: self.state,
            started: moment(&self.started),
            ended: self.state.is_over().then(|| moment(&self.changed)),
            parent: self.fork.map(|(parent, _)| parent),
            what: self,
        }
    }
}

/// A moment for people: `2026-11-05 09:41:00`.
pub(super) fn moment(ts: &str) -> String {
    to_the_second(ts)
}

/// A moment for people, where there is little room: `11-05 09:41`.
pub(super) fn short_moment(ts: &str) -> String {
    ts.get(5..16).map_or_else(|| ts.to_owned(), |short| short.replace('T', " "))
}

/// A number of things: `1 record`, `4 records`.
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
