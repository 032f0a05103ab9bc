//! The work of other threads, done on the loop's own thread so that a simulation can repeat it.
//! Each piece of work begins and is reported at moments of the virtual clock that are drawn from a
//! seed. It knows no log and no disk.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tiffany_kernel::{CallRef, TaskError, Time};

use crate::host::entropy::mixed;
use crate::host::inbox::{Inbox, LoopMessage};
use crate::host::pool::{Job, PoolWork};

/// Observes every attempt at a step.
pub trait Watcher {
    /// Called before an attempt begins. If it returns `false`, the attempt does not begin, because
    /// the machine is off.
    fn begins(&self, attempt: &Made<'_>) -> bool;

    /// Called when an attempt has ended with this value or this error, before anything else learns
    /// of it.
    fn ended(&self, attempt: &Made<'_>, result: Result<&str, &TaskError>);
}

/// An attempt at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made<'a> {
    /// The name of the step.
    pub name: &'static str,
    /// Its key, `<run>/<record>`.
    pub key: &'a str,
    /// The number of the attempt.
    pub number: u64,
    /// The kind of the step: `idempotent`, `at_most_once`, `transactional` or `pure`.
    pub kind: &'static str,
}

/// Random numbers from a seed.
pub(crate) struct Draws(Cell<u64>);

impl Draws {
    pub(crate) fn new(seed: u64) -> Draws {
        Draws(Cell::new(mixed(seed)))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.set(mixed(self.0.get()));
        self.0.get()
    }

    /// A random duration, at most this long.
    pub(crate) fn up_to(&self, longest: Duration) -> Duration {
        part_of(longest, self.next())
    }
}

fn part_of(longest: Duration, drawn: u64) -> Duration {
    let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(drawn % nanos.saturating_add(1).max(1))
}

/// Work that is done on the loop's thread.
pub(crate) struct Inline {
    inbox: Arc<Inbox>,
    seed: u64,
    draws: Draws,
    /// The longest time until work begins, and then until its result is reported.
    longest: Duration,
    watcher: Rc<dyn Watcher>,
    /// Future work, by its moment and then in order.
    line: RefCell<BTreeMap<(Time, u64), Stage>>,
    order: Cell<u64>,
}

enum Stage {
    Begins(CallRef, PoolWork),
    Told(LoopMessage),
}

impl Inline {
    pub(crate) fn new(
        inbox: Arc<Inbox>,
        seed: u64,
        longest: Duration,
        watcher: Rc<dyn Watcher>,
    ) -> Inline {
        let (line, order) = (RefCell::default(), Cell::new(0));
        Inline { inbox, seed, draws: Draws::new(seed), longest, watcher, line, order }
    }

    /// Queues work; its result is sent to the inbox.
    pub(crate) fn start(&self, call: CallRef, work: PoolWork, now: Time) {
        let begins = now + self.time_for(&work.job, 1);
        if let Job::Attempt(attempt, ..) = &work.job {
            // In a simulation this moment is known in advance.
            attempt.begins(begins);
        }
        self.put(begins, Stage::Begins(call, work));
    }

    /// Takes back work that has not begun. `None` if it has begun or does not exist.
    pub(crate) fn abort(&self, call: CallRef) -> Option<PoolWork> {
        let mut line = self.line.borrow_mut();
        let waits = |stage: &Stage| matches!(stage, Stage::Begins(of, _) if *of == call);
        let place = line.iter().find(|(_, stage)| waits(stage)).map(|(place, _)| *place);
        match line.remove(&place?)? {
            Stage::Begins(_, work) => Some(work),
            Stage::Told(_) => None,
        }
    }

    /// The moment of the next piece of work.
    pub(crate) fn due(&self) -> Option<Time> {
        self.line.borrow().first_key_value().map(|((time, _), _)| *time)
    }

    /// Does the next piece of work, if it is due.
    pub(crate) fn act(&self, now: Time) -> bool {
        if self.due().is_none_or(|due| due > now) {
            return false;
        }
        let Some((_, stage)) = self.line.borrow_mut().pop_first() else { return false };
        match stage {
            Stage::Told(letter) => self.inbox.send(letter),
            Stage::Begins(call, work) => {
                let Some((letter, time)) = self.run(call, work) else { return true };
                self.put(now + time, Stage::Told(letter));
            }
        }
        true
    }

    /// Does a piece of work. `None` if the machine is off.
    fn run(&self, call: CallRef, work: PoolWork) -> Option<(LoopMessage, Duration)> {
        let time = self.time_for(&work.job, 2);
        let Job::Attempt(attempt, ..) = &work.job else { return Some((work.run(call), time)) };
        let (name, attempt) = (work.name, attempt.clone());
        let made = Made {
            name,
            key: attempt.key(),
            number: attempt.number(),
            kind: attempt.kind().name(),
        };
        if !self.watcher.begins(&made) {
            return None;
        }
        let letter = work.run(call);
        if let LoopMessage::Attempted(_, _, tried, _) = &letter {
            match tried {
                Ok(json) => self.watcher.ended(&made, Ok(&json.0)),
                Err(failed) => self.watcher.ended(&made, Err(&failed.error)),
            }
        }
        Some((letter, time))
    }

    /// How long a part of some work takes. An attempt takes the same time in every simulation with
    /// one seed, whatever else happens there.
    fn time_for(&self, job: &Job, part: u64) -> Duration {
        let drawn = match job {
            Job::Once(_) => self.draws.next(),
            Job::Attempt(attempt, ..) => {
                let key = attempt.key().bytes();
                let start = mixed(self.seed ^ mixed(attempt.number() << 2 | part));
                key.fold(start, |all, byte| mixed(all ^ u64::from(byte)))
            }
        };
        part_of(self.longest, drawn)
    }

    fn put(&self, at: Time, stage: Stage) {
        self.order.set(self.order.get() + 1);
        self.line.borrow_mut().insert((at, self.order.get()), stage);
    }
}
