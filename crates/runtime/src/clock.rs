//! Where runs get the time from: the system, or a test.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tiffany_kernel::Time;

/// The clock of a host. It never goes back.
pub(crate) enum Clock {
    System(Steady),
    /// Moved by hand.
    Virtual(Cell<Time>),
}

/// The wall clock as it was at the start, moved on by the monotonic one.
#[derive(Clone, Copy)]
pub(crate) struct Steady {
    start: Instant,
    start_time: Time,
}

impl Clock {
    pub(crate) fn system() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let nanos = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        Clock::System(Steady { start: Instant::now(), start_time: Time::from_nanos(nanos) })
    }

    pub(crate) fn now(&self) -> Time {
        match self {
            Clock::System(steady) => steady.now(),
            Clock::Virtual(now) => now.get(),
        }
    }

    /// The same for other threads, where it is the system's.
    pub(crate) fn steady(&self) -> Option<Steady> {
        match self {
            Clock::System(steady) => Some(*steady),
            Clock::Virtual(_) => None,
        }
    }
}

impl Steady {
    pub(crate) fn now(&self) -> Time {
        self.start_time.checked_add(self.start.elapsed()).unwrap_or(self.start_time)
    }
}
