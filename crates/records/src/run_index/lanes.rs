//! The activity of each task over time, as marks of 16 bytes. A mark ends where the next one
//! begins, and states that took no time by the run's clock leave none.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};

use crate::run_index::Known;
use crate::tasks::{Seen, TaskSeen, Tasks};
use crate::wait_reason::{Target, Waiting};

/// What a task does or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Doing {
    Run,
    Ready,
    Sleep,
    Effect,
    Join,
    Promise,
    Message,
    Approval,
    Lock,
    Io,
    Other,
    Mixed,
}

impl Doing {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Doing::Run => "run",
            Doing::Ready => "ready",
            Doing::Sleep => "sleep",
            Doing::Effect => "effect",
            Doing::Join => "join",
            Doing::Promise => "promise",
            Doing::Message => "message",
            Doing::Approval => "approval",
            Doing::Lock => "lock",
            Doing::Io => "io",
            Doing::Other => "other",
            Doing::Mixed => "mixed",
        }
    }

    pub(crate) fn of_wait(waiting: &Waiting) -> Doing {
        match waiting.call.as_str() {
            "effect" => Doing::Effect,
            "approve" => Doing::Approval,
            "sleep" | "sleep_until" => Doing::Sleep,
            "wait" | "wait_task" | "gather" | "race" => {
                let targets = waiting.targets();
                let is_object = |target: &Target| matches!(target, Target::Object(_));
                match !targets.is_empty() && targets.iter().all(is_object) {
                    true => Doing::Promise,
                    false => Doing::Join,
                }
            }
            "join_group" => Doing::Join,
            "receive" | "receive_message" | "send" | "ask" => Doing::Message,
            "acquire" => Doing::Lock,
            "read_wait" | "write_wait" => Doing::Io,
            _ => Doing::Other,
        }
    }

    /// Returns what a task does, and the record of the call that it waits in.
    fn of_task(task: &TaskSeen, seq: u64) -> (Doing, u64) {
        let waits = task.waits.iter().rev().find(|(_, waiting)| !waiting.maybe_over);
        match waits {
            Some((record, waiting)) => (Doing::of_wait(waiting), *record),
            None if task.has_run => (Doing::Run, seq),
            None => (Doing::Ready, seq),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at: u64,
    record: u32,
    doing: Doing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) begin: u64,
    pub(crate) end: Option<u64>,
    /// The last record that changed the task.
    pub(crate) changed: u64,
    marks: Vec<Mark>,
}

/// The lanes of all tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lanes {
    all: BTreeMap<u64, Lane>,
    marks: usize,
}

impl Lanes {
    pub(crate) fn get(&self, tid: u64) -> Option<&Lane> {
        self.all.get(&tid)
    }

    pub(crate) fn memory(&self) -> usize {
        // A list has room for up to twice as many items as it contains.
        self.marks * size_of::<Mark>() * 3 / 2
            + self.all.len() * (size_of::<Lane>() + crate::run_index::TASK_BYTES)
    }

    /// Applies the changes that a record made to tasks.
    pub(crate) fn follow(&mut self, tasks: &Tasks, seq: u64, at: u64) {
        for tid in &tasks.touched {
            let Some(task) = tasks.all.get(tid) else { continue };
            let lane = self.all.entry(*tid);
            let lane = lane.or_insert_with(|| Lane { begin: at, ..Lane::default() });
            lane.changed = seq;
            let before = lane.marks.len();
            match task.state {
                Seen::Going => lane.mark(at, Doing::of_task(task, seq)),
                _ => lane.end = lane.end.or(Some(at)),
            }
            self.marks = self.marks + lane.marks.len() - before;
        }
    }
}

impl Lane {
    fn mark(&mut self, at: u64, (doing, record): (Doing, u64)) {
        let record = u32::try_from(record).unwrap_or(u32::MAX);
        // Turns are equal, whichever record they began with.
        let is_same =
            |mark: &Mark| mark.doing == doing && (mark.record == record || doing == Doing::Run);
        match self.marks.last_mut() {
            Some(last) if is_same(last) => {}
            Some(last) if last.at == at => {
                *last = Mark { at, record, doing };
                // If the states before and after are equal, the one between them took no time.
                if let [.., before, _] = self.marks[..]
                    && is_same(&before)
                {
                    self.marks.pop();
                }
            }
            _ => self.marks.push(Mark { at, record, doing }),
        }
    }

    /// Returns the slices between two moments. Adjacent slices shorter than `least` are combined.
    fn slices(&self, from: u64, to: u64, least: u64) -> Vec<SliceShown> {
        let first = self.marks.partition_point(|mark| mark.at <= from).saturating_sub(1);
        let mut shown: Vec<SliceShown> = Vec::new();
        let mut small: Option<Together> = None;
        for (place, mark) in self.marks.iter().enumerate().skip(first) {
            let end = self.marks.get(place + 1).map(|next| next.at).or(self.end);
            if mark.at > to {
                break;
            }
            // It ended before, or took no time at all.
            if end.is_some_and(|end| end <= from || end <= mark.at) {
                continue;
            }
            let slice =
                SliceShown { from: mark.at, to: end, doing: mark.doing, record: mark.record };
            let is_long = end.is_none_or(|end| end - mark.at >= least);
            match (&mut small, is_long) {
                (None, false) => small = Some(Together::new(slice)),
                (Some(together), false) => together.add(slice),
                (_, true) => {
                    shown.extend(small.take().map(Together::shown));
                    shown.push(slice);
                }
            }
            if small.as_ref().is_some_and(|small| small.took() >= least) {
                shown.extend(small.take().map(Together::shown));
            }
        }
        shown.extend(small.map(Together::shown));
        shown
    }
}

/// Adjacent slices that are too short to be shown separately.
struct Together {
    slice: SliceShown,
    /// The time of each activity.
    parts: Vec<(Doing, u64)>,
}

impl Together {
    fn new(slice: SliceShown) -> Together {
        Together { slice, parts: vec![(slice.doing, took(&slice))] }
    }

    fn add(&mut self, slice: SliceShown) {
        self.slice.to = slice.to;
        match self.parts.iter_mut().find(|(doing, _)| *doing == slice.doing) {
            Some((_, time)) => *time += took(&slice),
            None => self.parts.push((slice.doing, took(&slice))),
        }
    }

    fn took(&self) -> u64 {
        took(&self.slice)
    }

    /// Returns the combined slice. Its activity is the one that took more than half of the time, or
    /// `mixed`.
    fn shown(self) -> SliceShown {
        let most = self.parts.iter().max_by_key(|(_, time)| *time);
        let most = most.filter(|(_, time)| time * 2 > self.took() || self.parts.len() == 1);
        SliceShown { doing: most.map_or(Doing::Mixed, |(doing, _)| *doing), ..self.slice }
    }
}

fn took(slice: &SliceShown) -> u64 {
    slice.to.map_or(0, |to| to - slice.from)
}

/// A query for a timeline.
#[derive(Clone, Debug, Default)]
pub struct TimelineQuery {
    /// The beginning, in microseconds since the run's first record.
    pub from: Option<u64>,
    /// The end, in microseconds since the run's first record.
    pub to: Option<u64>,
    /// The number of slices that can be distinguished; shorter ones are combined. By default, all
    /// are returned.
    pub width: Option<u64>,
    /// Only these tasks, as inclusive ranges; if empty, all tasks.
    pub tids: Vec<(u64, u64)>,
    /// The current time, up to which an unfinished run extends; by default, the time of its last
    /// record.
    pub now: Option<SystemTime>,
}

/// The activity of tasks over time.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// When the run started, as RFC 3339. All other times count from it.
    pub started: String,
    /// The beginning of the timeline, in microseconds.
    pub begin: u64,
    /// The time of the last record, or the current time if the run is not finished, in
    /// microseconds.
    pub end: u64,
    /// The number of the last record.
    pub last: u64,
    /// Whether the run is finished.
    pub is_over: bool,
    /// The tasks that were active in that time, in the order of their numbers.
    pub lanes: Vec<LaneShown>,
    /// The error, if there are records that could not be read.
    pub unread: Option<String>,
}

/// The activity of a task.
#[derive(Clone, Debug, Serialize)]
pub struct LaneShown {
    /// The task.
    pub tid: u64,
    /// Its slices, in order.
    pub slices: Vec<SliceShown>,
}

/// A period in which a task did one thing: as JSON, `[from, to, what, record]`. If it has not
/// ended, `to` is `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceShown {
    /// When it began, in microseconds.
    pub from: u64,
    /// When it ended, in microseconds.
    pub to: Option<u64>,
    doing: Doing,
    record: u32,
}

impl SliceShown {
    /// Returns what the task did: run, ready, sleep, effect, join, promise, message, approval,
    /// lock, io, other, or mixed.
    pub fn kind(&self) -> &'static str {
        self.doing.word()
    }

    /// Returns the record with which it began.
    pub fn record(&self) -> u64 {
        self.record.into()
    }
}

impl Serialize for SliceShown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(4)?;
        tuple.serialize_element(&self.from)?;
        tuple.serialize_element(&self.to)?;
        tuple.serialize_element(self.kind())?;
        tuple.serialize_element(&self.record)?;
        tuple.end()
    }
}

impl Known {
    pub(crate) fn timeline(&self, query: &TimelineQuery) -> Timeline {
        let from = query.from.unwrap_or(0);
        let to = query.to.unwrap_or(u64::MAX);
        let is_over = self.tasks.is_over();
        let now = query.now.filter(|_| !is_over);
        let now = now.and_then(|now| now.duration_since(SystemTime::UNIX_EPOCH).ok());
        let now = now.and_then(|now| u64::try_from(now.as_micros()).ok());
        let end = now.map_or(0, |now| now.saturating_sub(self.zero)).max(self.last_at);
        let span = to.min(end.max(from)).saturating_sub(from);
        let least = query.width.map_or(0, |width| span / width.max(1));
        let is_wanted = |tid: u64| {
            let mut ranges = query.tids.iter();
            query.tids.is_empty() || ranges.any(|(first, last)| (*first..=*last).contains(&tid))
        };
        let wanted = self.lanes.all.iter().filter(|(tid, _)| is_wanted(**tid));
        let lanes = wanted.filter_map(|(tid, lane)| {
            let slices = lane.slices(from, to, least);
            (!slices.is_empty()).then_some(LaneShown { tid: *tid, slices })
        });
        Timeline {
            started: self.started.clone(),
            begin: 0,
            end,
            last: self.index.len(),
            is_over,
            lanes: lanes.collect(),
            unread: self.unread.as_ref().map(ToString::to_string),
        }
    }
}
