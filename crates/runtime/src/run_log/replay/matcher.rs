//! Replaying a run to the end of its log: its root is called again, each outward call is matched
//! with its record, and the recorded completions arrive again, at the same turns.
//!
//! With unchanged code every turn is the same as before. With changed code the completions follow
//! the same calls as before. A call that differs from its record is a divergence, and the run stops
//! there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use tiffany_kernel::{
    About, CallKind, CallRecord, CallRef, Order, Record, RecordKind, TaskError, Tid, Time, Uuid,
};

use crate::calls::context::Sources;
use crate::run_log::journal::{waits, write_call};
use crate::run_log::notes::is_note;
use crate::run_log::replay::decoded_log::{DecodedLog, Recorded, Told, What, unwrapped};
use crate::run_log::replay::divergence::{Divergence, Made, Trial, part};
use crate::run_log::replay::dry_run::{Act, act_of};
use crate::run_log::replay::halt::Halt;
use tiffany_log::{Batch, BlobHash, Chain, RecordType, Stamp};
use tiffany_records::call_words::call_word;
use tiffany_records::redact::Redactions;
use tiffany_records::value::is_same;

/// A replay that is running.
pub(crate) struct Replay {
    pub(crate) decoded: DecodedLog,
    /// How many calls have been matched.
    pub(crate) matched: usize,
    /// How many calls were not outward, and how many tasks have ended.
    inward: u64,
    /// The calls that have been matched, by the number of their record, and their kinds.
    pub(crate) calls: BTreeMap<u64, (CallRef, CallKind)>,
    /// Records that the log does not have yet.
    pub(crate) later: Vec<Record>,
    /// The orders of the run that were not answered yet.
    pub(crate) orders: Vec<Order>,
    /// The calls of tasks, if they are wanted.
    pub(crate) trace: Option<Vec<(Tid, Act)>>,
    /// Where it halts, if not at the end of the log, and the errors of tasks on the way.
    pub(crate) halt: Option<Halt>,
    pub(crate) failed: BTreeMap<Tid, TaskError>,
    pub(crate) sources: Rc<RecordedSources>,
    draft: Draft,
    /// The rules that redact calls before they are compared, because the log is redacted, too.
    rules: Option<Arc<Redactions>>,
}

/// Where calls are encoded to be compared; none of it goes to the log.
struct Draft {
    batch: Batch,
    chain: Chain,
    stamp: Stamp,
}

impl Draft {
    fn new(rules: Option<Arc<Redactions>>) -> Draft {
        let (mut batch, chain) = (Batch::new(), Chain::new(Uuid(0)));
        batch.redact(rules);
        Draft { batch, chain, stamp: Stamp::from_unix_nanos(0) }
    }

    /// The fields of a call, as its record would have them.
    fn fields(&mut self, call: &CallRecord) -> &[u8] {
        let Draft { batch, chain, stamp } = self;
        write_call(batch.line(chain, stamp, RecordType::TaskYield, Tid(1)), call, None)
            .into_fields()
    }
}

/// The recorded answers for tasks that ask for the time or a new identity.
#[derive(Default)]
pub(crate) struct RecordedSources {
    clocks: RefCell<VecDeque<Time>>,
    uuids: RefCell<BTreeMap<Tid, VecDeque<Uuid>>>,
    /// How many calls of each task are yet to come, and the changes of the program that it took the new way at.
    to_come: RefCell<BTreeMap<Tid, usize>>,
    patches: BTreeMap<Tid, BTreeSet<String>>,
    rules: Option<Arc<Redactions>>,
    /// Whether the tasks are going to be looked at as they are.
    is_looked_at: bool,
}

impl RecordedSources {
    pub(crate) fn new(
        decoded: &DecodedLog,
        is_looked_at: bool,
        rules: Option<Arc<Redactions>>,
    ) -> RecordedSources {
        let mut clocks: Vec<(u64, Time)> = Vec::new();
        let mut uuids: BTreeMap<Tid, VecDeque<Uuid>> = BTreeMap::new();
        let mut patches: BTreeMap<Tid, BTreeSet<String>> = BTreeMap::new();
        for (tid, calls) in &decoded.calls {
            for call in calls {
                if call.kind == CallKind::Patched {
                    patches.entry(*tid).or_default().extend(call.text("key"));
                }
                if call.kind.reads_clock() {
                    clocks.push((call.seq, call.clock));
                }
                if matches!(call.kind, CallKind::NewUuid | CallKind::CreateExternalPromise)
                    && let Some(uuid) = call.text("uuid").and_then(|text| Uuid::parse(&text))
                {
                    uuids.entry(*tid).or_default().push_back(uuid);
                }
            }
        }
        clocks.sort();
        let clocks = clocks.into_iter().map(|(_, clock)| clock).collect();
        let to_come = decoded.calls.iter().map(|(tid, calls)| (*tid, calls.len())).collect();
        RecordedSources {
            clocks: RefCell::new(clocks),
            uuids: RefCell::new(uuids),
            to_come: RefCell::new(to_come),
            patches,
            rules,
            is_looked_at,
        }
    }

    fn matched(&self, tid: Tid, kind: CallKind) {
        if let Some(left) = self.to_come.borrow_mut().get_mut(&tid) {
            *left = left.saturating_sub(1);
        }
        if kind.reads_clock() {
            self.clocks.borrow_mut().pop_front();
        }
    }
}

impl Sources for RecordedSources {
    fn clock(&self) -> Option<Time> {
        self.clocks.borrow().front().copied()
    }

    fn uuid(&self, tid: Tid) -> Option<Uuid> {
        self.uuids.borrow_mut().get_mut(&tid)?.pop_front()
    }

    /// It took the new way before, or it is beyond what an older program recorded.
    fn takes_new_way(&self, tid: Tid, id: &str) -> bool {
        let written = self.rules.as_ref().map_or(id.into(), |rules| rules.text(id));
        let took = self.patches.get(&tid);
        let took = took.is_some_and(|took| took.contains(id) || took.contains(&*written));
        took || self.to_come.borrow().get(&tid).is_none_or(|left| *left == 0)
    }

    fn is_looked_at(&self) -> bool {
        self.is_looked_at
    }
}

impl Replay {
    /// One that goes to the end of the log, or halts on its way.
    pub(crate) fn new(
        decoded: DecodedLog,
        halt: Option<Halt>,
        rules: Option<Arc<Redactions>>,
    ) -> Replay {
        let sources = Rc::new(RecordedSources::new(&decoded, halt.is_some(), rules.clone()));
        let trace = decoded.is_traced.then(Vec::new);
        Replay {
            decoded,
            matched: 0,
            inward: 0,
            calls: BTreeMap::new(),
            later: Vec::new(),
            orders: Vec::new(),
            trace,
            halt,
            failed: BTreeMap::new(),
            sources,
            draft: Draft::new(rules.clone()),
            rules,
        }
    }

    /// Keeps what the run asks of its host, unless it takes back what it asked.
    pub(crate) fn keep(&mut self, order: Order) {
        match order {
            Order::Abort(call) => self.done(call),
            order => self.orders.push(order),
        }
    }

    /// The host has nothing to do for this call any more.
    pub(crate) fn done(&mut self, call: CallRef) {
        self.orders.retain(|order| match order {
            Order::Start(asked, _)
            | Order::Ask(asked, _)
            | Order::Commit(asked)
            | Order::Continue(asked, _) => *asked != call,
            _ => true,
        });
    }

    /// Whether all that the log has has happened again.
    pub(crate) fn is_over(&self) -> bool {
        self.matched == self.decoded.total && self.decoded.told.is_empty()
    }

    /// Whether the calls that are only shown have been made again too, so that the tasks stand where they stood. Code that
    /// changed may make fewer, and is known by what it does beyond the log.
    pub(crate) fn has_shown_all(&self) -> bool {
        let DecodedLog { shown, notes, .. } = &self.decoded;
        self.is_beyond() || shown.values().chain(notes.values()).all(|left| *left == 0)
    }

    /// Whether something happened that the log has no line of.
    fn is_beyond(&self) -> bool {
        self.later.iter().any(|record| has_line(&record.kind))
    }

    /// Whether the replay has come to where it halts.
    pub(crate) fn halts_here(&self) -> bool {
        let Some(halt) = &self.halt else { return false };
        let is_told = self.decoded.told.front().is_none_or(|told| !halt.includes(told.seq));
        is_told && (halt.has_all() || (halt.has_calls() && self.is_beyond()))
    }

    /// Whether nothing more can happen up to where it halts.
    pub(crate) fn can_halt(&self) -> bool {
        self.halt.as_ref().is_some_and(Halt::has_calls)
    }

    /// Compares what happened with what the log says. The answer names a matched call that waits, and its record.
    pub(crate) fn compare(
        &mut self,
        record: Record,
    ) -> Result<Option<(CallRef, u64)>, Box<Divergence>> {
        if let Some(trace) = &mut self.trace {
            trace.extend(act_of(&record));
        }
        if let (Some(_), RecordKind::Failed(error)) = (&self.halt, &record.kind) {
            self.failed.insert(record.tid, error.clone());
        }
        let call = match &record.kind {
            RecordKind::Called(call) if call.kind.is_outward() && call.error.is_none() => call,
            kind => {
                self.inward += u64::from(has_line(kind));
                if let Some(halt) = &mut self.halt {
                    halt.note(record.tid, kind);
                }
                if self.is_new(&record) {
                    self.later.push(record);
                }
                return Ok(None);
            }
        };
        let expected = self.decoded.calls.get_mut(&record.tid).and_then(VecDeque::pop_front);
        let Some(expected) = expected else {
            if let Some(seq) = self.decoded.ended.get(&record.tid) {
                let divergence = Box::new(Divergence {
                    tid: record.tid,
                    made: Some(Made::new(call)),
                    recorded: None,
                    later: None,
                    difference: String::new(),
                });
                return self.part(*seq, divergence);
            }
            self.later.push(record);
            return Ok(None);
        };
        let accepted = self.decoded.accepted == Some(expected.seq);
        // A call that would be written as it was is the same. Others may be, too.
        let is_same = accepted || expected.is_written_as(self.draft.fields(call));
        let rules = self.rules.as_deref();
        if !is_same && let Some(difference) = differs(call, &expected, rules) {
            let rest = self.decoded.calls.get(&record.tid);
            let seq = expected.seq;
            let divergence = part(record.tid, call, (expected, rules), rest, difference);
            return self.part(seq, Box::new(divergence));
        }
        self.sources.matched(record.tid, expected.kind);
        self.matched += 1;
        if let Some(halt) = &mut self.halt {
            halt.matched(expected.seq);
        }
        if !waits(call.kind) {
            return Ok(None);
        }
        self.calls.insert(expected.seq, (call.call, call.kind));
        Ok(Some((call.call, expected.seq)))
    }

    /// The code did not make the call of a record. That doesn't matter to a replay that halts
    /// before.
    fn part<T>(
        &mut self,
        seq: u64,
        divergence: Box<Divergence>,
    ) -> Result<Option<T>, Box<Divergence>> {
        match &mut self.halt {
            Some(halt) => halt.leave(seq, divergence).map(|()| None),
            None => Err(divergence),
        }
    }

    /// Whether something that is shown and not compared is beyond what the log has.
    fn is_new(&mut self, record: &Record) -> bool {
        let decoded = &mut self.decoded;
        match &record.kind {
            RecordKind::Called(call) => {
                if decoded.calls.get(&record.tid).is_some_and(|calls| !calls.is_empty()) {
                    return false;
                }
                if is_note(call) {
                    return match decoded.notes.get_mut(&(record.tid, call.kind)) {
                        Some(written) if *written > 0 => {
                            *written -= 1;
                            false
                        }
                        _ => !decoded.ended.contains_key(&record.tid),
                    };
                }
                match decoded.shown.get_mut(&record.tid) {
                    Some(shown) if *shown > 0 => {
                        *shown -= 1;
                        false
                    }
                    _ => !decoded.ended.contains_key(&record.tid),
                }
            }
            RecordKind::Unasked(call) => !self.is_unasked(*call) && self.is_over(),
            RecordKind::CutShort => !decoded.cut_short.contains(&record.tid),
            RecordKind::OverTime => !decoded.over_time,
            RecordKind::PastDeadline => !decoded.is_past_deadline,
            RecordKind::Completed(_) | RecordKind::Failed(_) | RecordKind::Cancelled(_) => {
                !decoded.ended.contains_key(&record.tid)
            }
            _ => self.is_over(),
        }
    }

    /// Whether the log says that the question of a call was taken back.
    pub(crate) fn is_unasked(&self, call: CallRef) -> bool {
        let seq = self.calls.iter().find(|(_, (other, _))| *other == call);
        seq.is_some_and(|(seq, _)| self.decoded.unasked.contains(seq))
    }

    /// The calls whose questions the log says to be taken back.
    pub(crate) fn unasked(&self) -> Vec<CallRef> {
        let calls = self.decoded.unasked.iter().filter_map(|seq| self.calls.get(seq));
        calls.map(|(call, _)| *call).collect()
    }

    /// A run waits although its log has calls that it should have made.
    pub(crate) fn missing(&self) -> Box<Divergence> {
        let next =
            self.decoded.calls.iter().filter_map(|(tid, calls)| Some((*tid, calls.front()?)));
        let next = next.min_by_key(|(_, call)| call.seq);
        Box::new(Divergence {
            tid: next.map_or(Tid(1), |(tid, _)| tid),
            made: None,
            recorded: next.map(|(_, recorded)| recorded.clone()),
            later: None,
            difference: String::new(),
        })
    }

    /// What can be told again now: the next thing, and with a log that was edited the first that fits.
    pub(crate) fn next_told(&mut self, steps: u64, is_ready: bool) -> Option<Told> {
        let matched = self.matched;
        let can = |told: &Told, calls: &BTreeMap<u64, (CallRef, CallKind)>| match &told.what {
            What::Woken { of } | What::Effect { of, .. } | What::Decided { of, .. } => {
                calls.contains_key(of)
            }
            _ => matched >= told.after,
        };
        if self.decoded.is_edited() {
            let at = self.decoded.told.iter().position(|told| can(told, &self.calls))?;
            return self.decoded.told.remove(at);
        }
        let told = self.decoded.told.front()?;
        if self.halt.as_ref().is_some_and(|halt| !halt.includes(told.seq)) {
            return None;
        }
        let is_turn = match told.step {
            // It came after everything that stands before it.
            0 => self.inward >= told.inward || self.is_beyond(),
            step => steps >= step,
        };
        let is_turn = is_turn || !is_ready;
        if matched >= told.after && is_turn { self.decoded.told.pop_front() } else { None }
    }

    /// How far this came.
    pub(crate) fn trial(&self, stopped: Option<Divergence>) -> Trial {
        let beyond = self.later.iter().filter_map(|record| match &record.kind {
            RecordKind::Called(call) if call.kind.is_outward() => Some(Made::new(call)),
            _ => None,
        });
        Trial { matched: self.matched, stopped, beyond: beyond.collect() }
    }
}

/// Whether this has a line of its own, besides those that tell the run something.
fn has_line(kind: &RecordKind) -> bool {
    matches!(
        kind,
        RecordKind::Called(_)
            | RecordKind::Completed(_)
            | RecordKind::Failed(_)
            | RecordKind::Cancelled(_)
    )
}

/// In what a call is not the recorded one. What the rules take out makes no difference: the log has something else there, or is older than the rules.
pub(crate) fn differs(
    call: &CallRecord,
    recorded: &Recorded,
    rules: Option<&Redactions>,
) -> Option<String> {
    let difference = parts(call, (call.name, &call.about), recorded)?;
    let Some(rules) = rules else { return Some(difference) };
    let about = match &call.about {
        About::Json(json) => About::Json(rules.about(call.kind.tag(), json).into()),
        About::Key(key) => About::Key(rules.text(key).into()),
        other => other.clone(),
    };
    let name = call.name.map(|name| rules.text(name));
    parts(call, (name.as_deref(), &about), &recorded.redacted(rules))
}

fn parts(
    call: &CallRecord,
    (name, about): (Option<&str>, &About),
    recorded: &Recorded,
) -> Option<String> {
    if call.kind != recorded.kind {
        let (is, was) = (call_word(call.kind.tag()), call_word(recorded.kind.tag()));
        return Some(format!("it is `{is}`, and was `{was}`"));
    }
    // What a task is called is for people.
    if call.kind != CallKind::Spawn && !recorded.has_name(name) {
        let was = recorded.text("name");
        let (is, was) = (name.unwrap_or("-"), was.as_deref().unwrap_or("-"));
        return Some(format!("its name is `{is}`, and was `{was}`"));
    }
    let (field, same) = match about {
        About::Child { tid, daemon, .. } => {
            let (is, was) = (*daemon, recorded.field("daemon").is_some());
            if is != was {
                let word = |daemon| if daemon { "a daemon task" } else { "an ordinary task" };
                return Some(format!("it spawns {}, and spawned {}", word(is), word(was)));
            }
            let was = recorded.field("child").and_then(|number| number.parse().ok());
            ("child", was == Some(tid.0))
        }
        About::Time(time) => {
            let stamp = Stamp::from_unix_nanos(time.as_nanos());
            ("time", recorded.is("time", stamp.as_str()))
        }
        About::Number(number) => ("number", recorded.is("number", &number.to_string())),
        About::Key(key) => ("key", recorded.is("key", key)),
        About::Uuid(uuid) => ("uuid", recorded.is("uuid", &uuid.to_string())),
        About::Json(json) => {
            let was = recorded.field("about");
            let same = |was: &str| is_blob(was, json) || is_same(was, json);
            ("about", was == Some(json) || was.is_some_and(same))
        }
        About::Question { about, payload, until } => {
            let until = until.map(|until| Stamp::from_unix_nanos(until.as_nanos()));
            let same_time = match &until {
                Some(until) => recorded.is("time", until.as_str()),
                None => recorded.field("time").is_none(),
            };
            if !same_time {
                let is = until.as_ref().map_or("for ever", Stamp::as_str);
                let was = recorded.text("time");
                let was = was.as_deref().unwrap_or("for ever");
                return Some(format!("it waits until {is}, and waited until {was}"));
            }
            let same = |field: &str, json: &str| {
                let was = recorded.field(field);
                was.is_some_and(|was| is_blob(was, json) || is_same(unwrapped(was), json))
            };
            let shows_same = match payload {
                Some(json) => same("payload", json),
                None => recorded.field("payload").is_none(),
            };
            if same("about", about) && !shows_same {
                let is = payload.as_deref().unwrap_or("nothing");
                let was = recorded.field("payload").unwrap_or("nothing");
                return Some(format!("it shows {is}, and showed {was}"));
            }
            ("about", same("about", about))
        }
        _ => return None,
    };
    (!same).then(|| {
        let (is, was) = (about_text(about), recorded.field(field).unwrap_or("nothing"));
        format!("it is about {is}, and was about {}", was.trim_matches('"'))
    })
}

/// What a call is about, as the log has it.
pub(crate) fn about_text(about: &About) -> String {
    match about {
        About::Task(tid) | About::Child { tid, .. } => tid.0.to_string(),
        About::Time(time) => Stamp::from_unix_nanos(time.as_nanos()).as_str().to_owned(),
        About::Number(number) => number.to_string(),
        About::Key(key) => key.to_string(),
        About::Uuid(uuid) => uuid.to_string(),
        About::Json(json) | About::Question { about: json, .. } => json.to_string(),
        _ => String::new(),
    }
}

/// Whether a large value is the one that the log keeps under its hash.
fn is_blob(recorded: &str, json: &str) -> bool {
    let hash = recorded.strip_prefix("{\"$blob\":\"").and_then(|rest| rest.split('"').next());
    hash.is_some_and(|hash| hash == BlobHash::of(json.as_bytes()).to_string())
}
