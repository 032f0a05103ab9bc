//! A runtime as the guest of another loop: it goes on for a while when it is let, and says what to wake it for.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::panic::Location;
use std::time::Duration;

use tiffany_kernel::Uuid;

use crate::calls::context::Entered;
use crate::runtime::{Runtime, nested};
use crate::watchdog::Watched;
use tiffany_records::RunError;

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

/// Drives all runs for so many rounds, or until nobody is ready, or until `is_over` says so. It never waits. While it rests, a letter from
/// another thread rings the bell, and that makes its descriptor readable.
#[track_caller]
pub fn go_on(
    runtime: &mut Runtime,
    rounds: usize,
    is_over: impl Fn(&Runtime) -> bool,
) -> Result<Rest, RunError> {
    let entered = Entered::new(&runtime.host);
    let _entered = entered.ok_or_else(|| nested(Location::caller()))?;
    let _awake = runtime.watched.as_ref().map(Watched::watch);
    runtime.host.inbox.woke_up();
    if let Some(error) = runtime.log_failure().filter(|_| !is_over(runtime)) {
        return Err(error.into());
    }
    runtime.begin_stretch();
    runtime.follow_wall_clock();
    runtime.poll_descriptors(Some(Duration::ZERO))?;
    for _ in 0..rounds {
        if is_over(runtime) {
            return Ok(Rest::Over);
        }
        runtime.collect()?;
        match runtime.next_run() {
            Some(run) if runtime.is_held_back(run) => {}
            Some(run) => runtime.round(run),
            None if is_over(runtime) => return Ok(Rest::Over),
            None => {
                let Some(timeout) = runtime.rest()? else { continue };
                // What is there already is found by looking; of what comes later the bell and the descriptors tell.
                runtime.poll_descriptors(Some(Duration::ZERO))?;
                if runtime.is_quiet() && runtime.host.inbox.may_sleep() {
                    let timeout = runtime.host.reactor.borrow().longest_wait(timeout);
                    runtime.end_stretch();
                    return Ok(Rest::Wait(timeout));
                }
            }
        }
    }
    Ok(if is_over(runtime) { Rest::Over } else { Rest::Ready })
}

/// The durable runs that may not be [live](crate::binding::durable::is_live) any more, since this was asked before; `None`: any may not.
pub fn settled(runtime: &mut Runtime) -> Option<Vec<Uuid>> {
    runtime.take_settled()
}

/// Whether a run is over.
pub fn is_over(runtime: &Runtime, run: tiffany_kernel::RunId) -> bool {
    runtime.is_over(run)
}
