//! Wakes readers that wait, on a thread of its own: however many there are, the loop only leaves a list of them. Between two rounds it rests, so that
//! a busy run wakes its readers now and then and not for every event.

use std::sync::Arc;
use std::time::Duration;

use super::sleeper::Sleeper;
use crate::lock::{Condvar, Mutex};

/// How long it rests after it has woken somebody.
const REST: Duration = Duration::from_micros(300);

/// How long its thread waits for more.
const IDLE: Duration = Duration::from_secs(5);

/// Those who are to be woken, and the thread that does it.
#[derive(Default)]
pub(super) struct Crier {
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

impl Crier {
    /// Lets all of these be woken.
    pub(super) fn wake(self: &Arc<Crier>, sleepers: &mut Vec<Arc<Sleeper>>) {
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
                awake.drain(..).for_each(|sleeper| sleeper.wake());
                std::thread::sleep(REST);
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
