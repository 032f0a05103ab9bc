//! Steps that must not be done twice and were cut off: whether they happened is for a person to say.

use tiffany_kernel::{CallRef, Completion};

use crate::host::attempt::Kind;
use crate::metrics::meters::AttemptOutcome;
use crate::runtime::Runtime;
use crate::runtime::steps::State;
use tiffany_records::request::{Decision, Doubt};

impl Runtime {
    /// A step that was cut off waits for a person, if it is one that does.
    pub(crate) fn hold_in_doubt(&mut self, call: CallRef) -> bool {
        let Some(step) = self.effects.steps.get(&call) else { return false };
        let (holds, queue) = (step.work.holds_in_doubt, step.queue);
        if holds {
            self.count_cut_off(call, AttemptOutcome::InDoubt);
            self.effects.attempt_over(call);
            if let Some(step) = self.effects.steps.get_mut(&call) {
                step.state = State::InDoubt;
            }
            self.serve_waiting(queue);
        }
        holds
    }

    /// The steps that wait for a person.
    pub(crate) fn steps_in_doubt(&self) -> impl Iterator<Item = Doubt> {
        let steps = self.effects.steps.iter();
        let in_doubt = steps.filter(|(_, step)| matches!(step.state, State::InDoubt));
        in_doubt.filter_map(|(call, step)| {
            let durable_state = self.runs[*self.places.get(&call.run)?].durable_state.as_ref()?;
            Some(Doubt {
                key: step.key.to_string(),
                run: durable_state.journal.run(),
                step: step.work.name.to_owned(),
                attempt: step.attempt,
                waits: true,
            })
        })
    }

    /// A person has decided. `false`: no such step waits for that.
    pub(crate) fn decide_step(&mut self, key: &str, decision: &Decision) -> bool {
        let mut steps = self.effects.steps.iter();
        let found =
            steps.find(|(_, step)| matches!(step.state, State::InDoubt) && *step.key == *key);
        let Some((call, attempt)) = found.map(|(call, step)| (*call, step.attempt)) else {
            return false;
        };
        self.write_effect(call, |journal, page, (tid, clock, step)| {
            if let Some(seq) = journal.seq_of(call) {
                journal.decided(page, (tid, clock, step), (seq, attempt), decision);
            }
        });
        match decision {
            Decision::Again => self.queue_up(call),
            decided => {
                self.effects.steps.remove(&call);
                self.complete(call.run, Completion::Call(call, decided.result()));
            }
        }
        true
    }

    /// The process ends in good order: attempts that have not begun never will, and the log says so where that matters.
    pub(crate) fn take_back_steps(&mut self) {
        let steps = self.effects.steps.iter().filter(|(_, step)| step.state.is_out());
        let calls: Vec<CallRef> = steps.map(|(call, _)| *call).collect();
        for call in calls {
            let Some(step) = self.effects.steps.get(&call) else { continue };
            let (attempt, kind) = (step.attempt, step.work.kind);
            let with_nobody = matches!(step.state, State::Uncommitted);
            let never_began = self.host.abort_work(call).is_some() || with_nobody;
            if never_began && kind == Kind::AtMostOnce {
                self.write_effect(call, |journal, page, (tid, clock, step)| {
                    if let Some(seq) = journal.seq_of(call) {
                        let again = Decision::Again;
                        journal.decided(page, (tid, clock, step), (seq, attempt), &again);
                    }
                });
            }
        }
    }
}
