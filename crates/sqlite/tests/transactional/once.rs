//! The guarantees of a transactional step: it happens once, it returns the result of that one time,
//! and a failed attempt leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tiffany::durable::{Retry, StepError};
use tiffany::{ErrorKind, Runtime, TaskError};
use tiffany_sqlite::{Sqlite, Stage};

use super::{Dir, builder};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at_once(times: u64) -> Retry {
    Retry::times(times).first(ms(1))
}

/// A run that enters each round once, and returns the result of each step.
fn entering(db: &Sqlite, rounds: i64) -> impl Fn(()) -> Entering + use<> {
    let db = db.clone();
    move |()| {
        let db = db.clone();
        Box::pin(async move {
            let mut given = Vec::new();
            for round in 0..rounds {
                let step = db.step("enter", move |transaction, attempt| {
                    let enter = "INSERT INTO effect VALUES (?1, ?2)";
                    transaction.execute(enter, (round, attempt.key()))?;
                    Ok::<_, StepError>(format!("{round} by attempt {}", attempt.number()))
                });
                given.push(step.input(&round).retry(at_once(3)).await?);
            }
            Ok(given)
        })
    }
}

type Entering = std::pin::Pin<Box<dyn Future<Output = Result<Vec<String>, TaskError>>>>;

#[test]
fn a_step_is_done_and_its_kind_is_in_the_log() {
    let dir = Dir::new();
    let log = dir.0.join("log");
    let mut runtime = builder(&log).register("work", entering(&dir.sqlite(), 2)).build().unwrap();
    let run = runtime.submit::<Vec<String>>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), ["0 by attempt 1", "1 by attempt 1"]);
    assert!(runtime.is_finished(run.uuid()));
    drop(runtime);
    assert_eq!(dir.effects(), [(0, 1), (1, 1)]);
    let lines = std::fs::read_to_string(log.join(format!("wal/{}.wal", run.uuid()))).unwrap();
    assert!(lines.contains(r#""about":{"kind":"transactional","input":0}"#), "{lines}");
}

#[test]
fn an_attempt_after_a_committed_one_gets_its_result() {
    let dir = Dir::new();
    // The first attempt hangs after its commit until it is given up.
    let db = dir.sqlite().on_stage(|stage, attempt| {
        let began = Instant::now();
        while stage == Stage::Committed
            && attempt.number() == 1
            && !attempt.is_given_up()
            && began.elapsed() < Duration::from_secs(20)
        {
            std::thread::sleep(ms(1));
        }
    });
    let mut runtime = Runtime::new().unwrap();
    let done = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&done);
    let given: u64 = runtime
        .try_run(async move {
            let step = db.step("enter", move |transaction, attempt| {
                count.fetch_add(1, Ordering::SeqCst);
                transaction.execute("INSERT INTO effect VALUES (7, ?1)", [attempt.key()])?;
                Ok::<_, StepError>(attempt.number())
            });
            step.timeout(ms(100)).retry(at_once(2)).await
        })
        .unwrap();
    assert_eq!((given, done.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(dir.effects(), [(7, 1)]);
}

#[test]
fn an_attempt_that_times_out_before_its_commit_is_rolled_back() {
    let dir = Dir::new();
    let waits = Arc::new(AtomicU64::new(0));
    let (count, seen) = (Arc::clone(&waits), Arc::clone(&waits));
    let db = dir.sqlite().busy_timeout(ms(10));
    let mut runtime = Runtime::new().unwrap();
    let error: TaskError = runtime
        .run(async move {
            let step = db.step("enter", move |transaction, attempt| {
                transaction.execute("INSERT INTO effect VALUES (7, ?1)", [attempt.key()])?;
                let began = Instant::now();
                while !attempt.is_given_up() && began.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(ms(1));
                }
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<_, StepError>(())
            });
            step.timeout(ms(50)).await.unwrap_err()
        })
        .unwrap();
    // The caller must not do it in another way: it could have been committed at the last moment.
    assert_eq!(error.kind(), ErrorKind::InDoubt, "{error}");
    assert!(error.message().contains("attempt 1 took longer than 50ms"), "{error}");
    let began = Instant::now();
    while (seen.load(Ordering::SeqCst) == 0 || runtime.late_results() == 0)
        && began.elapsed() < Duration::from_secs(10)
    {
        runtime.run(tiffany::sleep(ms(5))).unwrap();
    }
    assert_eq!(runtime.late_results(), 1);
    assert_eq!(dir.effects(), []);
}

#[test]
fn a_failed_attempt_leaves_nothing_and_is_repeated() {
    let dir = Dir::new();
    let db = dir.sqlite();
    let given: u64 = tiffany::try_run(async move {
        let step = db.step("enter", |transaction, attempt| {
            transaction.execute("INSERT INTO effect VALUES (1, ?1)", [attempt.key()])?;
            match attempt.number() {
                1 => Err(StepError::from("not yet")),
                2 => panic!("nor now"),
                number => Ok(number),
            }
        });
        step.retry(at_once(5)).await
    })
    .unwrap();
    assert_eq!(given, 3);
    assert_eq!(dir.effects(), [(1, 1)]);
}

#[test]
fn attempts_on_a_busy_database_follow_the_policy() {
    let dir = Dir::new();
    let (db, other) = (dir.sqlite().busy_timeout(ms(1)), dir.open());
    let enter = move |policy: Option<Retry>| {
        let db = db.clone();
        async move {
            let step = db.step("enter", |transaction, attempt| {
                transaction.execute("INSERT INTO effect VALUES (1, ?1)", [attempt.key()])?;
                Ok::<_, StepError>(attempt.number())
            });
            match policy {
                Some(policy) => step.retry(policy).await,
                None => step.await,
            }
        }
    };
    // From here on, the table of keys and a connection exist.
    assert_eq!(tiffany::try_run(enter(None)).unwrap(), 1);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = tiffany::try_run(enter(None)).unwrap_err().to_string();
    assert!(error.contains("database is locked"), "{error}");
    let free = std::thread::spawn(move || {
        std::thread::sleep(ms(100));
        other.execute_batch("ROLLBACK").unwrap();
    });
    let number = tiffany::try_run(enter(Some(Retry::times(1000).first(ms(5)).max(ms(5))))).unwrap();
    free.join().unwrap();
    assert!(number > 1, "it was never busy, so this shows nothing");
    assert_eq!(dir.effects(), [(1, 2)]);
}

#[test]
fn a_run_of_the_same_id_in_another_directory_gets_an_error() {
    let dir = Dir::new();
    for (log, table) in [("one", "keys"), ("two", "keys"), ("three", "other \"keys\"")] {
        let db = dir.sqlite().table(table);
        let mut runtime =
            builder(&dir.0.join(log)).register("work", entering(&db, 1)).build().unwrap();
        let run = runtime.submit::<Vec<String>>("work", "a", &()).unwrap();
        let outcome = runtime.wait_for(&run);
        match log {
            "two" => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("TFY0050"), "{error}");
                assert!(
                    error.contains("in the table `keys` belongs to the step `enter`"),
                    "{error}"
                );
            }
            _ => assert_eq!(outcome.unwrap(), ["0 by attempt 1"]),
        }
    }
    assert_eq!(dir.effects(), [(0, 2)]);
}

#[test]
fn keys_of_finished_runs_can_be_removed() {
    let dir = Dir::new();
    let db = dir.sqlite();
    let waits = |db: &Sqlite| {
        let enter = entering(db, 2);
        move |()| {
            let entered = enter(());
            async move {
                let entered = entered.await?;
                tiffany::durable::receive::<()>("go").await?;
                Ok::<Vec<String>, TaskError>(entered)
            }
        }
    };
    let builder = builder(&dir.0.join("log"));
    let builder = builder.register("work", entering(&db, 3)).register("waits", waits(&db));
    let mut runtime = builder.build().unwrap();
    let over = runtime.submit::<Vec<String>>("work", "over", &()).unwrap();
    let live = runtime.submit::<Vec<String>>("waits", "live", &()).unwrap();
    runtime.wait_for(&over).unwrap();
    let keys = || {
        let count = "SELECT count(*) FROM tiffany_steps";
        dir.open().query_row(count, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let began = Instant::now();
    while keys() < 5 && began.elapsed() < Duration::from_secs(10) {
        runtime.run(tiffany::sleep(ms(5))).unwrap();
    }
    assert_eq!(db.forget(|run| runtime.is_finished(run)).unwrap(), 3);
    assert_eq!(keys(), 2);
    runtime.send(&live, "go", &()).unwrap();
    runtime.wait_for(&live).unwrap();
    assert_eq!(db.forget(|run| runtime.is_finished(run)).unwrap(), 2);
}

#[test]
fn commits_are_durable_whatever_the_connection_is_set_to() {
    for (set, is) in [("OFF", 2), ("NORMAL", 2), ("FULL", 2), ("EXTRA", 3)] {
        let dir = Dir::new();
        let db = dir.sqlite().on_connect(move |connection| {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", set)
        });
        let synchronous: i64 = tiffany::try_run(async move {
            db.step("look", |transaction, _| {
                transaction.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0))
            })
            .await
        })
        .unwrap();
        assert_eq!(synchronous, is, "{set}");
    }
}

#[test]
fn a_result_that_cannot_be_recorded_rolls_back_the_work() {
    let dir = Dir::new();
    let db = dir.sqlite();
    let error = tiffany::try_run(async move {
        let step = db.step("odd", |transaction, attempt| {
            transaction.execute("INSERT INTO effect VALUES (1, ?1)", [attempt.key()])?;
            Ok::<_, StepError>(std::collections::BTreeMap::from([((1, 2), 3)]))
        });
        step.retry(at_once(5)).await
    });
    assert_eq!(error.unwrap_err().code(), "TFY0034");
    assert_eq!(dir.effects(), []);
}

#[test]
fn a_transactional_step_cannot_be_given_another_kind() {
    let db = Dir::new().sqlite();
    let error = tiffany::try_run(async move {
        db.step("enter", |_, _| Ok::<_, StepError>(())).pure().input(&1).await
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the step `enter` is transactional, and nothing else"), "{error}");
}
