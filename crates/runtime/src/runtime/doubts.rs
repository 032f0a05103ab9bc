//! Steps that must not be carried out twice and were cut off. A person says whether they happened.

use tiffany_kernel::{CallRef, TaskError, Value};

use crate::host::attempt::Kind;
use crate::metrics::meters::AttemptOutcome;
use crate::runtime::hosted_runs::HostedRuns;
use crate::runtime::parts::Parts;
use crate::runtime::steps::{Effects, State};
use tiffany_records::request::{Decision, Doubt};

/// The effect of a person's decision.
pub(crate) enum Ruled {
    /// No step in doubt has this key.
    Unknown,
    /// The step is tried again.
    Again,
    /// Its task gets this answer.
    Answered(CallRef, Result<Value, TaskError>),
}

impl Effects {
    /// Lets a step that was cut off wait for a person, if it is one that does.
    pub(crate) fn hold_in_doubt(&mut self, parts: &mut Parts<'_>, call: CallRef) -> bool {
        let Some(step) = self.steps.get(&call) else { return false };
        let (holds, queue) = (step.work.holds_in_doubt, step.queue);
        if holds {
            self.count_cut_off(parts, call, AttemptOutcome::InDoubt);
            self.attempt_over(call);
            if let Some(step) = self.steps.get_mut(&call) {
                step.state = State::InDoubt;
            }
            self.serve_waiting(parts, queue);
        }
        holds
    }

    /// The steps that wait for a person.
    pub(crate) fn in_doubt(&self, runs: &HostedRuns) -> impl Iterator<Item = Doubt> {
        let steps = self.steps.iter();
        let in_doubt = steps.filter(|(_, step)| matches!(step.state, State::InDoubt));
        in_doubt.filter_map(|(call, step)| {
            Some(Doubt {
                key: step.key.to_string(),
                run: runs.durable_state(call.run)?.uuid(),
                step: step.work.name.to_owned(),
                attempt: step.attempt,
                waits: true,
            })
        })
    }

    /// Carries out the decision of a person.
    pub(crate) fn decide(
        &mut self,
        parts: &mut Parts<'_>,
        key: &str,
        decision: &Decision,
    ) -> Ruled {
        let mut steps = self.steps.iter();
        let found =
            steps.find(|(_, step)| matches!(step.state, State::InDoubt) && *step.key == *key);
        let Some((call, attempt)) = found.map(|(call, step)| (*call, step.attempt)) else {
            return Ruled::Unknown;
        };
        write_decision(parts, (call, attempt), decision);
        match decision {
            Decision::Again => {
                self.queue_up(parts, call);
                Ruled::Again
            }
            decided => {
                self.steps.remove(&call);
                Ruled::Answered(call, decided.result())
            }
        }
    }

    /// Records, at an orderly end of the process, that attempts which have not begun never will,
    /// for the steps to which that matters.
    pub(crate) fn take_back(&mut self, parts: &mut Parts<'_>) {
        for (call, step) in self.steps.iter().filter(|(_, step)| step.state.is_out()) {
            let with_nobody = matches!(step.state, State::Uncommitted);
            let never_began = parts.host.abort_work(*call).is_some() || with_nobody;
            if never_began && step.work.kind == Kind::AtMostOnce {
                write_decision(parts, (*call, step.attempt), &Decision::Again);
            }
        }
    }
}

fn write_decision(parts: &mut Parts<'_>, (call, attempt): (CallRef, u64), decision: &Decision) {
    parts.write(call, |lines, tid| {
        if let Some(seq) = lines.seq_of(call) {
            lines.decided(tid, (seq, attempt), decision);
        }
    });
}
