//! A runtime as the guest of another loop: it goes on for a while when it is let, and says what to wake it for.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::panic::Location;
use std::time::Duration;

use crate::error::RunError;
use crate::runtime::Runtime;

/// What a guest waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// What was asked for is over.
    Over,
    /// Nothing: somebody is ready.
    Ready,
    /// Until its [`descriptor`] can be read, and no longer than this.
    Wait(Option<Duration>),
}

/// What another loop watches for a runtime: when it can be read, there is something to go on with.
pub fn descriptor(runtime: &Runtime) -> RawFd {
    runtime.host.reactor.borrow().as_fd().as_raw_fd()
}

/// Drives all runs for so many rounds, or until nobody is ready, or until `is_over` says so. It never waits.
#[track_caller]
pub fn go_on(
    runtime: &mut Runtime,
    rounds: usize,
    is_over: impl Fn(&Runtime) -> bool,
) -> Result<Rest, RunError> {
    runtime.drive_some(Location::caller(), rounds, is_over)
}

/// Whether a run is over.
pub fn is_over(runtime: &Runtime, run: tiffany_kernel::RunId) -> bool {
    runtime.is_over(run)
}
