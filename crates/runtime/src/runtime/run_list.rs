//! The runs of a runtime for display: a list, or one of them. Running runs are shown from memory;
//! finished ones by the catalogue, which has a thread of its own.

use std::sync::Arc;

use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, Run, RunId, TaskError, Time, Uuid};

use crate::control::catalogue::{Catalogue, Cataloguing, Entry, Job, Listing, Shown};
use crate::host::Host;
use crate::run_log::dormant_run::DormantRun;
use crate::runtime::durable::{Durable, DurableState, no_log_here};
use crate::runtime::durable_runs::{Ended, Known};
use crate::runtime::hosted_runs::{Hosted, HostedRuns};
use crate::runtime::steps::Effects;
use tiffany_records::errors::{log_failed, no_such_run, run_over, run_removed};
use tiffany_records::key::LogEnd;
use tiffany_records::request::{
    Answer, Doubt, ErrorSummary, Parent, Paused, Row, RunDetail, RunQuery, RunSummary, State,
    TaskSummary, find_named, moment,
};
use tiffany_records::{Outcome, RunError};

/// The maximum number of reasons for waiting that are listed for a run.
const WAITS: usize = 4;

/// The catalogue of finished runs.
#[derive(Default)]
pub(crate) enum FinishedRuns {
    /// It has not been needed yet.
    #[default]
    Unread,
    Thread(Cataloguing),
    /// In a simulation it runs on the loop's thread.
    Inline(Box<Catalogue>),
}

/// A read-only view of the runs of a runtime.
#[derive(Clone, Copy)]
pub(crate) struct RunsView<'a> {
    pub(crate) host: &'a Host,
    pub(crate) runs: &'a HostedRuns,
    pub(crate) steps: &'a Effects,
    pub(crate) durable: Option<&'a Durable>,
}

/// Where the details of a run come from.
pub(crate) enum Showing {
    /// From memory.
    Here(Box<RunDetail>),
    /// From its file, which the catalogue reads.
    OnDisk(Shown),
}

impl<'a> RunsView<'a> {
    fn durable(self) -> Result<&'a Durable, TaskError> {
        self.durable.ok_or_else(no_log_here)
    }

    /// The number of an unfinished run in this process.
    pub(crate) fn live(self, uuid: Uuid) -> Result<RunId, TaskError> {
        match self.durable()?.runs.get(&uuid) {
            Some(Known::Live(id)) if !self.has_ended(*id) => Ok(*id),
            Some(Known::Paused(error, _)) => Err(error.clone()),
            Some(Known::Removed) => Err(run_removed(uuid)),
            Some(_) => Err(run_over(uuid)),
            None => Err(no_such_run(uuid)),
        }
    }

    /// Whether the end of a run is recorded, but perhaps not durable yet.
    pub(crate) fn has_ended(self, id: RunId) -> bool {
        self.runs.durable_state(id).is_some_and(|durable_state| durable_state.is_over)
    }

    /// A durable run in memory.
    fn hosted(self, uuid: Uuid) -> Option<(&'a Hosted, &'a DurableState)> {
        let Some(Known::Live(id)) = self.durable?.runs.get(&uuid) else { return None };
        let hosted = self.runs.of(*id)?;
        Some((hosted, hosted.durable_state.as_deref()?))
    }

    /// Why a run in memory is held, if it is.
    pub(crate) fn hold_of(self, uuid: Uuid) -> Option<&'a TaskError> {
        self.durable.filter(|durable| durable.has_held)?;
        self.hosted(uuid)?.1.holding.error.as_ref()
    }

    /// Why a run in memory does not continue: it is held, or it is a fork that waits only for a
    /// permission.
    pub(crate) fn refusal(self, uuid: Uuid) -> Option<TaskError> {
        if let Some(held) = self.hold_of(uuid) {
            return Some(held.clone());
        }
        self.durable.filter(|durable| durable.has_forks)?;
        let (Hosted { run, .. }, durable_state) = self.hosted(uuid)?;
        let branch = durable_state.branch.as_ref()?;
        let is_busy = run.is_ready() || self.steps.is_busy(run.id());
        branch.refusal(uuid).filter(|_| !is_busy)
    }

    /// Whether a run is known here and its outcome is not: it is not finished, ending or paused.
    pub(crate) fn is_live(self, uuid: Uuid) -> bool {
        let known = self.durable.and_then(|durable| durable.runs.get(&uuid));
        let continues = matches!(known, Some(Known::Live(_))) && self.told(uuid).is_none();
        continues && self.refusal(uuid).is_none()
    }

    /// Whether a run in memory is a fork.
    pub(crate) fn is_fork(self, uuid: Uuid) -> bool {
        self.hosted(uuid).is_some_and(|(_, durable_state)| durable_state.branch.is_some())
    }

    /// The outcome of an ending run, once it may be reported.
    pub(crate) fn told(self, uuid: Uuid) -> Option<&'a Result<Arc<str>, RunError>> {
        self.hosted(uuid)?.1.told()
    }

    /// The runs of the log that cannot continue, and why.
    pub(crate) fn paused(self) -> impl Iterator<Item = Paused> {
        let runs = self.durable.into_iter().flat_map(|durable| durable.runs.unfinished());
        runs.filter_map(move |(run, known)| match known {
            Known::Paused(error, _) => Some(Paused { run: *run, error: error.clone() }),
            Known::Live(_) => self.refusal(*run).map(|error| Paused { run: *run, error }),
            Known::Over(..) | Known::Removed => None,
        })
    }

    /// The runs that can be written to although they are not running.
    pub(crate) fn dormant(self) -> impl Iterator<Item = &'a DormantRun> {
        self.durable.into_iter().flat_map(|durable| durable.runs.dormant())
    }

    /// The steps in doubt.
    pub(crate) fn doubts(self) -> impl Iterator<Item = Doubt> {
        let dormant = self.dormant().flat_map(|dormant| dormant.doubts().cloned());
        self.steps.in_doubt(self.runs).chain(dormant)
    }

    pub(crate) fn listing(self, query: RunQuery) -> Result<Listing, TaskError> {
        let durable = self.durable()?;
        let mut paused = Vec::new();
        let mut removed = Vec::new();
        for (run, known) in durable.runs.unfinished() {
            if let Known::Paused(error, dormant) = known {
                let state = match dormant {
                    Some(_) => State::stopped_by(error),
                    None => State::Damaged,
                };
                let attributes = dormant.as_ref().and_then(|dormant| dormant.attributes().cloned());
                paused.push((*run, Some(error.clone()), state, attributes));
            }
        }
        if query.wants(State::Removed) {
            let gone = durable.runs.iter().filter(|(_, known)| matches!(known, Known::Removed));
            removed.extend(gone.map(|(run, _)| *run));
        }
        let looked = query.look()?;
        let live = self.runs.iter().filter_map(|hosted| {
            let durable_state = hosted.durable_state.as_ref()?;
            let uuid = durable_state.uuid();
            let error = self.refusal(uuid);
            Some(Row {
                uuid,
                id: &durable_state.beginning.id,
                function: &durable_state.beginning.function,
                state: state(durable_state, error.as_ref()),
                started: durable_state.earlier.since,
                ended: None,
                parent: durable_state.parent().map(|parent| parent.run),
                attributes: hosted.run.attributes(),
                what: (&hosted.run, durable_state, error),
            })
        });
        let (rows, live_total) = looked.pick(live);
        let live = rows.into_iter().map(|row| {
            let (run, durable_state, error) = row.what;
            (row.started, summary(run, durable_state, error.as_ref()))
        });
        let live = live.collect();
        Ok(Listing { query, live, live_total, paused, removed })
    }

    /// The run with this name.
    pub(crate) fn find(self, name: &str) -> Result<Uuid, TaskError> {
        let durable = self.durable()?;
        let known = |run: &Uuid| durable.runs.contains_key(run);
        find_named(name, known, |from, to| durable.runs.range(from..=to).map(|(run, _)| *run))
    }

    /// Returns how far the log of a run is written. The answer is sent when all of that is durable.
    pub(crate) fn recorded(self, uuid: Uuid) -> Result<Answer, TaskError> {
        let stand = match self.durable()?.runs.get(&uuid) {
            None => return Err(no_such_run(uuid)),
            Some(Known::Removed) => return Err(run_removed(uuid)),
            Some(Known::Live(id)) => {
                let durable_state = self.runs.durable_state(*id);
                durable_state.map(|durable_state| LogEnd::of(&durable_state.journal.chain))
            }
            Some(Known::Over(stand, _)) => Some(*stand),
            Some(Known::Paused(_, dormant)) => dormant.as_ref().map(|dormant| dormant.stand()),
        };
        let (generation, seq) = stand.map_or((0, 0), |stand| (stand.generation, stand.seq));
        Ok(Answer::Recorded { generation, seq })
    }

    /// Returns the details of one run.
    pub(crate) fn show(self, uuid: Uuid) -> Result<Showing, TaskError> {
        Ok(Showing::OnDisk(match self.durable()?.runs.get(&uuid) {
            None => return Err(no_such_run(uuid)),
            Some(Known::Removed) => return Err(run_removed(uuid)),
            Some(Known::Live(id)) => {
                let (hosted, durable_state) = self.hosted(uuid).ok_or_else(|| no_such_run(uuid))?;
                let error = self.refusal(uuid);
                let promises = self.host.inbox.promises().open().collect::<Vec<_>>().into_iter();
                let promises = promises.filter(|(_, run)| run == id).map(|(promise, _)| promise);
                return Ok(Showing::Here(Box::new(RunDetail {
                    summary: summary(&hosted.run, durable_state, error.as_ref()),
                    tasks: tasks(&hosted.run),
                    promises: promises.collect(),
                    value: None,
                    recorded: durable_state.told_as_recorded(),
                })));
            }
            Some(Known::Paused(error, dormant)) => {
                let state = match dormant {
                    Some(_) => State::stopped_by(error),
                    None => State::Damaged,
                };
                let attributes = dormant.as_ref().and_then(|dormant| dormant.attributes().cloned());
                Shown::Paused(Some(error.clone()), state, attributes)
            }
            Some(Known::Over(stand, ended)) => {
                let outcome = ended.as_ref().map(|ended| ended.outcome_as_task_error());
                Shown::Over(*stand, outcome)
            }
        }))
    }
}

impl FinishedRuns {
    /// Passes a job on, unless the catalogue was not needed yet.
    pub(crate) fn tell(&mut self, job: impl FnOnce() -> Job) {
        match self {
            FinishedRuns::Unread => {}
            FinishedRuns::Thread(thread) => thread.send(job()),
            FinishedRuns::Inline(catalogue) => catalogue.do_job(job()),
        }
    }
}

impl Durable {
    /// Passes a question to the catalogue, which is read first if necessary.
    pub(crate) fn ask_catalogue(&mut self, job: impl FnOnce() -> Job) {
        if let FinishedRuns::Unread = self.finished_runs {
            match self.read_finished() {
                Ok(finished_runs) => self.finished_runs = finished_runs,
                Err(error) => {
                    if let Job::List(_, tell) | Job::Show(_, _, tell) | Job::NotOpen(_, tell) =
                        job()
                    {
                        tell.tell(Err(error));
                    }
                    return;
                }
            }
        }
        self.finished_runs.tell(job);
    }

    /// Adds a run to the catalogue whose end is durable.
    pub(crate) fn keep_finished(
        &mut self,
        uuid: Uuid,
        (started, parent): (Time, Option<Parent>),
        now: Time,
        ended: &Ended,
    ) {
        self.finished_runs.tell(|| {
            let (outcome, error) = ended.outcome_in_short();
            Job::Over(
                uuid,
                Box::new(Entry {
                    id: ended.beginning.id.as_ref().into(),
                    function: ended.beginning.function.as_ref().into(),
                    state: State::from(outcome),
                    started,
                    ended: Some(now),
                    error: error.map(|error| Box::new(ErrorSummary::from(&error))),
                    parent: parent.map(Box::new),
                    attributes: Some(ended.attributes.clone()).filter(|all| !all.is_empty()),
                    deadline: ended.deadline,
                }),
            )
        });
    }

    fn read_finished(&mut self) -> Result<FinishedRuns, TaskError> {
        let over = self.runs.iter().filter_map(|(run, known)| match known {
            Known::Over(stand, _) => Some((*run, *stand)),
            _ => None,
        });
        let over: Vec<_> = over.collect();
        let mut catalogue = Catalogue::new(Arc::clone(&self.disk), self.root.clone());
        if self.log.is_inline() {
            self.log.catch_up().map_err(log_failed)?;
            catalogue.read(over);
            return Ok(FinishedRuns::Inline(Box::new(catalogue)));
        }
        let started = Cataloguing::start(catalogue, over);
        started.map(FinishedRuns::Thread).map_err(|error| no_thread("the list of runs", &error))
    }
}

impl DurableState {
    pub(crate) fn parent(&self) -> Option<Parent> {
        let branch = self.branch.as_ref()?;
        Some(Parent { run: branch.parent(), at: branch.at() })
    }

    /// Why it failed, if it is ending.
    fn told_error(&self) -> Option<ErrorSummary> {
        let error = self.told()?.as_ref().err()?;
        Some(ErrorSummary::from(&as_task_error(error)))
    }

    /// The outcome, if it is ending.
    fn told_as_recorded(&self) -> Option<Result<Box<RawValue>, TaskError>> {
        match self.told()? {
            Ok(json) => RawValue::from_string(json.to_string()).ok().map(Ok),
            Err(error) => Some(Err(as_task_error(error))),
        }
    }
}

impl Ended {
    fn outcome_as_task_error(&self) -> Result<Arc<str>, TaskError> {
        self.outcome.clone().map_err(|error| as_task_error(&error))
    }

    fn outcome_in_short(&self) -> (Outcome, Option<TaskError>) {
        match &self.outcome {
            Ok(_) => (Outcome::Completed, None),
            Err(RunError::Cancelled(error)) => (Outcome::Cancelled, Some(error.clone())),
            Err(_) => (Outcome::Failed, self.outcome_as_task_error().err()),
        }
    }
}

/// The error for a request that needs a thread which the system refused.
pub(crate) fn no_thread(what: &str, error: &std::io::Error) -> TaskError {
    let message = format!("the system cannot start a thread for {what}: {error}");
    TaskError::new(ErrorKind::Host, message)
}

fn as_task_error(error: &RunError) -> TaskError {
    match error.task_error() {
        Some(error) => error.clone(),
        None => TaskError::failed(error.to_string()),
    }
}

fn summary(run: &Run, durable_state: &DurableState, error: Option<&TaskError>) -> RunSummary {
    let mut waits = Vec::new();
    let mut tasks = 0;
    for task in run.tasks() {
        tasks += usize::from(!task.state.is_terminal());
        if let Some(what) = task.waits_for.filter(|_| waits.len() < WAITS)
            && !waits.contains(&what)
        {
            waits.push(what);
        }
    }
    RunSummary {
        uuid: durable_state.journal.run(),
        id: durable_state.beginning.id.to_string(),
        function: durable_state.beginning.function.to_string(),
        state: state(durable_state, error),
        started: moment(durable_state.earlier.since),
        ended: None,
        error: error.map(ErrorSummary::from).or_else(|| durable_state.told_error()),
        tasks,
        waits,
        parent: durable_state.parent(),
        tags: run.attributes().map_or(Vec::new(), |all| all.tags.iter().cloned().collect()),
        attributes: run.attributes().map(|all| all.values.clone()).unwrap_or_default(),
        deadline: durable_state.terms.deadline.map(moment),
    }
}

/// The state of an unfinished run.
fn state(durable_state: &DurableState, refusal: Option<&TaskError>) -> State {
    match (refusal, durable_state.told()) {
        (Some(error), _) => State::stopped_by(error),
        (None, Some(_)) => State::Ending,
        (None, None) => State::Live,
    }
}

fn tasks(run: &Run) -> Vec<TaskSummary> {
    let tasks = run.tasks().into_iter().map(|task| TaskSummary {
        tid: task.label.tid.0,
        name: task.label.name,
        state: task.state.to_string(),
        waits_for: task.waits_for,
        at: task.waits_at.map(|at| at.to_string()),
    });
    tasks.collect()
}
