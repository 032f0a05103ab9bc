//! Runs a workflow undisturbed, and then with a disaster at every place where one is possible.

use std::any::TypeId;
use std::fmt::{self, Display};
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tiffany::Builder;
use tiffany::control::OpenApproval;
use tiffany::wal::Settings;
use tiffany::wal::sim::{Operation, SimDisk, Survivors};

use crate::ledger::Entry;
use crate::logs::RunLog;
use crate::outside::{Act, Answering, Planned, Question};
use crate::person::Deciding;
use crate::plan::{Disaster, Draw, Plan};
use crate::universe::{Conditions, Story, Universe};
use crate::verdict::{Sameness, check_ledger, judge};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// The state at the end of one simulation, for [`Crashes::holds`].
pub struct Seen<'a> {
    story: &'a Story,
}

impl Seen<'_> {
    /// Returns the outcome of a run: its value, or its error as text.
    pub fn outcome(&self, id: &str) -> Option<&Result<Value, String>> {
        self.story.outcomes.get(id)
    }

    /// Returns all attempts at steps in the order in which they began, through all lives.
    pub fn ledger(&self) -> &[Entry] {
        &self.story.ledger
    }

    /// Returns the number of crashes.
    pub fn crashes(&self) -> usize {
        self.story.crashes
    }
}

type SetUp<W> = Box<dyn Fn(&W, Builder) -> Builder>;
type Holds<W> = Rc<dyn Fn(&W, &Seen<'_>) -> Result<(), String>>;

/// A check that crashes a workflow everywhere. See the [crate's documentation](crate).
pub struct Crashes<W = ()> {
    world: Box<dyn Fn() -> W>,
    set_up: Vec<SetUp<W>>,
    planned: Vec<Planned>,
    answering: Option<Answering>,
    deciding: Option<Deciding>,
    holds: Vec<Holds<W>>,
    sameness: Sameness,
    seeds: Range<u64>,
    at_most: Option<usize>,
    faults: bool,
    log: Settings,
    longest_work: Duration,
    longest_commit: Option<Duration>,
    prepare_disk: Box<dyn Fn(&SimDisk)>,
    only: Option<Plan>,
}

impl Crashes<()> {
    /// Checks a function of the kind that [`Builder::register`] takes, with this input.
    pub fn of<I, O, E, F, R>(function: F, input: I) -> Crashes<()>
    where
        I: Serialize + DeserializeOwned + 'static,
        O: Serialize + 'static,
        E: Display + 'static,
        F: Fn(I) -> R + Clone + 'static,
        R: Future<Output = Result<O, E>> + 'static,
    {
        let crashes = Crashes::in_world(|| ());
        let set_up = move |_: &(), builder: Builder| builder.register("workflow", function.clone());
        crashes.set_up(set_up).run("workflow", "workflow", &input)
    }
}

impl<W: 'static> Crashes<W> {
    /// Begins a check with a world of its own: the state that its steps act upon, such as a bank or
    /// a mailbox. A new world is made for each simulation, and survives the crashes in it.
    pub fn in_world(world: impl Fn() -> W + 'static) -> Crashes<W> {
        Crashes {
            world: Box::new(world),
            set_up: Vec::new(),
            planned: Vec::new(),
            answering: None,
            deciding: None,
            holds: Vec::new(),
            sameness: Sameness::Same,
            seeds: 0..3,
            at_most: None,
            faults: true,
            log: small_log(),
            longest_work: Duration::from_millis(20),
            longest_commit: None,
            prepare_disk: Box::new(|_| {}),
            only: None,
        }
    }

    /// Sets up the runtime: functions, queues, limits. The function is called for each life of each
    /// machine.
    pub fn set_up(mut self, set_up: impl Fn(&W, Builder) -> Builder + 'static) -> Crashes<W> {
        self.set_up.push(Box::new(set_up));
        self
    }

    /// Starts a run of a registered function with this id, in addition to the others.
    pub fn run(self, function: &str, id: &str, input: &impl Serialize) -> Crashes<W> {
        let act = Act::Submit { function: function.into(), input: json(input) };
        self.plan(Duration::ZERO, id, act)
    }

    /// Sends a message to a run at this time after the beginning. Messages with one name are sent
    /// in the order of these calls.
    pub fn send(
        self,
        after: Duration,
        id: &str,
        name: &str,
        message: &impl Serialize,
    ) -> Crashes<W> {
        let act = Act::Send { name: name.into(), message: json(message) };
        self.plan(after, id, act)
    }

    /// Cancels a run at this time after the beginning. How far the run gets until then depends on
    /// timing, so this requires [`may_differ`](Crashes::may_differ).
    pub fn cancel(self, after: Duration, id: &str) -> Crashes<W> {
        self.plan(after, id, Act::Cancel)
    }

    /// Settles external promises with the results of `answer`, which is called when a promise is
    /// first seen. The promise is settled some time later.
    pub fn answer<T: Serialize>(
        mut self,
        answer: impl Fn(&Question) -> Result<T, String> + 'static,
    ) -> Crashes<W> {
        let answer = move |question: &Question| Some(answer(question).map(|value| json(&value)));
        self.answering = Some(Rc::new(answer));
        self
    }

    /// Decides approvals with the results of `decide`, which is called when a question is first
    /// seen. It is decided some time later; `None` leaves it open.
    pub fn decide(
        mut self,
        decide: impl Fn(&OpenApproval) -> Option<String> + 'static,
    ) -> Crashes<W> {
        self.deciding = Some(Rc::new(decide));
        self
    }

    /// Adds a condition that must hold at the end of every simulation, undisturbed or not.
    pub fn holds(
        mut self,
        holds: impl Fn(&W, &Seen<'_>) -> Result<(), String> + 'static,
    ) -> Crashes<W> {
        self.holds.push(Rc::new(holds));
        self
    }

    /// Allows outcomes that depend on timing, such as a race between a step and a timer, which a
    /// crash can change. Outcome and log are then not compared with the undisturbed ones; use
    /// [`holds`](Crashes::holds) to check what must be true.
    pub fn may_differ(mut self) -> Crashes<W> {
        self.sameness = Sameness::MayDiffer;
        self
    }

    /// Sets the seeds, each of which causes another order of events. The default is three seeds.
    pub fn seeds(mut self, seeds: Range<u64>) -> Crashes<W> {
        self.seeds = seeds;
        self
    }

    /// Limits the number of disasters for each seed; they are drawn at random from all possible
    /// ones.
    pub fn at_most(mut self, disasters: usize) -> Crashes<W> {
        self.at_most = Some(disasters);
        self
    }

    /// Restricts the disasters to crashes: no failing operations and no flipped bits.
    pub fn no_faults(mut self) -> Crashes<W> {
        self.faults = false;
        self
    }

    /// Sets the log settings. By default, segments and limits are small, so that everything the log
    /// can do happens.
    pub fn log(mut self, settings: Settings) -> Crashes<W> {
        self.log = settings;
        self
    }

    /// Sets the longest time on the virtual clock that the work of a step takes, once before it
    /// begins and once before its result is reported.
    pub fn work_takes(mut self, longest: Duration) -> Crashes<W> {
        self.longest_work = longest;
        self
    }

    /// Sets the longest time on the virtual clock that a commit takes. By default, the seed chooses
    /// between none, a short and a long time.
    pub fn commits_take(mut self, longest: Duration) -> Crashes<W> {
        self.longest_commit = Some(longest);
        self
    }

    /// Prepares each disk before it is used, for example to make it ignore syncs.
    pub fn disk(mut self, prepare: impl Fn(&SimDisk) + 'static) -> Crashes<W> {
        self.prepare_disk = Box::new(prepare);
        self
    }

    /// Runs only this plan, as a failure reports it. The variable `TIFFANY_SIM` has the same
    /// effect.
    pub fn only(mut self, plan: Plan) -> Crashes<W> {
        self.only = Some(plan);
        self
    }

    fn plan(mut self, after: Duration, id: &str, act: Act) -> Crashes<W> {
        self.planned.push(Planned { after, id: id.into(), act });
        self
    }

    /// Runs the check. Panics with a description of the first problem.
    #[track_caller]
    pub fn check(self) -> Report {
        self.report().unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Runs the check, and returns the first problem as an error.
    pub fn report(self) -> Result<Report, Failure> {
        let mut report = Report::default();
        if let Some(plan) = self.only.clone().or_else(plan_from_environment) {
            let undisturbed = self.undisturbed(plan.seed)?;
            self.disturbed(&undisturbed, &plan, &mut report)?;
            return Ok(report);
        }
        for seed in self.seeds.clone() {
            let undisturbed = self.undisturbed(seed)?;
            report.operations += undisturbed.operations.len();
            report.steps += undisturbed.effects;
            for plan in self.plans(seed, &undisturbed) {
                self.disturbed(&undisturbed, &plan, &mut report)?;
            }
            report.seeds += 1;
        }
        Ok(report)
    }

    fn undisturbed(&self, seed: u64) -> Result<Story, Failure> {
        let plan = Plan { seed, disasters: Vec::new() };
        let story = self.simulate(&plan, None, check_ledger)?;
        Ok(story)
    }

    fn disturbed(
        &self,
        undisturbed: &Story,
        plan: &Plan,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let judge = |story: &Story| judge(undisturbed, story, self.sameness);
        let story = self.simulate(plan, Some(undisturbed), judge)?;
        report.simulations += 1;
        report.crashes += story.crashes;
        report.refused += usize::from(story.refused.is_some());
        Ok(())
    }

    fn simulate(
        &self,
        plan: &Plan,
        undisturbed: Option<&Story>,
        judge: impl Fn(&Story) -> Result<(), String>,
    ) -> Result<Story, Failure> {
        let world = (self.world)();
        let set_up =
            |builder| self.set_up.iter().fold(builder, |builder, set_up| set_up(&world, builder));
        let slow = [Duration::ZERO, Duration::from_millis(3), Duration::from_millis(300)];
        let conditions = Conditions {
            set_up: &set_up,
            log: &self.log,
            planned: &self.planned,
            answering: self.answering.clone(),
            deciding: self.deciding.clone(),
            longest_work: self.longest_work,
            longest_commit: self.longest_commit.unwrap_or(slow[(plan.seed % 3) as usize]),
            prepare_disk: &*self.prepare_disk,
            undisturbed,
        };
        let failure = |what: String| Failure::new(plan, what, undisturbed);
        let story = Universe::new(&conditions, plan).play().map_err(failure)?;
        judge(&story).map_err(failure)?;
        if story.refused.is_none() {
            let seen = Seen { story: &story };
            self.holds.iter().try_for_each(|holds| holds(&world, &seen)).map_err(failure)?;
        }
        Ok(story)
    }

    /// Returns all plans for a seed, or as many as requested.
    fn plans(&self, seed: u64, undisturbed: &Story) -> Vec<Plan> {
        let mut draw = Draw(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let mut plans: Vec<Vec<Disaster>> = Vec::new();
        for (at, operation) in undisturbed.operations.iter().enumerate() {
            for torn in tears(operation) {
                let some = Survivors::Some(draw.next() % 1000);
                for survivors in [Survivors::Nothing, Survivors::All, some] {
                    plans.push(vec![Disaster::Operation { at, torn, survivors, flip: None }]);
                }
            }
        }
        for at in 0..undisturbed.effects {
            for survivors in [Survivors::Nothing, Survivors::All] {
                plans.push(vec![Disaster::Effect { at, survivors }]);
            }
        }
        // A separate world would not match a log that it did not take part in, and runs that have
        // exchanged messages don't end in the same place individually.
        let has_world = TypeId::of::<W>() != TypeId::of::<()>();
        let sent = |log: &RunLog| log.of_type("Message").any(|one| one.get("from").is_some());
        let is_apart = has_world || undisturbed.logs.runs.values().any(sent);
        for (run, log) in undisturbed.logs.runs.values().enumerate().filter(|_| !is_apart) {
            // The last of these plans lacks only the final record.
            let first = log.beginning();
            plans.extend(
                (first..log.lines.len()).map(|records| vec![Disaster::Cut { run, records }]),
            );
        }
        self.second_crashes(&mut plans, &mut draw);
        if self.faults {
            faults(&mut plans, undisturbed, &mut draw);
        }
        if let Some(most) = self.at_most {
            for at in 0..most.min(plans.len()) {
                let other = at + draw.below(plans.len() - at);
                plans.swap(at, other);
            }
            plans.truncate(most);
        }
        plans.into_iter().map(|disasters| Plan { seed, disasters }).collect()
    }

    /// Adds plans in which a second crash happens while the run is being resumed.
    fn second_crashes(&self, plans: &mut Vec<Vec<Disaster>>, draw: &mut Draw) {
        let more: Vec<Vec<Disaster>> = plans
            .iter()
            .step_by(3)
            .map(|first| {
                let survivors = match draw.below(3) {
                    0 => Survivors::Nothing,
                    1 => Survivors::All,
                    _ => Survivors::Some(draw.next() % 1000),
                };
                let second = match draw.below(4) {
                    0 => Disaster::Effect { at: draw.below(3), survivors },
                    _ => {
                        let (at, torn) = (draw.below(30), draw.below(600));
                        Disaster::Operation { at, torn, survivors, flip: None }
                    }
                };
                [first.as_slice(), &[second]].concat()
            })
            .collect();
        plans.extend(more);
    }
}

/// Adds plans with failing operations and flipped bits.
fn faults(plans: &mut Vec<Vec<Disaster>>, undisturbed: &Story, draw: &mut Draw) {
    for (at, operation) in undisturbed.operations.iter().enumerate() {
        let errors: &[i32] = match operation {
            Operation::Sync(_) => &[EIO],
            _ => &[EIO, ENOSPC],
        };
        plans.extend(errors.iter().map(|errno| vec![Disaster::Fail { at, errno: *errno }]));
        let (survivors, flip) = (Survivors::All, Some(draw.next() % 100_000));
        plans.push(vec![Disaster::Operation { at, torn: 0, survivors, flip }]);
    }
}

/// Returns where a crash in an operation can happen: at its beginning, and for a write, also within
/// and after it.
fn tears(operation: &Operation) -> Vec<usize> {
    let Operation::Write { len, .. } = operation else { return vec![0] };
    let mut tears = vec![0, 1, len / 3, 2 * len / 3, len.saturating_sub(1), *len];
    tears.dedup();
    tears
}

/// Returns settings with which the log has to do everything it can within a short run.
fn small_log() -> Settings {
    Settings {
        segment_bytes: 4096,
        segments: 2,
        blob_limit: 400,
        open_files: 2,
        single_syncs: 3,
        index_slack: 3,
        ..Settings::default()
    }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| panic!("it cannot be written down: {error}"))
}

fn plan_from_environment() -> Option<Plan> {
    let text = std::env::var("TIFFANY_SIM").ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("TIFFANY_SIM: {error}")))
}

/// The extent of a check that found no problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of seeds.
    pub seeds: usize,
    /// The number of disk operations in the undisturbed simulations.
    pub operations: usize,
    /// The number of attempts at steps in the undisturbed simulations.
    pub steps: usize,
    /// The number of disturbed simulations.
    pub simulations: usize,
    /// The number of crashes and disk failures in the disturbed simulations.
    pub crashes: usize,
    /// The number of damaged logs that were refused with an error.
    pub refused: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seeds, operations, steps, simulations, crashes, refused } = self;
        write!(
            f,
            "{simulations} simulations of {seeds} seeds, {crashes} crashes at {operations} operations and \
             {steps} attempts at steps; {refused} damaged logs were refused, and nothing was wrong"
        )
    }
}

/// A failed simulation: the problem, and how to repeat it.
#[derive(Clone)]
pub struct Failure {
    /// The plan of the simulation.
    pub plan: Plan,
    /// A description of the problem.
    pub what: String,
}

impl Failure {
    fn new(plan: &Plan, what: String, undisturbed: Option<&Story>) -> Failure {
        let place = plan.disasters.first().and_then(|disaster| match disaster {
            Disaster::Operation { at, .. } | Disaster::Fail { at, .. } => {
                undisturbed?.operations.get(*at).map(|operation| format!("{operation:?}"))
            }
            _ => None,
        });
        let what = match place {
            Some(place) => format!("{what}\nthe first disaster was at {place}"),
            None => what,
        };
        Failure { plan: plan.clone(), what }
    }

    /// Returns the command that repeats the simulation.
    pub fn command(&self) -> String {
        let package = std::env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}"));
        let thread = std::thread::current();
        let test = thread.name().filter(|name| *name != "main").unwrap_or_default();
        let package = package.unwrap_or_default();
        format!("TIFFANY_SIM='{}' cargo test{package} -- --exact {test}", self.plan)
            .trim_end()
            .into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        writeln!(f, "in the simulation {}; repeat it with", self.plan)?;
        write!(f, "  {}", self.command())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}
