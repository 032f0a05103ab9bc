//! One attempt at a step: what the work is told, what it gives back, and where it is done: on a thread of the pool,
//! or as a future on somebody else's runtime. Nothing here knows of logs, queues or retries.

use std::fmt::{self, Display};
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use tiffany_kernel::{CallRef, ErrorKind, TaskError, panic_text};

use super::step::Kind;
use crate::future_task::panic_error;
use crate::inbox::{Inbox, Letter};
use crate::panics;

/// One attempt at a step, as its work sees it.
#[derive(Clone, Debug)]
pub struct Attempt {
    key: Arc<str>,
    number: u64,
    kind: Kind,
    beat: Arc<AtomicBool>,
}

impl Attempt {
    pub(crate) fn new(key: Arc<str>, number: u64, kind: Kind) -> Attempt {
        Attempt { key, number, kind, beat: Arc::default() }
    }

    /// The same for all attempts at this step, in this process and in later ones, and no other step's. Who gives it to
    /// a service that knows such keys has the work done once there. In a durable run it is `<run>/<record>`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The number of the attempt, from 1. It goes on counting after a restart.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Says that the work goes on, where [`Step::heartbeat`](super::Step::heartbeat) wants to hear so.
    pub fn heartbeat(&self) {
        self.beat.store(true, Ordering::Relaxed);
    }

    /// Whether the work has said since this was last asked that it goes on.
    pub(crate) fn has_beaten(&self) -> bool {
        self.beat.swap(false, Ordering::Relaxed)
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

    pub(crate) fn last(error: TaskError) -> StepError {
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
pub(crate) type Tried = Result<String, StepError>;

/// A future that another runtime can take over.
pub type SpawnedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

type Attempting = Pin<Box<dyn Future<Output = Tried> + Send>>;

/// Work on a thread of the pool.
pub(crate) type Blocking = Arc<dyn Fn(Attempt) -> Tried + Send + Sync>;

/// The work of a step. It may have to be done more than once.
#[derive(Clone)]
pub(crate) enum Job {
    Blocking(Blocking),
    Elsewhere(Spawner, FutureWork),
}

/// Work that is a future.
pub(crate) type FutureWork = Arc<dyn Fn(Attempt) -> Attempting + Send + Sync>;

impl Job {
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

/// Where the futures of [`step_async`](super::step_async) run: any runtime that takes a `Send` future.
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
        (call, name, at): (CallRef, &'static str, &'static Location<'static>),
        attempt: Attempt,
        work: &FutureWork,
        inbox: &Arc<Inbox>,
    ) -> Stop {
        let stop = Stop::default();
        let number = attempt.number();
        let work = Arc::clone(work);
        let future = Elsewhere {
            // Made where it is polled, so that a panic in it is the attempt's.
            future: Some(Box::pin(async move { work(attempt).await })),
            stop: stop.clone(),
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
    told: Told,
}

/// Tells the loop once.
struct Told {
    call: CallRef,
    number: u64,
    name: &'static str,
    at: &'static Location<'static>,
    inbox: Option<Arc<Inbox>>,
}

impl Told {
    fn tell(&mut self, tried: Tried) {
        if let Some(inbox) = self.inbox.take() {
            inbox.send(Letter::Attempted(self.call, self.number, tried));
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
        let tried = match panics::noting(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(tried)) => tried,
            Err(payload) => {
                let mut error = panic_error(payload, "a step panicked");
                error.add_call(this.told.name, this.told.at);
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
        error.add_call(self.told.name, self.told.at);
        self.told.tell(Err(StepError::passing(error)));
    }
}
