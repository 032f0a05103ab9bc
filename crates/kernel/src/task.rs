//! A task's entry in its run's table. Millions of tasks can wait at once, so data that few tasks
//! have (name, group, the key it computes) is in a side table of the run.

use std::panic::Location;
use std::rc::Rc;

use crate::call::Reply;
use crate::coroutine::BoxCoroutine;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, Tid};
use crate::outstanding::{Calls, Wait};
use crate::state::{BlockReason, TaskState};
use crate::store::Scope;
use crate::value::Value;
use crate::waiters::{Links, WaitList};

pub(crate) struct Task {
    pub(crate) tid: Tid,
    state: TaskState,
    pub(crate) priority: u8,
    pub(crate) marks: Marks,
    /// The length of the log when the task was spawned.
    pub(crate) log_base: u32,
    pub(crate) waiters: WaitList,
    /// The task's links in the list of waiters that one of its calls is in.
    pub(crate) links: Links,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) scope: Option<Rc<Scope>>,
    pub(crate) body: Body,
}

/// A set of [`Mark`]s: flags of a task besides its state.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marks(u8);

#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// The task is in the ready queue.
    Queued = 1,
    /// The task's handle exists, so its result may be requested.
    Held = 2,
    /// The task was cancelled while it was running, which takes effect at its next call.
    CancelRequested = 4,
    /// The task's unwinding has begun.
    Unwinding = 8,
    /// The task's unwinding is to be cut short.
    Ending = 16,
    /// The task's failure was delivered to a task.
    Observed = 32,
    /// The side table has an entry for the task.
    Extra = 64,
    /// A foreign future woke the task, which ends a durable task.
    Foreign = 128,
}

impl Marks {
    pub(crate) fn has(self, mark: Mark) -> bool {
        self.0 & mark as u8 != 0
    }

    /// Whether the next turn needs more than resuming the coroutine.
    #[inline]
    fn is_special(self) -> bool {
        const SPECIAL: u8 = Mark::Extra as u8 | Mark::Foreign as u8 | Mark::CancelRequested as u8;
        self.0 & SPECIAL != 0
    }

    /// Sets a mark, and returns whether it was set before.
    pub(crate) fn set(&mut self, mark: Mark) -> bool {
        let before = self.has(mark);
        self.0 |= mark as u8;
        before
    }

    pub(crate) fn clear(&mut self, mark: Mark) {
        self.0 &= !(mark as u8);
    }
}

pub(crate) enum Body {
    Live { coroutine: Option<BoxCoroutine>, calls: Calls },
    Over { outcome: Outcome, ended: u64 },
}

/// How a task or a promise ended.
pub(crate) enum Outcome {
    Value(Value),
    Error(TaskError),
    /// The value has moved to the holder of the only handle.
    Taken,
}

impl Outcome {
    /// Returns the result, for a task that shares it with others.
    pub(crate) fn share(&self) -> Result<Value, TaskError> {
        match self {
            Outcome::Value(value) => Ok(value.clone()),
            Outcome::Error(error) => Err(error.clone()),
            Outcome::Taken => Err(TaskError::new(
                ErrorKind::UnknownTask,
                "the result was taken by an earlier wait",
            )),
        }
    }

    /// Returns the result, for the holder of the only handle.
    pub(crate) fn take(&mut self) -> Result<Value, TaskError> {
        match std::mem::replace(self, Outcome::Taken) {
            Outcome::Value(value) => Ok(value),
            other => {
                *self = other;
                self.share()
            }
        }
    }

    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Outcome::Error(_))
    }
}

impl Task {
    pub(crate) fn new(
        tid: Tid,
        coroutine: BoxCoroutine,
        spawned_at: &'static Location<'static>,
        scope: Option<Rc<Scope>>,
    ) -> Task {
        let log_base = scope.as_ref().map_or(0, |scope| scope.log.len() as u32);
        Task {
            tid,
            state: TaskState::Pending,
            priority: 0,
            marks: Marks::default(),
            log_base,
            waiters: WaitList::default(),
            links: Links::FREE,
            spawned_at,
            scope,
            body: Body::Live { coroutine: Some(coroutine), calls: Calls::new(spawned_at) },
        }
    }

    /// Creates an entry of a task that has ended.
    pub(crate) fn over(
        tid: Tid,
        state: TaskState,
        outcome: Outcome,
        ended: u64,
        spawned_at: &'static Location<'static>,
    ) -> Task {
        assert!(state.is_terminal(), "task {tid} is over");
        let mut marks = Marks::default();
        marks.set(Mark::Held);
        Task {
            tid,
            state,
            priority: 0,
            marks,
            log_base: 0,
            waiters: WaitList::default(),
            links: Links::FREE,
            spawned_at,
            scope: None,
            body: Body::Over { outcome, ended },
        }
    }

    pub(crate) fn state(&self) -> TaskState {
        self.state
    }

    /// Changes the state. An illegal transition is a bug of the kernel.
    #[inline]
    pub(crate) fn become_state(&mut self, next: TaskState) {
        assert!(
            self.state.may_become(next),
            "task {} may not go from {} to {next}",
            self.tid,
            self.state
        );
        self.state = next;
    }

    /// Begins the turn of a ready task. Returns `false` if the task is not ready.
    #[inline]
    pub(crate) fn begin_turn(&mut self) -> bool {
        let ready = self.state.is_ready();
        if ready {
            self.state = TaskState::Running;
        }
        ready
    }

    /// Begins the turn of a ready task without special marks. Returns `false` for other tasks.
    #[inline]
    pub(crate) fn begin_plain_turn(&mut self) -> bool {
        !self.marks.is_special() && self.begin_turn()
    }

    /// Makes a running task ready again and marks it as queued.
    #[inline]
    pub(crate) fn suspend(&mut self) {
        assert!(self.state == TaskState::Running, "only a running task can be suspended");
        self.state = TaskState::Suspended;
        self.marks.set(Mark::Queued);
    }

    /// Answers a call that waits. Returns `false` if there is no such call.
    #[inline]
    pub(crate) fn answer(&mut self, id: CallId, reply: Reply) -> bool {
        match &mut self.body {
            Body::Live { calls, .. } => calls.answer(id, reply),
            Body::Over { .. } => false,
        }
    }

    /// Blocks a running task.
    #[inline]
    pub(crate) fn block(&mut self, reason: BlockReason) {
        assert!(self.state == TaskState::Running, "only a running task can begin to wait");
        self.state = TaskState::Blocked(reason);
    }

    /// Whether the task's calls take the slow path: it has handlers, was cancelled, or has ended.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        let handled = self.scope.as_ref().is_some_and(|scope| scope.handlers.is_some());
        let over = matches!(self.body, Body::Live { coroutine: None, .. } | Body::Over { .. });
        handled || over || self.marks.has(Mark::CancelRequested)
    }

    /// Whether the task's end needs no notifications: it has no waiters, name or group, and no
    /// outstanding calls.
    #[inline]
    pub(crate) fn ends_quietly(&self) -> bool {
        let idle = self.calls().is_some_and(Calls::is_none);
        idle && self.waiters.is_empty() && !self.marks.has(Mark::Extra)
    }

    /// Returns the calls of a task that has not ended.
    #[inline]
    pub(crate) fn calls(&self) -> Option<&Calls> {
        match &self.body {
            Body::Live { calls, .. } => Some(calls),
            Body::Over { .. } => None,
        }
    }

    /// Returns the coroutine, unless the task has ended or is being unwound.
    pub(crate) fn coroutine(&self) -> Option<&BoxCoroutine> {
        match &self.body {
            Body::Live { coroutine, .. } => coroutine.as_ref(),
            Body::Over { .. } => None,
        }
    }

    pub(crate) fn first_wait(&self) -> Option<(Wait, &'static Location<'static>)> {
        self.calls().and_then(Calls::first_wait)
    }

    /// Returns the calls of a live task.
    #[inline]
    pub(crate) fn calls_mut(&mut self) -> &mut Calls {
        match &mut self.body {
            Body::Live { calls, .. } => calls,
            Body::Over { .. } => unreachable!("a task that is over has no calls"),
        }
    }

    /// Returns the outcome of the task, and its position in the order in which tasks and promises
    /// ended.
    pub(crate) fn end(&self) -> Option<(&Outcome, u64)> {
        match &self.body {
            Body::Over { outcome, ended } => Some((outcome, *ended)),
            Body::Live { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of a parked task limits their number; this test makes growth visible.
    #[test]
    fn sizes() {
        assert!(size_of::<Reply>() <= 24, "Reply is {}", size_of::<Reply>());
        assert!(size_of::<Calls>() <= 40, "Calls is {}", size_of::<Calls>());
        assert!(size_of::<Task>() <= 104, "Task is {}", size_of::<Task>());
    }
}
