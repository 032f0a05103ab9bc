//! DESIGN §2: where errors say they happened, calls in the wrong place, labels, panics.

use std::cell::RefCell;
use std::rc::Rc;

use futures::FutureExt;
use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, Call, CustomCall, RunError, Runtime, SystemCall, Task, TaskContext, TaskError,
    TaskStatus, ask, call, get_tid, join, named, promise, race, sleep, sleep_secs, spawn,
    spawn_agent, tell, timeout, try_spawn, wait, wait_task, yield_now,
};

use super::common::{poll_once, result, run, secs, turns};

/// This line of this file, as errors write it.
macro_rules! here {
    () => {
        format!("{}:{}", file!(), line!())
    };
}

/// A call that nobody answers.
struct Nobody;

impl CustomCall for Nobody {
    const NAME: &'static str = "nobody";
    type Answer = ();
}

/// "Errors give the line of the call (`#[track_caller]`) and the line where the task was spawned".
#[test]
fn errors_give_the_line_of_the_call_and_of_the_spawn() {
    run(async {
        let (child, spawned_at) = (
            spawn(async {
                let gone = promise::<u32>().await;
                gone.complete(1).await.unwrap();
                let me = get_tid().await;
                let mut errors: Vec<(TaskError, String)> = Vec::new();
                errors.push((race(Vec::<Task<u32>>::new()).await.err().unwrap(), here!()));
                errors.push((ask::<u32>("key").await.unwrap_err(), here!()));
                errors.push((gone.complete(2).await.unwrap_err(), here!()));
                errors.push((wait_task(me).await.unwrap_err(), here!()));
                errors.push((call(Nobody).await.unwrap_err(), here!()));
                errors
            })
            .name("child"),
            line!() - 13,
        );
        let errors = child.await.await.unwrap();
        assert_eq!(errors.len(), 5);
        for (error, at) in errors {
            let text = error.to_string();
            assert!(text.contains(&format!(" at {at}")), "the call at {at}: {text}");
            let label = error.task().unwrap();
            assert_eq!(label.spawned_at.line, spawned_at, "{text}");
            let spawned = format!("task 2 `child` (spawned at {}:{spawned_at})", file!());
            assert!(text.contains(&spawned), "{text}");
        }
    });
}

/// "Errors give the line of the call": of a call that ends its task, because nobody catches it.
#[test]
fn an_error_nobody_catches_ends_the_task_at_its_line() {
    let mut line = 0;
    let error = result(async {
        sleep_secs(-1.0).await;
        unreachable!("the call before does not return");
    });
    line += line!() - 3;
    let error = error.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code(), "TFY0013", "{text}");
    assert!(text.contains(&format!(" at {}:{line}", file!())), "{text}");
    assert!(text.contains("task 1 (spawned at"), "{text}");
}

/// "Errors give the line of the call": of a timeout too.
#[test]
fn a_timeout_gives_its_line() {
    run(async {
        let (error, at) = (timeout(secs(1), sleep(secs(2))).await.unwrap_err(), here!());
        assert!(error.to_string().contains(&at), "{error}");
    });
}

/// "the line where the task was spawned": of a task that failed by itself, in the words of each who
/// waits for it, with the tasks it went through.
#[test]
fn a_failure_names_the_task_it_happened_in() {
    let error = super::common::result(async {
        let inner = try_spawn(async { Err::<(), _>("broken") }).name("inner").await;
        try_spawn(async move { inner.await }).name("outer").await.await
    });
    let error = error.unwrap().unwrap_err();
    assert_eq!(error.task().unwrap().name.as_deref(), Some("inner"));
    let through: Vec<_> = error.through().iter().map(|task| task.name.as_deref()).collect();
    assert_eq!(through, [Some("outer")]);
    assert!(error.to_string().starts_with("task 2 `inner` (spawned at"), "{error}");
}

/// "`named(\"…\", fut)` adds labels": outermost first, for errors in it, and for no others.
#[test]
fn named_adds_labels() {
    run(async {
        let inner = named("inner", async {
            yield_now().await;
            ask::<u32>("key").await
        });
        let outer = named("outer", async {
            let before = ask::<u32>("key").await.unwrap_err();
            (before, inner.await.unwrap_err())
        });
        let (before, error) = outer.await;
        assert_eq!(before.within(), ["outer"]);
        assert_eq!(error.within(), ["outer", "inner"]);
        let text = error.to_string();
        assert!(text.contains("within `inner`, within `outer`"), "{text}");
        let after = ask::<u32>("key").await.unwrap_err();
        assert!(after.within().is_empty(), "{after}");
    });
}

/// "`named(\"…\", fut)` adds labels": each future has its own, when two take turns in one task, and
/// other tasks have none of it.
#[test]
fn labels_do_not_mix() {
    run(async {
        let failing = |turns_first| async move {
            turns(turns_first).await;
            ask::<u32>("key").await.unwrap_err()
        };
        let other = spawn(failing(2)).await;
        let (a, b) = join!(named("a", failing(2)), named("b", failing(2)));
        assert_eq!((a.within(), b.within()), (&["a".into()][..], &["b".into()][..]));
        assert!(other.await.unwrap().within().is_empty());
    });
}

/// "`named(\"…\", fut)` adds labels": to a panic too, and to nothing after it.
#[test]
fn labels_of_a_panic() {
    run(async {
        let task = spawn(named(
            "outer",
            named("inner", async {
                yield_now().await;
                panic!("labelled");
            }),
        ))
        .await;
        let error: TaskError = task.await.map(|(): ()| ()).unwrap_err();
        assert_eq!(error.within(), ["outer", "inner"]);
        let after = ask::<u32>("key").await.unwrap_err();
        assert!(after.within().is_empty(), "{after}");
    });
}

/// "adds labels": one that was left by a panic the task itself caught is gone.
#[test]
fn labels_of_a_caught_panic_are_gone() {
    run(async {
        let panics = named("caught", async { panic!("caught") });
        let caught = std::panic::AssertUnwindSafe(panics).catch_unwind().await;
        assert!(caught.map(|(): ()| ()).is_err());
        let same_task = ask::<u32>("key").await.unwrap_err();
        assert!(same_task.within().is_empty(), "{same_task}");
        let other_task = spawn(async { ask::<u32>("key").await.unwrap_err() }).await;
        assert!(other_task.await.unwrap().within().is_empty());
        let panicking = spawn(async { panic!("unlabelled") }).await;
        let error = panicking.await.map(|(): ()| ()).unwrap_err();
        assert!(error.within().is_empty(), "{error}");
    });
}

/// "A call finds its task through a thread-local": outside a task there is none, and that is TFY0004.
#[test]
fn a_call_outside_a_task_is_an_error() {
    let (call, line) = (wait_task(tiffany::Tid(1)), line!());
    let error = futures::FutureExt::now_or_never(call).unwrap().unwrap_err();
    assert_eq!(error.code(), "TFY0004");
    let text = error.to_string();
    assert!(text.contains("`wait_task`") && text.contains(&format!(":{line}")), "{text}");
    let panicked = std::panic::catch_unwind(|| get_tid().now_or_never());
    let text = *panicked.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("TFY0004"), "one that gives no result panics: {text}");
}

/// "A call finds its task": between the turns of a task there is none either.
#[test]
fn between_turns_there_is_no_task() {
    let mut test = TestScheduler::new();
    let run = test.start(turns(5));
    test.step();
    let error = wait_task(tiffany::Tid(1)).now_or_never().unwrap().unwrap_err();
    assert_eq!(error.code(), "TFY0004");
    test.finish(run).unwrap();
}

/// "leaves its request in its task's slot on first poll and takes its reply on a later one": a call that
/// is polled in another task than the one that made it is TFY0027.
#[test]
fn a_call_polled_in_another_task_is_an_error() {
    type Place =
        Rc<RefCell<Option<std::pin::Pin<Box<dyn Future<Output = Result<bool, TaskError>>>>>>>;
    run(async {
        let place = Place::default();
        let theirs = Rc::clone(&place);
        let sleeper = spawn(sleep(secs(9))).await;
        let tid = sleeper.tid();
        let (maker, line) = (
            spawn(async move {
                let mut call: std::pin::Pin<Box<dyn Future<Output = _>>> = Box::pin(wait_task(tid));
                assert!(poll_once(call.as_mut()).await.is_pending());
                *theirs.borrow_mut() = Some(call);
                yield_now().await;
            }),
            line!() - 5,
        );
        maker.await.await.unwrap();
        let moved = place.borrow_mut().take().unwrap();
        let error = moved.await.unwrap_err();
        assert_eq!(error.code(), "TFY0027");
        let text = error.to_string();
        assert!(text.contains("task 3") && text.contains(&format!(":{line}")), "{text}");
        tiffany::cancel(&sleeper).await;
    });
}

/// A call that was made and never polled again belongs to nobody else: it may move before its first
/// poll.
#[test]
fn a_call_may_move_before_its_first_poll() {
    run(async {
        let call: Call<tiffany::Tid> = get_tid();
        let task = spawn(call).await;
        assert_eq!(task.tid(), task.await.unwrap());
    });
}

/// A runtime inside a task of another one is TFY0025, and does no harm.
#[test]
fn a_runtime_inside_a_runtime_is_an_error() {
    let inside = run(async {
        let error = tiffany::run(async { 1 }).unwrap_err();
        let mut own = Runtime::new().unwrap();
        let again = own.run(async { 2 }).unwrap_err();
        let tested = TestScheduler::new().run(async { 3 }).unwrap_err();
        assert!(matches!(error, RunError::Nested(_)));
        yield_now().await;
        (error.code(), again.code(), tested.code(), get_tid().await.0)
    });
    assert_eq!(inside, ("TFY0025", "TFY0025", "TFY0025", 1));
}

/// "a panic or exception ends that task alone: Failed": at whichever point it comes.
#[test]
fn a_panic_at_any_point_ends_the_task_alone() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("the point");
        }
    }
    async fn panics(point: &'static str) {
        let _in_drop = (point == "in drop, on normal exit").then_some(Panics);
        if point == "before the first await" {
            panic!("the point");
        }
        yield_now().await;
        match point {
            "after an await" => panic!("the point"),
            "in a nested future" => {
                let nested = async {
                    sleep(secs(1)).await;
                    panic!("the point");
                };
                Box::pin(nested).await
            }
            "in one of several" => {
                let ((), ()) = join!(sleep(secs(9)), async {
                    sleep(secs(1)).await;
                    panic!("the point")
                });
            }
            "beside a value that panics in drop" => {
                let _never = std::mem::ManuallyDrop::new(Panics);
                panic!("the point");
            }
            _ => {}
        }
    }
    for point in [
        "before the first await",
        "after an await",
        "in a nested future",
        "in one of several",
        "in drop, on normal exit",
        "beside a value that panics in drop",
    ] {
        run(async move {
            let other = spawn(async {
                turns(9).await;
                7
            })
            .await;
            let task = spawn(panics(point)).await;
            let error = wait(task).await.unwrap_err();
            assert_eq!(error.code(), "TFY0002", "{point}");
            let text = error.to_string();
            assert!(text.contains("the point") && text.contains(file!()), "{point}: {text}");
            assert_eq!(other.await, Ok(7), "{point}");
        });
    }
}

/// A state machine that panics at a certain point.
struct PanickingAgent(&'static str);

impl AgentTask for PanickingAgent {
    type Output = u32;

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<u32> {
        match self.0 {
            "in its first turn" => panic!("the point"),
            "later" => {
                self.0 = "in its first turn";
                TaskStatus::Waiting(SystemCall::Yield)
            }
            _ => TaskStatus::Completed(7),
        }
    }
}

impl Drop for PanickingAgent {
    fn drop(&mut self) {
        if self.0 == "when dropped" {
            panic!("the point");
        }
    }
}

/// "a panic or exception ends that task alone": of a state machine too.
#[test]
fn a_panic_of_a_state_machine_ends_the_task_alone() {
    for point in ["in its first turn", "later", "when dropped"] {
        run(async move {
            let error = spawn_agent(PanickingAgent(point)).await.await.unwrap_err();
            assert_eq!(error.code(), "TFY0002", "{point}");
            assert!(error.message().contains("the point"), "{point}: {error}");
            tell("goes on").await;
        });
    }
}
