//! One simulation from beginning to end: a disk, a clock, a ledger, the outside world, and a
//! machine that crashes and restarts according to its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiffany::testing::{Machine, Simulation};
use tiffany::wal::sim::{Operation, SimDisk, Survivors};
use tiffany::wal::{Barrier, Disk, OpenMode, Settings};
use tiffany::{Builder, RunError, Time};

use crate::ledger::{Entry, Ledger};
use crate::logs::{Logs, ROOT};
use crate::outside::{Answering, Outside, Planned, Trust};
use crate::person::Deciding;
use crate::plan::{Disaster, Draw, Plan};

/// The time on the clock when a simulation begins.
const EPOCH: Time = Time::from_nanos(1_700_000_000_000_000_000);
/// The time on the virtual clock after which an unfinished run counts as stuck.
const RUN_TIMEOUT: Duration = Duration::from_secs(400 * 24 * 3600);
/// The number of rounds of the simulation after which an unfinished run counts as stuck.
const ROUNDS: usize = 200_000;

/// The conditions that are the same in all simulations of a check.
pub(crate) struct Conditions<'a> {
    pub(crate) set_up: &'a dyn Fn(Builder) -> Builder,
    pub(crate) log: &'a Settings,
    pub(crate) planned: &'a [Planned],
    pub(crate) answering: Option<Answering>,
    pub(crate) deciding: Option<Deciding>,
    pub(crate) longest_work: Duration,
    pub(crate) longest_commit: Duration,
    pub(crate) prepare_disk: &'a dyn Fn(&SimDisk),
    /// The result of the undisturbed simulation with this seed, for logs that are cut.
    pub(crate) undisturbed: Option<&'a Story>,
}

/// The outcome of a run: its value, or its error with the code.
pub(crate) type Outcome = Result<Value, String>;

/// The result of a simulation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) outcomes: BTreeMap<String, Outcome>,
    pub(crate) logs: Logs,
    pub(crate) ledger: Vec<Entry>,
    /// The disk operations in the first life, and the number of attempts that began in it.
    pub(crate) operations: Vec<Operation>,
    pub(crate) effects: usize,
    pub(crate) crashes: usize,
    /// The error with which the damaged log was refused, if it was.
    pub(crate) refused: Option<String>,
}

/// The end of a process in the simulation.
enum End {
    /// All runs are finished, with these outcomes.
    Over(BTreeMap<String, Outcome>),
    /// The power failed.
    Crashed,
    /// The log has failed, or could not be opened.
    Failed(RunError),
    /// The log is damaged.
    Refused(String),
}

pub(crate) struct Universe<'a> {
    conditions: &'a Conditions<'a>,
    plan: &'a Plan,
    disk: SimDisk,
    ledger: Rc<Ledger>,
    outside: Outside,
    clock: Time,
    draw: Draw,
    trust: Trust,
    /// The keys of steps whose results were in the log at the last restart.
    answered: BTreeSet<String>,
    recovered: Logs,
}

impl<'a> Universe<'a> {
    pub(crate) fn new(conditions: &'a Conditions<'a>, plan: &'a Plan) -> Universe<'a> {
        let disk = SimDisk::new();
        (conditions.prepare_disk)(&disk);
        let people = (conditions.answering.clone(), conditions.deciding.clone());
        let outside = Outside::new(conditions.planned, people, EPOCH, plan.seed);
        Universe {
            conditions,
            plan,
            ledger: Rc::new(Ledger::new(disk.clone())),
            disk,
            outside,
            clock: EPOCH,
            draw: Draw(plan.seed),
            trust: Trust::Full,
            answered: BTreeSet::new(),
            recovered: Logs::default(),
        }
    }

    /// Plays all lives, and returns the result, or a description of the problem.
    pub(crate) fn play(mut self) -> Result<Story, String> {
        let mut story = Story::default();
        let mut disasters = self.plan.disasters.iter().copied().peekable();
        if let Some(Disaster::Cut { run, records }) = disasters.peek().copied() {
            disasters.next();
            self.begin_with_cut_log(run, records)?;
            story.crashes += 1;
        }
        loop {
            let disaster = disasters.next();
            let began = self.disk.operation_count();
            self.arm(disaster, began);
            let end = self.live()?;
            if self.ledger.life() == 1 {
                let all = began..self.disk.operation_count();
                story.operations = all.filter_map(|at| self.disk.operation(at)).collect();
                story.effects = self.ledger.begun();
            }
            match end {
                End::Over(outcomes) => {
                    let refusal = outcomes.values().find_map(|outcome| match outcome {
                        Err(error) if error.contains("[TFY0039]") || error.contains("[TFY01") => {
                            Some(error.clone())
                        }
                        _ => None,
                    });
                    if let Some(refusal) = refusal {
                        return self.refused(story, &refusal);
                    }
                    story.outcomes = outcomes;
                    break;
                }
                End::Crashed => {
                    story.crashes += 1;
                    self.crash(disaster);
                }
                End::Refused(refusal) => return self.refused(story, &refusal),
                End::Failed(error) => match disaster {
                    Some(Disaster::Fail { .. }) => {
                        story.crashes += 1;
                        self.disk.heal();
                        self.disk.crash(Survivors::Some(self.draw.next()));
                    }
                    _ if self.trust == Trust::None => {
                        return self.refused(story, &error.to_string());
                    }
                    _ => return Err(format!("the log failed although nothing was wrong: {error}")),
                },
            }
            if let Err(refusal) = self.restart()? {
                return self.refused(story, &refusal);
            }
        }
        self.last_look(story)
    }

    /// Handles a log that was refused: it must be damaged, and the error must have a code.
    fn refused(&self, mut story: Story, why: &str) -> Result<Story, String> {
        if self.trust == Trust::Full {
            return Err(format!("the log is refused although nothing was damaged: {why}"));
        }
        if !why.contains("TFY") {
            return Err(format!("a damaged log is refused without a code: {why}"));
        }
        story.refused = Some(why.into());
        Ok(story)
    }

    fn arm(&self, disaster: Option<Disaster>, began: usize) {
        let mut before = None;
        match disaster {
            Some(Disaster::Operation { at, torn, .. }) => self.disk.crash_at(began + at, torn),
            Some(Disaster::Effect { at, .. }) => before = Some(at),
            Some(Disaster::Fail { at, errno }) => self.disk.fail(began + at, errno),
            Some(Disaster::Cut { .. }) | None => {}
        }
        self.ledger.begin_life(before);
    }

    fn crash(&mut self, disaster: Option<Disaster>) {
        let (survivors, flip) = match disaster {
            Some(Disaster::Operation { survivors, flip, .. }) => (survivors, flip),
            Some(Disaster::Effect { survivors, .. }) => (survivors, None),
            _ => (Survivors::Nothing, None),
        };
        self.disk.crash(survivors);
        if let Some(seed) = flip {
            self.disk.flip(seed);
            self.trust = Trust::None;
        }
        // The machine is off for a while, or restarts at once.
        if self.draw.below(2) == 1 {
            self.clock = self.clock + Duration::from_micros(self.draw.next() % 2_000_000);
        }
    }

    /// Compares the disk after a crash with what the outside world knows. The inner error means
    /// that the log was refused.
    fn restart(&mut self) -> Result<Result<(), String>, String> {
        let logs = match Logs::recovered(&self.disk, self.conditions.log) {
            Ok(logs) => logs,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if self.trust == Trust::Full {
            if let Some(change) = self.recovered.not_continued_by(&logs) {
                return Err(change);
            }
            self.check_begun(&logs)?;
        }
        self.outside.restarted(&logs, self.trust)?;
        self.note_answered(&logs);
        self.recovered = logs;
        Ok(Ok(()))
    }

    /// Checks that every attempt that began in the world is in the log.
    fn check_begun(&self, logs: &Logs) -> Result<(), String> {
        let attempts: BTreeMap<&String, _> =
            logs.runs.iter().map(|(run, log)| (run, log.attempts())).collect();
        for entry in self.ledger.entries.borrow().iter().filter(|entry| entry.kind != "pure") {
            let (run, generation, seq) = place_of(&entry.key);
            let log = logs.runs.get(run);
            // The records of an earlier generation are gone.
            if log.is_some_and(|log| log.generation() > generation) {
                continue;
            }
            let known = attempts
                .get(&run.to_string())
                .is_some_and(|attempts| attempts.contains(&(seq, entry.attempt)));
            if !known {
                return Err(format!("it was begun before that was in the log: {entry}"));
            }
        }
        Ok(())
    }

    fn note_answered(&mut self, logs: &Logs) {
        for (run, log) in &logs.runs {
            self.answered.extend(log.results().iter().map(|seq| log.key(run, *seq)));
        }
    }

    /// Plays one life of the machine.
    fn live(&mut self) -> Result<End, String> {
        let builder = Builder::new().on_unobserved(|_| {});
        let settings = (self.conditions.set_up)(builder).log_settings(self.conditions.log.clone());
        let machine = Machine {
            disk: Arc::new(self.disk.clone()),
            seed: self.plan.seed,
            life: self.ledger.life(),
            now: self.clock,
            longest_work: self.conditions.longest_work,
            longest_commit: self.conditions.longest_commit,
            watcher: Rc::clone(&self.ledger) as Rc<_>,
        };
        let begun_before = self.ledger.entries.borrow().len();
        let mut simulation = match Simulation::start(settings, machine) {
            Ok(simulation) => simulation,
            Err(_) if self.disk.is_down() => return Ok(End::Crashed),
            Err(error) => return Ok(End::Failed(error)),
        };
        let end = self.go_on(&mut simulation);
        self.clock = simulation.now();
        if let Ok(End::Over(_)) = &end {
            // Everything was confirmed as durable, so nothing more must be needed.
            self.disk.power_off();
        }
        drop(simulation);
        self.check_not_again(begun_before)?;
        end
    }

    /// Checks that no step was repeated whose result was recorded.
    fn check_not_again(&self, from: usize) -> Result<(), String> {
        let entries = self.ledger.entries.borrow();
        let again = entries[from..].iter().find(|entry| self.answered.contains(&entry.key));
        match again {
            Some(entry) if self.trust == Trust::Full => {
                Err(format!("it was done again although the log has its result: {entry}"))
            }
            _ => Ok(()),
        }
    }

    fn go_on(&mut self, simulation: &mut Simulation) -> Result<End, String> {
        for _ in 0..ROUNDS {
            match self.outside.act(simulation) {
                // Requests about a run with a damaged log get this error.
                Err(refusal) if self.trust == Trust::None => return Ok(End::Refused(refusal)),
                done => done?,
            }
            if let Err(error) = simulation.drive() {
                return match self.disk.is_down() {
                    true => Ok(End::Crashed),
                    false => Ok(End::Failed(error)),
                };
            }
            if self.disk.is_down() {
                return Ok(End::Crashed);
            }
            if let Some(outcomes) = self.outcomes(simulation) {
                return Ok(End::Over(outcomes));
            }
            self.outside.listen(simulation)?;
            let due = self.outside.due().map(|due| due.max(simulation.now()));
            let Some(next) = simulation.next_event().into_iter().chain(due).min() else {
                return Err(self.stuck("nothing is left that could happen", simulation));
            };
            if next > EPOCH + RUN_TIMEOUT {
                return Err(self.stuck(&format!("it is {next} on its clock"), simulation));
            }
            simulation.set_clock(next);
        }
        Err(self.stuck(&format!("it is not finished after {ROUNDS} rounds"), simulation))
    }

    /// Describes what a stuck run waits for.
    fn stuck(&self, why: &str, simulation: &Simulation) -> String {
        let mut text = format!("{why}, and there are runs that wait:");
        for id in self.outside.ids() {
            let Some(run) = simulation.run::<Value>(&id) else {
                text.push_str(&format!("\n  `{id}` was not started"));
                continue;
            };
            for task in simulation.tasks(&run) {
                let at = task.waits_at.map_or(String::new(), |at| format!(" at {at}"));
                text.push_str(&format!("\n  `{id}` {} {}{at}", task.label, task.state));
            }
        }
        text
    }

    fn outcomes(&self, simulation: &mut Simulation) -> Option<BTreeMap<String, Outcome>> {
        let mut outcomes = BTreeMap::new();
        for id in self.outside.ids() {
            let run = simulation.run::<Value>(&id)?;
            let outcome = simulation.outcome(&run)?;
            let told = |error: RunError| match error.task_error() {
                // Without the tasks that it passed through, because their numbers may differ.
                Some(error) => told_as(error.message(), error.code()),
                None => told_as(&error.to_string(), error.code()),
            };
            outcomes.insert(id, outcome.map_err(told));
        }
        Some(outcomes)
    }

    /// Checks the log once more after a power failure at the end. Everything must be there, and
    /// nothing may happen any more.
    fn last_look(mut self, mut story: Story) -> Result<Story, String> {
        self.disk.crash(Survivors::Nothing);
        match self.restart()? {
            Ok(()) => {}
            Err(refusal) => return self.refused(story, &refusal),
        }
        self.arm(None, 0);
        let before = self.ledger.entries.borrow().len();
        match self.live()? {
            End::Over(outcomes) if outcomes == story.outcomes => {}
            End::Over(outcomes) => {
                return Err(format!(
                    "an outcome that was told is another after a restart\n  was {:?}\n  is  {outcomes:?}",
                    story.outcomes
                ));
            }
            End::Failed(error) => return self.refused(story, &error.to_string()),
            End::Refused(refusal) => return self.refused(story, &refusal),
            End::Crashed => return Err("the disk stopped by itself".into()),
        }
        if let Some(entry) = self.ledger.entries.borrow().get(before) {
            return Err(format!("all was over, and it was begun: {entry}"));
        }
        story.logs = std::mem::take(&mut self.recovered);
        story.ledger = self.ledger.entries.borrow().clone();
        Ok(story)
    }

    /// Writes the undisturbed log of one run to the disk, cut after this number of records.
    fn begin_with_cut_log(&mut self, run: usize, records: usize) -> Result<(), String> {
        let undisturbed = self.conditions.undisturbed.ok_or("a log is cut once it is there")?;
        let write = || {
            let wal = Path::new(ROOT).join("wal");
            self.disk.create_dir(Path::new(ROOT))?;
            self.disk.create_dir(&wal)?;
            if let Some((uuid, log)) = undisturbed.logs.runs.iter().nth(run) {
                let kept = &log.lines[..records.min(log.lines.len())];
                let text: String = kept.iter().map(|line| format!("{line}\n")).collect();
                let file = self.disk.open(&wal.join(format!("{uuid}.wal")), OpenMode::Create)?;
                file.write_at(text.as_bytes(), 0)?;
                file.sync(Barrier::RunFile)?;
            }
            let blobs = wal.join("blobs");
            self.disk.create_dir(&blobs)?;
            for (name, bytes) in &undisturbed.logs.blobs {
                let file = self.disk.open(&blobs.join(name), OpenMode::Create)?;
                file.write_at(bytes, 0)?;
                file.sync(Barrier::BlobFile)?;
            }
            self.disk.sync_dir(&blobs, Barrier::BlobNames)?;
            self.disk.sync_dir(&wal, Barrier::RunNames)?;
            self.disk.sync_dir(Path::new(ROOT), Barrier::Tree)?;
            self.disk.sync_dir(Path::new("/"), Barrier::Tree)
        };
        write().map_err(|error: std::io::Error| error.to_string())?;
        // This counts as the first life.
        self.ledger.begin_life(None);
        self.restart()??;
        self.outside.adopt(&self.recovered);
        // Attempts that are in the log count as made.
        let was_done = |entry: &&Entry| {
            let (run, generation, seq) = place_of(&entry.key);
            let log = self.recovered.runs.get(run);
            log.is_some_and(|log| {
                log.generation() > generation || log.attempts().contains(&(seq, entry.attempt))
            })
        };
        let done = undisturbed.ledger.iter().filter(was_done).cloned().collect();
        self.ledger.entries.replace(done);
        Ok(())
    }
}

/// Shortens an error to its first line and its code. The rest is about tasks, whose numbers may
/// differ, and advice.
fn told_as(message: &str, code: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let code = format!("[{code}]");
    format!("{} {code}", first.replace(&code, "").trim_end())
}

/// Splits a key into run, generation and record.
pub(crate) fn place_of(key: &str) -> (&str, u64, u64) {
    let (run, number) = key.split_once('/').unwrap_or((key, "0"));
    let (generation, seq) = number.split_once('.').unwrap_or(("1", number));
    (run, generation.parse().unwrap_or(0), seq.parse().unwrap_or(0))
}
