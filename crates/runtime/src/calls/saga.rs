//! Sagas: steps that are undone in reverse when what they belong to fails or is cancelled. The undoing is made of steps
//! itself, so after a crash it goes on where it was. Nothing here knows of the log.
//!
//! A saga is a task of its own: a task that is cancelled may make calls only if it has a cleanup, and this is one.

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

/// How often an undo step is tried that has no policy of its own.
const UNDO_ATTEMPTS: u64 = 10;

type Undoing = Pin<Box<dyn Future<Output = Result<(), TaskError>>>>;

/// Something to undo.
#[derive(Clone)]
struct Entry {
    /// The step that it undoes.
    of: &'static str,
    how: How,
}

#[derive(Clone)]
enum How {
    Nothing,
    /// It may have to be begun more than once: a cancel takes back the step that was under way.
    Undo(Rc<dyn Fn() -> Undoing>),
    /// Nobody knows whether it happened, and nobody said what to do then.
    Doubt(TaskError),
}

/// What a saga has done so far; given to its body.
#[derive(Clone, Default)]
pub struct Saga(Rc<RefCell<Done>>);

#[derive(Default)]
struct Done {
    entries: Vec<Entry>,
    undone: Vec<&'static str>,
    not_undone: Vec<(&'static str, TaskError)>,
}

/// Does something that can be undone as a whole: if the body fails, or the task that waits for it is cancelled, what its
/// [steps](Saga::step) have done is undone, the last one first.
///
/// The undoing of each is a step with retries (ten attempts, if it has no policy of its own). If one fails all the same, the others
/// are undone nonetheless, and the error tells which could not be.
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
/// A saga runs as a task of its own. If its waiter is cancelled, or drops this (in a `timeout`, say), its body is dropped at its next call and it
/// undoes; a second cancel, or the end of [`cancel_grace`](crate::runtime::builder::Builder::cancel_grace), ends that too. What is not undone then is logged, or written to standard error where nothing is.
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
    // When this is dropped, so is the group, and its members are cancelled.
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
    /// A step of the saga, and how it is undone, given what it gave. If its work gives an error, it is not undone, as it has done nothing. If nobody knows whether it happened, because an attempt was
    /// cut off by a crash, took too long, panicked, was cancelled in the middle, or gave what cannot be written down or read, then [`undo_in_doubt`](SagaStep::undo_in_doubt) says what is done; without that it is reported.
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

    /// Something else to undo, by this step: what was done without a step of the saga.
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
                // Code of the user's: a panic in it must not keep the others from being undone.
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

    /// What the waiter is told.
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
    /// How it is undone if nobody knows whether it happened. This must do no harm if it did not.
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
            // Until its result is here it is in doubt: this may be dropped in the middle.
            let cut_off = "it was cancelled while it was under way";
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

/// Whether a step that failed with this may have been done all the same.
fn is_in_doubt(error: &TaskError) -> bool {
    use ErrorKind::{Host, InDoubt, Panicked, TimedOut, Unreadable, Unserializable};
    matches!(error.kind(), InDoubt | TimedOut | Panicked | Unserializable | Unreadable | Host)
}

/// Why a saga failed, and what was undone.
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

/// The error of the body, if all was undone.
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

/// A saga as a coroutine: its body, and then the undoing, if the body fails or the task is cancelled.
struct SagaTask<F> {
    body: Pin<Box<FutureTask<F, Fallible>>>,
    saga: Saga,
    undo: Option<Pin<Box<dyn Coroutine>>>,
}

impl<F> SagaTask<F> {
    /// Begins the undoing, after which the task ends like this.
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
                // Who waits is told what is not undone.
                Turn::Failed(error) => self.begin_undo(|_| Err(error)),
                turn => return turn,
            }
        }
        self.undo.as_mut().map_or(Turn::Pending, |undo| undo.as_mut().resume(port))
    }

    fn unwind(mut self: Pin<&mut Self>, port: &Port, phase: Unwind) -> Turn {
        if phase == Unwind::Begin {
            // What the body holds goes first. If it was being undone already, that begins anew at what was under way.
            let dropped = match self.undo.take() {
                Some(_) => Turn::Pending,
                None => self.body.as_mut().unwind(port, phase),
            };
            self.begin_undo(|saga| match (saga.0.borrow().not_undone.is_empty(), dropped) {
                (true, Turn::Failed(panic)) => Err(panic),
                (true, _) => Ok(()),
                // Nobody waits, so this is the task's own error.
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

/// A second cancel, or the end of the grace, cuts the undoing short. The log has no place for that, but somebody must know.
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
