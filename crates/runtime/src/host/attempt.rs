//! One attempt at a step: the data that its work gets, its result, and where it runs: on a thread
//! of the pool, or as a future on a foreign runtime. Nothing here knows of logs, queues or retries.

use std::fmt::{self, Display};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use serde::Serialize;
use tiffany_kernel::{CallRef, ErrorKind, Site, TaskError, Time, panic_text};

use crate::host::checkpoint::{Refusal, Slot};
use crate::host::chunks::Chunks;
use crate::host::inbox::{Inbox, LoopMessage};
use crate::host::panics::{self, panic_error};
use crate::host::step_output::Onlookers;
use crate::host::step_watch::StepWatch;
use crate::host::trace::Tracer;
use tiffany_log::DirLock;
use tiffany_log::sync::Mutex;
use tiffany_records::value::{Json, encode};

/// What may be done about an interrupted step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Idempotent,
    AtMostOnce,
    Transactional,
    Pure,
}

impl Kind {
    /// The word for it in the log; `None` for the usual kind.
    pub(crate) fn word(self) -> Option<&'static str> {
        (self != Kind::Idempotent).then(|| self.name())
    }

    /// The name for display.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Idempotent => "idempotent",
            Kind::AtMostOnce => "at_most_once",
            Kind::Transactional => "transactional",
            Kind::Pure => "pure",
        }
    }
}

/// One attempt at a step, for its work.
///
/// It also offers checkpoints ([`checkpoint`](Attempt::checkpoint),
/// [`last_checkpoint`](Attempt::last_checkpoint)), output for watchers ([`chunk`](Attempt::chunk),
/// [`progress`](Attempt::progress), [`log`](Attempt::log), [`output`](Attempt::output)), and its
/// key in the forms that other systems take ([`command`](Attempt::command),
/// [`idempotency_header`](Attempt::idempotency_header)).
#[derive(Clone)]
pub struct Attempt {
    pub(crate) identity: Identity,
    pub(crate) shared: Arc<Shared>,
}

/// The identity of an attempt and its step.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) call: CallRef,
    pub(crate) name: &'static str,
    pub(crate) key: Arc<str>,
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    /// Drawn when the run was started.
    pub(crate) birth: u64,
    /// The last checkpoint of an earlier attempt, as JSON.
    pub(crate) checkpoint: Option<Arc<str>>,
    /// The span for the log lines of the work.
    pub(crate) span: tracing::Span,
}

/// A moment that no clock reaches.
const NOT_BEGUN: u64 = u64::MAX;

/// The part of an attempt that the loop and the work share.
pub(crate) struct Shared {
    beat: AtomicBool,
    /// When the work began, in nanoseconds of the host's clock.
    begun: AtomicU64,
    given_up: AtomicBool,
    /// Calls that wait until a checkpoint is durable.
    pub(crate) waiting: Mutex<Vec<Weak<Slot>>>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) chunks: Option<Arc<Chunks>>,
    pub(crate) chunk_count: AtomicU64,
    pub(crate) onlookers: Onlookers,
}

impl Attempt {
    pub(crate) fn new(
        identity: Identity,
        inbox: &Arc<Inbox>,
        chunks: Option<&Arc<Chunks>>,
        onlookers: Onlookers,
    ) -> Attempt {
        let shared = Shared {
            beat: AtomicBool::new(false),
            begun: AtomicU64::new(NOT_BEGUN),
            given_up: AtomicBool::new(false),
            waiting: Mutex::default(),
            inbox: Arc::clone(inbox),
            chunks: chunks.cloned(),
            chunk_count: AtomicU64::new(0),
            onlookers,
        };
        Attempt { identity, shared: Arc::new(shared) }
    }

    /// The key of the step. It is the same for all attempts at this step, in this process and later
    /// ones, and no other step has it. A service with idempotency keys does the work once if it
    /// gets this key. In a durable run it is `<run>/<record>`.
    pub fn key(&self) -> &str {
        &self.identity.key
    }

    /// The name of the step.
    pub fn step_name(&self) -> &'static str {
        self.identity.name
    }

    /// The number of the attempt, from 1. It keeps counting after a restart.
    pub fn number(&self) -> u64 {
        self.identity.number
    }

    /// A number that was drawn when the run was started. Two runs with the same id (in different
    /// directories, or because a directory was lost) have the same keys; this number distinguishes
    /// them.
    pub fn birth(&self) -> u64 {
        self.identity.birth
    }

    /// The span for the log lines of the work.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.identity.span
    }

    pub(crate) fn shared_key(&self) -> Arc<str> {
        Arc::clone(&self.identity.key)
    }

    /// The watch over the thread that the attempt shares with others.
    pub(crate) fn step_watch(&self) -> Option<&StepWatch> {
        self.shared.inbox.step_watch.get()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.identity.kind
    }

    /// Reports that the work is still running, as
    /// [`Step::heartbeat`](crate::calls::step::Step::heartbeat) requires.
    pub fn heartbeat(&self) {
        self.shared.beat.store(true, Ordering::Relaxed);
    }

    /// Whether no task waits for this attempt any more: it timed out, its task was cancelled, or
    /// the runtime is gone. Work on a thread cannot be stopped; it can call this from time to time
    /// and end by itself.
    pub fn is_given_up(&self) -> bool {
        self.shared.given_up.load(Ordering::SeqCst)
    }

    /// A result in the form in which it is recorded, for
    /// [`step_transactional`](crate::calls::step::step_transactional). If the value has no such
    /// form, the error names the place inside the value, and the step is not retried.
    pub fn to_json(&self, value: &impl Serialize) -> Result<String, StepError> {
        encode(value).map_err(StepError::last)
    }

    /// Notes that the work begins. The wait before that counts against no timeout.
    pub(crate) fn begins(&self, now: Time) {
        self.shared.begun.store(now.as_nanos(), Ordering::Release);
    }

    /// Notes that the clock stepped ahead at this moment. Work that had begun by then keeps its
    /// age.
    pub(crate) fn clock_stepped(&self, before: Time, by: Duration) {
        let shifted = |nanos: u64| {
            let begun = (nanos != NOT_BEGUN).then(|| Time::from_nanos(nanos))?;
            (begun <= before).then(|| (begun + by).as_nanos())
        };
        let _ = self.shared.begun.fetch_update(Ordering::AcqRel, Ordering::Acquire, shifted);
    }

    /// When the work began, if it has.
    pub(crate) fn begun(&self) -> Option<Time> {
        let nanos = self.shared.begun.load(Ordering::Acquire);
        (nanos != NOT_BEGUN).then(|| Time::from_nanos(nanos))
    }

    /// Whether the work has called `heartbeat` since the last call of this function.
    pub(crate) fn has_beaten(&self) -> bool {
        self.shared.beat.swap(false, Ordering::Relaxed)
    }

    /// Notes that no task waits for the attempt any more.
    pub(crate) fn give_up(&self) {
        self.shared.given_up.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.shared.waiting.lock());
        waiting.iter().filter_map(Weak::upgrade).for_each(|slot| slot.settle(Err(Refusal::Late)));
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attempt({} at {}, {})", self.number(), self.step_name(), self.key())
    }
}

/// Why the work of a step failed, and whether it is worth another attempt. Every error that can be
/// displayed converts to one that is; [`give_up`](StepError::give_up) makes one that is not.
///
/// ```
/// use tiffany::durable::{Retry, StepError, step};
///
/// tiffany::try_run(async {
///     let answer = step("parse", || {
///         let text = std::fs::read_to_string("/proc/self/comm")?; // worth trying again
///         text.trim().parse::<u64>().map_err(StepError::give_up) // it will be the same text
///     });
///     let error = answer.retry(Retry::times(5)).await.unwrap_err();
///     assert!(error.to_string().contains("invalid digit"));
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct StepError {
    pub(crate) error: TaskError,
    pub(crate) worth: Worth,
}

/// Whether another attempt can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    Trying,
    Nothing,
}

impl StepError {
    /// An error after which the step is not retried, whatever its policy says.
    pub fn give_up(error: impl Display) -> StepError {
        StepError::last(TaskError::failed(error.to_string()))
    }

    /// An error that says that it is unknown whether the work was done, because a connection was
    /// lost during the commit, for example. Another attempt may find out; without one, the task
    /// gets [`InDoubt`](tiffany_kernel::ErrorKind::InDoubt).
    pub fn in_doubt(error: impl Display) -> StepError {
        StepError::passing(TaskError::new(ErrorKind::InDoubt, error.to_string()))
    }

    /// The error itself, as the task would get it.
    pub fn error(&self) -> &TaskError {
        &self.error
    }

    /// An error with a kind, after which the step is not retried.
    pub fn last(error: TaskError) -> StepError {
        StepError { error, worth: Worth::Nothing }
    }

    pub(crate) fn passing(error: TaskError) -> StepError {
        StepError { error, worth: Worth::Trying }
    }
}

// `StepError` must not implement `Display` itself, or this would conflict.
impl<E: Display> From<E> for StepError {
    fn from(error: E) -> StepError {
        StepError::passing(TaskError::failed(error.to_string()))
    }
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

/// The result of an attempt, as JSON.
pub(crate) type Tried = Result<Json, StepError>;

/// A future that can be moved to another runtime.
pub type SpawnedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

type Attempting = Pin<Box<dyn Future<Output = Tried> + Send>>;

/// Work on a thread of the pool.
pub(crate) type Blocking = Arc<dyn Fn(Attempt) -> Tried + Send + Sync>;

/// The work of a step. It may have to be done more than once.
#[derive(Clone)]
pub(crate) enum StepJob {
    Blocking(Blocking),
    Elsewhere(Spawner, FutureWork),
}

/// Work that is a future.
pub(crate) type FutureWork = Arc<dyn Fn(Attempt) -> Attempting + Send + Sync>;

impl StepJob {
    /// Has the work hold the lock on the directory of the log until it has ended: no other process
    /// may begin the next attempt before, even if the log of this one has failed or its runtime is
    /// gone.
    pub(crate) fn keeping(&self, lock: &Arc<dyn DirLock>) -> StepJob {
        let lock = Arc::clone(lock);
        match self {
            StepJob::Blocking(work) => {
                let work = Arc::clone(work);
                StepJob::Blocking(Arc::new(move |attempt| {
                    let _kept = &lock;
                    work(attempt)
                }))
            }
            StepJob::Elsewhere(spawner, work) => {
                let work = Arc::clone(work);
                let held = move |attempt| -> Attempting {
                    let (lock, future) = (Arc::clone(&lock), work(attempt));
                    Box::pin(async move {
                        let _kept = lock;
                        future.await
                    })
                };
                StepJob::Elsewhere(spawner.clone(), Arc::new(held))
            }
        }
    }

    /// Runs a future's work on the calling thread.
    pub(crate) fn blocking(work: &FutureWork) -> Blocking {
        let work = Arc::clone(work);
        Arc::new(move |attempt| {
            let mut future = work(attempt);
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            loop {
                match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(tried) => return tried,
                    Poll::Pending => std::thread::park(),
                }
            }
        })
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Where the futures of [`step_async`](crate::calls::step::step_async) run: any runtime that
/// accepts a `Send` future.
///
/// ```
/// use tiffany::durable::Spawner;
///
/// let tokio = tokio::runtime::Runtime::new()?;
/// let handle = tokio.handle().clone();
/// let spawner = Spawner::new(move |future| drop(handle.spawn(future)));
/// # let _ = spawner;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Spawner(Arc<dyn Fn(SpawnedFuture) + Send + Sync>);

impl Spawner {
    /// A spawner that passes futures to this function, on the thread of Tiffany's loop; it must not
    /// block.
    pub fn new(spawn: impl Fn(SpawnedFuture) + Send + Sync + 'static) -> Spawner {
        Spawner(Arc::new(spawn))
    }

    /// Starts an attempt. Its result is sent to the inbox, whatever happens to it there.
    pub(crate) fn start(
        &self,
        (call, name, at): (CallRef, &'static str, Site),
        attempt: Attempt,
        work: &FutureWork,
        inbox: &Arc<Inbox>,
    ) -> Stop {
        let stop = Stop::default();
        let number = attempt.number();
        let (work, span) = (Arc::clone(work), attempt.span().clone());
        let future = Elsewhere {
            // Created where it is polled, so that a panic in it belongs to the attempt.
            future: Some(Box::pin(async move { work(attempt).await })),
            stop: stop.clone(),
            span,
            told: Told { call, number, name, at, inbox: Some(Arc::clone(inbox)) },
        };
        let spawn = AssertUnwindSafe(|| (self.0)(Box::pin(future)));
        if let Err(payload) = catch_unwind(spawn) {
            // The future was dropped by the panic and has reported that.
            panic_text(payload);
        }
        stop
    }
}

/// Stops a future that runs elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

impl Stop {
    /// Has the future dropped where it runs, because no task waits for it any more.
    pub(crate) fn stop(&self) {
        let (stopped, waker) = &*self.0;
        stopped.store(true, Ordering::SeqCst);
        let waker = waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_stopped(&self, waker: &Waker) -> bool {
        let (stopped, kept) = &*self.0;
        // Stored before the check, so that a stop in between wakes it.
        let before = kept.lock().replace(waker.clone());
        drop(before);
        stopped.load(Ordering::SeqCst)
    }
}

/// An attempt on another runtime.
struct Elsewhere {
    future: Option<Attempting>,
    stop: Stop,
    span: tracing::Span,
    told: Told,
}

/// Reports the result to the loop once.
struct Told {
    call: CallRef,
    number: u64,
    name: &'static str,
    at: Site,
    inbox: Option<Arc<Inbox>>,
}

impl Told {
    fn tell(&mut self, tried: Tried) {
        if let Some(inbox) = self.inbox.take() {
            inbox.send(LoopMessage::Attempted(self.call, self.number, tried, None));
        }
    }
}

impl Future for Elsewhere {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        if this.stop.is_stopped(cx.waker()) {
            this.told.inbox = None;
            this.future = None;
            return Poll::Ready(());
        }
        let tried = match Tracer::inside(&this.span, || panics::noting(|| future.as_mut().poll(cx)))
        {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(tried)) => tried,
            Err(payload) => {
                let mut error = panic_error(payload, "a step panicked");
                error.add_call(this.told.name, this.told.at.clone());
                Err(StepError::passing(error))
            }
        };
        this.future = None;
        this.told.tell(tried);
        Poll::Ready(())
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let message = "the runtime that received the step dropped it before its end";
        let mut error = TaskError::new(ErrorKind::Host, message);
        error.add_call(self.told.name, self.told.at.clone());
        self.told.tell(Err(StepError::passing(error)));
    }
}
