//! The outside world of a simulation: people and programs that start runs, send messages, settle
//! promises and cancel, at given times or when they are asked. After a crash, they repeat what was
//! not confirmed, and may check first whether it happened.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tiffany::durable::DurableRun;
use tiffany::testing::{Answer, Receipt, Simulation};
use tiffany::{ErrorKind, RunError, Settlement, Time, Uuid};

use crate::logs::{Logs, RunLog};
use crate::person::{Deciding, Person};
use crate::plan::Draw;

/// An action from outside the run.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Submit { function: String, input: Value },
    Send { name: String, message: Value },
    Cancel,
}

/// An action with its run and its time.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) after: Duration,
    pub(crate) id: String,
    pub(crate) act: Act,
}

/// An external promise that waits to be settled.
#[derive(Clone, Debug)]
pub struct Question {
    /// The id of the run that asks.
    pub run: String,
    /// The number of the question in this run, from 0, in the order in which they were first seen.
    pub number: usize,
    /// The UUID of the promise.
    pub promise: Uuid,
}

/// Answers a question with a value or an error, or not at all.
pub(crate) type Answering = Rc<dyn Fn(&Question) -> Option<Result<Value, String>>>;

/// The state of an action or reply.
enum Stage {
    /// It has not been done yet.
    ToDo,
    /// It was done, but not confirmed as durable yet.
    Done(Receipt),
    Safe,
    /// It came too late: the run is finished, or about to be.
    Refused,
}

/// A reply that is due at some time.
struct Reply {
    run: String,
    due: Time,
    value: Result<Value, String>,
    stage: Stage,
    logged: Logged,
}

/// What is known about a reply in the log.
#[derive(PartialEq, Eq)]
enum Logged {
    /// Nothing is known.
    No,
    /// It was confirmed as durable.
    Said,
    /// It was found in the log.
    Found,
}

/// Everything outside the machine, through all its lives.
pub(crate) struct Outside {
    epoch: Time,
    acts: Vec<(Planned, Stage)>,
    answering: Option<Answering>,
    replies: BTreeMap<Uuid, Reply>,
    asked: BTreeMap<String, usize>,
    person: Person,
    draw: Draw,
}

impl Outside {
    pub(crate) fn new(
        planned: &[Planned],
        (answering, deciding): (Option<Answering>, Option<Deciding>),
        epoch: Time,
        seed: u64,
    ) -> Outside {
        let acts = planned.iter().map(|one| (one.clone(), Stage::ToDo)).collect();
        let draw = Draw(seed ^ 0x006f_7574);
        let (replies, asked) = (BTreeMap::new(), BTreeMap::new());
        let person = Person::new(deciding);
        Outside { epoch, acts, answering, replies, asked, person, draw }
    }

    /// Returns the ids of all runs.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.acts.iter().map(|(planned, _)| planned.id.clone()).collect()
    }

    /// Returns when the next action is due.
    pub(crate) fn due(&self) -> Option<Time> {
        let acts = self.free().into_iter().map(|at| self.epoch + self.acts[at].0.after);
        let replies = self.replies.values().filter(|reply| matches!(reply.stage, Stage::ToDo));
        acts.chain(replies.map(|reply| reply.due)).chain(self.person.due()).min()
    }

    /// Returns the actions that wait only for their time. A message waits until the previous one
    /// with its name is durable, and an action on a run waits until the run is known to exist.
    fn free(&self) -> Vec<usize> {
        let mut busy: BTreeSet<(&str, Option<&str>)> = BTreeSet::new();
        let mut free = Vec::new();
        for (at, (planned, stage)) in self.acts.iter().enumerate() {
            let name = match &planned.act {
                Act::Send { name, .. } => Some(name.as_str()),
                Act::Submit { .. } | Act::Cancel => None,
            };
            let id = planned.id.as_str();
            let waits = match &planned.act {
                Act::Submit { .. } => false,
                Act::Send { .. } | Act::Cancel => {
                    busy.contains(&(id, None)) || busy.contains(&(id, name))
                }
            };
            if matches!(stage, Stage::ToDo) && !waits {
                free.push(at);
            }
            if matches!(stage, Stage::ToDo | Stage::Done(_)) {
                busy.insert((id, name));
            }
        }
        free
    }

    /// Performs the actions that are due.
    pub(crate) fn act(&mut self, simulation: &mut Simulation) -> Result<(), String> {
        let now = simulation.now();
        for at in self.free() {
            let (planned, stage) = &mut self.acts[at];
            if self.epoch + planned.after <= now {
                *stage = perform(planned, simulation)?;
            }
        }
        for (uuid, reply) in &mut self.replies {
            if matches!(reply.stage, Stage::ToDo) && reply.due <= now {
                let value = reply.value.as_ref().map_err(Clone::clone);
                let receipt = simulation.settle(*uuid, value).map_err(|error| error.to_string())?;
                reply.stage = Stage::Done(receipt);
            }
        }
        self.person.act(simulation)
    }

    /// Learns the questions in these logs.
    pub(crate) fn adopt(&mut self, logs: &Logs) {
        for (id, log) in by_id(logs) {
            let asked = log.of_type("TaskYield");
            let asked = asked.filter(|one| one["call"] == "create_external_promise");
            for promise in asked.filter_map(|one| Uuid::parse(one["uuid"].as_str()?)) {
                self.hear(id.clone(), promise, self.epoch);
                let text = promise.to_string();
                let mut settled = log.of_type("PromiseSettled");
                if let Some(reply) = self.replies.get_mut(&promise)
                    && settled.any(|one| one["promise"] == *text.as_str())
                {
                    (reply.stage, reply.logged) = (Stage::Safe, Logged::Found);
                }
            }
        }
    }

    fn hear(&mut self, run: String, promise: Uuid, now: Time) {
        let Some(answering) = &self.answering else { return };
        let number = self.asked.entry(run.clone()).or_default();
        let question = Question { run: run.clone(), number: *number, promise };
        *number += 1;
        if let Some(value) = answering(&question) {
            let due = now + Duration::from_micros(self.draw.next() % 500_000);
            let reply = Reply { run, due, value, stage: Stage::ToDo, logged: Logged::No };
            self.replies.insert(promise, reply);
        }
    }

    /// Notes what has been confirmed, and learns of new questions.
    pub(crate) fn listen(&mut self, simulation: &Simulation) -> Result<(), String> {
        self.notice(simulation)?;
        self.person.listen(simulation, &mut self.draw);
        for (run, promise) in simulation.promises() {
            if self.replies.contains_key(&promise) {
                continue;
            }
            let is_it =
                |id: &String| simulation.run::<Value>(id).is_some_and(|known| known.uuid() == run);
            let ids: BTreeSet<String> =
                self.acts.iter().map(|(planned, _)| planned.id.clone()).collect();
            let Some(id) = ids.into_iter().find(is_it) else { continue };
            self.hear(id, promise, simulation.now());
        }
        Ok(())
    }

    fn notice(&mut self, simulation: &Simulation) -> Result<(), String> {
        for (planned, stage) in &mut self.acts {
            if let Stage::Done(receipt) = stage {
                match receipt.answer() {
                    Answer::None => {}
                    Answer::Safe(_) => *stage = Stage::Safe,
                    Answer::Never => return Err(format!("nobody heeds {planned:?}")),
                }
            }
        }
        for (uuid, reply) in &mut self.replies {
            if let Stage::Done(receipt) = &reply.stage {
                let run = simulation.run::<Value>(&reply.run);
                let is_live = run.is_some_and(|run| !simulation.tasks(&run).is_empty());
                match (receipt.answer(), &reply.logged) {
                    (Answer::None, _) => {}
                    (Answer::Safe(Settlement::Accepted), Logged::No) => {
                        reply.logged = Logged::Said;
                        reply.stage = Stage::Safe;
                    }
                    (Answer::Safe(Settlement::Ignored), Logged::Found) => reply.stage = Stage::Safe,
                    (Answer::Safe(said), _) => {
                        return Err(format!(
                            "promise {uuid} has its one answer, which is {said:?}"
                        ));
                    }
                    // A new generation may have dropped the promise together with its answer.
                    (Answer::Never, Logged::Found) => reply.stage = Stage::Safe,
                    (Answer::Never, _) if is_live => {
                        return Err(format!("promise {uuid} was handed out, and is unknown"));
                    }
                    (Answer::Never, _) => reply.stage = Stage::Safe,
                }
            }
        }
        Ok(())
    }

    /// Handles a restart with these logs. What was confirmed must be there; the rest is repeated
    /// unless it is there.
    pub(crate) fn restarted(&mut self, logs: &Logs, trust: Trust) -> Result<(), String> {
        self.person.restarted(logs, trust)?;
        let runs = by_id(logs);
        let mut sent: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (planned, stage) in &mut self.acts {
            let (id, log) = (&planned.id, runs.get(&planned.id).copied());
            let is_there = match &planned.act {
                Act::Submit { .. } => log.is_some(),
                Act::Send { name, .. } => {
                    let nth = sent.entry((id.clone(), name.clone())).or_default();
                    *nth += 1;
                    let of_name = |log: &RunLog| {
                        log.of_type("Message").filter(|one| one["name"] == *name.as_str()).count()
                    };
                    log.map_or(0, of_name) >= *nth
                }
                Act::Cancel => {
                    log.is_some_and(|log| log.of_type("TaskWake").any(|one| one["why"] == "cancel"))
                }
            };
            let was_safe = matches!(stage, Stage::Safe);
            let is_first = log.is_none_or(|log| log.generation() == 1);
            if was_safe && !is_there && is_first && trust == Trust::Full && !is_over(log) {
                return Err(format!("it was said to be safe, and is lost: {planned:?}"));
            }
            // Messages in an earlier generation are gone with it.
            let was_taken = was_safe && !is_first;
            let is_there = is_there || was_taken;
            *stage = if is_there { Stage::Safe } else { Stage::ToDo };
        }
        for (uuid, reply) in &mut self.replies {
            let log = runs.get(&reply.run);
            let text = uuid.to_string();
            // An earlier generation is gone, with promises that no task needs any more.
            let is_there = log.is_some_and(|log| {
                log.has_settled(&text) || (log.generation() > 1 && !log.has_promise(&text))
            });
            if reply.logged != Logged::No && !is_there && trust == Trust::Full {
                return Err(format!("the answer to promise {uuid} was safe, and is lost"));
            }
            // If it is there but was not confirmed, a second try may be made, which must be
            // ignored.
            let is_known = log.is_some_and(|log| log.has_promise(&text));
            let tries = reply.logged == Logged::No && self.draw.below(2) == 1;
            let again = !is_there || (tries && is_known);
            reply.logged = if is_there { Logged::Found } else { Logged::No };
            reply.stage = if again { Stage::ToDo } else { Stage::Safe };
        }
        // A promise that the log does not know was never published.
        let known = |uuid: &Uuid| {
            let uuid = uuid.to_string();
            logs.runs.values().any(|log| log.generation() > 1 || log.has_promise(&uuid))
        };
        if let Some(uuid) = self.replies.keys().find(|uuid| !known(uuid)) {
            match trust {
                Trust::Full => {
                    return Err(format!("promise {uuid} was handed out, and the log lacks it"));
                }
                Trust::None => self.replies.retain(|uuid, _| known(uuid)),
            }
        }
        Ok(())
    }
}

/// Whether the medium still has everything that was synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Full,
    None,
}

fn is_over(log: Option<&RunLog>) -> bool {
    let ends = ["TaskExit", "TaskAbort", "TaskCancel"];
    let root = |one: &Value| one["tid"] == 1 && ends.iter().any(|end| one["type"] == *end);
    log.is_some_and(|log| log.records.iter().any(root))
}

/// Returns the logs by the ids of their runs.
pub(crate) fn by_id(logs: &Logs) -> BTreeMap<String, &RunLog> {
    let id = |log: &RunLog| {
        log.of_type("RunStart").next().and_then(|one| one["id"].as_str()).map(String::from)
    };
    logs.runs.values().filter_map(|log| Some((id(log)?, log))).collect()
}

fn perform(planned: &Planned, simulation: &mut Simulation) -> Result<Stage, String> {
    let failed = |error: RunError| format!("{planned:?}: {error}");
    if let Act::Submit { function, input } = &planned.act {
        let submitted = simulation.submit::<Value>(function, &planned.id, input);
        return submitted.map(|(_, receipt)| Stage::Done(receipt)).map_err(failed);
    }
    let Some(run): Option<DurableRun<Value>> = simulation.run(&planned.id) else {
        return Ok(Stage::ToDo);
    };
    let done = match &planned.act {
        Act::Send { name, message } => simulation.send(&run, name, message),
        _ => simulation.cancel(&run),
    };
    match done {
        Ok(receipt) => Ok(Stage::Done(receipt)),
        // The run is finished and does not accept it.
        Err(RunError::Failed(error)) if error.kind() == ErrorKind::RunOver => Ok(Stage::Refused),
        Err(error) => Err(failed(error)),
    }
}
