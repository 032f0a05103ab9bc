//! Output commit: what leaves the process waits until the lines it depends on are durable in the log.
//! The loop itself never waits for the disk.

use tiffany_kernel::{
    CallRef, Completion, ErrorKind, ObjectRef, RunId, TaskError, Time, Uuid, Value,
};

use crate::host::Host;
use crate::host::checkpoint::Receipt;
use crate::host::inbox::LoopMessage;
use crate::host::tell::Tell;
use crate::runtime::Runtime;
use crate::runtime::durable::Durable;
use tiffany_log::{LogError, Notice, Ticket};
use tiffany_records::errors::log_failed;
use tiffany_records::request::Answer;

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

    /// Hands the written lines to the log thread, and returns the actions that need not wait.
    fn hand_in(&mut self, host: &Host, backlog_limit: usize) -> Vec<AfterCommit> {
        if !self.page.batch.is_empty() {
            self.page.tell_calls(&host.inbox.meters.calls);
            self.handed_in = self.log.submit(&mut self.page.batch, &host.clock);
            self.look_at_backlog(backlog_limit);
        }
        if self.after_commit.is_empty() {
            return Vec::new();
        }
        let after = std::mem::take(&mut self.after_commit);
        // The log has the end of a run already, but a caller may still be using the run.
        let is_end = after.iter().any(|after| matches!(after, AfterCommit::Over(_)));
        let is_safe = self.handed_in <= self.safe;
        if is_safe && !is_end {
            // Everything that was written is durable.
            return after;
        }
        self.waiting.push_back((self.handed_in, host.clock.now(), after));
        if is_safe {
            host.inbox.send(LoopMessage::Logged(Notice::Durable(self.safe)));
        }
        Vec::new()
    }

    /// Takes the actions that waited for this batch, and when they began to wait.
    fn take_safe(&mut self, ticket: Ticket) -> Option<(Time, Vec<AfterCommit>)> {
        self.waiting.front().filter(|(waits, ..)| *waits <= ticket)?;
        self.waiting.pop_front().map(|(_, since, after)| (since, after))
    }

    /// Answers the callers that wait for lines, which will never be durable because the log has
    /// failed.
    fn fail(&mut self, error: LogError) {
        let after = std::mem::take(&mut self.after_commit);
        let waiting = std::mem::take(&mut self.waiting);
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
        self.failed = Some(error);
    }
}

impl Runtime {
    /// Hands the lines written so far to the log thread.
    pub(crate) fn hand_in(&mut self) {
        let Some(durable) = &mut self.durable else { return };
        let limit = self.settings.log_settings.backlog_bytes;
        durable.hand_in(&self.host, limit).into_iter().for_each(|after| self.let_go(after));
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
                    && let Some((since, after)) = durable.take_safe(ticket)
                {
                    let waited = now.saturating_since(since);
                    self.host.inbox.meters.waited.commit.0.observe_time(waited);
                    after.into_iter().for_each(|after| self.let_go(after));
                }
                let limit = self.settings.log_settings.backlog_bytes;
                let durable = self.durable.as_mut();
                if let Some(held_back) = durable.and_then(|durable| durable.take_held_back(limit)) {
                    held_back.into_iter().for_each(|place| self.runs.take_turn(place));
                    self.hand_in();
                }
            }
            Notice::Failed(error) => {
                if let Some(durable) = &mut self.durable {
                    self.host.hub.fail(log_failed(error.clone()));
                    durable.fail(error);
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
            AfterCommit::Attempt(call, number) => {
                let (steps, mut parts) = self.steps();
                steps.launch(&mut parts, call, number);
            }
            AfterCommit::Committed(call) => {
                self.complete(call.run, Completion::Call(call, Ok(Value::Unit)));
            }
            // Its run may have continued as another one since.
            AfterCommit::Announce(uuid, promise) if self.runs.has(promise.run) => {
                self.host.inbox.promises().add(uuid, promise.run, true);
            }
            AfterCommit::Announce(..) => {}
            AfterCommit::Ending(id) => self.tell_ending(id),
            AfterCommit::Over(id) => self.end_durable(id),
            // The caller may have given up.
            AfterCommit::Answer(tell, answer) => tell.tell(answer),
            AfterCommit::Checkpoint(receipt) => receipt.accept(),
        }
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
