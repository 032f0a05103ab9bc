//! Where runs get the time from: the system, or a test.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tiffany_kernel::Time;

/// The clock of a host. It never goes back.
pub(crate) enum Clock {
    /// The wall clock as it was at the start, moved on by the monotonic one.
    System { start: Instant, start_time: Time },
    /// Moved by hand.
    Virtual(Cell<Time>),
}

impl Clock {
    pub(crate) fn system() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let nanos = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        Clock::System { start: Instant::now(), start_time: Time::from_nanos(nanos) }
    }

    pub(crate) fn now(&self) -> Time {
        match self {
            Clock::System { start, start_time } => {
                start_time.checked_add(start.elapsed()).unwrap_or(*start_time)
            }
            Clock::Virtual(now) => now.get(),
        }
    }
}
