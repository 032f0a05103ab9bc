//! Wait, Gather and Race, on tasks and promises.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::call::{Claim, GatherMode, Reply};
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, Tid, Waitable};
use crate::outstanding::Wait;
use crate::run::{Found, Run};
use crate::task::{Body, Mark, Outcome};
use crate::value::Value;
use crate::waiters::{Place, Waiter};

/// The items that a Gather or a Race waits for.
pub(crate) struct WaitSet {
    kind: SetKind,
    claim: Claim,
    pub(crate) items: Vec<Item>,
    pending: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SetKind {
    Gather(GatherMode),
    Race,
}

/// One item, and its place in the list of waiters (`NONE` if the item is finished).
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) on: Found,
    place: Place,
}

impl Run {
    pub(crate) fn wait(&mut self, me: u32, id: CallId, on: Waitable, claim: Claim) -> Answer {
        let found = match self.find(on) {
            Ok(found) => found,
            Err(error) => return error.into(),
        };
        if found == Found::Task(me) {
            return waits_for_itself().into();
        }
        if self.ended(found).is_some() {
            return Answer::Now(reply(self.result(found, claim)));
        }
        Answer::Later(match found {
            Found::Task(task) => {
                Wait::Join { task, place: self.wait_for_task(task, me, id), claim }
            }
            Found::Promise(promise) => {
                let place = self.join_list(found, me, id);
                match self.promises[promise as usize].is_external() {
                    true => {
                        self.hope.externals += 1;
                        Wait::External { promise, place }
                    }
                    false => Wait::Promise { promise, place },
                }
            }
        })
    }

    pub(crate) fn wait_task(&mut self, me: u32, id: CallId, tid: Tid) -> Answer {
        match self.slot_of(tid) {
            Some(task) if task == me => waits_for_itself().into(),
            Some(task) if !self.tasks[task as usize].state().is_terminal() => {
                Answer::Later(Wait::Over { task, place: self.wait_for_task(task, me, id) })
            }
            _ => Answer::Now(Reply::Flag(false)),
        }
    }

    pub(crate) fn gather(
        &mut self,
        me: u32,
        id: CallId,
        items: Vec<Waitable>,
        mode: GatherMode,
        claim: Claim,
    ) -> Result<Answer, TaskError> {
        let items = self.find_all(me, items)?;
        let failed = items.iter().filter(|on| self.failed(**on));
        if mode == GatherMode::FailFast
            && let Some(first) = failed.min_by_key(|on| self.ended(**on)).copied()
        {
            return Ok(Answer::Now(reply(self.result(first, Claim::Share))));
        }
        if items.iter().all(|on| self.ended(*on).is_some()) {
            return Ok(Answer::Now(self.collect(me, &items, mode, claim)));
        }
        let set = self.wait_for_set(me, id, items, SetKind::Gather(mode), claim);
        Ok(Answer::Later(Wait::Gather { set }))
    }

    pub(crate) fn race(
        &mut self,
        me: u32,
        id: CallId,
        items: Vec<Waitable>,
        claim: Claim,
    ) -> Result<Answer, TaskError> {
        if items.is_empty() {
            return Err(TaskError::new(ErrorKind::NothingToRace, "race over nothing"));
        }
        let items = self.find_all(me, items)?;
        let over = items.iter().enumerate().filter_map(|(at, on)| Some((self.ended(*on)?, at)));
        if let Some((_, first)) = over.min() {
            return Ok(Answer::Now(self.race_won(&items, first, claim)));
        }
        let set = self.wait_for_set(me, id, items, SetKind::Race, claim);
        Ok(Answer::Later(Wait::Race { set }))
    }

    /// Registers a call with a task.
    #[inline]
    pub(crate) fn wait_for_task(&mut self, task: u32, me: u32, call: CallId) -> Place {
        self.waits_changed = true;
        self.join_list(Found::Task(task), me, call)
    }

    /// Registers one item of a call.
    fn wait_for_item(&mut self, on: Found, waiter: Waiter) -> Place {
        match on {
            Found::Task(_) => self.waits_changed = true,
            Found::Promise(promise) => {
                let external = self.promises[promise as usize].is_external();
                self.hope.externals += usize::from(external);
            }
        }
        self.join_list_by_node(on, waiter)
    }

    fn wait_for_set(
        &mut self,
        me: u32,
        id: CallId,
        items: Vec<Found>,
        kind: SetKind,
        claim: Claim,
    ) -> u32 {
        let mut pending = 0;
        let items = items
            .into_iter()
            .enumerate()
            .map(|(at, on)| {
                let place = match self.ended(on) {
                    Some(_) => Place::NONE,
                    None => {
                        pending += 1;
                        self.wait_for_item(on, Waiter { task: me, item: at as u32, call: id })
                    }
                };
                Item { on, place }
            })
            .collect();
        self.sets.insert(WaitSet { kind, claim, items, pending }) as u32
    }

    /// Notifies all waiters of a task that it is finished.
    pub(crate) fn tell_task_waiters(&mut self, task: u32) {
        // A consumed handle forgets the task with its last waiter.
        while let Some(entry) = self.tasks.get(task as usize)
            && !entry.waiters.is_empty()
            && let Some(waiter) = self.pop_list(Found::Task(task))
        {
            self.notify(waiter, Found::Task(task));
        }
    }

    /// Notifies one waiter that an item it waits for is finished.
    pub(crate) fn notify(&mut self, waiter: Waiter, over: Found) {
        let Waiter { task, item, call } = waiter;
        let calls = self.tasks[task as usize].calls();
        let Some(wait) = calls.and_then(|calls| calls.wait_of(call)) else { return };
        let answer = match wait {
            Wait::Gather { set } | Wait::Race { set } => match self.item_over(task, set, item) {
                Some(answer) => answer,
                None => return,
            },
            Wait::Over { .. } => Reply::Flag(true),
            Wait::Join { claim, .. } => reply(self.result(over, claim)),
            Wait::Handler { .. } => reply(self.result(over, Claim::Take)),
            _ => reply(self.result(over, Claim::Share)),
        };
        self.answer(task, call, answer);
    }

    /// Handles the end of one item of a set. Returns the answer if the end of this item decides it.
    fn item_over(&mut self, me: u32, set: u32, item: u32) -> Option<Reply> {
        let entry = &mut self.sets[set as usize];
        entry.items[item as usize].place = Place::NONE;
        entry.pending -= 1;
        let (kind, claim, pending) = (entry.kind, entry.claim, entry.pending);
        let on = entry.items[item as usize].on;
        match kind {
            SetKind::Race => {
                let items = self.leave_set(set);
                Some(self.race_won(&items, item as usize, claim))
            }
            SetKind::Gather(GatherMode::FailFast) if self.failed(on) => {
                self.leave_set(set);
                Some(reply(self.result(on, Claim::Share)))
            }
            SetKind::Gather(mode) if pending == 0 => {
                let items = self.leave_set(set);
                Some(self.collect(me, &items, mode, claim))
            }
            SetKind::Gather(_) => None,
        }
    }

    /// Removes a set and all its registrations.
    pub(crate) fn leave_set(&mut self, set: u32) -> Vec<Found> {
        let set = self.sets.remove(set as usize);
        for item in &set.items {
            if item.place != Place::NONE {
                self.stop_waiting(item.on, item.place);
            }
        }
        set.items.into_iter().map(|item| item.on).collect()
    }

    /// Unregisters a call from a task or a promise.
    pub(crate) fn stop_waiting(&mut self, on: Found, place: Place) {
        if let Found::Promise(promise) = on {
            let external = self.promises[promise as usize].is_external();
            self.hope.externals -= usize::from(external);
        }
        self.leave_list(on, place);
    }

    fn find_all(&self, me: u32, items: Vec<Waitable>) -> Result<Vec<Found>, TaskError> {
        let found: Result<Vec<Found>, TaskError> =
            items.into_iter().map(|on| self.find(on)).collect();
        match found {
            Ok(found) if found.contains(&Found::Task(me)) => Err(waits_for_itself()),
            found => found,
        }
    }

    fn outcome(&self, on: Found) -> Option<(&Outcome, u64)> {
        match on {
            Found::Task(task) => self.tasks[task as usize].end(),
            Found::Promise(promise) => self.promises[promise as usize].end(),
        }
    }

    /// Returns the position of an item in the order in which tasks and promises ended, if it has
    /// ended.
    fn ended(&self, on: Found) -> Option<u64> {
        self.outcome(on).map(|(_, ended)| ended)
    }

    fn failed(&self, on: Found) -> bool {
        self.outcome(on).is_some_and(|(outcome, _)| outcome.is_failure())
    }

    /// Returns the result of an item that has ended.
    fn result(&mut self, on: Found, claim: Claim) -> Result<Value, TaskError> {
        match on {
            Found::Task(slot) => {
                let task = &mut self.tasks[slot as usize];
                task.marks.set(Mark::Observed);
                if task.marks.has(Mark::Extra) {
                    self.told_of_member(slot);
                }
                let task = &mut self.tasks[slot as usize];
                let Body::Over { outcome, .. } = &mut task.body else {
                    unreachable!("only asked when it is over")
                };
                let result = match claim {
                    Claim::Share => outcome.share(),
                    Claim::Take | Claim::Consume => outcome.take(),
                };
                if claim == Claim::Consume {
                    task.marks.clear(Mark::Held);
                    self.reclaim_unless_waited_for(slot);
                }
                result
            }
            Found::Promise(slot) => {
                // Other futures may ask for the value too, so it is always shared.
                match self.promises[slot as usize].end() {
                    Some((outcome, _)) => outcome.share(),
                    None => unreachable!("only asked when it is over"),
                }
            }
        }
    }

    /// Forgets a task unless waiters are still to be notified.
    fn reclaim_unless_waited_for(&mut self, slot: u32) {
        if self.tasks[slot as usize].waiters.is_empty() {
            self.reclaim(slot);
        }
    }

    fn race_won(&mut self, items: &[Found], first: usize, claim: Claim) -> Reply {
        match self.result(items[first], claim) {
            Ok(value) => Reply::Race(Box::new((first, value))),
            Err(error) => Reply::Error(error),
        }
    }

    /// Returns the reply to a Gather whose items have all ended.
    fn collect(&mut self, me: u32, items: &[Found], mode: GatherMode, claim: Claim) -> Reply {
        self.merge_logs(me, items);
        match mode {
            GatherMode::FailFast => {
                let values = items.iter().map(|on| self.result(*on, claim)).collect();
                match values {
                    Ok(values) => Reply::Values(values),
                    Err(error) => Reply::Error(error),
                }
            }
            GatherMode::Settle => {
                Reply::Results(items.iter().map(|on| self.result(*on, claim)).collect())
            }
        }
    }

    /// Appends the entries that each distinct child added to its log since its spawn to the
    /// parent's log, in input order.
    fn merge_logs(&mut self, me: u32, items: &[Found]) {
        let mut told = Vec::new();
        let mut seen = BTreeSet::new();
        for item in items {
            let Found::Task(task) = *item else { continue };
            let child = &self.tasks[task as usize];
            let Some(scope) = &child.scope else { continue };
            let base = child.log_base as usize;
            if scope.log.len() > base && seen.insert(task) {
                told.extend(scope.log.iter().skip(base).cloned());
            }
        }
        if !told.is_empty() {
            let scope = Rc::make_mut(self.tasks[me as usize].scope.get_or_insert_default());
            told.into_iter().for_each(|entry| scope.log.push_back_mut(entry));
        }
    }
}

#[cold]
fn waits_for_itself() -> TaskError {
    TaskError::new(ErrorKind::SelfWait, "a task waited for itself")
}

#[inline]
fn reply(result: Result<Value, TaskError>) -> Reply {
    match result {
        Ok(value) => Reply::Value(value),
        Err(error) => Reply::Error(error),
    }
}
