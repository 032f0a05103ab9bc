//! Rounds under a policy. The policy chooses from all ready tasks; the others stay ready and their
//! age grows.

use std::collections::BTreeMap;

use crate::id::Tid;
use crate::outbox::EventKind;
use crate::policy::Candidate;
use crate::run::Run;
use crate::task::Mark;

impl Run {
    /// Lets the policy choose from the round's tasks.
    pub(crate) fn plan_round(&mut self) {
        let mut round = self.ready.take_round();
        round.retain(|slot| {
            let over = self.tasks[*slot as usize].state().is_terminal();
            if over {
                self.tasks[*slot as usize].marks.clear(Mark::Queued);
                self.rare.ages.remove(slot);
                self.reclaim(*slot);
            }
            !over
        });
        let candidates: Vec<Candidate> = round
            .iter()
            .map(|slot| {
                let task = &self.tasks[*slot as usize];
                Candidate {
                    tid: task.tid,
                    priority: task.priority,
                    dependents: self.dependents(*slot).len(),
                    age: self.rare.ages.get(slot).copied().unwrap_or(0),
                }
            })
            .collect();
        let mut plan = Vec::new();
        if let Some(policy) = &mut self.policy {
            policy.plan(&candidates, &mut plan);
        }
        let mut left: BTreeMap<Tid, u32> =
            candidates.iter().map(|candidate| candidate.tid).zip(round.iter().copied()).collect();
        let mut chosen = Vec::new();
        for tid in plan {
            match left.remove(&tid) {
                Some(slot) => chosen.push(slot),
                None => self.report_not_ready(tid),
            }
        }
        if chosen.is_empty() {
            chosen = std::mem::take(&mut round);
        }
        let keep: Vec<u32> = round
            .into_iter()
            .filter(|slot| left.contains_key(&self.tasks[*slot as usize].tid))
            .collect();
        for slot in &chosen {
            self.rare.ages.remove(slot);
        }
        for slot in &keep {
            *self.rare.ages.entry(*slot).or_default() += 1;
        }
        self.ready.set_round(chosen, keep);
    }

    #[cold]
    fn report_not_ready(&mut self, tid: Tid) {
        self.problem_of(tid, EventKind::NotReady);
    }
}
