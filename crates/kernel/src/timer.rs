//! Timers: a 4-ary heap by (deadline, order of arming), with each timer's place kept so that one can
//! be disarmed without a search. Four children to a node keep the heap flat and its nodes in one line.

use slab::Slab;

use crate::id::CallId;
use crate::time::Time;

const ARITY: usize = 4;

/// The timers of one run.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Vec<Entry>,
    armed: Slab<Armed>,
    next_order: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    deadline: Time,
    order: u64,
    slot: u32,
}

struct Armed {
    place: u32,
    target: Due,
}

/// Whom a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A task's call.
    Call { task: u32, call: CallId },
    /// The end of the time a cancelled task has for its cleanup.
    Grace { task: u32, tid: u64 },
    /// The end of the run's wall time.
    Limit,
}

impl Timers {
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.deadline)
    }

    /// Arms a timer; the answer names it for `disarm`.
    pub(crate) fn arm(&mut self, deadline: Time, target: Due) -> u32 {
        let place = self.heap.len();
        let slot = self.armed.insert(Armed { place: place as u32, target }) as u32;
        self.heap.push(Entry { deadline, order: self.next_order, slot });
        self.next_order += 1;
        self.rise(place);
        slot
    }

    pub(crate) fn disarm(&mut self, slot: u32) {
        let place = self.armed.remove(slot as usize).place as usize;
        self.remove_at(place);
    }

    /// The next timer that is due, disarmed.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Due> {
        let first = *self.heap.first()?;
        if first.deadline > now {
            return None;
        }
        self.remove_at(0);
        Some(self.armed.remove(first.slot as usize).target)
    }

    fn remove_at(&mut self, place: usize) {
        let last = self.heap.len() - 1;
        self.heap.swap_remove(place);
        if place < last {
            self.note(place);
            self.sink(place);
            self.rise(place);
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= self.heap[place] {
                break;
            }
            self.heap.swap(parent, place);
            self.note(place);
            place = parent;
        }
        self.note(place);
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else { break };
            if self.heap[place] <= self.heap[least] {
                break;
            }
            self.heap.swap(place, least);
            self.note(place);
            place = least;
        }
        self.note(place);
    }

    /// Tells the timer at this place where it is.
    fn note(&mut self, place: usize) {
        let slot = self.heap[place].slot as usize;
        self.armed[slot].place = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(n: u64) -> Due {
        Due::Call { task: 0, call: CallId(n) }
    }

    /// Against a sorted list: the same timers fire in the same order, whatever was disarmed.
    #[test]
    fn fires_by_deadline_then_order_of_arming() {
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 33
        };
        for _ in 0..200 {
            let mut timers = Timers::default();
            let mut model: Vec<(u64, u64, u32)> = Vec::new();
            for n in 0..(next() % 200) {
                if next() % 4 == 0 && !model.is_empty() {
                    let (_, _, slot) = model.remove(next() as usize % model.len());
                    timers.disarm(slot);
                } else {
                    let deadline = next() % 20;
                    let slot = timers.arm(Time::from_nanos(deadline), due(n));
                    model.push((deadline, n, slot));
                }
            }
            model.sort();
            for (deadline, n, _) in model {
                assert_eq!(timers.next_deadline(), Some(Time::from_nanos(deadline)));
                assert_eq!(timers.pop_due(Time::from_nanos(20)), Some(due(n)));
            }
            assert!(timers.is_empty());
        }
    }

    #[test]
    fn is_not_due_before_its_deadline() {
        let mut timers = Timers::default();
        timers.arm(Time::from_nanos(5), due(1));
        assert_eq!(timers.pop_due(Time::from_nanos(4)), None);
        assert_eq!(timers.pop_due(Time::from_nanos(5)), Some(due(1)));
    }
}
