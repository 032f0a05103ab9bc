//! Counters, histograms with fixed buckets, and bounded families of them by name. Any thread may
//! add and any thread may read; none waits. It knows nothing of what is counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tiffany_log::sync::Mutex;
use tiffany_records::metrics::Buckets;

/// A counter, which only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds a time, in nanoseconds.
    pub(crate) fn add_time(&self, time: Duration) {
        self.add(nanos(time));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The sum of the added times, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.get() as f64 / 1e9
    }
}

/// The upper ends of a histogram's buckets in the histogram's own unit, and how many of that unit
/// make one of the unit shown.
pub(crate) struct Scale {
    bounds: &'static [u64],
    unit: f64,
}

/// Times, from 10 µs to a minute.
pub(crate) static TIMES: Scale = Scale {
    bounds: &[
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
        500_000_000,
        1_000_000_000,
        2_500_000_000,
        5_000_000_000,
        10_000_000_000,
        30_000_000_000,
        60_000_000_000,
    ],
    unit: 1e9,
};

/// Times of disks, other systems and people: from 100 µs to a week.
pub(crate) static LONG_TIMES: Scale = Scale {
    bounds: &[
        100_000,
        1_000_000,
        5_000_000,
        25_000_000,
        100_000_000,
        500_000_000,
        1_000_000_000,
        5_000_000_000,
        15_000_000_000,
        60_000_000_000,
        300_000_000_000,
        900_000_000_000,
        3_600_000_000_000,
        21_600_000_000_000,
        86_400_000_000_000,
        604_800_000_000_000,
    ],
    unit: 1e9,
};

/// Sizes of batches.
pub(crate) static SIZES: Scale =
    Scale { bounds: &[1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000], unit: 1.0 };

/// Bytes, from 256 to 64 MiB.
pub(crate) static BYTES: Scale = Scale {
    bounds: &[
        1 << 8,
        1 << 10,
        1 << 12,
        1 << 14,
        1 << 16,
        1 << 18,
        1 << 20,
        1 << 22,
        1 << 24,
        1 << 26,
    ],
    unit: 1.0,
};

/// A histogram: how often values of each size were observed.
#[derive(Debug)]
pub(crate) struct Histogram {
    scale: &'static Scale,
    /// One for each bucket, and one for values beyond the last.
    counts: Box<[Counter]>,
    sum: Counter,
}

impl std::fmt::Debug for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.bounds).finish()
    }
}

impl Histogram {
    pub(crate) fn new(scale: &'static Scale) -> Histogram {
        let counts = (0..=scale.bounds.len()).map(|_| Counter::default()).collect();
        Histogram { scale, counts, sum: Counter::default() }
    }

    pub(crate) fn observe(&self, size: u64) {
        let bucket = self.scale.bounds.partition_point(|bound| *bound < size);
        self.counts[bucket].add(1);
        self.sum.add(size);
    }

    pub(crate) fn observe_time(&self, time: Duration) {
        self.observe(nanos(time));
    }

    /// The present contents.
    pub(crate) fn buckets(&self) -> Buckets {
        let unit = self.scale.unit;
        Buckets {
            bounds: self.scale.bounds.iter().map(|bound| *bound as f64 / unit).collect(),
            counts: self.counts.iter().map(Counter::get).collect(),
            sum: self.sum.get() as f64 / unit,
        }
    }
}

/// One set of figures for each name, and one for all other names once there are enough: names come
/// from programs, and each one costs memory in the process and in the system that stores the
/// figures.
#[derive(Debug, Default)]
pub(crate) struct Named<T>(Mutex<BTreeMap<Box<str>, Arc<T>>>);

/// The number of names with figures of their own.
pub(crate) const MAX_NAMES: usize = 100;
/// The name of the rest.
pub(crate) const OTHER: &str = "other";
/// The number of bytes of a name that are kept.
const MAX_NAME_BYTES: usize = 100;

impl<T: Default> Named<T> {
    /// The figures of a name.
    pub(crate) fn of(&self, name: &str) -> Arc<T> {
        let name = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
        let mut known = self.0.lock();
        if let Some(found) = known.get(name) {
            return Arc::clone(found);
        }
        let is_full = known.len() >= MAX_NAMES;
        let name = if is_full { OTHER } else { name };
        Arc::clone(known.entry(name.into()).or_default())
    }

    /// Calls a function for each name.
    pub(crate) fn for_each(&self, mut act: impl FnMut(&str, &T)) {
        self.0.lock().iter().for_each(|(name, one)| act(name, one));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_in_the_first_bucket_that_is_not_smaller() {
        let histogram = Histogram::new(&SIZES);
        for size in [0, 1, 2, 3, 10_000, 10_001] {
            histogram.observe(size);
        }
        let buckets = histogram.buckets();
        assert_eq!(buckets.counts[..3], [2, 1, 1]);
        assert_eq!(buckets.counts[buckets.bounds.len() - 1..], [1, 1]);
        assert_eq!(buckets.sum, 20_007.0);
        assert_eq!(buckets.count(), 6);
    }

    #[test]
    fn times_are_shown_in_seconds() {
        let histogram = Histogram::new(&TIMES);
        histogram.observe_time(Duration::from_millis(250));
        let buckets = histogram.buckets();
        assert_eq!(buckets.sum, 0.25);
        let first = buckets.counts.iter().position(|count| *count > 0).unwrap();
        assert_eq!(buckets.bounds[first], 0.25);
    }

    #[test]
    fn names_beyond_the_limit_share_one_and_long_ones_are_cut() {
        let named: Named<Counter> = Named::default();
        for number in 0..3 * MAX_NAMES {
            named.of(&format!("name {number}")).add(1);
        }
        named.of("name 0").add(1);
        let mut seen = BTreeMap::new();
        named.for_each(|name, count| {
            seen.insert(name.to_string(), count.get());
        });
        assert_eq!(seen.len(), MAX_NAMES + 1);
        assert_eq!(seen["name 0"], 2);
        assert_eq!(seen[OTHER], 2 * MAX_NAMES as u64);

        let named: Named<Counter> = Named::default();
        named.of(&"ä".repeat(MAX_NAME_BYTES)).add(1);
        named.for_each(|name, _| assert_eq!(name.len(), MAX_NAME_BYTES));
    }
}
