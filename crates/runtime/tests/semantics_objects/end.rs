//! The end.

use tiffany::testing::TestScheduler;
use tiffany::{
    End, EventKind, RunError, Runtime, TaskState, Tid, sleep, spawn, try_spawn, yield_now,
};

use crate::{Notes, secs};

/// "a run ends when all of its tasks are terminal": the root's value waits for the others, also for tasks
/// that were spawned after it returned.
#[test]
fn when_all_tasks_are_terminal() {
    let notes = Notes::new();
    let seen = notes.clone();
    let mut test = TestScheduler::new();
    let value = test.run(async move {
        let child = spawn(async move {
            sleep(secs(1)).await;
            let grandchild = spawn(async move {
                sleep(secs(2)).await;
                notes.add("grandchild");
            });
            drop(grandchild.await);
        });
        drop(child.await);
        "root"
    });
    assert_eq!(value.unwrap(), "root");
    assert_eq!(seen.take(), ["grandchild"]);
    assert_eq!(test.now().as_nanos(), 3_000_000_000);
}

/// "all of its tasks are terminal": Completed, Failed or Cancelled, each of them is an end.
#[test]
fn terminal_is_completed_failed_or_cancelled() {
    let mut test = TestScheduler::with(Runtime::builder().on_unobserved(|_| {}));
    test.run(async {
        drop(spawn(async {}).await);
        drop(try_spawn(async { Err::<(), _>("no") }).await);
        let doomed = spawn(sleep(secs(3600))).await;
        yield_now().await;
        tiffany::cancel(&doomed).await;
    })
    .unwrap();
    let trace = test.trace();
    let ends: Vec<(Tid, TaskState)> = trace
        .events()
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Completed => Some((event.tid, TaskState::Completed)),
            EventKind::Failed(_) => Some((event.tid, TaskState::Failed)),
            EventKind::Cancelled => Some((event.tid, TaskState::Cancelled)),
            _ => None,
        })
        .collect();
    use TaskState::{Cancelled, Completed, Failed};
    let expected =
        [(Tid(2), Completed), (Tid(3), Failed), (Tid(1), Completed), (Tid(4), Cancelled)];
    let mut sorted = (ends, expected.to_vec());
    sorted.0.sort_by_key(|(tid, _)| *tid);
    sorted.1.sort_by_key(|(tid, _)| *tid);
    assert_eq!(sorted.0, sorted.1);
}

/// "(or, if asked, when the root is, and the rest are cancelled)": whether the root returned or failed; the
/// rest are unwound, those that never ran included.
#[test]
fn when_the_root_is_if_asked() {
    struct Cleanup(Notes<&'static str>, &'static str);
    impl Drop for Cleanup {
        fn drop(&mut self) {
            self.0.add(self.1);
        }
    }
    for fails in [false, true] {
        let notes = Notes::new();
        let seen = notes.clone();
        let mut test = TestScheduler::with(Runtime::builder().end(End::Root));
        let result = test.try_run(async move {
            let (blocked, pending) = (Cleanup(notes.clone(), "blocked"), Cleanup(notes, "pending"));
            drop(
                spawn(async move {
                    let _cleanup = blocked;
                    sleep(secs(3600)).await;
                })
                .await,
            );
            sleep(secs(1)).await;
            drop(spawn(async move { drop(pending) }).await);
            if fails { Err("no") } else { Ok("root") }
        });
        match result {
            Ok(value) => assert_eq!((value, fails), ("root", false)),
            Err(error) => assert!(fails && matches!(error, RunError::Failed(_)), "{error}"),
        }
        let mut unwound = seen.take();
        unwound.sort();
        assert_eq!(unwound, ["blocked", "pending"]);
        assert_eq!(test.now().as_nanos(), 1_000_000_000, "nobody waited for the sleeper");
        let trace = test.trace();
        let cancelled =
            trace.events().iter().filter(|event| matches!(event.kind, EventKind::Cancelled));
        assert!(cancelled.count() >= 1);
    }
}

/// "when the root is": a root that is cancelled ends the run as cancelled, and only then.
#[test]
fn a_cancelled_root() {
    let mut test = TestScheduler::new();
    let handle = test.runtime().handle();
    let run = test.start(async {
        drop(spawn(sleep(secs(3600))).await);
        sleep(secs(3600)).await;
    });
    test.step_until_idle();
    handle.cancel(run.id());
    let error = test.finish(run).unwrap_err();
    assert!(matches!(error, RunError::Cancelled(_)), "{error}");
    assert_eq!(error.code(), "TFY0003");
    assert_eq!(test.now().as_nanos(), 0);

    let error = TestScheduler::new()
        .try_run(async {
            let doomed = spawn(sleep(secs(3600))).await;
            tiffany::cancel(&doomed).await;
            doomed.await
        })
        .unwrap_err();
    assert!(matches!(error, RunError::Failed(_)), "of a child it is an ordinary error: {error}");
}

/// "a run ends when all of its tasks are terminal": of its own. Other runs of the runtime go on beside it and
/// after it.
#[test]
fn each_run_has_its_own_end() {
    let mut test = TestScheduler::new();
    let long = test.start(async {
        sleep(secs(10)).await;
        "long"
    });
    let short = test.start(async {
        sleep(secs(1)).await;
        "short"
    });
    assert_eq!(test.finish(short).unwrap(), "short");
    assert_eq!(test.now().as_nanos(), 1_000_000_000);
    assert_eq!(test.finish(long).unwrap(), "long");
    assert_eq!(test.now().as_nanos(), 10_000_000_000);
}
