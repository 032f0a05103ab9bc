//! When a step that failed is tried again. On a virtual clock, which jumps over the waits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tiffany::durable::{Retry, StepError, step, step_with};
use tiffany::testing::TestScheduler;
use tiffany::{Builder, ErrorKind, TaskError, Time, now};

use super::{Dir, effects};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn seconds(time: Time) -> u64 {
    time.saturating_since(Time::ZERO).as_secs()
}

#[test]
fn the_waits_grow_and_only_the_last_error_is_seen() {
    let mut test = TestScheduler::unwatched(Builder::new());
    let (error, at) = test
        .run(async {
            let failing =
                step_with("fail", |attempt| Err::<u32, _>(format!("error {}", attempt.number())));
            let retry = Retry::times(4).first(secs(10)).jitter(0.0);
            let error = failing.retry(retry).await.unwrap_err();
            (error, now().await)
        })
        .unwrap();
    assert_eq!(error.message(), "error 4");
    assert_eq!(seconds(at), 10 + 20 + 40);
}

#[test]
fn a_later_attempt_can_succeed_under_the_same_key() {
    static KEYS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let number = tiffany::try_run(async {
        let third = step_with("third", |attempt| {
            KEYS.lock().unwrap().push(attempt.key().into());
            match attempt.number() {
                3 => Ok(attempt.number()),
                // A panic is an error like others.
                2 => panic!("not yet"),
                _ => Err("no"),
            }
        });
        third.retry(Retry::times(5).first(Duration::ZERO)).await
    });
    assert_eq!(number.unwrap(), 3);
    let keys = KEYS.lock().unwrap();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn an_error_can_say_that_trying_is_of_no_use() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    let error = tiffany::try_run(async {
        let hopeless = step("hopeless", || {
            DONE.fetch_add(1, Ordering::SeqCst);
            Err::<u32, _>(StepError::give_up("no such account"))
        });
        hopeless.retry(Retry::times(5).first(Duration::ZERO)).await
    });
    assert!(error.unwrap_err().to_string().contains("no such account"));
    assert_eq!(DONE.load(Ordering::SeqCst), 1);
}

#[test]
fn a_policy_can_say_what_is_not_tried_again() {
    for (fails_with, attempts) in
        [("no such account", 1), ("a panic", 2), ("not to be reached", 5), ("broken", 1)]
    {
        static DONE: AtomicU32 = AtomicU32::new(0);
        DONE.store(0, Ordering::SeqCst);
        let policy = Retry::times(5)
            .first(Duration::ZERO)
            .unless(|error| error.message().contains("no such account"))
            .unless(|error| error.kind() == ErrorKind::Panicked)
            // A policy that panics tries nothing again, and the loop goes on.
            .unless(|error| error.message() == "broken" && panic!("the policy is broken"));
        let error = tiffany::run(async move {
            let failing = step_with("fail", move |attempt| {
                DONE.fetch_add(1, Ordering::SeqCst);
                assert!(fails_with != "a panic" || attempt.number() == 1, "it panics");
                Err::<u32, _>(fails_with)
            });
            failing.retry(policy).await.unwrap_err()
        });
        let error = error.unwrap();
        assert_eq!(DONE.load(Ordering::SeqCst), attempts, "{fails_with}: {error}");
    }
}

#[test]
fn a_result_that_cannot_be_written_down_is_not_worth_trying_again() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    let error = tiffany::try_run(async {
        let odd = step("odd", || {
            DONE.fetch_add(1, Ordering::SeqCst);
            Ok::<_, String>(std::collections::BTreeMap::from([((1, 2), 3)]))
        });
        odd.retry(Retry::times(5).first(Duration::ZERO)).await
    });
    assert_eq!(error.unwrap_err().code(), "TFY0034");
    assert_eq!(DONE.load(Ordering::SeqCst), 1);
}

#[test]
fn the_count_and_the_due_time_hold_after_a_restart() {
    static NUMBERS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    async fn work(_: ()) -> Result<(String, u64), TaskError> {
        let failing = step_with("fail", |attempt| {
            NUMBERS.lock().unwrap().push(attempt.number());
            Err::<u32, _>(format!("error {}", attempt.number()))
        });
        let retry = Retry::times(3).first(secs(100)).max(secs(1000)).jitter(0.0);
        let error = failing.retry(retry).await.unwrap_err();
        Ok((error.message().into(), seconds(now().await)))
    }
    let dir = Dir::new();
    let mut test = TestScheduler::unwatched(dir.builder().register("work", work));
    let run = test.runtime().submit::<(String, u64)>("work", "a", &()).unwrap();
    let whole = ("error 3".to_string(), 300);
    assert_eq!(test.runtime().wait_for(&run).unwrap(), whole);
    drop(test);
    assert_eq!(NUMBERS.lock().unwrap().split_off(0), [1, 2, 3]);
    let log = dir.log();
    assert_eq!(effects(&log), ["Start 1", "Failed 1", "Start 2", "Failed 2", "Start 3", "Result"]);
    assert!(log.contains(r#""retry_at":"1970-01-01T00:05:00.000000000Z""#), "{log}");

    // The clock of each resumed process begins at zero, before the next attempt is due.
    for (what, nth, numbers, ends) in [
        ("EffectResult", 1, vec![2, 3], whole.clone()),
        ("EffectResult", 2, vec![3], whole.clone()),
        // Cut off and not failed: it is done again at once, and counts among the failures once.
        ("EffectStart", 2, vec![3, 4], ("error 4".to_string(), 200)),
    ] {
        let cut = dir.cut_after(nth, what);
        let mut test = TestScheduler::unwatched(cut.builder().register("work", work));
        assert_eq!(test.runtime().wait_for(&run).unwrap(), ends, "cut after {nth} {what}");
        drop(test);
        assert_eq!(NUMBERS.lock().unwrap().split_off(0), numbers, "cut after {nth} {what}");
        assert_eq!(effects(&cut.log()).last().unwrap(), "Result");
    }
}
