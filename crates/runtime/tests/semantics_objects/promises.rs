//! Promises. A promise is settled once; its futures can be waited for, gathered and raced.

use tiffany::testing::TestScheduler;
use tiffany::{
    ErrorKind, Future, Promise, TaskError, Tid, cancel, gather, promise, race, sleep, spawn,
    try_spawn, wait, yield_now,
};

use super::{Notes, assert_names, secs};

#[derive(Clone, Copy, Debug)]
enum Settle {
    Complete(u32),
    Fail(&'static str),
}

async fn settle(promise: &Promise<u32>, how: Settle) -> Result<(), TaskError> {
    match how {
        Settle::Complete(value) => promise.complete(value).await,
        Settle::Fail(why) => promise.fail(TaskError::failed(why)).await,
    }
}

async fn read(future: Future<u32>) -> Result<u32, String> {
    future.await.map_err(|error| error.message().to_string())
}

/// "a Future (read side of a Promise or ExternalPromise)" is what Wait, Gather and Race take; who waits
/// before and who waits after it was settled get the same.
#[test]
fn is_waited_for_gathered_and_raced() {
    for how in [Settle::Complete(7), Settle::Fail("no")] {
        let expected = match how {
            Settle::Complete(value) => Ok(value),
            Settle::Fail(why) => Err(why.to_string()),
        };
        let mut test = TestScheduler::new();
        let results = test.run(async move {
            let promise = promise::<u32>().await;
            let (a, b, c) = (promise.future(), promise.future(), promise.future());
            let text = |error: TaskError| error.message().to_string();
            let early = spawn(read(a)).await;
            let gathered =
                spawn(async move { gather([b]).await.map(|all| all[0]).map_err(text) }).await;
            let raced =
                spawn(async move { race([c]).await.map(|won| won.value).map_err(text) }).await;
            yield_now().await;
            settle(&promise, how).await.unwrap();
            let late = read(promise.future()).await;
            vec![early.await.unwrap(), gathered.await.unwrap(), raced.await.unwrap(), late]
        });
        assert_eq!(results.unwrap(), vec![expected; 4], "{how:?}");
    }
}

/// "settling one twice is an error the caller can catch, and the first value stays". All four ways to do
/// it, with a waiter from before and one from after.
#[test]
fn settled_twice() {
    let (value, other) = (Settle::Complete(1), Settle::Complete(2));
    let (error, another) = (Settle::Fail("first"), Settle::Fail("second"));
    for (first, second, stays) in [
        (value, other, Ok(1)),
        (value, another, Ok(1)),
        (error, other, Err("first".to_string())),
        (error, another, Err("first".to_string())),
    ] {
        let mut test = TestScheduler::new();
        let (again, early, late) = test
            .run(async move {
                let promise = promise::<u32>().await;
                let early = spawn(read(promise.future())).await;
                settle(&promise, first).await.unwrap();
                let again = settle(&promise, second).await.unwrap_err();
                (again, early.await.unwrap(), read(promise.future()).await)
            })
            .unwrap();
        assert_eq!(again.kind(), ErrorKind::AlreadySettled, "{first:?} then {second:?}");
        assert_eq!((early, late), (stays.clone(), stays), "{first:?} then {second:?}");
    }
}

/// "an error the caller can catch": one that does not ends with it, alone; waiters keep the first value.
#[test]
fn settled_twice_and_not_caught() {
    let mut test = TestScheduler::new();
    test.run(async {
        let promise = promise::<u32>().await;
        let future = promise.future();
        let line = line!() + 3;
        let culprit = try_spawn(async move {
            promise.complete(1).await?;
            promise.complete(2).await?;
            Ok::<(), TaskError>(())
        })
        .await;
        assert_eq!(future.await, Ok(1));
        let error = culprit.await.unwrap_err();
        assert_names(&error, "TFY0009", Tid(2), "complete_promise", line);
    })
    .unwrap();
}

/// "and the first value stays": also when the task that settled it then panics, or is cancelled.
#[test]
fn completed_by_a_task_that_then_dies() {
    let mut test = TestScheduler::new();
    test.run(async {
        let promise = promise::<u32>().await;
        let future = promise.future();
        let panics = spawn(async move {
            promise.complete(5).await.unwrap();
            panic!("after the promise was completed");
        })
        .await;
        assert_eq!(panics.await.unwrap_err().kind(), ErrorKind::Panicked);
        assert_eq!(future.await, Ok(5));
    })
    .unwrap();
    let mut test = TestScheduler::new();
    test.run(async {
        let promise = promise::<u32>().await;
        let future = promise.future();
        let cancelled = spawn(async move {
            promise.complete(6).await.unwrap();
            sleep(secs(3600)).await;
        })
        .await;
        assert_eq!(wait(&future).await, Ok(6));
        cancel(&cancelled).await;
        assert!(cancelled.await.unwrap_err().is_cancelled());
        assert_eq!(future.await, Ok(6));
    })
    .unwrap();
}

/// "and the first value stays": the waiters of one promise are told in the order they began to wait.
#[test]
fn waiters_are_told_in_order() {
    let notes = Notes::new();
    let seen = notes.clone();
    TestScheduler::new()
        .run(async move {
            let promise = promise::<u32>().await;
            let mut readers = Vec::new();
            for n in 0..5 {
                let (future, notes) = (promise.future(), notes.clone());
                readers.push(
                    spawn(async move {
                        future.await.unwrap();
                        notes.add(n);
                    })
                    .await,
                );
            }
            promise.complete(1).await.unwrap();
            gather(readers).await.unwrap();
        })
        .unwrap();
    assert_eq!(seen.take(), [0, 1, 2, 3, 4]);
}

/// "Never a panic, never a spin": a promise that is dropped unsettled can never be settled, so its
/// waiters are told at once (TFY0026), however its write side went: dropped, panicked, cancelled or left
/// in a result that nobody takes.
#[test]
fn abandoned() {
    type Ending = fn(Promise<u32>) -> std::pin::Pin<Box<dyn std::future::Future<Output = ()>>>;
    let endings: [(&str, Ending); 4] = [
        ("dropped", |promise| Box::pin(async { drop(promise) })),
        ("panicked", |promise| {
            Box::pin(async move {
                let _held = promise;
                panic!("with an unsettled promise");
            })
        }),
        ("cancelled", |promise| {
            Box::pin(async move {
                let task = spawn(async move {
                    let _held = promise;
                    sleep(secs(3600)).await;
                })
                .await;
                yield_now().await;
                cancel(&task).await;
            })
        }),
        ("in a result", |promise| {
            Box::pin(async move {
                let task = spawn(async move { promise }).await;
                drop(task);
            })
        }),
    ];
    for (name, ending) in endings {
        let error = TestScheduler::new()
            .run(async move {
                let promise = promise::<u32>().await;
                let future = promise.future();
                drop(spawn(ending(promise)).await);
                future.await.unwrap_err()
            })
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(error.kind(), ErrorKind::Abandoned, "{name}");
    }
}
