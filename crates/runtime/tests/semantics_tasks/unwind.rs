//! DESIGN §3, "Only cancel and normal exit unwind".

use tiffany::testing::TestScheduler;
use tiffany::{End, Tid, cancel, promise, sleep, spawn, spawn_agent, yield_now};

use super::cancel::{Stuck, nested};
use super::common::{Log, quiet, run, scheduler, secs, turns};

/// "**Only cancel and normal exit unwind.**": normal exit does, innermost first as ever.
#[test]
fn normal_exit_unwinds() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let inner = notes.clone();
        let task = spawn(async move {
            let _first = inner.guard("first");
            let _second = inner.guard("second");
            yield_now().await;
            inner.note("returns");
        })
        .await;
        task.await.unwrap();
        notes.note("told");
    });
    assert_eq!(log.text(), "returns second first told");
}

/// "Only cancel […] unwind": so does the end of a run that cancels the rest.
#[test]
fn the_end_of_a_run_that_cancels_the_rest_unwinds() {
    let log = Log::new();
    let notes = log.clone();
    let mut test = scheduler(quiet().end(End::Root));
    test.run(async move {
        drop(spawn(nested(notes, 3)).await);
        turns(2).await;
    })
    .unwrap();
    assert_eq!(log.text(), "3b 3a");
}

/// A durable run in the middle of its life: a task that waits, one that is ready, one that never ran.
fn half_way(test: &mut TestScheduler, log: &Log) {
    let notes = log.clone();
    let run = test.start(async move {
        let _root = notes.guard("root");
        let waiting = spawn(nested(notes.clone(), 3)).await;
        let ready = notes.guard("ready");
        let busy = spawn(async move {
            let _ready = ready;
            loop {
                yield_now().await;
            }
        })
        .await;
        turns(2).await;
        let pending = notes.guard("pending");
        let pending = spawn(async move { drop(pending) }).await;
        tiffany::gather([waiting, pending, busy]).await.unwrap();
    });
    while test.task_state(Tid(4)).is_none() {
        assert!(test.step());
    }
    assert_eq!(test.task_state(Tid(2)).unwrap().to_string(), "Blocked(sleep)");
    assert_eq!(test.task_state(Tid(4)).unwrap().to_string(), "Pending");
    assert_eq!(log.text(), "");
    drop(run);
}

/// "At shutdown, […] when stepping […], unfinished durable coroutines are not unwound: their […]
/// `Drop` must not act on the world".
#[test]
fn unfinished_durable_coroutines_are_not_unwound() {
    let log = Log::new();
    let mut test = TestScheduler::durable_rules(quiet());
    half_way(&mut test, &log);
    drop(test);
    assert_eq!(log.text(), "");
}

/// "unfinished durable coroutines are not unwound": while they are cancelled neither, if that comes to
/// no end.
#[test]
fn a_durable_cleanup_that_is_abandoned_is_not_unwound() {
    let log = Log::new();
    let notes = log.clone();
    let mut test = TestScheduler::durable_rules(quiet());
    let run = test.start(async move {
        let never = promise::<()>().await;
        let task = spawn_agent(Stuck::new(&notes, never.future())).await;
        turns(2).await;
        cancel(&task).await;
        sleep(secs(60)).await;
        drop(task);
    });
    test.step_until_idle();
    assert_eq!(log.text(), "stuck");
    drop((run, test));
    assert_eq!(log.text(), "stuck");
}
