//! Wakes waiting readers on a thread of its own, so that the loop only leaves a list of them,
//! however many there are. The thread pauses after each batch, and longer after a large one. A busy
//! run thus wakes its readers from time to time and not for every event: a thousand readers get new
//! events fifty times a second, and don't take all cores from the tasks.

use std::sync::Arc;
use std::time::Duration;

use crate::activity::sleeper::Sleeper;
use tiffany_log::sync::{Condvar, Mutex};

/// How long the thread pauses after it has woken readers...
const REST: Duration = Duration::from_micros(300);
/// ...and how much longer for each of them: about twice what a reader needs to pass on what it has
/// read.
const REST_EACH: Duration = Duration::from_micros(20);
/// The longest pause.
const MAX_REST: Duration = Duration::from_millis(50);

/// How long the thread waits for more before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// The readers that are to be woken, and the thread that wakes them.
#[derive(Default)]
pub(crate) struct WakerThread {
    queue: Mutex<Queue>,
    came: Condvar,
}

#[derive(Default)]
struct Queue {
    sleepers: Vec<Arc<Sleeper>>,
    /// Whether the thread runs.
    is_served: bool,
    is_waiting: bool,
}

impl WakerThread {
    /// Has all of these readers woken.
    pub(crate) fn wake(self: &Arc<WakerThread>, sleepers: &mut Vec<Arc<Sleeper>>) {
        let mut queue = self.queue.lock();
        queue.sleepers.append(sleepers);
        if std::mem::replace(&mut queue.is_served, true) {
            let is_waiting = std::mem::take(&mut queue.is_waiting);
            drop(queue);
            if is_waiting {
                self.came.notify_one();
            }
            return;
        }
        drop(queue);
        let crier = Arc::clone(self);
        let thread = std::thread::Builder::new().name("tiffany-pal".into());
        if thread.spawn(move || crier.serve()).is_err() {
            // No other thread will wake them; the next call tries again.
            let mut queue = self.queue.lock();
            queue.is_served = false;
            let sleepers = std::mem::take(&mut queue.sleepers);
            drop(queue);
            sleepers.iter().for_each(|sleeper| sleeper.wake());
        }
    }

    fn serve(&self) {
        let mut awake = Vec::new();
        let mut queue = self.queue.lock();
        loop {
            std::mem::swap(&mut awake, &mut queue.sleepers);
            if !awake.is_empty() {
                drop(queue);
                let rest = rest_after(awake.len());
                awake.drain(..).for_each(|sleeper| sleeper.wake());
                std::thread::sleep(rest);
                queue = self.queue.lock();
                continue;
            }
            queue.is_waiting = true;
            let is_idle = self.came.wait_for(&mut queue, IDLE);
            queue.is_waiting = false;
            if is_idle && queue.sleepers.is_empty() {
                queue.is_served = false;
                return;
            }
        }
    }
}

/// The pause after this number of readers was woken.
fn rest_after(woken: usize) -> Duration {
    let each = REST_EACH.saturating_mul(u32::try_from(woken).unwrap_or(u32::MAX));
    (REST + each).min(MAX_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reader_is_told_at_once_and_a_thousand_fifty_times_a_second() {
        assert!(rest_after(1) < Duration::from_millis(1));
        let rest = rest_after(1_000);
        assert!((20..25).contains(&rest.as_millis()), "{rest:?}");
        assert_eq!(rest_after(usize::MAX), MAX_REST);
    }
}
