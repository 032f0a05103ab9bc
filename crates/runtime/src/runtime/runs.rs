//! The runs of a runtime: how they are added, replaced and forgotten. It knows nothing of turns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use tiffany_kernel::{
    BoxCoroutine, ErrorKind, Events, Run, RunConfig, RunId, TaskError, Time, Value, panic_text,
};

use super::Runtime;
use crate::calls::context;
use crate::host::trace::Who;
use crate::runtime::durable::DurableState;
use crate::runtime::hosted_runs::Hosted;
use tiffany_records::RunError;

impl Runtime {
    pub(crate) fn add_run(
        &mut self,
        root: BoxCoroutine,
        config: RunConfig,
        durable_state: Option<Box<DurableState>>,
        now: Time,
    ) -> RunId {
        let who =
            durable_state.as_ref().map_or(Who::Ephemeral, |durable_state| durable_state.who());
        let run = self.new_run(root, config, now, who);
        self.host_run(run, durable_state)
    }

    /// Adds a run that is ready for its first round.
    pub(crate) fn host_run(&mut self, run: Run, durable_state: Option<Box<DurableState>>) -> RunId {
        let id = run.id();
        let place = self.runs.insert(run, durable_state);
        self.feed.heed_for(&self.host, &mut self.runs[place]);
        self.empty_outbox(place);
        self.line_up(place);
        id
    }

    pub(crate) fn new_run(
        &self,
        root: BoxCoroutine,
        config: RunConfig,
        now: Time,
        who: Who<'_>,
    ) -> Run {
        let (id, config) = self.number_run(config, who);
        Run::new(id, root, config, now)
    }

    /// Draws a number for a run that is about to be made.
    pub(crate) fn number_run(&self, mut config: RunConfig, who: Who<'_>) -> (RunId, RunConfig) {
        let id = RunId(next_run_number());
        config.events = config.events.max(self.host.tracer.start_run(id, who));
        if self.host.hub.is_awake() {
            config.events = config.events.max(Events::Tasks);
        }
        context::with(|context| context.live_runs.borrow_mut().insert(id));
        if let (Some(watched), Who::Durable { uuid, .. }) = (&self.watched, who) {
            watched.run_begins(id, uuid);
        }
        (id, config)
    }

    /// Forgets the number of a run that was not made.
    pub(crate) fn forget_number(&self, id: RunId) {
        self.is_gone(id);
        self.host.tracer.forget_run(id);
    }

    /// Notes that no task of a run has another turn.
    fn is_gone(&self, id: RunId) {
        context::with(|context| context.live_runs.borrow_mut().remove(&id));
        if let Some(watched) = &self.watched {
            watched.run_ends(id);
        }
    }

    /// Puts a new run at the place of another one, whose root left it and which is forgotten.
    /// Returns the messages that no task has received there.
    pub(crate) fn replace_run(
        &mut self,
        place: usize,
        root: BoxCoroutine,
        config: RunConfig,
        now: Time,
    ) -> Vec<(Rc<str>, Value)> {
        let durable_state = self.runs[place].durable_state.as_ref();
        let who = durable_state.map_or(Who::Ephemeral, |durable_state| durable_state.who());
        let new = self.new_run(root, config, now, who);
        let left = &mut self.runs[place].run;
        let messages = context::with(|context| left.leave(&context.port));
        let old = left.id();
        for error in left.take_unobserved() {
            self.show_unobserved(&error);
        }
        for order in self.runs[place].run.take_orders() {
            self.execute(old, order);
        }
        self.host.tracer.run_completed(old);
        self.host.tracer.forget_run(old);
        self.forget_traces(old);
        self.runs.replace(place, new);
        self.feed.heed_for(&self.host, &mut self.runs[place]);
        messages
    }

    /// Removes a run from everything beside the list of runs.
    fn forget_traces(&mut self, id: RunId) {
        self.is_gone(id);
        self.memory.iter_mut().for_each(|memory| memory.forget(id));
        self.runs.forget_stalled(id);
        self.host.inbox.promises().forget_run(id);
        self.host.questions.forget_run(id);
        self.forget_steps(id);
        self.approvals.forget_run(id);
    }

    /// Forgets the steps of a run, which no task waits for any more.
    pub(crate) fn forget_steps(&mut self, id: RunId) {
        let (steps, mut parts) = self.steps();
        steps.forget_run(&mut parts, id);
        self.hand_in_held();
    }

    /// Removes a run from all lists.
    pub(crate) fn forget_run(&mut self, id: RunId) -> Option<Box<Hosted>> {
        let (place, hosted) = self.runs.remove(id)?;
        if let Some(durable) = &mut self.durable {
            durable.forget_held_back(place);
        }
        self.forget_traces(id);
        Some(hosted)
    }

    /// Removes a finished run, and shows the failures that no task waited for.
    pub(crate) fn end_run(&mut self, id: RunId) -> Result<Value, RunError> {
        let Some(mut hosted) = self.forget_run(id) else { return Err(unknown_run(id)) };
        let task_id = hosted.task_id();
        let (function, since) = hosted.beginning();
        let run = &mut hosted.run;
        for error in run.take_unobserved() {
            self.show_unobserved(&error);
        }
        let dropped = run.counts().unobserved_dropped;
        if dropped > 0 {
            let message = format!("{dropped} more tasks failed and no task waited for them");
            self.show_unobserved(&TaskError::failed(message));
        }
        let Some(outcome) = run.take_outcome() else { unreachable!("a run that is over has one") };
        let outcome = outcome.map_err(RunError::from);
        let error = outcome.as_ref().err();
        let time = self.host.clock.now().saturating_since(since);
        self.host.inbox.meters.runs.of(&function).ended(error, time);
        let tracer = &self.host.tracer;
        match (error, &hosted.durable_state) {
            (None, _) => tracer.run_completed(id),
            // It was reported when its outcome was fixed.
            (Some(_), Some(durable_state)) if durable_state.told().is_some() => {}
            (Some(error), Some(durable_state)) => tracer.run_failed(id, durable_state.who(), error),
            (Some(error), None) => tracer.run_failed(id, Who::Ephemeral, error),
        }
        tracer.forget_run(id);
        self.feed.run_ends(&self.host, task_id, error);
        outcome
    }

    /// The hook is user code. If it panics, the panic hook has shown that.
    fn show_unobserved(&self, error: &TaskError) {
        self.host.inbox.meters.unobserved.add(1);
        let show = AssertUnwindSafe(|| (self.settings.on_unobserved)(error));
        if let Err(payload) = catch_unwind(show) {
            panic_text(payload);
        }
    }
}

/// Runs are numbered through the whole process, so that a stray handle never finds another's run.
fn next_run_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cold]
pub(super) fn unknown_run(id: RunId) -> RunError {
    let message = format!("{id} is not one of this runtime");
    RunError::UnknownRun(TaskError::new(ErrorKind::Gone, message))
}
