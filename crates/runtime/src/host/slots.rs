//! Slots for steps that block a thread: how many attempts may run at once in a runtime, and the
//! steps that wait for a slot, in order. Nothing here starts anything.

use crate::line::Line;
use crate::metrics::loop_state::SlotUsage;

/// How many attempts may block a thread at once, unless
/// [`Builder::step_slots`](crate::runtime::builder::Builder::step_slots) sets another number.
pub(crate) const DEFAULT_SLOTS: usize = 1024;

/// The right to block one thread with an attempt. It is passed on with the work and returned with
/// its result.
#[derive(Debug)]
#[must_use = "a slot that is dropped is lost to all other steps"]
pub(crate) struct Slot(());

/// The slots of a runtime.
pub(crate) struct Slots<C> {
    free: usize,
    limit: usize,
    line: Line<C>,
}

impl<C: Copy + Ord> Slots<C> {
    /// With at least one slot, because otherwise no step would ever begin.
    pub(crate) fn new(limit: usize) -> Slots<C> {
        let limit = limit.max(1);
        Slots { free: limit, limit, line: Line::default() }
    }

    /// Takes a slot, if one is free and no other step waits for it; otherwise the step waits in
    /// line.
    pub(crate) fn take_or_wait(&mut self, call: C) -> Option<Slot> {
        if self.free > 0 && self.line.is_empty() {
            return self.take();
        }
        self.line.push_back(call);
        None
    }

    /// The next step that waits and can begin, with its slot.
    pub(crate) fn next(&mut self) -> Option<(C, Slot)> {
        if self.free == 0 {
            return None;
        }
        let call = self.line.pop_front()?;
        self.take().map(|slot| (call, slot))
    }

    /// Takes a step out of the line.
    pub(crate) fn leave(&mut self, call: C) {
        self.line.remove(call);
    }

    /// Returns a slot.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        let Slot(()) = slot;
        self.free += 1;
        assert!(self.free <= self.limit, "more slots came back than there are");
    }

    /// The number of slots, how many are in use, and how many steps wait for one.
    pub(crate) fn usage(&self) -> SlotUsage {
        SlotUsage { limit: self.limit, taken: self.limit - self.free, waiting: self.line.len() }
    }

    fn take(&mut self) -> Option<Slot> {
        self.free = self.free.checked_sub(1)?;
        Some(Slot(()))
    }
}

impl<C: Copy + Ord> Default for Slots<C> {
    fn default() -> Slots<C> {
        Slots::new(DEFAULT_SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_granted_in_the_order_of_waiting() {
        let mut slots = Slots::new(2);
        let (first, second) = (slots.take_or_wait(1), slots.take_or_wait(2));
        assert!(first.is_some() && second.is_some());
        assert!((3..=5).all(|number| slots.take_or_wait(number).is_none()));
        slots.leave(4);
        assert_eq!(slots.usage(), SlotUsage { limit: 2, taken: 2, waiting: 2 });
        slots.give_back(first.unwrap());
        // A newcomer does not overtake those that wait.
        assert!(slots.take_or_wait(6).is_none());
        assert_eq!(slots.next().map(|(call, _)| call), Some(3));
        assert!(slots.next().is_none());
        slots.give_back(second.unwrap());
        assert_eq!(slots.next().map(|(call, _)| call), Some(5));
    }

    #[test]
    fn there_is_always_one() {
        assert!(Slots::new(0).take_or_wait(1).is_some());
    }
}
