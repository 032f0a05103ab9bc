//! Sagas: steps that are undone in reverse order when the whole fails or is cancelled. The undoing
//! consists of steps too, so after a crash it continues where it was. Nothing here knows of the
//! log.
//!
//! A saga is a task of its own: a task that is cancelled may make calls only if it has a cleanup,
//! and this task has one.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;

use serde::de::DeserializeOwned;
use tiffany_kernel::{
    Coroutine, ErrorKind, Port, Step as Turn, SystemCall, TaskError, Unwind, Value,
};

use crate::calls::call::TryCall;
use crate::calls::future_task::{Fallible, FutureTask, into_task_error};
use crate::calls::group::Group;
use crate::calls::retry::Retry;
use crate::calls::step::Step;
use crate::calls::sys::spawn_coroutine;
use crate::calls::task::wait_at;
use crate::host::panics::panic_error;
use tiffany_records::redact::shown;

/// How often an undo step without a policy of its own is tried.
const UNDO_ATTEMPTS: u64 = 10;

type Undoing = Pin<Box<dyn Future<Output = Result<(), TaskError>>>>;

/// An entry to undo.
#[derive(Clone)]
struct Entry {
    /// The step that the entry undoes.
    of: &'static str,
    how: How,
}

#[derive(Clone)]
enum How {
    Nothing,
    /// This may have to begin more than once: a cancel withdraws the step that was running.
    Undo(Rc<dyn Fn() -> Undoing>),
    /// It is unknown whether the step happened, and there is no undo step for this case.
    Doubt(TaskError),
}

/// The steps that a saga has done so far; passed to its body.
#[derive(Clone, Default)]
pub struct Saga(Rc<RefCell<Done>>);

#[derive(Default)]
struct Done {
    entries: Vec<Entry>,
    undone: Vec<&'static str>,
    not_undone: Vec<(&'static str, TaskError)>,
}

/// Runs steps that are undone as a whole: if the body fails, or the task that waits for it is
/// cancelled, its [steps](Saga::step) are undone, the last one first.
///
/// The undo steps are retried (ten attempts, if they have no policy of their own). If one fails
/// nevertheless, the others still run, and the error names those that failed.
///
/// ```
/// use tiffany::TaskError;
/// use tiffany::durable::{saga, step};
///
/// let error = tiffany::run(async {
///     saga(async |saga| {
///         let flight: u32 = saga
///             .step(step("book flight", || Ok::<_, String>(17)), |flight| {
///                 step("unbook flight", move || Ok::<_, String>(format!("{flight} is free")))
///             })
///             .await?;
///         let _room: u32 = step("book hotel", || Err::<u32, _>("no room")).await?;
///         Ok::<u32, TaskError>(flight)
///     })
///     .await
///     .unwrap_err()
/// })?;
/// assert_eq!(error.cause().message(), "no room");
/// assert_eq!(error.undone(), ["book flight"]);
/// # Ok::<(), tiffany::RunError>(())
/// ```
///
/// A saga runs as a task of its own. If its waiter is cancelled, or drops this (in a `timeout`, for
/// example), its body is dropped at its next call and its steps are undone. A second cancel, or the
/// end of [`cancel_grace`](crate::runtime::builder::Builder::cancel_grace), stops that too. Steps
/// that are not undone then are logged, or written to standard error if there is no log.
#[track_caller]
pub fn saga<T, E, F>(body: F) -> impl Future<Output = Result<T, SagaError>>
where
    T: 'static,
    E: Display + 'static,
    F: AsyncFnOnce(&Saga) -> Result<T, E> + 'static,
{
    let at = Location::caller();
    run_saga(body, at)
}

async fn run_saga<T, E, F>(body: F, at: &'static Location<'static>) -> Result<T, SagaError>
where
    T: 'static,
    E: Display + 'static,
    F: AsyncFnOnce(&Saga) -> Result<T, E> + 'static,
{
    let saga = Saga::default();
    // Dropping this drops the group, which cancels its members.
    let members: TryCall<Group> = TryCall::new_at(SystemCall::CreateGroup, at);
    let members = members.await.map_err(|error| saga.error(error))?;
    let given = saga.clone();
    let body = async move { body(&given).await.map_err(into_task_error) };
    let body = Box::pin(FutureTask::<_, Fallible>::new(body));
    let task = SagaTask { body, saga: saga.clone(), undo: None };
    let task = spawn_coroutine::<T>(Box::pin(task), at).name("saga").group(&members);
    let task = task.checked().await.map_err(|error| saga.error(error))?;
    wait_at(task, at).await.map_err(|error| saga.error(error))
}

impl Saga {
    /// A step of the saga, and how to undo it, given its result. If its work returns an error,
    /// there is nothing to undo. If it is unknown whether the step happened (because an attempt was
    /// interrupted by a crash, timed out, panicked, was cancelled, or returned a value that can't
    /// be recorded or read), then [`undo_in_doubt`](SagaStep::undo_in_doubt) decides what is done;
    /// without it the step is reported as not undone.
    #[track_caller]
    pub fn step<T, U, F>(&self, step: Step<T>, undo: F) -> SagaStep<T>
    where
        T: Clone + DeserializeOwned + 'static,
        U: DeserializeOwned + 'static,
        F: Fn(T) -> Step<U> + 'static,
    {
        let undo = Rc::new(move |value| -> Undoing { undoing(undo(value)) });
        SagaStep { saga: self.clone(), step, undo, in_doubt: None }
    }

    /// Adds an undo step for something that was done outside the steps of the saga.
    pub fn on_failure<U, F>(&self, of: &'static str, undo: F)
    where
        U: DeserializeOwned + 'static,
        F: Fn() -> Step<U> + 'static,
    {
        self.enter(of, How::Undo(Rc::new(move || undoing(undo()))));
    }

    fn enter(&self, of: &'static str, how: How) -> usize {
        let mut done = self.0.borrow_mut();
        done.entries.push(Entry { of, how });
        done.entries.len() - 1
    }

    /// Undoes everything, the last first.
    async fn undo(&self) {
        loop {
            let last = self.0.borrow().entries.last().cloned();
            let Some(Entry { of, how }) = last else { return };
            let undone = match how {
                How::Nothing => None,
                How::Doubt(doubt) => Some(Err(doubt)),
                // User code: a panic in it must not keep the others from being undone.
                How::Undo(undo) => Some(match catch_unwind(AssertUnwindSafe(|| undo())) {
                    Ok(undoing) => undoing.await,
                    Err(payload) => Err(panic_error(payload, "the undoing panicked")),
                }),
            };
            let mut done = self.0.borrow_mut();
            done.entries.pop();
            match undone {
                None => {}
                Some(Ok(())) => done.undone.push(of),
                Some(Err(why)) => done.not_undone.push((of, why)),
            }
        }
    }

    /// The error for the waiter.
    fn error(&self, cause: TaskError) -> SagaError {
        let done = self.0.borrow();
        SagaError { cause, undone: done.undone.clone(), not_undone: done.not_undone.clone() }
    }
}

/// An undo step, with its retries.
fn undoing<U: DeserializeOwned + 'static>(step: Step<U>) -> Undoing {
    let step = step.retry_by_default(Retry::times(UNDO_ATTEMPTS));
    Box::pin(async move { step.await.map(drop) })
}

/// A step of a saga that is about to be made.
#[must_use = "a step does nothing until it is awaited: add `.await`"]
pub struct SagaStep<T> {
    saga: Saga,
    step: Step<T>,
    undo: Rc<dyn Fn(T) -> Undoing>,
    in_doubt: Option<Rc<dyn Fn() -> Undoing>>,
}

impl<T> SagaStep<T> {
    /// Sets how the step is undone if it is unknown whether it happened. This must do no harm if it
    /// did not.
    pub fn undo_in_doubt<U, F>(mut self, undo: F) -> SagaStep<T>
    where
        U: DeserializeOwned + 'static,
        F: Fn() -> Step<U> + 'static,
    {
        self.in_doubt = Some(Rc::new(move || undoing(undo())));
        self
    }
}

impl<T: Clone + DeserializeOwned + 'static> IntoFuture for SagaStep<T> {
    type Output = Result<T, TaskError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, TaskError>>>>;

    fn into_future(self) -> Self::IntoFuture {
        let SagaStep { saga, step, undo, in_doubt } = self;
        let name = step.name();
        let made = step.tells_doubt().into_future();
        Box::pin(async move {
            // The step is in doubt until its result arrives, because this future may be dropped
            // before.
            let cut_off = "it was cancelled while it was running";
            let how = match in_doubt {
                Some(undo) => How::Undo(undo),
                None => How::Doubt(TaskError::new(ErrorKind::InDoubt, cut_off)),
            };
            let place = saga.enter(name, how);
            let result = made.await;
            let mut done = saga.0.borrow_mut();
            // Nothing is undone while the body runs.
            let how = &mut done.entries[place].how;
            match (&result, how) {
                (Ok(value), how) => {
                    let value = value.clone();
                    *how = How::Undo(Rc::new(move || undo(value.clone())));
                }
                (Err(why), how) if !is_in_doubt(why) => *how = How::Nothing,
                (Err(why), How::Doubt(doubt)) => *doubt = why.clone(),
                (Err(_), _) => {}
            }
            result
        })
    }
}

/// Whether a step that failed with this error may have happened nevertheless.
fn is_in_doubt(error: &TaskError) -> bool {
    use ErrorKind::{Host, InDoubt, Panicked, TimedOut, Unreadable, Unserializable};
    matches!(error.kind(), InDoubt | TimedOut | Panicked | Unserializable | Unreadable | Host)
}

/// Why a saga failed, and which steps were undone.
#[derive(Clone, Debug)]
pub struct SagaError {
    cause: TaskError,
    undone: Vec<&'static str>,
    not_undone: Vec<(&'static str, TaskError)>,
}

impl SagaError {
    /// The error of the body.
    pub fn cause(&self) -> &TaskError {
        &self.cause
    }

    /// The names of the steps that were undone, in that order.
    pub fn undone(&self) -> &[&'static str] {
        &self.undone
    }

    /// The names of the steps that could not be undone, and why.
    pub fn not_undone(&self) -> &[(&'static str, TaskError)] {
        &self.not_undone
    }
}

impl Display for SagaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&TaskError::from(self.clone()), f)
    }
}

impl std::error::Error for SagaError {}

/// The error of the body, if everything was undone.
impl From<SagaError> for TaskError {
    fn from(error: SagaError) -> TaskError {
        if error.not_undone.is_empty() || error.cause.kind() == ErrorKind::NotUndone {
            return error.cause;
        }
        let names: Vec<String> = error
            .not_undone
            .iter()
            .map(|(of, why)| format!("`{of}` ({})", why.message()))
            .collect();
        let (cause, names) = (error.cause.message(), names.join(", "));
        TaskError::new(ErrorKind::NotUndone, format!("{cause}; not undone: {names}"))
    }
}

/// A saga as a coroutine: its body, and then the undoing, if the body fails or the task is
/// cancelled.
struct SagaTask<F> {
    body: Pin<Box<FutureTask<F, Fallible>>>,
    saga: Saga,
    undo: Option<Pin<Box<dyn Coroutine>>>,
}

impl<F> SagaTask<F> {
    /// Begins the undoing, after which the task ends in this way.
    fn begin_undo(&mut self, end: impl FnOnce(&Saga) -> Result<(), TaskError> + 'static) {
        let saga = self.saga.clone();
        self.undo = Some(Box::pin(FutureTask::<_, Fallible>::new(async move {
            saga.undo().await;
            end(&saga)
        })));
    }
}

impl<F, T> Coroutine for SagaTask<F>
where
    F: Future<Output = Result<T, TaskError>>,
    T: 'static,
{
    fn resume(mut self: Pin<&mut Self>, port: &Port) -> Turn {
        if self.undo.is_none() {
            match self.body.as_mut().resume(port) {
                // The waiter is told what is not undone.
                Turn::Failed(error) => self.begin_undo(|_| Err(error)),
                turn => return turn,
            }
        }
        self.undo.as_mut().map_or(Turn::Pending, |undo| undo.as_mut().resume(port))
    }

    fn unwind(mut self: Pin<&mut Self>, port: &Port, phase: Unwind) -> Turn {
        if phase == Unwind::Begin {
            // What the body holds is dropped first. If the undoing had begun, it continues from the
            // step that was running.
            let dropped = match self.undo.take() {
                Some(_) => Turn::Pending,
                None => self.body.as_mut().unwind(port, phase),
            };
            self.begin_undo(|saga| match (saga.0.borrow().not_undone.is_empty(), dropped) {
                (true, Turn::Failed(panic)) => Err(panic),
                (true, _) => Ok(()),
                // There is no waiter, so this is the task's own error.
                (false, _) => {
                    let message = "the saga was cancelled";
                    Err(saga.error(TaskError::new(ErrorKind::TaskCancelled, message)).into())
                }
            });
        }
        self.undo.as_mut().map_or(Turn::Done(Value::Unit), |undo| undo.as_mut().resume(port))
    }

    fn may_be_woken(&self) -> bool {
        match &self.undo {
            Some(undo) => undo.may_be_woken(),
            None => self.body.may_be_woken(),
        }
    }
}

/// A second cancel, or the end of the grace period, cuts the undoing short. The log has no place
/// for that, so it is reported here.
impl<F> Drop for SagaTask<F> {
    fn drop(&mut self) {
        let Some(done) = self.undo.as_ref().and_then(|_| self.saga.0.try_borrow().ok()) else {
            return;
        };
        let left = done.entries.iter().filter(|entry| !matches!(entry.how, How::Nothing));
        let left: Vec<&str> = left.map(|entry| entry.of).collect();
        if left.is_empty() {
            return;
        }
        let text =
            format!("a saga was cut short, and these are not undone: `{}`", left.join("`, `"));
        let text = shown(text);
        match tracing::enabled!(target: "tiffany", tracing::Level::ERROR) {
            true => {
                tracing::error!(target: "tiffany", code = ErrorKind::NotUndone.code(), "{text}")
            }
            false => eprintln!("tiffany: {text} [{}]", ErrorKind::NotUndone.code()),
        }
    }
}
