//! The measures of the scheduler and its hosts, one file each.

mod echo;
mod gather;
mod parked_bytes;
mod promise;
mod spawn_join;
mod timer_cancel;
mod timer_late;
mod wake_xthread;
mod yield_now;

pub(crate) use echo::serve as serve_echo;

use crate::harness::Measure;

/// The hidden command of an echo server.
pub(crate) const SERVE_ECHO: &str = "serve-echo";

/// Returns all of these measures, in the order in which they are taken.
pub(crate) fn measures() -> Vec<Measure> {
    vec![
        yield_now::measure(),
        spawn_join::measure(),
        promise::measure(),
        parked_bytes::measure(),
        timer_cancel::measure(),
        timer_late::measure(),
        gather::small(),
        gather::large(),
        wake_xthread::measure(),
        echo::few(),
        echo::many(),
    ]
}
