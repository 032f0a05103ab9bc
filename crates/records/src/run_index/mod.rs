//! An index of a run's records, for repeated queries about one run. It is made in one pass, and
//! extended with what is written later. Answers come from the index; only the lines that they
//! contain are read from the run's file. It runs no code and changes nothing.
//!
//! Memory: 16 bytes for each record, 16 for each change of what a task waits for, about 110 for
//! each effect, and the tasks. [`RunIndex::memory`] returns the total, and [`RunIndex::extend`]
//! fails if it would exceed the limit.

mod effects;
mod index;
mod lanes;
mod lines;
mod task_list;

use std::path::{Path, PathBuf};

use tiffany_kernel::Uuid;

pub use crate::run_index::effects::{Attempt, EffectPage, EffectQuery, EffectSeen, EffectsOfName};
pub use crate::run_index::index::{RecordPage, RecordQuery};
pub use crate::run_index::lanes::{LaneShown, SliceShown, Timeline, TimelineQuery};
pub use crate::run_index::task_list::{
    ErrorStanding, StepStanding, TaskQuery, TaskStanding, TasksStanding, WaitStanding,
};

use crate::record::Record;
use crate::run_index::effects::Effects;
use crate::run_index::index::{Entry, Index};
use crate::run_index::lanes::Lanes;
use crate::run_index::lines::{Lines, Moved};
use crate::tasks::Tasks;
use tiffany_log::{Checker, Follower, LogError, LogLine};

/// How often a query is repeated if the run begins another generation meanwhile.
const TRIES: usize = 5;

/// The error of an index.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunIndexError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The run has more records than there is memory for.
    #[error(
        "run {run} has too many records to be indexed: {records} take {bytes} bytes [TFY0169]; read them as lines, with `Accept: application/x-ndjson`, or by `tiffany log`"
    )]
    TooLong {
        /// The run.
        run: Uuid,
        /// The number of records that were read.
        records: u64,
        /// The memory that they take, in bytes.
        bytes: usize,
    },
}

impl RunIndexError {
    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            RunIndexError::Log(error) => error.code(),
            RunIndexError::TooLong { .. } => "TFY0169",
        }
    }
}

/// An index of a run's records.
///
/// ```
/// # use std::sync::Arc;
/// # use tiffany_kernel::{Tid, Uuid};
/// # use tiffany_log::{Batch, Chain, RealDisk, RecordType, Settings, Stamp, Writer};
/// use tiffany_records::{RunIndex, RecordQuery};
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-run_index-{}", std::process::id()));
/// # let uuid = Uuid::from_random(7);
/// # let (mut writer, _) = Writer::open(Arc::new(RealDisk), &dir, Settings::default())?;
/// # let (mut batch, mut chain) = (Batch::new(), Chain::new(uuid));
/// # let now = Stamp::from_unix_nanos(0);
/// # batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("id", "g").str("function", "greet").json("input", "1").end();
/// # batch.line(&mut chain, &now, RecordType::TaskExit, Tid(1)).json("value", "2").end();
/// # writer.commit(&mut batch, |_| ())?;
/// # writer.close()?;
/// let mut run_index = RunIndex::new(&dir, uuid);
/// let tasks = run_index.tasks(None)?;
/// assert_eq!((tasks.is_over, tasks.tasks[0].state), (true, "completed"));
/// let ends = RecordQuery { types: vec!["TaskExit".into()], ..RecordQuery::default() };
/// assert_eq!(run_index.records(&ends)?.matched, Some(1));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RunIndex {
    root: PathBuf,
    run: Uuid,
    follower: Follower,
    most_bytes: usize,
    known: Known,
}

/// Everything that is derived from the records of a generation.
#[derive(Clone, Default)]
struct Known {
    generation: u32,
    /// The time of the first record: as text, and in microseconds since 1970.
    started: String,
    zero: u64,
    /// The time of the last record, in microseconds since the first.
    last_at: u64,
    index: Index,
    tasks: Tasks,
    lanes: Lanes,
    effects: Effects,
    /// Copies of the tasks at some records, so that a query about an earlier record need not start
    /// at the first.
    kept: Kept,
    /// The error, if there are records that could not be read.
    unread: Option<LogError>,
}

impl RunIndex {
    /// Makes an index of a run in a log directory, which may be in use. Nothing is read yet.
    pub fn new(root: &Path, run: Uuid) -> RunIndex {
        let follower = Follower::new(root, run, Checker::new(Some(run)));
        let root = root.to_path_buf();
        RunIndex { root, run, follower, most_bytes: usize::MAX, known: Known::default() }
    }

    /// Limits the memory of the index, in bytes.
    #[must_use]
    pub fn most_bytes(self, most_bytes: usize) -> RunIndex {
        RunIndex { most_bytes, ..self }
    }

    /// Reads what was written since the last call. Damage ends the reading, and is reported with
    /// every answer.
    pub fn extend(&mut self) -> Result<(), RunIndexError> {
        self.known.unread = None;
        loop {
            match self.follower.next() {
                Ok(Some(record)) => self.known.add(&record),
                Ok(None) => break,
                Err(error @ (LogError::DamagedRun { .. } | LogError::Newer { .. })) => {
                    // The line is read again next time, because the file may have been restored.
                    let checker = self.follower.checker().clone();
                    self.follower = Follower::new(&self.root, self.run, checker);
                    self.known.unread = Some(error);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            // Checked only from time to time, because computing it takes time.
            if self.known.index.len().is_multiple_of(1 << 12) {
                self.has_room()?;
            }
        }
        self.has_room()
    }

    fn has_room(&self) -> Result<(), RunIndexError> {
        let bytes = self.memory();
        match bytes <= self.most_bytes {
            true => Ok(()),
            false => {
                let records = self.last();
                Err(RunIndexError::TooLong { run: self.run, records, bytes })
            }
        }
    }

    /// Returns the number of the last record.
    pub fn last(&self) -> u64 {
        self.known.index.len()
    }

    /// Returns whether it has this record of this generation, or a later generation. If the log
    /// cannot be read any further, it has everything there is.
    pub fn reaches(&self, generation: u32, seq: u64) -> bool {
        let known = &self.known;
        known.unread.is_some() || (known.generation, self.last()) >= (generation, seq)
    }

    /// Returns whether the run is finished.
    pub fn is_over(&self) -> bool {
        self.known.tasks.is_over()
    }

    /// Returns its approximate size in memory, in bytes.
    pub fn memory(&self) -> usize {
        let Known { index, lanes, effects, kept, .. } = &self.known;
        index.memory() + lanes.memory() + effects.memory() + kept.memory()
    }

    /// Answers a query from the records known now. If the run has begun another generation
    /// meanwhile, the lines of the old one are gone, and the query is repeated.
    fn answer<T>(
        &mut self,
        make: impl Fn(&Known, &Lines<'_>) -> Result<T, Moved>,
    ) -> Result<T, RunIndexError> {
        for _ in 0..TRIES {
            self.extend()?;
            // The first line of a run that was just started may not be written yet.
            if self.last() == 0 && self.known.unread.is_none() {
                return Err(LogError::UnknownRun(self.run).into());
            }
            let lines = Lines::new(&self.root, self.run, self.known.generation);
            match make(&self.known, &lines) {
                Ok(answer) => return Ok(answer),
                Err(Moved::Generation) => {}
                Err(Moved::Log(error)) => return Err(error.into()),
            }
        }
        Err(LogError::UnknownRun(self.run).into())
    }

    /// Returns the tasks in their current state, or in their state at a record.
    pub fn tasks(&mut self, at: Option<u64>) -> Result<TasksStanding, RunIndexError> {
        self.some_tasks(&TaskQuery { at, ..TaskQuery::default() })
    }

    /// Returns some of the tasks: a page, or those that changed.
    pub fn some_tasks(&mut self, query: &TaskQuery) -> Result<TasksStanding, RunIndexError> {
        let run = self.run;
        self.answer(|known, lines| known.tasks_at(run, query, lines))
    }

    /// Returns the activity of tasks over time.
    pub fn timeline(&mut self, query: &TimelineQuery) -> Result<Timeline, RunIndexError> {
        self.answer(|known, _| Ok(known.timeline(query)))
    }

    /// Returns effects with their attempts.
    pub fn effects(&mut self, query: &EffectQuery) -> Result<EffectPage, RunIndexError> {
        self.answer(|known, lines| known.effects.page(query, &known.index, lines))
    }

    /// Returns records in the form of the log.
    pub fn records(&mut self, query: &RecordQuery) -> Result<RecordPage, RunIndexError> {
        self.answer(|known, lines| {
            let page = known.index.page(query, lines)?;
            let unread = known.unread.as_ref().map(ToString::to_string);
            Ok(RecordPage { is_over: known.tasks.is_over(), unread, ..page })
        })
    }
}

impl Known {
    fn add(&mut self, line: &LogLine<'_>) {
        let record = Record::read(line);
        if line.seq == 1 {
            *self = Known::default();
            self.generation = line.generation().unwrap_or(1);
            line.ts.clone_into(&mut self.started);
            self.zero = line.stamp().map_or(0, |stamp| stamp.unix_nanos() / 1000);
        }
        let at = self.moment(line.ts).max(self.last_at);
        self.last_at = at;
        if let Some(task) = self.tasks.all.get(&line.tid.0).filter(|_| record.is_end()) {
            self.effects.left(task.waits.keys(), at);
        }
        self.tasks.add(line, &record);
        self.index.add(Entry::of(line, &record), line.offset + line.json.len() as u64 + 1);
        self.effects.add(line, &record, at);
        self.lanes.follow(&self.tasks, line.seq, at);
        self.kept.keep(line.seq, &self.tasks);
    }

    /// Converts a timestamp to microseconds since the first record.
    fn moment(&self, ts: &str) -> u64 {
        let at = tiffany_log::Stamp::parse(ts).map(|stamp| stamp.unix_nanos() / 1000);
        at.map_or(self.last_at, |at| at.saturating_sub(self.zero))
    }
}

/// The initial number of records between two copies of the tasks.
const APART: u64 = 1 << 13;
/// The maximum number of copies. When there would be more, every second one is dropped, and copies
/// are made half as often.
const COPIES: usize = 16;

/// Copies of the tasks at some records.
#[derive(Clone)]
struct Kept {
    copies: Vec<(u64, Tasks)>,
    apart: u64,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { copies: Vec::new(), apart: APART }
    }
}

impl Kept {
    fn keep(&mut self, seq: u64, tasks: &Tasks) {
        if !seq.is_multiple_of(self.apart) {
            return;
        }
        self.copies.push((seq, tasks.clone()));
        if self.copies.len() > COPIES {
            self.apart *= 2;
            let apart = self.apart;
            self.copies.retain(|(seq, _)| seq.is_multiple_of(apart));
        }
    }

    /// Returns the last copy at or before a record.
    fn before(&self, seq: u64) -> Option<&(u64, Tasks)> {
        let after = self.copies.partition_point(|(at, _)| *at <= seq);
        self.copies[..after].last()
    }

    /// Returns the approximate size in bytes. Each copy has its own map, and the tasks that changed
    /// since the last copy, at most one per record.
    fn memory(&self) -> usize {
        let tasks = |(_, tasks): &(u64, Tasks)| {
            let count = tasks.all.len();
            count * 24 + count.min(usize::try_from(self.apart).unwrap_or(usize::MAX)) * TASK_BYTES
        };
        self.copies.iter().map(tasks).sum()
    }
}

/// The approximate size of a task with its waits, in bytes.
const TASK_BYTES: usize = 400;
