//! Finds tasks that have waited for long for something that neither a clock nor a person decides,
//! from the records of active runs. The result for a run is cached until its file grows; no code
//! runs and no run is asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tiffany::Uuid;
use tiffany::control::{LongTurn, RunPage, RunQuery, RunSummary, SortBy, State};
use tiffany::history::{RunIndex, StepStanding, TaskStanding, TasksStanding, WaitStanding};
use tiffany::wal::Stamp;

/// How long a step, a lock or a descriptor may take before its task counts as stuck.
const INSIDE: Duration = Duration::from_secs(5 * 60);
/// How long a message or a promise, which come from outside, may take before its task counts as
/// stuck.
const OUTSIDE: Duration = Duration::from_secs(60 * 60);
/// How often, at most, the file of a long active run is read again.
const PACE: Duration = Duration::from_secs(10);
/// The size up to which the file of a run counts as small.
const SMALL: u64 = 1 << 18;
/// Runs with larger files are left out.
const LARGEST: u64 = 32 << 20;
/// The most bytes that are read for one answer.
const MAX_READ_BYTES: u64 = 64 << 20;

/// The cached waits of active runs.
pub struct Stuck {
    dir: PathBuf,
    seen: Mutex<HashMap<Uuid, Seen>>,
}

/// The waits of a run when its file had this length.
struct Seen {
    bytes: u64,
    read: Instant,
    waits: Vec<Waits>,
}

/// A task and what it waits for.
#[derive(Clone)]
struct Waits {
    tid: u64,
    name: Option<String>,
    wait: WaitStanding,
    since_us: u64,
}

/// A task that has waited for long.
#[derive(Clone, Debug, Serialize)]
pub struct StuckTask {
    pub(crate) run: String,
    /// The id that the run was started with.
    pub id: String,
    /// The function of the run.
    pub function: String,
    /// The task's id.
    pub tid: u64,
    /// The task's name.
    pub name: Option<String>,
    kind: &'static str,
    /// A description of what the task waits for.
    pub what: String,
    /// The place in the code where the task waits.
    pub at: String,
    record: u64,
    step: Option<StepStanding>,
    since: String,
    /// How long the task has waited, in seconds.
    pub seconds: u64,
}

/// Stuck tasks, the longest wait first, and how many runs were examined.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StuckTasks {
    /// The stuck tasks, up to the limit.
    pub stuck: Vec<StuckTask>,
    /// The number of stuck tasks.
    pub total: usize,
    /// The number of runs that were examined.
    pub looked_at: usize,
    /// The number of runs that were left out.
    pub left_out: usize,
    /// Long turns, which block all other tasks; the latest first.
    pub(crate) turns: Vec<LongTurn>,
}

impl StuckTasks {
    /// Adds long turns, which are passed with the oldest first.
    pub(crate) fn with_turns(self, mut turns: Vec<LongTurn>) -> StuckTasks {
        turns.reverse();
        StuckTasks { turns, ..self }
    }
}

/// Returns a query for active runs, the oldest first, since they can have waited longest.
pub fn live() -> RunQuery {
    RunQuery {
        states: vec![State::Live, State::Ending],
        sort: SortBy::Started,
        descending: false,
        limit: RunQuery::MAX_LIMIT,
        ..RunQuery::default()
    }
}

impl Stuck {
    /// Creates an empty cache for the log in this directory.
    pub fn new(dir: &Path) -> Stuck {
        Stuck { dir: dir.to_path_buf(), seen: Mutex::default() }
    }

    /// Examines active runs. `after` replaces the limits for each kind of wait.
    pub fn look(&self, page: &RunPage, after: Option<Duration>, limit: usize) -> StuckTasks {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_us = now.map_or(0, |now| now.as_micros() as u64);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *seen);
        let (mut all, mut found) = (StuckTasks::default(), Vec::new());
        let mut left = MAX_READ_BYTES;
        all.left_out = usize::try_from(page.total).unwrap_or(usize::MAX);
        for run in &page.runs {
            let known = before.remove(&run.uuid);
            let Some(known) = self.known(run.uuid, known, &mut left) else {
                continue;
            };
            all.looked_at += 1;
            all.left_out = all.left_out.saturating_sub(1);
            let stuck = known.waits.iter().filter_map(|waits| {
                let waited = Duration::from_micros(now_us.saturating_sub(waits.since_us));
                let is_long = waited >= after.or_else(|| waits.patience())?;
                is_long.then(|| waits.stuck(run, waited))
            });
            found.extend(stuck);
            seen.insert(run.uuid, known);
        }
        found.sort_by(|a, b| {
            a.since.cmp(&b.since).then_with(|| (&a.run, a.tid).cmp(&(&b.run, b.tid)))
        });
        all.total = found.len();
        found.truncate(limit);
        StuckTasks { stuck: found, ..all }
    }

    /// Returns the waits of a run: from the cache if its file is unchanged, otherwise from the file
    /// if the read budget `left` allows.
    fn known(&self, run: Uuid, known: Option<Seen>, left: &mut u64) -> Option<Seen> {
        let bytes = std::fs::metadata(self.dir.join(format!("wal/{run}.wal"))).ok()?.len();
        let is_fresh = |known: &Seen| bytes > SMALL && known.read.elapsed() < PACE;
        let known = known.filter(|known| known.bytes == bytes || is_fresh(known));
        if known.is_some() {
            return known;
        }
        if bytes > LARGEST {
            return None;
        }
        *left = left.checked_sub(bytes)?;
        let tasks = RunIndex::new(&self.dir, run).tasks(None).ok()?;
        Some(Seen { bytes, read: Instant::now(), waits: waits_of(&tasks) })
    }
}

/// Returns the tasks that wait only for something that may never happen. A task that also sleeps,
/// asks a person or waits for other tasks will continue.
fn waits_of(tasks: &TasksStanding) -> Vec<Waits> {
    let started = Stamp::parse(&tasks.started).map_or(0, |stamp| stamp.unix_nanos() / 1000);
    let waits = |task: &TaskStanding| {
        let mut open = task.waits.iter().filter(|wait| !wait.maybe_over);
        if !open.clone().all(|wait| patience_for(wait).is_some()) {
            return None;
        }
        let wait = open.next_back()?.clone();
        let since_us = started + wait.since;
        Some(Waits { tid: task.tid, name: task.name.clone(), wait, since_us })
    };
    tasks.tasks.iter().filter_map(waits).collect()
}

/// Returns how long a wait may take before it counts as stuck; `None` if there is no limit.
fn patience_for(wait: &WaitStanding) -> Option<Duration> {
    match wait.kind {
        // A refused step of a fork never completes by itself.
        "effect" if wait.step.as_ref().is_some_and(|step| step.state == "refused") => {
            Some(Duration::ZERO)
        }
        "effect" | "lock" | "io" | "other" => Some(INSIDE),
        "message" | "promise" => Some(OUTSIDE),
        _ => None,
    }
}

impl Waits {
    fn patience(&self) -> Option<Duration> {
        patience_for(&self.wait)
    }

    fn stuck(&self, run: &RunSummary, waited: Duration) -> StuckTask {
        let Waits { tid, name, wait, since_us } = self;
        StuckTask {
            run: run.uuid.to_string(),
            id: run.id.clone(),
            function: run.function.clone(),
            tid: *tid,
            name: name.clone(),
            kind: wait.kind,
            what: wait.what.clone(),
            at: wait.at.clone(),
            record: wait.record,
            step: wait.step.clone(),
            since: Stamp::from_unix_nanos(since_us * 1000).as_str().to_owned(),
            seconds: waited.as_secs(),
        }
    }
}
