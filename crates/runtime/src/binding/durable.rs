//! Durable runs for another language: runs by UUID, and steps whose results are JSON already.

use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tiffany_kernel::{Asking, AttributeChange, Reply, Shown, Site, SystemCall, TaskError, Uuid};

use crate::calls::approve::approve;
use crate::calls::attributes::refuse_secrets;
use crate::calls::call::{Direct, TryCall};
use crate::calls::continue_as::continue_with;
use crate::calls::question::answer_json;
use crate::calls::step::Step;
use crate::calls::work::Origin;
use crate::control::Control;
use crate::host::attempt::{Attempt, Spawner, StepError, StepJob, Tried};
use crate::host::inbox::LoopMessage;
use crate::program::language::Language;
use crate::runtime::Runtime;
use crate::runtime::builder::Builder;
use crate::runtime::durable_runs::DurableRun;
use tiffany_records::RunError;
use tiffany_records::request::{Fork, Settlement};
use tiffany_records::value::Json;
use tiffany_records::value::plain::marked;

impl Builder {
    /// Sets the language of functions that are not registered, which also formats messages about
    /// durable runs.
    pub fn language(mut self, language: Rc<dyn Language>) -> Builder {
        self.registry.language = Some(language);
        self
    }
}

/// Returns an error if a tag or the name of an attribute has a secret in it.
pub fn check_attribute_changes(changes: &[AttributeChange]) -> Result<(), TaskError> {
    refuse_secrets(changes)
}

/// A durable run by its UUID, whether it exists or not.
pub fn durable_run<T>(uuid: Uuid) -> DurableRun<T> {
    DurableRun::of(uuid)
}

/// Drives all runs until this one is finished and its outcome is durable, or until `stop` returns
/// true, which is called after every wait and every few turns. Returns `None` if the run is not
/// finished. The value is JSON.
#[track_caller]
pub fn wait_for(
    runtime: &mut Runtime,
    run: Uuid,
    stop: impl Fn() -> bool,
) -> Option<Result<Arc<str>, RunError>> {
    let driven = runtime.drive_until(Location::caller(), |runtime| !runtime.is_live(run) || stop());
    match driven {
        Err(error) => Some(Err(error)),
        Ok(()) if runtime.is_live(run) => None,
        Ok(()) => Some(runtime.outcome_of(run)),
    }
}

/// Whether a durable run is not finished yet, or its outcome is not durable.
pub fn is_live(runtime: &Runtime, run: Uuid) -> bool {
    runtime.is_live(run)
}

/// Calls back with the outcome of a durable run, as JSON, once it is final and safe in the log. The
/// callback is called on the thread of the loop and must not block. It is dropped if the runtime
/// ends first.
pub fn when_ended(
    home: &crate::handle::RuntimeHandle,
    run: Uuid,
    ended: impl FnOnce(Result<Arc<str>, RunError>) + Send + 'static,
) {
    home.inbox().send(LoopMessage::Await(run, Box::new(ended)));
}

/// Returns the control for values that the codec of the language encoded.
pub fn encoded(control: Control) -> Control {
    control.encoded()
}

/// The plain JSON inside a value that came from outside the program, in which nothing is a tag.
/// `None` if a codec made the value, or if no name in it looks like a tag.
pub fn plain(json: &str) -> Option<&str> {
    marked(json)
}

/// Settles a promise of a durable run with JSON, or with an error as it is.
pub fn settle_durable(
    control: &mut Control,
    promise: Uuid,
    result: Result<Box<RawValue>, TaskError>,
) -> Result<Settlement, TaskError> {
    control.settled(None, promise, result)
}

/// Settles a promise of this fork with JSON, or with an error as it is.
pub fn settle_durable_in(
    control: &mut Control,
    run: Uuid,
    promise: Uuid,
    result: Result<Box<RawValue>, TaskError>,
) -> Result<Settlement, TaskError> {
    control.settled(Some(run), promise, result)
}

/// Forks a run at a record, and returns the UUID and the id of the fork.
pub fn fork(
    runtime: &mut Runtime,
    parent: Uuid,
    at: u64,
    fork: Fork,
) -> Result<(Uuid, String), RunError> {
    runtime.fork_named(parent, at, fork)
}

/// Forks a run at a record through a control, and returns the UUID and the id of the fork.
pub fn fork_by(
    control: &mut Control,
    parent: Uuid,
    at: u64,
    fork: Fork,
) -> Result<(Uuid, String), TaskError> {
    control.fork_named(parent, at, fork)
}

/// A fork in which the changed answer is this error.
pub fn failing(fork: Fork, error: TaskError) -> Fork {
    fork.fail_with(error)
}

/// A step whose work runs on a thread and returns JSON.
#[track_caller]
pub fn step(
    name: &'static str,
    work: impl Fn(Attempt) -> Result<String, StepError> + Send + Sync + 'static,
) -> Step<()> {
    let work = move |attempt| -> Tried { work(attempt).map(Json::made_elsewhere) };
    Step::new(name, StepJob::Blocking(Arc::new(work)))
}

/// A step whose work is a future of another runtime and returns JSON.
#[track_caller]
pub fn step_elsewhere<F, R>(name: &'static str, spawner: &Spawner, work: F) -> Step<()>
where
    F: Fn(Attempt) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, StepError>> + Send + 'static,
{
    let work = move |attempt| -> std::pin::Pin<Box<dyn Future<Output = Tried> + Send>> {
        let future = work(attempt);
        Box::pin(async move { future.await.map(Json::made_elsewhere) })
    };
    Step::new(name, StepJob::Elsewhere(spawner.clone(), Arc::new(work)))
}

/// Makes the step transactional: it is done in a transaction of the user's own database. See
/// [`step_transactional`](crate::calls::step::step_transactional).
pub fn transactional(step: Step<()>) -> Step<()> {
    step.transactional()
}

/// Attaches the call as the language has it, for the language's handlers.
pub fn with_origin(step: Step<()>, origin: Origin) -> Step<()> {
    step.with_origin(origin)
}

/// The call of a step with this JSON input, at this line. Its reply is JSON.
pub fn make_step(step: Step<()>, input: String, at: Option<Site>) -> TryCall<Reply> {
    let step = step.input_json(input);
    match at {
        Some(at) => step.made_at(at).into_call(),
        None => step.into_call(),
    }
}

/// A question to a person, with a payload that is JSON already.
pub fn asking(
    question: String,
    choices: Option<Vec<String>>,
    payload: Option<Box<RawValue>>,
    timeout: Option<Duration>,
) -> Result<Asking, TaskError> {
    let mut asks = approve(question);
    if let Some(choices) = choices {
        asks = asks.choices(choices);
    }
    if let Some(payload) = payload {
        asks = asks.payload(&payload);
    }
    if let Some(timeout) = timeout {
        asks = asks.timeout(timeout);
    }
    match asks.into_call::<Reply, Direct>().into_request()? {
        SystemCall::Approve(asking) => Ok(*asking),
        _ => unreachable!("a question is a call of its kind"),
    }
}

/// Starts the run again with this JSON input: see [`continue_as`](crate::durable::continue_as).
#[track_caller]
pub fn continue_as(input: &str) -> TryCall<Reply> {
    continue_with(input)
}

/// An error of a step after which another attempt may help.
pub fn worth_another_attempt(error: TaskError) -> StepError {
    StepError::passing(error)
}

/// Registers an answer to a question of this run, from JSON to JSON, until the run ends or another
/// one replaces it.
#[track_caller]
pub fn answer_question(
    name: &str,
    answer: impl Fn(&str) -> Result<String, String> + 'static,
) -> Result<(), TaskError> {
    let answering = answer_json(name, move |input| answer(input).map_err(TaskError::failed))?;
    // It is removed with its run.
    std::mem::forget(answering);
    Ok(())
}

/// Shows something to watchers from the work of a step.
pub fn show(attempt: &Attempt, shown: Shown) {
    attempt.show(shown.what, shown.message);
}
