//! How long the loop is busy at a stretch, measured so rarely that no turn notices: when it begins and ends to wait, and after some hundred turns.

use std::time::Instant;

use super::meters::Meters;

/// After so many looks at the outside a stretch is measured, and another begins.
const LOOKS: u32 = 8;

pub(crate) struct Stretch {
    since: Instant,
    turns: u64,
    looks: u32,
}

impl Stretch {
    pub(crate) fn new() -> Stretch {
        Stretch { since: Instant::now(), turns: 0, looks: 0 }
    }

    /// The loop has work.
    pub(crate) fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// The loop has given so many turns, and looks at the outside.
    #[inline]
    pub(crate) fn looked(&mut self, turns: usize, meters: &Meters) {
        self.turns += turns as u64;
        self.looks += 1;
        if self.looks >= LOOKS {
            self.end(meters);
        }
    }

    /// The loop has nothing to do, or was busy for long enough.
    pub(crate) fn end(&mut self, meters: &Meters) {
        let now = Instant::now();
        self.looks = 0;
        let turns = std::mem::take(&mut self.turns);
        if turns > 0 {
            meters.turns.add(turns);
            meters.busy.0.observe_time(now - self.since);
        }
        self.since = now;
    }

    /// The loop has waited since the last stretch ended.
    pub(crate) fn waited(&mut self, meters: &Meters) {
        let now = Instant::now();
        meters.waits.add(1);
        meters.wait_time.add_time(now - self.since);
        self.since = now;
    }
}
