//! The run's clock: nanoseconds since the Unix epoch. The host sets it; the kernel never reads a
//! clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment on a run's clock, in nanoseconds since 1970-01-01 UTC (enough until the year 2554).
///
/// ```
/// # use tiffany_kernel::Time;
/// # use std::time::Duration;
/// let noon = Time::from_nanos(1_000);
/// assert_eq!(noon.checked_add(Duration::from_nanos(5)), Some(Time::from_nanos(1_005)));
/// assert_eq!(noon.checked_add(Duration::MAX), None);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(u64);

impl Time {
    /// The Unix epoch, at which a virtual clock starts.
    pub const ZERO: Time = Time(0);

    /// The moment this number of nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This moment plus a duration, or `None` if that is after the year 2554.
    pub fn checked_add(self, duration: Duration) -> Option<Time> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Time)
    }

    /// The duration since `earlier`; zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The duration since the other moment; zero if that is later.
impl Sub<Time> for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.saturating_since(earlier)
    }
}

/// The moment this much later, limited to the end of the clock's range.
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        self.checked_add(duration).unwrap_or(Time(u64::MAX))
    }
}

/// Formats the moment in seconds, exactly.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} s")
    }
}
