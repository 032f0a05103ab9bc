//! Steps: work of a durable run in the outside world. The result is recorded; a resumed run reads
//! it from the log and does not repeat the work.

use crate::calls::work::Origin;
use crate::calls::work::Work;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{CallKind, EffectWork, ErrorKind, Site, SystemCall, TaskError};

use crate::calls::call::TryCall;
use crate::calls::retry::Retry;
use crate::calls::written::Written;
use crate::host::attempt::Kind;
use crate::host::attempt::{Attempt, Spawner, StepError, StepJob, Tried};
use tiffany_records::value::{Json, decode, encode};

/// Does blocking work outside the run, on a thread of its own, and records its result.
///
/// In a durable run the work begins when the call is durable. If a crash interrupts it, it is
/// repeated; once its result is recorded, it never is. If repeating it is not acceptable, see
/// [`at_most_once`](Step::at_most_once).
///
/// ```
/// use tiffany::durable::step;
///
/// tiffany::try_run(async {
///     let length: usize = step("measure", || {
///         std::fs::read_to_string("/proc/self/comm").map(|text| text.len())
///     })
///     .await?;
///     assert!(length > 0);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn step<T, E, F>(name: &'static str, work: F) -> Step<T>
where
    T: Serialize + DeserializeOwned + 'static,
    E: Into<StepError>,
    F: Fn() -> Result<T, E> + Send + Sync + 'static,
{
    step_with(name, move |_| work())
}

/// Does blocking work that uses its [`Attempt`], and records its result. The attempt has the key
/// and number of the attempt, checkpoints and more.
///
/// ```
/// use tiffany::durable::step_with;
///
/// tiffany::try_run(async {
///     let order: String = step_with("order", |attempt| {
///         // A shop that is asked twice with the same key sends once.
///         Ok::<_, String>(format!("Idempotency-Key: {}", attempt.key()))
///     })
///     .await?;
///     assert!(order.len() > 17);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn step_with<T, E, F>(name: &'static str, work: F) -> Step<T>
where
    T: Serialize + DeserializeOwned + 'static,
    E: Into<StepError>,
    F: Fn(Attempt) -> Result<T, E> + Send + Sync + 'static,
{
    Step::new(name, StepJob::Blocking(Arc::new(move |attempt| tried(work(attempt)))))
}

/// Does work that is a future of another runtime, which runs there, and records its result. If no
/// task waits for it any more, it is dropped there.
///
/// ```
/// use std::time::Duration;
/// use tiffany::durable::{Spawner, step_async};
///
/// let tokio = tokio::runtime::Runtime::new()?;
/// let handle = tokio.handle().clone();
/// let spawner = Spawner::new(move |future| drop(handle.spawn(future)));
/// let answer = tiffany::try_run(async move {
///     step_async("ask", &spawner, |attempt| async move {
///         tokio::time::sleep(Duration::from_millis(1)).await;
///         Ok::<_, String>(format!("attempt {}", attempt.number()))
///     })
///     .await
/// });
/// assert_eq!(answer?, "attempt 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn step_async<T, E, F, R>(name: &'static str, spawner: &Spawner, work: F) -> Step<T>
where
    T: Serialize + DeserializeOwned + 'static,
    E: Into<StepError>,
    F: Fn(Attempt) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, E>> + Send + 'static,
{
    let work = move |attempt| -> std::pin::Pin<Box<dyn Future<Output = Tried> + Send>> {
        let future = work(attempt);
        Box::pin(async move { tried(future.await) })
    };
    Step::new(name, StepJob::Elsewhere(spawner.clone(), Arc::new(work)))
}

/// A transactional step: blocking work that is committed in a transaction of the user's own
/// database, together with its key and its result, so that it happens exactly once.
/// `tiffany-sqlite` and `tiffany-postgres` provide such steps; this function is for other
/// databases.
///
/// The work returns its result as JSON. It must look up the [key](Attempt::key) first. If the key
/// is there, it must return the result stored with it and do nothing; otherwise it must write both
/// in the same transaction as its changes. If it is unknown whether the transaction was committed,
/// it returns [`StepError::in_doubt`]: the next attempt finds out by looking up the key.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
/// use tiffany::durable::step_transactional;
///
/// /// A database that does one transaction at a time: what was sold, and the results by their keys.
/// static SHOP: Mutex<(u32, BTreeMap<String, String>)> = Mutex::new((0, BTreeMap::new()));
///
/// let sold: u32 = tiffany::try_run(async {
///     step_transactional("sell", |attempt| {
///         let mut shop = SHOP.lock()?;
///         if let Some(result) = shop.1.get(attempt.key()) {
///             return Ok(result.clone());
///         }
///         shop.0 += 1;
///         let result = attempt.to_json(&shop.0)?;
///         shop.1.insert(attempt.key().to_string(), result.clone());
///         Ok(result)
///     })
///     .await
/// })?;
/// assert_eq!(sold, 1);
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn step_transactional<T, F>(name: &'static str, work: F) -> Step<T>
where
    T: Serialize + DeserializeOwned + 'static,
    F: Fn(Attempt) -> Result<String, StepError> + Send + Sync + 'static,
{
    let work = move |attempt| -> Tried {
        let json = work(attempt)?;
        decode::<serde::de::IgnoredAny>(&json).map_err(StepError::last)?;
        Ok(Json::made_elsewhere(json))
    };
    Step::new(name, StepJob::Blocking(Arc::new(work))).transactional()
}

/// The result of an attempt, in the form in which it is recorded.
fn tried<T: Serialize, E: Into<StepError>>(result: Result<T, E>) -> Tried {
    // What can't be recorded now can't be recorded by the next attempt either.
    let json = encode(&result.map_err(Into::into)?).map_err(StepError::last)?;
    Ok(Json::made_elsewhere(json))
}

/// A step as the host gets it.
pub(crate) struct StepWork {
    pub(crate) name: &'static str,
    /// The line of the program, for errors.
    pub(crate) at: Site,
    pub(crate) job: StepJob,
    pub(crate) kind: Kind,
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) queue: Option<String>,
    pub(crate) holds_in_doubt: bool,
    /// Whether a later failure is a doubt if an attempt was interrupted.
    pub(crate) tells_doubt: bool,
}

/// A step that is about to be made.
#[must_use = "a step does nothing until it is awaited: add `.await`"]
pub struct Step<T> {
    work: StepWork,
    at: &'static Location<'static>,
    input: Option<Result<String, TaskError>>,
    /// The call as another language has it.
    origin: Option<Origin>,
    value: PhantomData<fn() -> T>,
}

impl<T> Step<T> {
    #[track_caller]
    pub(crate) fn new(name: &'static str, job: StepJob) -> Step<T> {
        let at = Location::caller();
        let work = StepWork {
            name,
            at: at.into(),
            job,
            kind: Kind::default(),
            retry: None,
            timeout: None,
            heartbeat: None,
            queue: None,
            holds_in_doubt: false,
            tells_doubt: false,
        };
        Step { work, at, input: None, origin: None, value: PhantomData }
    }

    /// Sets the input of the step. It is recorded beside the name. If a resumed run passes another
    /// input, that is an error.
    pub fn input(mut self, input: &impl Serialize) -> Step<T> {
        if !matches!(self.input, Some(Err(_))) {
            self.input = Some(encode(input));
        }
        self
    }

    /// Sets the input, which is JSON already.
    pub(crate) fn input_json(mut self, json: String) -> Step<T> {
        self.input = Some(Ok(json));
        self
    }

    /// Sets the line of the program at which the step is made, if the compiler does not know it.
    pub(crate) fn made_at(mut self, at: Site) -> Step<T> {
        self.work.at = at;
        self
    }

    /// Sets the call as another language has it.
    pub(crate) fn with_origin(mut self, origin: Origin) -> Step<T> {
        self.origin = Some(origin);
        self
    }

    /// Makes the step transactional: whether it happened is found out by looking up its key.
    pub(crate) fn transactional(mut self) -> Step<T> {
        self.work.kind = Kind::Transactional;
        self.tells_doubt()
    }

    /// The step may be repeated: after a crash it is, with the same key. This is the default.
    pub fn idempotent(self) -> Step<T> {
        self.become_kind(Kind::Idempotent)
    }

    /// The step must not be done twice. If a crash or its timeout interrupts it, it is unknown
    /// whether it happened, and its task gets the error
    /// [`InDoubt`](tiffany_kernel::ErrorKind::InDoubt). It is not retried after an error either.
    pub fn at_most_once(self) -> Step<T> {
        self.become_kind(Kind::AtMostOnce)
    }

    /// Has the task of a step in doubt wait until a person has decided, with
    /// [`Runtime::decide`](crate::runtime::Runtime::decide),
    /// [`Control::decide`](crate::control::Control::decide) or `tiffany doubt`, instead of getting
    /// an error. This is for at-most-once steps.
    pub fn hold_in_doubt(mut self) -> Step<T> {
        self.work.holds_in_doubt = true;
        self
    }

    /// Tells the task that the step may have happened, if an attempt was interrupted and a later
    /// one fails.
    pub(crate) fn tells_doubt(mut self) -> Step<T> {
        self.work.tells_doubt = true;
        self
    }

    /// The step changes nothing outside, such as a computation or reading a file. Its result is
    /// recorded, but the work does not wait for the disk before it begins.
    pub fn pure(self) -> Step<T> {
        self.become_kind(Kind::Pure)
    }

    /// Sets the kind; a transactional step stays transactional.
    fn become_kind(mut self, kind: Kind) -> Step<T> {
        if self.work.kind == Kind::Transactional {
            let message =
                format!("the step `{}` is transactional, and nothing else", self.work.name);
            self.input = Some(Err(TaskError::new(ErrorKind::BadArgument, message)));
            return self;
        }
        self.work.kind = kind;
        self
    }

    /// Sets when the step is retried after an error. Its task sees only the last error.
    pub fn retry(mut self, policy: Retry) -> Step<T> {
        self.work.retry = Some(policy);
        self
    }

    /// Sets a retry policy, unless the step has one or must not be repeated.
    pub(crate) fn retry_by_default(mut self, policy: Retry) -> Step<T> {
        if self.work.kind != Kind::AtMostOnce {
            self.work.retry.get_or_insert(policy);
        }
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.work.name
    }

    /// Sets how long an attempt may take, from when it is given to its thread or runtime. After
    /// that it counts as failed with [`TimedOut`](tiffany_kernel::ErrorKind::TimedOut); a later
    /// result is counted and dropped. Work on a thread cannot be stopped and keeps running; a
    /// future is dropped.
    pub fn timeout(mut self, timeout: Duration) -> Step<T> {
        self.work.timeout = Some(timeout);
        self
    }

    /// Sets how often an attempt must call [`Attempt::heartbeat`]. An attempt that doesn't counts
    /// as failed, as after its timeout; that is noticed after once to twice this time.
    pub fn heartbeat(mut self, every: Duration) -> Step<T> {
        self.work.heartbeat = Some(every);
        self
    }

    /// Sets the queue in which the step waits before each attempt: one of
    /// [`Builder::queue`](crate::runtime::builder::Builder::queue).
    pub fn queue(mut self, name: &str) -> Step<T> {
        self.work.queue = Some(name.into());
        self
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Step<T> {
    type Output = Result<T, TaskError>;
    type IntoFuture = TryCall<T, Written>;

    fn into_future(self) -> TryCall<T, Written> {
        self.into_call()
    }
}

impl<T> Step<T> {
    /// The call, with any decoding of its reply.
    pub(crate) fn into_call<R, D>(self) -> TryCall<R, D> {
        let Step { work, at, input, origin, .. } = self;
        let name = work.name;
        if work.kind == Kind::AtMostOnce && work.retry.is_some() {
            let message =
                format!("the step `{name}` is at most once, and has a policy to retry it");
            let error = TaskError::new(ErrorKind::BadArgument, message);
            return TryCall::bad_at(CallKind::Effect, error, at);
        }
        if work.kind != Kind::AtMostOnce && work.holds_in_doubt {
            let message = format!("the step `{name}` may be done again, so it is never in doubt");
            let error = TaskError::new(ErrorKind::BadArgument, message);
            return TryCall::bad_at(CallKind::Effect, error, at);
        }
        let about = match (work.kind.word(), input) {
            (_, Some(Err(error))) => return TryCall::bad_at(CallKind::Effect, error, at),
            (None, None) => None,
            (Some(kind), None) => Some(format!("{{\"kind\":\"{kind}\"}}")),
            (None, Some(Ok(input))) => Some(format!("{{\"input\":{input}}}")),
            (Some(kind), Some(Ok(input))) => {
                Some(format!("{{\"kind\":\"{kind}\",\"input\":{input}}}"))
            }
        };
        let about = about.map(Into::into);
        let work = Work::Step(work).boxed(origin);
        TryCall::new_at(SystemCall::Effect(EffectWork { name, about, work }), at)
    }
}
