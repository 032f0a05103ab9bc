//! The open questions of the runs of a runtime: they are listed, and decided once. The caller makes
//! sure that a decision is durable before it is reported.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use tiffany_kernel::{Asked, CallId, CallRef, RunId, Stage, TaskError, Value};

use crate::host::Host;
use crate::runtime::hosted_runs::HostedRuns;
use crate::runtime::parts::Parts;
use tiffany_log::Stamp;
use tiffany_records::activity::Data;
use tiffany_records::key::Key;
use tiffany_records::request::{Approval, OpenApproval, Place, Ruling, no_such_approval, stamped};

/// The number of decisions that are remembered, for answers that come too late.
const REMEMBERED: usize = 1024;

/// The questions of all runs that wait for a person.
#[derive(Default)]
pub(crate) struct Approvals {
    /// In the order in which each run asked.
    open: BTreeMap<(RunId, CallId), (CallRef, Asked)>,
    decided: VecDeque<(String, Approval)>,
}

/// A question that a person has answered.
pub(crate) struct Decided {
    pub(crate) approval: Approval,
    /// The answer for the call that asks it.
    pub(crate) call: CallRef,
    pub(crate) value: Value,
}

impl Approvals {
    /// Opens a question that a call of a run asks a person.
    pub(crate) fn ask(&mut self, parts: &mut Parts<'_>, call: CallRef, asked: Asked) {
        if let Some(open) = open_approval(parts.runs, call, &asked) {
            let OpenApproval { id, choices, deadline, .. } = &open;
            let deadline = deadline.map(|until| Stamp::from_unix_nanos(until.as_nanos()));
            let deadline = deadline.as_ref().map(Stamp::as_str);
            let data = json!({ "approval": id, "choices": choices, "deadline": deadline });
            tell_of(parts, call, open.question, data);
        }
        self.open.insert((call.run, call.call), (call, asked));
    }

    /// Closes a question that has its answer, or whose answer no task waits for any more.
    pub(crate) fn close(&mut self, host: &Host, call: CallRef) {
        if let Some(asked) = self.withdraw(call) {
            let waited = host.clock.now().saturating_since(asked.since);
            host.inbox.meters.waited.approval.0.observe_time(waited);
        }
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

    /// The questions of the runs in memory.
    pub(crate) fn open(&self, runs: &HostedRuns) -> impl Iterator<Item = OpenApproval> {
        self.open.values().filter_map(|(call, asked)| open_approval(runs, *call, asked))
    }

    /// The call of a durable run in memory that asks the question of this key.
    pub(crate) fn asking(&self, runs: &HostedRuns, run: RunId, key: Key) -> Option<CallRef> {
        let durable_state = runs.durable_state(run)?;
        let named = |call: &CallRef| durable_state.name_of(*call).is_some_and(|(of, _)| of == key);
        self.of_run(run).find(named)
    }

    /// The call of an ephemeral run that asks the question of this id.
    pub(crate) fn asking_ephemeral(&self, runs: &HostedRuns, approval: &str) -> Option<CallRef> {
        let (run, call) = approval.split_once('/')?;
        let place = (RunId(run.parse().ok()?), CallId(call.parse().ok()?));
        runs.of(place.0).filter(|hosted| hosted.durable_state.is_none())?;
        self.open.get(&place).map(|(call, _)| *call)
    }

    /// Decides the question that a call asks. The first answer holds.
    pub(crate) fn decide(
        &mut self,
        parts: &mut Parts<'_>,
        call: CallRef,
        (approval, ruling): (&str, Ruling),
    ) -> Result<Decided, TaskError> {
        let open = self.open.get(&(call.run, call.call));
        let open = open.and_then(|(call, asked)| open_approval(parts.runs, *call, asked));
        let open = open.ok_or_else(|| no_such_approval(approval))?;
        let answer = ruling.decide(&open, parts.host.clock.now())?;
        let value = match open.run_id {
            // The record has the time.
            Some(_) => answer.value()?,
            None => stamped(&answer.value()?, answer.at),
        };
        let Approval { choice, by, .. } = &answer;
        let data = json!({ "approval": open.id, "decided": answer });
        tell_of(parts, call, format!("{by} said {choice}"), data);
        self.close(parts.host, call);
        self.remember(open.id, answer.clone());
        Ok(Decided { approval: answer, call, value })
    }
}

/// Publishes an event about a question.
fn tell_of(parts: &Parts<'_>, call: CallRef, message: String, data: serde_json::Value) {
    let Some(hosted) = parts.runs.of(call.run) else { return };
    let (tid, ts) = (hosted.run.caller(call), parts.host.clock.now());
    let what = (Stage::AwaitingUserApproval, message);
    parts.host.hub.tell(hosted.task_id(), tid, ts, what, Data::Other(data));
}

fn open_approval(runs: &HostedRuns, call: CallRef, asked: &Asked) -> Option<OpenApproval> {
    let hosted = runs.of(call.run)?;
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
