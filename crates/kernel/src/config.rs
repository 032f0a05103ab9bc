//! What a run is told when it starts.

use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use crate::handler::Handler;
use crate::policy::Policy;
use crate::record::Recording;
use crate::store::Env;

/// The settings of a run. All have defaults.
pub struct RunConfig {
    /// Ephemeral (the default) or durable.
    pub mode: Mode,
    /// When the run is over.
    pub end: End,
    /// The rules about ends that it follows.
    pub rules: Rules,
    /// In which order ready tasks run.
    pub policy: Option<Box<dyn Policy>>,
    /// What it may use up.
    pub limits: Limits,
    /// How long a cancelled task may take for its cleanup; `None`: as long as it needs.
    pub cancel_grace: Option<Duration>,
    /// The environment all tasks share.
    pub env: Env,
    /// The root's handlers, innermost first.
    pub handlers: Vec<Rc<dyn Handler>>,
    /// The root's name.
    pub name: Option<Rc<str>>,
    /// Whether events are left in the outbox.
    pub events: Events,
    /// Which calls are written down.
    pub recording: Recording,
    /// Where random numbers come from.
    pub seed: u64,
    /// The line that started the run.
    pub started_at: &'static Location<'static>,
}

/// How a run reaches the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In memory; tasks may use descriptors and foreign futures.
    #[default]
    Ephemeral,
    /// Through effects, timers, promises and messages only, so that it can be replayed.
    Durable,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// When all of its tasks are.
    #[default]
    AllTasks,
    /// When its root is; the others are cancelled then.
    Root,
}

/// What a failed root means to the other tasks. A log is replayed by the rules that it began with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Nothing: they run to their own ends, and the run ends with the last of them.
    First,
    /// The run's outcome is fixed, and they are cancelled.
    #[default]
    Second,
}

impl Rules {
    /// The number that a log has for them.
    pub fn number(self) -> u64 {
        match self {
            Rules::First => 1,
            Rules::Second => 2,
        }
    }

    /// The rules of this number, if there are such rules.
    pub fn of(number: u64) -> Option<Rules> {
        [Rules::First, Rules::Second].into_iter().find(|rules| rules.number() == number)
    }
}

/// Whether a run tells what happens in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Events {
    /// No; this costs nothing.
    #[default]
    Off,
    /// What a person should look at: failures, cycles, settlements that came too late, and what tasks show.
    Problems,
    /// The same, and tasks that come and go.
    Tasks,
    /// The same, and who has a turn, waits and is woken.
    Turns,
    /// Everything: every call and reply too, as text.
    All,
}

/// What a run may use up; `None` is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tasks alive at once.
    pub max_tasks: Option<usize>,
    /// System calls in all.
    pub max_calls: Option<u64>,
    /// Time by the run's clock.
    pub max_time: Option<Duration>,
    /// What the Charge calls add up to.
    pub max_cost: Option<u64>,
}

impl Default for RunConfig {
    #[track_caller]
    fn default() -> RunConfig {
        RunConfig {
            mode: Mode::default(),
            end: End::default(),
            rules: Rules::default(),
            policy: None,
            limits: Limits::default(),
            cancel_grace: None,
            env: Env::default(),
            handlers: Vec::new(),
            name: None,
            events: Events::default(),
            recording: Recording::default(),
            seed: 0,
            started_at: Location::caller(),
        }
    }
}
