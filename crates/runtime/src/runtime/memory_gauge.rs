//! How much of the process's memory each run has taken. The process is measured and not its values, so whatever a run
//! keeps is included: variables, stores, channels, results. It knows no limit.
//!
//! Measuring costs a system call, so it isn't done for every round. Only when the process has grown
//! by [`STEP`], the rounds that follow are measured one by one until the process has grown by
//! another [`SAMPLE`], and the whole growth is charged to the runs in proportion to what their
//! rounds added. While the process grows that fast, measuring continues. Growth between rounds
//! (steps on other threads, clients of a daemon) is charged to no run, and a run is never charged
//! with much more than its rounds added.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tiffany_kernel::RunId;

/// The shortest time between two measurements.
const INTERVAL: Duration = Duration::from_millis(10);
/// The growth after which rounds are measured one by one.
const STEP: u64 = 16 << 20;
/// The growth after which the measured rounds are charged.
const SAMPLE: u64 = 2 << 20;
/// How much more than its rounds added a run is charged with, at most.
const MAX_RATIO: u64 = 32;
/// A sample of at most this many rounds is followed by another one.
const SHORT_SAMPLE_ROUNDS: u32 = 64;
/// The maximum number of rounds in one sample.
const MAX_ROUNDS: u32 = 10_000;

/// Measures the process, and charges runs.
pub(crate) struct MemoryGauge {
    statm: File,
    page_bytes: u64,
    next_look: Instant,
    /// The memory of the process at first, and when runs were last charged.
    first: u64,
    settled: u64,
    sample: Option<Sample>,
    charges: BTreeMap<RunId, u64>,
}

/// Rounds that are measured one by one.
struct Sample {
    began: u64,
    rounds: u32,
    before_round: u64,
    grown: BTreeMap<RunId, u64>,
}

impl Sample {
    fn begin(now: u64) -> Sample {
        Sample { began: now, rounds: 0, before_round: now, grown: BTreeMap::new() }
    }
}

impl MemoryGauge {
    /// `None`: the system doesn't report the memory of a process.
    pub(crate) fn new() -> Option<MemoryGauge> {
        let statm = File::open("/proc/self/statm").ok()?;
        let page_bytes = rustix::param::page_size() as u64;
        let first = resident(&statm, page_bytes)?;
        Some(MemoryGauge {
            statm,
            page_bytes,
            next_look: Instant::now(),
            first,
            settled: first,
            sample: None,
            charges: BTreeMap::new(),
        })
    }

    /// Measures the process between rounds, now and then. Returns whether the next rounds are to be
    /// measured.
    pub(crate) fn look(&mut self) -> bool {
        if self.is_due()
            && let Some(now) = self.measure()
            && self.sample.is_none()
            && now >= self.settled + STEP
        {
            self.sample = Some(Sample::begin(now));
        }
        self.sample.is_some()
    }

    /// Notes the start of a round that is measured.
    pub(crate) fn round_begins(&mut self) {
        let now = resident(&self.statm, self.page_bytes);
        if let (Some(sample), Some(now)) = (&mut self.sample, now) {
            sample.before_round = now;
        }
    }

    /// Notes the end of a measured round. Returns whether the next one is to be measured, too.
    pub(crate) fn round_ended(&mut self, run: RunId) -> bool {
        let (Some(now), Some(sample)) = (resident(&self.statm, self.page_bytes), &mut self.sample)
        else {
            return false;
        };
        sample.rounds += 1;
        let grown = now.saturating_sub(sample.before_round);
        if grown > 0 {
            *sample.grown.entry(run).or_default() += grown;
        }
        let rounds = sample.rounds;
        if now < sample.began + SAMPLE && rounds < MAX_ROUNDS {
            return true;
        }
        self.settle(now);
        if rounds <= SHORT_SAMPLE_ROUNDS {
            self.sample = Some(Sample::begin(now));
        }
        self.sample.is_some()
    }

    /// Notes that a run is about to be replayed, while no other one has a turn. Earlier growth is
    /// not charged to it.
    pub(crate) fn replay_begins(&mut self) {
        if let Some(now) = self.measure() {
            self.settled = now;
        }
    }

    /// Measures the process while a run is replayed: all growth is charged to it.
    pub(crate) fn look_alone(&mut self, run: RunId) {
        if self.is_due()
            && let Some(now) = self.measure()
            && now > self.settled
        {
            *self.charges.entry(run).or_default() += now - self.settled;
            self.settled = now;
        }
    }

    /// The memory that is charged to a run.
    #[inline]
    pub(crate) fn charged(&self, run: RunId) -> u64 {
        if self.charges.is_empty() { 0 } else { self.charges.get(&run).copied().unwrap_or(0) }
    }

    /// Forgets a run.
    pub(crate) fn forget(&mut self, run: RunId) {
        self.charges.remove(&run);
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now + INTERVAL;
        }
        is_due
    }

    /// Measures the process. If it has shrunk, the charges of all runs shrink in proportion.
    fn measure(&mut self) -> Option<u64> {
        let now = resident(&self.statm, self.page_bytes)?;
        if now < self.settled {
            let (left, all) = (now.saturating_sub(self.first), self.settled - self.first.min(now));
            self.charges.values_mut().for_each(|charge| *charge = share(*charge, left, all));
            self.charges.retain(|_, charge| *charge > 0);
            self.settled = now;
            self.sample.iter_mut().for_each(|sample| sample.began = sample.began.min(now));
        }
        Some(now)
    }

    /// Charges the growth of the process since the last charge.
    fn settle(&mut self, now: u64) {
        let Some(Sample { began, grown, .. }) = self.sample.take() else { return };
        let by_rounds: u64 = grown.values().sum();
        let all = by_rounds.max(now.saturating_sub(began));
        let growth = now.saturating_sub(self.settled).min(by_rounds.saturating_mul(MAX_RATIO));
        for (run, part) in grown {
            *self.charges.entry(run).or_default() += share(growth, part, all);
        }
        self.settled = now;
    }
}

/// A part of something.
fn share(of: u64, part: u64, all: u64) -> u64 {
    let share = u128::from(of) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The memory of this process that is in no file.
fn resident(statm: &File, page_bytes: u64) -> Option<u64> {
    let mut text = [0; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    let mut fields = std::str::from_utf8(&text[..length]).ok()?.split(' ').skip(1);
    let mut pages = || fields.next()?.parse::<u64>().ok();
    let (all, in_files) = (pages()?, pages()?);
    Some(all.saturating_sub(in_files) * page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that is in use.
    fn taken(bytes: usize) -> Vec<u8> {
        vec![1; bytes]
    }

    fn look(gauge: &mut MemoryGauge) -> bool {
        gauge.next_look = Instant::now();
        gauge.look()
    }

    #[test]
    fn growth_is_charged_to_the_run_whose_rounds_add_it() {
        let mut gauge = MemoryGauge::new().unwrap();
        let (idle, greedy) = (RunId(1), RunId(2));
        let mut kept = vec![taken(40 << 20)];
        assert!(look(&mut gauge));
        for _ in 0..2 {
            gauge.round_begins();
            gauge.round_ended(idle);
            gauge.round_begins();
            kept.push(taken(8 << 20));
            assert!(gauge.round_ended(greedy), "it is measured while it grows so fast");
        }
        assert!(gauge.charged(greedy) > 48 << 20, "{}", gauge.charged(greedy));
        assert!(gauge.charged(idle) < 8 << 20, "{}", gauge.charged(idle));
        // Memory that was returned is not charged any more.
        drop(kept);
        look(&mut gauge);
        assert!(gauge.charged(greedy) < 20 << 20, "{}", gauge.charged(greedy));
    }

    #[test]
    fn what_grows_between_rounds_is_charged_to_nobody() {
        let mut gauge = MemoryGauge::new().unwrap();
        let kept = taken(40 << 20);
        assert!(look(&mut gauge));
        gauge.round_begins();
        assert!(gauge.round_ended(RunId(1)));
        let more = taken(40 << 20);
        gauge.round_begins();
        gauge.round_ended(RunId(1));
        assert!(gauge.charged(RunId(1)) < 8 << 20, "{}", gauge.charged(RunId(1)));
        drop((kept, more));
    }

    #[test]
    fn a_run_is_not_charged_with_what_others_took_before() {
        let mut gauge = MemoryGauge::new().unwrap();
        let kept = taken(400 << 20);
        assert!(look(&mut gauge));
        gauge.round_begins();
        let own = taken(3 << 20);
        gauge.round_ended(RunId(1));
        assert!(gauge.charged(RunId(1)) < 150 << 20, "{}", gauge.charged(RunId(1)));
        gauge.replay_begins();
        gauge.next_look = Instant::now();
        gauge.look_alone(RunId(2));
        assert!(gauge.charged(RunId(2)) < 8 << 20, "{}", gauge.charged(RunId(2)));
        drop((kept, own));
    }
}
