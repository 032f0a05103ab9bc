//! What all handlers share: the way to the runtime, where the daemon is in its life, who may come in, and what is limited. It knows no route.

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

/// How often it is looked whether a turn keeps the loop, while an answer is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// The code for an answer that took too long.
const NO_ANSWER: &str = "TFY0160";

/// Where the daemon is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Runs are being brought back.
    Starting,
    Ready,
    /// Nothing new is begun.
    Draining,
    /// Streams come to their end.
    Closing,
}

/// What all handlers share.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    runtime: OnceLock<RuntimeHandle>,
    phase: watch::Sender<Phase>,
    pub(crate) dir: PathBuf,
    /// When the daemon began, RFC 3339.
    pub(crate) started: String,
    pub(crate) limits: Limits,
    pub(crate) gate: Gate,
    pub(crate) audit: Arc<Audit>,
    pub(crate) relaunch: Relaunch,
    /// What is taken out of what it says.
    pub(crate) rules: Redactions,
    waiting: Semaphore,
    streams: Arc<Semaphore>,
    pub(crate) children: Arc<Semaphore>,
    /// Says that the file of the tokens has changed.
    pub(crate) token_changes: watch::Sender<()>,
    /// How many requests are under way that change something.
    changes: watch::Sender<usize>,
    /// Events as text.
    pub(crate) texts: Texts,
    /// The runs that were looked at last.
    pub(crate) run_indexes: RunIndexes,
    /// What tasks have waited for for long.
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

    /// The runs are back.
    pub(crate) fn ready(&self, runtime: RuntimeHandle) {
        drop(self.runtime.set(runtime));
        self.become_phase(Phase::Ready);
    }

    /// Enters a phase, unless a later one has begun.
    pub(crate) fn become_phase(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let is_later = phase > *now;
            *now = phase.max(*now);
            is_later
        });
    }

    /// Refuses all changes from now on, also those that wait for the loop. Any thread may call it.
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

    /// Comes back when the daemon closes its streams.
    pub(crate) async fn closing(&self) {
        let mut phase = self.phase.subscribe();
        // The sender lives as long as this does.
        drop(phase.wait_for(|phase| *phase == Phase::Closing).await);
    }

    /// Something is changed for as long as this lives.
    pub(crate) fn change(&self) -> Change {
        self.changes.send_modify(|count| *count += 1);
        Change(self.clone())
    }

    /// Comes back when nothing is being changed.
    pub(crate) async fn unchanging(&self) {
        drop(self.changes.subscribe().wait_for(|count| *count == 0).await);
    }

    pub(crate) fn runtime(&self) -> Result<&RuntimeHandle, Problem> {
        self.runtime.get().ok_or_else(|| DaemonError::NotNow("is resuming its runs").into())
    }

    /// Asks the runtime, without a thread. What changes something is in the audit before it is asked.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        let runtime = self.runtime()?;
        let busy = |_| DaemonError::Busy(Crowd::Requests, self.limits.waiting);
        let _waits = self.waiting.try_acquire().map_err(busy)?;
        if let Some((_, to)) = request.changes() {
            change::begin(to).await?;
        }
        let (tell, told) = oneshot::channel();
        runtime.ask(request, move |answer| drop(tell.send(answer)));
        let patience = self.limits.answer_time;
        match tokio::time::timeout(patience, told).await {
            // The loop had not begun it when the daemon was told to end.
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

    /// The turn that keeps the loop from everything else, if there is one. The loop is not asked.
    pub(crate) fn turn_that_is_kept(&self) -> Option<LongTurn> {
        self.runtime.get()?.long_turns().pop().filter(|turn| !turn.is_over)
    }

    /// Comes back when a turn keeps the loop.
    pub(crate) async fn turn_is_kept(&self) {
        while self.turn_that_is_kept().is_none() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The run that is called so.
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

    /// How far the log of a run is written. An error if nothing is left of it.
    pub(crate) async fn recorded(&self, run: Uuid) -> Result<Recorded, Problem> {
        match self.ask(Request::Recorded { run }).await? {
            Answer::Recorded { generation, seq } => Ok(Recorded { run, generation, seq }),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks the run_index of a run, when that has all that was recorded.
    pub(crate) async fn ask_run_index<T: Send + 'static>(
        &self,
        recorded: Recorded,
        question: impl Fn(&mut RunIndex) -> Result<T, RunIndexError> + Send + 'static,
    ) -> Result<T, Problem> {
        let late = match self.run_indexes.ask(recorded, self.limits.answer_time, question).await {
            Err(problem) if problem.code == NO_ANSWER => problem,
            answer => return answer,
        };
        // A log that has failed brings nothing to the files any more.
        Err(self.ask(Request::Health).await.err().unwrap_or(late))
    }

    /// The run that something is done to. Only its whole name will do: an id that is not there may be the beginning of the UUID of another one.
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

    /// A place among the streams.
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

/// How long a stream that has to end may say so before its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A client of a stream, for as long as it may be told things.
#[derive(Clone)]
pub(crate) struct Guest {
    has_to_go: watch::Receiver<bool>,
}

impl Guest {
    /// Why clients whose token is removed have to go.
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

    /// Comes back when the client has to go.
    pub(crate) async fn gone(&mut self) {
        if self.has_to_go.wait_for(|has_to| *has_to).await.is_err() {
            // Nobody needs to look after it.
            std::future::pending::<()>().await;
        }
    }
}

/// Sees to it that a stream ends when its token is not good any more, whether its client reads or not.
async fn look_after(app: App, who: Who, cut: Arc<Notify>, tell: watch::Sender<bool>) {
    let mut changes = app.token_changes.subscribe();
    while app.gate.still_knows(&who).is_ok() {
        tokio::select! {
            // A token may expire without a change.
            () = tokio::time::sleep(app.limits.ping) => {}
            _ = changes.changed() => {}
            () = tell.closed() => return,
        }
    }
    tell.send_replace(true);
    tokio::time::sleep(LAST_WORDS).await;
    cut.notify_one();
}

/// The last record of a run that a client may know of. Requests that read the run's file wait for
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub(crate) run: Uuid,
    pub(crate) generation: u32,
    pub(crate) seq: u64,
}

/// Something that is being changed.
pub(crate) struct Change(App);

impl Drop for Change {
    fn drop(&mut self) {
        self.0.changes.send_modify(|count| *count -= 1);
    }
}

/// The runtime answered something else than was asked.
pub(crate) fn unexpected(answer: &Answer) -> Problem {
    DaemonError::Start(format!("an answer that does not fit: {answer:?}")).into()
}
