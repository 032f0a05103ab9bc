//! Semaphores: permits in the order they were asked for, so that a large request is not passed by.

use crate::call::{Permits, Reply};
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, ObjectRef};
use crate::outstanding::Wait;
use crate::run::Run;
use crate::waiters::{WaitList, Waiter};

/// So many permits, and those who wait for some.
pub(crate) struct Semaphore {
    pub(crate) id: u64,
    permits: usize,
    /// A waiter's item is the number of permits it wants.
    pub(crate) waiters: WaitList,
}

impl Run {
    pub(crate) fn create_semaphore(&mut self, permits: usize) -> Answer {
        let id = self.next_object_id();
        let entry = Semaphore { id, permits, waiters: WaitList::default() };
        let slot = self.semaphores.insert(entry) as u32;
        Answer::Now(Reply::Object(self.object_ref(slot, id)))
    }

    pub(crate) fn find_semaphore(&self, semaphore: ObjectRef) -> Result<u32, TaskError> {
        self.check_run(semaphore.run, "semaphore", semaphore.id)?;
        match self.semaphores.get(semaphore.slot as usize) {
            Some(found) if found.id == semaphore.id => Ok(semaphore.slot),
            _ => {
                Err(TaskError::new(ErrorKind::Gone, format!("semaphore {} is gone", semaphore.id)))
            }
        }
    }

    pub(crate) fn acquire(
        &mut self,
        me: u32,
        id: CallId,
        semaphore: ObjectRef,
        permits: usize,
    ) -> Result<Answer, TaskError> {
        let slot = self.find_semaphore(semaphore)?;
        let Ok(item) = u32::try_from(permits) else {
            let message = format!("{permits} permits are more than a semaphore can have");
            return Err(TaskError::new(ErrorKind::BadArgument, message));
        };
        let entry = &mut self.semaphores[slot as usize];
        if entry.waiters.is_empty() && entry.permits >= permits {
            entry.permits -= permits;
            return Ok(Answer::Now(Reply::Permits(Permits {
                slot,
                count: item,
                id: semaphore.id,
            })));
        }
        let place = self.waits.push(&mut entry.waiters, Waiter { task: me, item, call: id });
        Ok(Answer::Later(Wait::Acquire { semaphore: slot, place }))
    }

    /// Puts permits back and serves those who waited for them, in order.
    pub(crate) fn return_permits(&mut self, slot: u32, permits: usize) {
        let entry = &mut self.semaphores[slot as usize];
        entry.permits = entry.permits.saturating_add(permits);
        self.serve_waiters(slot);
    }

    pub(crate) fn serve_waiters(&mut self, slot: u32) {
        let id = self.semaphores[slot as usize].id;
        while let Some(first) = self.waits.first(&self.semaphores[slot as usize].waiters) {
            let entry = &mut self.semaphores[slot as usize];
            if entry.permits < first.item as usize {
                break;
            }
            entry.permits -= first.item as usize;
            self.waits.pop(&mut entry.waiters);
            self.answer(
                first.task,
                first.call,
                Reply::Permits(Permits { slot, count: first.item, id }),
            );
        }
    }
}
