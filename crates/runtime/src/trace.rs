//! What happens in runs, told to `tracing`: spans run → task → call, and events at the levels the logging
//! guide sets. Whether anybody listens is asked when a run starts; if nobody does, it costs nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use tiffany_kernel::{CallId, Event, EventKind, Events, RunId, TaskRef, Tid};
use tracing::{Level, Span};

use crate::error::RunError;

const TARGET: &str = "tiffany";

/// The spans of all runs that somebody listens to.
#[derive(Default)]
pub(crate) struct Tracer {
    on: Cell<bool>,
    runs: RefCell<BTreeMap<RunId, RunSpans>>,
    agent_id: String,
    node: String,
}

struct RunSpans {
    run: Span,
    tasks: BTreeMap<Tid, Span>,
    calls: BTreeMap<CallId, Span>,
}

impl Tracer {
    /// A tracer whose spans carry who works, and where.
    pub(crate) fn new(agent_id: String, node: String) -> Tracer {
        Tracer { agent_id, node, ..Tracer::default() }
    }

    /// A run starts. The answer is what it is to tell.
    pub(crate) fn start_run(&self, id: RunId) -> Events {
        if !tracing::enabled!(target: TARGET, Level::INFO) {
            return Events::Off;
        }
        self.on.set(true);
        let run = tracing::info_span!(
            target: TARGET, parent: None, "run",
            task_id = id.0, agent_id = %self.agent_id, node = %self.node,
        );
        run.in_scope(|| tracing::info!(target: TARGET, "run started"));
        let spans = RunSpans { run, tasks: BTreeMap::new(), calls: BTreeMap::new() };
        self.runs.borrow_mut().insert(id, spans);
        match tracing::enabled!(target: TARGET, Level::DEBUG) {
            true => Events::All,
            false => Events::Problems,
        }
    }

    /// A run is over.
    pub(crate) fn end_run(&self, id: RunId, error: Option<&RunError>) {
        let Some(spans) = self.runs.borrow_mut().remove(&id) else { return };
        spans.run.in_scope(|| match error {
            None => tracing::info!(target: TARGET, "run completed"),
            Some(error) => {
                tracing::error!(target: TARGET, code = error.code(), "run failed: {error}");
            }
        });
        self.on.set(!self.runs.borrow().is_empty());
    }

    /// The span of a task that has its turn, for what its code logs.
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

    /// Tells one thing that happened.
    pub(crate) fn event(&self, event: &Event) {
        let mut runs = self.runs.borrow_mut();
        let Some(spans) = runs.get_mut(&event.run) else { return };
        if let EventKind::Spawned { name, at, .. } = &event.kind {
            let name = name.as_deref().unwrap_or_default();
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
                let span =
                    tracing::trace_span!(target: TARGET, "call", id = id.0, call = %call, at = %at);
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
                tracing::warn!(target: TARGET, code = error.code(), "task failed: {error}");
            }
            EventKind::Cancelled => tracing::debug!(target: TARGET, "task cancelled"),
            EventKind::Cycle(_) | EventKind::NotReady | EventKind::Ignored(_) => {
                tracing::warn!(target: TARGET, "{event}");
            }
            _ => {}
        }
        if let EventKind::Completed | EventKind::Failed(_) | EventKind::Cancelled = event.kind {
            drop(_in_task);
            spans.tasks.remove(&event.tid);
        }
    }
}
