//! Failure.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, ErrorKind, EventKind, RunError, Runtime, Task, TaskContext, TaskError, TaskState,
    TaskStatus, Tid, blocking, cancel, channel, gather, gather_settled, group, named, promise, put,
    race, sleep, spawn, spawn_agent, try_spawn, wait, wait_task, yield_now,
};

use super::{Notes, secs};

/// A scheduler that notes the failures nobody waited for.
fn noting() -> (TestScheduler, Notes<String>) {
    let notes = Notes::new();
    let shown = notes.clone();
    let settings =
        Runtime::builder().on_unobserved(move |error| notes.add(error.message().to_string()));
    (TestScheduler::with(settings), shown)
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in Drop");
        }
    }
}

/// "a panic or exception ends that task alone: Failed": the others go on, before and after it.
#[test]
fn a_panic_ends_that_task_alone() {
    let (mut test, _) = noting();
    let run = test.start(async {
        let before = spawn(async {
            sleep(secs(1)).await;
            1
        })
        .await;
        let culprit = spawn(async { panic!("only me") }).await;
        let after = spawn(async { 2 }).await;
        sleep(secs(2)).await;
        let _kept = culprit;
        (before.await, after.await)
    });
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(3)), Some(TaskState::Failed));
    assert_eq!(test.finish(run).unwrap(), (Ok(1), Ok(2)));
}

/// "a panic or exception ends that task alone": the error has the message and the line of the panic; so
/// has one with a payload that is no text, as far as there is any.
#[test]
fn the_error_of_a_panic() {
    tiffany::run(async {
        let line = line!() + 1;
        let task = spawn(async { panic!("number {}", 7) }).name("culprit").await;
        let error = task.await.unwrap_err();
        assert_eq!((error.code(), error.kind()), ("TFY0002", ErrorKind::Panicked));
        assert!(error.message().ends_with("number 7"), "{error}");
        assert!(error.message().contains(&format!("failure.rs:{line}")), "{error}");
        assert_eq!(error.task().unwrap().name.as_deref(), Some("culprit"));
        super::assert_ends_with_next_step(&error);
        let task = spawn(async { std::panic::panic_any(7u8) }).await;
        assert_eq!(task.await.unwrap_err().kind(), ErrorKind::Panicked);
    })
    .unwrap();
}

/// "a panic or exception ends that task alone": a panic in blocking work is an error of the call, which says so,
/// with the line of the panic, the line of the call and its label. The thread goes on to other work.
#[test]
fn the_error_of_a_panic_in_blocking_work() {
    fn deep() -> u32 {
        panic!("number {}", 7)
    }
    let panics_at = line!() - 2;
    tiffany::run(async move {
        let line = line!() + 1;
        let error = named("count", blocking(deep)).await.unwrap_err();
        super::assert_names(&error, "TFY0002", Tid(1), "blocking", line);
        let message = format!("blocking work panicked at {}:{panics_at}: number 7", file!());
        assert_eq!(error.message(), message);
        assert_eq!(error.within(), ["count"]);
        let task = spawn(async { blocking(deep).await.unwrap() }).await;
        assert!(task.await.unwrap_err().message().contains(&message), "as the task's own panic");
        assert_eq!(blocking(|| 7).await.unwrap(), 7);
    })
    .unwrap();
}

/// "Failed, recorded": it is in the trace, once, with its code. (The log has tests of its own.)
#[test]
fn a_failure_is_in_the_trace() {
    let (mut test, _) = noting();
    test.run(async { drop(try_spawn(async { Err::<(), _>("no") }).await) }).unwrap();
    let trace = test.trace();
    let failed: Vec<_> = trace
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Failed(error) => Some((event.tid, error.code())),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(Tid(2), "TFY0001")]);
}

/// "its waiters told": whoever waits for it, in whichever way, and however late.
#[test]
fn its_waiters_are_told() {
    let (mut test, shown) = noting();
    test.run(async {
        let task: Rc<Task<()>> = Rc::new(
            try_spawn(async {
                sleep(secs(1)).await;
                Err::<(), _>("no")
            })
            .await,
        );
        let [a, b, c, d] = [(); 4].map(|()| Rc::clone(&task));
        let message = |error: TaskError| error.message().to_string();
        let early = spawn(async move { wait(a).await.map_err(message) }).await;
        let gathered = spawn(async move { gather([b]).await.map(drop).map_err(message) }).await;
        let raced = spawn(async move { race([c]).await.map(drop).map_err(message) }).await;
        let settled = spawn(async move {
            let mut results = gather_settled([d]).await.unwrap();
            results.remove(0).map_err(message)
        })
        .await;
        for waiter in [early, gathered, raced, settled] {
            assert_eq!(waiter.await.unwrap(), Err("no".to_string()));
        }
        assert_eq!(wait(task).await.map_err(message), Err("no".to_string()), "late");
    })
    .unwrap();
    assert_eq!(shown.take(), Vec::<String>::new());
}

/// "with the chain of tasks the error went through": from the one it happened in to the last that let it
/// through, in order, each with its name and its line; also through a group, a gather and a promise.
#[test]
fn the_chain_of_tasks_the_error_went_through() {
    async fn through_wait(depth: u32) -> Result<(), TaskError> {
        if depth == 0 {
            return Err(TaskError::failed("at the bottom"));
        }
        let child = try_spawn(Box::pin(through_wait(depth - 1))).name(format!("level {depth}"));
        child.await.await
    }
    let (mut test, _) = noting();
    let error = test.try_run(through_wait(3)).unwrap_err();
    let error = error.task_error().unwrap().clone();
    assert_eq!(error.task().unwrap().tid, Tid(4));
    assert_eq!(error.task().unwrap().name.as_deref(), Some("level 1"));
    let tids: Vec<Tid> = error.through().iter().map(|task| task.tid).collect();
    assert_eq!(tids, [Tid(3), Tid(2), Tid(1)]);
    let text = error.to_string();
    let places: Vec<usize> =
        ["task 4 `level 1`", "task 3 `level 2`", "task 2 `level 3`", "task 1 "]
            .map(|task| text.find(task).unwrap_or_else(|| panic!("{task} in {text}")))
            .into();
    assert!(places.is_sorted(), "{text}");

    let (mut test, _) = noting();
    let error = test
        .try_run(async {
            let (done, group) = (promise::<()>().await, group().await);
            let future = done.future();
            let worker = try_spawn(async { Err::<(), _>("no") }).group(&group).await;
            let middle = try_spawn(async move { gather([worker]).await.map(drop) }).await;
            let bridge = spawn(async move {
                let error = middle.await.unwrap_err();
                done.fail(error).await.unwrap();
            });
            drop(bridge.await);
            future.await
        })
        .unwrap_err();
    let error = error.task_error().unwrap().clone();
    assert_eq!(error.task().unwrap().tid, Tid(2));
    let tids: Vec<Tid> = error.through().iter().map(|task| task.tid).collect();
    assert_eq!(tids, [Tid(3), Tid(1)], "the one that caught it did not end with it");
}

/// "one that nobody waits for is shown at the end of the run": whatever became of the handle.
#[test]
fn one_that_nobody_waits_for_is_shown() {
    let kept: Rc<RefCell<Vec<Task<()>>>> = Rc::default();
    let held = Rc::clone(&kept);
    let (mut test, shown) = noting();
    test.run(async move {
        drop(try_spawn(async { Err::<(), _>("dropped at once") }).await);
        let late = try_spawn(async { Err::<(), _>("dropped later") }).await;
        let outside = try_spawn(async { Err::<(), _>("kept outside the run") }).await;
        held.borrow_mut().push(outside);
        std::mem::forget(try_spawn(async { Err::<(), _>("forgotten") }).await);
        let by_number = try_spawn(async {
            sleep(secs(1)).await;
            Err::<(), _>("waited for by number")
        })
        .await;
        assert_eq!(wait_task(by_number.tid()).await, Ok(true));
        drop(late);
    })
    .unwrap();
    let mut all = shown.take();
    all.sort();
    let expected = [
        "dropped at once",
        "dropped later",
        "forgotten",
        "kept outside the run",
        "waited for by number",
    ];
    assert_eq!(all, expected);
}

/// "one that nobody waits for is shown at the end of the run": not before it.
#[test]
fn shown_at_the_end() {
    let (mut test, shown) = noting();
    let run = test.start(async {
        drop(try_spawn(async { Err::<(), _>("early") }).await);
        sleep(secs(1)).await;
    });
    test.step_until_idle();
    assert_eq!(shown.take(), Vec::<String>::new());
    test.finish(run).unwrap();
    assert_eq!(shown.take(), ["early"]);
}

/// "one that nobody waits for": a failure that was waited for is not shown, nor is a cancelled task, nor
/// the root, whose failure is the run's own.
#[test]
fn one_that_was_waited_for_is_not_shown() {
    let (mut test, shown) = noting();
    let error = test
        .try_run(async {
            let failed = try_spawn(async { Err::<(), _>("caught") }).await;
            assert!(failed.await.is_err());
            let doomed = spawn(sleep(secs(3600))).await;
            yield_now().await;
            cancel(&doomed).await;
            let group = group().await;
            let member = try_spawn(async { Err::<(), _>("of a member") }).group(&group).await;
            assert!(member.await.is_err());
            Err::<(), _>("of the root")
        })
        .unwrap_err();
    assert_eq!(error.task_error().unwrap().message(), "of the root");
    assert_eq!(shown.take(), Vec::<String>::new());
}

/// "one that nobody waits for is shown": there may be very many; the rest are counted.
#[test]
fn very_many_failures() {
    let (mut test, shown) = noting();
    let run = test.start(async {
        for n in 0..1_000 {
            drop(try_spawn(async move { Err::<(), _>(n) }).await);
        }
        sleep(secs(1)).await;
    });
    let id = run.id();
    test.step_until_idle();
    let dropped = test.counts(id).unobserved_dropped as usize;
    test.finish(run).unwrap();
    let shown = shown.take();
    assert_eq!(shown.len() - 1 + dropped, 1_000, "shown or counted");
    let last = format!("{dropped} more tasks failed and no task waited for them");
    assert_eq!(shown.last(), Some(&last), "and the count is shown too");
    assert_eq!(shown[0], "0", "the first are the ones that are shown");
}

/// "A failed root fixes the run's outcome at once": nothing that happens to the other tasks while they are
/// unwound changes it.
#[test]
fn a_failed_root_fixes_the_outcome() {
    type Rest = fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>;
    let rests: [(&str, Rest); 3] = [
        ("sleeps", || Box::pin(sleep(secs(10)))),
        ("panics when it is dropped", || {
            Box::pin(async {
                let _local = PanicsInDrop;
                sleep(secs(10)).await;
            })
        }),
        ("waits for ever", || Box::pin(std::future::pending())),
    ];
    for (name, rest) in rests {
        let (mut test, _) = noting();
        let error = test
            .try_run(async move {
                drop(spawn(rest()).await);
                sleep(secs(1)).await;
                Err::<(), _>("the root")
            })
            .unwrap_err();
        assert!(matches!(error, RunError::Failed(_)), "{name}: {error}");
        assert_eq!(error.task_error().unwrap().message(), "the root", "{name}");
        assert_eq!(test.now().as_nanos(), 1_000_000_000, "{name}: nobody is waited for");
    }
}

/// "and cancels the tasks that are left": those that wait, and those that are ready.
#[test]
fn a_failed_root_cancels_the_tasks_that_are_left() {
    struct Cleanup(Notes<&'static str>, &'static str);
    impl Drop for Cleanup {
        fn drop(&mut self) {
            self.0.add(self.1);
        }
    }
    let notes = Notes::new();
    let seen = notes.clone();
    let (mut test, _) = noting();
    let error = test.try_run(async move {
        let waits = Cleanup(notes.clone(), "waits");
        let busy = Cleanup(notes, "busy");
        drop(
            spawn(async move {
                let _cleanup = waits;
                let (_sender, receiver) = channel::<()>(1).await;
                receiver.receive().await.unwrap();
            })
            .await,
        );
        drop(
            spawn(async move {
                let _cleanup = busy;
                loop {
                    yield_now().await;
                }
            })
            .await,
        );
        for _ in 0..3 {
            yield_now().await;
        }
        Err::<(), _>("the root")
    });
    assert_eq!(error.unwrap_err().task_error().unwrap().message(), "the root");
    let mut unwound = seen.take();
    unwound.sort();
    assert_eq!(unwound, ["busy", "waits"]);
}

/// "(the run is *ending* until they are terminal)": a task that is being cancelled already has the time it needs, and so has
/// one that is cancelled now.
#[test]
fn a_run_is_ending_until_they_are_terminal() {
    struct Slow(Notes<String>, &'static str, Option<()>);
    impl AgentTask for Slow {
        type Output = ();

        fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
            TaskStatus::sleep(secs(3600))
        }

        fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
            match self.2.replace(()) {
                None => TaskStatus::sleep(secs(5)),
                Some(()) => {
                    self.0.add(self.1.to_owned());
                    TaskStatus::Completed(())
                }
            }
        }
    }
    let (mut test, notes) = noting();
    let seen = notes.clone();
    let error = test.try_run(async move {
        let first = spawn_agent(Slow(notes.clone(), "first", None)).await;
        let second = spawn_agent(Slow(notes, "second", None)).await;
        yield_now().await;
        cancel(&first).await;
        sleep(secs(1)).await;
        drop((first, second));
        Err::<(), _>("the root")
    });
    assert_eq!(error.unwrap_err().task_error().unwrap().message(), "the root");
    assert_eq!(seen.take(), ["first", "second"]);
    assert_eq!(test.now().as_nanos(), 6_000_000_000);
}

/// "The loop survives any task": panics while it runs, while its future is dropped, in its error's text,
/// in the values it leaves behind. After each the run goes on, and so does the runtime.
#[test]
fn the_loop_survives_any_task() {
    struct BadText;
    impl fmt::Display for BadText {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("in Display");
        }
    }
    type Bad = fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>;
    let bad: [(&str, Bad); 9] = [
        ("panics", || Box::pin(async { panic!("while running") })),
        ("result nobody takes", || Box::pin(async { drop(spawn(async { PanicsInDrop }).await) })),
        ("local dropped at the end", || {
            Box::pin(async {
                let _local = PanicsInDrop;
                yield_now().await;
            })
        }),
        ("local dropped by cancel", || {
            Box::pin(async {
                let task = spawn(async {
                    let _local = PanicsInDrop;
                    sleep(secs(3600)).await;
                })
                .await;
                yield_now().await;
                cancel(&task).await;
            })
        }),
        ("never run", || {
            Box::pin(async {
                let local = PanicsInDrop;
                let task = spawn(async move { drop(local) }).await;
                cancel(&task).await;
            })
        }),
        ("error without text", || {
            Box::pin(async { drop(try_spawn(async { Err::<(), _>(BadText) }).await) })
        }),
        ("message nobody takes", || {
            Box::pin(async {
                let (sender, receiver) = channel(1).await;
                sender.send(PanicsInDrop).await.unwrap();
                drop((sender, receiver));
            })
        }),
        ("waker of a combinator", || {
            struct Panics;
            impl std::task::Wake for Panics {
                fn wake(self: std::sync::Arc<Self>) {
                    panic!("in a waker");
                }
            }
            Box::pin(async {
                let mut call = Box::pin(sleep(secs(1)));
                std::future::poll_fn(|_| {
                    let waker = std::sync::Arc::new(Panics).into();
                    call.as_mut().poll(&mut std::task::Context::from_waker(&waker))
                })
                .await;
            })
        }),
        ("left in the store", || Box::pin(async { put("key", PanicsInDrop).await })),
    ];
    for (name, bad) in bad {
        let (mut test, _) = noting();
        let alive = test.run(async move {
            let culprit = spawn(bad()).await;
            let other = spawn(async {
                sleep(secs(1)).await;
                "alive"
            })
            .await;
            culprit.await.ok();
            other.await.unwrap()
        });
        assert_eq!(alive.unwrap(), "alive", "{name}");
        assert_eq!(test.run(async { 1 }).unwrap(), 1, "{name}");
    }
}
