//! The person who decides approvals, through all lives of a machine. Each question is decided some
//! time after it was seen, and again after a crash unless the decision was confirmed. Confirmed
//! decisions must be in the log.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tiffany::control::{OpenApproval, Ruling};
use tiffany::testing::{Answer, Receipt, Simulation};
use tiffany::{ErrorKind, Time};

use crate::logs::{Logs, RunLog};
use crate::outside::Trust;
use crate::plan::Draw;

/// Decides a question with one of its choices, or not at all.
pub(crate) type Deciding = Rc<dyn Fn(&OpenApproval) -> Option<String>>;

#[derive(Default)]
pub(crate) struct Person {
    deciding: Option<Deciding>,
    /// The decisions, by the ids of the questions.
    decisions: BTreeMap<String, Decision>,
}

struct Decision {
    run: String,
    record: u64,
    choice: String,
    due: Time,
    stage: Stage,
}

/// The state of a decision.
enum Stage {
    ToDo,
    /// It was made, but not confirmed as durable yet.
    Said(Receipt),
    Safe,
    /// The question is not open any more.
    Late,
}

impl Person {
    pub(crate) fn new(deciding: Option<Deciding>) -> Person {
        Person { deciding, decisions: BTreeMap::new() }
    }

    /// Returns when the next decision is due.
    pub(crate) fn due(&self) -> Option<Time> {
        let to_do = self.decisions.values().filter(|one| matches!(one.stage, Stage::ToDo));
        to_do.map(|one| one.due).min()
    }

    /// Makes the decisions that are due.
    pub(crate) fn act(&mut self, simulation: &mut Simulation) -> Result<(), String> {
        let now = simulation.now();
        for (id, decision) in &mut self.decisions {
            if !matches!(decision.stage, Stage::ToDo) || decision.due > now {
                continue;
            }
            let ruling = Ruling::choice(&decision.choice).by("a person");
            decision.stage = match simulation.resolve(id, ruling) {
                Ok(receipt) => Stage::Said(receipt),
                Err(error) if error.kind() == ErrorKind::NoSuchApproval => Stage::Late,
                Err(error) => return Err(format!("approval {id} cannot be decided: {error}")),
            };
        }
        Ok(())
    }

    /// Notes what has been confirmed, and learns of new questions.
    pub(crate) fn listen(&mut self, simulation: &Simulation, draw: &mut Draw) {
        for decision in self.decisions.values_mut() {
            if let Stage::Said(receipt) = &decision.stage
                && matches!(receipt.answer(), Answer::Safe(_))
            {
                decision.stage = Stage::Safe;
            }
        }
        let Some(deciding) = &self.deciding else { return };
        for open in simulation.approvals() {
            let record = open.id.rsplit(['/', '.']).next().and_then(|text| text.parse().ok());
            let Some(record) = record.filter(|_| !self.decisions.contains_key(&open.id)) else {
                continue;
            };
            let Some(choice) = deciding(&open) else { continue };
            let due = simulation.now() + Duration::from_micros(draw.next() % 500_000);
            let decision = Decision { run: open.run, record, choice, due, stage: Stage::ToDo };
            self.decisions.insert(open.id, decision);
        }
    }

    /// Handles a restart with these logs. What was confirmed must be there; other questions are
    /// seen again if they are still open.
    pub(crate) fn restarted(&mut self, logs: &Logs, trust: Trust) -> Result<(), String> {
        for (id, decision) in &self.decisions {
            let is_there = logs.runs.get(&decision.run).is_some_and(|log| decision.is_in(log));
            if matches!(decision.stage, Stage::Safe) && !is_there && trust == Trust::Full {
                return Err(format!("the answer to approval {id} was safe, and is lost"));
            }
        }
        let is_there = |decision: &Decision| {
            logs.runs.get(&decision.run).is_some_and(|log| decision.is_in(log))
        };
        self.decisions.retain(|_, decision| is_there(decision));
        self.decisions.values_mut().for_each(|decision| decision.stage = Stage::Safe);
        Ok(())
    }
}

impl Decision {
    /// Returns whether a log has the decision. A later generation contains nothing of an earlier
    /// one, so the answer is yes.
    fn is_in(&self, log: &RunLog) -> bool {
        let mut decided = log.of_type("ApprovalDecided");
        log.generation() > 1 || decided.any(|one| one["of"] == self.record)
    }
}
