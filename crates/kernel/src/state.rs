//! The states of a task and the legal transitions between them. The table below is complete: any
//! other transition is a bug of the kernel and stops the program, in release builds too.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// Spawned, and not yet run. The task is ready.
    Pending,
    /// The coroutine of the task is being resumed right now.
    Running,
    /// Waiting for its turn. The task is ready.
    Suspended,
    /// Waiting for something else.
    Blocked(BlockReason),
    /// Cancelled; being unwound.
    Cancelling,
    /// Returned a value.
    Completed,
    /// Ended with an error.
    Failed,
    /// Cancelled before it returned.
    Cancelled,
}

/// The reason for which a task is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockReason {
    /// A descriptor.
    Io,
    /// A timer.
    Sleep,
    /// The end of a task.
    Join,
    /// The end of several tasks or promises.
    Gather,
    /// The first of several tasks or promises.
    Race,
    /// A promise of this run.
    Promise,
    /// A promise settled from outside.
    External,
    /// Work done outside the kernel.
    Effect,
    /// The log.
    Commit,
    /// A person.
    Approval,
    /// A permit or a lock.
    Lock,
    /// A message, or room for one.
    Message,
    /// A future that the kernel doesn't know.
    Foreign,
}

impl BlockReason {
    /// All reasons, in order.
    pub const ALL: [BlockReason; 13] = {
        use BlockReason::*;
        [
            Io, Sleep, Join, Gather, Race, Promise, External, Effect, Commit, Approval, Lock,
            Message, Foreign,
        ]
    };
}

impl TaskState {
    /// Pending or Suspended.
    pub fn is_ready(self) -> bool {
        matches!(self, TaskState::Pending | TaskState::Suspended)
    }

    /// Completed, Failed or Cancelled.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskState::Completed | TaskState::Failed | TaskState::Cancelled)
    }

    /// Whether the transition from this state to that one is legal.
    ///
    /// | from | to | when |
    /// |---|---|---|
    /// | Pending | Running | its first turn |
    /// | Pending | Cancelled | cancelled before its first turn |
    /// | Running | Suspended | it made a call that was answered at once |
    /// | Running | Blocked | it made a call that was not |
    /// | Running | Cancelling | cancelled while running, seen at its next call |
    /// | Running | Completed, Failed | it returned, or ended with an error |
    /// | Suspended | Running | its turn |
    /// | Suspended | Cancelling | cancelled |
    /// | Blocked | Suspended | its call was answered |
    /// | Blocked | Blocked | another of its calls is the one it waits for |
    /// | Blocked | Cancelling | cancelled |
    /// | Cancelling | Cancelled | unwound |
    /// | Cancelling | Failed | it panicked while being unwound |
    pub fn may_become(self, next: TaskState) -> bool {
        use TaskState::*;
        matches!(
            (self, next),
            (Pending, Running | Cancelled)
                | (Running, Suspended | Blocked(_) | Cancelling | Completed | Failed)
                | (Suspended, Running | Cancelling)
                | (Blocked(_), Suspended | Blocked(_) | Cancelling)
                | (Cancelling, Cancelled | Failed)
        )
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskState::Blocked(reason) => write!(f, "Blocked({reason})"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BlockReason::Io => "io",
            BlockReason::Sleep => "sleep",
            BlockReason::Join => "join",
            BlockReason::Gather => "gather",
            BlockReason::Race => "race",
            BlockReason::Promise => "promise",
            BlockReason::External => "external",
            BlockReason::Effect => "effect",
            BlockReason::Commit => "commit",
            BlockReason::Approval => "approval",
            BlockReason::Lock => "lock",
            BlockReason::Message => "message",
            BlockReason::Foreign => "foreign",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, Location, catch_unwind};
    use std::pin::Pin;

    use super::*;
    use crate::coroutine::{Coroutine, Port, Step, Unwind};
    use crate::id::Tid;
    use crate::task::Task;

    struct Nothing;

    impl Coroutine for Nothing {
        fn resume(self: Pin<&mut Self>, _: &Port) -> Step {
            Step::Pending
        }

        fn unwind(self: Pin<&mut Self>, _: &Port, _: Unwind) -> Step {
            Step::Pending
        }
    }

    /// Returns a task that has reached this state by legal transitions.
    fn task_in(state: TaskState) -> Task {
        use TaskState::*;
        let way: &[TaskState] = match state {
            Pending => &[],
            Running => &[Running],
            Cancelling => &[Running, Cancelling],
            Cancelled => &[Cancelled],
            _ => &[Running, state],
        };
        let mut task = Task::new(Tid(7), Box::pin(Nothing), Location::caller(), None);
        way.iter().for_each(|next| task.become_state(*next));
        task
    }

    /// "an illegal one is a bug and is asserted in release builds too": a transition that is not in
    /// the table stops the program and changes nothing. (`cargo xtask test` runs this test in a
    /// release build as well.)
    #[test]
    fn an_illegal_move_is_asserted() {
        use TaskState::*;
        let io = Blocked(BlockReason::Io);
        let all = [Pending, Running, Suspended, io, Cancelling, Completed, Failed, Cancelled];
        for (from, to) in all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to))) {
            let mut task = task_in(from);
            let moved = catch_unwind(AssertUnwindSafe(|| task.become_state(to)));
            assert_eq!(moved.is_ok(), from.may_become(to), "from {from} to {to}");
            match moved {
                Ok(()) => assert_eq!(task.state(), to),
                Err(payload) => {
                    let text = crate::panic_text(payload);
                    assert_eq!(text, format!("task 7 may not go from {from} to {to}"));
                    assert_eq!(task.state(), from);
                }
            }
        }
    }
}
