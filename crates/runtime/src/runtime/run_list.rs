//! The loop's side of a list of runs, and of a look at one: what goes on is told from memory, and what is over by the catalogue, which has a thread of its own.

use std::sync::Arc;

use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, Run, TaskError, Time, Uuid};

use crate::control::catalogue::{Catalogue, Cataloguing, Entry, Job, Listing, Shown};
use crate::host::tell::Tell;
use crate::runtime::Runtime;
use crate::runtime::durable::{Durable, DurableState, no_log_here};
use crate::runtime::durable_runs::{Ended, Known};
use tiffany_records::errors::{log_failed, no_such_run, run_removed};
use tiffany_records::key::LogEnd;
use tiffany_records::request::{
    Answer, ErrorSummary, Parent, Row, RunDetail, RunPage, RunQuery, RunSummary, State,
    TaskSummary, find_named, moment,
};
use tiffany_records::{Outcome, RunError};

/// So many things that a run waits for are told.
const WAITS: usize = 4;

/// Who knows the runs that are over.
#[derive(Default)]
pub(crate) enum FinishedRuns {
    /// Nobody has asked yet.
    #[default]
    Unread,
    Thread(Cataloguing),
    /// In a simulation it is done on the loop's thread.
    Inline(Box<Catalogue>),
}

impl Runtime {
    /// Returns a page of the durable runs of this runtime, live and finished.
    ///
    /// ```
    /// use tiffany::control::{RunQuery, State};
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-listing-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("greet", |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) })
    ///     .build()?;
    /// let run = runtime.submit::<String>("greet", "greet-1", &"Ada")?;
    /// assert_eq!(runtime.runs(&RunQuery::default())?.runs[0].state, State::Live);
    /// runtime.wait_for(&run)?;
    /// let page = runtime.runs(&RunQuery::default())?;
    /// assert_eq!((page.runs[0].id.as_str(), page.runs[0].state), ("greet-1", State::Completed));
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn runs(&mut self, query: &RunQuery) -> Result<RunPage, RunError> {
        let (tell, told) = Tell::waited_for();
        self.list_runs(query.clone(), tell);
        match told.recv() {
            Ok(Ok(Answer::Runs(page))) => Ok(page),
            Ok(Err(error)) => Err(RunError::Failed(error)),
            _ => Err(RunError::Failed(no_log_here())),
        }
    }

    pub(crate) fn list_runs(&mut self, query: RunQuery, tell: Tell) {
        let listing = match self.listing(query) {
            Ok(listing) => listing,
            Err(error) => return tell.tell(Err(error)),
        };
        self.ask_shelf(|| Job::List(Box::new(listing), tell));
    }

    fn listing(&self, query: RunQuery) -> Result<Listing, TaskError> {
        let Some(durable) = &self.durable else { return Err(no_log_here()) };
        let mut paused = Vec::new();
        let mut removed = Vec::new();
        for (run, known) in durable.runs.unfinished() {
            if let Known::Paused(error, dormant) = known {
                let state = match dormant {
                    Some(_) => State::stopped_by(error),
                    None => State::Damaged,
                };
                paused.push((*run, Some(error.clone()), state));
            }
        }
        if query.wants(State::Removed) {
            let gone = durable.runs.iter().filter(|(_, known)| matches!(known, Known::Removed));
            removed.extend(gone.map(|(run, _)| *run));
        }
        let looked = query.look()?;
        let live = self.runs.iter().filter_map(|(_, hosted)| {
            let durable_state = hosted.durable_state.as_ref()?;
            let uuid = durable_state.journal.run();
            let error = self.refusal(uuid);
            Some(Row {
                uuid,
                id: &durable_state.beginning.id,
                function: &durable_state.beginning.function,
                state: state(durable_state, error.as_ref()),
                started: durable_state.earlier.since,
                ended: None,
                parent: durable_state.parent().map(|parent| parent.run),
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

    /// The run that is called so.
    pub(crate) fn find_run(&self, name: &str) -> Result<Uuid, TaskError> {
        let Some(durable) = &self.durable else { return Err(no_log_here()) };
        let known = |run: &Uuid| durable.runs.contains_key(run);
        find_named(name, known, |from, to| durable.runs.range(from..=to).map(|(run, _)| *run))
    }

    /// How far the log of a run is written. The answer is given when all of it is safe.
    pub(crate) fn recorded(&self, uuid: Uuid) -> Result<Answer, TaskError> {
        let Some(durable) = &self.durable else { return Err(no_log_here()) };
        let stand = match durable.runs.get(&uuid) {
            None => return Err(no_such_run(uuid)),
            Some(Known::Removed) => return Err(run_removed(uuid)),
            Some(Known::Live(id)) => {
                let durable_state = self.runs[self.places[id]].durable_state.as_ref();
                durable_state.map(|durable_state| LogEnd::of(&durable_state.journal.chain))
            }
            Some(Known::Over(stand, _)) => Some(*stand),
            Some(Known::Paused(_, dormant)) => dormant.as_ref().map(|dormant| dormant.stand()),
        };
        let (generation, seq) = stand.map_or((0, 0), |stand| (stand.generation, stand.seq));
        Ok(Answer::Recorded { generation, seq })
    }

    /// Tells of one run.
    pub(crate) fn show_run(&mut self, uuid: Uuid, tell: Tell) {
        let Some(durable) = &self.durable else { return tell.tell(Err(no_log_here())) };
        let shown = match durable.runs.get(&uuid) {
            None => return tell.tell(Err(no_such_run(uuid))),
            Some(Known::Removed) => return tell.tell(Err(run_removed(uuid))),
            Some(Known::Live(id)) => {
                let hosted = &self.runs[self.places[id]];
                let Some(durable_state) = &hosted.durable_state else {
                    return tell.tell(Err(no_such_run(uuid)));
                };
                let error = self.refusal(uuid);
                let promises = self.host.inbox.promises().open().collect::<Vec<_>>().into_iter();
                let promises = promises.filter(|(_, run)| run == id).map(|(promise, _)| promise);
                let detail = RunDetail {
                    summary: summary(&hosted.run, durable_state, error.as_ref()),
                    tasks: tasks(&hosted.run),
                    promises: promises.collect(),
                    value: None,
                    recorded: durable_state.told_as_recorded(),
                };
                return tell.tell(Ok(Answer::Shown(Box::new(detail))));
            }
            Some(Known::Paused(error, dormant)) => {
                let state = match dormant {
                    Some(_) => State::stopped_by(error),
                    None => State::Damaged,
                };
                Shown::Paused(Some(error.clone()), state)
            }
            Some(Known::Over(stand, ended)) => {
                let outcome = ended.as_ref().map(|ended| ended.outcome_as_task_error());
                Shown::Over(*stand, outcome)
            }
        };
        self.ask_shelf(|| Job::Show(uuid, shown, tell));
    }

    /// Tells why a question is not open: by the log, if there is one, which knows what was decided before this process began.
    pub(crate) fn tell_why_not_open(&mut self, approval: String, tell: Tell, error: TaskError) {
        match &self.durable {
            Some(_) => self.ask_shelf(|| Job::NotOpen(approval, tell)),
            None => tell.tell(Err(error)),
        }
    }

    fn ask_shelf(&mut self, job: impl FnOnce() -> Job) {
        let Some(durable) = &mut self.durable else { return };
        if let FinishedRuns::Unread = durable.finished_runs {
            match durable.read_shelf() {
                Ok(finished_runs) => durable.finished_runs = finished_runs,
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
        durable.finished_runs.tell(job);
    }

    /// A run is over, and its end is safe.
    pub(crate) fn keep_finished(
        &mut self,
        uuid: Uuid,
        (started, parent): (Time, Option<Parent>),
        ended: &Ended,
    ) {
        let now = self.host.clock.now();
        self.durable_mut().finished_runs.tell(|| {
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
                }),
            )
        });
    }
}

impl FinishedRuns {
    /// Tells what is asked or has changed, if there is somebody to be told.
    pub(crate) fn tell(&mut self, job: impl FnOnce() -> Job) {
        match self {
            FinishedRuns::Unread => {}
            FinishedRuns::Thread(thread) => thread.send(job()),
            FinishedRuns::Inline(catalogue) => catalogue.do_job(job()),
        }
    }
}

impl Durable {
    fn read_shelf(&mut self) -> Result<FinishedRuns, TaskError> {
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

    /// What came of it, if it is ending.
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

/// The error for a request that the system cannot start a thread for.
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
    }
}

/// Where a run stands that is not over.
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
