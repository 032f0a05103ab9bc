//! Reports events of runs to `tracing`: spans run → task → call, and events at the levels that the
//! logging guide defines. Whether there is a subscriber is checked when a run starts; without one,
//! it costs nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use tiffany_kernel::{
    CallId, Event, EventKind, Events, LogLevel, RunId, Showing, Shown, TaskError, TaskRef, Tid,
    Uuid,
};
use tracing::dispatcher::with_default;
use tracing::{Level, Span};

use crate::host::attempt::Attempt;
use tiffany_records::RunError;
use tiffany_records::activity::TaskId;
use tiffany_records::redact::{clean, shown, shown_call};

const TARGET: &str = "tiffany";

/// The spans of all runs that have a subscriber.
#[derive(Default)]
pub(crate) struct Tracer {
    on: Cell<bool>,
    runs: RefCell<BTreeMap<RunId, RunSpans>>,
    agent_id: String,
    node: String,
}

/// What a span belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Who<'a> {
    Ephemeral,
    Durable { uuid: Uuid, id: &'a str, function: &'a str, comes_back: bool },
}

struct RunSpans {
    run: Span,
    wanted: Events,
    tasks: BTreeMap<Tid, Span>,
    calls: BTreeMap<CallId, Span>,
}

impl Tracer {
    /// A tracer whose spans carry the id of the agent and of the node.
    pub(crate) fn new(agent_id: String, node: String) -> Tracer {
        Tracer { agent_id, node, ..Tracer::default() }
    }

    /// Notes that a run starts, or is resumed. Returns the events that it must report.
    pub(crate) fn start_run(&self, id: RunId, who: Who<'_>) -> Events {
        if !tracing::enabled!(target: TARGET, Level::INFO) {
            return Events::Off;
        }
        self.on.set(true);
        let (agent_id, node) = (&self.agent_id, &self.node);
        let run = match who {
            Who::Ephemeral => tracing::info_span!(
                target: TARGET, parent: None, "run", task_id = id.0, %agent_id, %node,
            ),
            Who::Durable { uuid, id, function, .. } => tracing::info_span!(
                target: TARGET, parent: None, "run",
                task_id = %uuid, run_id = id, function, %agent_id, %node,
            ),
        };
        run.in_scope(|| match who {
            Who::Durable { comes_back: true, .. } => {
                tracing::info!(target: TARGET, "run resumed");
            }
            _ => tracing::info!(target: TARGET, "run started"),
        });
        let wanted = match tracing::enabled!(target: TARGET, Level::DEBUG) {
            true => Events::All,
            false => Events::Problems,
        };
        let spans = RunSpans { run, wanted, tasks: BTreeMap::new(), calls: BTreeMap::new() };
        self.runs.borrow_mut().insert(id, spans);
        wanted
    }

    /// The events that a run must report.
    pub(crate) fn wants(&self, id: RunId) -> Events {
        self.runs.borrow().get(&id).map_or(Events::Off, |spans| spans.wanted)
    }

    /// Whether any run has a subscriber.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Forgets a run.
    pub(crate) fn forget_run(&self, id: RunId) {
        self.runs.borrow_mut().remove(&id);
        self.on.set(!self.runs.borrow().is_empty());
    }

    /// Notes that an attempt at a step begins. The returned span is for its log lines, on whatever
    /// thread.
    pub(crate) fn attempt(
        &self,
        run: RunId,
        tid: Tid,
        (step, key, attempt): (&str, &str, u64),
    ) -> Span {
        if !self.on.get() {
            return Span::none();
        }
        let runs = self.runs.borrow();
        let Some(spans) = runs.get(&run) else { return Span::none() };
        let task = spans.tasks.get(&tid).unwrap_or(&spans.run);
        let attempt = tracing::debug_span!(
            target: TARGET, parent: task, "step",
            step = &*clean(step), key, attempt,
        );
        if attempt.is_disabled() {
            // Without a span of its own, the work is logged in the run's.
            return spans.run.clone();
        }
        attempt.in_scope(|| tracing::debug!(target: TARGET, "attempt begun"));
        attempt
    }

    /// Does the work of an attempt in its span, so that its log lines reach the subscriber of its
    /// run.
    pub(crate) fn inside<R>(span: &Span, work: impl FnOnce() -> R) -> R {
        match span.with_subscriber(|(_, dispatch)| dispatch.clone()) {
            Some(dispatch) => with_default(&dispatch, || span.in_scope(work)),
            None => work(),
        }
    }

    /// Notes that an attempt has ended.
    pub(crate) fn attempt_over(attempt: &Attempt, error: Option<&TaskError>) {
        attempt.span().in_scope(|| match error {
            None => tracing::debug!(target: TARGET, "attempt completed"),
            Some(error) => {
                let (step, number) = (clean(attempt.step_name()), attempt.number());
                tracing::warn!(
                    target: TARGET, code = error.code(), step = &*step, attempt = number,
                    "attempt failed: {}", shown(error.message()),
                );
            }
        });
    }

    /// Notes that a run has completed.
    pub(crate) fn run_completed(&self, id: RunId) {
        if let Some(spans) = self.runs.borrow().get(&id) {
            spans.run.in_scope(|| tracing::info!(target: TARGET, "run completed"));
        }
    }

    /// Notes that a run failed or was cancelled. The failure of a durable run is also reported to
    /// subscribers that want only errors.
    pub(crate) fn run_failed(&self, id: RunId, who: Who<'_>, error: &RunError) {
        let code = error.code();
        match (self.runs.borrow().get(&id), who) {
            (Some(spans), _) => {
                spans.run.in_scope(|| tracing::error!(target: TARGET, code, "run failed: {error}"));
            }
            (None, Who::Durable { uuid, id, function, .. })
                if !matches!(error, RunError::Cancelled(_)) =>
            {
                tracing::error!(
                    target: TARGET, task_id = %uuid, run_id = id, function, code,
                    "run failed: {error}",
                );
            }
            _ => {}
        }
    }

    /// The span of the task that has its turn, for its log lines.
    #[inline]
    pub(crate) fn task_span(&self, task: Option<TaskRef>) -> Option<Span> {
        if !self.on.get() {
            return None;
        }
        let task = task?;
        let runs = self.runs.borrow();
        let spans = runs.get(&task.run)?;
        Some(spans.tasks.get(&task.tid).unwrap_or(&spans.run).clone())
    }

    /// Reports an event.
    pub(crate) fn event(&self, event: &Event) {
        let mut runs = self.runs.borrow_mut();
        let Some(spans) = runs.get_mut(&event.run) else { return };
        if spans.wanted < event.kind.level() {
            return;
        }
        if let EventKind::Spawned { name, at, .. } = &event.kind {
            let name = &*clean(name.as_deref().unwrap_or_default());
            let task = tracing::debug_span!(
                target: TARGET, parent: &spans.run, "task",
                tid = event.tid.0, name, spawned_at = %at,
            );
            spans.tasks.insert(event.tid, task);
        }
        let task = spans.tasks.get(&event.tid).unwrap_or(&spans.run).clone();
        let _in_task = task.enter();
        match &event.kind {
            EventKind::Spawned { .. } => tracing::debug!(target: TARGET, "task spawned"),
            EventKind::Running => tracing::trace!(target: TARGET, "task running"),
            EventKind::Called { id, call, at, .. } => {
                let call = shown_call(call);
                let span = tracing::trace_span!(target: TARGET, "call", id = id.0, %call, at = %at);
                span.in_scope(|| tracing::trace!(target: TARGET, "call made"));
                spans.calls.insert(*id, span);
            }
            EventKind::Answered { id, error } => {
                if let Some(span) = spans.calls.remove(id) {
                    span.in_scope(|| match error {
                        None => tracing::trace!(target: TARGET, "call answered"),
                        Some(code) => {
                            tracing::debug!(target: TARGET, code = *code, "call failed");
                        }
                    });
                }
            }
            EventKind::Withdrawn { id } => drop(spans.calls.remove(id)),
            EventKind::Blocked(reason) => {
                tracing::trace!(target: TARGET, reason = %reason, "task blocked");
            }
            EventKind::Woken => tracing::trace!(target: TARGET, "task woken"),
            EventKind::Cancelling => tracing::debug!(target: TARGET, "task cancelling"),
            EventKind::Completed => tracing::debug!(target: TARGET, "task completed"),
            EventKind::Failed(error) => {
                tracing::warn!(target: TARGET, code = error.code(), "task failed: {}", shown(error));
            }
            EventKind::Cancelled => tracing::debug!(target: TARGET, "task cancelled"),
            EventKind::Shown(shown) => tell_shown(shown),
            EventKind::Cycle(_) | EventKind::NotReady | EventKind::Ignored(_) => {
                tracing::warn!(target: TARGET, "{}", shown(event));
            }
            _ => {}
        }
        if let EventKind::Completed | EventKind::Failed(_) | EventKind::Cancelled = event.kind {
            drop(_in_task);
            spans.tasks.remove(&event.tid);
        }
    }
}

/// Reports what the work of a step shows, from its thread.
pub(crate) fn tell_shown_by_step(task_id: TaskId, tid: Tid, step: &'static str, shown: &Shown) {
    if tracing::enabled!(target: TARGET, Level::ERROR) {
        let span = tracing::info_span!(
            target: TARGET, parent: None, "step", task_id = %task_id, tid = tid.0,
            step = &*clean(step),
        );
        span.in_scope(|| tell_shown(shown));
    }
}

/// Reports what a task shows, at the level that belongs to it.
fn tell_shown(shown: &Shown) {
    let message = clean(&shown.message);
    match &shown.what {
        Showing::Log(LogLevel::Trace) => tracing::trace!(target: TARGET, "{message}"),
        Showing::Log(LogLevel::Debug) => tracing::debug!(target: TARGET, "{message}"),
        Showing::Log(LogLevel::Info) => tracing::info!(target: TARGET, "{message}"),
        Showing::Log(LogLevel::Warn) => tracing::warn!(target: TARGET, "{message}"),
        Showing::Log(LogLevel::Error) => tracing::error!(target: TARGET, "{message}"),
        Showing::Progress { done, total } => {
            tracing::info!(target: TARGET, done, total, "{message}");
        }
        Showing::Output(stream) => {
            let stream = clean(stream);
            tracing::info!(target: TARGET, %stream, "{message}");
        }
        _ => tracing::info!(target: TARGET, stage = %shown.stage(), "{message}"),
    }
}
