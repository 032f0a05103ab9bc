//! Promises: settled once, by a task of the run or, if external, from anywhere by their UUID.

use crate::call::Reply;
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, ObjectRef, Uuid};
use crate::outbox::{EventKind, Order};
use crate::outstanding::Wait;
use crate::record::Recording;
use crate::run::{Found, Run};
use crate::task::Outcome;
use crate::value::Value;
use crate::waiters::WaitList;

/// A value that will arrive.
pub(crate) struct Promise {
    id: u64,
    uuid: Option<Uuid>,
    settled: Option<(Outcome, u64)>,
    pub(crate) waiters: WaitList,
    /// The number of read sides that are alive.
    pub(crate) futures: u32,
    /// Whether the write side is alive.
    pub(crate) writer: bool,
}

impl Promise {
    pub(crate) fn is_external(&self) -> bool {
        self.uuid.is_some()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// An external promise from an earlier generation of the run.
    pub(crate) fn restored(
        id: u64,
        uuid: Uuid,
        settled: Option<(Outcome, u64)>,
        writer: bool,
    ) -> Promise {
        let (uuid, waiters) = (Some(uuid), WaitList::default());
        Promise { id, uuid, settled, waiters, futures: 0, writer }
    }

    pub(crate) fn end(&self) -> Option<(&Outcome, u64)> {
        self.settled.as_ref().map(|(outcome, ended)| (outcome, *ended))
    }
}

impl Run {
    pub(crate) fn create_promise(&mut self) -> Answer {
        Answer::Now(Reply::Object(self.add_promise(None)))
    }

    /// In a durable run, the UUID is given out only after the promise is durable.
    pub(crate) fn create_external_promise(&mut self, me: u32, id: CallId, uuid: Uuid) -> Answer {
        let promise = self.add_promise(Some(uuid));
        self.rare.externals.insert(uuid, promise.slot);
        self.order(Order::Announce(uuid, promise));
        if self.recording == Recording::Off {
            return Answer::Now(Reply::External(Box::new((promise, uuid))));
        }
        self.hope.effects += 1;
        self.order(Order::Commit(self.call_ref(me, id)));
        Answer::Later(Wait::Commit { promise: promise.slot })
    }

    /// Returns the reply to a call whose promise is now durable.
    pub(crate) fn committed(&mut self, promise: u32) -> Reply {
        let entry = &self.promises[promise as usize];
        let uuid = entry.uuid.expect("only external promises wait for the log");
        Reply::External(Box::new((self.object_ref(promise, entry.id), uuid)))
    }

    fn add_promise(&mut self, uuid: Option<Uuid>) -> ObjectRef {
        let id = self.next_object_id();
        let slot = self.promises.insert(Promise {
            id,
            uuid,
            settled: None,
            waiters: WaitList::default(),
            // The first read side of an internal promise exists from the start.
            futures: u32::from(uuid.is_none()),
            writer: true,
        }) as u32;
        self.object_ref(slot, id)
    }

    pub(crate) fn find_promise(&self, promise: ObjectRef) -> Result<u32, TaskError> {
        self.check_run(promise.run, "promise", promise.id)?;
        match self.promises.get(promise.slot as usize) {
            Some(found) if found.id == promise.id => Ok(promise.slot),
            _ => Err(gone(promise.id)),
        }
    }

    pub(crate) fn settle_promise(
        &mut self,
        promise: ObjectRef,
        result: Result<Value, TaskError>,
    ) -> Answer {
        match self.find_promise(promise) {
            Err(error) => error.into(),
            Ok(slot) if self.promises[slot as usize].settled.is_some() => {
                settled_already(promise.id).into()
            }
            Ok(slot) => {
                self.settle(slot, result);
                Answer::Now(Reply::Unit)
            }
        }
    }

    /// Settles a promise from outside. The first answer counts.
    pub(crate) fn settle_external(&mut self, uuid: Uuid, result: Result<Value, TaskError>) {
        let Some(slot) = self.rare.externals.get(&uuid).copied() else {
            self.rare.counts.settled_again += 1;
            return;
        };
        match self.promises[slot as usize].settled {
            None => self.settle(slot, result),
            Some(_) => {
                self.rare.counts.settled_again += 1;
                self.problem(self.root().slot, EventKind::Ignored(uuid));
            }
        }
    }

    /// Fixes the outcome of a promise and notifies its waiters.
    pub(crate) fn settle(&mut self, slot: u32, result: Result<Value, TaskError>) {
        let ended = self.next_end();
        let outcome = match result {
            Ok(value) => Outcome::Value(value),
            Err(error) => Outcome::Error(error),
        };
        let promise = &mut self.promises[slot as usize];
        promise.settled = Some((outcome, ended));
        let external = promise.is_external();
        while let Some(waiter) = self.pop_list(Found::Promise(slot)) {
            self.hope.externals -= usize::from(external);
            self.notify(waiter, Found::Promise(slot));
        }
        self.forget_promise(slot);
    }

    /// Forgets a promise that can't be reached any more.
    pub(crate) fn forget_promise(&mut self, slot: u32) {
        let promise = &self.promises[slot as usize];
        let unreachable = match promise.uuid {
            // Its UUID may be known outside until it is settled.
            Some(_) => promise.settled.is_some() && !promise.writer && promise.futures == 0,
            None => !promise.writer && promise.futures == 0,
        };
        if unreachable && promise.waiters.is_empty() {
            let promise = self.promises.remove(slot as usize);
            if let Some(uuid) = promise.uuid {
                self.rare.externals.remove(&uuid);
            }
        }
    }
}

#[cold]
fn settled_already(id: u64) -> TaskError {
    TaskError::new(ErrorKind::AlreadySettled, format!("promise {id} is settled already"))
}

#[cold]
fn gone(id: u64) -> TaskError {
    TaskError::new(ErrorKind::UnknownPromise, format!("promise {id} is gone"))
}
