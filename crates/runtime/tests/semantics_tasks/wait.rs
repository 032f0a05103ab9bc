//! DESIGN §3, Wait.

use std::cell::RefCell;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    ErrorKind, TaskError, Tid, cancel, get_tid, promise, sleep, spawn, try_spawn, wait, wait_task,
};

use super::common::{Log, Own, own, quiet, run, scheduler, secs, turns};

/// "**Wait** on Completed gives the value": of a task, and of a promise.
#[test]
fn completed_gives_the_value() {
    run(async {
        let task = spawn(async { 7 }).await;
        turns(3).await;
        assert_eq!(wait(&task).await, Ok(7));
        let settled = promise::<u32>().await;
        settled.complete(8).await.unwrap();
        assert_eq!(wait(settled.future()).await, Ok(8));
    });
}

/// "(shared: many may wait)": before the end and after it, each gets the value.
#[test]
fn many_may_wait() {
    run(async {
        let text = spawn(async {
            sleep(secs(1)).await;
            "shared".to_string()
        })
        .await;
        let task = Rc::new(text);
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let task = Rc::clone(&task);
            waiters.push(spawn(async move { wait(task).await }).await);
        }
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap().unwrap(), "shared");
        }
        assert_eq!(wait(&*task).await.unwrap(), "shared", "and after the end");
        assert_eq!(wait(&*task).await.unwrap(), "shared", "as often as one likes");
    });
}

/// "(shared: many may wait)": who wait for one task are woken in the order they came.
#[test]
fn waiters_are_woken_in_order() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let task = Rc::new(spawn(sleep(secs(1))).await);
        let mut waiters = Vec::new();
        for n in 0..4 {
            let (task, log) = (Rc::clone(&task), notes.clone());
            waiters.push(
                spawn(async move {
                    wait(task).await.unwrap();
                    log.note(n);
                })
                .await,
            );
        }
        tiffany::gather(waiters).await.unwrap();
    });
    assert_eq!(log.text(), "0 1 2 3");
}

/// A value without `Clone` moves to the one who has the handle.
struct Unique(u32);

/// "**Wait** on Completed gives the value": one that cannot be cloned moves to the last holder.
#[test]
fn a_value_that_cannot_be_cloned_moves() {
    run(async {
        let before = spawn(async { Unique(1) }).await;
        assert_eq!(before.await.unwrap().0, 1);
        let after = spawn(async { Unique(2) }).await;
        turns(3).await;
        assert_eq!(after.await.unwrap().0, 2);
    });
}

/// "on Failed raises that error": the same for all, before and after.
#[test]
fn failed_raises_that_error() {
    run(async {
        let failing = |seconds| async move {
            sleep(secs(seconds)).await;
            Err::<u32, _>("its own words")
        };
        let task = Rc::new(try_spawn(failing(1)).name("failing").await);
        let shared = Rc::clone(&task);
        let other = spawn(async move { wait(shared).await }).await;
        let before = wait(&*task).await.unwrap_err();
        let after = wait(&*task).await.unwrap_err();
        let others = other.await.unwrap().unwrap_err();
        for error in [before, after, others] {
            assert_eq!((error.kind(), error.message()), (ErrorKind::Failed, "its own words"));
            assert_eq!(error.task().unwrap().name.as_deref(), Some("failing"));
        }
    });
}

/// "on Failed raises that error": a failed promise's too.
#[test]
fn a_failed_promise_raises_its_error() {
    run(async {
        let failed = promise::<u32>().await;
        let future = failed.future();
        let before = spawn(async move { future.await }).await;
        turns(2).await;
        failed.fail(TaskError::failed("no value")).await.unwrap();
        assert_eq!(before.await.unwrap().unwrap_err().message(), "no value");
        assert_eq!(wait(failed.future()).await.unwrap_err().message(), "no value");
    });
}

/// "on Cancelled raises TaskCancelledError": before and after.
#[test]
fn cancelled_raises_task_cancelled_error() {
    run(async {
        let task = Rc::new(spawn(sleep(secs(9))).await);
        let shared = Rc::clone(&task);
        let before = spawn(async move { wait(shared).await }).await;
        turns(2).await;
        cancel(&*task).await;
        let before = before.await.unwrap().unwrap_err();
        let after = wait(&*task).await.unwrap_err();
        for error in [before, after] {
            assert!(error.is_cancelled());
            assert_eq!(error.code(), "TFY0003");
        }
    });
}

/// "on itself is an error": by handle.
#[test]
fn on_itself_is_an_error() {
    run(async {
        let place = Own::<&str>::default();
        let mine = Rc::clone(&place);
        let task = spawn(async move {
            let me = own(&mine).await;
            let code = wait(me).await.unwrap_err().code();
            mine.borrow_mut().take();
            code
        })
        .await;
        let task = Rc::new(task);
        *place.borrow_mut() = Some(Rc::clone(&task));
        assert_eq!(wait(&*task).await, Ok("TFY0005"), "and the task goes on");
    });
}

/// "on itself is an error": by number.
#[test]
fn on_its_own_number_is_an_error() {
    run(async {
        let me = get_tid().await;
        assert_eq!(wait_task(me).await.unwrap_err().kind(), ErrorKind::SelfWait);
    });
}

/// "else blocks": until the end, however long that takes.
#[test]
fn else_it_blocks() {
    let mut test = scheduler(quiet());
    let run = test.start(async { spawn(sleep(secs(60))).await.await });
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)).unwrap().to_string(), "Blocked(join)");
    test.advance(secs(59));
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)).unwrap().to_string(), "Blocked(join)");
    test.advance(secs(1));
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)).unwrap().to_string(), "Completed");
    test.finish(run).unwrap().unwrap();
}

/// Notes when it is dropped; a task's result, to see how long that is kept.
struct Kept(#[expect(dead_code, reason = "only its end counts")] super::common::Guard);

/// "A result is kept while a handle to it lives": and no longer.
#[test]
fn a_result_is_kept_while_a_handle_lives() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let inner = notes.clone();
        let task = spawn(async move { Rc::new(Kept(inner.guard("result"))) }).await;
        turns(5).await;
        notes.note("over");
        drop(wait(&task).await.unwrap());
        notes.note("read");
        drop(task);
        turns(1).await;
        notes.note("released");
    });
    assert_eq!(log.text(), "over read result released");
}

/// "A result is kept while a handle to it lives": without any, it goes when the task ends.
#[test]
fn without_a_handle_the_result_goes_at_once() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let inner = notes.clone();
        drop(
            spawn(async move {
                turns(2).await;
                Kept(inner.guard("result"))
            })
            .await,
        );
        turns(4).await;
        notes.note("later");
    });
    assert_eq!(log.text(), "result later");
}

/// "A result is kept while a handle to it lives": with it goes what it held, and who waits for that is
/// told at once.
#[test]
fn what_a_result_held_is_released_with_it() {
    let told = run(async {
        let held = promise::<()>().await;
        let future = held.future();
        drop(
            spawn(async move {
                turns(2).await;
                held
            })
            .await,
        );
        let other = spawn(sleep(secs(60))).await;
        let code = future.await.unwrap_err().code();
        let told_at = tiffany::now().await.as_nanos();
        other.await.unwrap();
        (code, told_at)
    });
    assert_eq!(told, ("TFY0026", 0), "abandoned, before anything else happens");
}

/// "by bare number one learns only whether the task is over": true if it was alive, false if not.
#[test]
fn by_number_one_learns_whether_it_is_over() {
    run(async {
        let running = spawn(async {
            sleep(secs(1)).await;
            7
        })
        .await;
        assert_eq!(wait_task(running.tid()).await, Ok(true), "it was alive, and now is over");
        assert_eq!(wait_task(running.tid()).await, Ok(false), "it is over");
        let failing = try_spawn(async {
            sleep(secs(1)).await;
            Err::<(), _>("not raised")
        })
        .await;
        assert_eq!(wait_task(failing.tid()).await, Ok(true), "an error is no news by number");
        assert_eq!(wait_task(Tid(99)).await, Ok(false), "there never was such a task");
        drop(failing);
    });
}

/// "by bare number": works without any handle.
#[test]
fn by_number_no_handle_is_needed() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let inner = notes.clone();
        let task = spawn(async move {
            sleep(secs(1)).await;
            inner.note("end");
        })
        .await;
        let tid = task.tid();
        drop(task);
        assert_eq!(wait_task(tid).await, Ok(true));
        notes.note("told");
        assert_eq!(wait_task(tid).await, Ok(false), "forgotten is over");
    });
    assert_eq!(log.text(), "end told");
}

/// "by bare number one learns only whether the task is over": so nobody was told of a failure, and it
/// is shown at the end of the run.
#[test]
fn waiting_by_number_does_not_count_as_being_told() {
    let shown = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&shown);
    let settings = tiffany::Builder::new()
        .on_unobserved(move |e| seen.borrow_mut().push(e.message().to_string()));
    TestScheduler::with(settings)
        .run(async {
            let failing = try_spawn(async {
                turns(3).await;
                Err::<(), _>("nobody was told")
            })
            .await;
            let tid = failing.tid();
            drop(failing);
            wait_task(tid).await.unwrap();
        })
        .unwrap();
    assert_eq!(*shown.borrow(), ["nobody was told"]);
}
