//! Checks runs against new code before it is deployed: [`Check`] replays all unfinished runs, and
//! [`Trial`] shows what one of them would do next. No effect begins and nothing is written.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use crate::run_log::replay::decoded_log::DecodedLog;
use crate::run_log::replay::dry_run::{Until, Upcoming};
use crate::run_log::replay::proposal::Proposal;
use crate::run_log::replay::read::fetch;
use crate::runtime::Runtime;
use crate::runtime::builder::Builder;
use tiffany_log::{LogError, RealDisk, RunState, View};
use tiffany_records::RunError;

/// A run's log, for a replay.
pub fn decode_run(view: &View, run: Uuid) -> Result<DecodedLog, LogError> {
    if let Some(error) = view.refused(run) {
        return Err(error.clone());
    }
    let mut decoded = DecodedLog::default();
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        decoded.add(&record?, &|payload| fetch(&**view.disk(), view.root(), payload))?;
    }
    Ok(decoded)
}

/// Replays runs against their logs with the present code, and reports which of them could continue,
/// and why the others could not. It is an iterator over them.
///
/// ```
/// # use tiffany::durable::{Check, receive, step};
/// # use tiffany::{Runtime, TaskError};
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-check-{}", std::process::id()));
/// async fn order(item: String) -> Result<String, TaskError> {
///     let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
///     receive(&format!("paid {price}")).await
/// }
///
/// async fn edited(item: String) -> Result<String, TaskError> {
///     let price: u32 = step("price with tax", || Ok::<u32, String>(50)).input(&item).await?;
///     receive(&format!("paid {price}")).await
/// }
///
/// let mut runtime = Runtime::builder().log_dir(&dir).register("order", order).build()?;
/// let run = runtime.submit::<String>("order", "order-1", &"tea")?;
/// runtime.flush()?;
///
/// let as_it_is = Check::open(Runtime::builder().register("order", order), &dir)?;
/// assert!(as_it_is.into_iter().all(|checked| checked.error.is_none()));
/// let mut changed = Check::open(Runtime::builder().register("order", edited), &dir)?;
/// let error = changed.next().and_then(|checked| checked.error).expect("it is another step");
/// assert_eq!(error.code(), "TFY0036");
/// # let _ = run;
/// # drop(runtime);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct Check {
    room: Runtime,
    view: View,
    left: VecDeque<Uuid>,
}

/// The result of checking a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The run.
    pub run: Uuid,
    /// The id it was started with.
    pub id: String,
    /// Its function.
    pub function: String,
    /// Why it could not continue, if it could not.
    pub error: Option<RunError>,
}

impl Check {
    /// Checks all unfinished runs in a directory. It may be in use. The builder has the functions
    /// of the program; its own log is not opened.
    pub fn open(program: Builder, dir: &Path) -> Result<Check, RunError> {
        let view = View::open(Arc::new(RealDisk), dir)?;
        Ok(Check::in_room(program.without_log().build()?, view))
    }

    /// Checks all unfinished runs of a view in a runtime without a log.
    pub fn in_room(room: Runtime, view: View) -> Check {
        let live = view.runs().filter(|(_, entry)| entry.state == RunState::Live);
        let left = live.map(|(run, _)| run).collect();
        Check { room, view, left }
    }

    /// Checks only these runs, whether they are finished or not.
    pub fn only(self, runs: impl IntoIterator<Item = Uuid>) -> Result<Check, RunError> {
        let known = |run| self.view.run(run).map(|_| run).ok_or(LogError::UnknownRun(run));
        let left = runs.into_iter().map(known).collect::<Result<_, _>>()?;
        Ok(Check { left, ..self })
    }

    fn check(&mut self, run: Uuid) -> Checked {
        let read = decode_run(&self.view, run);
        let (id, function) = match &read {
            Ok(DecodedLog { beginning, .. }) => (beginning.id.clone(), beginning.function.clone()),
            Err(_) => first_words(&self.view, run).unwrap_or_default(),
        };
        let error = read.map_err(RunError::from).and_then(|decoded| {
            let registry = &self.room.settings.registry;
            if !registry.has(&function) {
                let message = format!("no function `{function}` is registered");
                return Err(RunError::Failed(TaskError::new(ErrorKind::Unregistered, message)));
            }
            let entry = self.view.run(run).ok_or(LogError::UnknownRun(run))?;
            let tried = self.room.dry_run(&entry.chain(run), decoded, Until::TheEnd);
            let tried = tried.map_err(RunError::Failed)?;
            tried.apart.map_or(Ok(()), |apart| Err(RunError::Failed(apart)))
        });
        Checked { run, id, function, error: error.err() }
    }
}

/// The id and the function of a run that cannot be read completely.
fn first_words(view: &View, run: Uuid) -> Option<(String, String)> {
    let mut reader = view.reader(run).ok()?;
    let first = reader.next()?.ok()?;
    let field = |name: &str| {
        let (_, value) = first.fields().find(|(found, _)| *found == name)?;
        serde_json::from_str(value).ok()
    };
    Some((field("id")?, field("function")?))
}

impl Iterator for Check {
    type Item = Checked;

    fn next(&mut self) -> Option<Checked> {
        let run = self.left.pop_front()?;
        Some(self.check(run))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.len(), Some(self.left.len()))
    }
}

impl ExactSizeIterator for Check {}

/// An unfinished run, replayed with the present code as far as it gets without outside answers.
///
/// ```
/// # use tiffany::durable::{Trial, receive, step};
/// # use tiffany::{Runtime, TaskError};
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-trial-{}", std::process::id()));
/// async fn order(item: String) -> Result<String, TaskError> {
///     let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
///     receive(&format!("paid {price}")).await
/// }
///
/// let program = || Runtime::builder().register("order", order);
/// let mut runtime = program().log_dir(&dir).build()?;
/// let run = runtime.submit::<String>("order", "order-1", &"tea")?;
/// runtime.flush()?;
///
/// let trial = Trial::of(program(), &dir, run.uuid())?;
/// assert!(trial.error.is_none() && trial.outcome.is_none());
/// # drop(runtime);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trial {
    /// The run.
    pub run: Uuid,
    /// The id it was started with.
    pub id: String,
    /// Its function.
    pub function: String,
    /// The number of its outward calls that matched the log.
    pub calls: usize,
    /// The outward calls that it would make next.
    pub upcoming: Vec<Upcoming>,
    /// Its outcome, as JSON or an error, if it would end.
    pub outcome: Option<Result<String, TaskError>>,
    /// Why it could not continue, if it could not.
    pub error: Option<TaskError>,
    /// A line to add where code and log diverge.
    pub proposal: Option<Proposal>,
}

impl Trial {
    /// Tries a run of a directory, which may be in use. The builder has the functions of the
    /// program; its own log is not opened. For a finished run there is nothing to try, and the
    /// error is [`RunOver`](ErrorKind::RunOver).
    pub fn of(program: Builder, dir: &Path, run: Uuid) -> Result<Trial, RunError> {
        let view = View::open(Arc::new(RealDisk), dir)?;
        Trial::in_room(program.without_log().build()?, &view, run)
    }

    /// Tries a run of a view in a runtime without a log.
    pub fn in_room(mut room: Runtime, view: &View, run: Uuid) -> Result<Trial, RunError> {
        let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
        if entry.state != RunState::Live {
            let message = format!("run {run} is finished: it would do nothing next");
            return Err(RunError::Failed(TaskError::new(ErrorKind::RunOver, message)));
        }
        let decoded = decode_run(view, run)?;
        let (id, function) = (decoded.beginning.id.clone(), decoded.beginning.function.clone());
        let tried = room.dry_run(&entry.chain(run), decoded, Until::TheNextCalls);
        let tried = tried.map_err(RunError::Failed)?;
        Ok(Trial {
            run,
            id,
            function,
            calls: tried.matched,
            upcoming: tried.upcoming,
            outcome: tried.outcome,
            error: tried.apart,
            proposal: tried.proposal,
        })
    }
}
