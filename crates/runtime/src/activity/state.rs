//! The events of a hub, behind its lock. All of them are in one lane. A run gets a lane of its own
//! once it has done more than start or is read, so that sleeping runs cost nothing. When there are
//! too many events, those of finished runs are dropped first, the oldest first, then the older half
//! of the others, in turn.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tiffany_kernel::{BlockReason, Stage, Tid, Time};

use crate::activity::lane::{Lane, Turn};
use crate::activity::settings::Settings;
use crate::activity::sleeper::Sleeper;
use tiffany_records::activity::{Activity, Data, TaskId};
use tiffany_records::redact::Redactions;

/// The approximate memory of a run's lane without its events.
const LANE_BYTES: usize = 512;

/// How many recent events are searched for the beginning of a run when it gets a lane of its own.
const NEARBY: usize = 256;

/// The maximum number of finished runs that are remembered.
const MAX_FINISHED_RUNS: usize = 1024;

/// An event without its number.
pub(crate) struct Draft {
    pub(crate) ts: Time,
    pub(crate) tid: Option<Tid>,
    pub(crate) stage: Stage,
    pub(crate) message: Cow<'static, str>,
    pub(crate) data: Data,
    pub(crate) ghost: bool,
}

/// A draft after redaction. Only these are kept.
pub(crate) struct Clean(Draft);

impl Draft {
    /// Redacts a draft. This takes time, so it is done without holding the lock.
    #[inline]
    pub(crate) fn cleaned(mut self, rules: Option<&Redactions>) -> Clean {
        if let Some(rules) = rules {
            self.redact(rules);
        }
        Clean(self)
    }

    #[cold]
    fn redact(&mut self, rules: &Redactions) {
        if let Cow::Owned(cleaned) = rules.text(&self.message) {
            self.message = cleaned.into();
        }
        self.data.redact(rules);
    }
}

/// A change of a task's turn.
#[derive(Clone, Copy)]
pub(crate) struct TurnDraft {
    pub(crate) ts: Time,
    pub(crate) tid: Tid,
    pub(crate) stage: Stage,
    pub(crate) reason: Option<BlockReason>,
    pub(crate) ghost: bool,
}

/// Everything behind the lock.
pub(crate) struct State {
    pub(crate) next_seq: u64,
    /// The time of the last event.
    pub(crate) now: Time,
    pub(crate) is_closed: bool,
    pub(crate) all: Lane,
    pub(crate) runs: BTreeMap<TaskId, Lane>,
    /// Finished runs, in that order, and all others in the order in which they will lose events.
    over: VecDeque<TaskId>,
    others: VecDeque<TaskId>,
    /// The bytes of all events in `runs`.
    bytes: usize,
    /// The readers to be woken.
    pub(crate) awake: Vec<Arc<Sleeper>>,
    pub(crate) lost: u64,
    pub(crate) readers: usize,
    /// The lanes whose turns are read. They share the room for turns.
    pub(crate) turn_lanes: usize,
}

impl State {
    pub(crate) fn new() -> State {
        State {
            next_seq: 1,
            now: Time::ZERO,
            is_closed: false,
            all: Lane::new(),
            runs: BTreeMap::new(),
            over: VecDeque::new(),
            others: VecDeque::new(),
            bytes: 0,
            awake: Vec::new(),
            lost: 0,
            readers: 0,
            turn_lanes: 0,
        }
    }

    /// Whether a reader wants the turns of this run.
    pub(crate) fn wants_turns(&self, task_id: TaskId) -> bool {
        self.all.wants_turns() || self.runs.get(&task_id).is_some_and(Lane::wants_turns)
    }

    /// The lane of a run that is read.
    pub(crate) fn lane(&mut self, task_id: TaskId, settings: &Settings) -> &mut Lane {
        self.open_lane(task_id, settings, usize::MAX)
    }

    /// The lane of a run. If there is none, it is created from the run's events among the most
    /// recent `nearby` ones.
    fn open_lane(&mut self, task_id: TaskId, settings: &Settings, nearby: usize) -> &mut Lane {
        self.runs.entry(task_id).or_insert_with(|| {
            let newest = self.all.notable.newest().take(nearby);
            let mut of_run: Vec<&Arc<Activity>> =
                newest.filter(|event| event.task_id == task_id).take(settings.per_run).collect();
            of_run.reverse();
            let mut lane = Lane::new();
            for event in of_run {
                lane.notable.push(Arc::clone(event), settings.per_run);
            }
            self.others.push_back(task_id);
            self.bytes += LANE_BYTES + lane.notable.bytes();
            lane
        })
    }

    /// Adds a notable event. All events with text are added here.
    pub(crate) fn add(&mut self, settings: &Settings, task_id: TaskId, Clean(draft): Clean) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let Draft { ts, tid, stage, message, data, ghost } = draft;
        let (message, cut) = cut(message, settings.message);
        self.now = self.now.max(ts);
        if !is_of_every_run(stage) {
            self.open_lane(task_id, settings, NEARBY);
        }
        let event = Activity { seq, ts, task_id, tid, stage, message, ghost, cut, data };
        let event = Arc::new(event);
        let all = &mut self.all;
        all.notable.push(Arc::clone(&event), settings.in_all);
        while all.notable.bytes() > settings.bytes && all.notable.len() > 1 {
            all.notable.drop_oldest();
        }
        self.awake.append(&mut all.waiting);
        self.awake.append(&mut all.waiting_for_turns);
        let Some(lane) = self.runs.get_mut(&task_id) else { return };
        let before = lane.notable.bytes();
        lane.notable.push(event, settings.per_run);
        let after = lane.notable.bytes();
        self.awake.append(&mut lane.waiting);
        self.awake.append(&mut lane.waiting_for_turns);
        self.bytes = self.bytes - before + after;
        if self.bytes > settings.bytes {
            self.make_room(settings.bytes);
        }
    }

    /// Adds a turn of a run for the readers that want turns.
    pub(crate) fn add_turn(&mut self, settings: &Settings, task_id: TaskId, turn: TurnDraft) {
        let mut wanted = self.all.wants_turns();
        let lane = self.runs.get_mut(&task_id).filter(|lane| lane.wants_turns());
        wanted |= lane.is_some();
        if !wanted {
            return;
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let most = settings.turns / self.turn_lanes.max(1);
        let TurnDraft { ts, tid, stage, reason, ghost } = turn;
        let turn = Turn { task_id, seq, ts, tid, stage, reason, ghost };
        if let Some(lane) = lane {
            lane.turns.push(turn, most);
            if !lane.waiting_for_turns.is_empty() {
                self.awake.append(&mut lane.waiting_for_turns);
            }
        }
        if self.all.wants_turns() {
            self.all.turns.push(turn, most);
            if !self.all.waiting_for_turns.is_empty() {
                self.awake.append(&mut self.all.waiting_for_turns);
            }
        }
    }

    /// Marks a run as finished: its events are the first to be dropped.
    pub(crate) fn end_run(&mut self, task_id: TaskId) {
        let Some(lane) = self.runs.get_mut(&task_id) else { return };
        if std::mem::replace(&mut lane.is_over, true) {
            return;
        }
        self.over.push_back(task_id);
        if self.over.len() > MAX_FINISHED_RUNS
            && let Some(oldest) = self.over.pop_front()
        {
            self.forget(oldest);
        }
    }

    /// Marks a run as running again, if it was taken for finished.
    pub(crate) fn begin_run(&mut self, task_id: TaskId) {
        if let Some(lane) = self.runs.get_mut(&task_id)
            && std::mem::replace(&mut lane.is_over, false)
        {
            self.over.retain(|other| *other != task_id);
            self.others.push_back(task_id);
        }
    }

    /// Drops old events to make room.
    #[cold]
    fn make_room(&mut self, most: usize) {
        while self.bytes > most
            && let Some(oldest) = self.over.pop_front()
        {
            self.forget(oldest);
            if self.runs.contains_key(&oldest) {
                // The run is read, so it loses events in turn with the others.
                self.others.push_back(oldest);
            }
        }
        for _ in 0..2 * self.others.len() {
            if self.bytes <= most {
                return;
            }
            let Some(task_id) = self.others.pop_front() else { return };
            let Some(lane) = self.runs.get_mut(&task_id) else { continue };
            let before = lane.notable.bytes();
            for _ in 0..lane.notable.len().div_ceil(2) {
                lane.notable.drop_oldest();
            }
            self.bytes = self.bytes - before + lane.notable.bytes();
            match lane.notable.len() == 0 && lane.readers == 0 {
                true => self.forget(task_id),
                false => self.others.push_back(task_id),
            }
        }
    }

    /// Forgets a run, unless it is read.
    pub(crate) fn forget(&mut self, task_id: TaskId) {
        let Some(lane) = self.runs.get_mut(&task_id) else { return };
        if lane.readers > 0 {
            // It is forgotten when its last reader leaves.
            return;
        }
        self.bytes -= LANE_BYTES + lane.notable.bytes();
        self.runs.remove(&task_id);
        if self.others.len() > 2 * self.runs.len() + 64 {
            let (runs, mut seen) = (&self.runs, BTreeSet::new());
            self.others.retain(|other| runs.contains_key(other) && seen.insert(*other));
        }
    }

    /// Notes that a reader of a run has left.
    pub(crate) fn left(&mut self, task_id: TaskId) {
        let Some(lane) = self.runs.get(&task_id) else { return };
        let is_listed = lane.is_over && self.over.contains(&task_id);
        if lane.readers == 0 && (lane.notable.len() == 0 || (lane.is_over && !is_listed)) {
            self.forget(task_id);
        }
    }

    /// The approximate number of bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.all.notable.bytes()
    }
}

/// Whether this is an event that every run has and the log contains too.
fn is_of_every_run(stage: Stage) -> bool {
    use Stage::{Cancelled, Cancelling, Completed, ReceivedInstruction, Spawned};
    matches!(stage, ReceivedInstruction | Spawned | Cancelling | Completed | Cancelled)
}

/// Cuts a message to the maximum length, and returns its original length if it was longer.
fn cut(
    message: std::borrow::Cow<'static, str>,
    most: usize,
) -> (std::borrow::Cow<'static, str>, Option<u64>) {
    if message.len() <= most {
        return (message, None);
    }
    let end = message.floor_char_boundary(most);
    (message[..end].to_owned().into(), Some(message.len() as u64))
}
