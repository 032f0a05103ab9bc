//! The person who is asked by approvals, through all lives of a machine: decides some time after a question was seen, and again after a crash what was not
//! said to be safe. What was must be in the log.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tiffany::control::{OpenApproval, Ruling};
use tiffany::testing::{Answer, Receipt, Simulation};
use tiffany::{ErrorKind, Time};

use crate::logs::{Logs, RunLog};
use crate::outside::Trust;
use crate::plan::Draw;

/// How questions are decided: with one of their choices, or not at all.
pub(crate) type Deciding = Rc<dyn Fn(&OpenApproval) -> Option<String>>;

#[derive(Default)]
pub(crate) struct Person {
    deciding: Option<Deciding>,
    /// What is decided, by the ids of the questions.
    decisions: BTreeMap<String, Decision>,
}

struct Decision {
    run: String,
    record: u64,
    choice: String,
    due: Time,
    stage: Stage,
}

/// Where a decision stands.
enum Stage {
    ToDo,
    /// It was said, and nobody answered yet that it is safe.
    Said(Receipt),
    Safe,
    /// The question is not open any more.
    Late,
}

impl Person {
    pub(crate) fn new(deciding: Option<Deciding>) -> Person {
        Person { deciding, decisions: BTreeMap::new() }
    }

    /// When something is to be decided next.
    pub(crate) fn due(&self) -> Option<Time> {
        let to_do = self.decisions.values().filter(|one| matches!(one.stage, Stage::ToDo));
        to_do.map(|one| one.due).min()
    }

    /// Decides what is due.
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

    /// Notices what is safe, and hears of new questions.
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

    /// The machine is back with these logs. What was safe must be there; the rest is heard of anew, if it is still open.
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
    /// Whether a log has it; a later generation has nothing of the one before.
    fn is_in(&self, log: &RunLog) -> bool {
        let mut decided = log.of_type("ApprovalDecided");
        log.generation() > 1 || decided.any(|one| one["of"] == self.record)
    }
}
