//! The clocks of runs: the system's, or a virtual one for tests.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tiffany_kernel::Time;

/// The minimum time between two readings of the wall clock.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The clock follows the wall clock only if that is further ahead than this: timers are not hurried
/// by every correction.
const TOLERANCE: Duration = Duration::from_secs(1);
/// The longest wait for a timer, so that a step of the wall clock is noticed before that.
pub(crate) const MAX_TIMER_WAIT: Duration = Duration::from_secs(10);

/// The clock of a host. It never goes back.
pub enum Clock {
    /// The clock of the system.
    System(Arc<Steady>),
    /// A clock that is set by hand.
    Virtual(Cell<Time>),
}

/// The wall clock at the start plus the monotonic time since then. If the wall clock steps ahead
/// (it is set, or the machine was suspended), this clock steps too when it
/// [follows](Steady::follow). If the wall clock steps back, this one does not.
pub struct Steady {
    start: Instant,
    start_time: Time,
    /// Nanoseconds by which the wall clock has stepped ahead since the start.
    ahead: AtomicU64,
    /// When the wall clock was last read, in nanoseconds since the start.
    looked: AtomicU64,
    wall: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Clock {
    /// The clock of the system.
    pub fn system() -> Clock {
        Clock::with_wall(SystemTime::now)
    }

    /// A system clock with another wall clock.
    pub(crate) fn with_wall(wall: impl Fn() -> SystemTime + Send + Sync + 'static) -> Clock {
        Clock::System(Arc::new(Steady {
            start: Instant::now(),
            start_time: time_of(wall()),
            ahead: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            wall: Box::new(wall),
        }))
    }

    /// The present time.
    pub fn now(&self) -> Time {
        match self {
            Clock::System(steady) => steady.now(),
            Clock::Virtual(now) => now.get(),
        }
    }

    /// Reads the wall clock if that is due, and returns the time and by how much the clock stepped
    /// ahead.
    pub(crate) fn follow(&self) -> (Time, Duration) {
        match self {
            Clock::System(steady) => steady.follow(steady.start.elapsed()),
            Clock::Virtual(now) => (now.get(), Duration::ZERO),
        }
    }

    /// The clock for other threads, if it is the system's.
    pub(crate) fn steady(&self) -> Option<Arc<Steady>> {
        match self {
            Clock::System(steady) => Some(Arc::clone(steady)),
            Clock::Virtual(_) => None,
        }
    }
}

impl Steady {
    pub(crate) fn now(&self) -> Time {
        self.at(self.start.elapsed())
    }

    fn at(&self, elapsed: Duration) -> Time {
        let ahead = Duration::from_nanos(self.ahead.load(Ordering::Relaxed));
        self.start_time + (elapsed + ahead)
    }

    fn follow(&self, elapsed: Duration) -> (Time, Duration) {
        let now = self.at(elapsed);
        let looked = Duration::from_nanos(self.looked.load(Ordering::Relaxed));
        if elapsed < looked + LOOK_EVERY {
            return (now, Duration::ZERO);
        }
        self.looked.store(nanos(elapsed), Ordering::Relaxed);
        let step = time_of((self.wall)()).saturating_since(now);
        if step < TOLERANCE {
            return (now, Duration::ZERO);
        }
        self.ahead.fetch_add(nanos(step), Ordering::Relaxed);
        (self.at(elapsed), step)
    }
}

/// A moment of the wall clock. Moments before 1970 become 1970.
fn time_of(wall: SystemTime) -> Time {
    let since_epoch = wall.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Time::from_nanos(nanos(since_epoch))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use tiffany_kernel::TaskError;

    use super::*;
    use crate::calls::receive::receive;
    use crate::calls::step::step;
    use crate::calls::sys::sleep;
    use crate::host::entropy::Entropy;
    use crate::runtime::builder::Builder;

    const HOUR: Duration = Duration::from_secs(3600);

    /// A wall clock that can be set.
    #[derive(Clone)]
    struct Wall(Arc<Mutex<SystemTime>>);

    impl Wall {
        fn at(time: SystemTime) -> Wall {
            Wall(Arc::new(Mutex::new(time)))
        }

        fn set(&self, change: impl FnOnce(SystemTime) -> SystemTime) {
            let mut time = self.0.lock().unwrap();
            *time = change(*time);
        }

        fn clock(&self) -> Clock {
            let wall = Arc::clone(&self.0);
            Clock::with_wall(move || *wall.lock().unwrap())
        }

        fn steady(&self) -> Arc<Steady> {
            self.clock().steady().unwrap()
        }
    }

    /// This many seconds after the start.
    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_step_ahead_is_followed_and_one_back_is_not() {
        let wall = Wall::at(UNIX_EPOCH + HOUR);
        let steady = wall.steady();
        let first = Time::from_nanos(nanos(HOUR));
        wall.set(|time| time + HOUR);
        assert_eq!(steady.follow(LOOK_EVERY / 2), (first + LOOK_EVERY / 2, Duration::ZERO));
        assert_eq!(steady.follow(after(10)), (first + HOUR, HOUR - after(10)));
        assert!(steady.now() >= first + (HOUR - after(10)), "others see it, too");
        // Once is enough.
        assert_eq!(steady.follow(after(20)), (first + HOUR + after(10), Duration::ZERO));
        // It never goes back, and continues from where it is.
        wall.set(|time| time - 3 * HOUR);
        assert_eq!(steady.follow(after(30)), (first + HOUR + after(20), Duration::ZERO));
    }

    #[test]
    fn a_small_correction_hurries_nobody() {
        let wall = Wall::at(UNIX_EPOCH + HOUR);
        let steady = wall.steady();
        wall.set(|time| time + after(10) + TOLERANCE / 2);
        assert_eq!(steady.follow(after(10)).1, Duration::ZERO);
    }

    #[test]
    fn a_clock_before_1970_is_taken_for_its_first_moment() {
        let wall = Wall::at(UNIX_EPOCH - HOUR);
        let steady = wall.steady();
        assert_eq!(steady.follow(after(10)), (Time::ZERO + after(10), Duration::ZERO));
        // It is set while the process runs.
        wall.set(|time| time + 3 * HOUR);
        assert_eq!(steady.follow(after(20)), (Time::ZERO + 2 * HOUR, 2 * HOUR - after(20)));
    }

    /// Nanoseconds since 1970 end in the year 2554.
    #[test]
    fn a_clock_at_the_end_of_time_stands_there() {
        let end = UNIX_EPOCH + Duration::from_nanos(u64::MAX);
        let last = Time::from_nanos(u64::MAX);
        let steady = Wall::at(end + HOUR).steady();
        assert_eq!(steady.follow(after(10)), (last, Duration::ZERO));
        // It gets there while the process runs, by itself and because it is set.
        let wall = Wall::at(end - after(5));
        let steady = wall.steady();
        assert_eq!(steady.at(after(10)), last);
        let wall = Wall::at(UNIX_EPOCH + HOUR);
        let steady = wall.steady();
        wall.set(|_| end + HOUR);
        assert_eq!(steady.follow(after(10)).0, last);
        assert_eq!(steady.follow(after(20)), (last, Duration::ZERO));
    }

    /// The whole runtime with clocks that are wrong: runs work, are resumed and end. Only a sleep needs time to come.
    #[test]
    fn runs_end_whatever_the_wall_clock_says() {
        let end = UNIX_EPOCH + Duration::from_nanos(u64::MAX);
        for (time, can_sleep) in [(UNIX_EPOCH - HOUR, true), (end + HOUR, false)] {
            let name = format!("tiffany-wrong-clock-{can_sleep}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&dir);
            let work = async |(): ()| {
                let seven = step("seven", || Ok::<u64, String>(7)).await?;
                receive::<u64>("go").await.map(|go| go + seven)
            };
            let nap = async |(): ()| {
                sleep(Duration::from_millis(1)).await;
                Ok::<(), TaskError>(())
            };
            let build = || {
                let builder = Builder::new().register("work", work).register("nap", nap);
                let clock = Wall::at(time).clock();
                builder.log_dir(&dir).build_with(clock, Entropy::System).unwrap()
            };
            let mut runtime = build();
            let run = runtime.submit::<u64>("work", "a", &()).unwrap();
            let nap = runtime.submit::<()>("nap", "b", &()).unwrap();
            let napped = runtime.wait_for(&nap).map_err(|error| error.code());
            assert_eq!(napped, if can_sleep { Ok(()) } else { Err("TFY0013") });
            drop(runtime);
            let mut runtime = build();
            runtime.send(&run, "go", &1_u64).unwrap();
            assert_eq!(runtime.wait_for(&run).unwrap(), 8, "{time:?}");
            drop(runtime);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }

    /// The whole runtime: a sleep in the log ends when the wall clock says so, and work under way keeps its time.
    #[test]
    fn a_durable_sleep_ends_at_its_moment_of_the_wall_clock() {
        let dir = std::env::temp_dir().join(format!("tiffany-clock-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let wall = Wall::at(SystemTime::now());
        let (wakes, woken) = channel();
        let (sets, woken) = (wall.clone(), Arc::new(Mutex::new(woken)));
        let nap = move |(): ()| {
            let wakes = wakes.clone();
            async move {
                sleep(HOUR).await;
                wakes.send(()).map_err(|error| TaskError::failed(error.to_string()))
            }
        };
        // The wall clock is set ahead while this step is done, which ends after the nap.
        let work = move |(): ()| {
            let (sets, woken) = (sets.clone(), Arc::clone(&woken));
            let work = step("work", move || {
                sets.set(|time| time + 2 * HOUR);
                woken.lock().unwrap().recv_timeout(after(30))
            });
            async move { work.timeout(HOUR).await }
        };
        let builder = Builder::new().register("nap", nap).register("work", work).log_dir(&dir);
        let mut runtime = builder.build_with(wall.clock(), Entropy::System).unwrap();
        let nap = runtime.submit::<()>("nap", "nap", &()).unwrap();
        let work = runtime.submit::<()>("work", "work", &()).unwrap();
        // A third run keeps the loop busy, so that the clock is read before the longest wait ends.
        let _ticks = runtime.start(async {
            loop {
                sleep(Duration::from_millis(20)).await;
            }
        });
        runtime.wait_for(&nap).unwrap();
        runtime.wait_for(&work).unwrap();
        drop(runtime);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
