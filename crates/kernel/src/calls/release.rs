//! Handles that were dropped, and calls that were withdrawn. Neither gets a reply.

use crate::call::Reply;
use crate::coroutine::Release;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, ObjectRef, TaskRef};
use crate::outbox::{EventKind, Order};
use crate::outstanding::{Pending, Wait};
use crate::record::RecordKind;
use crate::run::{Found, Run};
use crate::task::Mark;

impl Release {
    /// The run that the handle belongs to.
    pub fn run(&self) -> crate::id::RunId {
        match self {
            Release::Task(task) | Release::Wake(task) => task.run,
            Release::RetainFuture(object)
            | Release::Future(object)
            | Release::Promise(object)
            | Release::RetainSender(object)
            | Release::Sender(object)
            | Release::RetainReceiver(object)
            | Release::Receiver(object)
            | Release::Permits(object, _)
            | Release::Semaphore(object)
            | Release::Group(object) => object.run,
        }
    }
}

impl Run {
    /// Releases a handle. The host passes on handles that belong to another run.
    pub fn release(&mut self, release: Release) {
        if release.run() != self.id {
            return self.order(Order::Elsewhere(release));
        }
        match release {
            Release::Task(task) => {
                if let Ok(slot) = self.find_task(task) {
                    self.tasks[slot as usize].marks.clear(Mark::Held);
                    self.reclaim(slot);
                }
            }
            Release::RetainFuture(object) => {
                if let Ok(slot) = self.find_promise(object) {
                    self.promises[slot as usize].futures += 1;
                }
            }
            Release::Future(object) => {
                if let Ok(slot) = self.find_promise(object) {
                    self.promises[slot as usize].futures -= 1;
                    self.forget_promise(slot);
                }
            }
            Release::Promise(object) => self.release_promise(object),
            Release::RetainSender(object) => {
                if let Ok(slot) = self.find_channel(object) {
                    self.rare.channels[slot as usize].sender_handles += 1;
                }
            }
            Release::Sender(object) => {
                if let Ok(slot) = self.find_channel(object) {
                    self.rare.channels[slot as usize].sender_handles -= 1;
                    if self.rare.channels[slot as usize].sender_handles == 0 {
                        self.close_senders(slot);
                    }
                }
            }
            Release::RetainReceiver(object) => {
                if let Ok(slot) = self.find_channel(object) {
                    self.rare.channels[slot as usize].receiver_handles += 1;
                }
            }
            Release::Receiver(object) => {
                if let Ok(slot) = self.find_channel(object) {
                    self.rare.channels[slot as usize].receiver_handles -= 1;
                    if self.rare.channels[slot as usize].receiver_handles == 0 {
                        self.close_receiver(slot);
                    }
                }
            }
            Release::Permits(object, permits) => {
                if let Ok(slot) = self.find_semaphore(object) {
                    self.return_permits(slot, permits);
                }
            }
            Release::Semaphore(object) => {
                if let Ok(slot) = self.find_semaphore(object) {
                    self.close_semaphore(slot);
                }
            }
            Release::Wake(task) => self.wake_foreign(task),
            Release::Group(object) => {
                if let Ok(slot) = self.find_group(object) {
                    self.rare.groups[slot as usize].handle_lives = false;
                    self.cancel_members(slot);
                    self.forget_group(slot);
                }
            }
        }
    }

    fn release_promise(&mut self, object: ObjectRef) {
        let Ok(slot) = self.find_promise(object) else { return };
        let promise = &mut self.promises[slot as usize];
        promise.writer = false;
        if promise.end().is_none() && !promise.is_external() {
            let message = format!("promise {} was dropped unsettled", promise.id());
            self.settle(slot, Err(TaskError::new(ErrorKind::Abandoned, message)));
        } else {
            self.forget_promise(slot);
        }
    }

    /// Withdraws a call of any task.
    pub fn withdraw_by(&mut self, maker: TaskRef, id: CallId) {
        if maker.run != self.id {
            return self.order(Order::WithdrawElsewhere(maker, id));
        }
        let Ok(slot) = self.find_task(maker) else { return };
        let task = &mut self.tasks[slot as usize];
        if task.state().is_terminal() {
            return;
        }
        if let Some(what) = task.calls_mut().remove(id) {
            if self.watched() {
                self.event(slot, EventKind::Withdrawn { id });
            }
            self.withdraw(slot, id, what);
        }
    }

    /// Withdraws all calls of a task, the last one first, so that messages go back in their order.
    /// This happens one call at a time, because what one gives back may answer another one.
    pub(crate) fn withdraw_all(&mut self, slot: u32) {
        while let Some(call) = self.tasks[slot as usize].calls_mut().pop() {
            if self.watched() && matches!(call.what, Pending::Waiting(_)) {
                self.event(slot, EventKind::Withdrawn { id: call.id });
            }
            self.withdraw(slot, call.id, call.what);
        }
    }

    /// Undoes what a call registered, or returns the content of its reply.
    fn withdraw(&mut self, slot: u32, id: CallId, what: Pending) {
        let wait = match what {
            Pending::Waiting(wait) => wait,
            Pending::Answered(reply) => return self.give_back(reply),
        };
        match wait {
            Wait::Join { task, place, .. }
            | Wait::Over { task, place }
            | Wait::Resolve { task, place } => {
                self.stop_waiting(Found::Task(task), place);
            }
            Wait::Promise { promise, place, .. } | Wait::External { promise, place, .. } => {
                self.stop_waiting(Found::Promise(promise), place);
                self.forget_promise(promise);
            }
            Wait::Gather { set } | Wait::Race { set } => {
                self.leave_set(set);
            }
            Wait::Timer { timer } => {
                self.record(slot, |run| RecordKind::Withdrawn(run.call_ref(slot, id)));
                self.timers.disarm(timer);
                self.hope.timers -= 1;
            }
            Wait::Io { fd } => {
                self.hope.descriptors -= 1;
                self.order(Order::Unwatch(self.call_ref(slot, id), fd));
            }
            Wait::Effect => {
                self.record(slot, |run| RecordKind::Withdrawn(run.call_ref(slot, id)));
                self.hope.effects -= 1;
                self.order(Order::Abort(self.call_ref(slot, id)));
            }
            Wait::Approval { timer } => {
                self.record(slot, |run| RecordKind::Unasked(run.call_ref(slot, id)));
                self.stop_asking(slot, id, timer);
            }
            Wait::Commit { promise } => {
                self.record(slot, |run| RecordKind::Withdrawn(run.call_ref(slot, id)));
                self.hope.effects -= 1;
                self.order(Order::Abort(self.call_ref(slot, id)));
                let promise = self.object_ref(promise, self.promises[promise as usize].id());
                self.release(Release::Promise(promise));
            }
            Wait::Receive { channel, place } => {
                self.waits.remove(&mut self.rare.channels[channel as usize].receivers, place);
            }
            Wait::Send { channel, place } => self.withdraw_send(channel, place, id),
            Wait::Acquire { semaphore, place } => {
                self.waits.remove(&mut self.rare.semaphores[semaphore as usize].waiters, place);
                self.serve_waiters(semaphore);
            }
            Wait::Group { group, place } => {
                self.waits.remove(&mut self.rare.groups[group as usize].waiters, place);
            }
            Wait::Handler { task, place } => {
                self.stop_waiting(Found::Task(task), place);
                self.cancel_task(task);
            }
        }
    }

    /// Returns the content of a reply that was not taken to its source.
    fn give_back(&mut self, reply: Reply) {
        match reply {
            Reply::Message(message) => self.return_message(message),
            Reply::Permits(permits) => {
                let semaphore = self.object_ref(permits.slot, permits.id);
                self.release(Release::Permits(semaphore, permits.count as usize));
            }
            Reply::Task(task) => self.release(Release::Task(task)),
            Reply::Object(object) => self.discard(object),
            Reply::External(made) => self.release(Release::Promise(made.0)),
            _ => {}
        }
    }

    /// Removes a new object whose creator never received its number. Numbers are unique over all
    /// kinds of objects.
    fn discard(&mut self, object: ObjectRef) {
        if self.find_promise(object).is_ok() {
            self.release(Release::Future(object));
            self.release(Release::Promise(object));
        } else if self.find_channel(object).is_ok() {
            self.release(Release::Sender(object));
            self.release(Release::Receiver(object));
        } else if self.find_semaphore(object).is_ok() {
            self.release(Release::Semaphore(object));
        } else if self.find_group(object).is_ok() {
            self.release(Release::Group(object));
        }
    }
}
