//! How fast a backup goes, so that the process that has the log hardly notices.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::lock::holder;

/// A pause is not longer than this, so that an end comes soon.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// So a backup with a limit has the disk for a fifth of the time at most, however slow that is.
const RESTS: u32 = 4;

/// How fast it goes beside a process that has the log, in bytes a second, unless somebody says otherwise.
const GENTLE: u64 = 16_000_000;

/// How many bytes are copied in a second at most, and who wants to know how far it is.
pub struct Pace<'a> {
    rate: Option<u64>,
    watch: Option<&'a mut dyn FnMut(u64, u64)>,
    stop: Option<&'a dyn Fn() -> bool>,
    began: Option<Instant>,
    /// Since `began`.
    bytes: u64,
    done: u64,
    total: u64,
}

impl Pace<'static> {
    /// As fast as it goes.
    pub fn full() -> Pace<'static> {
        Pace { rate: None, watch: None, stop: None, began: None, bytes: 0, done: 0, total: 0 }
    }

    /// So many bytes in a second; at least one.
    pub fn bytes_per_second(rate: u64) -> Pace<'static> {
        Pace { rate: Some(rate.max(1)), ..Pace::full() }
    }

    /// What is right for the log in a directory: gentle where a process has it, and as fast as it goes where none has.
    pub fn beside(dir: &Path) -> Pace<'static> {
        match holder(dir) {
            Some(_) => Pace::bytes_per_second(GENTLE),
            None => Pace::full(),
        }
    }

    /// Whether it leaves room for others.
    pub fn is_gentle(&self) -> bool {
        self.rate.is_some()
    }
}

impl<'a> Pace<'a> {
    /// Tells how many bytes are copied, and of how many.
    pub fn watched_by<'b>(self, watch: &'b mut dyn FnMut(u64, u64)) -> Pace<'b>
    where
        'a: 'b,
    {
        let Pace { rate, stop, began, bytes, done, total, .. } = self;
        Pace { rate, watch: Some(watch), stop, began, bytes, done, total }
    }

    /// Asks this now and then, also while it rests; once it says so, the backup ends with an error, and the one before it is as it was.
    pub fn stopped_by<'b>(self, stop: &'b dyn Fn() -> bool) -> Pace<'b>
    where
        'a: 'b,
    {
        let Pace { rate, watch, began, bytes, done, total, .. } = self;
        let watch = watch.map(|watch| watch as &mut dyn FnMut(u64, u64));
        Pace { rate, watch, stop: Some(stop), began, bytes, done, total }
    }

    /// Whether it is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop())
    }

    /// How many times as long as a sync took the disk is left to others after it: not at all, if there is no limit.
    pub(super) fn rests(&self) -> u32 {
        if self.rate.is_some() { RESTS } else { 0 }
    }

    /// There are so many bytes more to copy.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.total += bytes;
    }

    /// These were copied: waits if that was too fast. It is an error that it is to end.
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
            // What was lost is not caught up on by a burst.
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
    fn it_is_not_faster_than_it_may_and_tells_how_far_it_is() {
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
