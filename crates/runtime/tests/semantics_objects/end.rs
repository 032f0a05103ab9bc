//! The end.

use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, End, EventKind, RunError, Runtime, TaskContext, TaskState, TaskStatus, Tid, channel,
    promise, sleep, spawn, spawn_agent, try_spawn, yield_now,
};

use super::{Notes, secs};

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

/// "If asked (`End::Root`), the run ends with its root and the rest are cancelled": whether the root returned
/// or failed; the rest are unwound, those that never ran included.
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

/// "the run ends with its root": a root that is cancelled ends the run as cancelled, and only then.
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

/// Sleeps for an hour, and when it is cancelled for as long as this, which it notes.
struct Slow(Notes<&'static str>, u64, Option<()>);

impl AgentTask for Slow {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(secs(3600))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        match self.2.replace(()) {
            None => TaskStatus::sleep(secs(self.1)),
            Some(()) => {
                self.0.add("clean");
                TaskStatus::Completed(())
            }
        }
    }
}

/// "a task spawned as `daemon` keeps no run alive, […] and it is cancelled when the others are over": also if
/// the last of the others is not the root. Its cleanup has the time it needs.
#[test]
fn a_daemon_task_keeps_no_run_alive() {
    let notes = Notes::new();
    let seen = notes.clone();
    let mut test = TestScheduler::new();
    let value = test.run(async move {
        let slow = notes.clone();
        drop(spawn_agent(Slow(slow, 5, None)).daemon().await);
        let last = async move {
            sleep(secs(2)).await;
            notes.add("last");
        };
        drop(spawn(last).await);
        "root"
    });
    assert_eq!(value.unwrap(), "root");
    assert_eq!(seen.take(), ["last", "clean"]);
    assert_eq!(test.now().as_nanos(), 7_000_000_000);
}

/// "a task spawned as `daemon` keeps no run alive": nor does what it spawns, unless it does so to clean up.
#[test]
fn what_a_daemon_task_spawns_is_a_daemon_task() {
    struct Spawns(Notes<&'static str>, Option<()>);
    impl AgentTask for Spawns {
        type Output = ();

        fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
            match self.1.replace(()) {
                None => TaskStatus::spawn(spawn(sleep(secs(3600)))),
                Some(()) => TaskStatus::sleep(secs(3600)),
            }
        }

        fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
            let notes = self.0.clone();
            match self.1.take() {
                Some(()) => TaskStatus::spawn(spawn(async move {
                    sleep(secs(1)).await;
                    notes.add("cleaned up");
                })),
                None => TaskStatus::Completed(()),
            }
        }
    }
    let notes = Notes::new();
    let seen = notes.clone();
    let mut test = TestScheduler::new();
    test.run(async move {
        drop(spawn_agent(Spawns(notes, None)).daemon().await);
        sleep(secs(1)).await;
    })
    .unwrap();
    assert_eq!(seen.take(), ["cleaned up"]);
    assert_eq!(test.now().as_nanos(), 2_000_000_000);
}

/// "it is cancelled when the others are over": not before, and what it does until then is done.
#[test]
fn a_daemon_task_runs_until_then() {
    let notes = Notes::new();
    let seen = notes.clone();
    TestScheduler::new()
        .run(async move {
            let (sender, receiver) = channel(1).await;
            let ticks = async move {
                for tick in 0.. {
                    sleep(secs(1)).await;
                    notes.add(tick);
                    if tick == 2 {
                        sender.send(tick).await.unwrap();
                    }
                }
            };
            drop(spawn(ticks).daemon().await);
            // Another task keeps the daemon's timers company, or they would be no hope.
            drop(spawn(sleep(secs(10))).await);
            receiver.receive().await.unwrap()
        })
        .unwrap();
    assert_eq!(seen.take(), Vec::from_iter(0..9));
}

/// "its timers are no hope against a deadlock": unless a task that is no daemon task waits for it.
#[test]
fn the_timers_of_a_daemon_task_are_no_hope() {
    let ticks = async || {
        loop {
            sleep(secs(1)).await;
        }
    };
    let error = TestScheduler::new().run(async move {
        drop(spawn(ticks()).daemon().await);
        let never = promise::<u32>().await;
        never.future().await.unwrap()
    });
    assert!(matches!(error, Err(RunError::Deadlock(_))), "{error:?}");

    let value = TestScheduler::new().run(async {
        let nap = spawn(async {
            sleep(secs(1)).await;
            7
        });
        nap.daemon().await.await.unwrap()
    });
    assert_eq!(value.unwrap(), 7);
}

/// "a run ends when all of its tasks are terminal, daemon tasks aside": that one of them never ends, or fails, is
/// nothing to its outcome.
#[test]
fn a_daemon_task_changes_no_outcome() {
    struct Stuck;
    impl AgentTask for Stuck {
        type Output = ();

        fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
            TaskStatus::sleep(secs(3600))
        }

        fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
            TaskStatus::Waiting(tiffany::SystemCall::ReceiveMessage("never".into()))
        }
    }
    let settings = Runtime::builder().on_unobserved(|_| {}).cancel_grace(secs(2));
    let mut test = TestScheduler::with(settings);
    let value = test.run(async {
        drop(try_spawn(async { Err::<(), _>("no") }).daemon().await);
        drop(spawn_agent(Stuck).daemon().await);
        yield_now().await;
        "root"
    });
    assert_eq!(value.unwrap(), "root");
    assert_eq!(test.now().as_nanos(), 2_000_000_000, "its grace");
}

/// "A root that fails always ends its run": also if a task waits for something that could come.
#[test]
fn a_root_that_fails_ends_its_run() {
    let mut test = TestScheduler::new();
    let error = test
        .try_run(async {
            drop(spawn(sleep(secs(3600))).await);
            drop(spawn(sleep(secs(3600))).daemon().await);
            yield_now().await;
            Err::<(), _>("no")
        })
        .unwrap_err();
    assert!(matches!(error, RunError::Failed(_)), "{error}");
    assert_eq!(test.now().as_nanos(), 0);
}

/// "A root that fails always ends its run": one that is cancelled, by a task of its own, too.
#[test]
fn a_root_that_is_cancelled_ends_its_run() {
    let mut test = TestScheduler::new();
    let error = test
        .run(async {
            drop(spawn(sleep(secs(3600))).await);
            drop(spawn(async { tiffany::kill_task(Tid(1)).await }).await);
            sleep(secs(3600)).await;
        })
        .unwrap_err();
    assert!(matches!(error, RunError::Cancelled(_)), "{error}");
    assert_eq!(test.now().as_nanos(), 0);
}
