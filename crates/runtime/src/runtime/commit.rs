//! Output commit: what a durable run does is recorded, and what leaves the process waits until the
//! lines it depends on are durable in the log. The loop itself never waits for the disk.

use tiffany_kernel::{
    CallRef, Completion, ErrorKind, ObjectRef, Order, RunId, TaskError, Tid, Time, Uuid, Value,
};

use crate::calls::work::Work;
use crate::host::checkpoint::Receipt;
use crate::host::inbox::LoopMessage;
use crate::host::tell::Tell;
use crate::run_log::journal::Giver;
use crate::runtime::Runtime;
use crate::runtime::durable::Durable;
use crate::runtime::durable_runs::Ending;
use tiffany_log::{LogError, Notice};
use tiffany_records::errors::log_failed;
use tiffany_records::request::{Answer, stamped};
use tiffany_records::value::Json;

/// Lines that nothing waits for are handed in when they have this many bytes, or when the log has
/// nothing else to do.
const BATCH_BYTES: usize = 64 << 10;

/// An action that waits until the lines before it are durable.
pub(crate) enum AfterCommit {
    /// Starts the attempt with this number.
    Attempt(CallRef, u64),
    Committed(CallRef),
    Announce(Uuid, ObjectRef),
    /// The outcome of a run that is ending.
    Ending(RunId),
    Over(RunId),
    Answer(Tell, Result<Answer, TaskError>),
    Checkpoint(Receipt),
}

impl Durable {
    /// Whether the lines written so far should go to the log now, instead of with the next ones.
    fn should_hand_in(&self) -> bool {
        let is_idle = self.handed_in == self.safe;
        !self.after_commit.is_empty() || is_idle || self.page.batch.len() >= BATCH_BYTES
    }
}

impl Runtime {
    /// Records what a durable run did, and executes its orders, some of them once the records are
    /// durable.
    pub(crate) fn empty_durable_outbox(&mut self, place: usize) {
        let Some(durable) = &mut self.durable else { return };
        let hosted = &mut self.runs[place];
        let Some(durable_state) = &mut hosted.durable_state else { return };
        if durable_state.replay.is_some() {
            return;
        }
        if durable_state.holding.is_broken {
            // It continues from its log only, and what it would do now never happened.
            drop((hosted.run.take_records(), hosted.run.take_orders()));
            return self.hand_in_if_due();
        }
        for record in hosted.run.take_records() {
            durable_state.journal.write(&mut durable.page, record);
        }
        let id = hosted.run.id();
        let ends = hosted.run.is_over() && !durable_state.is_over;
        if ends {
            durable_state.is_over = true;
            let (clock, failure) = (hosted.run.clock(), hosted.run.failure());
            durable_state.journal.end(&mut durable.page, clock, failure);
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
        self.snapshot_if_due(place);
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

    /// Hands the lines written so far to the log thread.
    pub(crate) fn hand_in(&mut self) {
        let Some(durable) = &mut self.durable else { return };
        if !durable.page.batch.is_empty() {
            durable.page.tell_calls(&self.host.inbox.meters.calls);
            durable.handed_in = durable.log.submit(&mut durable.page.batch, &self.host.clock);
            durable.look_at_backlog(self.settings.log_settings.backlog_bytes);
        }
        if durable.after_commit.is_empty() {
            return;
        }
        let after = std::mem::take(&mut durable.after_commit);
        let now = self.host.clock.now();
        if durable.handed_in > durable.safe {
            durable.waiting.push_back((durable.handed_in, now, after));
        } else if after.iter().any(|after| matches!(after, AfterCommit::Over(_))) {
            // The log has its end already. It must not vanish under whoever is busy with it.
            durable.waiting.push_back((durable.handed_in, now, after));
            self.host.inbox.send(LoopMessage::Logged(Notice::Durable(durable.safe)));
        } else {
            // All that was ever written is safe.
            after.into_iter().for_each(|after| self.let_go(after));
        }
    }

    /// When the log has work to do on the loop's thread, in a simulation.
    pub(crate) fn log_due(&self) -> Option<Time> {
        self.durable.as_ref().and_then(|durable| durable.log.due())
    }

    /// Does the log's work on the loop's thread, in a simulation.
    pub(crate) fn act_for_log(&mut self, now: Time) {
        if let Some(durable) = &mut self.durable {
            durable.log.act(now);
        }
    }

    /// Hands the lines in, unless they should wait for more.
    pub(crate) fn hand_in_if_due(&mut self) {
        if self.durable.as_ref().is_some_and(Durable::should_hand_in) {
            self.hand_in();
        }
    }

    /// Hands the lines in if something waits for them.
    pub(crate) fn hand_in_held(&mut self) {
        if self.durable.as_ref().is_some_and(|durable| !durable.after_commit.is_empty()) {
            self.hand_in();
        }
    }

    /// Takes a notice of the log thread.
    pub(crate) fn logged(&mut self, notice: Notice) {
        match notice {
            Notice::Durable(ticket) => {
                if let Some(durable) = &mut self.durable {
                    durable.safe = durable.safe.max(ticket);
                }
                let now = self.host.clock.now();
                while let Some(durable) = &mut self.durable
                    && durable.waiting.front().is_some_and(|(waits, ..)| *waits <= ticket)
                    && let Some((_, since, after)) = durable.waiting.pop_front()
                {
                    let waited = now.saturating_since(since);
                    self.host.inbox.meters.waited.commit.0.observe_time(waited);
                    after.into_iter().for_each(|after| self.let_go(after));
                }
                self.catch_up();
            }
            Notice::Failed(error) => {
                if let Some(durable) = &mut self.durable {
                    // What waits will never be safe, and who asked must not wait for it.
                    let after = std::mem::take(&mut durable.after_commit);
                    let waiting = std::mem::take(&mut durable.waiting);
                    let waiting = waiting.into_iter().flat_map(|(_, _, after)| after);
                    for after in after.into_iter().chain(waiting) {
                        if let AfterCommit::Answer(tell, answer) = after {
                            tell.tell(Err(cut_short(&error, &answer)));
                        }
                    }
                    tracing::error!(
                        target: "tiffany", code = error.code(),
                        "the log has failed, and nothing is written any more: {error}",
                    );
                    self.host.hub.fail(log_failed(error.clone()));
                    durable.failed = Some(error);
                }
            }
        }
    }

    /// The log's failure, which stops everything that needs it.
    pub(crate) fn log_failure(&self) -> Option<LogError> {
        self.durable.as_ref().and_then(|durable| durable.failed.clone())
    }

    fn let_go(&mut self, after: AfterCommit) {
        match after {
            AfterCommit::Attempt(call, number) => self.launch(call, number),
            AfterCommit::Committed(call) => {
                self.complete(call.run, Completion::Call(call, Ok(Value::Unit)));
            }
            // Its run may have begun anew since.
            AfterCommit::Announce(uuid, promise) if self.places.contains_key(&promise.run) => {
                self.host.inbox.promises().add(uuid, promise.run, true);
            }
            AfterCommit::Announce(..) => {}
            AfterCommit::Ending(id) => self.tell_ending(id),
            AfterCommit::Over(id) => self.end_durable(id),
            // Who asked may have given up.
            AfterCommit::Answer(tell, answer) => tell.tell(answer),
            AfterCommit::Checkpoint(receipt) => receipt.accept(),
        }
    }

    /// Records a completion for a durable run, and passes it to the run.
    pub(crate) fn tell(&mut self, place: usize, mut completion: Completion) {
        let now = self.host.clock.now();
        let hosted = &mut self.runs[place];
        let (Some(durable_state), Some(durable)) = (&hosted.durable_state, &mut self.durable)
        else {
            return;
        };
        if durable_state.is_over {
            return;
        }
        let step = hosted.write_records(&mut durable.page);
        let Some(durable_state) = &mut hosted.durable_state else { return };
        let (run, journal, page) = (&mut hosted.run, &mut durable_state.journal, &mut durable.page);
        run.set_clock(now);
        let clock = run.clock();
        match &mut completion {
            Completion::Call(call, result) => {
                let tid = run.caller(*call).unwrap_or(Tid(1));
                let answering =
                    durable_state.branch.as_mut().and_then(|branch| branch.answering.take());
                let from = if answering == Some(*call) { Giver::Parent } else { Giver::Work };
                match result {
                    Ok(Value::Unit) => journal.woken(page, tid, clock, step, *call),
                    result => {
                        let at = (tid, clock, step);
                        journal.effect_result(page, at, *call, result, from);
                    }
                }
            }
            Completion::Decided(call, answer) => {
                let tid = run.caller(*call).unwrap_or(Tid(1));
                journal.approval_decided(page, (tid, clock, step), *call, answer);
                if let Ok(answer) = answer {
                    *answer = stamped(answer, clock);
                }
            }
            // Only the first answer counts.
            Completion::Settle(uuid, result) if durable_state.settled.insert(*uuid) => {
                journal.settled(page, (clock, step), *uuid, result);
            }
            Completion::Message(name, value) => {
                let json = value.borrow::<Json>().map_or("null", |json| &json.0);
                journal.message(page, (clock, step), (name, json), None);
            }
            _ => {}
        }
        run.complete(completion);
        // A run that goes on writes more, which shares a sync with this.
        if !run.is_ready() {
            self.empty_outbox(place);
        }
        self.line_up(place);
    }
}

/// The error for a client whose answer waited for the log when the log failed. Its change may still
/// have been written: if a sync fails, it is unknown what the medium has.
fn cut_short(error: &LogError, answer: &Result<Answer, TaskError>) -> TaskError {
    use Answer::{Approval, Done, Each, Forked, Run, Settled};
    let is_change = matches!(
        answer,
        Ok(Done | Run { .. } | Forked { .. } | Settled(_) | Approval(_) | Each(_))
    );
    if !is_change {
        return log_failed(error.clone());
    }
    let message = format!(
        "{error}; this change may be recorded all the same: look for it after the restart, before you make it again"
    );
    TaskError::new(ErrorKind::LogFailed, message)
}
