//! The cross-thread path under random schedules: senders and a reader that sleeps, on simulated threads.
//!
//! `TIFFANY_SCHEDULES_SECONDS=600 cargo test --release -p tiffany --test all mailbox_schedules::` runs it
//! for ten minutes. A failure prints the schedule that repeats it.

use std::time::{Duration, Instant};

use shuttle::sync::{Arc, Condvar};

#[path = "../src/host/mailbox.rs"]
mod mailbox;

use crate::primitives::Mutex;
use mailbox::Mailbox;

/// What wakes the reader: the eventfd of the real loop, and how often it was rung.
#[derive(Default)]
struct Bell {
    rings: Mutex<(bool, usize)>,
    rung: Condvar,
}

impl Bell {
    fn ring(&self) {
        let mut rings = self.rings.lock().unwrap();
        *rings = (true, rings.1 + 1);
        self.rung.notify_one();
    }

    /// Sleeps until the bell is rung. A ring that was missed is heard the next time.
    fn wait(&self) {
        let mut rings = self.rings.lock().unwrap();
        while !rings.0 {
            rings = self.rung.wait(rings).unwrap();
        }
        rings.0 = false;
    }
}

/// Senders with a few letters each, and a reader that takes all of them.
fn letters_arrive(senders: usize, letters: usize) {
    let mailbox = Arc::new(Mailbox::new());
    let bell = Arc::new(Bell::default());
    let threads: Vec<_> = (0..senders)
        .map(|sender| {
            let (mailbox, bell) = (Arc::clone(&mailbox), Arc::clone(&bell));
            shuttle::thread::spawn(move || {
                for letter in 0..letters {
                    if mailbox.send((sender, letter)) {
                        bell.ring();
                    }
                }
            })
        })
        .collect();
    let mut read = Vec::new();
    let mut tries = 0;
    while read.len() < senders * letters {
        if mailbox.has_mail() {
            mailbox.read(&mut read);
        } else {
            // A sender that sees the reader about to sleep rings, even if the reader then does not.
            tries += 1;
            if mailbox.may_sleep() {
                bell.wait();
                mailbox.woke_up();
            }
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    for sender in 0..senders {
        let order: Vec<usize> =
            read.iter().filter(|(from, _)| *from == sender).map(|(_, letter)| *letter).collect();
        assert_eq!(order, (0..letters).collect::<Vec<usize>>(), "letters of sender {sender}");
    }
    let rings = bell.rings.lock().unwrap().1;
    assert!(rings <= tries, "{rings} rings for {tries} times about to sleep");
}

fn seconds() -> Duration {
    let seconds = std::env::var("TIFFANY_SCHEDULES_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(2))
}

#[test]
fn no_letter_is_lost_and_no_sleeper_forgotten_in_random_schedules() {
    let start = Instant::now();
    let mut schedules = 0;
    while start.elapsed() < seconds() {
        shuttle::check_random(|| letters_arrive(3, 3), 500);
        schedules += 500;
    }
    println!("{schedules} schedules");
}

#[test]
fn nor_in_schedules_with_few_but_nasty_switches() {
    let start = Instant::now();
    while start.elapsed() < seconds() {
        shuttle::check_pct(|| letters_arrive(2, 3), 500, 3);
    }
}
