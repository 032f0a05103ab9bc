//! Empties the outbox of a run: writes its records to the log, and executes its orders, at once or when
//! the log is durable.

use tiffany_kernel::{
    CallRef, Completion, EffectWork, ErrorKind, Order, Port, RunId, TaskError, Uuid, Value,
};

use crate::calls::context;
use crate::calls::send::Sending;
use crate::calls::work::Work;
use crate::runtime::Runtime;
use crate::runtime::commit::AfterCommit;
use crate::runtime::durable_runs::Ending;
use crate::runtime::snapshots::Snapshots;

impl Runtime {
    /// Publishes the events of a run, writes its records, and executes its orders.
    pub(crate) fn empty_outbox(&mut self, place: usize) {
        let id = self.runs[place].run.id();
        self.feed.tell_events(&self.host, &mut self.runs[place]);
        if self.runs[place].durable_state.is_some() {
            return self.empty_durable_outbox(place);
        }
        for order in self.runs[place].run.take_orders() {
            self.execute(id, order);
        }
    }

    /// Records what a durable run did, and executes its orders, some of them once the records are
    /// durable.
    fn empty_durable_outbox(&mut self, place: usize) {
        let Some(durable) = &mut self.durable else { return };
        let hosted = &mut self.runs[place];
        let Some(durable_state) = &mut hosted.durable_state else { return };
        if durable_state.replay.is_some() {
            return;
        }
        if durable_state.is_broken() {
            // It continues from its log, and its present actions are void.
            drop((hosted.run.take_records(), hosted.run.take_orders()));
            return self.hand_in_if_due();
        }
        durable_state.journal.write_records(&mut durable.page, &mut hosted.run);
        let id = hosted.run.id();
        let ends = hosted.run.is_over() && !durable_state.is_over;
        if ends {
            durable_state.is_over = true;
            let mut lines = durable_state.journal.lines_after(&mut durable.page, &mut hosted.run);
            lines.end(hosted.run.failure());
            if let Some(now) = hosted.run.attributes()
                && *now != durable_state.terms.attributes
            {
                lines.last_attributes(now);
            }
            durable.page.batch.finish(&durable_state.journal.chain);
            durable.after_commit.push(AfterCommit::Over(id));
        }
        if hosted.run.is_ending() && matches!(durable_state.ending, Ending::No) {
            durable_state.ending = Ending::Written;
            durable.after_commit.push(AfterCommit::Ending(id));
        }
        let mut continues = None;
        for order in hosted.run.take_orders() {
            match order {
                Order::Continue(call, input) => continues = Some((call, input)),
                other => self.execute_durable(place, other),
            }
        }
        if let Some((call, input)) = continues {
            self.continue_run(place, call, &input);
        }
        if let Some(durable) = &mut self.durable {
            let (steps, settings, host) = (&self.effects, &self.settings, &*self.host);
            let mut snapshots = Snapshots { durable, steps, settings, host };
            snapshots.take_if_due(&mut self.runs[place]);
        }
        self.hand_in_if_due();
    }

    pub(crate) fn execute_durable(&mut self, place: usize, order: Order) {
        let id = self.runs[place].run.id();
        let Some(durable) = &mut self.durable else { return self.execute(id, order) };
        match order {
            Order::Start(call, effect) if Work::is_ephemeral(&effect) => {
                let message = "the result of blocking work cannot be recorded; use a step";
                let error = TaskError::new(ErrorKind::NotDurable, message);
                self.complete(id, Completion::Call(call, Err(error)));
            }
            Order::Start(call, effect) => {
                if let Some(effect) = self.ask_parent(place, call, effect) {
                    self.execute(id, Order::Start(call, effect));
                }
            }
            Order::Abort(call) => {
                self.leave_parent(place, call);
                self.execute(id, Order::Abort(call));
            }
            Order::Commit(call) => durable.after_commit.push(AfterCommit::Committed(call)),
            Order::Announce(uuid, promise) => {
                durable.after_commit.push(AfterCommit::Announce(uuid, promise))
            }
            other => self.execute(id, other),
        }
    }

    /// Executes an order of the kernel.
    pub(crate) fn execute(&mut self, id: RunId, order: Order) {
        match order {
            // Without a log there is no commit to wait for.
            Order::Commit(call) => self.complete(id, Completion::Call(call, Ok(Value::Unit))),
            Order::Watch(call, fd, interest) => {
                self.host.reactor.borrow_mut().watch(call, fd, interest, &mut self.ready);
                self.deliver_ready();
            }
            Order::Unwatch(call, fd) => self.host.reactor.borrow_mut().unwatch(call, fd),
            Order::Start(call, effect) => self.start_work(id, call, effect),
            Order::Continue(call, _) => {
                let message = "this runtime has no log; give its builder a `log_dir`";
                let error = TaskError::new(ErrorKind::CannotContinue, message);
                self.complete(id, Completion::Call(call, Err(error)));
            }
            Order::Ask(call, asked) => {
                let (questions, mut parts) = self.questions();
                questions.ask(&mut parts, call, asked);
            }
            Order::Abort(call) => {
                self.approvals.close(&self.host, call);
                let (steps, mut parts) = self.steps();
                steps.abort(&mut parts, call);
                self.hand_in_held();
            }
            Order::Announce(uuid, promise) => {
                self.host.inbox.promises().add(uuid, promise.run, false)
            }
            Order::Name(tid, name) => {
                if let Some(watched) = &self.watched {
                    watched.name(id, tid, name.as_deref());
                }
            }
            Order::WithdrawElsewhere(maker, call) => match self.runs.has(maker.run) {
                true => self.with_run(maker.run, |run| run.withdraw_by(maker, call)),
                false => keep_for(maker.run, |port| port.withdraw(maker, call)),
            },
            Order::Elsewhere(release) => match self.runs.has(release.run()) {
                true => self.with_run(release.run(), |run| run.release(release)),
                false => keep_for(release.run(), |port| port.release(release)),
            },
        }
    }

    /// Delivers the messages that runs sent while they were resumed.
    pub(crate) fn open_post(&mut self) {
        for (call, sending) in self.post.open() {
            self.send_message(call, sending);
        }
        self.hand_in();
    }

    /// Starts to send a message of a task.
    fn send_message(&mut self, call: CallRef, sending: Sending) {
        let (post, mut parts) = self.post();
        let Some(sent) = post.send(&mut parts, call, sending) else { return };
        if let Err(error) = sent {
            self.complete(call.run, Completion::Call(call, Err(error)));
        }
        self.hand_in();
    }

    /// Delivers messages that waited until a run received others, or finished.
    pub(crate) fn deliver_parked(&mut self, to: Uuid) {
        let mut parked = self.post.take_parked(to);
        while let Some((call, sending)) = parked.pop_front() {
            // A task that was cancelled meanwhile sends nothing any more.
            if self.run_of(call.run).is_some_and(|run| run.caller(call).is_some()) {
                self.send_message(call, sending);
            }
            // The others wait behind one that still does not fit.
            if self.post.has_parked(to) {
                return self.post.park(parked);
            }
        }
    }

    /// Starts work that a task asked for.
    fn start_work(&mut self, id: RunId, call: CallRef, effect: EffectWork) {
        let name = effect.name;
        match Work::of(effect) {
            Some(Work::Blocking(work)) => self.host.start_work(call, work),
            Some(Work::Step(step)) => {
                let (steps, mut parts) = self.steps();
                if let Err(error) = steps.begin(&mut parts, call, step) {
                    self.complete(id, Completion::Call(call, Err(error)));
                }
            }
            Some(Work::Send(sending)) => self.send_message(call, sending),
            Some(Work::Outside(outside)) => outside.begin(call, &self.host.inbox),
            None => {
                let message = format!("the host cannot perform `{name}`");
                let error = TaskError::new(ErrorKind::Host, message);
                self.complete(id, Completion::Call(call, Err(error)));
            }
        }
    }
}

/// Keeps a post for a run of another runtime of this thread, until that one has its turn.
fn keep_for(run: RunId, post: impl FnOnce(&Port)) {
    context::with(|context| {
        if context.live_runs.borrow().contains(&run) {
            post(&context.port);
        }
    });
}
