//! Limits the audit lines about refused unknown clients, so that they don't fill the disk. It writes
//! no line.

use std::time::Instant;

/// This many unknown clients have a line each; after that, one has a line in `SECONDS_EACH`.
pub(super) const STRANGERS: f64 = 20.0;
pub(super) const SECONDS_EACH: f64 = 10.0;

/// The lines that are left for unknown clients.
#[derive(Debug)]
pub(super) struct Strangers {
    lines: f64,
    pub(super) since: Instant,
    left_out: u64,
}

impl Strangers {
    pub(super) fn new() -> Strangers {
        Strangers { lines: STRANGERS, since: Instant::now(), left_out: 0 }
    }

    /// Takes a line for one more client, and returns how many had none before it. `None`: it has no
    /// line.
    pub(super) fn next(&mut self, now: Instant) -> Option<u64> {
        let gained = now.saturating_duration_since(self.since).as_secs_f64() / SECONDS_EACH;
        (self.lines, self.since) = ((self.lines + gained).min(STRANGERS), now);
        if self.lines < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.lines -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}
