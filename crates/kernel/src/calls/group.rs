//! Groups: tasks that end together. A failed member cancels the others, and so does dropping the
//! group.

use std::collections::BTreeSet;

use crate::call::Reply;
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, ObjectRef, Tid};
use crate::outbox::Order;
use crate::outstanding::Wait;
use crate::run::Run;
use crate::state::TaskState;
use crate::task::{Mark, Outcome};
use crate::waiters::{WaitList, Waiter};

/// Tasks that end together.
pub(crate) struct Group {
    id: u64,
    members: BTreeSet<u32>,
    /// The first member that failed, and its error.
    failure: Option<(Tid, TaskError)>,
    /// Whether the failure was delivered to a task.
    told: bool,
    pub(crate) waiters: WaitList,
    pub(crate) handle_lives: bool,
}

impl Group {
    pub(crate) fn add(&mut self, member: u32) {
        self.members.insert(member);
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().copied()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns a failure that was not delivered to any task.
    pub(crate) fn untold(&self) -> Option<&TaskError> {
        self.failure.as_ref().filter(|_| !self.told).map(|(_, error)| error)
    }

    fn reply(&mut self) -> Reply {
        self.told = true;
        match &self.failure {
            Some((_, error)) => Reply::Error(error.clone()),
            None => Reply::Unit,
        }
    }
}

impl Run {
    pub(crate) fn create_group(&mut self) -> Answer {
        let id = self.next_object_id();
        let slot = self.rare.groups.insert(Group {
            id,
            members: BTreeSet::new(),
            failure: None,
            told: false,
            waiters: WaitList::default(),
            handle_lives: true,
        }) as u32;
        Answer::Now(Reply::Object(self.object_ref(slot, id)))
    }

    pub(crate) fn find_group(&self, group: ObjectRef) -> Result<u32, TaskError> {
        self.check_run(group.run, "group", group.id)?;
        match self.rare.groups.get(group.slot as usize) {
            Some(found) if found.id == group.id => Ok(group.slot),
            _ => Err(TaskError::new(ErrorKind::Gone, format!("group {} is gone", group.id))),
        }
    }

    /// Finds a group that accepts members: its handle is alive, so they will be cancelled with it.
    pub(crate) fn find_open_group(&self, group: ObjectRef) -> Result<u32, TaskError> {
        let slot = self.find_group(group)?;
        if self.rare.groups[slot as usize].handle_lives {
            return Ok(slot);
        }
        Err(TaskError::new(ErrorKind::Gone, format!("group {} was dropped", group.id)))
    }

    pub(crate) fn join_group(
        &mut self,
        me: u32,
        id: CallId,
        group: ObjectRef,
    ) -> Result<Answer, TaskError> {
        let slot = self.find_group(group)?;
        let entry = &mut self.rare.groups[slot as usize];
        if entry.members.contains(&me) {
            let message = "a member of a group waited for the group";
            return Err(TaskError::new(ErrorKind::SelfWait, message));
        }
        if entry.members.is_empty() {
            return Ok(Answer::Now(entry.reply()));
        }
        self.waits_changed = true;
        let place = self.waits.push(&mut entry.waiters, Waiter { task: me, item: 0, call: id });
        Ok(Answer::Later(Wait::Group { group: slot, place }))
    }

    /// Handles the end of a task that has an entry in the side table.
    pub(crate) fn end_extra(&mut self, task: u32) {
        let Some(extra) = self.rare.extras.get(&task) else { return };
        let (group, resolves) = (extra.group, extra.resolves.clone());
        if extra.name.is_some() {
            self.order(Order::Name(self.tasks[task as usize].tid, None));
        }
        if let Some(key) = resolves {
            self.resolved(task, &key);
        }
        if let Some(group) = group {
            self.member_ended(group, task);
        }
    }

    fn member_ended(&mut self, slot: u32, task: u32) {
        let entry = &mut self.rare.groups[slot as usize];
        entry.members.remove(&task);
        let failed = self.tasks[task as usize].state() == TaskState::Failed;
        if failed && entry.failure.is_none() {
            self.tasks[task as usize].marks.set(Mark::Observed);
            if let Some((Outcome::Error(error), _)) = self.tasks[task as usize].end() {
                entry.failure = Some((self.tasks[task as usize].tid, error.clone()));
                entry.told = false;
            }
            self.cancel_members(slot);
        }
        // Cancelling the others may have ended all members, and so the group.
        if self.rare.groups.get(slot as usize).is_some_and(|group| group.members.is_empty()) {
            while let Some(waiter) = self.waits.pop(&mut self.rare.groups[slot as usize].waiters) {
                let reply = self.rare.groups[slot as usize].reply();
                self.answer(waiter.task, waiter.call, reply);
            }
            self.forget_group(slot);
        }
    }

    /// Marks the failure of a member as delivered, because a task that has the member's handle
    /// received it.
    pub(crate) fn told_of_member(&mut self, task: u32) {
        let tid = self.tasks[task as usize].tid;
        let group = self.rare.extras.get(&task).and_then(|extra| extra.group);
        if let Some(group) = group.and_then(|group| self.rare.groups.get_mut(group as usize))
            && group.failure.as_ref().is_some_and(|(failed, _)| *failed == tid)
        {
            group.told = true;
        }
    }

    pub(crate) fn cancel_members(&mut self, slot: u32) {
        for member in self.in_spawn_order(self.rare.groups[slot as usize].members()) {
            // The end of an earlier member may have ended this one too.
            if self
                .rare
                .groups
                .get(slot as usize)
                .is_some_and(|group| group.members.contains(&member))
            {
                self.cancel_task(member);
            }
        }
    }

    /// Forgets a group that can't be reached any more. A failure that was not delivered is kept.
    pub(crate) fn forget_group(&mut self, slot: u32) {
        let Some(entry) = self.rare.groups.get(slot as usize) else { return };
        if entry.handle_lives || !entry.members.is_empty() {
            return;
        }
        let entry = self.rare.groups.remove(slot as usize);
        if let (false, Some((tid, error))) = (entry.told, entry.failure) {
            match self.slot_of(tid) {
                // A task has its handle and may still wait for it.
                Some(task) => self.tasks[task as usize].marks.clear(Mark::Observed),
                None => self.keep_unobserved(error),
            }
        }
    }
}
