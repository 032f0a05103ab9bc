//! The settings of a run.

use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use crate::attributes::Attributes;
use crate::handler::Handler;
use crate::policy::Policy;
use crate::record::Recording;
use crate::store::Env;
use crate::time::Time;

/// The settings of a run. All have defaults.
pub struct RunConfig {
    /// Ephemeral (the default) or durable.
    pub mode: Mode,
    /// When the run ends.
    pub end: End,
    /// The version of the rules about the end of the run.
    pub rules: Rules,
    /// The order in which ready tasks run.
    pub policy: Option<Box<dyn Policy>>,
    /// The limits of the run.
    pub limits: Limits,
    /// When the run fails if it has not ended.
    pub deadline: Option<Deadline>,
    /// The tags and attributes that the run begins with.
    pub attributes: Attributes,
    /// How long the cleanup of a cancelled task may take; `None`: without limit.
    pub cancel_grace: Option<Duration>,
    /// The environment that all tasks share.
    pub env: Env,
    /// The root's handlers, innermost first.
    pub handlers: Vec<Rc<dyn Handler>>,
    /// The root's name.
    pub name: Option<Rc<str>>,
    /// Whether events are left in the outbox.
    pub events: Events,
    /// The calls that are recorded.
    pub recording: Recording,
    /// The seed of random numbers.
    pub seed: u64,
    /// The line that started the run.
    pub started_at: &'static Location<'static>,
}

/// The deadline of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The moment, on the run's clock.
    pub at: Time,
    /// The same as people read it.
    pub shown: Rc<str>,
}

/// How a run interacts with the outside world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// In memory. Tasks may use descriptors and foreign futures.
    #[default]
    Ephemeral,
    /// Through effects, timers, promises and messages only, so that the run can be replayed.
    Durable,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// When all of its tasks have ended.
    #[default]
    AllTasks,
    /// When its root has ended; the other tasks are cancelled then.
    Root,
}

/// The versions of the rules about the failure of a root: what it means for the other tasks. A log
/// is replayed by the rules that it began with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// The other tasks keep running, and the run ends with the last of them.
    First,
    /// The run's outcome is fixed, and the other tasks are cancelled.
    #[default]
    Second,
}

impl Rules {
    /// Returns the number of these rules in a log.
    pub fn number(self) -> u64 {
        match self {
            Rules::First => 1,
            Rules::Second => 2,
        }
    }

    /// Returns the rules with this number, if this version knows them.
    pub fn of(number: u64) -> Option<Rules> {
        [Rules::First, Rules::Second].into_iter().find(|rules| rules.number() == number)
    }
}

/// The level of events that a run reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Events {
    /// None. This has no cost.
    #[default]
    Off,
    /// Events that need attention: failures, cycles and promises that were settled twice; and
    /// everything that tasks show.
    Problems,
    /// `Problems`, and the start and end of tasks.
    Tasks,
    /// `Tasks`, and turns, waits and wake-ups.
    Turns,
    /// All events: also every call and reply, as text.
    All,
}

/// The limits of a run; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most live tasks at a time.
    pub max_tasks: Option<usize>,
    /// The most system calls in total.
    pub max_calls: Option<u64>,
    /// The longest duration, on the run's clock.
    pub max_time: Option<Duration>,
    /// The largest sum of all Charge calls.
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
            deadline: None,
            attributes: Attributes::default(),
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
