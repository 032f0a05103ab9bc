//! Wakes readers that wait, on a thread of its own: however many there are, the loop only leaves a list of them. Between two rounds it rests, so that
//! a busy run wakes its readers now and then and not for every event, and the longer the more of them there are: a thousand have what
//! is new fifty times a second, and do not take all cores from those who work.

use std::sync::Arc;
use std::time::Duration;

use crate::activity::sleeper::Sleeper;
use tiffany_log::sync::{Condvar, Mutex};

/// How long it rests after it has woken somebody...
const REST: Duration = Duration::from_micros(300);
/// ...and how much longer for each of them: about twice what a reader needs to pass on what it has read.
const REST_EACH: Duration = Duration::from_micros(20);
/// Nobody waits longer than this.
const MAX_REST: Duration = Duration::from_millis(50);

/// How long its thread waits for more.
const IDLE: Duration = Duration::from_secs(5);

/// Those who are to be woken, and the thread that does it.
#[derive(Default)]
pub(crate) struct WakerThread {
    queue: Mutex<Queue>,
    came: Condvar,
}

#[derive(Default)]
struct Queue {
    sleepers: Vec<Arc<Sleeper>>,
    /// Its thread runs; it waits for somebody to be woken.
    is_served: bool,
    is_waiting: bool,
}

impl WakerThread {
    /// Lets all of these be woken.
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
            // Nobody else will; the next time it is tried again.
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

/// How long it rests after so many were woken.
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
