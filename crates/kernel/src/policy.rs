//! Policies: the choice and order of the ready tasks that a round runs. The default, first in first
//! out, is built into the ready queue; the other policies plan each round from all candidates.

use crate::id::Tid;

/// A task that could run in the coming round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The task.
    pub tid: Tid,
    /// The priority that the task was spawned with.
    pub priority: u8,
    /// The number of tasks that wait for this one, directly or through others.
    pub dependents: usize,
    /// The number of rounds that have left the task out since it became ready.
    pub age: u32,
}

/// A plan for each round: which tasks run, and in which order.
///
/// A policy sees the candidates in FIFO order, woken waiters first, and names the tasks that run.
/// Tasks that it leaves out stay ready, and their age grows. If it names no task at all, all run.
/// Tasks that are not candidates are ignored and reported.
pub trait Policy {
    /// Puts the tasks to run into `plan`, in their order.
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>);
}

/// The number of rounds without a turn that raise a task by one level.
const ROUNDS_PER_LEVEL: u32 = 8;

/// Runs tasks with the highest priority first, FIFO inside a level. Eight rounds of waiting raise a
/// task by one level, so that no task starves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Priority;

impl Policy for Priority {
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>) {
        take_highest(candidates, plan, |candidate| usize::from(candidate.priority));
    }
}

/// Runs the task first that most other tasks wait for. The age of a task counts here too, so that
/// no task starves.
#[derive(Clone, Copy, Debug, Default)]
pub struct DependencyAware;

impl Policy for DependencyAware {
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>) {
        take_highest(candidates, plan, |candidate| candidate.dependents);
    }
}

/// Returns all candidates of the highest level, including the effect of age.
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
