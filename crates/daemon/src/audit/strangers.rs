//! How many lines the refusals of unknown clients may have, so that they do not fill the disk. It writes none.

use std::time::Instant;

/// So many whom nobody knows have a line each, and after that one in so many seconds.
pub(super) const STRANGERS: f64 = 20.0;
pub(super) const SECONDS_EACH: f64 = 10.0;

/// How many lines there are still for those whom nobody knows.
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

    /// Whether one more has a line, and how many had none before it.
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
