//! The messages that a run had not received where its log ends, found without its code. A task may ask for a message and
//! for other things in one turn, a timeout for example. If it makes calls in a later turn, and was given no message until
//! then, it has taken its request back.

use std::collections::{BTreeMap, VecDeque};

use tiffany_kernel::{CallKind, TaskError, Tid, Uuid};

use crate::program::run_limits::RunLimits;
use crate::run_log::replay::decoded_log::{DecodedLog, What};
use tiffany_records::value::Json;

/// How many messages were not received, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    count: usize,
    bytes: usize,
}

/// What matters of a log for this.
enum Event {
    /// A task made a call: for a message of this name, or another one.
    Called(Tid, Option<String>),
    /// A message of this name and this length arrived.
    Came(String, usize),
}

/// The messages that a task asked for in its last turn, and has not been given.
struct Waiting {
    /// The record of its last call.
    last: u64,
    names: Vec<String>,
}

impl Waiting {
    /// Takes a message of this name, if it is waited for.
    fn takes(&mut self, name: &str) -> bool {
        let place = self.names.iter().position(|wanted| wanted == name);
        place.map(|place| self.names.remove(place)).is_some()
    }
}

impl Unread {
    pub(crate) fn of(decoded: &DecodedLog) -> Unread {
        let mut inboxes: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
        let mut waiting: BTreeMap<Tid, Waiting> = BTreeMap::new();
        for (seq, event) in events(decoded) {
            match event {
                Event::Called(tid, wanted) => {
                    // Calls of one turn follow one another in the log.
                    let same_turn = waiting.remove(&tid).filter(|task| task.last + 1 == seq);
                    let mut names = same_turn.map_or_else(Vec::new, |task| task.names);
                    names.extend(wanted.filter(|name| {
                        inboxes.entry(name.clone()).or_default().pop_front().is_none()
                    }));
                    if !names.is_empty() {
                        waiting.insert(tid, Waiting { last: seq, names });
                    }
                }
                Event::Came(name, bytes) => {
                    if !waiting.values_mut().any(|task| task.takes(&name)) {
                        inboxes.entry(name).or_default().push_back(bytes);
                    }
                }
            }
        }
        let left = inboxes.values().flatten();
        left.fold(Unread::default(), |all, bytes| all.with(*bytes))
    }

    fn with(self, bytes: usize) -> Unread {
        Unread { count: self.count + 1, bytes: self.bytes.saturating_add(bytes) }
    }

    /// Adds a message, or says why the run may not have another one.
    pub(crate) fn add(
        &mut self,
        limits: Option<&RunLimits>,
        run: Uuid,
        bytes: usize,
    ) -> Result<(), TaskError> {
        if let Some(limits) = limits {
            limits.refuse_message(run, bytes, self.count, || self.bytes)?;
        }
        *self = self.with(bytes);
        Ok(())
    }
}

/// In the order of the log.
fn events(decoded: &DecodedLog) -> Vec<(u64, Event)> {
    let calls = decoded.calls.iter().flat_map(|(tid, calls)| {
        calls.iter().map(|call| {
            let is_receive = call.kind == CallKind::ReceiveMessage;
            let wanted = is_receive.then(|| call.text("key").unwrap_or_default());
            (call.seq, Event::Called(*tid, wanted))
        })
    });
    let came = decoded.told.iter().filter_map(|told| match &told.what {
        What::Message { name, value } => {
            let bytes = value.borrow::<Json>().map_or(0, |json| json.0.len());
            Some((told.seq, Event::Came(name.to_string(), bytes)))
        }
        _ => None,
    });
    let mut events: Vec<(u64, Event)> = calls.chain(came).collect();
    events.sort_by_key(|(seq, _)| *seq);
    events
}
