//! The runs of a runtime: how one comes to be, takes the place of another, and is forgotten. It knows nothing of turns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use tiffany_kernel::{
    BoxCoroutine, ErrorKind, Events, Run, RunConfig, RunId, TaskError, Time, Value, panic_text,
};

use super::{Hosted, Runtime};
use crate::calls::context;
use crate::host::trace::Who;
use crate::run_log::page::Page;
use crate::runtime::durable::DurableState;
use tiffany_records::RunError;
use tiffany_records::activity::TaskId;

impl Hosted {
    /// Writes what the run did before whatever is written next, and gives the number of its turns. What a run did whose code was
    /// interrupted never happened, and what it is told comes at the end of its log (turn 0).
    pub(crate) fn write_records(&mut self, page: &mut Page) -> u64 {
        let Some(durable_state) = &mut self.durable_state else { return 0 };
        let records = self.run.take_records();
        if durable_state.is_broken() {
            return 0;
        }
        records.into_iter().for_each(|record| durable_state.journal.write(page, record));
        self.run.steps()
    }

    /// It has left the line without a turn.
    pub(crate) fn leave_turn(&mut self) {
        self.in_line = false;
    }

    /// What those who watch call it.
    pub(crate) fn task_id(&self) -> TaskId {
        match &self.durable_state {
            Some(durable_state) => durable_state.uuid().into(),
            None => self.run.id().into(),
        }
    }
}

impl Runtime {
    /// Where a run is, if it is durable.
    pub(crate) fn durable_place(&self, id: RunId) -> Option<usize> {
        let place = *self.places.get(&id)?;
        self.runs[place].durable_state.as_ref().map(|_| place)
    }

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

    /// Takes in a run that is ready to have its first round.
    pub(crate) fn host_run(&mut self, run: Run, durable_state: Option<Box<DurableState>>) -> RunId {
        let (id, since) = (run.id(), run.clock());
        let hosted = Hosted { run, durable_state, since, in_line: false, armed: None };
        let place = self.runs.insert(Box::new(hosted));
        self.places.insert(id, place);
        self.heed_for(place);
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

    /// A number for a run that is about to be.
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

    /// It did not come to be.
    pub(crate) fn forget_number(&self, id: RunId) {
        self.is_gone(id);
        self.host.tracer.forget_run(id);
    }

    /// No task of this run has a turn any more.
    fn is_gone(&self, id: RunId) {
        context::with(|context| context.live_runs.borrow_mut().remove(&id));
        if let Some(watched) = &self.watched {
            watched.run_ends(id);
        }
    }

    /// Puts a new run where another was, which is left by its root and forgotten. Gives the messages that nobody has taken there.
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
        let (old, new_id) = (left.id(), new.id());
        for error in left.take_unobserved() {
            self.show_unobserved(&error);
        }
        for order in self.runs[place].run.take_orders() {
            self.execute(old, order);
        }
        self.host.tracer.run_completed(old);
        self.host.tracer.forget_run(old);
        self.forget_traces(old);
        self.places.remove(&old);
        self.places.insert(new_id, place);
        self.runs[place].run = new;
        self.heed_for(place);
        messages
    }

    /// What others know of a run is forgotten.
    fn forget_traces(&mut self, id: RunId) {
        self.is_gone(id);
        self.memory.iter_mut().for_each(|memory| memory.forget(id));
        self.stalled.remove(&id);
        self.host.inbox.promises().forget_run(id);
        self.host.questions.forget_run(id);
        self.forget_steps(id);
        self.approvals.forget_run(id);
    }

    /// Removes a run from all lists.
    pub(crate) fn forget_run(&mut self, id: RunId) -> Option<Box<Hosted>> {
        let place = self.places.remove(&id)?;
        let hosted = self.runs.remove(place);
        if hosted.in_line {
            self.leave_line(place);
        }
        if let Some(deadline) = hosted.armed {
            self.deadlines.remove(&(deadline, place));
        }
        self.forget_traces(id);
        Some(hosted)
    }

    /// Removes a run that is over, and shows the failures nobody waited for.
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
            // It was told when its outcome was fixed.
            (Some(_), Some(durable_state)) if durable_state.told().is_some() => {}
            (Some(error), Some(durable_state)) => tracer.run_failed(id, durable_state.who(), error),
            (Some(error), None) => tracer.run_failed(id, Who::Ephemeral, error),
        }
        tracer.forget_run(id);
        self.activity_ends(task_id, error);
        outcome
    }

    /// What is done about such a failure is user code; if it panics, the hook has shown that.
    fn show_unobserved(&self, error: &TaskError) {
        self.host.inbox.meters.unobserved.add(1);
        let show = AssertUnwindSafe(|| (self.settings.on_unobserved)(error));
        if let Err(payload) = catch_unwind(show) {
            panic_text(payload);
        }
    }
}

impl Hosted {
    /// Its function, which ephemeral runs have none of, and when it was started.
    fn beginning(&self) -> (Rc<str>, Time) {
        match &self.durable_state {
            Some(durable_state) => durable_state.began(),
            None => ("".into(), self.since),
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
