//! A run in one line, as `ls` lists it.

use tiffany_kernel::{Attributes, Uuid};

use super::args::State;
use tiffany::command::Row;
use tiffany::control::parse_moment;
use tiffany_log::{RunEntry, RunState, View, to_the_second};
use tiffany_records::RunOutline;
use tiffany_records::attributes::{json_of_values, literal};

/// The summary of a run, as `ls` lists it.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) run: Uuid,
    pub(super) entry: RunEntry,
    pub(super) state: State,
    pub(super) id: String,
    pub(super) function: String,
    /// The run's parent and the record at which it was forked.
    pub(super) fork: Option<(Uuid, u64)>,
    pub(super) started: String,
    pub(super) changed: String,
    /// The number of calls in earlier generations.
    pub(super) calls_before: u64,
    /// The number of records and bytes before the run was compacted.
    pub(super) compacted: Option<(u64, u64)>,
    /// Its tags and attributes, and its deadline.
    pub(super) attributes: Attributes,
    pub(super) deadline: Option<String>,
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
        Summary {
            run,
            entry,
            state,
            id: outline.id,
            function: outline.function,
            fork: outline.fork,
            started: outline.started,
            changed: outline.changed,
            calls_before: outline.calls_before,
            compacted: outline.compacted,
            attributes: outline.attributes,
            deadline: outline.deadline,
        }
    }
}

impl Summary {
    /// Returns the summary in the form that queries use.
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
            attributes: Some(&self.attributes),
            what: self,
        }
    }
}

/// Formats a time as `2026-11-05 09:41:00`.
pub(super) fn moment(ts: &str) -> String {
    to_the_second(ts)
}

/// Formats a time as `11-05 09:41`, for narrow places.
pub(super) fn short_moment(ts: &str) -> String {
    ts.get(5..16).map_or_else(|| ts.to_owned(), |short| short.replace('T', " "))
}

/// Formats a number of things: `1 record`, `4 records`.
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The tags and attributes of a run for people: `gold, amount=17`.
pub(super) fn attribute_text(attributes: &Attributes) -> String {
    let values = attributes.values.iter();
    let values = values.map(|(name, value)| format!("{name}={}", literal(value)));
    attributes.tags.iter().cloned().chain(values).collect::<Vec<_>>().join(", ")
}

/// The attributes of a run as JSON.
pub(super) fn values_of(attributes: &Attributes) -> serde_json::Value {
    serde_json::from_str(&json_of_values(&attributes.values)).unwrap_or_default()
}
