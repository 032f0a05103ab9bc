//! Effects, which the host executes, and their cost.

use crate::call::{EffectWork, Reply};
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::CallId;
use crate::outbox::{CallRef, Order};
use crate::outstanding::Wait;
use crate::record::RecordKind;
use crate::run::Run;
use crate::value::Value;

impl Run {
    pub(crate) fn effect(&mut self, me: u32, id: CallId, work: EffectWork) -> Answer {
        self.hope.effects += 1;
        self.order(Order::Start(self.call_ref(me, id), work));
        Answer::Later(Wait::Effect)
    }

    pub(crate) fn charge(&mut self, cost: u64) -> Answer {
        let total = self.cost.saturating_add(cost);
        if let Some(limit) = self.rare.limits.max_cost
            && total > limit
        {
            let message = format!("a cost of {cost} would bring the run to {total} of {limit}");
            return Answer::error(ErrorKind::CostLimit, message);
        }
        self.cost = total;
        Answer::Now(Reply::Unit)
    }

    /// Fires the timer of a call during replay, as the log says.
    pub(crate) fn complete_timer(&mut self, at: CallRef) {
        let calls = self.tasks.get(at.slot as usize).and_then(|task| task.calls());
        match calls.and_then(|calls| calls.wait_of(at.call)) {
            Some(Wait::Timer { timer }) => {
                self.timers.disarm(timer);
                self.fire(at.slot, at.call);
            }
            Some(Wait::Approval { timer }) => {
                timer.into_iter().for_each(|timer| self.timers.disarm(timer));
                self.unanswered(at.slot, at.call);
            }
            _ => {}
        }
    }

    /// Answers a call whose timer is due.
    pub(crate) fn fire(&mut self, slot: u32, call: CallId) {
        self.hope.timers -= 1;
        self.record(slot, |run| RecordKind::Woken(run.call_ref(slot, call)));
        self.answer(slot, call, Reply::Unit);
    }

    /// Delivers the host's answer to a call.
    pub(crate) fn complete_call(&mut self, at: CallRef, result: Result<Value, TaskError>) {
        let calls = self.tasks.get(at.slot as usize).and_then(|task| task.calls());
        match calls.and_then(|calls| calls.wait_of(at.call)) {
            Some(Wait::Io { .. }) => self.hope.descriptors -= 1,
            Some(Wait::Effect) => self.hope.effects -= 1,
            Some(Wait::Commit { promise }) => {
                self.hope.effects -= 1;
                if result.is_ok() {
                    let reply = self.committed(promise);
                    return self.answer(at.slot, at.call, reply);
                }
            }
            _ => {
                self.rare.counts.late += 1;
                return;
            }
        }
        let reply = match result {
            Ok(value) => Reply::Value(value),
            Err(error) => Reply::Error(error.in_task(|| self.label(at.slot))),
        };
        self.answer(at.slot, at.call, reply);
    }
}
