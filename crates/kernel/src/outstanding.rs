//! The unfinished calls of a task: what they wait for, and the replies that the task has not taken
//! yet.

use std::collections::VecDeque;
use std::panic::Location;

use crate::call::{Claim, Reply};
use crate::coroutine::Port;
use crate::id::CallId;
use crate::state::BlockReason;
use crate::waiters::Place;

/// The unfinished calls of a task. There are rarely more than one, which is stored here directly.
pub(crate) struct Calls {
    id: CallId,
    at: &'static Location<'static>,
    progress: Progress,
}

/// The progress of the one call. It is flat, because it is read and written at every turn.
enum Progress {
    /// There are no calls.
    None,
    Waiting(Wait),
    /// The call was answered with `Reply::Unit`, the most common reply.
    Done,
    Answered(Reply),
    /// There are several calls, or were.
    Several(Box<Several>),
}

/// One call of a task, removed from the list.
pub(crate) struct Outstanding {
    pub(crate) id: CallId,
    pub(crate) what: Pending,
}

/// The current state of a call.
pub(crate) enum Pending {
    Waiting(Wait),
    Answered(Reply),
}

/// Calls in the order in which they were made, which is the order of their numbers. A removed call
/// leaves its place empty for a while, so that removing a cancelled timeout shifts nothing.
#[derive(Default)]
pub(crate) struct Several {
    calls: VecDeque<Entry>,
    empty: usize,
    /// Calls whose replies wait for the task's next turn, if they are still there.
    answered: Vec<CallId>,
}

struct Entry {
    id: CallId,
    at: &'static Location<'static>,
    what: Option<Pending>,
}

/// The event that a call waits for, and where the call is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Join {
        task: u32,
        place: Place,
        claim: Claim,
    },
    Over {
        task: u32,
        place: Place,
    },
    Promise {
        promise: u32,
        place: Place,
    },
    External {
        promise: u32,
        place: Place,
    },
    Gather {
        set: u32,
    },
    Race {
        set: u32,
    },
    Timer {
        timer: u32,
    },
    Io {
        fd: i32,
    },
    Effect,
    /// The answer of a person, until the timer is due.
    Approval {
        timer: Option<u32>,
    },
    /// The log.
    Commit {
        promise: u32,
    },
    Receive {
        channel: u32,
        place: Place,
    },
    Send {
        channel: u32,
        place: Place,
    },
    Acquire {
        semaphore: u32,
        place: Place,
    },
    Group {
        group: u32,
        place: Place,
    },
    Handler {
        task: u32,
        place: Place,
    },
    Resolve {
        task: u32,
        place: Place,
    },
}

impl Wait {
    /// Returns the place in the list of waiters of a task or a promise.
    fn place(&self) -> Option<Place> {
        match *self {
            Wait::Join { place, .. }
            | Wait::Over { place, .. }
            | Wait::Promise { place, .. }
            | Wait::External { place, .. }
            | Wait::Handler { place, .. }
            | Wait::Resolve { place, .. } => Some(place),
            _ => None,
        }
    }

    pub(crate) fn reason(&self) -> BlockReason {
        match self {
            Wait::Join { .. } | Wait::Over { .. } | Wait::Group { .. } => BlockReason::Join,
            Wait::Promise { .. } => BlockReason::Promise,
            Wait::External { .. } => BlockReason::External,
            Wait::Gather { .. } => BlockReason::Gather,
            Wait::Race { .. } => BlockReason::Race,
            Wait::Timer { .. } => BlockReason::Sleep,
            Wait::Io { .. } => BlockReason::Io,
            Wait::Commit { .. } => BlockReason::Commit,
            Wait::Effect | Wait::Handler { .. } | Wait::Resolve { .. } => BlockReason::Effect,
            Wait::Approval { .. } => BlockReason::Approval,
            Wait::Receive { .. } | Wait::Send { .. } => BlockReason::Message,
            Wait::Acquire { .. } => BlockReason::Lock,
        }
    }
}

impl Calls {
    pub(crate) fn new(at: &'static Location<'static>) -> Calls {
        Calls { id: CallId(0), at, progress: Progress::None }
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        matches!(self.progress, Progress::None)
    }

    /// Adds a call that is complete.
    #[inline]
    pub(crate) fn add_done(&mut self, id: CallId, at: &'static Location<'static>) {
        if let Progress::None = self.progress {
            (self.id, self.at) = (id, at);
            std::mem::forget(std::mem::replace(&mut self.progress, Progress::Done));
        } else {
            self.several().add(Entry { id, at, what: Some(Pending::Answered(Reply::Unit)) });
        }
    }

    /// Adds a call with its reply.
    #[inline]
    pub(crate) fn add_answered(
        &mut self,
        id: CallId,
        reply: Reply,
        at: &'static Location<'static>,
    ) {
        if let Progress::None = self.progress {
            (self.id, self.at) = (id, at);
            // Nothing is dropped.
            std::mem::forget(std::mem::replace(&mut self.progress, Progress::Answered(reply)));
        } else {
            self.several().add(Entry { id, at, what: Some(Pending::Answered(reply)) });
        }
    }

    /// Adds a call that waits.
    #[inline]
    pub(crate) fn add_waiting(&mut self, id: CallId, wait: Wait, at: &'static Location<'static>) {
        if let Progress::None = self.progress {
            (self.id, self.at) = (id, at);
            std::mem::forget(std::mem::replace(&mut self.progress, Progress::Waiting(wait)));
        } else {
            self.several().add(Entry { id, at, what: Some(Pending::Waiting(wait)) });
        }
    }

    /// Returns the list of several calls; creates it if there is none.
    #[cold]
    fn several(&mut self) -> &mut Several {
        let (id, at) = (self.id, self.at);
        if !matches!(self.progress, Progress::Several(_)) {
            let mut several = Box::<Several>::default();
            if let Some(first) = self.pop() {
                several.add(Entry { id, at, what: Some(first.what) });
            }
            self.progress = Progress::Several(several);
        }
        match &mut self.progress {
            Progress::Several(several) => several,
            _ => unreachable!("it was made just now"),
        }
    }

    /// Returns what a call waits for, if it waits.
    #[inline]
    pub(crate) fn wait_of(&self, id: CallId) -> Option<Wait> {
        match &self.progress {
            Progress::Waiting(wait) if self.id == id => Some(*wait),
            Progress::Several(several) => several.wait_of(id),
            _ => None,
        }
    }

    /// Returns the line of a call.
    pub(crate) fn line_of(&self, id: CallId) -> Option<&'static Location<'static>> {
        match &self.progress {
            Progress::None => None,
            Progress::Several(several) => several.place(id).ok().map(|at| several.calls[at].at),
            _ => (self.id == id).then_some(self.at),
        }
    }

    /// Returns the call at this place in a list of waiters.
    #[inline]
    pub(crate) fn waits_at(&self, place: Place) -> Option<CallId> {
        match &self.progress {
            Progress::Waiting(_) => Some(self.id),
            Progress::Several(several) => several.waits_at(place),
            _ => None,
        }
    }

    /// Answers a call that waits. Returns `false` if there is no such call.
    #[inline]
    pub(crate) fn answer(&mut self, id: CallId, reply: Reply) -> bool {
        match &mut self.progress {
            Progress::Waiting(_) if self.id == id => {
                // A wait has nothing to drop.
                std::mem::forget(std::mem::replace(&mut self.progress, Progress::Answered(reply)));
                true
            }
            Progress::Several(several) => several.answer(id, reply),
            _ => false,
        }
    }

    /// Removes the call that was made last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        match &mut self.progress {
            Progress::None => None,
            Progress::Several(several) => several.pop(),
            _ => self.take_one(),
        }
    }

    pub(crate) fn remove(&mut self, id: CallId) -> Option<Pending> {
        match &mut self.progress {
            Progress::None => None,
            Progress::Several(several) => several.remove(id),
            _ if self.id == id => self.take_one().map(|call| call.what),
            _ => None,
        }
    }

    fn take_one(&mut self) -> Option<Outstanding> {
        let what = match std::mem::replace(&mut self.progress, Progress::None) {
            Progress::Waiting(wait) => Pending::Waiting(wait),
            Progress::Answered(reply) => Pending::Answered(reply),
            Progress::Done => Pending::Answered(Reply::Unit),
            Progress::None | Progress::Several(_) => return None,
        };
        Some(Outstanding { id: self.id, what })
    }

    /// Moves the replies into the port.
    #[inline]
    pub(crate) fn offer(&mut self, port: &Port) {
        match &mut self.progress {
            Progress::None | Progress::Waiting(_) => {}
            Progress::Done => {
                port.offer_done(self.id);
                std::mem::forget(std::mem::replace(&mut self.progress, Progress::None));
            }
            Progress::Answered(reply) => {
                port.offer_first(self.id, std::mem::replace(reply, Reply::Unit));
                // What is left is `Unit`, which has nothing to drop.
                std::mem::forget(std::mem::replace(&mut self.progress, Progress::None));
            }
            Progress::Several(several) => several.offer(port),
        }
    }

    /// Returns all calls that wait, with their numbers and lines, in the order in which they were
    /// made.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (CallId, Wait, &'static Location<'static>)> {
        let (one, several) = match &self.progress {
            Progress::Waiting(wait) => (Some((self.id, *wait, self.at)), None),
            Progress::Several(several) => (None, Some(&several.calls)),
            Progress::None | Progress::Done | Progress::Answered(_) => (None, None),
        };
        let several = several.into_iter().flatten().filter_map(|entry| match entry.what {
            Some(Pending::Waiting(wait)) => Some((entry.id, wait, entry.at)),
            _ => None,
        });
        one.into_iter().chain(several)
    }

    /// Returns the only call and its line, if there is exactly one and it waits.
    pub(crate) fn only_call(&self) -> Option<(CallId, Wait, &'static Location<'static>)> {
        match &self.progress {
            Progress::Waiting(wait) => Some((self.id, *wait, self.at)),
            _ => None,
        }
    }

    /// Returns what the only call waits for, if there is exactly one and it waits.
    #[inline]
    pub(crate) fn only_wait(&self) -> Option<Wait> {
        match &self.progress {
            Progress::Waiting(wait) => Some(*wait),
            Progress::Several(several) => several.only_wait(),
            _ => None,
        }
    }

    /// Returns the first call that still waits, and its line.
    #[inline]
    pub(crate) fn first_wait(&self) -> Option<(Wait, &'static Location<'static>)> {
        match &self.progress {
            Progress::Waiting(wait) => Some((*wait, self.at)),
            _ => self.waits().next().map(|(_, wait, at)| (wait, at)),
        }
    }
}

impl Several {
    fn add(&mut self, entry: Entry) {
        let id = entry.id;
        if let Some(Pending::Answered(_)) = entry.what {
            self.answered.push(id);
        }
        match self.calls.back() {
            // A reply that its task did not take returns after younger calls were made.
            Some(last) if last.id >= id => match self.place(id) {
                Ok(at) => {
                    self.calls[at] = entry;
                    self.empty -= 1;
                }
                Err(at) => self.calls.insert(at, entry),
            },
            _ => self.calls.push_back(entry),
        }
    }

    fn place(&self, id: CallId) -> Result<usize, usize> {
        // Most calls are looked up in the order in which they were made.
        match self.calls.front() {
            Some(first) if first.id == id => Ok(0),
            _ => self.calls.binary_search_by_key(&id, |entry| entry.id),
        }
    }

    fn wait_of(&self, id: CallId) -> Option<Wait> {
        match self.calls[self.place(id).ok()?].what {
            Some(Pending::Waiting(wait)) => Some(wait),
            _ => None,
        }
    }

    fn waits_at(&self, place: Place) -> Option<CallId> {
        let stands = |entry: &&Entry| match entry.what {
            Some(Pending::Waiting(wait)) => wait.place() == Some(place),
            _ => false,
        };
        self.calls.iter().find(stands).map(|entry| entry.id)
    }

    fn only_wait(&self) -> Option<Wait> {
        let mut calls = self.calls.iter().filter_map(|entry| entry.what.as_ref());
        match (calls.next(), calls.next()) {
            (Some(Pending::Waiting(wait)), None) => Some(*wait),
            _ => None,
        }
    }

    fn answer(&mut self, id: CallId, reply: Reply) -> bool {
        let Ok(at) = self.place(id) else { return false };
        match &mut self.calls[at].what {
            Some(what) => *what = Pending::Answered(reply),
            None => return false,
        }
        self.answered.push(id);
        true
    }

    fn remove(&mut self, id: CallId) -> Option<Pending> {
        let at = self.place(id).ok()?;
        let what = self.calls[at].what.take()?;
        self.empty += 1;
        if at > 0 && at + 1 < self.calls.len() && self.empty <= self.calls.len() / 2 {
            return Some(what);
        }
        while self.calls.front().is_some_and(|entry| entry.what.is_none()) {
            self.calls.pop_front();
            self.empty -= 1;
        }
        while self.calls.back().is_some_and(|entry| entry.what.is_none()) {
            self.calls.pop_back();
            self.empty -= 1;
        }
        if self.empty > self.calls.len() / 2 {
            self.calls.retain(|entry| entry.what.is_some());
            self.empty = 0;
        }
        Some(what)
    }

    fn pop(&mut self) -> Option<Outstanding> {
        let id = self.calls.back()?.id;
        self.remove(id).map(|what| Outstanding { id, what })
    }

    fn offer(&mut self, port: &Port) {
        let mut answered = std::mem::take(&mut self.answered);
        for id in answered.drain(..) {
            if let Some(Pending::Answered(reply)) = self.remove(id) {
                port.offer(id, reply);
            }
        }
        self.answered = answered;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::value::Value;

    /// The expected state of each call: the timer it waits for, or the number it was answered with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Known {
        Waits(u32),
        Answer(u64),
    }

    fn known(what: Pending) -> Known {
        match what {
            Pending::Waiting(Wait::Timer { timer }) => Known::Waits(timer),
            Pending::Answered(Reply::Value(Value::Uint(n))) => Known::Answer(n),
            Pending::Answered(Reply::Unit) => Known::Answer(0),
            _ => unreachable!("nothing else was put in"),
        }
    }

    /// Compares the list with a map, for random sequences of additions, answers, removals, returned
    /// and offered replies.
    #[test]
    fn calls_are_a_map_by_number() {
        let here = Location::caller();
        for seed in 1..=300u64 {
            let mut state = seed;
            let mut dice = |sides: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % sides
            };
            let (port, mut calls) = (Port::new(), Calls::new(here));
            let mut model: BTreeMap<u64, Known> = BTreeMap::new();
            // Some lists never have more than one call, some have many.
            let most = [1, 3, 50][dice(3) as usize];
            let mut next = 1;
            for _ in 0..dice(400) {
                let some = model.keys().nth(dice(model.len().max(1) as u64) as usize).copied();
                match (dice(8), some) {
                    (0..=3, _) if model.len() < most => {
                        let id = CallId(next);
                        model.insert(
                            next,
                            match dice(3) {
                                0 => {
                                    calls.add_done(id, here);
                                    Known::Answer(0)
                                }
                                1 => {
                                    calls.add_answered(id, Reply::Value(Value::Uint(next)), here);
                                    Known::Answer(next)
                                }
                                _ => {
                                    calls.add_waiting(id, Wait::Timer { timer: next as u32 }, here);
                                    Known::Waits(next as u32)
                                }
                            },
                        );
                        next += 1;
                    }
                    (4, Some(id)) => {
                        let waits = matches!(model[&id], Known::Waits(_));
                        assert_eq!(calls.wait_of(CallId(id)).is_some(), waits);
                        if waits {
                            assert!(calls.answer(CallId(id), Reply::Value(Value::Uint(id))));
                            model.insert(id, Known::Answer(id));
                        }
                    }
                    (5, Some(id)) => {
                        assert_eq!(calls.remove(CallId(id)).map(known), model.remove(&id));
                        assert!(calls.remove(CallId(id)).is_none());
                        assert!(!calls.answer(CallId(id), Reply::Unit));
                    }
                    (6, _) => {
                        let last = model.pop_last();
                        let popped = calls.pop().map(|call| (call.id.0, known(call.what)));
                        assert_eq!(popped, last, "seed {seed}");
                    }
                    (7, _) => {
                        calls.offer(&port);
                        let mut back = Vec::new();
                        for (id, reply) in port.untaken() {
                            let answer = known(Pending::Answered(reply));
                            assert_eq!(model.remove(&id.0), Some(answer), "seed {seed}");
                            back.push((id, answer));
                        }
                        assert!(model.values().all(|known| matches!(known, Known::Waits(_))));
                        // Replies that are not taken return after younger calls were made.
                        for (id, answer) in back.into_iter().filter(|_| dice(2) == 0) {
                            let Known::Answer(n) = answer else { unreachable!("it was offered") };
                            if model.len() < most {
                                calls.add_answered(id, Reply::Value(Value::Uint(n)), here);
                                model.insert(id.0, answer);
                            }
                        }
                    }
                    _ => {}
                }
                let waits = model.values().filter(|known| matches!(known, Known::Waits(_)));
                assert_eq!(calls.waits().count(), waits.count(), "seed {seed}");
            }
        }
    }
}
