//! Cancel and KillTask: cancelling a task. The calls it waits in are withdrawn at once; its
//! coroutine is unwound at its next turn.

use crate::call::Reply;
use crate::calls::Answer;
use crate::ending::End;
use crate::error::{ErrorKind, TaskError};
use crate::id::{TaskRef, Tid};
use crate::outbox::EventKind;
use crate::record::RecordKind;
use crate::run::{Run, RunFailure};
use crate::state::TaskState;
use crate::task::{Mark, Task};
use crate::timer::Due;

impl Run {
    pub(crate) fn cancel(&mut self, task: TaskRef) -> Result<Answer, TaskError> {
        self.check_run(task.run, "task", task.tid.0)?;
        if let Ok(slot) = self.find_task(task) {
            self.cancel_task(slot);
        }
        Ok(Answer::Now(Reply::Unit))
    }

    pub(crate) fn kill_task(&mut self, tid: Tid) -> Answer {
        let alive = match self.slot_of(tid) {
            Some(slot) if !self.tasks[slot as usize].state().is_terminal() => {
                self.cancel_task(slot);
                true
            }
            _ => false,
        };
        Answer::Now(Reply::Flag(alive))
    }

    /// Sorts tasks by spawn order. Slots are reused, so their numbers don't tell the order.
    pub(crate) fn in_spawn_order(&self, slots: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut slots: Vec<u32> = slots.collect();
        slots.sort_by_key(|slot| self.tasks[*slot as usize].tid);
        slots
    }

    /// Cancels a task, whatever its state.
    pub(crate) fn cancel_task(&mut self, slot: u32) {
        let task = &mut self.tasks[slot as usize];
        match task.state() {
            TaskState::Pending => self.finish(slot, End::Cancelled(None)),
            TaskState::Running => {
                task.marks.set(Mark::CancelRequested);
            }
            TaskState::Suspended | TaskState::Blocked(_) => self.begin_cancel(slot),
            TaskState::Cancelling if task.marks.has(Mark::Unwinding) => self.end_now(slot),
            TaskState::Cancelling => {}
            TaskState::Completed | TaskState::Failed | TaskState::Cancelled => {}
        }
    }

    /// Withdraws the calls that a task waits in and queues the task to be unwound.
    pub(crate) fn begin_cancel(&mut self, slot: u32) {
        self.withdraw_all(slot);
        let task = &mut self.tasks[slot as usize];
        task.become_state(TaskState::Cancelling);
        let tid = task.tid;
        if !task.marks.set(Mark::Queued) {
            self.ready.push_woken(slot);
        }
        self.task_event(slot, EventKind::Cancelling);
        if let Some(deadline) = self.cancel_grace.and_then(|grace| self.clock.checked_add(grace)) {
            self.timers.arm(deadline, Due::Grace { task: slot, tid: tid.0 });
        }
    }

    /// Cuts the cleanup of a cancelled task short: at its next turn its coroutine is dropped.
    fn end_now(&mut self, slot: u32) {
        self.withdraw_all(slot);
        let task = &mut self.tasks[slot as usize];
        task.marks.set(Mark::Ending);
        if !task.marks.set(Mark::Queued) {
            self.ready.push_woken(slot);
        }
    }

    /// Ends all tasks now. No task gets another turn, so no cleanup can keep the run alive. Returns
    /// the names of the tasks that were left.
    pub fn force_end(&mut self) -> String {
        let is_left = |(_, task): &(usize, &Task)| !task.state().is_terminal();
        let left = self.tasks.iter().filter(is_left).map(|(slot, _)| slot as u32);
        let left = self.in_spawn_order(left);
        let named = self.name_some(left.iter().copied());
        for slot in left {
            // Ending one task may have ended this one too.
            let state = self.tasks.get(slot as usize).map(Task::state);
            let Some(state) = state.filter(|state| !state.is_terminal()) else { continue };
            if let TaskState::Suspended | TaskState::Blocked(_) = state {
                self.withdraw_all(slot);
                self.tasks[slot as usize].become_state(TaskState::Cancelling);
            }
            let is_root = slot == self.root().slot;
            self.finish(
                slot,
                if is_root { End::Forced(named.clone()) } else { End::Cancelled(None) },
            );
        }
        named
    }

    /// Handles the end of the time that a cancelled task has for its cleanup.
    pub(crate) fn end_grace(&mut self, slot: u32, tid: Tid) {
        if let Some(task) = self.tasks.get(slot as usize)
            && task.tid == tid
            && task.state() == TaskState::Cancelling
        {
            self.record(slot, |_| RecordKind::CutShort);
            self.end_now(slot);
        }
    }

    /// Handles the end of the run's time limit.
    pub(crate) fn over_time(&mut self) {
        let limit = self.rare.limits.max_time.unwrap_or_default();
        self.record(self.root().slot, |_| RecordKind::OverTime);
        let message = format!("the run took longer than {limit:?}");
        self.fail(RunFailure::Limit(TaskError::new(ErrorKind::TimeLimit, message)));
    }

    /// Handles the run's deadline. It means nothing to a run whose outcome is fixed, or that is
    /// being cancelled already.
    pub(crate) fn past_deadline(&mut self) {
        let root = self.root().slot;
        let task = &self.tasks[root as usize];
        let is_cancelled = task.state() == TaskState::Cancelling
            || task.state() == TaskState::Cancelled
            || task.marks.has(Mark::CancelRequested);
        if !is_cancelled && !self.is_decided && !self.is_over() {
            self.record(root, |_| RecordKind::PastDeadline);
            self.pass_deadline();
        }
    }

    /// Fails the run because its deadline passed, which is recorded already.
    pub(crate) fn pass_deadline(&mut self) {
        let deadline = self.rare.deadline.take();
        let shown = deadline.map(|deadline| format!(", {}", deadline.shown)).unwrap_or_default();
        let message = format!("the run had not ended at its deadline{shown}");
        self.rare.is_past_deadline = true;
        self.fail(RunFailure::Limit(TaskError::new(ErrorKind::DeadlinePassed, message)));
    }

    /// Whether the run failed because its deadline passed.
    pub fn is_past_deadline(&self) -> bool {
        self.rare.is_past_deadline
    }
}
