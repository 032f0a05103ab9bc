//! Named queues: how many at once, how often, and who leaves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tiffany::durable::{QueueSettings, Rate, Retry, step};
use tiffany::testing::TestScheduler;
use tiffany::{
    Builder, Runtime, TaskError, Time, cancel, gather, now, sleep, spawn, timeout, try_spawn,
};

use super::{Dir, effects, ms};

fn at_once(count: usize) -> QueueSettings {
    QueueSettings { concurrency: Some(count), rate: None }
}

#[test]
fn no_more_at_once_than_the_queue_allows() {
    static NOW: AtomicU32 = AtomicU32::new(0);
    static MAX_RUNNING: AtomicU32 = AtomicU32::new(0);
    let mut runtime = Runtime::builder().queue("two", at_once(2)).build().unwrap();
    // Steps of all runs stand in it.
    let runs: Vec<_> = (0..4)
        .map(|_| {
            runtime.try_start(async {
                let mut tasks = Vec::new();
                for _ in 0..2 {
                    let work = step("work", || {
                        let now = NOW.fetch_add(1, Ordering::SeqCst) + 1;
                        MAX_RUNNING.fetch_max(now, Ordering::SeqCst);
                        std::thread::sleep(ms(10));
                        NOW.fetch_sub(1, Ordering::SeqCst);
                        Ok::<u32, String>(now)
                    });
                    tasks.push(try_spawn(work.queue("two").into_future()).await);
                }
                gather(tasks).await
            })
        })
        .collect();
    for run in runs {
        runtime.finish(run).unwrap();
    }
    assert_eq!(MAX_RUNNING.load(Ordering::SeqCst), 2);
}

#[test]
fn no_more_often_than_the_queue_allows() {
    let rate = Some(Rate { starts: 2, per: Duration::from_secs(10) });
    let settings = QueueSettings { concurrency: None, rate };
    let mut test = TestScheduler::unwatched(Builder::new().queue("slow", settings));
    let ends = test.try_run(async {
        let mut tasks = Vec::new();
        for _ in 0..5 {
            let task = try_spawn(async {
                step("work", || Ok::<u32, String>(1)).queue("slow").await?;
                Ok::<_, TaskError>(now().await.saturating_since(Time::ZERO).as_secs())
            });
            tasks.push(task.await);
        }
        gather(tasks).await
    });
    assert_eq!(ends.unwrap(), [0, 0, 10, 10, 20]);
}

#[test]
fn a_step_is_said_to_begin_when_it_leaves_its_queue() {
    async fn work(_: ()) -> Result<Vec<u32>, TaskError> {
        let mut tasks = Vec::new();
        for n in 0..3 {
            let work = step("work", move || Ok::<u32, String>(n));
            tasks.push(try_spawn(work.queue("one").into_future()).await);
        }
        gather(tasks).await
    }
    let dir = Dir::new();
    let builder = dir.builder().queue("one", at_once(1));
    let mut runtime = builder.register("work", work).build().unwrap();
    let run = runtime.submit::<Vec<u32>>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), [0, 1, 2]);
    drop(runtime);
    let turns = ["Start 1", "Result"].repeat(3);
    assert_eq!(effects(&dir.log()), turns);
}

#[test]
fn a_step_that_is_cancelled_in_its_queue_never_begins() {
    static DONE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    async fn work(_: ()) -> Result<(), TaskError> {
        let one = |n: u32, millis| {
            let work = step("work", move || {
                std::thread::sleep(ms(millis));
                DONE.lock().unwrap().push(n);
                Ok::<(), String>(())
            });
            work.queue("one")
        };
        let first = spawn(one(1, 60).into_future()).await;
        let second = spawn(one(2, 0).into_future()).await;
        let third = spawn(one(3, 0).into_future()).await;
        sleep(ms(10)).await;
        cancel(&second).await;
        first.await??;
        third.await??;
        Ok(())
    }
    let dir = Dir::new();
    let builder = dir.builder().queue("one", at_once(1));
    let mut runtime = builder.register("work", work).build().unwrap();
    let run = runtime.submit::<()>("work", "a", &()).unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    assert_eq!(*DONE.lock().unwrap(), [1, 3]);
    assert_eq!(effects(&dir.log()), ["Start 1", "Result"].repeat(2));
}

#[test]
fn a_step_that_is_given_up_or_waits_for_its_retry_leaves_its_place_to_others() {
    let mut runtime = Runtime::builder().queue("one", at_once(1)).build().unwrap();
    let order = runtime.try_run(async {
        let slow = step("slow", || {
            std::thread::sleep(ms(300));
            Ok::<u32, String>(1)
        });
        let began = now().await;
        assert!(timeout(ms(20), slow.queue("one")).await.is_err());
        let failing = step("failing", || Err::<u32, _>("no")).queue("one");
        let failing = spawn(failing.retry(Retry::times(2).first(ms(200))).into_future()).await;
        sleep(ms(20)).await;
        let quick = step("quick", || Ok::<u32, String>(2)).queue("one").await?;
        let took = now().await.saturating_since(began);
        assert!(took < ms(180), "it waited for the others: {took:?}");
        assert!(failing.await?.is_err());
        Ok::<u32, TaskError>(quick)
    });
    assert_eq!(order.unwrap(), 2);
}

#[test]
fn an_unknown_queue_is_an_error() {
    let error =
        tiffany::try_run(async { step("work", || Ok::<u32, String>(1)).queue("nowhere").await });
    let error = error.unwrap_err();
    assert_eq!(error.code(), "TFY0032");
    assert!(error.to_string().contains("there is no queue `nowhere`"), "{error}");
}
