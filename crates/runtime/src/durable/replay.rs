//! Bringing a run back to where its log ends: its root is started again, each call that concerns the world is
//! matched with its record, and what the world told the run is told again, at the same turn.
//!
//! With unchanged code every turn is the same as before. With changed code what was told comes after the same
//! calls as before; a call that is not the recorded one is a divergence, and the run stops there.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;

use tiffany_kernel::{
    About, CallKind, CallRecord, CallRef, ErrorKind, Order, Record, RecordKind, TaskError, Tid,
    Time, Uuid,
};

use super::script::{Recorded, Script};
use crate::wal::Stamp;

/// A replay under way.
pub(crate) struct Replay {
    pub(crate) script: Script,
    /// How many calls have been matched.
    pub(crate) matched: usize,
    /// The calls that have been matched, by the number of their record, and their kinds.
    pub(crate) calls: BTreeMap<u64, (CallRef, CallKind)>,
    /// What happened that the log does not have yet.
    pub(crate) later: Vec<Record>,
    /// What the run asked of its host and has not been told yet.
    pub(crate) orders: Vec<Order>,
}

/// What tasks are given in a replay instead of the time and fresh identities.
#[derive(Default)]
pub(crate) struct Sources {
    clocks: RefCell<VecDeque<Time>>,
    uuids: RefCell<BTreeMap<Tid, VecDeque<Uuid>>>,
}

impl Sources {
    pub(crate) fn new(script: &Script) -> Sources {
        let mut clocks: Vec<(u64, Time)> = Vec::new();
        let mut uuids: BTreeMap<Tid, VecDeque<Uuid>> = BTreeMap::new();
        for (tid, calls) in &script.calls {
            for call in calls {
                if reads_clock(&call.tag) {
                    clocks.push((call.seq, call.clock));
                }
                if let Some(uuid) = call.text("uuid").and_then(|text| Uuid::parse(&text)) {
                    uuids.entry(*tid).or_default().push_back(uuid);
                }
            }
        }
        clocks.sort();
        let clocks = clocks.into_iter().map(|(_, clock)| clock).collect();
        Sources { clocks: RefCell::new(clocks), uuids: RefCell::new(uuids) }
    }

    /// The time at which the next call that asks for it was made.
    pub(crate) fn clock(&self) -> Option<Time> {
        self.clocks.borrow().front().copied()
    }

    /// The identity that the next call of this task that draws one was given.
    pub(crate) fn uuid(&self, tid: Tid) -> Option<Uuid> {
        self.uuids.borrow_mut().get_mut(&tid)?.pop_front()
    }

    fn matched(&self, tag: &str) {
        if reads_clock(tag) {
            self.clocks.borrow_mut().pop_front();
        }
    }
}

fn reads_clock(tag: &str) -> bool {
    let kind = CallKind::ALL.iter().find(|kind| kind.tag() == tag);
    kind.is_some_and(|kind| kind.reads_clock())
}

impl Replay {
    pub(crate) fn new(script: Script) -> Replay {
        Replay { script, matched: 0, calls: BTreeMap::new(), later: Vec::new(), orders: Vec::new() }
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
            Order::Start(asked, _) | Order::Commit(asked) => *asked != call,
            _ => true,
        });
    }

    /// Whether all that the log has has happened again.
    pub(crate) fn is_over(&self) -> bool {
        self.matched == self.script.total && self.script.told.is_empty()
    }

    /// Compares what happened with what the log says. The answer names a matched call and its record.
    pub(crate) fn compare(
        &mut self,
        record: Record,
        sources: &Sources,
    ) -> Result<Option<(CallRef, u64)>, TaskError> {
        let call = match &record.kind {
            RecordKind::Called(call) if call.kind.is_outward() && call.error.is_none() => call,
            _ => {
                if self.is_over() {
                    self.later.push(record);
                }
                return Ok(None);
            }
        };
        let expected = self.script.calls.get_mut(&record.tid).and_then(VecDeque::pop_front);
        let Some(expected) = expected else {
            if self.script.ended.contains_key(&record.tid) {
                return Err(added(record.tid, call));
            }
            self.later.push(record);
            return Ok(None);
        };
        if let Some(difference) = difference(call, &expected) {
            let rest = self.script.calls.get(&record.tid);
            return Err(diverged(record.tid, call, &expected, rest, &difference));
        }
        sources.matched(&expected.tag);
        self.matched += 1;
        self.calls.insert(expected.seq, (call.call, call.kind));
        Ok(Some((call.call, expected.seq)))
    }

    /// The error of a run that waits although its log has calls that it should have made.
    pub(crate) fn missing(&self) -> TaskError {
        let next = self.script.calls.iter().filter_map(|(tid, calls)| Some((tid, calls.front()?)));
        match next.min_by_key(|(_, call)| call.seq) {
            Some((tid, call)) => TaskError::new(
                ErrorKind::Diverged,
                format!(
                    "record {} has {} by task {tid} at {}, which is not made any more: \
                     a call was removed",
                    call.seq,
                    shown(&call.tag, call.name.as_deref()),
                    call.at
                ),
            ),
            None => TaskError::new(ErrorKind::Diverged, "the log tells of a call that is not made"),
        }
    }
}

/// In what a call is not the recorded one.
fn difference(call: &CallRecord, recorded: &Recorded) -> Option<String> {
    if call.kind.tag() != recorded.tag {
        return Some(format!("it is `{}`, and was `{}`", call.kind.tag(), recorded.tag));
    }
    if call.name != recorded.name.as_deref() {
        let (is, was) = (call.name.unwrap_or("-"), recorded.name.as_deref().unwrap_or("-"));
        return Some(format!("its name is `{is}`, and was `{was}`"));
    }
    let differs = |is: &str, was: Option<&str>| {
        (Some(is) != was).then(|| format!("it is about {is}, and was about {}", was.unwrap_or("-")))
    };
    match &call.about {
        About::Task(tid) => differs(&tid.0.to_string(), recorded.about("child")),
        About::Time(time) => match recorded.time("time") {
            Some(was) if was == *time => None,
            _ => differs(
                Stamp::from_unix_nanos(time.as_nanos()).as_str(),
                recorded.text("time").as_deref(),
            ),
        },
        About::Number(number) => differs(&number.to_string(), recorded.text("number").as_deref()),
        About::Key(key) => differs(key, recorded.text("key").as_deref()),
        About::Uuid(uuid) => differs(&uuid.to_string(), recorded.text("uuid").as_deref()),
        About::Json(json) => differs(json, recorded.about("about")),
        _ => None,
    }
}

fn shown(tag: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{tag} `{name}`"),
        None => format!("`{tag}`"),
    }
}

/// The error for a call that is not the recorded one, with the likely cause.
fn diverged(
    tid: Tid,
    call: &CallRecord,
    expected: &Recorded,
    rest: Option<&VecDeque<Recorded>>,
    difference: &str,
) -> TaskError {
    let is_it = |recorded: &&Recorded| self::difference(call, recorded).is_none();
    let later = rest.into_iter().flatten().find(is_it);
    let same_kind = call.kind.tag() == expected.tag;
    let same_name = same_kind && call.name == expected.name.as_deref();
    let cause = match later {
        Some(later) => {
            format!("calls were removed or reordered: this one is record {}", later.seq)
        }
        None if same_name => "an argument changed".into(),
        None if same_kind && call.name.is_some() => "the call was renamed, or one added".into(),
        None => "a call was added".into(),
    };
    let (is, was) =
        (shown(call.kind.tag(), call.name), shown(&expected.tag, expected.name.as_deref()));
    let message = format!(
        "task {tid} now makes {is} at {}, where record {} has {was} at {}: {difference}; likely {cause}",
        site(call.at),
        expected.seq,
        expected.at,
    );
    TaskError::new(ErrorKind::Diverged, message)
}

/// The error for a call of a task that, says the log, ended without it.
fn added(tid: Tid, call: &CallRecord) -> TaskError {
    let message = format!(
        "task {tid} now makes {} at {}, where its log says that it ended; likely a call was added",
        shown(call.kind.tag(), call.name),
        site(call.at),
    );
    TaskError::new(ErrorKind::Diverged, message)
}

fn site(at: &'static Location<'static>) -> String {
    format!("{}:{}", at.file(), at.line())
}
