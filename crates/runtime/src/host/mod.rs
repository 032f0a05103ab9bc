//! The host: what a runtime offers its tasks, such as the time, the inbox for other threads, the
//! reactor and the thread pools.

pub(crate) mod attempt;
pub(crate) mod checkpoint;
pub(crate) mod chunks;
pub(crate) mod entropy;
pub(crate) mod external;
pub(crate) mod inbox;
pub(crate) mod inline;
pub(crate) mod kept_handler;
pub(crate) mod mailbox;
pub(crate) mod owner_process;
pub(crate) mod panics;
pub(crate) mod pool;
pub(crate) mod questions;
pub(crate) mod reactor;
pub(crate) mod slots;
pub(crate) mod step_output;
pub(crate) mod step_watch;
pub(crate) mod tell;
pub(crate) mod trace;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tiffany_kernel::{CallRef, Site};

use crate::activity::hub::Hub;
use crate::clock::Clock;
use crate::host::attempt::{Attempt, StepJob, Stop};
use crate::host::entropy::Entropy;
use crate::host::inbox::Inbox;
use crate::host::inline::Inline;
use crate::host::owner_process::OwnerProcess;
use crate::host::pool::{Job, Pool, PoolWork};
use crate::host::questions::Questions;
use crate::host::reactor::Reactor;
use crate::host::slots::Slot;
use crate::host::trace::Tracer;

/// A function around every wait of the loop that may take long. It gets the wait, and must call it
/// once.
pub type Waiting = Rc<dyn Fn(&mut dyn FnMut())>;

/// Everything outside the kernel that tasks of one runtime can use.
pub(crate) struct Host {
    pub(crate) process: OwnerProcess,
    pub(crate) clock: Clock,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) reactor: RefCell<Reactor>,
    pub(crate) workers: Workers,
    pub(crate) entropy: Entropy,
    pub(crate) tracer: Tracer,
    /// The activity of its runs, for watchers.
    pub(crate) hub: Hub,
    /// The questions that its runs answer.
    pub(crate) questions: Questions,
}

/// What does blocking work.
pub(crate) enum Workers {
    Threads(Pools),
    /// The loop itself, in a simulation.
    Inline(Inline),
}

/// Threads for blocking work. Steps have their own pool, so that neither kind of work waits for the
/// other.
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
    /// Queues work; its result is sent to the inbox.
    pub(crate) fn start_work(&self, call: CallRef, work: PoolWork) {
        match &self.workers {
            Workers::Threads(pools) => match work.job {
                Job::Once(_) => pools.blocking.start(call, work),
                Job::Attempt(..) => pools.steps.start(call, work),
            },
            Workers::Inline(inline) => inline.start(call, work, self.clock.now()),
        }
    }

    /// Takes back work that has not begun. `None` if it has begun or does not exist. Dropping it
    /// may run user code.
    pub(crate) fn abort_work(&self, call: CallRef) -> Option<PoolWork> {
        match &self.workers {
            Workers::Threads(pools) => {
                pools.steps.abort(call).or_else(|| pools.blocking.abort(call))
            }
            Workers::Inline(inline) => inline.abort(call),
        }
    }

    /// Returns how many attempts may block a thread at once, given how many are about to. The number
    /// is limited while the system refuses threads.
    pub(crate) fn room_for_attempts(&self, wanted: usize) -> usize {
        match &self.workers {
            Workers::Threads(pools) => pools.steps.room(wanted),
            Workers::Inline(_) => usize::MAX,
        }
    }

    /// Asks the system for one more thread, if an attempt waits for one.
    pub(crate) fn ask_for_thread(&self) {
        if let Workers::Threads(pools) = &self.workers {
            pools.steps.ask_for_thread();
        }
    }

    /// Queues an attempt at a step, and returns how it can be stopped.
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
        self.start_work(call, PoolWork { name, at, job: Job::Attempt(attempt, job, slot) });
        None
    }
}
