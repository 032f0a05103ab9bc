//! The end of a task: its result, the notification of its waiters, when it is forgotten, and what
//! its end means for the run.

use crate::config::{End as RunEnd, Rules};
use crate::error::{ErrorKind, Site, TaskError, TaskLabel};
use crate::outbox::EventKind;
use crate::record::RecordKind;
use crate::run::{Run, RunFailure};
use crate::state::TaskState;
use crate::task::{Body, Mark, Outcome, Task};
use crate::value::Value;

/// How a task ends.
pub(crate) enum End {
    Completed(Value),
    Failed(TaskError),
    /// The task was cancelled; with the line that spawned it, if its coroutine knows it.
    Cancelled(Option<Site>),
    /// The end of the run was forced; with the names of the remaining tasks.
    Forced(String),
}

impl Run {
    /// Whether a task's completion needs no notifications.
    #[inline]
    pub(crate) fn ends_quietly(&self, slot: u32) -> bool {
        let task = &self.tasks[slot as usize];
        slot != self.root
            && !self.careful
            && !self.tells_tasks()
            && self.rare.daemons.is_empty()
            && task.ends_quietly()
    }

    /// Completes a task without notifications.
    #[inline]
    pub(crate) fn complete_quietly(&mut self, slot: u32, value: Value) {
        let ended = self.next_end();
        self.live -= 1;
        let task = &mut self.tasks[slot as usize];
        task.become_state(TaskState::Completed);
        task.end_with(Outcome::Value(value), ended);
        if !task.marks.has(Mark::Held) {
            self.reclaim(slot);
        }
    }

    /// Ends a task: notifies its waiters, its group and the run.
    pub(crate) fn finish(&mut self, slot: u32, end: End) {
        self.withdraw_all(slot);
        let label = |run: &Run| run.label(slot);
        let (state, outcome) = match end {
            End::Completed(value) => (TaskState::Completed, Outcome::Value(value)),
            End::Failed(error) => {
                (TaskState::Failed, Outcome::Error(error.through_task(label(self))))
            }
            End::Cancelled(spawned_at) => {
                let error = TaskError::new(ErrorKind::TaskCancelled, "was cancelled");
                let mut label = label(self);
                label.spawned_at = spawned_at.unwrap_or(label.spawned_at);
                (TaskState::Cancelled, Outcome::Error(error.in_task(|| label)))
            }
            End::Forced(left) => {
                (TaskState::Cancelled, Outcome::Error(forced_end(&left, label(self))))
            }
        };
        let task = &mut self.tasks[slot as usize];
        task.become_state(state);
        self.live -= 1;
        if !self.rare.daemons.is_empty() {
            self.rare.daemons.remove(&slot);
        }
        self.record(slot, |run| match (&outcome, state) {
            (Outcome::Error(error), TaskState::Cancelled) => {
                let is_root = slot == run.root().slot;
                RecordKind::Cancelled(is_root.then(|| error.clone()))
            }
            (Outcome::Error(error), _) => RecordKind::Failed(error.clone()),
            (Outcome::Value(value), _) if slot == run.root().slot => {
                RecordKind::Completed(Some(value.clone()))
            }
            _ => RecordKind::Completed(None),
        });
        match (&outcome, state) {
            (_, TaskState::Cancelled) => self.task_event(slot, EventKind::Cancelled),
            (Outcome::Error(error), _) => self.problem(slot, EventKind::Failed(error.clone())),
            _ => self.task_event(slot, EventKind::Completed),
        }
        self.root_ended(slot, &outcome);
        let ended = self.next_end();
        let task = &mut self.tasks[slot as usize];
        task.end_with(outcome, ended);
        if task.marks.has(Mark::Extra) {
            self.end_extra(slot);
        }
        let tid = self.tasks[slot as usize].tid;
        if !self.tasks[slot as usize].waiters.is_empty() {
            self.tell_task_waiters(slot);
        }
        if self.tasks.get(slot as usize).is_some_and(|task| task.tid == tid) {
            self.reclaim(slot);
        }
        self.end_daemons();
    }

    /// Checks whether the task that ended is the root. Its failure is the failure of the run.
    fn root_ended(&mut self, slot: u32, outcome: &Outcome) {
        if slot != self.root {
            return;
        }
        self.tasks[slot as usize].marks.set(Mark::Observed);
        if let (None, Outcome::Error(error)) = (&self.failure, outcome) {
            self.failure = Some(Box::new(RunFailure::Root(error.clone())));
        }
        match (self.rules, self.end) {
            (Rules::First, RunEnd::Root) => self.cancel_all(),
            (Rules::First, RunEnd::AllTasks) => {}
            (Rules::Second, end) => {
                // Failures other than the root's own are recorded at the end.
                let is_roots_own = matches!(self.failure.as_deref(), Some(RunFailure::Root(_)));
                let state = self.tasks[slot as usize].state();
                self.is_decided = is_roots_own && state == TaskState::Failed;
                if outcome.is_failure() || end == RunEnd::Root {
                    self.cancel_rest();
                }
            }
        }
    }

    /// Cancels the daemon tasks when no other task is left.
    fn end_daemons(&mut self) {
        let none_is_left = !self.rare.daemons.is_empty() && self.rare.daemons.len() == self.live;
        // This is called again for each of them when it ends, and the others are cancelled already.
        if none_is_left && !self.rare.daemons_are_cancelled {
            self.rare.daemons_are_cancelled = true;
            self.is_decided = true;
            self.cancel_rest();
        }
    }

    /// Makes a new task a daemon task if the spawn asks for that or the parent is one. Tasks that a
    /// cleanup spawns are not daemon tasks: the run waits for them.
    #[inline]
    pub(crate) fn inherit_daemon(&mut self, child: u32, parent: u32, is_asked: bool) {
        let is_daemon = !self.rare.daemons.is_empty()
            && self.rare.daemons.contains(&parent)
            && self.tasks[parent as usize].state() != TaskState::Cancelling;
        if is_asked || is_daemon {
            self.rare.daemons_are_cancelled = false;
            self.rare.daemons.insert(child);
        }
    }

    /// Whether a live task is a daemon task.
    pub(crate) fn is_daemon(&self, slot: u32) -> bool {
        self.rare.daemons.contains(&slot)
    }

    /// Cancels the remaining tasks. Those that are being cancelled already continue their cleanup.
    fn cancel_rest(&mut self) {
        let all = self.in_spawn_order(self.tasks.iter().map(|(slot, _)| slot as u32));
        for slot in all {
            let task = self.tasks.get(slot as usize);
            if task.is_some_and(|task| task.state() != TaskState::Cancelling) {
                self.cancel_task(slot);
            }
        }
    }

    /// Ends the run with a failure, unless its outcome is fixed already.
    pub(crate) fn fail(&mut self, failure: RunFailure) {
        if !self.is_decided {
            self.failure.get_or_insert_with(|| Box::new(failure));
        }
        self.cancel_all();
    }

    /// Forgets a task that has ended, has no handle and is not in the queue.
    pub(crate) fn reclaim(&mut self, slot: u32) {
        let task = &self.tasks[slot as usize];
        if task.marks.has(Mark::Held) || task.marks.has(Mark::Queued) || !task.state().is_terminal()
        {
            return;
        }
        let task = self.tasks.remove(slot as usize);
        if let Some(tids) = &mut self.tids {
            tids.remove(task.tid);
        }
        if task.marks.has(Mark::Extra) {
            self.rare.extras.remove(&slot);
        }
        if task.state() == TaskState::Failed
            && !task.marks.has(Mark::Observed)
            && let Body::Over { outcome: Outcome::Error(error), .. } = task.body
        {
            self.keep_unobserved(error);
        }
    }
}

/// Returns the error of a root that was cancelled and whose cleanup was interrupted.
pub fn forced_end(left: &str, root: TaskLabel) -> TaskError {
    let message = format!("was cancelled, and its end was forced while it had {left}");
    TaskError::new(ErrorKind::TaskCancelled, message).in_task(|| root)
}

impl Task {
    /// Stores the outcome in the place of the coroutine, which has nearly always been dropped
    /// already.
    #[inline]
    fn end_with(&mut self, outcome: Outcome, ended: u64) {
        match std::mem::replace(&mut self.body, Body::Over { outcome, ended }) {
            Body::Live { coroutine: None, calls } if calls.is_none() => std::mem::forget(calls),
            other => drop(other),
        }
    }
}
