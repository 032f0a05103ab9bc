//! Carries out what the kernel leaves in its outbox: descriptors to watch, work to start, questions to ask.

use tiffany_kernel::{
    CallRef, Completion, EffectWork, ErrorKind, Order, Port, RunId, TaskError, Value,
};

use crate::calls::context;
use crate::calls::work::Work;
use crate::runtime::Runtime;

impl Runtime {
    /// Does what the kernel asked for.
    pub(crate) fn execute(&mut self, id: RunId, order: Order) {
        match order {
            // There is nothing to wait for without a log.
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
            Order::Ask(call, asked) => self.ask_person(call, asked),
            Order::Abort(call) => {
                self.close_question(call);
                self.abort_step(call);
            }
            Order::Announce(uuid, promise) => {
                self.host.inbox.promises().add(uuid, promise.run, false)
            }
            Order::Name(tid, name) => {
                if let Some(watched) = &self.watched {
                    watched.name(id, tid, name.as_deref());
                }
            }
            Order::WithdrawElsewhere(maker, call) => match self.places.contains_key(&maker.run) {
                true => self.with_run(maker.run, |run| run.withdraw_by(maker, call)),
                false => keep_for(maker.run, |port| port.withdraw(maker, call)),
            },
            Order::Elsewhere(release) => match self.places.contains_key(&release.run()) {
                true => self.with_run(release.run(), |run| run.release(release)),
                false => keep_for(release.run(), |port| port.release(release)),
            },
        }
    }

    /// Starts work that a task asked for.
    fn start_work(&mut self, id: RunId, call: CallRef, effect: EffectWork) {
        let name = effect.name;
        match Work::of(effect) {
            Some(Work::Blocking(work)) => self.host.start_work(call, work),
            Some(Work::Step(step)) => self.begin_step(call, step),
            Some(Work::Send(sending)) => self.begin_send(call, sending),
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
