//! Store and env. A task's state and log are its own; a child has a snapshot; the env is everybody's.

use std::cell::Cell;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    ErrorKind, RunError, Runtime, Tid, Value, ask, cancel, gather, get, get_log, put, sleep, spawn,
    tell, try_spawn, yield_now,
};

use super::{assert_names, secs};
use crate::allocated::allocated;

async fn log() -> Vec<u32> {
    get_log().await.into_iter().map(|entry| entry.get::<u32>().unwrap()).collect()
}

/// "Get, Put and Tell touch only the task's own store": what a child writes its parent never sees.
#[test]
fn the_parent_does_not_see_what_the_child_writes() {
    TestScheduler::new()
        .run(async {
            put("key", 1u32).await;
            tell(1u32).await;
            let child = spawn(async {
                put("key", 2u32).await;
                put("new", 2u32).await;
                tell(2u32).await;
                (get::<u32>("key").await, log().await)
            })
            .await;
            assert_eq!(child.await.unwrap(), (Some(2), vec![1, 2]));
            assert_eq!(get::<u32>("key").await, Some(1));
            assert_eq!(get::<u32>("new").await, None);
            assert_eq!(log().await, [1]);
        })
        .unwrap();
}

/// "Get, Put and Tell touch only the task's own store": what a parent writes after the spawn its child
/// never sees, even if the child has not run yet.
#[test]
fn the_child_does_not_see_what_the_parent_writes_later() {
    TestScheduler::new()
        .run(async {
            put("key", 1u32).await;
            tell(1u32).await;
            let child = spawn(async {
                let early = (get::<u32>("key").await, log().await);
                yield_now().await;
                yield_now().await;
                yield_now().await;
                (early, (get::<u32>("key").await, log().await))
            })
            .await;
            put("key", 2u32).await;
            tell(2u32).await;
            let ((early, early_log), (late, late_log)) = child.await.unwrap();
            assert_eq!((early, late), (Some(1), Some(1)));
            assert_eq!((early_log, late_log), (vec![1], vec![1]));
        })
        .unwrap();
}

/// "Get, Put and Tell touch only the task's own store": siblings share nothing but what was there before.
#[test]
fn siblings_are_isolated() {
    TestScheduler::new()
        .run(async {
            put("common", 0u32).await;
            let mut tasks = Vec::new();
            for n in 1..=3u32 {
                let task = async move {
                    put("own", n).await;
                    tell(n).await;
                    yield_now().await;
                    (get::<u32>("common").await, get::<u32>("own").await, log().await)
                };
                tasks.push(spawn(task).await);
            }
            let seen = gather(tasks).await.unwrap();
            let expected: Vec<_> = (1..=3).map(|n| (Some(0), Some(n), vec![n])).collect();
            assert_eq!(seen, expected);
        })
        .unwrap();
}

/// "Get, Put and Tell": a key of another type than asked for is an error at that line, which can be
/// caught; a key that is not there is `None`.
#[test]
fn a_key_of_another_type() {
    TestScheduler::new()
        .run(async {
            put("key", "text".to_string()).await;
            let line = line!() + 1;
            let error = get::<u32>("key").checked().await.unwrap_err();
            assert_names(&error, "TFY0021", Tid(1), "get", line);
            assert_eq!(get::<u32>("nothing").await, None);
            assert_eq!(get::<String>("key").await.as_deref(), Some("text"));
        })
        .unwrap();
}

/// "The child gets a snapshot of the parent's store in O(1) (persistent structures, never a copy per
/// switch)": measured in bytes allocated. A thousand spawns cost the same from a parent with ten entries
/// and from one with a million, and so do a thousand switches.
#[test]
fn a_snapshot_costs_the_same_whatever_the_size() {
    let cost = |entries: u32| {
        tiffany::run(async move {
            for n in 0..entries {
                tell(n).await;
            }
            for n in 0..entries / 10 {
                put(&format!("key {n}"), n).await;
            }
            // The run's own queue has what it needs.
            for _ in 0..200 {
                yield_now().await;
            }
            let mut tasks = Vec::with_capacity(1_000);
            let before = allocated();
            for _ in 0..1_000 {
                tasks.push(spawn(async { yield_now().await }).await);
            }
            let spawned = allocated();
            for _ in 0..1_000 {
                yield_now().await;
            }
            (spawned - before, allocated() - spawned)
        })
        .unwrap()
    };
    // So has the thread, after a first run.
    cost(10);
    let (small, large) = (cost(10), cost(1_000_000));
    assert_eq!(small, large);
}

/// "Ask reads the shared env": every task of the run, whatever its depth, reads the same value.
#[test]
fn ask_reads_the_shared_env() {
    let shared = Rc::new("config".to_string());
    let settings = Runtime::builder().env("config", Rc::clone(&shared)).env("n", 5u32);
    let mut test = TestScheduler::with(settings);
    test.try_run(async move {
        let child = try_spawn(async {
            let grandchild = try_spawn(ask::<Rc<String>>("config")).await;
            grandchild.await
        })
        .await;
        assert!(Rc::ptr_eq(&child.await?, &shared));
        assert!(Rc::ptr_eq(&ask::<Rc<String>>("config").await?, &shared));
        assert_eq!(ask::<u32>("n").await?, 5);
        Ok::<(), tiffany::TaskError>(())
    })
    .unwrap();
}

/// "`env` is shared and read-only": what a task puts under the same key is its own affair.
#[test]
fn env_is_read_only() {
    let mut test = TestScheduler::with(Runtime::builder().env("key", 1u32));
    test.run(async {
        put("key", 2u32).await;
        assert_eq!(ask::<u32>("key").await, Ok(1));
        assert_eq!(get::<u32>("key").await, Some(2));
    })
    .unwrap();
}

/// "Ask reads the shared env": a key it does not have is an error that names it and those it has.
#[test]
fn a_key_the_env_does_not_have() {
    let mut test = TestScheduler::with(Runtime::builder().env("host", 1u32));
    test.run(async {
        let line = line!() + 1;
        let error = ask::<u32>("hots").await.unwrap_err();
        assert_names(&error, "TFY0022", Tid(1), "ask", line);
        assert!(error.message().contains("hots") && error.message().contains("host"), "{error}");
        let line = line!() + 1;
        let error = ask::<String>("host").await.unwrap_err();
        assert_names(&error, "TFY0021", Tid(1), "ask", line);
    })
    .unwrap();
}

/// "what it resolves is resolved once for all": not before it is asked for, once although many ask at
/// the same time, and never again.
#[test]
fn resolved_once_for_all() {
    let resolved = Rc::new(Cell::new(0));
    let count = Rc::clone(&resolved);
    let settings = Runtime::builder().env_with("slow", move || {
        let count = Rc::clone(&count);
        async move {
            count.set(count.get() + 1);
            sleep(secs(1)).await;
            Rc::new(count.get())
        }
    });
    let mut test = TestScheduler::with(settings);
    let before = Rc::clone(&resolved);
    test.run(async move {
        yield_now().await;
        assert_eq!(before.get(), 0, "lazy");
        let mut askers = Vec::new();
        for _ in 0..10 {
            askers.push(try_spawn(ask::<Rc<i32>>("slow")).await);
        }
        let all = gather(askers).await.unwrap();
        assert!(all.iter().all(|value| Rc::ptr_eq(value, &all[0])), "the same value");
        assert!(Rc::ptr_eq(&ask::<Rc<i32>>("slow").await.unwrap(), &all[0]));
    })
    .unwrap();
    assert_eq!(resolved.get(), 1);
}

/// "what it resolves is resolved once for all": so is a failure. All who ask are told, and it is not
/// tried again.
#[test]
fn a_resolver_that_fails() {
    let tried = Rc::new(Cell::new(0));
    for where_it_panics in ["in the closure", "in the future"] {
        let count = Rc::clone(&tried);
        count.set(0);
        let settings = Runtime::builder().env_with("broken", move || {
            count.set(count.get() + 1);
            assert_ne!(where_it_panics, "in the closure", "no answer");
            async move {
                sleep(secs(1)).await;
                assert_ne!(where_it_panics, "in the future", "no answer");
            }
        });
        let shown = super::Notes::new();
        let seen = shown.clone();
        let settings = settings.on_unobserved(move |error| shown.add(error.to_string()));
        let mut test = TestScheduler::with(settings);
        test.run(async move {
            let first = spawn(ask::<()>("broken")).await;
            let second = spawn(ask::<()>("broken")).await;
            for asked in gather([first, second]).await.unwrap() {
                assert_eq!(asked.unwrap_err().kind(), ErrorKind::Panicked, "{where_it_panics}");
            }
            assert_eq!(ask::<()>("broken").await.unwrap_err().kind(), ErrorKind::Panicked);
        })
        .unwrap();
        assert_eq!(tried.get(), 1, "{where_it_panics}");
        assert_eq!(seen.take(), Vec::<String>::new(), "those who asked were told");
    }
}

/// "what it resolves is resolved once for all": one that asks for its own key is told so; it could
/// only wait for itself.
#[test]
fn a_resolver_that_asks_for_its_own_key() {
    let settings = Runtime::builder()
        .env_with("self", || async { ask::<u32>("self").await.map_err(|error| error.kind()) });
    let answer = TestScheduler::with(settings)
        .run(async { ask::<Result<u32, ErrorKind>>("self").await })
        .unwrap();
    assert_eq!(answer, Ok(Err(ErrorKind::SelfWait)));
}

/// "with the cycle where there is one": two keys that ask for each other are a deadlock, and said to be.
#[test]
fn two_resolvers_that_ask_for_each_other() {
    let settings = Runtime::builder()
        .env_with("hen", || async { ask::<u32>("egg").await.unwrap_or(0) })
        .env_with("egg", || async { ask::<u32>("hen").await.unwrap_or(0) });
    let error = TestScheduler::with(settings).run(ask::<u32>("hen")).unwrap_err();
    let RunError::Deadlock(report) = error else { panic!("{error}") };
    assert_eq!(report.cycle, [Tid(2), Tid(3)]);
    assert!(report.to_string().contains("`env hen`"), "{report}");
}

/// "what it resolves is resolved once for all": it goes on although the one who asked first is cancelled.
#[test]
fn the_first_asker_is_cancelled() {
    let settings = Runtime::builder().env_with("slow", || async {
        sleep(secs(1)).await;
        7u32
    });
    let mut test = TestScheduler::with(settings);
    let value = test.run(async {
        let first = spawn(ask::<u32>("slow")).await;
        yield_now().await;
        cancel(&first).await;
        ask::<u32>("slow").await
    });
    assert_eq!(value.unwrap(), Ok(7));
}

/// "what it resolves is resolved once for all": of one run. Another run asks for itself.
#[test]
fn each_run_has_its_own() {
    let count = Rc::new(Cell::new(0));
    let counting = Rc::clone(&count);
    let settings = Runtime::builder().env_with("n", move || {
        counting.set(counting.get() + 1);
        let n = counting.get();
        async move { n }
    });
    let mut test = TestScheduler::with(settings);
    assert_eq!(test.run(ask::<i32>("n")).unwrap(), Ok(1));
    assert_eq!(test.run(ask::<i32>("n")).unwrap(), Ok(2));
    assert!(matches!(Value::new(1), Value::Int(1)));
}
