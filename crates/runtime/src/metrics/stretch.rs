//! How long the loop is busy without a pause. It is measured rarely, so that it costs turns
//! nothing: when the loop begins and ends a wait, and after some hundred turns.

use std::time::Instant;

use super::meters::Meters;

/// The number of polls after which a busy period is measured and another one begins.
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

    /// Notes that the loop has work.
    pub(crate) fn begin(&mut self) {
        self.since = Instant::now();
    }

    /// Notes that the loop has run this number of turns, and polls for outside events.
    #[inline]
    pub(crate) fn looked(&mut self, turns: usize, meters: &Meters) {
        self.turns += turns as u64;
        self.looks += 1;
        if self.looks >= LOOKS {
            self.end(meters);
        }
    }

    /// Notes that the loop has nothing to do, or was busy for long enough.
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

    /// Notes that the loop has waited since the last busy period ended.
    pub(crate) fn waited(&mut self, meters: &Meters) {
        let now = Instant::now();
        meters.waits.add(1);
        meters.wait_time.add_time(now - self.since);
        self.since = now;
    }
}
