//! What the work of a step keeps for its next attempt, and what it shows while it goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tiffany::durable::{Retry, Spawner, StepError, step_async, step_with};
use tiffany::{ErrorKind, Runtime, TaskError, sleep};

use super::{Dir, effects, ms};

/// Waits until this is so.
fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come about");
        std::thread::sleep(ms(1));
    }
}

fn again(times: u64) -> Retry {
    Retry::times(times).first(ms(1))
}

/// Counts to five, and keeps each number. Fails once in the middle. What it gives is where each attempt began.
async fn count(_: ()) -> Result<Vec<(u64, u64)>, TaskError> {
    let counts = step_with("count", |attempt| {
        let (mut begun, from) = attempt.last_checkpoint()?.unwrap_or((Vec::new(), 0));
        begun.push((attempt.number(), from));
        for number in from..5 {
            attempt.checkpoint(&(&begun, number + 1))?;
            if number == 2 && attempt.number() == 1 {
                return Err(StepError::from("tired"));
            }
        }
        Ok(begun)
    });
    counts.retry(again(2)).await
}

#[test]
fn the_next_attempt_goes_on_where_the_last_one_was() {
    let given = tiffany::try_run(count(())).unwrap();
    assert_eq!(given, [(1, 0), (2, 3)]);
}

#[test]
fn a_checkpoint_is_in_the_log_and_there_after_a_crash() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("count", count).build().unwrap();
    let run = runtime.submit::<Vec<(u64, u64)>>("count", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), [(1, 0), (2, 3)]);
    drop(runtime);
    let log = dir.log();
    let all: Vec<String> = effects(&log);
    let expected = [
        "Start 1", "Kept 1", "Kept 1", "Kept 1", "Failed 1", "Start 2", "Kept 2", "Kept 2",
        "Result",
    ];
    assert_eq!(all, expected);
    // Cut off after each of them: the attempt that was cut off is made again, from what it had kept.
    for (nth, expected) in [
        (1, vec![(1, 0), (2, 1)]),
        (2, vec![(1, 0), (2, 2)]),
        (3, vec![(1, 0), (2, 3)]),
        (4, vec![(1, 0), (2, 3), (3, 4)]),
        (5, vec![(1, 0), (2, 3), (3, 5)]),
    ] {
        let cut = dir.cut_after(nth, "EffectCheckpoint");
        let mut runtime = cut.builder().register("count", count).build().unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), expected, "cut after {nth}");
    }
    // A run that is over is read past them.
    let mut runtime = dir.builder().register("count", count).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), [(1, 0), (2, 3)]);
}

#[test]
fn it_is_safe_when_the_work_goes_on() {
    let dir = Dir::new();
    let commit = dir.0.join("commit");
    let safe = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&safe);
    let work = move |()| {
        let (commit, seen) = (commit.clone(), Arc::clone(&seen));
        async move {
            let step = step_with("keep", move |attempt| {
                for word in ["one-checkpoint", "another-checkpoint"] {
                    attempt.checkpoint(&word)?;
                    let is_there = std::fs::read_dir(&commit)?.any(|file| {
                        let bytes = std::fs::read(file.unwrap().path()).unwrap();
                        memchr::memmem::find(&bytes, word.as_bytes()).is_some()
                    });
                    seen.lock().unwrap().push(is_there);
                }
                Ok::<_, StepError>(())
            });
            step.await
        }
    };
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<()>("work", "a", &()).unwrap();
    runtime.wait_for(&run).unwrap();
    assert_eq!(*safe.lock().unwrap(), [true, true]);
}

#[test]
fn a_future_keeps_its_checkpoints_too() {
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let handle = tokio.handle().clone();
    let spawner = Spawner::new(move |future| drop(handle.spawn(future)));
    let dir = Dir::new();
    let work = move |()| {
        let spawner = spawner.clone();
        async move {
            let step = step_async("count", &spawner, |attempt| async move {
                let from: u64 = attempt.last_checkpoint()?.unwrap_or(0);
                for number in from..4 {
                    attempt.checkpoint_async(&(number + 1)).await?;
                    if number == 1 && attempt.number() == 1 {
                        return Err(StepError::from("tired"));
                    }
                }
                Ok(from)
            });
            step.retry(again(2)).await
        }
    };
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<u64>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 2);
    drop(runtime);
    let expected =
        ["Start 1", "Kept 1", "Kept 1", "Failed 1", "Start 2", "Kept 2", "Kept 2", "Result"];
    assert_eq!(effects(&dir.log()), expected);
}

#[test]
fn one_that_comes_too_late_is_dropped_and_counted_and_its_work_is_told() {
    static TOLD: Mutex<Option<String>> = Mutex::new(None);
    static SECOND_RUNS: AtomicBool = AtomicBool::new(false);
    async fn work(_: ()) -> Result<Option<u64>, TaskError> {
        let slow_at_first = step_with("slow at first", |attempt| {
            if attempt.number() == 1 {
                attempt.checkpoint(&1)?;
                until(|| SECOND_RUNS.load(Ordering::SeqCst));
                assert!(attempt.is_given_up());
                let error = attempt.checkpoint(&2).unwrap_err();
                *TOLD.lock().unwrap() = Some(error.error().to_string());
                return Err(error);
            }
            SECOND_RUNS.store(true, Ordering::SeqCst);
            until(|| TOLD.lock().unwrap().is_some());
            attempt.last_checkpoint::<u64>()
        });
        slow_at_first.timeout(ms(200)).retry(again(2)).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<Option<u64>>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), Some(1));
    let began = Instant::now();
    while runtime.late_results() == 0 && began.elapsed() < Duration::from_secs(10) {
        runtime.run(sleep(ms(5))).unwrap();
    }
    assert_eq!((runtime.late_checkpoints(), runtime.late_results()), (1, 1));
    drop(runtime);
    let told = TOLD.lock().unwrap().take().unwrap();
    assert!(told.contains("no task waits for attempt 1 any more"), "{told}");
    assert_eq!(effects(&dir.log()), ["Start 1", "Kept 1", "Failed 1", "Start 2", "Result"]);
}

#[test]
fn a_runtime_that_goes_leaves_no_work_waiting() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let dir = Dir::new();
    let work = move |()| {
        let tell = tell.lock().unwrap().clone();
        let tell = Mutex::new(tell);
        async move {
            let step = step_with("work", move |attempt| {
                let tell = tell.lock().unwrap();
                tell.send("began".to_string()).unwrap();
                until(|| attempt.is_given_up());
                let error = attempt.checkpoint(&1).unwrap_err();
                tell.send(error.error().to_string()).unwrap();
                Err::<(), _>(error)
            });
            step.await
        }
    };
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    runtime.submit::<()>("work", "a", &()).unwrap();
    while told.try_recv().is_err() {
        runtime.run(sleep(ms(5))).unwrap();
    }
    drop(runtime);
    let told = told.recv_timeout(Duration::from_secs(10)).expect("it does not wait for ever");
    assert!(told.contains("no task waits for attempt 1 any more"), "{told}");
}

#[test]
fn a_checkpoint_of_another_form_is_an_error_that_is_not_tried_again() {
    static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
    let error = tiffany::run(async {
        let step = step_with("odd", |attempt| {
            ATTEMPTS.fetch_add(1, Ordering::SeqCst);
            if attempt.number() == 1 {
                attempt.checkpoint(&"a text")?;
                return Err(StepError::from("tired"));
            }
            Ok(attempt.last_checkpoint::<u64>()?.unwrap_or(0))
        });
        step.retry(again(5)).await.unwrap_err()
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::Unreadable);
    assert_eq!(ATTEMPTS.load(Ordering::SeqCst), 2);
}

#[test]
fn chunks_come_in_order_and_are_not_in_the_log() {
    let (tell, told) = mpsc::channel();
    let dir = Dir::new();
    let watch = move |chunk: &tiffany::durable::Chunk| {
        let value = chunk.value::<String>().unwrap();
        tell.send((chunk.key.to_string(), chunk.step, chunk.attempt, chunk.number, value)).unwrap();
    };
    let talk = |_: ()| async {
        let step = step_with("talk", |attempt| {
            for word in ["to", "be"] {
                attempt.chunk(&word)?;
            }
            match attempt.number() {
                1 => Err(StepError::from("tired")),
                number => Ok(number),
            }
        });
        step.retry(again(2)).await
    };
    let mut runtime = dir.builder().on_chunk(watch).register("talk", talk).build().unwrap();
    let run = runtime.submit::<u64>("talk", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 2);
    drop(runtime);
    let told: Vec<_> = (0..4).map(|_| told.recv_timeout(ms(10_000)).unwrap()).collect();
    let heard: Vec<(u64, u64, &str)> =
        told.iter().map(|(_, _, attempt, number, word)| (*attempt, *number, &**word)).collect();
    assert_eq!(heard, [(1, 1, "to"), (1, 2, "be"), (2, 1, "to"), (2, 2, "be")]);
    assert!(
        told.iter()
            .all(|(key, step, ..)| key.starts_with(&run.uuid().to_string()) && *step == "talk")
    );
    assert_eq!(effects(&dir.log()), ["Start 1", "Failed 1", "Start 2", "Result"]);
}

#[test]
fn who_watches_and_hangs_does_not_hold_up_the_work() {
    static LET_GO: AtomicBool = AtomicBool::new(false);
    let mut runtime =
        Runtime::builder().on_chunk(|_| until(|| LET_GO.load(Ordering::SeqCst))).build().unwrap();
    let shown: u64 = runtime
        .try_run(async {
            let step = step_with("talk", |attempt| {
                for number in 0..10_000_u64 {
                    attempt.chunk(&number)?;
                }
                Ok::<_, StepError>(10_000)
            });
            step.await
        })
        .unwrap();
    LET_GO.store(true, Ordering::SeqCst);
    assert_eq!(shown, 10_000);
}
