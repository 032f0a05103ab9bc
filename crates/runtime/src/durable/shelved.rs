//! A run that is not running, because it is paused or because no runtime has its directory. What it is told is
//! written to its log, and reaches it when it is brought back.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use tiffany_kernel::{CallKind, TaskError, Tid, Time, Uuid, Value};

use super::fork::no_fork;
use super::journal::Journal;
use super::json::{Json, compact, decode};
use super::key::{Key, Number, Received};
use super::page::Page;
use super::resume::script::{Fetch, Script, What};
use crate::control::{Decision, Doubt};
use crate::inbox::Settlement;
use crate::wal::{Chain, Payload};

/// What has to be known of a run to write to its log.
pub(crate) struct Shelved {
    journal: Journal,
    /// Its external promises, and whether they are settled.
    promises: BTreeMap<Uuid, bool>,
    /// Those that are its parent's too, and its parent if it is a fork.
    shared: BTreeSet<Uuid>,
    parent: Option<Uuid>,
    /// Its steps in doubt, by the number of their record, and their tasks.
    doubts: BTreeMap<u64, (Tid, Doubt)>,
    /// What other runs have sent it.
    received: Received,
}

/// What is said here happens at the end of what the log has: a turn is not named.
const AT_THE_END: u64 = 0;

impl Shelved {
    /// A step whose input cannot be read is not known to be in doubt; the run itself cannot go on then either.
    pub(crate) fn new(chain: Chain, script: &Script, fetch: Fetch<'_>) -> Shelved {
        let (run, generation) = (chain.run(), chain.generation());
        let mut shelved = Shelved {
            journal: Journal::new(chain),
            promises: BTreeMap::new(),
            shared: script.inherited.clone(),
            parent: script.forks.last().map(|fork| fork.parent),
            doubts: BTreeMap::new(),
            received: script.received.clone(),
        };
        let snapshot = script.snapshot.iter().flat_map(|snapshot| snapshot.promises());
        shelved.promises.extend(snapshot);
        for (tid, call) in
            script.calls.iter().flat_map(|(tid, calls)| calls.iter().map(move |call| (*tid, call)))
        {
            if call.kind == CallKind::CreateExternalPromise
                && let Some(uuid) = call.text("uuid").and_then(|text| Uuid::parse(&text))
            {
                shelved.promises.insert(uuid, false);
            }
            if let Some(begun) = script.begun.get(&call.seq).filter(|begun| begun.is_open)
                && call.field("about").is_some_and(|about| is_at_most_once(about, fetch))
            {
                let step = call.text("name").unwrap_or_default();
                let number = Number { generation, seq: call.seq };
                let number = script.numbers.get(&call.seq).copied().unwrap_or(number);
                let (key, attempt) = (Key { run, number }.to_string(), begun.attempt);
                let doubt = Doubt { key, run, step, attempt, waits: false };
                shelved.doubts.insert(call.seq, (tid, doubt));
            }
        }
        for told in &script.told {
            if let What::Settled { promise, .. } = &told.what {
                shelved.promises.insert(*promise, true);
            }
        }
        shelved
    }

    /// The run that it is a fork of.
    pub(super) fn parent(&self) -> Option<Uuid> {
        self.parent
    }

    pub(crate) fn doubts(&self) -> impl Iterator<Item = &Doubt> {
        self.doubts.values().map(|(_, doubt)| doubt)
    }

    pub(crate) fn send(&mut self, page: &mut Page, clock: Time, name: &str, message: &RawValue) {
        let json = compact(message.get());
        self.journal.message(page, (clock, AT_THE_END), (name, &json), None);
    }

    /// A message of another run, unless it is there already.
    pub(super) fn deliver(
        &mut self,
        page: &mut Page,
        clock: Time,
        key: Key,
        message: (&str, &str),
    ) {
        if !self.received.has(key) {
            self.received.add(key);
            self.journal.message(page, (clock, AT_THE_END), message, Some(&key.to_string()));
        }
    }

    pub(crate) fn cancel(&mut self, page: &mut Page, clock: Time) {
        self.journal.cancelled(page, clock, AT_THE_END);
    }

    /// Lets a fork do effects of these names.
    pub(crate) fn allow(
        &mut self,
        page: &mut Page,
        clock: Time,
        names: &BTreeSet<String>,
    ) -> Result<(), TaskError> {
        if self.parent.is_none() {
            return Err(no_fork(self.journal.run()));
        }
        self.journal.effects_allowed(page, clock, names);
        Ok(())
    }

    /// `None`: it is no promise of this run, or one that is its parent's too, and the run was not named.
    pub(crate) fn settle(
        &mut self,
        page: &mut Page,
        clock: Time,
        (promise, is_named): (Uuid, bool),
        result: &Result<Box<RawValue>, TaskError>,
    ) -> Option<Settlement> {
        if self.shared.contains(&promise) && !is_named {
            return None;
        }
        let settled = self.promises.get_mut(&promise)?;
        if std::mem::replace(settled, true) {
            return Some(Settlement::Ignored);
        }
        let result = match result {
            Ok(value) => Ok(Value::new(Json::new(compact(value.get())))),
            Err(error) => Err(error.clone()),
        };
        self.journal.settled(page, (clock, AT_THE_END), promise, &result);
        Some(Settlement::Accepted)
    }

    /// `false`: no such step of this run is in doubt.
    pub(crate) fn decide(
        &mut self,
        page: &mut Page,
        clock: Time,
        key: Key,
        decision: &Decision,
    ) -> bool {
        let key = key.to_string();
        let seq = self.doubts.iter().find(|(_, (_, doubt))| doubt.key == key).map(|(seq, _)| *seq);
        let Some((seq, (tid, doubt))) = seq.and_then(|seq| self.doubts.remove_entry(&seq)) else {
            return false;
        };
        self.journal.decided(page, (tid, clock, AT_THE_END), (seq, doubt.attempt), decision);
        true
    }
}

fn is_at_most_once(about: &str, fetch: Fetch<'_>) -> bool {
    #[derive(Deserialize)]
    struct About {
        kind: Option<String>,
    }
    let about = match Payload::parse(about) {
        Some(blob @ Payload::Blob { .. }) => fetch(&blob).unwrap_or_default(),
        _ => about.to_owned(),
    };
    decode::<About>(&about).is_ok_and(|about| about.kind.as_deref() == Some("at_most_once"))
}
