//! Readers of the activity log that wait, under random schedules of simulated threads: none of them sleeps while there is something to read.
//!
//! `TIFFANY_SCHEDULES_SECONDS=600 cargo test --release -p tiffany --test all sleeper_schedules::` runs it
//! for ten minutes. A failure prints the schedule that repeats it.

use std::sync::atomic::Ordering as StdOrdering;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use shuttle::sync::{Arc, Condvar, Mutex};

#[path = "../src/activity/sleeper.rs"]
mod sleeper;

use sleeper::Sleeper;

/// What the lock of a hub protects: how many events there are, and who waits for more.
#[derive(Default)]
struct Hub {
    events: usize,
    waiting: Vec<Arc<Sleeper>>,
}

/// Those who are on the way to be woken.
#[derive(Default)]
struct WakerThread {
    queue: Mutex<(Vec<Arc<Sleeper>>, bool)>,
    came: Condvar,
}

/// Wakes a thread that parks: a wake that comes before it parks is not lost.
#[derive(Default)]
struct Parker {
    woken: Mutex<bool>,
    came: Condvar,
}

/// A waker must be of the standard library's `Arc`.
struct Unpark(Arc<Parker>);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Unpark>) {
        *self.0.woken.lock().unwrap() = true;
        self.0.came.notify_one();
    }
}

fn read(hub: &Mutex<Hub>, total: usize) {
    let sleeper = Arc::new(Sleeper::new());
    let parker = Arc::new(Parker::default());
    let mut seen = 0;
    while seen < total {
        // Each poll with a waker of its own, as a combinator may do.
        let waker = Waker::from(std::sync::Arc::new(Unpark(Arc::clone(&parker))));
        let mut state = hub.lock().unwrap();
        if state.events > seen {
            seen = state.events;
            continue;
        }
        if sleeper.waits(&waker) {
            state.waiting.push(Arc::clone(&sleeper));
        }
        let listed = state.waiting.iter().filter(|one| Arc::ptr_eq(one, &sleeper)).count();
        assert!(listed <= 1, "it is in the list twice");
        drop(state);
        let mut woken = parker.woken.lock().unwrap();
        while !*woken {
            woken = parker.came.wait(woken).unwrap();
        }
        *woken = false;
    }
}

fn everybody_is_woken(readers: usize, events: usize) {
    let hub = Arc::new(Mutex::new(Hub::default()));
    let crier = Arc::new(WakerThread::default());
    let reading: Vec<_> = (0..readers)
        .map(|_| {
            let hub = Arc::clone(&hub);
            shuttle::thread::spawn(move || read(&hub, events))
        })
        .collect();
    let crying = {
        let crier = Arc::clone(&crier);
        shuttle::thread::spawn(move || {
            loop {
                let mut queue = crier.queue.lock().unwrap();
                while queue.0.is_empty() && !queue.1 {
                    queue = crier.came.wait(queue).unwrap();
                }
                let (awake, is_over) = (std::mem::take(&mut queue.0), queue.1);
                drop(queue);
                if awake.is_empty() && is_over {
                    return;
                }
                awake.iter().for_each(|sleeper| sleeper.wake());
            }
        })
    };
    for _ in 0..events {
        let mut state = hub.lock().unwrap();
        state.events += 1;
        let awake = std::mem::take(&mut state.waiting);
        drop(state);
        crier.queue.lock().unwrap().0.extend(awake);
        crier.came.notify_one();
    }
    reading.into_iter().for_each(|reader| reader.join().unwrap());
    crier.queue.lock().unwrap().1 = true;
    crier.came.notify_one();
    crying.join().unwrap();
}

#[test]
fn no_reader_sleeps_while_there_is_something_to_read() {
    static RUNS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let seconds = std::env::var("TIFFANY_SCHEDULES_SECONDS").ok();
    let seconds = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(2);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        // A reader that sleeps for ever is a deadlock, which fails the schedule.
        shuttle::check_random(|| everybody_is_woken(2, 3), 100);
        shuttle::check_pct(|| everybody_is_woken(3, 2), 100, 3);
        RUNS.fetch_add(200, StdOrdering::Relaxed);
    }
    assert!(RUNS.load(StdOrdering::Relaxed) >= 200);
}
