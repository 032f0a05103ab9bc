//! Compares two runs: record by record up to the first difference, and then task by task, by the
//! calls of each task to the outside world, regardless of the order in which tasks took turns.
//!
//! Values that differ between any two runs are shown but not compared: timestamps, seeds, turns,
//! source lines, the ids and UUIDs of runs, and the UUIDs that a run drew.

mod align;
mod detail;
mod form;
mod prefix;
mod trace;
mod values;

pub use values::Change;

use serde::Serialize;
use tiffany_kernel::Uuid;

use crate::error::RunError;
use crate::errors::{compacted, run_removed};
use crate::outline::RunOutline;
use align::align;
use detail::Details;
use form::Names;
use prefix::prefix;
use tiffany_log::{LogError, RunState, View};
use trace::{CallSeen, TaskSeen, Trace};

/// Settings of a comparison.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DiffSettings {
    /// The number of differences that are reported in full; the others are only counted.
    pub limit: usize,
}

impl Default for DiffSettings {
    fn default() -> DiffSettings {
        DiffSettings { limit: 100 }
    }
}

impl DiffSettings {
    /// Reports at most this many differences in full.
    pub fn limit(limit: usize) -> DiffSettings {
        DiffSettings { limit }
    }
}

/// The result of comparing two runs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Diff {
    /// The first run.
    pub a: Side,
    /// The second run.
    pub b: Side,
    /// The number of equal records at the beginning.
    pub same_records: u64,
    /// The first records that differ, if any do.
    pub parting: Option<Parting>,
    /// The first differences in the calls of tasks and their results.
    pub differences: Vec<Difference>,
    /// The number of further differences.
    pub more: u64,
    /// The number of tasks in both runs, where each pair counts once.
    pub tasks: u64,
    /// The number of these tasks in which something differs.
    pub differing_tasks: u64,
}

impl Diff {
    /// Returns whether nothing differs, not even the order of events.
    pub fn is_same(&self) -> bool {
        self.parting.is_none() && self.differences.is_empty()
    }
}

/// One of the two runs.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Side {
    /// Its UUID.
    pub run: String,
    /// The id it was started with.
    pub id: String,
    /// Its function.
    pub function: String,
    /// Whether it is finished.
    pub is_over: bool,
    /// Its generation. Records of earlier ones are not in the log.
    pub generation: u32,
    /// The number of records that could be read.
    pub records: u64,
    /// The reason why it could not be read completely, if so.
    pub unread: Option<String>,
}

/// The first record in which two runs differ.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Parting {
    /// The record in the first run; `None` if it has no more.
    pub a: Option<Call>,
    /// The record in the second run; `None` if it has no more.
    pub b: Option<Call>,
    /// The values that differ, if both records are of the same type and task.
    pub changes: Vec<Change>,
    /// The number of further values that differ.
    pub more_changes: u64,
}

/// A record described for people.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Call {
    /// Its number.
    pub record: u64,
    /// Its task.
    pub task: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The description.
    pub text: String,
    /// The source line, if it is a call.
    pub at: Option<String>,
}

/// A difference in a task.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The number of the task in each run, if it is in both.
    pub task: TaskEnds,
    /// Its name.
    pub name: Option<String>,
    /// The number of the call among the task's calls to the outside world, from 1, in the first run
    /// if it has the call, else in the second.
    pub call: Option<u64>,
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The call, end or message in the first run.
    pub a: Option<Call>,
    /// The call in the second run.
    pub b: Option<Call>,
    /// The values that differ.
    pub changes: Vec<Change>,
    /// The number of further values that differ.
    pub more_changes: u64,
}

/// The numbers of a task in both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TaskEnds {
    /// Its number in the first run.
    pub a: Option<u64>,
    /// Its number in the second run.
    pub b: Option<u64>,
}

/// A kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The input of the run.
    Input,
    /// The call or its arguments.
    Call,
    /// The result of the call.
    Result,
    /// Only the number of attempts; the result is the same.
    Attempts,
    /// Only one of the runs has this call.
    Only,
    /// The outcome of the task.
    End,
    /// A message that the run received.
    Message,
}

/// Compares two runs. They may be live, damaged, or in different directories.
///
/// ```
/// # use std::sync::Arc;
/// # use tiffany_log::sim::SimDisk;
/// # use tiffany_log::{Batch, Chain, RecordType, Settings, Stamp, View, Writer};
/// # use tiffany_kernel::{Tid, Uuid};
/// use tiffany_records::{DiffSettings, diff};
/// # let disk = Arc::new(SimDisk::new());
/// # let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
/// # let (mut writer, _) = Writer::open(disk.clone(), "/log".as_ref(), settings)?;
/// # let mut batch = Batch::new();
/// # let now = Stamp::from_unix_nanos(0);
/// # let (a, b) = (Uuid::from_random(7), Uuid::from_random(8));
/// # for (run, price) in [(a, "{\"price\":42}"), (b, "{\"price\":43}")] {
/// #     let mut chain = Chain::new(run);
/// #     batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("id", "x").str("function", "f").json("input", "1").end();
/// #     batch.line(&mut chain, &now, RecordType::TaskExit, Tid(1)).json("value", price).end();
/// # }
/// # writer.commit(&mut batch, |_| ())?;
/// # drop(writer);
/// let view = View::open(disk, "/log".as_ref())?;
/// let diff = diff((&view, a), (&view, b), DiffSettings::default())?;
/// assert_eq!(diff.same_records, 1);
/// assert_eq!(diff.differences[0].changes[0].path, "/value/price");
/// # Ok::<(), tiffany_records::RunError>(())
/// ```
pub fn diff(a: (&View, Uuid), b: (&View, Uuid), settings: DiffSettings) -> Result<Diff, RunError> {
    for (view, run) in [a, b] {
        let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
        if entry.state == RunState::Removed {
            return Err(RunError::Failed(run_removed(run)));
        }
        if RunOutline::at(view, run, &entry).is_ok_and(|outline| outline.compacted.is_some()) {
            return Err(RunError::Failed(compacted(run)));
        }
    }
    let names = |run: Uuid| Names::new(run.to_string());
    let open = |(view, run): (&View, Uuid)| view.reader(run).map(|reader| (reader, names(run)));
    let prefix = prefix(open(a)?, open(b)?)?;
    let read = |side| open(side).and_then(|(reader, names)| Trace::read(reader, names));
    let (trace_a, trace_b) = (read(a)?, read(b)?);
    let mut found =
        Found { limit: settings.limit, list: Vec::new(), more: 0, tasks: 0, differing: 0 };
    if prefix.parting.is_some() {
        found.compare(&trace_a, &trace_b);
    } else {
        found.tasks = trace_a.tasks.len() as u64;
    }
    let (parting_a, parting_b) = prefix.parting.unwrap_or_default();
    let wanted = |side: fn(&Spot) -> [Option<u64>; 2], parting: Option<u64>| {
        found.list.iter().flat_map(side).flatten().chain(parting).collect()
    };
    let details_a = Details::read(a, wanted(|spot| spot.records_a, parting_a))?;
    let details_b = Details::read(b, wanted(|spot| spot.records_b, parting_b))?;
    let tell = |spot: &Spot| detail::difference(spot, &details_a, &details_b);
    let parting =
        prefix.parting.map(|_| detail::parting((parting_a, &details_a), (parting_b, &details_b)));
    Ok(Diff {
        a: side(a, &trace_a),
        b: side(b, &trace_b),
        same_records: prefix.same,
        parting,
        differences: found.list.iter().map(tell).collect(),
        more: found.more,
        tasks: found.tasks,
        differing_tasks: found.differing,
    })
}

fn side((view, run): (&View, Uuid), trace: &Trace) -> Side {
    let entry = view.run(run);
    let refused = view.refused(run).map(ToString::to_string);
    Side {
        run: run.to_string(),
        id: trace.id.clone(),
        function: trace.function.clone(),
        is_over: entry.is_some_and(|entry| entry.state == RunState::Finished),
        generation: entry.map_or(1, |entry| entry.generation),
        records: trace.records,
        unread: trace.unread.as_ref().map(ToString::to_string).or(refused),
    }
}

/// A difference, with the records that show it: the call or end, and the answer.
struct Spot {
    kind: DifferenceKind,
    task: TaskEnds,
    name: Option<String>,
    call: Option<u64>,
    records_a: [Option<u64>; 2],
    records_b: [Option<u64>; 2],
    attempts: (u32, u32),
}

struct Found {
    limit: usize,
    list: Vec<Spot>,
    more: u64,
    tasks: u64,
    differing: u64,
}

/// A task in both runs; `None` in a run that lacks it.
type Both<'a> = (Option<(u64, &'a TaskSeen)>, Option<(u64, &'a TaskSeen)>);

impl Found {
    fn add(&mut self, spot: Spot) {
        match self.list.len() < self.limit {
            true => self.list.push(spot),
            false => self.more += 1,
        }
    }

    fn count(&self) -> u64 {
        self.list.len() as u64 + self.more
    }

    fn compare(&mut self, a: &Trace, b: &Trace) {
        let root = TaskEnds { a: Some(1), b: Some(1) };
        let spot = |kind, records: (Option<u64>, Option<u64>)| Spot {
            kind,
            task: root,
            name: None,
            call: None,
            records_a: [records.0, None],
            records_b: [records.1, None],
            attempts: (0, 0),
        };
        if a.start != b.start {
            self.add(spot(DifferenceKind::Input, (Some(1), Some(1))));
        }
        let names =
            a.messages.keys().chain(b.messages.keys().filter(|n| !a.messages.contains_key(*n)));
        for name in names {
            let of = |trace: &Trace| trace.messages.get(name).cloned().unwrap_or_default();
            let (left, right) = (of(a), of(b));
            for at in 0..left.len().max(right.len()) {
                let (x, y) = (left.get(at), right.get(at));
                if x.map(|x| x.1) != y.map(|y| y.1) {
                    let records = (x.map(|x| x.0), y.map(|y| y.0));
                    self.add(spot(DifferenceKind::Message, records));
                }
            }
        }
        // Pairs of tasks. Each pair adds the tasks that were spawned by corresponding calls.
        let mut todo: Vec<(Option<u64>, Option<u64>)> = vec![(Some(1), Some(1))];
        while let Some((x, y)) = todo.pop() {
            let find = |trace: &'_ Trace, tid: Option<u64>| {
                tid.filter(|tid| trace.tasks.contains_key(tid))
            };
            let (x, y) = (find(a, x), find(b, y));
            let both = (x.map(|tid| (tid, &a.tasks[&tid])), y.map(|tid| (tid, &b.tasks[&tid])));
            let before = self.count();
            let from = todo.len();
            self.task(both, &mut todo);
            todo[from..].reverse();
            self.tasks += 1;
            self.differing += u64::from(self.count() > before);
        }
    }

    fn task(&mut self, (a, b): Both<'_>, children: &mut Vec<(Option<u64>, Option<u64>)>) {
        let task = TaskEnds { a: a.map(|(tid, _)| tid), b: b.map(|(tid, _)| tid) };
        let (a, b) = (a.map(|(_, task)| task), b.map(|(_, task)| task));
        let name = a.or(b).and_then(|task| task.name.clone());
        let spot = |kind, call: Option<u64>, records_a, records_b| Spot {
            kind,
            task,
            name: name.clone(),
            call,
            records_a,
            records_b,
            attempts: (0, 0),
        };
        let calls_of =
            |task: Option<&'_ TaskSeen>| task.map_or_else(Vec::new, |task| task.calls.clone());
        let (calls_a, calls_b) = (calls_of(a), calls_of(b));
        let answer = |call: &CallSeen| (call.answer > 0).then_some(call.answer);
        align(&calls_a, &calls_b, |(i, j)| {
            let (x, y) = (i.map(|i| calls_a[i]), j.map(|j| calls_b[j]));
            let number = i.or(j).map(|at| at as u64 + 1);
            let child = |call: Option<CallSeen>| call.map(|call| call.child).filter(|tid| *tid > 0);
            if child(x).is_some() || child(y).is_some() {
                children.push((child(x), child(y)));
            }
            let records =
                |call: Option<CallSeen>| [call.map(|c| c.seq), call.and_then(|c| answer(&c))];
            // If a fork took the answer from its parent, there are no attempts to compare.
            let attempts = match (x, y) {
                (Some(x), Some(y)) if x.is_inherited || y.is_inherited => (0, 0),
                _ => (x.map_or(0, |x| x.attempts), y.map_or(0, |y| y.attempts)),
            };
            let kind = match (x, y) {
                (Some(x), Some(y)) if x.what != y.what => DifferenceKind::Call,
                (Some(x), Some(y)) if x.result != y.result => DifferenceKind::Result,
                (Some(_), Some(_)) if attempts.0 != attempts.1 => DifferenceKind::Attempts,
                (Some(_), Some(_)) => return,
                _ => DifferenceKind::Only,
            };
            self.add(Spot { attempts, ..spot(kind, number, records(x), records(y)) });
        });
        let end = |task: Option<&TaskSeen>| task.and_then(|task| task.end);
        let (x, y) = (end(a), end(b));
        if a.is_some() && b.is_some() && x.map(|x| x.1) != y.map(|y| y.1) {
            let records = |end: Option<(u64, u64)>| [end.map(|end| end.0), None];
            self.add(spot(DifferenceKind::End, None, records(x), records(y)));
        }
    }
}
