//! Attempts that take too long, and results that come too late. On the real clock: a virtual one does not move
//! while work is under way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tiffany::durable::{Retry, step, step_with};
use tiffany::{ErrorKind, Runtime, TaskError, sleep};

use super::{Dir, effects, ms};

/// Waits until it is let go.
fn hang(let_go: &AtomicBool) {
    let began = Instant::now();
    while !let_go.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(ms(1));
    }
}

#[test]
fn an_attempt_that_takes_too_long_is_tried_again_and_its_result_dropped() {
    static LET_GO: AtomicBool = AtomicBool::new(false);
    async fn work(_: ()) -> Result<u64, TaskError> {
        let slow_at_first = step_with("slow at first", |attempt| {
            if attempt.number() == 1 {
                hang(&LET_GO);
            }
            Ok::<u64, String>(attempt.number())
        });
        let retry = Retry::times(2).first(ms(1));
        let number = slow_at_first.timeout(ms(30)).retry(retry).await?;
        LET_GO.store(true, Ordering::SeqCst);
        Ok(number)
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<u64>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 2);
    let began = Instant::now();
    while runtime.late_results() == 0 && began.elapsed() < Duration::from_secs(10) {
        runtime.run(sleep(ms(5))).unwrap();
    }
    assert_eq!(runtime.late_results(), 1);
    drop(runtime);
    let log = dir.log();
    assert_eq!(effects(&log), ["Start 1", "Failed 1", "Start 2", "Result"]);
    assert!(log.contains("attempt 1 took longer than 30ms"), "{log}");
}

#[test]
fn a_late_result_does_not_pass_for_that_of_the_next_attempt() {
    static SECOND_RUNS: AtomicBool = AtomicBool::new(false);
    static LATE_IS_HERE: AtomicBool = AtomicBool::new(false);
    let mut runtime = Runtime::new().unwrap();
    let run = runtime.try_start(async {
        let both = step_with("both", |attempt| {
            match attempt.number() {
                1 => hang(&SECOND_RUNS),
                _ => {
                    SECOND_RUNS.store(true, Ordering::SeqCst);
                    hang(&LATE_IS_HERE);
                }
            }
            Ok::<u64, String>(attempt.number())
        });
        both.timeout(ms(500)).retry(Retry::times(2).first(ms(1))).await
    });
    let began = Instant::now();
    while runtime.late_results() == 0 && began.elapsed() < Duration::from_secs(10) {
        runtime.run(sleep(ms(5))).unwrap();
    }
    LATE_IS_HERE.store(true, Ordering::SeqCst);
    assert_eq!(runtime.finish(run).unwrap(), 2);
}

#[test]
fn an_at_most_once_step_that_takes_too_long_is_in_doubt() {
    static LET_GO: AtomicBool = AtomicBool::new(false);
    let error = tiffany::run(async {
        let slow = step("slow", || {
            hang(&LET_GO);
            Ok::<u32, String>(1)
        });
        slow.at_most_once().timeout(ms(300)).await.unwrap_err()
    })
    .unwrap();
    LET_GO.store(true, Ordering::SeqCst);
    assert_eq!(error.kind(), ErrorKind::InDoubt);
    assert!(error.message().contains("attempt 1 took longer than 300ms"), "{error}");
}

#[test]
fn an_attempt_that_gives_signs_may_go_on_and_a_silent_one_not() {
    let (busy, silent) = tiffany::run(async {
        let busy = step_with("busy", |attempt| {
            for _ in 0..30 {
                std::thread::sleep(ms(10));
                attempt.heartbeat();
            }
            Ok::<u32, String>(1)
        });
        let silent = step("silent", || {
            std::thread::sleep(ms(600));
            Ok::<u32, String>(2)
        });
        tiffany::join!(
            busy.heartbeat(ms(120)).into_future(),
            silent.heartbeat(ms(120)).into_future()
        )
    })
    .unwrap();
    assert_eq!(busy.unwrap(), 1);
    let error = silent.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.message().contains("attempt 1 sent no heartbeat for 120ms"), "{error}");
}
