//! Timers: a 4-ary heap ordered by deadline and then by when they were armed. With four children to
//! a node, the heap is flat and the children share a cache line. Most timers are timeouts that do
//! not happen: a disarmed timer leaves its entry in the heap, and all such entries are removed
//! together when half of the heap consists of them.

use slab::Slab;

use crate::id::CallId;
use crate::time::Time;

const ARITY: usize = 4;
/// Up to this number of disarmed timers, a sweep is not worth its cost.
const SWEEP_MIN: usize = 64;

/// The timers of one run.
#[derive(Default)]
pub(crate) struct Timers {
    /// The first entry is that of an armed timer.
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
    order: u64,
    target: Due,
}

/// The target of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A call of a task.
    Call { task: u32, call: CallId },
    /// The end of the time that a person has to answer.
    Answer { task: u32, call: CallId },
    /// The end of the time that a cancelled task has for its cleanup.
    Grace { task: u32, tid: u64 },
    /// The end of the run's time limit.
    Limit,
    /// The run's deadline.
    Deadline,
}

impl Timers {
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.armed.is_empty() && self.heap.is_empty()
    }

    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.deadline)
    }

    /// Arms a timer. `disarm` takes the number that this returns.
    pub(crate) fn arm(&mut self, deadline: Time, target: Due) -> u32 {
        let order = self.next_order;
        self.next_order += 1;
        if self.heap.capacity() == 0 {
            // Most runs that sleep have one timer, and there may be many such runs.
            self.heap.reserve_exact(1);
            self.armed.reserve_exact(1);
        }
        let slot = self.armed.insert(Armed { order, target }) as u32;
        self.heap.push(Entry { deadline, order, slot });
        self.rise(self.heap.len() - 1);
        slot
    }

    pub(crate) fn disarm(&mut self, slot: u32) {
        self.armed.remove(slot as usize);
        if self.heap.len() > 2 * self.armed.len() + SWEEP_MIN {
            self.sweep();
        }
        self.drop_disarmed();
    }

    /// Removes and returns the next timer that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Due> {
        let first = *self.heap.first()?;
        if first.deadline > now {
            return None;
        }
        let armed = self.armed.remove(first.slot as usize);
        self.pop();
        self.drop_disarmed();
        Some(armed.target)
    }

    /// Returns when each armed timer is due.
    pub(crate) fn deadlines(&self) -> std::collections::BTreeMap<u32, Time> {
        let armed = self.heap.iter().filter(|entry| self.is_armed(entry));
        armed.map(|entry| (entry.slot, entry.deadline)).collect()
    }

    fn is_armed(&self, entry: &Entry) -> bool {
        self.armed.get(entry.slot as usize).is_some_and(|armed| armed.order == entry.order)
    }

    /// Drops disarmed timers from the front.
    #[inline]
    fn drop_disarmed(&mut self) {
        while let Some(first) = self.heap.first()
            && !self.is_armed(first)
        {
            self.pop();
        }
    }

    /// Removes the entries of all disarmed timers.
    fn sweep(&mut self) {
        let armed = &self.armed;
        self.heap.retain(|entry| {
            armed.get(entry.slot as usize).is_some_and(|armed| armed.order == entry.order)
        });
        for place in (0..self.heap.len().div_ceil(ARITY)).rev() {
            self.sink(place);
        }
    }

    fn pop(&mut self) {
        self.heap.swap_remove(0);
        self.sink(0);
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = entry;
    }

    fn sink(&mut self, mut place: usize) {
        let Some(entry) = self.heap.get(place).copied() else { return };
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else { break };
            if entry <= self.heap[least] {
                break;
            }
            self.heap[place] = self.heap[least];
            place = least;
        }
        self.heap[place] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(n: u64) -> Due {
        Due::Call { task: 0, call: CallId(n) }
    }

    /// Compares with a sorted list: the same timers fire in the same order, whatever was disarmed.
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
            for n in 0..(next() % 600) {
                if next() % 8 < 3 && !model.is_empty() {
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
