//! The check itself: a workflow undisturbed, and then with a disaster at every place where one can be.

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

/// What can be seen of one simulation when it is over, for [`Crashes::holds`].
pub struct Seen<'a> {
    story: &'a Story,
}

impl Seen<'_> {
    /// What came of a run: its value, or its error as text.
    pub fn outcome(&self, id: &str) -> Option<&Result<Value, String>> {
        self.story.outcomes.get(id)
    }

    /// All attempts at steps, in the order in which they were begun, through all lives.
    pub fn ledger(&self) -> &[Entry] {
        &self.story.ledger
    }

    /// How often the machine crashed.
    pub fn crashes(&self) -> usize {
        self.story.crashes
    }
}

type SetUp<W> = Box<dyn Fn(&W, Builder) -> Builder>;
type Holds<W> = Rc<dyn Fn(&W, &Seen<'_>) -> Result<(), String>>;

/// Crashes a workflow everywhere. See the [crate's documentation](crate).
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
    /// Begins with a world of one's own, which is made anew for each simulation and outlives the crashes in it: a bank, a
    /// mailbox, whatever the steps act upon.
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

    /// Settings of the runtime: functions, queues, limits. This is called for each life of each machine.
    pub fn set_up(mut self, set_up: impl Fn(&W, Builder) -> Builder + 'static) -> Crashes<W> {
        self.set_up.push(Box::new(set_up));
        self
    }

    /// Starts a run of a registered function under this id, beside the others.
    pub fn run(self, function: &str, id: &str, input: &impl Serialize) -> Crashes<W> {
        let act = Act::Submit { function: function.into(), input: json(input) };
        self.plan(Duration::ZERO, id, act)
    }

    /// Sends a message to a run so long after the beginning. Messages of one name come in the order given here.
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

    /// Cancels a run so long after the beginning. How far it comes until then depends on when things happen, so this
    /// goes with [`may_differ`](Crashes::may_differ).
    pub fn cancel(self, after: Duration, id: &str) -> Crashes<W> {
        self.plan(after, id, Act::Cancel)
    }

    /// Settles external promises: each is shown when it is handed out, and settled with the answer some time later.
    pub fn answer<T: Serialize>(
        mut self,
        answer: impl Fn(&Question) -> Result<T, String> + 'static,
    ) -> Crashes<W> {
        let answer = move |question: &Question| Some(answer(question).map(|value| json(&value)));
        self.answering = Some(Rc::new(answer));
        self
    }

    /// Decides approvals: each is shown when it is open, and decided with the choice some time later; `None` leaves it open.
    pub fn decide(
        mut self,
        decide: impl Fn(&OpenApproval) -> Option<String> + 'static,
    ) -> Crashes<W> {
        self.deciding = Some(Rc::new(decide));
        self
    }

    /// Something that must hold at the end of every simulation, undisturbed or not.
    pub fn holds(
        mut self,
        holds: impl Fn(&W, &Seen<'_>) -> Result<(), String> + 'static,
    ) -> Crashes<W> {
        self.holds.push(Rc::new(holds));
        self
    }

    /// The outcome depends on when things happen, as in a race between a step and a timer, so a crash may change it.
    /// Outcome and log are then not compared with the undisturbed ones; say what must hold with [`holds`](Crashes::holds).
    pub fn may_differ(mut self) -> Crashes<W> {
        self.sameness = Sameness::MayDiffer;
        self
    }

    /// Which seeds; each makes another order of events. Three are tried unless more are wanted.
    pub fn seeds(mut self, seeds: Range<u64>) -> Crashes<W> {
        self.seeds = seeds;
        self
    }

    /// At most so many disasters for each seed, drawn from all there are.
    pub fn at_most(mut self, disasters: usize) -> Crashes<W> {
        self.at_most = Some(disasters);
        self
    }

    /// Crashes only: no failing operations and no turned bits.
    pub fn no_faults(mut self) -> Crashes<W> {
        self.faults = false;
        self
    }

    /// How the log is kept. By default its segments and limits are small, so that it has to do everything.
    pub fn log(mut self, settings: Settings) -> Crashes<W> {
        self.log = settings;
        self
    }

    /// How long the work of a step may take on the virtual clock, once to begin and once to be told.
    pub fn work_takes(mut self, longest: Duration) -> Crashes<W> {
        self.longest_work = longest;
        self
    }

    /// How long a commit may take on the virtual clock. By default that is the seed's: nothing, a little, or long.
    pub fn commits_take(mut self, longest: Duration) -> Crashes<W> {
        self.longest_commit = Some(longest);
        self
    }

    /// Does something to each disk before it is used: lets it lie, for one.
    pub fn disk(mut self, prepare: impl Fn(&SimDisk) + 'static) -> Crashes<W> {
        self.prepare_disk = Box::new(prepare);
        self
    }

    /// Only this one, as a failure names it. The variable `TIFFANY_SIM` does the same.
    pub fn only(mut self, plan: Plan) -> Crashes<W> {
        self.only = Some(plan);
        self
    }

    fn plan(mut self, after: Duration, id: &str, act: Act) -> Crashes<W> {
        self.planned.push(Planned { after, id: id.into(), act });
        self
    }

    /// Checks everything, and panics with an account of the first thing that is wrong.
    #[track_caller]
    pub fn check(self) -> Report {
        self.report().unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Checks everything, and returns the first thing that is wrong.
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

    /// All plans of a seed, or as many as are wanted.
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
        // A world of one's own does not know what a log says that comes from nowhere, and runs that have messages
        // from each other do not end at any place alone.
        let has_world = TypeId::of::<W>() != TypeId::of::<()>();
        let sent = |log: &RunLog| log.of_type("Message").any(|one| one.get("from").is_some());
        let is_apart = has_world || undisturbed.logs.runs.values().any(sent);
        for (run, log) in undisturbed.logs.runs.values().enumerate().filter(|_| !is_apart) {
            // With one record gone everything up to the end is there.
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

    /// Some of them crash again while they are brought back.
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

/// Operations that fail, and bits that turn over.
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

/// Where a crash inside an operation can be: at its beginning, and inside and after a write.
fn tears(operation: &Operation) -> Vec<usize> {
    let Operation::Write { len, .. } = operation else { return vec![0] };
    let mut tears = vec![0, 1, len / 3, 2 * len / 3, len.saturating_sub(1), *len];
    tears.dedup();
    tears
}

/// A log that has to do everything it can within a short run.
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

/// What was tried, when nothing was wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many seeds were tried.
    pub seeds: usize,
    /// The operations of the disk in their undisturbed simulations.
    pub operations: usize,
    /// The attempts at steps in these.
    pub steps: usize,
    /// How many disturbed simulations there were.
    pub simulations: usize,
    /// How often a machine crashed in them, or its disk failed.
    pub crashes: usize,
    /// How often a damaged log was refused with a message.
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

/// A failed simulation: what was wrong, and how to repeat it.
#[derive(Clone)]
pub struct Failure {
    /// The simulation.
    pub plan: Plan,
    /// What was wrong with it.
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

    /// The command that repeats it.
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
