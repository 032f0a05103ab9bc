//! A runtime as the guest of another event loop: it runs for a while when it is called, and returns
//! what it waits for.

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
    /// Nothing: what was to be done is finished.
    Over,
    /// Nothing: a task is ready.
    Ready,
    /// Until its [`descriptor`] is readable, and no longer than this.
    Wait(Option<Duration>),
}

/// The descriptor that another loop watches for a runtime: when it is readable, the runtime has
/// work.
pub fn descriptor(runtime: &Runtime) -> RawFd {
    runtime.host.reactor.borrow().as_fd().as_raw_fd()
}

/// Drives all runs for this number of rounds, until no task is ready, or until `is_over` returns
/// true. It never waits. Between calls, a message from another thread rings the bell, and that
/// makes the descriptor readable.
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
        match runtime.runs.take_next() {
            Some(run) if runtime.is_held_back(run) => {}
            Some(run) => runtime.round(run),
            None if is_over(runtime) => return Ok(Rest::Over),
            None => {
                let Some(timeout) = runtime.rest()? else { continue };
                // Events that are there already are found by polling; the bell and the descriptors
                // report later ones.
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

/// The durable runs that may have stopped being [live](crate::binding::durable::is_live) since the
/// last call; `None`: any of them may.
pub fn settled(runtime: &mut Runtime) -> Option<Vec<Uuid>> {
    runtime.take_settled()
}

/// Whether a run is finished.
pub fn is_over(runtime: &Runtime, run: tiffany_kernel::RunId) -> bool {
    runtime.is_over(run)
}
