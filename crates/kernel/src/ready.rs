//! The ready queue. A round takes the waiters that were woken before it began, then the other tasks
//! that were ready. Tasks that become ready during the round wait for the next one.

/// Slots of ready tasks, in the order they will run.
#[derive(Default)]
pub(crate) struct Ready {
    /// The tasks of this round, and how many of them have had their turn.
    round: Vec<u32>,
    taken: usize,
    /// The tasks for the next round: first those that were blocked and woken, then the others.
    woken: Vec<u32>,
    yielded: Vec<u32>,
}

impl Ready {
    /// Whether no task is ready. Valid between rounds only.
    pub(crate) fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.yielded.is_empty() && !self.is_in_round()
    }

    /// Whether a round has begun and some of its tasks have not had their turn.
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

    /// Begins a round with all ready tasks, in order.
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

    /// The tasks of this round, for a policy to choose from. `set_round` returns those that it
    /// leaves out.
    pub(crate) fn take_round(&mut self) -> Vec<u32> {
        self.taken = 0;
        std::mem::take(&mut self.round)
    }

    /// Sets the tasks of this round. The tasks in `keep` stay ready, before all that become ready
    /// later.
    pub(crate) fn set_round(&mut self, round: Vec<u32>, mut keep: Vec<u32>) {
        self.round = round;
        keep.append(&mut self.woken);
        self.woken = keep;
    }
}
