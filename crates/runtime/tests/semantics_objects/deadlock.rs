//! Deadlock. Most of these runs would wait for ever if the design were not kept.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Instant;

use tiffany::testing::TestScheduler;
use tiffany::{
    DeadlockError, EventKind, RunError, Runtime, Task, TaskError, Tid, blocking, cancel, channel,
    external_promise, gather, group, mutex, promise, race, read_wait, semaphore, sleep, spawn,
    timeout, wait, yield_now,
};

use super::{Notes, ms, secs};

type Shared = Rc<RefCell<Option<Rc<Task<()>>>>>;

/// Waits for the task that is in this place by then.
async fn wait_for(place: Shared) {
    yield_now().await;
    yield_now().await;
    let task = place.borrow().clone().unwrap();
    wait(task).await.unwrap();
}

/// Tasks 2, 3 … that wait for each other in a ring.
async fn ring(count: usize) -> Vec<Shared> {
    let places: Vec<Shared> = (0..count).map(|_| Rc::default()).collect();
    for n in 0..count {
        let task = spawn(wait_for(Rc::clone(&places[(n + 1) % count]))).name(format!("ring {n}"));
        *places[n].borrow_mut() = Some(Rc::new(task.await));
    }
    places
}

#[track_caller]
fn deadlock<T>(result: Result<T, RunError>) -> DeadlockError {
    match result {
        Err(RunError::Deadlock(report)) => report,
        Err(other) => panic!("no deadlock: {other}"),
        Ok(_) => panic!("no deadlock: the run returned"),
    }
}

type Hopeless = fn() -> Pin<Box<dyn Future<Output = ()>>>;

/// "no task ready, and no timer, descriptor, effect or live external waiter left to hope for: the run fails
/// with DeadlockError": each thing one can wait for in vain, and how the report names it.
#[test]
fn what_can_be_waited_for_in_vain() {
    let table: [(&str, &str, Hopeless); 12] = [
        ("a promise never settled but held", "promise ", || {
            Box::pin(async {
                let promise = promise::<u32>().await;
                promise.future().await.unwrap();
            })
        }),
        ("a channel nobody sends to", "a message in channel ", || {
            Box::pin(async {
                let (_sender, receiver) = channel::<u32>(1).await;
                receiver.receive().await.unwrap();
            })
        }),
        ("a channel nobody receives from", "room in channel ", || {
            Box::pin(async {
                let (sender, _receiver) = channel::<u32>(0).await;
                sender.send(1).await.unwrap();
            })
        }),
        ("a semaphore", "a permit of semaphore ", || {
            Box::pin(async {
                let semaphore = semaphore(1).await;
                let _held = semaphore.acquire().await.unwrap();
                drop(semaphore.acquire().await.unwrap());
            })
        }),
        (
            "a mutex that its guard has outlived",
            "mutex 1 (locked by task 2, which is over, at ",
            || {
                Box::pin(async {
                    let value = mutex(()).await;
                    let other = value.clone();
                    spawn(async move { std::mem::forget(other.lock().await.unwrap()) })
                        .await
                        .await
                        .unwrap();
                    drop(value.lock().await.unwrap());
                })
            },
        ),
        ("a task", "task 2", || {
            Box::pin(async { spawn(std::future::pending::<()>()).await.await.unwrap() })
        }),
        ("a task by number", "task 2", || {
            Box::pin(async {
                let task = spawn(std::future::pending::<()>()).await;
                tiffany::wait_task(task.tid()).await.unwrap();
            })
        }),
        ("all of several", "all of task 3 (1 of 2 over)", || {
            Box::pin(async {
                let first = spawn(async {}).await;
                let second = spawn(std::future::pending::<()>()).await;
                gather([first, second]).await.unwrap();
            })
        }),
        ("one of several", "one of task 2, task 3", || {
            Box::pin(async {
                let first = spawn(std::future::pending::<()>()).await;
                let second = spawn(std::future::pending::<()>()).await;
                race([first, second]).await.unwrap();
            })
        }),
        ("a group", "group ", || {
            Box::pin(async {
                let group = group().await;
                drop(spawn(std::future::pending::<()>()).group(&group).await);
                group.join().await.unwrap();
            })
        }),
        ("a foreign future that nobody can wake", "a foreign future", || {
            Box::pin(std::future::pending::<()>())
        }),
        ("an external promise nobody waits for is no hope", "promise ", || {
            Box::pin(async {
                let _external = external_promise::<u32>().await;
                let promise = promise::<u32>().await;
                promise.future().await.unwrap();
            })
        }),
    ];
    for (name, on, root) in table {
        let report = deadlock(TestScheduler::new().run(root()));
        assert_eq!(report.code(), "TFY0024", "{name}");
        assert_eq!(report.waiting[0].task.tid, Tid(1), "{name}");
        assert!(report.waiting[0].on.starts_with(on), "{name}: {report}");
        assert_eq!(report.cycle, [], "{name}: {report}");
        deadlock(tiffany::run(root()));
    }
}

/// "which lists who waits for what": every task, in order, with its name, the line it was spawned at and the
/// line it waits at; the text has it all and ends with the next step.
#[test]
fn the_report_lists_who_waits_for_what() {
    let lines = Notes::new();
    let (notes, root) = (lines.clone(), line!() + 2);
    let mut test = TestScheduler::with(Runtime::builder().name("main"));
    let report = deadlock(test.run(async move {
        let (sender, receiver) = channel::<u32>(1).await;
        notes.add(line!() + 1);
        let reader = spawn(async move { receiver.receive().await }).name("reader").await;
        notes.add(line!() + 1);
        let idle = spawn(std::future::pending::<()>()).await;
        notes.add(line!() + 1);
        drop(reader.await);
        drop((sender, idle));
    }));
    let lines = lines.take();
    let who: Vec<_> = report
        .waiting
        .iter()
        .map(|wait| (wait.task.name.as_deref(), &*wait.on, wait.at.as_ref().map(|at| at.line)))
        .collect();
    let expected = [
        (Some("main"), "task 2 `reader`", Some(lines[2])),
        (Some("reader"), "a message in channel 1", Some(lines[0])),
        (None, "a foreign future whose waker is gone", None),
    ];
    assert_eq!(who, expected);
    let tids: Vec<Tid> = report.waiting.iter().map(|wait| wait.task.tid).collect();
    assert_eq!(tids, [Tid(1), Tid(2), Tid(3)]);
    let spawned: Vec<u32> = report.waiting.iter().map(|w| w.task.spawned_at.line).collect();
    assert_eq!(spawned, [root, lines[0], lines[1]]);
    let text = report.to_string();
    for part in ["3 tasks wait", "`main`", "`reader`", "a message in channel 1", "deadlock.rs:"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains(&format!("deadlock.rs:{}", lines[0])), "{text}");
    let next_step = "settle, send or release what is waited for, or end the tasks that wait";
    assert!(text.ends_with(next_step), "there is no cycle to break: {text}");
}

/// "with the cycle where there is one": two tasks, three, and one that waits for a ring from outside it.
#[test]
fn with_the_cycle() {
    for count in [2, 3, 7] {
        let report = deadlock(TestScheduler::new().run(async move {
            let places = ring(count).await;
            let first = places[0].borrow().clone().unwrap();
            wait(first).await.unwrap();
        }));
        let tids: Vec<Tid> = (0..count as u64).map(|n| Tid(n + 2)).collect();
        assert_eq!(report.cycle, tids, "{report}");
        assert_eq!(report.waiting.len(), count + 1);
        assert!(report.to_string().contains("cycle: task 2 → 3"), "{report}");
    }
}

/// "with the cycle where there is one": also through gather and groups.
#[test]
fn a_cycle_through_gather_and_group() {
    let report = deadlock(TestScheduler::new().run(async {
        let place: Shared = Rc::default();
        let other = Rc::clone(&place);
        let first = spawn(async move {
            yield_now().await;
            yield_now().await;
            let task = other.borrow().clone().unwrap();
            gather([task]).await.unwrap();
        })
        .await;
        let second = spawn(async move {
            let group = group().await;
            let member = async move { first.await.unwrap() };
            drop(spawn(member).group(&group).await);
            group.join().await.unwrap();
        })
        .await;
        *place.borrow_mut() = Some(Rc::new(second));
    }));
    let mut cycle = report.cycle.clone();
    cycle.sort();
    assert_eq!(cycle, [Tid(2), Tid(3), Tid(4)], "{report}");
}

/// Two tasks, 2 and 3, each with a mutex that the other wants.
async fn crossed_locks() -> Vec<Task<()>> {
    let (first, second) = (mutex(1).await, mutex(2).await);
    let mut tasks = Vec::new();
    for (name, first, second) in [("left", first.clone(), second.clone()), ("right", second, first)]
    {
        let task = spawn(async move {
            let first = first.lock().await.unwrap();
            yield_now().await;
            let second = second.lock().await.unwrap();
            drop((first, second));
        });
        tasks.push(task.name(name).await);
    }
    tasks
}

/// "which lists who waits for what": a mutex by that name, with the task that locked it and the line; a
/// semaphore with what is free and who took a permit last. "With the cycle where there is one", of mutexes too.
#[test]
fn locks_say_who_has_them() {
    let report = deadlock(TestScheduler::new().run(async {
        let _tasks = crossed_locks().await;
        let permits = semaphore(3).await;
        let _two = permits.acquire_many(2).await.unwrap();
        let _more = permits.acquire_many(2).await.unwrap();
    }));
    let line = |task: usize| report.waiting[task].at.as_ref().unwrap().line;
    let on: Vec<&str> = report.waiting.iter().map(|waiting| waiting.on.as_str()).collect();
    let file = file!();
    let expected = [
        format!(
            "a permit of semaphore 3 (1 of 3 free, last taken by task 1 at {file}:{})",
            line(0) - 1
        ),
        format!("mutex 2 (locked by task 3 `right` at {file}:{})", line(1) - 2),
        format!("mutex 1 (locked by task 2 `left` at {file}:{})", line(2) - 2),
    ];
    assert_eq!(on, expected);
    assert_eq!(report.cycle, [Tid(2), Tid(3)]);
}

/// "with the cycle where there is one": a task that locks what it has locked is one by itself.
#[test]
fn a_mutex_locked_twice() {
    let report = deadlock(TestScheduler::new().run(async {
        let value = mutex(1).await;
        let _held = value.lock().await.unwrap();
        let _again = value.lock().await.unwrap();
    }));
    assert_eq!(report.cycle, [Tid(1)], "{report}");
}

/// "no timer, descriptor, effect or live external waiter left to hope for": while there is one, there is no
/// deadlock, and the run goes on when it comes.
#[test]
fn what_is_no_deadlock() {
    let hopes: [(&str, Hopeless); 5] = [
        ("timer", || Box::pin(sleep(ms(20)))),
        ("descriptor", || {
            Box::pin(async {
                let (reader, writer) = rustix::pipe::pipe().unwrap();
                thread::spawn(move || {
                    thread::sleep(ms(20));
                    rustix::io::write(&writer, b"x").unwrap();
                });
                read_wait(&reader).await.unwrap();
            })
        }),
        ("effect", || Box::pin(async { blocking(|| thread::sleep(ms(20))).await.unwrap() })),
        ("external promise that is waited for", || {
            Box::pin(async {
                let promise = external_promise::<u32>().await;
                let settle = promise.clone();
                thread::spawn(move || {
                    thread::sleep(ms(20));
                    settle.complete(1)
                });
                promise.future().await.unwrap();
            })
        }),
        ("foreign waker on another thread", || {
            Box::pin(async {
                let done: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
                let shared = Arc::clone(&done);
                thread::spawn(move || {
                    thread::sleep(ms(20));
                    let mut done = shared.lock().unwrap();
                    done.0 = true;
                    done.1.take().unwrap().wake();
                });
                poll_fn(|cx| {
                    let mut done = done.lock().unwrap();
                    done.1 = Some(cx.waker().clone());
                    if done.0 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            })
        }),
    ];
    for (name, hope) in hopes {
        let result = tiffany::run(async move {
            let promise = promise::<()>().await;
            let future = promise.future();
            let waits = spawn(async move { future.await }).await;
            hope().await;
            promise.complete(()).await.unwrap();
            waits.await.unwrap().unwrap();
        });
        assert!(result.is_ok(), "{name}: {result:?}");
    }
}

/// "live external waiter": a waker that was given up without waking is no hope any more, be it at once or later
/// on another thread.
#[test]
fn a_waker_that_is_given_up() {
    for later in [false, true] {
        let report = deadlock(tiffany::run(async move {
            poll_fn(|cx| {
                let waker = cx.waker().clone();
                if later {
                    thread::spawn(move || {
                        thread::sleep(ms(20));
                        drop(waker);
                    });
                }
                Poll::<()>::Pending
            })
            .await;
        }));
        assert_eq!(report.waiting.len(), 1);
    }
}

/// "live external waiter": one that gives up waiting takes its hope with it.
#[test]
fn hope_that_is_withdrawn() {
    let report = deadlock(TestScheduler::new().run(async {
        let external = external_promise::<u32>().await;
        let future = external.future();
        let waits = spawn(async move { future.await.map(drop) }).await;
        let sleeps = spawn(sleep(secs(3600))).await;
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let reads = spawn(async move { read_wait(&reader).await.unwrap() }).await;
        let works = spawn(async { blocking(|| ()).await.unwrap() }).await;
        yield_now().await;
        cancel(&waits).await;
        cancel(&sleeps).await;
        cancel(&reads).await;
        cancel(&works).await;
        std::future::pending::<()>().await;
    }));
    assert_eq!(report.waiting.len(), 1, "{report}");
}

/// The cycles that were reported while others lived.
fn cycles(test: &TestScheduler) -> Vec<Vec<Tid>> {
    let trace = test.trace();
    let cycles = trace.events().iter().filter_map(|event| match &event.kind {
        EventKind::Cycle(tids) => Some(tids.clone()),
        _ => None,
    });
    cycles.collect()
}

/// "A cycle beside other life is reported as an event", once, when the run next comes to rest.
#[test]
fn a_cycle_beside_other_life() {
    let mut test = TestScheduler::new();
    let run = test.start(async {
        drop(ring(2).await);
        for _ in 0..5 {
            sleep(secs(1)).await;
        }
    });
    test.step_until_idle();
    test.advance(secs(1));
    test.step_until_idle();
    assert_eq!(cycles(&test), [vec![Tid(2), Tid(3)]]);
    assert_eq!(test.task_state(Tid(1)).unwrap().to_string(), "Blocked(sleep)", "life goes on");
    let report = deadlock(test.finish(run));
    assert_eq!(report.cycle, [Tid(2), Tid(3)], "and when that is over it is a deadlock");
    assert_eq!(cycles(&test).len(), 1);
}

/// "A cycle beside other life is reported as an event": of mutexes too.
#[test]
fn a_cycle_of_mutexes_beside_other_life() {
    let mut test = TestScheduler::new();
    let _run = test.start(async {
        drop(crossed_locks().await);
        sleep(secs(1)).await;
    });
    test.step_until_idle();
    test.advance(secs(2));
    assert_eq!(cycles(&test), [vec![Tid(2), Tid(3)]]);
}

/// "the run fails with DeadlockError": its tasks are unwound, and the next run is none the worse; a run beside
/// it goes on.
#[test]
fn the_run_fails_and_no_other() {
    struct Cleanup(Notes<&'static str>);
    impl Drop for Cleanup {
        fn drop(&mut self) {
            self.0.add("unwound");
        }
    }
    let notes = Notes::new();
    let cleanup = Cleanup(notes.clone());
    let mut test = TestScheduler::new();
    let beside = test.start(async {
        sleep(secs(1)).await;
        5
    });
    deadlock(test.run(async move {
        let _cleanup = cleanup;
        std::future::pending::<()>().await;
    }));
    assert_eq!(notes.take(), ["unwound"]);
    assert_eq!(test.finish(beside).unwrap(), 5);
}

/// "the run fails with DeadlockError": also when the root has returned and others wait in vain.
#[test]
fn after_the_root_has_returned() {
    let report = deadlock(TestScheduler::new().run(async {
        drop(spawn(std::future::pending::<()>()).name("left behind").await);
        1
    }));
    assert_eq!(report.waiting.len(), 1);
    assert_eq!(report.waiting[0].task.name.as_deref(), Some("left behind"));
}

/// "Never a panic, never a spin": while it waits for the outside, the loop uses no processor.
#[test]
fn never_a_spin() {
    fn used() -> f64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
    let mut runtime = Runtime::new().unwrap();
    let before = used();
    let result: Result<(), TaskError> = runtime
        .run(async {
            let promise = promise::<()>().await;
            let future = promise.future();
            let waits = spawn(async move { future.await }).await;
            blocking(|| thread::sleep(ms(300))).await?;
            promise.complete(()).await?;
            waits.await?
        })
        .unwrap();
    assert_eq!(result, Ok(()));
    assert!(used() - before < 0.1, "{}", used() - before);
}

/// "its timers are no hope against a deadlock": that is found in one pass over all daemon tasks, however they wait for each
/// other.
#[test]
fn many_daemon_tasks_that_wait_for_each_other_cost_little() {
    let began = Instant::now();
    tiffany::run(async {
        let mut last = spawn(sleep(secs(3600))).daemon().await;
        for _ in 0..10_000 {
            last = spawn(async move { drop(timeout(secs(3600), last).await) }).daemon().await;
        }
        for _ in 0..50 {
            sleep(ms(1)).await;
        }
        drop(last);
    })
    .unwrap();
    assert!(began.elapsed() < secs(15), "{:?}", began.elapsed());
}
