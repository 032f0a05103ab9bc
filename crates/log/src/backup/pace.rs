//! Limits the speed of a backup, so that it hardly affects the process that uses the log.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::lock::holder;

/// The longest single pause, so that a request to stop takes effect soon.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// How many times as long as each sync took a rate-limited backup then pauses. It therefore uses
/// the disk for at most a fifth of the time, however slow the disk is.
const RESTS: u32 = 4;

/// The default rate for a log that another process uses, in bytes per second.
const GENTLE: u64 = 16_000_000;

/// The rate of a backup or restore, and its callbacks for progress and cancellation.
pub struct Pace<'a> {
    rate: Option<u64>,
    watch: Option<&'a mut dyn FnMut(u64, u64)>,
    stop: Option<&'a dyn Fn() -> bool>,
    began: Option<Instant>,
    /// Bytes copied since `began`.
    bytes: u64,
    done: u64,
    total: u64,
}

impl Pace<'static> {
    /// Copies without a rate limit.
    pub fn full() -> Pace<'static> {
        Pace { rate: None, watch: None, stop: None, began: None, bytes: 0, done: 0, total: 0 }
    }

    /// Limits the rate to this number of bytes per second; 0 counts as 1.
    pub fn bytes_per_second(rate: u64) -> Pace<'static> {
        Pace { rate: Some(rate.max(1)), ..Pace::full() }
    }

    /// Chooses the rate for the log in a directory: limited if a process uses the log, unlimited
    /// otherwise.
    pub fn beside(dir: &Path) -> Pace<'static> {
        match holder(dir) {
            Some(_) => Pace::bytes_per_second(GENTLE),
            None => Pace::full(),
        }
    }

    /// Returns whether the rate is limited.
    pub fn is_gentle(&self) -> bool {
        self.rate.is_some()
    }
}

impl<'a> Pace<'a> {
    /// Calls `watch` with the number of copied bytes and the total number as the copy progresses.
    pub fn watched_by<'b>(self, watch: &'b mut dyn FnMut(u64, u64)) -> Pace<'b>
    where
        'a: 'b,
    {
        let Pace { rate, stop, began, bytes, done, total, .. } = self;
        Pace { rate, watch: Some(watch), stop, began, bytes, done, total }
    }

    /// Calls `stop` from time to time, also during pauses. Once it returns true, the backup ends
    /// with an error, and the previous backup stays as it was.
    pub fn stopped_by<'b>(self, stop: &'b dyn Fn() -> bool) -> Pace<'b>
    where
        'a: 'b,
    {
        let Pace { rate, watch, began, bytes, done, total, .. } = self;
        let watch = watch.map(|watch| watch as &mut dyn FnMut(u64, u64));
        Pace { rate, watch, stop: Some(stop), began, bytes, done, total }
    }

    /// Returns whether the copy should stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }

    /// How many times as long as a sync took the copy pauses afterwards; 0 without a rate limit.
    pub(super) fn rests(&self) -> u32 {
        if self.rate.is_some() { RESTS } else { 0 }
    }

    /// Adds to the total number of bytes to copy.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.total += bytes;
    }

    /// Counts copied bytes, and waits if they were copied too fast. Fails with
    /// [`io::ErrorKind::Interrupted`] if the copy should stop.
    pub(super) fn did(&mut self, bytes: u64) -> io::Result<()> {
        self.rest(bytes);
        match self.is_stopped() {
            true => Err(io::Error::new(io::ErrorKind::Interrupted, "it was asked to end")),
            false => Ok(()),
        }
    }

    fn rest(&mut self, bytes: u64) {
        self.done += bytes;
        if let Some(watch) = &mut self.watch {
            watch(self.done, self.total.max(self.done));
        }
        let Some(rate) = self.rate else { return };
        let began = *self.began.get_or_insert_with(Instant::now);
        self.bytes += bytes;
        let due = Duration::from_secs_f64(self.bytes as f64 / rate as f64);
        let early = due.saturating_sub(began.elapsed());
        if early.is_zero() {
            // A copy that fell behind its rate does not catch up in a burst.
            (self.began, self.bytes) = (Some(Instant::now()), 0);
            return;
        }
        let until = Instant::now() + early;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|l| !l.is_zero())
        {
            if self.is_stopped() {
                return;
            }
            std::thread::sleep(left.min(MAX_PAUSE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_limited_and_progress_is_reported() {
        let mut told = Vec::new();
        let mut watch = |done, total| told.push((done, total));
        let mut pace = Pace::bytes_per_second(1_000_000).watched_by(&mut watch);
        let began = Instant::now();
        pace.expect(20_000);
        (0..4).for_each(|_| pace.did(5_000).unwrap());
        assert!(began.elapsed() >= Duration::from_millis(19), "{:?}", began.elapsed());
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) > 2;
        let mut slow = Pace::bytes_per_second(1).stopped_by(&stop);
        slow.did(0).unwrap();
        let error = slow.did(100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(began.elapsed() < Duration::from_secs(10), "it rests though it was asked to end");
        assert_eq!(told, [5_000, 10_000, 15_000, 20_000].map(|done| (done, 20_000)));
    }
}
