//! Semaphores: permits are granted in the order of the requests, so that small requests don't
//! overtake a large one. A mutex is a semaphore with a single permit.

use std::panic::Location;

use crate::call::{Permits, Reply};
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, ObjectRef, Tid};
use crate::outstanding::Wait;
use crate::run::Run;
use crate::waiters::{WaitList, Waiter};

/// A number of permits, and the tasks that wait for some.
pub(crate) struct Semaphore {
    pub(crate) id: u64,
    pub(crate) lock: Lock,
    /// The total number of permits, which is fixed.
    pub(crate) total: usize,
    /// The number of free permits.
    pub(crate) permits: usize,
    /// The task that took permits last, for reports. A permit may have moved to another task since.
    pub(crate) taken: Option<Taken>,
    /// The waiting calls. A waiter's item is the number of permits that it wants.
    pub(crate) waiters: WaitList,
}

/// The name of the object in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Semaphore,
    Mutex,
}

/// A task that took permits, and where.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) slot: u32,
    pub(crate) tid: Tid,
    pub(crate) at: &'static Location<'static>,
}

impl Run {
    pub(crate) fn create_semaphore(&mut self, permits: usize, lock: Lock) -> Answer {
        let id = self.next_object_id();
        let waiters = WaitList::default();
        let entry = Semaphore { id, lock, total: permits, permits, taken: None, waiters };
        let slot = self.rare.semaphores.insert(entry) as u32;
        Answer::Now(Reply::Object(self.object_ref(slot, id)))
    }

    pub(crate) fn find_semaphore(&self, semaphore: ObjectRef) -> Result<u32, TaskError> {
        self.check_run(semaphore.run, "semaphore", semaphore.id)?;
        match self.rare.semaphores.get(semaphore.slot as usize) {
            Some(found) if found.id == semaphore.id => Ok(semaphore.slot),
            _ => Err(gone(semaphore.id)),
        }
    }

    pub(crate) fn acquire(
        &mut self,
        me: u32,
        id: CallId,
        semaphore: ObjectRef,
        permits: usize,
        at: &'static Location<'static>,
    ) -> Result<Answer, TaskError> {
        let slot = self.find_semaphore(semaphore)?;
        let Ok(item) = u32::try_from(permits) else {
            let message = format!("{permits} permits are more than a semaphore can have");
            return Err(TaskError::new(ErrorKind::BadArgument, message));
        };
        let taken = Taken { slot: me, tid: self.tasks[me as usize].tid, at };
        let entry = &mut self.rare.semaphores[slot as usize];
        if permits > entry.total {
            let (id, total) = (entry.id, entry.total);
            let message = format!("semaphore {id} has {total} permits in all, and not {permits}");
            return Err(TaskError::new(ErrorKind::TooManyPermits, message));
        }
        if entry.waiters.is_empty() && entry.permits >= permits {
            entry.permits -= permits;
            entry.taken = Some(taken);
            return Ok(Answer::Now(Reply::Permits(Permits {
                slot,
                count: item,
                id: semaphore.id,
            })));
        }
        // Tasks that wait for each other's mutexes form a cycle.
        self.waits_changed |= entry.lock == Lock::Mutex;
        let place = self.waits.push(&mut entry.waiters, Waiter { task: me, item, call: id });
        Ok(Answer::Later(Wait::Acquire { semaphore: slot, place }))
    }

    /// Puts permits back and serves the tasks that wait for permits, in order.
    pub(crate) fn return_permits(&mut self, slot: u32, permits: usize) {
        let entry = &mut self.rare.semaphores[slot as usize];
        entry.permits = entry.permits.saturating_add(permits);
        self.serve_waiters(slot);
    }

    pub(crate) fn serve_waiters(&mut self, slot: u32) {
        let id = self.rare.semaphores[slot as usize].id;
        while let Some(first) = self.waits.first(&self.rare.semaphores[slot as usize].waiters) {
            let task = &self.tasks[first.task as usize];
            let line = task.calls().and_then(|calls| calls.line_of(first.call));
            let at = line.unwrap_or(task.spawned_at);
            let taken = Taken { slot: first.task, tid: task.tid, at };
            let entry = &mut self.rare.semaphores[slot as usize];
            if entry.permits < first.item as usize {
                break;
            }
            entry.permits -= first.item as usize;
            entry.taken = Some(taken);
            self.waits.pop(&mut entry.waiters);
            self.answer(
                first.task,
                first.call,
                Reply::Permits(Permits { slot, count: first.item, id }),
            );
        }
    }

    /// Closes a semaphore after its last handle is gone. A call of a state machine can still wait,
    /// because state machines hold no handles: it gets an error.
    pub(crate) fn close_semaphore(&mut self, slot: u32) {
        let id = self.rare.semaphores[slot as usize].id;
        while let Some(waiter) = self.waits.pop(&mut self.rare.semaphores[slot as usize].waiters) {
            self.answer(waiter.task, waiter.call, Reply::Error(gone(id)));
        }
        self.rare.semaphores.remove(slot as usize);
    }
}

fn gone(id: u64) -> TaskError {
    TaskError::new(ErrorKind::Gone, format!("semaphore {id} is gone"))
}
