//! Signals to this very process.

use std::time::Duration;

use crate::bounded::check;
use rustix::process::{Signal as Number, getpid, kill_process};
use tiffany::signal::{Signal, ctrl_c, signal};
use tiffany::{cancel, sleep, spawn, timeout};

#[test]
fn every_listener_gets_every_signal() {
    check(async {
        let one = signal(Signal::User1).unwrap();
        let two = signal(Signal::User1).unwrap();
        for _ in 0..2 {
            kill_process(getpid(), Number::USR1).unwrap();
            one.recv().await.unwrap();
            two.recv().await.unwrap();
        }
        assert!(timeout(Duration::from_millis(20), one.recv()).await.is_err(), "only two");
        // A listener that is gone takes nothing from the other.
        drop(one);
        kill_process(getpid(), Number::USR1).unwrap();
        two.recv().await.unwrap();
    });
}

#[test]
fn a_signal_before_anybody_waits_is_kept() {
    check(async {
        let signals = signal(Signal::User2).unwrap();
        kill_process(getpid(), Number::USR2).unwrap();
        sleep(Duration::from_millis(5)).await;
        signals.recv().await.unwrap();
    });
}

#[test]
fn ctrl_c_wakes_who_waits_for_it() {
    check(async {
        let waits = spawn(async { ctrl_c().await.unwrap() }).await;
        let gives_up = spawn(async { ctrl_c().await.unwrap() }).await;
        sleep(Duration::from_millis(5)).await;
        cancel(&gives_up).await;
        kill_process(getpid(), Number::INT).unwrap();
        waits.await.unwrap();
    });
}
