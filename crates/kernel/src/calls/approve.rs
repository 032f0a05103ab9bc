//! Approve: a question to a person. The task waits until it is answered, withdrawn or timed out.
//! The host decides who is asked and what the question contains.

use crate::call::{Asking, CallKind, Reply};
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::CallId;
use crate::outbox::{Asked, CallRef, Order};
use crate::outstanding::{Calls, Wait};
use crate::record::RecordKind;
use crate::run::Run;
use crate::timer::Due;
use crate::value::Value;

impl Run {
    pub(crate) fn approve(&mut self, me: u32, id: CallId, asking: Asking) -> Answer {
        let deadline = asking.timeout.map(|timeout| self.clock.checked_add(timeout).ok_or(timeout));
        let deadline = match deadline.transpose() {
            Ok(deadline) => deadline,
            Err(timeout) => {
                let message =
                    format!("a timeout of {timeout:?} ends after the last possible moment");
                return Answer::error(ErrorKind::BadDuration, message);
            }
        };
        let due = Due::Answer { task: me, call: id };
        let timer = deadline.map(|deadline| self.timers.arm(deadline, due));
        self.hope.externals += 1;
        let Asking { about, payload, .. } = asking;
        let asked = Asked { about, payload, since: self.clock, deadline };
        self.order(Order::Ask(self.call_ref(me, id), asked));
        Answer::Later(Wait::Approval { timer })
    }

    /// Delivers a person's answer. An answer that comes too late is counted.
    pub(crate) fn decided(&mut self, at: CallRef, answer: Result<Value, TaskError>) {
        let calls = self.tasks.get(at.slot as usize).and_then(|task| task.calls());
        match calls.and_then(|calls| calls.wait_of(at.call)) {
            Some(Wait::Approval { timer }) => {
                timer.into_iter().for_each(|timer| self.timers.disarm(timer));
                self.hope.externals -= 1;
                let reply = match answer {
                    Ok(value) => Reply::Value(value),
                    Err(error) => Reply::Error(error.in_task(|| self.label(at.slot))),
                };
                self.answer(at.slot, at.call, reply);
            }
            _ => self.rare.counts.late += 1,
        }
    }

    /// Times the question out.
    pub(crate) fn unanswered(&mut self, slot: u32, call: CallId) {
        self.record(slot, |run| RecordKind::Woken(run.call_ref(slot, call)));
        self.stop_asking(slot, call, None);
        let mut error = TaskError::new(ErrorKind::ApprovalTimedOut, "no person answered in time");
        let waits = self.tasks[slot as usize].calls().into_iter().flat_map(Calls::waits);
        let at = { waits }.find(|(waiting, ..)| *waiting == call).map(|(.., at)| at);
        if let Some(at) = at {
            error = error.at_call(CallKind::Approve, None, || self.site(slot, at));
        }
        let error = error.in_task(|| self.label(slot));
        self.answer(slot, call, Reply::Error(error));
    }

    /// Withdraws the question, because its task no longer waits for the answer.
    pub(crate) fn stop_asking(&mut self, slot: u32, call: CallId, timer: Option<u32>) {
        timer.into_iter().for_each(|timer| self.timers.disarm(timer));
        self.hope.externals -= 1;
        self.order(Order::Abort(self.call_ref(slot, call)));
    }
}
