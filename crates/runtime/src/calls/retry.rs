//! Retry policies of steps.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::host::entropy::mixed;
use tiffany_kernel::TaskError;

/// How often a step is tried, and how long it waits in between. Without a policy, a step is tried
/// once.
///
/// Only failed attempts are counted. An attempt that a crash interrupted has not failed: it is
/// repeated and not counted.
///
/// ```
/// use std::time::Duration;
/// use tiffany::durable::Retry;
///
/// // After 1 s, 3 s, 9 s, then 10 s, each up to a fifth less.
/// let patient = Retry::times(8)
///     .first(Duration::from_secs(1))
///     .factor(3.0)
///     .max(Duration::from_secs(10))
///     .jitter(0.2);
/// # let _ = patient;
/// ```
#[derive(Clone)]
pub struct Retry {
    attempts: u64,
    first: Duration,
    factor: f64,
    max: Duration,
    jitter: f64,
    hopeless: Vec<IsHopeless>,
}

type IsHopeless = Arc<dyn Fn(&TaskError) -> bool + Send + Sync>;

impl Retry {
    /// This number of attempts in all, with waits of 100 ms, 200 ms, 400 ms and so on up to a
    /// minute, each shortened by up to a tenth.
    pub fn times(attempts: u64) -> Retry {
        let (first, max) = (Duration::from_millis(100), Duration::from_secs(60));
        Retry { attempts, first, factor: 2.0, max, jitter: 0.1, hopeless: Vec::new() }
    }

    /// Sets the wait after the first failure. The longest wait is at least as long.
    pub fn first(mut self, wait: Duration) -> Retry {
        self.first = wait;
        self.max = self.max.max(wait);
        self
    }

    /// Sets the factor by which each wait is longer than the one before.
    pub fn factor(mut self, factor: f64) -> Retry {
        self.factor = factor;
        self
    }

    /// Sets the longest wait.
    pub fn max(mut self, wait: Duration) -> Retry {
        self.max = wait;
        self
    }

    /// Sets the part of a wait, from 0 to 1, by which it may be shortened at random, so that steps
    /// that failed together do not all retry together. It is drawn from the run's seed: the same
    /// run waits for the same time.
    pub fn jitter(mut self, part: f64) -> Retry {
        self.jitter = part;
        self
    }

    /// Adds a rule for errors that are not worth another attempt. If only the work can tell, it
    /// returns [`StepError::give_up`](crate::host::attempt::StepError::give_up).
    ///
    /// ```
    /// use tiffany::ErrorKind;
    /// use tiffany::durable::{Retry, step};
    ///
    /// let error = tiffany::try_run(async {
    ///     let policy = Retry::times(1_000)
    ///         .unless(|error| error.kind() == ErrorKind::Panicked)
    ///         .unless(|error| error.message().contains("no such account"));
    ///     step("pay", || Err::<(), _>("no such account: 17")).retry(policy).await
    /// });
    /// assert!(error.is_err());
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn unless(
        mut self,
        is_hopeless: impl Fn(&TaskError) -> bool + Send + Sync + 'static,
    ) -> Retry {
        self.hopeless.push(Arc::new(is_hopeless));
        self
    }

    /// Whether another attempt is made after this number of failures, of which this error is the
    /// last.
    pub(crate) fn allows(&self, failures: u64, error: &TaskError) -> bool {
        // User code on the loop's thread. If it panics, the hook has reported that, and the step is
        // not tried again.
        let is_hopeless = || self.hopeless.iter().any(|is_hopeless| is_hopeless(error));
        failures < self.attempts && !catch_unwind(AssertUnwindSafe(is_hopeless)).unwrap_or(true)
    }

    /// How long the step waits after this number of failures.
    pub(crate) fn wait(&self, failures: u64, seed: u64) -> Duration {
        let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = self.max.as_secs_f64();
        let wait = (self.first.as_secs_f64() * self.factor.powi(exponent)).min(longest);
        let drawn = (mixed(seed ^ mixed(failures)) >> 11) as f64 / (1u64 << 53) as f64;
        let wait = wait * (1.0 - self.jitter.clamp(0.0, 1.0) * drawn);
        Duration::try_from_secs_f64(wait).unwrap_or(self.max)
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts", &self.attempts)
            .field("first", &self.first)
            .field("factor", &self.factor)
            .field("max", &self.max)
            .field("jitter", &self.jitter)
            .field("unless", &self.hopeless.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_wait_that_is_long_is_not_cut() {
        let hour = Duration::from_secs(3600);
        assert_eq!(Retry::times(3).first(hour).max, hour);
        let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
        assert_eq!(Retry::times(3).first(second).max, minute);
        assert_eq!(Retry::times(3).first(hour).max(minute).max, minute, "who says so means it");
    }

    #[test]
    fn waits_grow_up_to_the_longest() {
        let retry = Retry::times(9).first(Duration::from_secs(1)).factor(3.0).jitter(0.0);
        let retry = retry.max(Duration::from_secs(10));
        let waits: Vec<u64> = (1..6).map(|n| retry.wait(n, 7).as_secs()).collect();
        assert_eq!(waits, [1, 3, 9, 10, 10]);
        assert_eq!(retry.wait(u64::MAX, 7), Duration::from_secs(10));
        let error = TaskError::failed("no");
        assert!(retry.allows(8, &error) && !retry.allows(9, &error));
    }

    #[test]
    fn jitter_is_the_seeds_and_takes_no_more_than_its_part() {
        let retry = Retry::times(9).first(Duration::from_secs(1)).factor(1.0).jitter(0.5);
        let waits: Vec<Duration> = (0..100).map(|seed| retry.wait(1, seed)).collect();
        let again: Vec<Duration> = (0..100).map(|seed| retry.wait(1, seed)).collect();
        assert_eq!(waits, again);
        let half = Duration::from_millis(500);
        assert!(waits.iter().all(|wait| *wait > half && *wait <= 2 * half), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait < half + half / 5), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait > 2 * half - half / 5), "{waits:?}");
    }

    #[test]
    fn settings_without_meaning_wait_the_longest() {
        let retry = Retry::times(3).factor(f64::NAN).max(Duration::from_secs(5));
        assert_eq!(retry.jitter(0.0).wait(2, 0), Duration::from_secs(5));
    }
}
