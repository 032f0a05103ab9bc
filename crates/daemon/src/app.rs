//! What all handlers share: the way to the runtime, where the daemon is in its life, who may come in, and what is limited. It knows no route.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tiffany::RuntimeHandle;
use tiffany::Uuid;
use tiffany::cli::Again;
use tiffany::control::{Answer, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::api::Texts;
use crate::audit::Audit;
use crate::auth::Gate;
use crate::chronicles::Chronicles;
use crate::error::DaemonError;
use crate::http::Problem;
use crate::limits::Limits;

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
    pub(crate) limits: Limits,
    pub(crate) gate: Gate,
    pub(crate) audit: Arc<Audit>,
    pub(crate) again: Again,
    waiting: Semaphore,
    streams: Arc<Semaphore>,
    pub(crate) children: Semaphore,
    /// Events as text.
    pub(crate) texts: Texts,
    /// The runs that were looked at last.
    pub(crate) chronicles: Chronicles,
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
        again: Again,
    ) -> App {
        App(Arc::new(Inner {
            runtime: OnceLock::new(),
            phase: watch::Sender::new(Phase::Starting),
            waiting: Semaphore::new(limits.waiting),
            streams: Arc::new(Semaphore::new(limits.streams)),
            children: Semaphore::new(limits.children),
            texts: Texts::new(),
            chronicles: Chronicles::new(&dir),
            dir,
            limits,
            gate,
            audit,
            again,
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

    pub(crate) fn runtime(&self) -> Result<&RuntimeHandle, Problem> {
        self.runtime.get().ok_or_else(|| DaemonError::NotNow("is bringing its runs back").into())
    }

    /// Asks the runtime, without a thread.
    pub(crate) async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        let runtime = self.runtime()?;
        let busy = |_| DaemonError::Busy(self.limits.waiting);
        let _waits = self.waiting.try_acquire().map_err(busy)?;
        let (tell, told) = oneshot::channel();
        runtime.ask(request, move |answer| drop(tell.send(answer)));
        let patience = self.limits.answer_time;
        match tokio::time::timeout(patience, told).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) => Err(DaemonError::NotNow("is ending").into()),
            Err(_) => Err(DaemonError::NoAnswer(patience).into()),
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

    /// A place among the streams.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        if self.phase() == Phase::Closing {
            return Err(DaemonError::NotNow("is ending").into());
        }
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| DaemonError::Busy(self.limits.streams).into())
    }
}

/// The runtime answered something else than was asked.
pub(crate) fn unexpected(answer: &Answer) -> Problem {
    DaemonError::Start(format!("an answer that does not fit: {answer:?}")).into()
}
