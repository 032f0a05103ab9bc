//! Time. Nearly all of it is virtual; the real clock is read only where it is itself what is tested.

use std::time::Duration;

use tiffany::testing::TestScheduler;
use tiffany::{
    ErrorKind, Runtime, TaskState, Tid, Time, join, now, promise, sleep, sleep_secs, sleep_until,
    spawn, timeout, yield_now,
};

use super::{Notes, assert_names, ms, secs};

/// "the run's clock is set once a round": two tasks of one round see the same time, whatever one of them
/// does before the other has its turn; in the next round it has moved on.
#[test]
fn is_set_once_a_round() {
    let mut runtime = Runtime::new().unwrap();
    let (first, second, later) = runtime
        .run(async {
            let start = promise::<()>().await;
            let (one, two) = (start.future(), start.future());
            let first = spawn(async move {
                one.await.unwrap();
                now().await
            })
            .await;
            let second = spawn(async move {
                two.await.unwrap();
                std::thread::sleep(ms(3));
                now().await
            })
            .await;
            yield_now().await;
            start.complete(()).await.unwrap();
            let (first, second) = (first.await.unwrap(), second.await.unwrap());
            (first, second, now().await)
        })
        .unwrap();
    assert_eq!(first, second, "one round, one time");
    assert!(later.saturating_since(first) >= ms(3), "the next round's time is a new one");
}

/// "never goes back": not within a run, and not when its host tells it an earlier time.
#[test]
fn never_goes_back() {
    let times = TestScheduler::new()
        .run(async {
            let mut times = vec![now().await];
            for pause in [5, 0, 1] {
                sleep(ms(pause)).await;
                times.push(now().await);
                yield_now().await;
                times.push(now().await);
            }
            times
        })
        .unwrap();
    assert!(times.is_sorted(), "{times:?}");

    struct Nothing;
    impl tiffany_kernel::Coroutine for Nothing {
        fn resume(
            self: std::pin::Pin<&mut Self>,
            _: &tiffany_kernel::Port,
        ) -> tiffany_kernel::Step {
            tiffany_kernel::Step::Done(tiffany::Value::Unit)
        }
    }
    let config = tiffany_kernel::RunConfig::default();
    let at = Time::from_nanos;
    let mut run = tiffany_kernel::Run::new(tiffany::RunId(1), Box::pin(Nothing), config, at(100));
    run.set_clock(at(50));
    assert_eq!(run.clock(), at(100));
    run.advance(at(99));
    assert_eq!(run.clock(), at(100));
    run.set_clock(at(101));
    assert_eq!(run.clock(), at(101));
}

/// "and is what Now, Sleep, SleepUntil and timeouts read": with a virtual clock all four agree to the
/// nanosecond, and no real time passes.
#[test]
fn is_what_all_calls_read() {
    let started = std::time::Instant::now();
    TestScheduler::new()
        .run(async {
            assert_eq!(now().await, Time::ZERO);
            sleep(secs(3600)).await;
            assert_eq!(now().await, Time::from_nanos(3_600_000_000_000));
            sleep_until(Time::from_nanos(7_200_000_000_007)).await;
            assert_eq!(now().await, Time::from_nanos(7_200_000_000_007));
            let late = timeout(secs(1), sleep(secs(2))).await;
            assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(now().await, Time::from_nanos(7_201_000_000_007));
            assert_eq!(timeout(secs(2), sleep(secs(1))).await, Ok(()));
            assert_eq!(now().await, Time::from_nanos(7_202_000_000_007));
            sleep_secs(0.5).await;
            assert_eq!(now().await, Time::from_nanos(7_202_500_000_007));
        })
        .unwrap();
    assert!(started.elapsed() < secs(60));
}

/// "is what Now, Sleep, SleepUntil and timeouts read": a sleeper is not woken a nanosecond too early.
#[test]
fn not_a_nanosecond_too_early() {
    let mut test = TestScheduler::new();
    let run = test.start(sleep(secs(1)));
    test.step_until_idle();
    test.advance(secs(1) - Duration::from_nanos(1));
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)).unwrap().to_string(), "Blocked(sleep)");
    test.advance(Duration::from_nanos(1));
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)), Some(TaskState::Completed));
    test.finish(run).unwrap();
}

/// "Timers fire by (deadline, order of arming)": the order of the tasks does not matter, and ties go to
/// the one that was armed first, whichever way it was armed.
#[test]
fn fire_by_deadline_then_order_of_arming() {
    for (delays, order) in [
        (vec![3, 1, 2], vec![1, 2, 0]),
        (vec![1, 1, 1, 1], vec![0, 1, 2, 3]),
        (vec![2, 1, 2, 1, 2], vec![1, 3, 0, 2, 4]),
        (vec![0, 1, 0], vec![0, 2, 1]),
    ] {
        let notes = Notes::new();
        let seen = notes.clone();
        let table = delays.clone();
        TestScheduler::new()
            .run(async move {
                for (n, delay) in table.into_iter().enumerate() {
                    let notes = notes.clone();
                    drop(
                        spawn(async move {
                            let deadline = Time::from_nanos(delay * 1_000_000);
                            match n % 2 {
                                0 => sleep(ms(delay)).await,
                                _ if delay == 0 => yield_now().await,
                                _ => sleep_until(deadline).await,
                            }
                            notes.add(n);
                        })
                        .await,
                    );
                }
            })
            .unwrap();
        assert_eq!(seen.take(), order, "{delays:?}");
    }
}

/// "Timers fire by (deadline, order of arming)": armed later for an earlier deadline fires first; in one
/// task, the order in which its calls were made is the order of arming.
#[test]
fn ties_in_one_task() {
    let notes = Notes::new();
    let seen = notes.clone();
    TestScheduler::new()
        .run(async move {
            let note = |n: u32, time: Duration| {
                let notes = notes.clone();
                async move {
                    sleep(time).await;
                    notes.add(n);
                }
            };
            join!(note(1, ms(2)), note(2, ms(1)), note(3, ms(2)), note(4, ms(1)));
        })
        .unwrap();
    assert_eq!(seen.take(), [2, 4, 1, 3]);
}

/// "Every system call is a scheduling point": a sleep of zero lets the others run, and takes no time.
#[test]
fn a_sleep_of_zero() {
    let notes = Notes::new();
    let seen = notes.clone();
    TestScheduler::new()
        .run(async move {
            let other = notes.clone();
            drop(spawn(async move { other.add("other") }).await);
            sleep(Duration::ZERO).await;
            notes.add("sleeper");
            assert_eq!(now().await, Time::ZERO);
        })
        .unwrap();
    assert_eq!(seen.take(), ["other", "sleeper"]);
}

/// "SleepUntil": until a time that has passed is over at once, and the clock does not go back.
#[test]
fn a_sleep_until_the_past() {
    TestScheduler::new()
        .run(async {
            sleep(secs(10)).await;
            for past in [Time::ZERO, Time::from_nanos(5), now().await] {
                sleep_until(past).await;
                assert_eq!(now().await, Time::from_nanos(10_000_000_000));
            }
        })
        .unwrap();
}

/// "SleepUntil": until the last moment there is can be waited for; it is no error and no overflow.
#[test]
fn a_sleep_until_the_end_of_time() {
    let mut test = TestScheduler::new();
    let end = Time::from_nanos(u64::MAX);
    let woke = test.run(async move {
        sleep_until(end).await;
        now().await
    });
    assert_eq!(woke.unwrap(), end);
}

/// "Errors give the line of the call": a duration the clock cannot hold is an error at its call, and
/// the task can catch it and go on.
#[test]
fn durations_that_are_none() {
    TestScheduler::new()
        .run(async {
            sleep(secs(1)).await;
            let line = line!() + 1;
            let error = sleep(Duration::MAX).checked().await.unwrap_err();
            assert_names(&error, "TFY0013", Tid(1), "sleep", line);
            for seconds in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.000_001] {
                let line = line!() + 1;
                let error = sleep_secs(seconds).checked().await.unwrap_err();
                assert_names(&error, "TFY0013", Tid(1), "sleep", line);
            }
            for seconds in [0.0, -0.0, 1e-12] {
                assert_eq!(sleep_secs(seconds).checked().await, Ok(()), "{seconds}");
            }
            assert_eq!(now().await, Time::from_nanos(1_000_000_000));
        })
        .unwrap();
}

/// "Errors give the line of the call": a timeout that the clock cannot hold, and one that passes.
#[test]
fn timeouts_say_where() {
    TestScheduler::new()
        .run(async {
            let line = line!() + 1;
            let late = timeout(ms(1), sleep(ms(2))).await.unwrap_err();
            assert_names(&late, "TFY0028", Tid(1), "timeout", line);
            sleep(ms(1)).await;
            let line = line!() + 1;
            let none = timeout(Duration::MAX, sleep(ms(2))).await.unwrap_err();
            assert_names(&none, "TFY0013", Tid(1), "sleep", line);
        })
        .unwrap();
}
