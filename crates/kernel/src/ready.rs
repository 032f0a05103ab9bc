//! The ready queue. A round takes the waiters woken before it began, then the tasks that were ready
//! when it began; what becomes ready meanwhile waits for the next round.

/// Slots of ready tasks, in the order they will run.
#[derive(Default)]
pub(crate) struct Ready {
    /// This round's tasks, and how many of them have had their turn.
    round: Vec<u32>,
    taken: usize,
    /// For the next round: those that were blocked and woken, then those that were not.
    woken: Vec<u32>,
    yielded: Vec<u32>,
}

impl Ready {
    /// Whether nobody is ready. Between rounds only.
    pub(crate) fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.yielded.is_empty() && !self.is_in_round()
    }

    /// Whether a round has begun, and not all of it have had their turn.
    pub(crate) fn is_in_round(&self) -> bool {
        self.taken < self.round.len()
    }

    #[inline]
    pub(crate) fn push_woken(&mut self, slot: u32) {
        self.woken.push(slot);
    }

    #[inline]
    pub(crate) fn push_yielded(&mut self, slot: u32) {
        self.yielded.push(slot);
    }

    /// Begins a round with all who are ready, in order.
    #[inline]
    pub(crate) fn begin_round(&mut self) {
        debug_assert_eq!(self.taken, self.round.len(), "the last round is over");
        self.round.clear();
        self.taken = 0;
        std::mem::swap(&mut self.round, &mut self.woken);
        if self.round.is_empty() {
            std::mem::swap(&mut self.round, &mut self.yielded);
        } else {
            self.round.append(&mut self.yielded);
        }
    }

    /// The next task of this round.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u32> {
        let slot = *self.round.get(self.taken)?;
        self.taken += 1;
        Some(slot)
    }

    /// This round's tasks, for a policy to plan with. What it leaves out comes back with `keep`.
    pub(crate) fn take_round(&mut self) -> Vec<u32> {
        self.taken = 0;
        std::mem::take(&mut self.round)
    }

    /// Sets this round's tasks, and keeps the others ready, before all who become so later.
    pub(crate) fn set_round(&mut self, round: Vec<u32>, mut keep: Vec<u32>) {
        self.round = round;
        keep.append(&mut self.woken);
        self.woken = keep;
    }
}
