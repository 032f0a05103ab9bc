//! What a parent was answered, for the calls of its fork. It knows records, and no run that goes on.
//!
//! A call of the fork and one of its parent are the same if they are the same record, or, beyond where the two part, if they are made by the same task with the same
//! name and input, the first by the first, the second by the second.

use std::collections::{BTreeMap, VecDeque};

use serde_json::value::RawValue;
use tiffany_kernel::{CallKind, TaskError, Tid, Uuid, Value};

use crate::durable::resume::script::{Recorded, Script, What};
use crate::wal::BlobHash;

/// So many generations of forks are looked at.
const DEEPEST: usize = 64;

/// An answer of the parent, or of one of its own parents.
#[derive(Clone)]
pub(super) struct Answer {
    /// What came first has the smaller number; answers of elder parents come after all others.
    pub(super) order: (usize, usize),
    pub(super) result: Result<Value, TaskError>,
}

/// What a fork is answered.
#[derive(Clone, Default)]
pub(in crate::durable) struct Inheritance {
    /// For the calls that the fork's log has, by their records.
    by_record: BTreeMap<u64, Answer>,
    /// For those that come, in order: a call that has no answer counts too.
    to_come: BTreeMap<Call, VecDeque<Option<Answer>>>,
}

/// Who calls, the name of the effect, and what it is given.
type Call = (Tid, String, String);

impl Inheritance {
    /// Of the run that has this log. A parent that cannot be read has no answers.
    pub(super) fn of(script: &Script, read: &dyn Fn(Uuid) -> Option<Script>) -> Inheritance {
        Inheritance::at_depth(script, read, 0)
    }

    fn at_depth(
        script: &Script,
        read: &dyn Fn(Uuid) -> Option<Script>,
        depth: usize,
    ) -> Inheritance {
        let Some(fork) = script.forks.last().filter(|_| depth < DEEPEST) else {
            return Inheritance::default();
        };
        let Some(parent) = read(fork.parent) else { return Inheritance::default() };
        let elder = Inheritance::at_depth(&parent, read, depth + 1);
        let mut given = elder.by_record;
        for (at, told) in parent.told.iter().enumerate() {
            let (of, result) = match &told.what {
                What::Effect { of, result } => (*of, result.clone()),
                // A message to another run is safe there.
                What::Woken { of } => (*of, Ok(Value::Unit)),
                _ => continue,
            };
            given.insert(of, Answer { order: (depth, at), result });
        }
        let mut to_come: BTreeMap<Call, VecDeque<Option<Answer>>> = BTreeMap::new();
        for (tid, call) in effects(&parent).into_iter().filter(|(_, call)| call.seq > fork.at) {
            to_come
                .entry(recorded(tid, call))
                .or_default()
                .push_back(given.get(&call.seq).cloned());
        }
        for (call, mut answers) in elder.to_come {
            to_come.entry(call).or_default().append(&mut answers);
        }
        let mut inheritance = Inheritance { by_record: BTreeMap::new(), to_come };
        for (tid, call) in effects(script) {
            let answer = match call.seq <= fork.at {
                true => given.get(&call.seq).cloned(),
                false => inheritance.pop(&recorded(tid, call)),
            };
            inheritance.by_record.extend(answer.map(|answer| (call.seq, answer)));
        }
        inheritance
    }

    /// The answer to a call, whose record has this number.
    pub(super) fn take(
        &mut self,
        record: u64,
        tid: Tid,
        name: &str,
        about: &str,
    ) -> Option<Answer> {
        if let Some(answer) = self.by_record.remove(&record) {
            return Some(answer);
        }
        let call = (tid, name.to_owned(), canonical(about));
        match self.to_come.contains_key(&call) {
            true => self.pop(&call),
            false => self.pop(&(tid, call.1, blob(&BlobHash::of(about.as_bytes()).to_string()))),
        }
    }

    fn pop(&mut self, call: &Call) -> Option<Answer> {
        self.to_come.get_mut(call)?.pop_front().flatten()
    }
}

/// The effects that a run asked for, in order.
fn effects(script: &Script) -> Vec<(Tid, &Recorded)> {
    let calls = script.calls.iter().flat_map(|(tid, calls)| calls.iter().map(|call| (*tid, call)));
    let mut effects: Vec<_> = calls.filter(|(_, call)| call.kind == CallKind::Effect).collect();
    effects.sort_by_key(|(_, call)| call.seq);
    effects
}

fn recorded(tid: Tid, call: &Recorded) -> Call {
    let about = call.field("about").unwrap_or_default();
    let hash = about.strip_prefix("{\"$blob\":\"").and_then(|rest| rest.split('"').next());
    (tid, call.called(), hash.map_or_else(|| canonical(about), blob))
}

/// A large input, by its hash.
fn blob(hash: &str) -> String {
    format!("blob {hash}")
}

/// JSON with the keys of its maps in order; numbers stay as they are written.
fn canonical(json: &str) -> String {
    fn write(out: &mut String, json: &str, depth: usize) {
        let parts = json.as_bytes().first().filter(|_| depth > 0);
        if let Some(b'{') = parts
            && let Ok(map) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json)
        {
            out.push('{');
            for (key, value) in map {
                out.push_str(&format!("{key:?}"));
                out.push(':');
                write(out, value.get(), depth - 1);
                out.push(',');
            }
            return out.push('}');
        }
        if let Some(b'[') = parts
            && let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(json)
        {
            out.push('[');
            for value in list {
                write(out, value.get(), depth - 1);
                out.push(',');
            }
            return out.push(']');
        }
        out.push_str(json);
    }
    let mut out = String::new();
    write(&mut out, json.trim(), 128);
    out
}
