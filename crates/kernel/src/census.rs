//! Counts of tasks and calls of a run, for monitoring many runs. Counting walks all tasks, so it is
//! done on request and not in every round.

use crate::run::Run;
use crate::state::{BlockReason, TaskState};
use crate::task::Task;

/// Counts of one run, or of several runs together.
///
/// ```
/// use tiffany_kernel::{BlockReason, Census};
///
/// let census = Census::default();
/// assert_eq!((census.ready, census.blocked(BlockReason::Sleep)), (0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// Tasks that are ready: Pending or Suspended.
    pub ready: usize,
    /// Tasks that have not had a turn yet.
    pub pending: usize,
    /// Tasks that were cancelled and are being unwound.
    pub cancelling: usize,
    /// Tasks that wait.
    pub waiting: usize,
    /// Calls that wait for a timer.
    pub timers: usize,
    /// Calls that wait for a descriptor.
    pub descriptors: usize,
    /// Calls that the host is working on.
    pub effects: usize,
    blocked: [usize; BlockReason::ALL.len()],
}

impl Census {
    /// Returns the number of tasks that wait for this reason.
    pub fn blocked(&self, reason: BlockReason) -> usize {
        self.blocked[reason as usize]
    }

    /// Returns the number of unfinished tasks.
    pub fn live(&self) -> usize {
        self.ready + self.cancelling + self.waiting
    }
}

impl Run {
    /// Adds this run to a census.
    pub fn count(&self, census: &mut Census) {
        for (_, task) in &self.tasks {
            match task.state() {
                TaskState::Pending => {
                    census.pending += 1;
                    census.ready += 1;
                }
                TaskState::Suspended => census.ready += 1,
                TaskState::Blocked(reason) => {
                    census.waiting += 1;
                    census.blocked[reason as usize] += 1;
                }
                TaskState::Cancelling => census.cancelling += 1,
                // A task is Running only while this can't be called.
                TaskState::Running
                | TaskState::Completed
                | TaskState::Failed
                | TaskState::Cancelled => {}
            }
        }
        census.timers += self.hope.timers;
        census.descriptors += self.hope.descriptors;
        census.effects += self.hope.effects;
    }
}

impl Run {
    /// Returns the approximate memory of the run's tasks in bytes: their entries and their
    /// coroutines, without what a coroutine has allocated itself. It walks all tasks.
    pub fn task_bytes(&self) -> usize {
        let coroutines = self.tasks.iter().filter_map(|(_, task)| task.coroutine());
        let coroutines: usize = coroutines.map(|one| size_of_val(&**one)).sum();
        self.tasks.capacity() * size_of::<Task>() + coroutines
    }
}
