//! Time travel: a run as it was at any of its records. The run is replayed up to that record, with
//! the answers of its log: no effect begins, nothing is written, and no code of its tasks is
//! unwound when the position changes.

pub(crate) mod halt;
pub(crate) mod history;
pub(crate) mod moment;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tiffany_kernel::{CallRef, RunId, Site, TaskError, TaskInfo, Tid, Uuid};

use crate::runtime::Runtime;
use crate::runtime::builder::Builder;
use crate::time_travel::travel::history::History;
pub use crate::time_travel::travel::moment::{Moment, TaskMoment};
use tiffany_log::{LogError, RealDisk, RunState, View};
use tiffany_records::RunError;
use tiffany_records::errors::{compacted, run_removed};

/// A replay of one run that can be moved to any of its records.
///
/// ```
/// # use tiffany::durable::{TimeTravel, step};
/// # use tiffany::{Runtime, TaskError};
/// # let dir = std::env::temp_dir().join(format!("tiffany-travel-{}", std::process::id()));
/// async fn order(item: String) -> Result<u32, TaskError> {
///     step("price", || Ok::<u32, String>(42)).input(&item).await
/// }
///
/// let program = || Runtime::builder().register("order", order);
/// let mut runtime = program().log_dir(&dir).build()?;
/// let run = runtime.submit::<u32>("order", "order-1", &"tea")?;
/// runtime.wait_for(&run)?;
///
/// let mut travel = TimeTravel::open(program(), &dir, run.uuid())?;
/// // Record 2 is the call of the step: its task waits for it.
/// let moment = travel.seek(2)?;
/// assert_eq!(moment.tasks[0].waits_for.as_deref(), Some("step `price`"));
/// let last = travel.records();
/// assert_eq!(travel.seek(last)?.tasks[0].state, "completed");
/// # drop(runtime);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct TimeTravel {
    room: Runtime,
    history: History,
    /// The replayed run, and the record it is at. It only moves forwards.
    here: Option<(RunId, u64)>,
    /// The lines that spawned the tasks that the log begins with.
    first: BTreeMap<Tid, Site>,
    /// The moments seen on the way to the present position, by record.
    seen: BTreeMap<u64, Moment>,
}

/// How many records before the target are looked at on the way, because the next move may be
/// backwards; fewer if there are many tasks to look at.
const BEFORE: u64 = 64;
const TASKS_LOOKED_AT: u64 = 20_000;

impl TimeTravel {
    /// Opens a run in a log directory, which may be in use. The builder has the functions of the
    /// program; its own log is not opened.
    pub fn open(program: Builder, dir: &Path, run: Uuid) -> Result<TimeTravel, RunError> {
        let view = View::open(Arc::new(RealDisk), dir)?;
        let room = program.without_log().build()?;
        TimeTravel::in_room(room, &view, run)
    }

    /// Opens a run of a view in a runtime without a log.
    pub fn in_room(room: Runtime, view: &View, run: Uuid) -> Result<TimeTravel, RunError> {
        if view.run(run).is_some_and(|entry| entry.state == RunState::Removed) {
            return Err(RunError::Failed(run_removed(run)));
        }
        let history = History::read(view, run)?;
        if history.decoded().is_compacted {
            return Err(RunError::Failed(compacted(run)));
        }
        let (first, seen) = (BTreeMap::new(), BTreeMap::new());
        Ok(TimeTravel { room, history, here: None, first, seen })
    }

    /// The run.
    pub fn run(&self) -> Uuid {
        self.history.run()
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.history.len()
    }

    /// A record as the log has it.
    pub fn record(&self, seq: u64) -> Option<&str> {
        self.history.line(seq)
    }

    /// Moves to this record, and returns the run as it was when the record was written. Whatever a
    /// task did in the same turn is included.
    pub fn seek(&mut self, seq: u64) -> Result<Moment, RunError> {
        if seq == 0 || seq > self.history.len() {
            let (run, records) = (self.history.run(), self.history.len());
            return Err(LogError::NoRecord { run, seq, records }.into());
        }
        if let Some(moment) = self.seen.get(&seq) {
            return Ok(moment.clone());
        }
        let (id, mut here) = self.set_out_for(seq)?;
        let before = BEFORE.min(TASKS_LOOKED_AT / self.history.tasks(seq));
        let mut next = seq.saturating_sub(before).max(here + 1);
        loop {
            self.here = None;
            self.go_on(id, (here, next)).map_err(RunError::Failed)?;
            self.here = Some((id, next));
            let moment = self.look(id, next);
            if next == seq {
                self.seen.retain(|record, _| record.abs_diff(seq) <= 2 * BEFORE);
                self.seen.insert(seq, moment.clone());
                return Ok(moment);
            }
            self.seen.insert(next, moment);
            (here, next) = (next, next + 1);
        }
    }

    /// A replay that is before this record.
    fn set_out_for(&mut self, seq: u64) -> Result<(RunId, u64), RunError> {
        if let Some((id, at)) = self.here
            && at < seq
            && self.can_go_on(id)
        {
            return Ok((id, at));
        }
        self.leave();
        let id = self.begin().map_err(RunError::Failed)?;
        let first = self.room.run_of(id).map_or_else(Vec::new, |run| run.tasks());
        self.first =
            first.into_iter().map(|task| (task.label.tid, task.label.spawned_at)).collect();
        Ok((id, 0))
    }

    /// The run in its present state.
    fn look(&mut self, id: RunId, seq: u64) -> Moment {
        let failures = self.failures(id);
        let steps = self.waiting_steps(id);
        let step = |call: CallRef| steps.get(&call).cloned();
        let language = self.room.settings.registry.language.as_deref();
        let mut sights = self.room.run_of(id).map_or_else(Vec::new, |run| run.sights(&step));
        for sight in &mut sights {
            // A task that has ended has no code that knows its line.
            let TaskInfo { label, state, .. } = &mut sight.info;
            if let Some(at) = self.spawned_at(label.tid).filter(|_| state.is_terminal()) {
                label.spawned_at = at.clone();
            }
        }
        let line = self.history.line(seq).unwrap_or_default();
        Moment::new(seq, line, sights, failures, language)
    }

    /// The line that spawned a task, from the log, or from the code if the log begins with the
    /// task.
    fn spawned_at(&self, tid: Tid) -> Option<&Site> {
        self.history.spawned_at(tid).or_else(|| self.first.get(&tid))
    }

    /// The next record of a task after this one.
    pub fn next_of(&self, tid: Tid, after: u64) -> Option<u64> {
        self.history.find(after, |line| line.tid == tid)
    }

    /// The record with which the run failed: the end of the task whose error it was, or that of its
    /// root. A failure that was handled does not count.
    pub fn failure(&self) -> Option<u64> {
        self.history.failure()
    }

    /// Opens the debugger of the run's language where a task failed; returns `false` if it has
    /// none.
    pub fn post_mortem(&self, error: &TaskError) -> bool {
        let language = self.room.settings.registry.language.as_deref();
        language.is_some_and(|language| language.post_mortem(error))
    }

    fn leave(&mut self) {
        if let Some((id, _)) = self.here.take() {
            self.room.forget_run(id);
        }
    }
}

impl Drop for TimeTravel {
    fn drop(&mut self) {
        self.leave();
    }
}
