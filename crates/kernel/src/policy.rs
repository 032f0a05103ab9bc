//! Which ready tasks a round takes, and in which order. The default, first in first out, is built into
//! the ready queue; the others plan each round with all candidates before them.

use crate::id::Tid;

/// A task that could run in the coming round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The task.
    pub tid: Tid,
    /// The priority it was spawned with.
    pub priority: u8,
    /// How many tasks wait for it, directly or through others.
    pub dependents: usize,
    /// How many rounds have passed it over since it became ready.
    pub age: u32,
}

/// Plans rounds.
///
/// A policy sees the candidates in FIFO order, woken waiters first, and names the tasks that run. What
/// it leaves out stays ready and grows older. If it names no task at all, all run; a name that is no
/// candidate's is passed over and reported.
pub trait Policy {
    /// Puts the tasks to run into `plan`, in their order.
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>);
}

/// Rounds that a task is passed over before it counts one level higher.
const ROUNDS_PER_LEVEL: u32 = 8;

/// The highest priority first, FIFO inside a level. Eight rounds of waiting raise a task by one level,
/// so none starves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Priority;

impl Policy for Priority {
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>) {
        take_highest(candidates, plan, |candidate| usize::from(candidate.priority));
    }
}

/// The task most others wait for first. Waiting makes a task rise here too, so none starves.
#[derive(Clone, Copy, Debug, Default)]
pub struct DependencyAware;

impl Policy for DependencyAware {
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>) {
        take_highest(candidates, plan, |candidate| candidate.dependents);
    }
}

/// All candidates of the highest level, with age counted in.
fn take_highest(
    candidates: &[Candidate],
    plan: &mut Vec<Tid>,
    level: impl Fn(&Candidate) -> usize,
) {
    let aged =
        |candidate: &Candidate| level(candidate) + (candidate.age / ROUNDS_PER_LEVEL) as usize;
    let highest = candidates.iter().map(aged).max();
    plan.extend(candidates.iter().filter(|c| Some(aged(c)) == highest).map(|c| c.tid));
}
