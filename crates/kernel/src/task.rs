//! A task's entry in its run's table. Millions of these are parked at once, so the rare parts (name,
//! group, what it resolves) live in a side table of the run.

use std::collections::BTreeMap;
use std::panic::Location;
use std::rc::Rc;

use crate::call::{Claim, Reply};
use crate::coroutine::BoxCoroutine;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, Tid};
use crate::state::{BlockReason, TaskState};
use crate::store::Scope;
use crate::value::Value;
use crate::waiters::WaitList;

pub(crate) struct Task {
    pub(crate) tid: Tid,
    state: TaskState,
    pub(crate) priority: u8,
    pub(crate) marks: Marks,
    /// How long the log was when the task was spawned.
    pub(crate) log_base: u32,
    pub(crate) waiters: WaitList,
    pub(crate) spawned_at: &'static Location<'static>,
    /// The line of its last call.
    pub(crate) called_at: &'static Location<'static>,
    /// The call that was answered with nothing but that it is done, or 0. It is the commonest answer, and
    /// with it a turn need not touch `body.calls`.
    pub(crate) done: CallId,
    pub(crate) scope: Option<Rc<Scope>>,
    pub(crate) body: Body,
}

/// What is true of a task besides its state: a set of [`Mark`]s.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marks(u8);

#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// It stands in the ready queue.
    Queued = 1,
    /// Somebody holds its handle and may ask for the result.
    Held = 2,
    /// Cancelled while running; seen at its next call.
    CancelRequested = 4,
    /// Its unwinding has begun.
    Unwinding = 8,
    /// Its unwinding is to be cut short.
    Ending = 16,
    /// Somebody was told of its failure.
    Observed = 32,
    /// The side table has an entry for it.
    Extra = 64,
    /// A foreign future woke it, which in a durable run ends it.
    Foreign = 128,
}

impl Marks {
    pub(crate) fn has(self, mark: Mark) -> bool {
        self.0 & mark as u8 != 0
    }

    pub(crate) fn has_either(self, one: Mark, other: Mark) -> bool {
        self.0 & (one as u8 | other as u8) != 0
    }

    /// Sets a mark, and tells whether it was set before.
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
    /// The value has moved to the only one who could ask for it.
    Taken,
}

impl Outcome {
    /// The result for one who shares it with others.
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

    /// The result for one who holds the only handle.
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

/// The calls of a task that are not over: nearly always none or one.
pub(crate) enum Calls {
    None,
    One(Outstanding),
    #[expect(clippy::box_collection, reason = "a map in place would make every parked task larger")]
    Many(Box<BTreeMap<CallId, Progress>>),
}

pub(crate) struct Outstanding {
    pub(crate) id: CallId,
    pub(crate) progress: Progress,
}

pub(crate) enum Progress {
    Waiting(Wait),
    Answered(Reply),
}

/// What a call waits for, and where it is registered for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Join { task: u32, node: u32, claim: Claim },
    Over { task: u32, node: u32 },
    Promise { promise: u32, node: u32 },
    External { promise: u32, node: u32 },
    Gather { set: u32 },
    Race { set: u32 },
    Timer { timer: u32 },
    Io { fd: i32 },
    Effect,
    Receive { channel: u32, node: u32 },
    Send { channel: u32, node: u32 },
    Acquire { semaphore: u32, node: u32 },
    Group { group: u32, node: u32 },
    Handler { task: u32, node: u32 },
    Resolve { task: u32, node: u32 },
}

impl Wait {
    pub(crate) fn reason(&self) -> BlockReason {
        match self {
            Wait::Join { .. } | Wait::Over { .. } | Wait::Group { .. } => BlockReason::Join,
            Wait::Promise { .. } => BlockReason::Promise,
            Wait::External { .. } => BlockReason::External,
            Wait::Gather { .. } => BlockReason::Gather,
            Wait::Race { .. } => BlockReason::Race,
            Wait::Timer { .. } => BlockReason::Sleep,
            Wait::Io { .. } => BlockReason::Io,
            Wait::Effect | Wait::Handler { .. } | Wait::Resolve { .. } => BlockReason::Effect,
            Wait::Receive { .. } | Wait::Send { .. } => BlockReason::Message,
            Wait::Acquire { .. } => BlockReason::Lock,
        }
    }
}

impl Calls {
    #[inline]
    pub(crate) fn add(&mut self, call: Outstanding) {
        if let Calls::None = self {
            // Nothing is dropped.
            std::mem::forget(std::mem::replace(self, Calls::One(call)));
        } else {
            self.add_another(call);
        }
    }

    #[cold]
    fn add_another(&mut self, call: Outstanding) {
        let mut all = match std::mem::replace(self, Calls::None) {
            Calls::None => Box::default(),
            Calls::One(first) => Box::new(BTreeMap::from([(first.id, first.progress)])),
            Calls::Many(all) => all,
        };
        all.insert(call.id, call.progress);
        *self = Calls::Many(all);
    }

    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Progress> {
        match self {
            Calls::One(call) if call.id == id => Some(&mut call.progress),
            Calls::Many(all) => all.get_mut(&id),
            _ => None,
        }
    }

    /// Removes the one that was made last.
    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        match self {
            Calls::None => None,
            Calls::One(_) => match std::mem::replace(self, Calls::None) {
                Calls::One(call) => Some(call),
                _ => None,
            },
            Calls::Many(all) => all.pop_last().map(|(id, progress)| Outstanding { id, progress }),
        }
    }

    pub(crate) fn remove(&mut self, id: CallId) -> Option<Progress> {
        match self {
            Calls::One(call) if call.id == id => match std::mem::replace(self, Calls::None) {
                Calls::One(call) => Some(call.progress),
                _ => None,
            },
            Calls::Many(all) => all.remove(&id),
            _ => None,
        }
    }

    /// How far each call is, in the order they were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Progress> {
        let (one, many) = match self {
            Calls::None => (None, None),
            Calls::One(call) => (Some(&call.progress), None),
            Calls::Many(all) => (None, Some(all.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Calls::None)
    }

    /// The first call that still waits.
    pub(crate) fn first_wait(&self) -> Option<Wait> {
        self.iter().find_map(|progress| match progress {
            Progress::Waiting(wait) => Some(*wait),
            Progress::Answered(_) => None,
        })
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
            spawned_at,
            called_at: spawned_at,
            done: CallId(0),
            scope,
            body: Body::Live { coroutine: Some(coroutine), calls: Calls::None },
        }
    }

    pub(crate) fn state(&self) -> TaskState {
        self.state
    }

    /// Moves to another state. An illegal move is a bug of the kernel.
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

    /// A ready task runs. `false`: it is not ready.
    #[inline]
    pub(crate) fn begin_turn(&mut self) -> bool {
        let ready = self.state.is_ready();
        if ready {
            self.state = TaskState::Running;
        }
        ready
    }

    /// A running task goes back to the queue. `false`: it is not running.
    #[inline]
    pub(crate) fn suspend(&mut self) -> bool {
        let running = self.state == TaskState::Running;
        if running {
            self.state = TaskState::Suspended;
        }
        running
    }

    #[inline]
    pub(crate) fn put_coroutine(&mut self, back: BoxCoroutine) {
        if let Body::Live { coroutine, .. } = &mut self.body {
            // The place is empty: nothing is dropped.
            std::mem::forget(coroutine.replace(back));
        }
    }

    /// Keeps an answer until the task's next turn.
    #[inline]
    pub(crate) fn note_reply(&mut self, id: CallId, reply: Reply) {
        if self.done == CallId(0)
            && let Reply::Unit = reply
        {
            self.done = id;
        } else {
            self.calls_mut().add(Outstanding { id, progress: Progress::Answered(reply) });
        }
    }

    /// Answers a call that waits. `false`: there is none.
    pub(crate) fn answer(&mut self, id: CallId, reply: Reply) -> bool {
        let done = self.done;
        let Body::Live { calls, .. } = &mut self.body else { return false };
        if done == CallId(0)
            && let Reply::Unit = reply
        {
            let found = calls.remove(id).is_some();
            if found {
                self.done = id;
            }
            return found;
        }
        match calls.get_mut(id) {
            Some(progress) => {
                *progress = Progress::Answered(reply);
                true
            }
            None => false,
        }
    }

    /// A running task waits.
    #[inline]
    pub(crate) fn block(&mut self, reason: BlockReason) {
        assert!(self.state == TaskState::Running, "only a running task can begin to wait");
        self.state = TaskState::Blocked(reason);
    }

    /// Whether its calls need more than to be done: it has handlers, was cancelled, or is over.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        let handled = self.scope.as_ref().is_some_and(|scope| scope.handlers.is_some());
        let over = matches!(self.body, Body::Live { coroutine: None, .. } | Body::Over { .. });
        handled || over || self.marks.has(Mark::CancelRequested)
    }

    pub(crate) fn calls(&self) -> &Calls {
        match &self.body {
            Body::Live { calls, .. } => calls,
            Body::Over { .. } => &Calls::None,
        }
    }

    /// Calls of a live task.
    pub(crate) fn calls_mut(&mut self) -> &mut Calls {
        match &mut self.body {
            Body::Live { calls, .. } => calls,
            Body::Over { .. } => unreachable!("a task that is over has no calls"),
        }
    }

    /// The end of the task, once it is over: the outcome, and its place in the order of all ends.
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

    /// A parked task is what limits how many there can be; this keeps growth from going unnoticed.
    #[test]
    fn sizes() {
        assert!(size_of::<Reply>() <= 24, "Reply is {}", size_of::<Reply>());
        assert!(size_of::<Calls>() <= 40, "Calls is {}", size_of::<Calls>());
        assert!(size_of::<Task>() <= 104, "Task is {}", size_of::<Task>());
    }
}
