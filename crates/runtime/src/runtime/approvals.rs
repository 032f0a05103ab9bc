//! The questions that the runs of a runtime have open: listed, and decided once. That a decision is safe in the log before anybody is told is
//! the business of who carries requests out.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use tiffany_kernel::{Asked, CallId, CallRef, Completion, ErrorKind, RunId, Stage, TaskError};

use crate::host::tell::Tell;
use crate::runtime::{Hosted, Runtime};
use tiffany_log::Stamp;
use tiffany_records::activity::{Data, TaskId};
use tiffany_records::key::Key;
use tiffany_records::request::{
    Approval, OpenApproval, Place, Ruling, decided_already, no_such_approval, stamped,
};

/// So many decisions are remembered for those who come too late.
const REMEMBERED: usize = 1024;

/// The questions of all runs that wait for a person.
#[derive(Default)]
pub(crate) struct Approvals {
    /// In the order in which each run asked.
    open: BTreeMap<(RunId, CallId), (CallRef, Asked)>,
    decided: VecDeque<(String, Approval)>,
}

impl Approvals {
    pub(crate) fn ask(&mut self, call: CallRef, asked: Asked) {
        self.open.insert((call.run, call.call), (call, asked));
    }

    /// Removes a question whose answer no task waits for any more.
    fn withdraw(&mut self, call: CallRef) -> Option<Asked> {
        self.open.remove(&(call.run, call.call)).map(|(_, asked)| asked)
    }

    /// Withdraws the questions of a run that has finished or starts again.
    pub(crate) fn forget_run(&mut self, run: RunId) {
        let calls: Vec<CallRef> = self.of_run(run).collect();
        calls.into_iter().for_each(|call| drop(self.withdraw(call)));
    }

    fn of_run(&self, run: RunId) -> impl Iterator<Item = CallRef> {
        let range = (run, CallId(0))..=(run, CallId(u64::MAX));
        self.open.range(range).map(|(_, (call, _))| *call)
    }

    fn remember(&mut self, id: String, approval: Approval) {
        if self.decided.len() == REMEMBERED {
            self.decided.pop_front();
        }
        self.decided.push_back((id, approval));
    }

    /// The decision of an approval, if this process made it.
    pub(crate) fn earlier(&self, id: &str) -> Option<&Approval> {
        self.decided.iter().find(|(other, _)| other == id).map(|(_, approval)| approval)
    }
}

impl Runtime {
    /// A call of a run asks a person.
    pub(crate) fn ask_person(&mut self, call: CallRef, asked: Asked) {
        if let Some(open) = self.open_approval(call, &asked) {
            let OpenApproval { id, choices, deadline, .. } = &open;
            let deadline = deadline.map(|until| Stamp::from_unix_nanos(until.as_nanos()));
            let deadline = deadline.as_ref().map(Stamp::as_str);
            let data = json!({ "approval": id, "choices": choices, "deadline": deadline });
            self.tell_of(call, open.question, data);
        }
        self.approvals.ask(call, asked);
    }

    /// A question has its answer, or nobody waits for it any more.
    pub(crate) fn close_question(&mut self, call: CallRef) {
        if let Some(asked) = self.approvals.withdraw(call) {
            let waited = self.host.clock.now().saturating_since(asked.since);
            self.host.inbox.meters.waited.approval.0.observe_time(waited);
        }
    }

    /// Publishes an event about a question.
    fn tell_of(&self, call: CallRef, message: String, data: serde_json::Value) {
        let Some(place) = self.places.get(&call.run) else { return };
        let Hosted { run, durable_state, .. } = &*self.runs[*place];
        let task_id = match durable_state {
            Some(durable_state) => TaskId::Durable(durable_state.uuid()),
            None => TaskId::Ephemeral(run.id()),
        };
        let (tid, ts) = (run.caller(call), self.host.clock.now());
        let what = (Stage::AwaitingUserApproval, message);
        self.host.hub.tell(task_id, tid, ts, what, Data::Other(data));
    }

    /// The questions of all runs that wait for a person. In runs that are paused there may be some, too.
    pub fn approvals(&self) -> Vec<OpenApproval> {
        let calls = self.approvals.open.values();
        let live = calls.filter_map(|(call, asked)| self.open_approval(*call, asked));
        live.chain(self.shelved_approvals()).collect()
    }

    /// Decides a question, by its id. The first answer holds.
    pub fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        match self.rule(approval, ruling) {
            Err(error) if error.kind() == ErrorKind::NoSuchApproval => {
                let (tell, told) = Tell::waited_for();
                self.tell_why_not_open(approval.into(), tell, error.clone());
                Err(told.recv().ok().and_then(Result::err).unwrap_or(error))
            }
            ruled => ruled,
        }
    }

    /// Decides a question that is in memory: one that was decided before this process started
    /// counts as not open.
    pub(crate) fn rule(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        let Some(call) = self.asking(approval) else {
            return match self.approvals.earlier(approval) {
                Some(first) => Err(decided_already(approval, first)),
                None => self.resolve_shelved(approval, ruling),
            };
        };
        let open = self.approvals.open.get(&(call.run, call.call));
        let open = open.and_then(|(call, asked)| self.open_approval(*call, asked));
        let open = open.ok_or_else(|| no_such_approval(approval))?;
        let answer = ruling.decide(&open, self.host.clock.now())?;
        let value = match open.run_id {
            // Who writes it down says when.
            Some(_) => answer.value()?,
            None => stamped(&answer.value()?, answer.at),
        };
        let Approval { choice, by, .. } = &answer;
        let data = json!({ "approval": open.id, "decided": answer });
        self.tell_of(call, format!("{by} said {choice}"), data);
        self.close_question(call);
        self.approvals.remember(open.id, answer.clone());
        self.complete(call.run, Completion::Decided(call, Ok(value)));
        Ok(answer)
    }

    fn open_approval(&self, call: CallRef, asked: &Asked) -> Option<OpenApproval> {
        let hosted = &self.runs[*self.places.get(&call.run)?];
        let label = hosted.run.caller_label(call)?;
        let (id, run, run_id) = match &hosted.durable_state {
            Some(durable_state) => {
                let (key, id) = durable_state.name_of(call)?;
                (key.to_string(), key.run.to_string(), Some(id))
            }
            None => (format!("{}/{}", call.run.0, call.call.0), call.run.0.to_string(), None),
        };
        let Asked { about, payload, since, deadline } = asked;
        let (tid, task) = (label.tid.0, label.name);
        let place = Place { id, run, run_id, tid, task, since: *since, deadline: *deadline };
        OpenApproval::new(about, payload.as_deref(), place).ok()
    }

    /// The call that asked the question with this id.
    fn asking(&self, approval: &str) -> Option<CallRef> {
        if let Some(key) = Key::parse(approval) {
            let run = self.live_run(key.run)?;
            let durable_state = self.runs[*self.places.get(&run)?].durable_state.as_ref()?;
            let named =
                |call: &CallRef| durable_state.name_of(*call).is_some_and(|(of, _)| of == key);
            return self.approvals.of_run(run).find(named);
        }
        let (run, call) = approval.split_once('/')?;
        let place = (RunId(run.parse().ok()?), CallId(call.parse().ok()?));
        let is_ours = |hosted: &usize| self.runs[*hosted].durable_state.is_none();
        self.places.get(&place.0).filter(|place| is_ours(place))?;
        self.approvals.open.get(&place).map(|(call, _)| *call)
    }
}
