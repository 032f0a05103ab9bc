//! One attempt at a step: what the work is told, what it gives back, and where it is done: on a thread of the pool,
//! or as a future on somebody else's runtime. Nothing here knows of logs, queues or retries.

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

/// What may be done about a step that was cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Idempotent,
    AtMostOnce,
    Transactional,
    Pure,
}

impl Kind {
    /// What the log calls it; nothing for what is usual.
    pub(crate) fn word(self) -> Option<&'static str> {
        (self != Kind::Idempotent).then(|| self.name())
    }

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Idempotent => "idempotent",
            Kind::AtMostOnce => "at_most_once",
            Kind::Transactional => "transactional",
            Kind::Pure => "pure",
        }
    }
}

/// One attempt at a step, as its work sees it.
///
/// Besides this it has checkpoints ([`checkpoint`](Attempt::checkpoint), [`last_checkpoint`](Attempt::last_checkpoint)), a stream to those who
/// watch ([`chunk`](Attempt::chunk), [`progress`](Attempt::progress), [`log`](Attempt::log), [`output`](Attempt::output)), and its key in the form that others take it
/// ([`command`](Attempt::command), [`idempotency_header`](Attempt::idempotency_header)).
#[derive(Clone)]
pub struct Attempt {
    pub(crate) identity: Identity,
    pub(crate) shared: Arc<Shared>,
}

/// Which attempt at which step it is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) call: CallRef,
    pub(crate) name: &'static str,
    pub(crate) key: Arc<str>,
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    /// Drawn when its run was started.
    pub(crate) birth: u64,
    /// What an earlier attempt kept, as JSON.
    pub(crate) checkpoint: Option<Arc<str>>,
    /// What its work logs is in this.
    pub(crate) span: tracing::Span,
}

/// A moment that no clock shows.
const NOT_BEGUN: u64 = u64::MAX;

/// What the loop and the work both see of an attempt.
pub(crate) struct Shared {
    beat: AtomicBool,
    /// When the work began, in nanoseconds of the host's clock.
    begun: AtomicU64,
    given_up: AtomicBool,
    /// Who waits for a checkpoint to be safe.
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

    /// The same for all attempts at this step, in this process and in later ones, and no other step's. Who gives it to
    /// a service that knows such keys has the work done once there. In a durable run it is `<run>/<record>`.
    pub fn key(&self) -> &str {
        &self.identity.key
    }

    /// The name of the step.
    pub fn step_name(&self) -> &'static str {
        self.identity.name
    }

    /// The number of the attempt, from 1. It goes on counting after a restart.
    pub fn number(&self) -> u64 {
        self.identity.number
    }

    /// A number that was drawn when the run was started. Two runs of the same id, in different directories or because a
    /// directory was lost, have the same keys; by this they can be told apart.
    pub fn birth(&self) -> u64 {
        self.identity.birth
    }

    /// What its work logs is in this.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.identity.span
    }

    pub(crate) fn shared_key(&self) -> Arc<str> {
        Arc::clone(&self.identity.key)
    }

    /// What watches it where it shares a thread with others.
    pub(crate) fn step_watch(&self) -> Option<&StepWatch> {
        self.shared.inbox.step_watch.get()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.identity.kind
    }

    /// Says that the work goes on, where [`Step::heartbeat`](crate::calls::step::Step::heartbeat) wants to hear so.
    pub fn heartbeat(&self) {
        self.shared.beat.store(true, Ordering::Relaxed);
    }

    /// Whether nobody waits for this attempt any more: its time is over, its task was cancelled, or the runtime is gone. Work on a
    /// thread cannot be stopped; it can look here now and then and end by itself.
    pub fn is_given_up(&self) -> bool {
        self.shared.given_up.load(Ordering::SeqCst)
    }

    /// A result in the form in which it is written down, for [`step_transactional`](crate::calls::step::step_transactional). If it has none, the error names the place
    /// inside the value, and the step is not tried again.
    pub fn to_json(&self, value: &impl Serialize) -> Result<String, StepError> {
        encode(value).map_err(StepError::last)
    }

    /// The work begins now. Time before that is waiting, and counts against no timeout.
    pub(crate) fn begins(&self, now: Time) {
        self.shared.begun.store(now.as_nanos(), Ordering::Release);
    }

    /// The clock stepped ahead from this moment: work that had begun by then began as long ago as before.
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

    /// Whether the work has said since this was last asked that it goes on.
    pub(crate) fn has_beaten(&self) -> bool {
        self.shared.beat.swap(false, Ordering::Relaxed)
    }

    /// Nobody waits for it any more.
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

/// Why the work of a step failed, and whether it is worth another attempt. Every error that can be shown becomes one that is; what
/// will not get better by trying is marked with [`give_up`](StepError::give_up).
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
    /// An error after which the step is not tried again, whatever its policy says.
    pub fn give_up(error: impl Display) -> StepError {
        StepError::last(TaskError::failed(error.to_string()))
    }

    /// Nobody knows whether the work was done: a connection was lost while it was being confirmed, say. Another attempt may find out;
    /// without one, the task gets [`InDoubt`](tiffany_kernel::ErrorKind::InDoubt).
    pub fn in_doubt(error: impl Display) -> StepError {
        StepError::passing(TaskError::new(ErrorKind::InDoubt, error.to_string()))
    }

    /// The error itself, as the task would be given it.
    pub fn error(&self) -> &TaskError {
        &self.error
    }

    /// The same with an error that has a kind.
    pub fn last(error: TaskError) -> StepError {
        StepError { error, worth: Worth::Nothing }
    }

    pub(crate) fn passing(error: TaskError) -> StepError {
        StepError { error, worth: Worth::Trying }
    }
}

// It is not `Display` itself, or this could not be.
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

/// What came of an attempt: the result as JSON.
pub(crate) type Tried = Result<Json, StepError>;

/// A future that another runtime can take over.
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
    /// The same work, which holds the directory of the log until it has ended: no other process may begin the next
    /// attempt before that, even if this one's log has failed or its runtime is gone.
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

    /// A future's work on the thread that asks for it.
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

/// Where the futures of [`step_async`](crate::calls::step::step_async) run: any runtime that takes a `Send` future.
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
    /// Futures are given to this function, on the thread of Tiffany's loop; it must not block.
    pub fn new(spawn: impl Fn(SpawnedFuture) + Send + Sync + 'static) -> Spawner {
        Spawner(Arc::new(spawn))
    }

    /// Starts an attempt. Its result comes to the inbox, whatever happens to it there.
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
            // Made where it is polled, so that a panic in it is the attempt's.
            future: Some(Box::pin(async move { work(attempt).await })),
            stop: stop.clone(),
            span,
            told: Told { call, number, name, at, inbox: Some(Arc::clone(inbox)) },
        };
        let spawn = AssertUnwindSafe(|| (self.0)(Box::pin(future)));
        if let Err(payload) = catch_unwind(spawn) {
            // The future was dropped with it, and has told so.
            panic_text(payload);
        }
        stop
    }
}

/// Stops a future that runs elsewhere.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

impl Stop {
    /// Nobody waits for it any more: it is dropped where it runs.
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
        // Kept before it is looked at, so that a stop in between wakes it.
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

/// Tells the loop once.
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
        let message = "the runtime that was given the step dropped it before its end";
        let mut error = TaskError::new(ErrorKind::Host, message);
        error.add_call(self.told.name, self.told.at.clone());
        self.told.tell(Err(StepError::passing(error)));
    }
}
