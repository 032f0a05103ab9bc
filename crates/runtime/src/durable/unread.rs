//! The messages that a run had not received where its log ends, found without its code. A task that went on after it
//! had asked for a message, and was given none, has taken its request back.

use std::collections::{BTreeMap, VecDeque};

use tiffany_kernel::{CallKind, TaskError, Tid, Uuid};

use super::json::Json;
use super::resume::script::{Script, What};
use super::run_limits::RunLimits;

/// How many messages were not received, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unread {
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

impl Unread {
    pub(super) fn of(script: &Script) -> Unread {
        let mut inboxes: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
        let mut waiting: BTreeMap<Tid, String> = BTreeMap::new();
        for (_, event) in events(script) {
            match event {
                Event::Called(tid, wanted) => {
                    waiting.remove(&tid);
                    let Some(name) = wanted else { continue };
                    if inboxes.entry(name.clone()).or_default().pop_front().is_none() {
                        waiting.insert(tid, name);
                    }
                }
                Event::Came(name, bytes) => {
                    let taker = waiting.iter().find(|(_, wanted)| **wanted == name);
                    match taker.map(|(tid, _)| *tid) {
                        Some(tid) => drop(waiting.remove(&tid)),
                        None => inboxes.entry(name).or_default().push_back(bytes),
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
    pub(super) fn add(
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
fn events(script: &Script) -> Vec<(u64, Event)> {
    let calls = script.calls.iter().flat_map(|(tid, calls)| {
        calls.iter().map(|call| {
            let is_receive = call.kind == CallKind::ReceiveMessage;
            let wanted = is_receive.then(|| call.text("key").unwrap_or_default());
            (call.seq, Event::Called(*tid, wanted))
        })
    });
    let came = script.told.iter().filter_map(|told| match &told.what {
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
