//! Slots for steps that block a thread: how many attempts may run at once in a runtime, and the
//! steps that wait for a slot, in order. Nothing here starts anything.

use std::time::Duration;

use tiffany_kernel::Time;

use crate::line::Line;
use crate::metrics::loop_state::SlotUsage;

/// How many attempts may block a thread at once, unless
/// [`Builder::step_slots`](crate::runtime::builder::Builder::step_slots) sets another number.
pub(crate) const DEFAULT_SLOTS: usize = 1024;

/// How long steps wait for a thread before the system is asked for one again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The right to block one thread with an attempt. It is passed on with the work and returned with
/// its result.
#[derive(Debug)]
#[must_use = "a slot that is dropped is lost to all other steps"]
pub(crate) struct Slot(());

/// The slots of a runtime.
pub(crate) struct Slots<C> {
    free: usize,
    limit: usize,
    /// How many may be taken now; less than the limit while the system refuses threads.
    room: usize,
    /// When the system is asked for a thread again, and how long it is left alone.
    asks_at: Option<Time>,
    pause: Duration,
    line: Line<C>,
}

impl<C: Copy + Ord> Slots<C> {
    /// With at least one slot, because otherwise no step would ever begin.
    pub(crate) fn new(limit: usize) -> Slots<C> {
        let limit = limit.max(1);
        let (pause, _) = PAUSES;
        Slots { free: limit, limit, room: limit, asks_at: None, pause, line: Line::default() }
    }

    /// Takes a slot, if one is free and no other step waits for it; otherwise the step waits in
    /// line.
    pub(crate) fn take_or_wait(&mut self, call: C) -> Option<Slot> {
        if self.has_free() && self.line.is_empty() {
            return self.take();
        }
        self.line.push_back(call);
        None
    }

    /// The next step that waits and can begin, with its slot.
    pub(crate) fn next(&mut self) -> Option<(C, Slot)> {
        if !self.has_free() {
            return None;
        }
        let call = self.line.pop_front()?;
        self.take().map(|slot| (call, slot))
    }

    /// Whether no step waits for a slot.
    pub(crate) fn is_awaited_by_none(&self) -> bool {
        self.line.is_empty()
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
        SlotUsage { limit: self.limit, taken: self.taken(), waiting: self.line.len() }
    }

    /// How many slots are in use.
    pub(crate) fn taken(&self) -> usize {
        self.limit - self.free
    }

    /// Sets how many slots may be in use at once, up to their number.
    pub(crate) fn limit_to(&mut self, room: usize) {
        if room > self.room {
            self.pause = PAUSES.0;
        }
        self.room = room;
    }

    /// When the system should be asked for a thread again: steps wait although slots are free.
    /// `None` if that is not so, or if the time was returned before and has not come.
    pub(crate) fn ask_again(&mut self, now: Time) -> Option<Time> {
        let is_short = self.free > 0 && !self.has_free() && !self.line.is_empty();
        if !is_short || self.asks_at.is_some() {
            return None;
        }
        self.asks_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
        self.asks_at
    }

    /// Notes that the time of [`ask_again`](Slots::ask_again) has come.
    pub(crate) fn asks(&mut self) {
        self.asks_at = None;
    }

    fn has_free(&self) -> bool {
        self.free > 0 && self.taken() < self.room
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
    fn no_more_slots_are_granted_than_there_is_room_for() {
        let mut slots = Slots::new(8);
        let taken: Vec<Slot> = (0..3).filter_map(|call| slots.take_or_wait(call)).collect();
        slots.limit_to(2);
        assert!((3..6).all(|call| slots.take_or_wait(call).is_none()));
        let mut taken = taken.into_iter();
        slots.give_back(taken.next().unwrap());
        assert!(slots.next().is_none(), "two are in use, and there is room for two");
        // The system is asked less and less often, and at once more often when it gave something.
        let (mut now, mut pauses) = (Time::ZERO, Vec::new());
        for _ in 0..8 {
            let at = slots.ask_again(now).unwrap();
            assert_eq!(slots.ask_again(now), None, "it is asked once");
            pauses.push(at.saturating_since(now).as_millis());
            (now, _) = (at, slots.asks());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000]);
        slots.limit_to(4);
        assert_eq!(slots.next().map(|(call, slot)| (call, drop(slot)).0), Some(3));
        assert_eq!(slots.next().map(|(call, slot)| (call, drop(slot)).0), Some(4));
        assert!(slots.next().is_none());
        assert_eq!(slots.ask_again(now), Some(now + Duration::from_millis(10)));
        slots.asks();
        slots.limit_to(usize::MAX);
        assert_eq!(slots.next().map(|(call, slot)| (call, drop(slot)).0), Some(5));
        assert_eq!(slots.ask_again(now), None, "no step waits");
    }

    #[test]
    fn there_is_always_one() {
        assert!(Slots::new(0).take_or_wait(1).is_some());
    }
}
