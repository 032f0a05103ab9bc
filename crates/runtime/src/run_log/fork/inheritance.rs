//! The answers of a parent, for the calls of its fork. It knows records, and no running run.
//!
//! A call of the fork and one of its parent are the same if they are the same record, or, beyond where the two part, if they are made by the same task with the same
//! name and input, the first by the first, the second by the second.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::value::RawValue;
use tiffany_kernel::{CallKind, ErrorKind, TaskError, Tid, Uuid, Value};

use crate::run_log::replay::decoded_log::{DecodedLog, ForkPoint, Recorded, What};
use tiffany_log::BlobHash;

/// The number of generations of forks that are read.
const DEEPEST: usize = 64;

/// An answer of the parent, or of one of its own parents.
#[derive(Clone)]
pub(crate) struct Answer {
    /// Earlier answers have smaller numbers; answers of older parents come after all others.
    pub(crate) order: (usize, usize),
    pub(crate) result: Result<Value, TaskError>,
    /// The parent has begun a step that must not be carried out twice, and has no result. The fork
    /// gets this answer if it is allowed the step; if not, it waits, because the parent may have a
    /// result later.
    pub(crate) is_in_doubt: bool,
}

impl Answer {
    fn in_doubt(parent: Uuid, (depth, record): (usize, u64)) -> Answer {
        let message =
            format!("run {parent}, from which this one was forked, has begun it and has no result");
        let result = Err(TaskError::new(ErrorKind::InDoubt, message));
        // After all answers of the parent.
        let order = (depth, usize::MAX / 2 + record as usize);
        Answer { order, result, is_in_doubt: true }
    }
}

/// A run that has answers for a fork, and whose log can't be read.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    pub(crate) parent: Uuid,
    pub(crate) why: String,
}

/// The answers of a fork.
#[derive(Clone, Default)]
pub(crate) struct Inheritance {
    /// For the calls that the fork's log has, by their records.
    by_record: BTreeMap<u64, Answer>,
    /// For the calls to come, in order. A call without an answer counts too.
    to_come: BTreeMap<Call, VecDeque<Option<Answer>>>,
}

/// A call: the calling task, the name of the step, and its input.
type Call = (Tid, String, String);

/// The steps that a run has called, by their records.
pub(crate) type Calls = BTreeMap<u64, Call>;

/// The log of a run, and its steps that must not be done twice, have started, and have no result.
pub(crate) struct Read {
    pub(crate) decoded: DecodedLog,
    pub(crate) in_doubt: BTreeSet<u64>,
}

/// How the log of a run is read, or why that fails.
pub(crate) type Reader<'a> = &'a dyn Fn(Uuid) -> Result<Read, String>;

impl Inheritance {
    /// The answers of a fork that has asked for these effects. Those of a parent that can't be read
    /// are unknown, and so are those of one that was removed because it was damaged.
    pub(crate) fn of(
        fork: &ForkPoint,
        calls: &Calls,
        read: Reader<'_>,
    ) -> Result<Inheritance, Unread> {
        Inheritance::at_depth(fork, calls, read, 0)
    }

    fn at_depth(
        fork: &ForkPoint,
        calls: &Calls,
        read: Reader<'_>,
        depth: usize,
    ) -> Result<Inheritance, Unread> {
        let parent = fork.parent;
        if depth >= DEEPEST {
            return Err(Unread { parent, why: format!("it is {DEEPEST} forks away") });
        }
        let unread = |why| Unread { parent, why };
        let Read { decoded: parent, in_doubt } = read(parent).map_err(unread)?;
        let generation = parent.beginning.generation;
        if generation != fork.generation {
            let why = format!(
                "it is in generation {generation} by now, and the fork was made in generation {}",
                fork.generation
            );
            return Err(unread(why));
        }
        let asked = effects(&parent);
        let elder = parent.forks.last();
        let elder = elder.map(|fork| Inheritance::at_depth(fork, &asked, read, depth + 1));
        let elder = elder.transpose()?.unwrap_or_default();
        let Inheritance { by_record: mut given, to_come: left } = elder;
        for (at, told) in parent.told.iter().enumerate() {
            let (of, result) = match &told.what {
                What::Effect { of, result } => (*of, result.clone()),
                // A message to another run is durable there.
                What::Woken { of } => (*of, Ok(Value::Unit)),
                _ => continue,
            };
            given.insert(of, Answer { order: (depth, at), result, is_in_doubt: false });
        }
        let mut to_come: BTreeMap<Call, VecDeque<Option<Answer>>> = BTreeMap::new();
        let answer_of = |record: u64| {
            let begun = || Answer::in_doubt(fork.parent, (depth, record));
            let is_begun = in_doubt.contains(&record);
            given.get(&record).cloned().or_else(|| is_begun.then(begun))
        };
        for (record, call) in asked.into_iter().filter(|(record, _)| *record > fork.at) {
            to_come.entry(call).or_default().push_back(answer_of(record));
        }
        for (call, mut answers) in left {
            to_come.entry(call).or_default().append(&mut answers);
        }
        let mut inheritance = Inheritance { by_record: BTreeMap::new(), to_come };
        for (record, call) in calls {
            let answer = match *record <= fork.at {
                true => answer_of(*record),
                false => inheritance.pop(call),
            };
            inheritance.by_record.extend(answer.map(|answer| (*record, answer)));
        }
        Ok(inheritance)
    }

    /// Whether there is an answer to a call, whose record has this number.
    pub(crate) fn has(
        &self,
        (record, tid): (u64, Tid),
        (name, about): (&str, &str),
        calls: &Calls,
    ) -> bool {
        if calls.contains_key(&record) {
            return self.by_record.contains_key(&record);
        }
        let answers = self.to_come.get(&self.key_of(tid, name, about));
        answers.and_then(VecDeque::front).is_some_and(Option::is_some)
    }

    /// The call as this has it: by its input, or by the hash of a large one.
    fn key_of(&self, tid: Tid, name: &str, about: &str) -> Call {
        let call = (tid, name.to_owned(), canonical(about));
        let large = (tid, name.to_owned(), blob(&BlobHash::of(about.as_bytes()).to_string()));
        match !self.to_come.contains_key(&call) && self.to_come.contains_key(&large) {
            true => large,
            false => call,
        }
    }

    /// Returns the answer to a call, whose record has this number, and notes the call.
    pub(crate) fn take(
        &mut self,
        (record, tid): (u64, Tid),
        (name, about): (&str, &str),
        calls: &mut Calls,
    ) -> Option<Answer> {
        if calls.contains_key(&record) {
            return self.by_record.remove(&record);
        }
        let call = self.key_of(tid, name, about);
        let answer = self.pop(&call);
        calls.insert(record, call);
        answer
    }

    fn pop(&mut self, call: &Call) -> Option<Answer> {
        self.to_come.get_mut(call)?.pop_front().flatten()
    }
}

/// The effects that a run asked for.
pub(crate) fn effects(decoded: &DecodedLog) -> Calls {
    let calls = decoded.calls.iter().flat_map(|(tid, calls)| calls.iter().map(|call| (*tid, call)));
    let effects = calls.filter(|(_, call)| call.kind == CallKind::Effect);
    effects.map(|(tid, call)| (call.seq, recorded(tid, call))).collect()
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
