//! What all handlers share: the way to the runtime, where the daemon is in its life, who may come in, and what is limited. It knows no route.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tiffany::cli::Again;
use tiffany::control::{Answer, LongTurn, Request};
use tiffany::durable::run_id;
use tiffany::redact::Redactions;
use tiffany::wal::Stamp;
use tiffany::{ErrorKind, RuntimeHandle, TaskError, Uuid};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::Instant;

use crate::api::Texts;
use crate::audit::Audit;
use crate::auth::{Gate, Who};
use crate::chronicles::Chronicles;
use crate::error::{Crowd, DaemonError};
use crate::http::{Problem, change};
use crate::limits::Limits;
use crate::stuck::Stuck;

/// How often it is looked whether a turn keeps the loop, while an answer is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// Where the daemon is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(crate) again: Again,
    /// What is taken out of what it says.
    pub(crate) rules: Redactions,
    waiting: Semaphore,
    streams: Arc<Semaphore>,
    pub(crate) children: Arc<Semaphore>,
    /// How many requests are under way that change something.
    changes: watch::Sender<usize>,
    /// Events as text.
    pub(crate) texts: Texts,
    /// The runs that were looked at last.
    pub(crate) chronicles: Chronicles,
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
        (again, rules): (Again, Redactions),
    ) -> App {
        App(Arc::new(Inner {
            runtime: OnceLock::new(),
            phase: watch::Sender::new(Phase::Starting),
            waiting: Semaphore::new(limits.waiting),
            streams: Arc::new(Semaphore::new(limits.streams)),
            children: Arc::new(Semaphore::new(limits.children)),
            changes: watch::Sender::new(0),
            texts: Texts::new(),
            chronicles: Chronicles::new(&dir),
            stuck: Stuck::new(&dir),
            started: now(),
            dir,
            limits,
            gate,
            audit,
            again,
            rules,
        }))
    }

    /// The runs are back.
    pub(crate) fn ready(&self, runtime: RuntimeHandle) {
        drop(self.runtime.set(runtime));
        self.become_phase(Phase::Ready);
    }

    pub(crate) fn become_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
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
        self.runtime.get().ok_or_else(|| DaemonError::NotNow("is bringing its runs back").into())
    }

    /// Asks the runtime, without a thread. What changes something is in the audit before it is asked.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        let runtime = self.runtime()?;
        let busy = |_| DaemonError::Busy(Crowd::Requests, self.limits.waiting);
        let _waits = self.waiting.try_acquire().map_err(busy)?;
        if let Some((_, to)) = request.changes() {
            change::begin(to)?;
        }
        let (tell, told) = oneshot::channel();
        runtime.ask(request, move |answer| drop(tell.send(answer)));
        let patience = self.limits.answer_time;
        match tokio::time::timeout(patience, told).await {
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

    /// The run that something is done to. Only its whole name will do: an id that is not there may be the beginning of the UUID of another one.
    pub(crate) async fn find_whole(&self, name: &str) -> Result<Uuid, Problem> {
        let run = self.find(name).await?;
        if Uuid::parse(name) == Some(run) || run_id(name) == run {
            return Ok(run);
        }
        let name: String = name.chars().take(100).collect();
        let message = format!(
            "there is no run `{name}`; it is the beginning of {run}, and what is changed is named as a whole"
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

/// Somebody who is told things for long: whether they still may be is seen now and then.
pub(crate) struct Guest {
    app: App,
    who: Who,
    next_look: Instant,
}

impl Guest {
    pub(crate) fn new(app: &App, who: Who) -> Guest {
        Guest { app: app.clone(), who, next_look: Instant::now() + app.limits.ping }
    }

    /// Comes back when it is time to look.
    pub(crate) async fn due(&self) {
        tokio::time::sleep_until(self.next_look).await;
    }

    /// Why they have to go, if it is time to look and they have to.
    pub(crate) fn has_to_go(&mut self) -> Option<&'static str> {
        let now = Instant::now();
        if now < self.next_look {
            return None;
        }
        self.next_look = now + self.app.limits.ping;
        let known = self.app.gate.still_knows(&self.who);
        known.is_err().then_some("the token is not good any more [TFY0171]")
    }
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
