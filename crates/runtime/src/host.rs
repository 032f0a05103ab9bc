//! What a runtime offers its tasks: the time, the way in from other threads, the reactor, the pool.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tiffany_kernel::{CallRef, Site, Uuid};

use crate::clock::Clock;
use crate::durable::{Attempt, Questions, Slot, StepJob, Stop, mixed};
use crate::inbox::Inbox;
use crate::inline::Inline;
use crate::owner_process::OwnerProcess;
use crate::pal::Hub;
use crate::pool::{Job, Pool, Work};
use crate::reactor::Reactor;
use crate::trace::Tracer;

/// Everything of the world that tasks of one runtime can reach.
pub(crate) struct Host {
    pub(crate) process: OwnerProcess,
    pub(crate) clock: Clock,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) reactor: RefCell<Reactor>,
    pub(crate) workers: Workers,
    pub(crate) entropy: Entropy,
    pub(crate) tracer: Tracer,
    /// What its runs are doing, for those who watch.
    pub(crate) hub: Hub,
    /// What its runs can be asked.
    pub(crate) questions: Questions,
}

/// Who does work that blocks.
pub(crate) enum Workers {
    Threads(Pools),
    /// The loop itself, in a simulation.
    Inline(Inline),
}

/// Threads for work that blocks. Steps have their own, so that neither kind of work waits for the other.
pub(crate) struct Pools {
    pub(crate) blocking: Pool,
    pub(crate) steps: Pool,
}

impl Pools {
    /// How many threads there are, and how much work waits for one.
    pub(crate) fn load(&self) -> (usize, usize) {
        let ((threads, waiting), (more, more_waiting)) = (self.blocking.load(), self.steps.load());
        (threads + more, waiting + more_waiting)
    }
}

impl Host {
    /// Queues work; its result comes to the inbox.
    pub(crate) fn start_work(&self, call: CallRef, work: Work) {
        match &self.workers {
            Workers::Threads(pools) => match work.job {
                Job::Once(_) => pools.blocking.start(call, work),
                Job::Attempt(..) => pools.steps.start(call, work),
            },
            Workers::Inline(inline) => inline.start(call, work, self.clock.now()),
        }
    }

    /// Takes back work that has not begun. `None`: it has, or there is none. Dropping it may run code of the user's.
    pub(crate) fn abort_work(&self, call: CallRef) -> Option<Work> {
        match &self.workers {
            Workers::Threads(pools) => {
                pools.steps.abort(call).or_else(|| pools.blocking.abort(call))
            }
            Workers::Inline(inline) => inline.abort(call),
        }
    }

    /// Queues an attempt at a step, and says how it can be stopped.
    pub(crate) fn start_attempt(
        &self,
        (call, name, at): (CallRef, &'static str, Site),
        (attempt, slot): (Attempt, Option<Slot>),
        job: &StepJob,
    ) -> Option<Stop> {
        if matches!(self.workers, Workers::Threads(_)) && self.clock.steady().is_none() {
            // Threads can't read a clock that a test moves.
            attempt.begins(self.clock.now());
        }
        let job = match (&self.workers, job) {
            (_, StepJob::Blocking(job)) => Arc::clone(job),
            (Workers::Inline(_), StepJob::Elsewhere(_, work)) => StepJob::blocking(work),
            (Workers::Threads(_), StepJob::Elsewhere(spawner, work)) => {
                attempt.begins(self.clock.now());
                return Some(spawner.start((call, name, at), attempt, work, &self.inbox));
            }
        };
        self.start_work(call, Work { name, at, job: Job::Attempt(attempt, job, slot) });
        None
    }
}

/// Where UUIDs come from: the system, a count, so that a test has the same ones every time, or a seed.
pub enum Entropy {
    /// The system.
    System,
    /// A count.
    Counted(Cell<u64>),
    /// Where the UUIDs go on, and where the seeds of the runs come from.
    Seeded(Cell<u64>, u64),
}

impl Entropy {
    pub(crate) fn uuid(&self) -> Uuid {
        match self {
            Entropy::System => Uuid::from_random(random_bits()),
            Entropy::Counted(count) => {
                count.set(count.get() + 1);
                Uuid::from_random(u128::from(count.get()))
            }
            Entropy::Seeded(next, _) => {
                let high = mixed(next.get());
                next.set(mixed(high));
                Uuid::from_random(u128::from(high) << 64 | u128::from(next.get()))
            }
        }
    }

    /// Where the random numbers of a run begin.
    pub fn seed(&self) -> u64 {
        match self {
            Entropy::System => random_bits() as u64,
            Entropy::Counted(_) => 0,
            Entropy::Seeded(_, seed) => *seed,
        }
    }

    /// What tells one hub from those of other processes. It has 53 bits: what reads numbers as floating ones, as JavaScript does, reads it as it is.
    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Entropy::System => (random_bits() as u64) >> 11,
            // Whatever else is drawn is drawn as it is without a hub.
            Entropy::Counted(_) | Entropy::Seeded(..) => 1,
        }
    }

    /// The same for a durable run: a simulation gives it the same ones, whenever it is started.
    pub(crate) fn seed_of(&self, run: Uuid) -> u64 {
        match self {
            Entropy::Seeded(_, seed) => mixed(*seed ^ mixed(run.0 as u64)),
            other => other.seed(),
        }
    }
}

/// Random bits of the operating system.
fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system gives no random bits: {error}"),
        }
    }
    u128::from_ne_bytes(bytes)
}
