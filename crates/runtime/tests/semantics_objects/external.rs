//! ExternalPromise. Other threads are real here; the run's clock is virtual all the same.

use std::sync::{Arc, Barrier};
use std::thread;

use tiffany::testing::TestScheduler;
use tiffany::{
    ErrorKind, EventKind, ExternalPromise, Future, Runtime, Settlement, Uuid, external_promise,
    sleep, spawn, yield_now,
};

use super::{assert_ends_with_next_step, secs};

#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Before,
    During,
    After,
}

/// "settled from any thread": before the wait begins, while it lasts, and (too late to be told twice)
/// after it, when a new waiter still gets the value.
#[test]
fn settled_before_during_and_after_the_wait() {
    for when in [When::Before, When::During, When::After] {
        let value = TestScheduler::new().run(async move {
            let promise = external_promise::<u32>().await;
            let complete = |promise: &ExternalPromise<u32>, value| {
                let promise = promise.clone();
                thread::spawn(move || promise.complete(value)).join().unwrap().unwrap()
            };
            let future = promise.future();
            if when == When::Before {
                assert_eq!(complete(&promise, 1), Settlement::Accepted);
                yield_now().await;
            }
            let waiter = spawn(wait_for(future)).await;
            yield_now().await;
            if when != When::Before {
                assert_eq!(complete(&promise, 1), Settlement::Accepted);
            }
            let first = waiter.await.unwrap();
            if when == When::After {
                assert_eq!(promise.future().await, Ok(1));
                assert_eq!(complete(&promise, 2), Settlement::Ignored);
                yield_now().await;
                assert_eq!(promise.future().await, Ok(1));
            }
            first
        });
        assert_eq!(value.unwrap(), 1, "{when:?}");
    }
}

async fn wait_for(future: Future<u32>) -> u32 {
    future.await.unwrap()
}

/// "settled from any thread": with an error, too, which is what its waiters get.
#[test]
fn failed_from_a_thread() {
    let error = TestScheduler::new()
        .run(async {
            let promise = external_promise::<u32>().await;
            let failing = promise.clone();
            thread::spawn(move || failing.fail("the person said no")).join().unwrap().unwrap();
            promise.future().await.unwrap_err()
        })
        .unwrap();
    assert_eq!(error.message(), "the person said no");
    assert_eq!(error.kind(), ErrorKind::Failed);
}

/// "settled from any thread or process by its UUID": whoever has the UUID as text can settle it.
#[test]
fn settled_by_its_uuid() {
    let mut runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let value = runtime.try_run(async move {
        let promise = external_promise::<String>().await;
        let text = promise.uuid().to_string();
        thread::spawn(move || {
            let uuid = Uuid::parse(&text).unwrap();
            assert_eq!(handle.complete(uuid, text), Ok(Settlement::Accepted));
        });
        let uuid = promise.uuid().to_string();
        promise.future().await.map(|answer| answer == uuid)
    });
    assert!(value.unwrap());
}

/// "by its UUID (random": no two are the same, in one run or in different runtimes.
#[test]
fn uuids_are_random() {
    let draw = || {
        let all = tiffany::run(async {
            let mut all = Vec::new();
            for _ in 0..100 {
                all.push(external_promise::<()>().await.uuid());
            }
            all
        });
        all.unwrap()
    };
    let mut all = [draw(), draw()].concat();
    assert!(all.iter().all(|uuid| uuid.to_string().as_bytes()[14] == b'4'), "version 4");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 200);
}

/// "the first answer wins": of many threads that answer at once exactly one is accepted, and its answer
/// is the one the waiter gets.
#[test]
fn many_threads_at_once() {
    const THREADS: usize = 4;
    let mut runtime = Runtime::new().unwrap();
    for _ in 0..300 {
        let (value, threads) = runtime
            .run(async {
                let promise = external_promise::<usize>().await;
                let barrier = Arc::new(Barrier::new(THREADS));
                let threads: Vec<_> = (0..THREADS)
                    .map(|n| {
                        let (promise, barrier) = (promise.clone(), Arc::clone(&barrier));
                        thread::spawn(move || {
                            barrier.wait();
                            promise.complete(n)
                        })
                    })
                    .collect();
                (promise.future().await.unwrap(), threads)
            })
            .unwrap();
        let accepted: Vec<usize> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .enumerate()
            .filter(|(_, settled)| *settled == Ok(Settlement::Accepted))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(accepted, [value], "the accepted answer is the one that counts");
    }
}

/// "later ones are ignored and counted": the value stays, the run counts them and the trace shows them.
#[test]
fn later_answers_are_ignored_and_counted() {
    let mut test = TestScheduler::new();
    let handle = test.runtime().handle();
    let run = test.start(async {
        let promise = external_promise::<u32>().await;
        let value = promise.future().await;
        sleep(secs(1)).await;
        (value, promise.future().await)
    });
    let id = run.id();
    test.step_until_idle();
    let uuid = Uuid::from_random(1);
    assert_eq!(handle.complete(uuid, 1u32), Ok(Settlement::Accepted));
    assert_eq!(handle.complete(uuid, 2u32), Ok(Settlement::Ignored));
    assert_eq!(handle.fail(uuid, "too late"), Ok(Settlement::Ignored));
    test.step_until_idle();
    assert_eq!(test.counts(id).settled_again, 2);
    let trace = test.trace();
    let shown = trace.events().iter().filter(|e| matches!(e.kind, EventKind::Ignored(_)));
    assert_eq!(shown.count(), 2);
    let (first, later) = test.finish(run).unwrap();
    assert_eq!((first, later), (Ok(1), Ok(1)));
}

/// "by its UUID": one that nobody has is an error to whoever tries to settle it, and changes nothing.
#[test]
fn unknown_uuid() {
    let mut runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let nobodys = Uuid::from_random(12345);
    for result in [handle.complete(nobodys, 1u32), handle.fail(nobodys, "no")] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownPromise);
        assert!(error.message().contains(&nobodys.to_string()), "{error}");
        assert_ends_with_next_step(&error);
    }
    assert_eq!(runtime.run(async { 1 }).unwrap(), 1);
}

/// "by its UUID": after the end of its run a promise is unknown, by UUID and by handle.
#[test]
fn after_the_end_of_its_run() {
    let mut runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let promise = runtime.run(async { external_promise::<u32>().await }).unwrap();
    let by_uuid = handle.complete(promise.uuid(), 1u32).unwrap_err();
    let by_handle = promise.complete(1).unwrap_err();
    assert_eq!(by_uuid.kind(), ErrorKind::UnknownPromise);
    assert_eq!(by_handle.kind(), ErrorKind::UnknownPromise);
    assert_eq!(runtime.run(async { 2 }).unwrap(), 2);
}

/// "the first answer wins": an answer of the wrong type is an error in the waiter, which names both.
#[test]
fn an_answer_of_the_wrong_type() {
    let mut runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let error = runtime
        .run(async move {
            let promise = external_promise::<u32>().await;
            handle.complete(promise.uuid(), "text".to_string()).unwrap();
            promise.future().await.unwrap_err()
        })
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::WrongType);
    assert!(error.message().contains("u32") && error.message().contains("String"), "{error}");
}
