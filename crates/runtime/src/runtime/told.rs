//! Completions of durable runs: each is recorded in the run's log, after everything that the run
//! did before, and passed to the kernel. It gives no turns.

use tiffany_kernel::{Completion, Tid, Time, Value};

use crate::calls::send::Sending;
use crate::run_log::journal::Giver;
use crate::run_log::page::Page;
use crate::runtime::durable::DurableState;
use crate::runtime::hosted_runs::Hosted;
use tiffany_records::key::Key;
use tiffany_records::request::stamped;
use tiffany_records::value::Json;

impl Hosted {
    /// Records a completion for a durable run, and passes it to the run. `false`: the run is finished.
    pub(crate) fn tell(&mut self, page: &mut Page, now: Time, mut completion: Completion) -> bool {
        let Some(durable_state) = &mut self.durable_state else { return false };
        if durable_state.is_over {
            return false;
        }
        let run = &mut self.run;
        let DurableState { journal, branch, settled, .. } = &mut **durable_state;
        let mut lines = journal.lines_now(page, run, now);
        match &mut completion {
            Completion::Call(call, result) => {
                let tid = run.caller(*call).unwrap_or(Tid(1));
                let answering = branch.as_mut().and_then(|branch| branch.answering.take());
                let from = if answering == Some(*call) { Giver::Parent } else { Giver::Work };
                match result {
                    Ok(Value::Unit) => lines.woken(tid, *call),
                    result => lines.effect_result(tid, *call, result, from),
                }
            }
            Completion::Decided(call, answer) => {
                let tid = run.caller(*call).unwrap_or(Tid(1));
                lines.approval_decided(tid, *call, answer);
                if let Ok(answer) = answer {
                    *answer = stamped(answer, lines.clock());
                }
            }
            // Only the first answer counts.
            Completion::Settle(uuid, result) if settled.insert(*uuid) => {
                lines.settled(*uuid, result);
            }
            Completion::Message(name, value) => {
                let json = value.borrow::<Json>().map_or("null", |json| &json.0);
                lines.message((name, json), None);
            }
            _ => {}
        }
        run.complete(completion);
        true
    }

    /// Records a message from another durable run, and passes it on. The key is that of the call that
    /// sent it.
    pub(crate) fn tell_message(
        &mut self,
        page: &mut Page,
        now: Time,
        (key, sending): (Key, &Sending),
    ) {
        let Some(durable_state) = &mut self.durable_state else { return };
        let mut lines = durable_state.journal.lines_now(page, &mut self.run, now);
        lines.message((&sending.name, &sending.json), Some(&key.to_string()));
        durable_state.received.add(key);
        let value = Value::new(Json::new(sending.json.as_str()));
        self.run.complete(Completion::Message(sending.name.as_str().into(), value));
    }
}
