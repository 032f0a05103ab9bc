//! State that all handlers share: the handle to the runtime, the phase of the daemon, access and
//! limits. It doesn't know the routes.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crate::relaunch::Relaunch;
use tiffany::control::{Answer, LongTurn, Request};
use tiffany::durable::run_id;
use tiffany::history::{RunIndex, RunIndexError};
use tiffany::redact::Redactions;
use tiffany::wal::Stamp;
use tiffany::{ErrorKind, RuntimeHandle, TaskError, Uuid};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::api::Texts;
use crate::audit::Audit;
use crate::auth::{By, Gate, Who};
use crate::error::{Crowd, DaemonError};
use crate::http::Peer;
use crate::http::Problem;
use crate::http::change;
use crate::limits::Limits;
use crate::run_indexes::RunIndexes;
use crate::stuck::Stuck;

/// How often the daemon checks, while it waits for an answer, whether a long turn blocks the loop.
const LOOK: Duration = Duration::from_millis(100);

/// The error code of an answer that took too long.
const NO_ANSWER: &str = "TFY0160";

/// A phase in the life of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Runs are being resumed.
    Starting,
    Ready,
    /// Changes are refused.
    Draining,
    /// Streams are being closed.
    Closing,
}

/// State that all handlers share.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    runtime: OnceLock<RuntimeHandle>,
    phase: watch::Sender<Phase>,
    pub(crate) dir: PathBuf,
    /// When the daemon started, in RFC 3339.
    pub(crate) started: String,
    pub(crate) limits: Limits,
    pub(crate) gate: Gate,
    pub(crate) audit: Arc<Audit>,
    pub(crate) relaunch: Relaunch,
    /// The redaction rules for everything that is sent.
    pub(crate) rules: Redactions,
    waiting: Semaphore,
    streams: Arc<Semaphore>,
    pub(crate) children: Arc<Semaphore>,
    /// Signals that the file of the tokens has changed.
    pub(crate) token_changes: watch::Sender<()>,
    /// The number of requests in progress that change something.
    changes: watch::Sender<usize>,
    /// Events as WebSocket messages.
    pub(crate) texts: Texts,
    /// The indexes of the runs that were viewed last.
    pub(crate) run_indexes: RunIndexes,
    /// The cached waits of long-waiting tasks.
    pub(crate) stuck: Stuck,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(
        dir: PathBuf,
        limits: Limits,
        gate: Gate,
        audit: Arc<Audit>,
        (relaunch, rules): (Relaunch, Redactions),
    ) -> App {
        App(Arc::new(Inner {
            runtime: OnceLock::new(),
            phase: watch::Sender::new(Phase::Starting),
            waiting: Semaphore::new(limits.waiting),
            streams: Arc::new(Semaphore::new(limits.streams)),
            children: Arc::new(Semaphore::new(limits.children)),
            token_changes: watch::Sender::new(()),
            changes: watch::Sender::new(0),
            texts: Texts::new(),
            run_indexes: RunIndexes::new(&dir),
            stuck: Stuck::new(&dir),
            started: now(),
            dir,
            limits,
            gate,
            audit,
            relaunch,
            rules,
        }))
    }

    /// Enters the ready phase, once the runs are resumed.
    pub(crate) fn ready(&self, runtime: RuntimeHandle) {
        drop(self.runtime.set(runtime));
        self.become_phase(Phase::Ready);
    }

    /// Enters a phase, unless a later one was entered.
    pub(crate) fn become_phase(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let is_later = phase > *now;
            *now = phase.max(*now);
            is_later
        });
    }

    /// Refuses all changes from now on, also those that wait for the loop. It can be called from
    /// any thread.
    pub(crate) fn begin_nothing_new(&self) {
        self.become_phase(Phase::Draining);
        if let Some(runtime) = self.runtime.get() {
            runtime.refuse_changes();
            runtime.nudge();
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until the daemon closes its streams.
    pub(crate) async fn closing(&self) {
        let mut phase = self.phase.subscribe();
        // The sender is never dropped before this ends.
        drop(phase.wait_for(|phase| *phase == Phase::Closing).await);
    }

    /// Counts a change as in progress until the returned guard is dropped.
    pub(crate) fn change(&self) -> Change {
        self.changes.send_modify(|count| *count += 1);
        Change(self.clone())
    }

    /// Waits until no change is in progress.
    pub(crate) async fn unchanging(&self) {
        drop(self.changes.subscribe().wait_for(|count| *count == 0).await);
    }

    pub(crate) fn runtime(&self) -> Result<&RuntimeHandle, Problem> {
        self.runtime.get().ok_or_else(|| DaemonError::NotNow("is resuming its runs").into())
    }

    /// Sends a request to the runtime and waits without blocking a thread. The intent of a change
    /// is in the audit file first.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        self.ask_within(self.limits.answer_time, request).await
    }

    /// The same, with a time of its own in which the answer must come.
    pub(crate) async fn ask_within(
        &self,
        patience: Duration,
        request: Request,
    ) -> Result<Answer, Problem> {
        let runtime = self.runtime()?;
        let busy = |_| DaemonError::Busy(Crowd::Requests, self.limits.waiting);
        let _waits = self.waiting.try_acquire().map_err(busy)?;
        if let Some((_, to)) = request.changes() {
            change::begin(to).await?;
        }
        let (tell, told) = oneshot::channel();
        runtime.ask(request, move |answer| drop(tell.send(answer)));
        match tokio::time::timeout(patience, told).await {
            // The daemon was told to end before the loop began this request.
            Ok(Ok(Err(error)))
                if error.kind() == ErrorKind::Unreachable && self.phase() >= Phase::Draining =>
            {
                Err(DaemonError::NotNow("is ending and begins nothing new").into())
            }
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) => Err(DaemonError::NotNow("is ending").into()),
            Err(_) => {
                let turn = self.turn_that_is_kept().map(|turn| turn.to_string());
                Err(DaemonError::NoAnswer { patience, turn }.into())
            }
        }
    }

    /// Returns the turn that blocks the loop, if there is one, without asking the loop.
    pub(crate) fn turn_that_is_kept(&self) -> Option<LongTurn> {
        self.runtime.get()?.long_turns().pop().filter(|turn| !turn.is_over)
    }

    /// Waits until a turn blocks the loop.
    pub(crate) async fn turn_is_kept(&self) {
        while self.turn_that_is_kept().is_none() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Resolves the name of a run to its UUID.
    pub(crate) async fn find(&self, name: &str) -> Result<Uuid, Problem> {
        if let Some(bad) = name.chars().find(|c| c.is_control()) {
            let message = format!("the name of a run has no {bad:?} in it");
            return Err(DaemonError::BadRequest(message).into());
        }
        match self.ask(Request::Find { name: name.into() }).await? {
            Answer::Found(run) => Ok(run),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the last durable record of a run. Returns an error if the run was removed entirely.
    pub(crate) async fn recorded(&self, run: Uuid) -> Result<Recorded, Problem> {
        match self.ask(Request::Recorded { run }).await? {
            Answer::Recorded { generation, seq } => Ok(Recorded { run, generation, seq }),
            other => Err(unexpected(&other)),
        }
    }

    /// Queries the index of a run once that has read all recorded lines.
    pub(crate) async fn ask_run_index<T: Send + 'static>(
        &self,
        recorded: Recorded,
        question: impl Fn(&mut RunIndex) -> Result<T, RunIndexError> + Send + 'static,
    ) -> Result<T, Problem> {
        let late = match self.run_indexes.ask(recorded, self.limits.answer_time, question).await {
            Err(problem) if problem.code == NO_ANSWER => problem,
            answer => return answer,
        };
        // After the log has failed, no more records reach the files.
        Err(self.ask(Request::Health).await.err().unwrap_or(late))
    }

    /// Resolves the name of a run that is about to be changed. Prefixes of a UUID are refused: an
    /// unknown id could be the prefix of another run's UUID.
    pub(crate) async fn find_whole(&self, name: &str) -> Result<Uuid, Problem> {
        let run = self.find(name).await?;
        if Uuid::parse(name) == Some(run) || run_id(name) == run {
            return Ok(run);
        }
        let name: String = name.chars().take(100).collect();
        let message = format!(
            "there is no run `{name}`; it is the beginning of {run}, and changes need the whole name"
        );
        Err(TaskError::new(ErrorKind::NoSuchRun, message).into())
    }

    /// Reserves one of the limited number of streams.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        if self.phase() == Phase::Closing {
            return Err(DaemonError::NotNow("is ending").into());
        }
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| DaemonError::Busy(Crowd::Streams, self.limits.streams).into())
    }
}

fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    Stamp::from_unix_nanos(nanos).as_str().to_owned()
}

/// How long a stream that has to end may take to send its reason before its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The client of a stream, while it has access.
#[derive(Clone)]
pub(crate) struct Guest {
    has_to_go: watch::Receiver<bool>,
}

impl Guest {
    /// The reason sent to clients whose token was removed.
    pub(crate) const WHY: &str = "the token is not good any more [TFY0171]";

    pub(crate) fn new(app: &App, who: Who, peer: &Peer) -> Guest {
        let (tell, has_to_go) = watch::channel(false);
        if let By::Token(_) = who.by {
            tokio::spawn(look_after(app.clone(), who, Arc::clone(&peer.cut), tell));
        }
        Guest { has_to_go }
    }

    pub(crate) fn has_to_go(&self) -> bool {
        *self.has_to_go.borrow()
    }

    /// Waits until the client has lost its access.
    pub(crate) async fn gone(&mut self) {
        if self.has_to_go.wait_for(|has_to| *has_to).await.is_err() {
            // This client needs no checks.
            std::future::pending::<()>().await;
        }
    }
}

/// Ends a stream when its token is no longer valid, even if the client doesn't read.
async fn look_after(app: App, who: Who, cut: Arc<Notify>, tell: watch::Sender<bool>) {
    let mut changes = app.token_changes.subscribe();
    while app.gate.still_knows(&who).is_ok() {
        tokio::select! {
            // A token can expire without a change to the file.
            () = tokio::time::sleep(app.limits.ping) => {}
            _ = changes.changed() => {}
            () = tell.closed() => return,
        }
    }
    tell.send_replace(true);
    tokio::time::sleep(LAST_WORDS).await;
    cut.notify_one();
}

/// The last record of a run that clients may rely on. Requests that read the run's file wait until
/// it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub(crate) run: Uuid,
    pub(crate) generation: u32,
    pub(crate) seq: u64,
}

/// A change in progress, counted until it is dropped.
pub(crate) struct Change(App);

impl Drop for Change {
    fn drop(&mut self) {
        self.0.changes.send_modify(|count| *count -= 1);
    }
}

/// Returns the error for an answer of the runtime that doesn't fit the request.
pub(crate) fn unexpected(answer: &Answer) -> Problem {
    DaemonError::Start(format!("an answer that does not fit: {answer:?}")).into()
}
