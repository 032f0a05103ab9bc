//! The implementation of the system calls, with one file for each family. A call is either answered
//! at once, or registered and answered later.

mod approve;
mod cancel;
pub(crate) mod channel;
mod continue_as;
mod effect;
pub(crate) mod group;
mod io;
pub(crate) mod promise;
mod release;
pub(crate) mod semaphore;
mod show;
mod sleep;
mod spawn;
mod store;
pub(crate) mod wait;

use std::panic::Location;

use crate::call::{Reply, SystemCall};
use crate::calls::semaphore::Lock;
use crate::error::{ErrorKind, TaskError};
use crate::id::CallId;
use crate::outstanding::Wait;
use crate::run::Run;
use crate::value::Value;

/// The outcome of performing a call.
pub(crate) enum Answer {
    Now(Reply),
    Later(Wait),
}

impl Answer {
    pub(crate) fn error(kind: ErrorKind, message: impl Into<String>) -> Answer {
        Answer::Now(Reply::Error(TaskError::new(kind, message)))
    }
}

impl From<TaskError> for Answer {
    fn from(error: TaskError) -> Answer {
        Answer::Now(Reply::Error(error))
    }
}

/// Turns a result into an answer, so that the code of a call can use `?`.
fn settle(result: Result<Answer, TaskError>) -> Answer {
    result.unwrap_or_else(Answer::from)
}

impl Run {
    /// Passes a call to its implementation.
    pub(crate) fn dispatch(
        &mut self,
        me: u32,
        id: CallId,
        call: SystemCall,
        at: &'static Location<'static>,
    ) -> Answer {
        match call {
            SystemCall::Yield => Answer::Now(Reply::Unit),
            SystemCall::GetTid => Answer::Now(Reply::Tid(self.tasks[me as usize].tid)),
            SystemCall::Now => Answer::Now(Reply::Time(self.clock)),
            SystemCall::Random => Answer::Now(Reply::Number(self.random())),
            SystemCall::NewUuid(uuid) => Answer::Now(Reply::Value(Value::new(uuid))),
            SystemCall::Patched(id, new) => {
                Answer::Now(Reply::Flag(*self.rare.patches.entry(id).or_insert(new)))
            }
            SystemCall::ContinueAs(input) => settle(self.continue_as(me, id, input)),
            SystemCall::GetHandlers => self.get_handlers(me),
            SystemCall::Spawn(coroutine, options) => self.spawn(me, coroutine, options, at),
            SystemCall::Wait(on, claim) => self.wait(me, id, on, claim),
            SystemCall::WaitTask(tid) => self.wait_task(me, id, tid),
            SystemCall::Gather(items, mode, claim) => {
                settle(self.gather(me, id, items, mode, claim))
            }
            SystemCall::Race(items, claim) => settle(self.race(me, id, items, claim)),
            SystemCall::Cancel(task) => settle(self.cancel(task)),
            SystemCall::KillTask(tid) => self.kill_task(tid),
            SystemCall::CreatePromise => self.create_promise(),
            SystemCall::CompletePromise(promise, value) => self.settle_promise(promise, Ok(value)),
            SystemCall::FailPromise(promise, error) => self.settle_promise(promise, Err(error)),
            SystemCall::CreateExternalPromise(uuid) => self.create_external_promise(me, id, uuid),
            SystemCall::Sleep(duration) => self.sleep(me, id, duration),
            SystemCall::SleepUntil(time) => self.sleep_until(me, id, time),
            SystemCall::ReadWait(fd) => self.read_wait(me, id, fd),
            SystemCall::WriteWait(fd) => self.write_wait(me, id, fd),
            SystemCall::Get(key) => self.get(me, &key),
            SystemCall::Put(key, value) => self.put(me, key, value),
            SystemCall::Tell(value) => self.tell(me, value),
            SystemCall::GetLog => self.get_log(me),
            SystemCall::Ask(key) => self.ask(me, id, &key, at),
            SystemCall::CreateChannel(capacity) => self.create_channel(capacity),
            SystemCall::Send(channel, value) => settle(self.send(me, id, channel, value)),
            SystemCall::Receive(channel) => settle(self.receive(me, id, channel)),
            SystemCall::ReceiveMessage(name) => settle(self.receive_message(me, id, &name)),
            SystemCall::CreateSemaphore(permits) => self.create_semaphore(permits, Lock::Semaphore),
            SystemCall::CreateMutex => self.create_semaphore(1, Lock::Mutex),
            SystemCall::Acquire(semaphore, permits) => {
                settle(self.acquire(me, id, semaphore, permits, at))
            }
            SystemCall::CreateGroup => self.create_group(),
            SystemCall::JoinGroup(group) => settle(self.join_group(me, id, group)),
            SystemCall::Effect(work) => self.effect(me, id, work),
            SystemCall::Show(shown) => self.show(me, shown),
            SystemCall::Approve(asking) => self.approve(me, id, *asking),
            SystemCall::Charge(cost) => self.charge(cost),
            SystemCall::SetAttributes(changes) => self.set_attributes(changes),
            // Its record is all that it does.
            SystemCall::Annotate(_) => Answer::Now(Reply::Unit),
            SystemCall::Custom(name, _) => Answer::error(
                ErrorKind::Unanswered,
                format!("no handler answers the call `{name}`"),
            ),
        }
    }
}
