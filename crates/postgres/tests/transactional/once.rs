//! The guarantees of a transactional step: it happens once, it returns the result of that one time,
//! and a failed attempt leaves nothing behind. Tests that do not disturb each other share a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tiffany::durable::{Retry, StepError};
use tiffany::{ErrorKind, Runtime, TaskError, join};
use tiffany_postgres::postgres::IsolationLevel;
use tiffany_postgres::{Postgres, Stage};

use super::builder;
use super::proxy::{Cut, proxy};
use super::server::{Server, connect};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at_once(times: u64) -> Retry {
    Retry::times(times).first(ms(1))
}

/// A run that enters each round once, and returns the result of each step.
fn entering(db: &Postgres, rounds: i64) -> impl Fn(()) -> Entering + use<> {
    let db = db.clone();
    move |()| {
        let db = db.clone();
        Box::pin(async move {
            let mut given = Vec::new();
            for round in 0..rounds {
                let step = db.step("enter", move |transaction, attempt| {
                    let enter = "INSERT INTO effect VALUES ($1, $2)";
                    transaction.execute(enter, &[&round, &attempt.key()])?;
                    Ok::<_, StepError>(format!("{round} by attempt {}", attempt.number()))
                });
                given.push(step.input(&round).retry(at_once(3)).await?);
            }
            Ok(given)
        })
    }
}

type Entering = std::pin::Pin<Box<dyn Future<Output = Result<Vec<String>, TaskError>>>>;

/// A step that enters this round.
async fn enter(db: Postgres, round: i64, policy: Retry) -> Result<u64, TaskError> {
    let step = db.step("enter", move |transaction, attempt| {
        let enter = "INSERT INTO effect VALUES ($1, $2)";
        transaction.execute(enter, &[&round, &attempt.key()])?;
        Ok::<_, StepError>(attempt.number())
    });
    step.retry(policy).await
}

/// Waits until the condition is true.
fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come about");
        std::thread::sleep(ms(1));
    }
}

#[test]
fn a_step_is_done_once_and_leaves_nothing_when_it_fails() {
    let server = Server::start();
    done_and_logged(&server);
    what_fails_leaves_nothing(&server);
    what_came_before_is_found(&server);
    of_two_at_once_one_does_it(&server);
    other_directories_are_told(&server);
    keys_can_be_removed(&server);
    what_is_confirmed_is_on_the_disk(&server);
}

fn what_is_confirmed_is_on_the_disk(server: &Server) {
    for (set, is) in [("off", "on"), ("local", "on"), ("remote_write", "remote_write")] {
        let role = format!("ALTER ROLE tiffany SET synchronous_commit = {set}");
        server.client().batch_execute(&role).unwrap();
        let db = server.postgres();
        let synchronous: String = tiffany::try_run(async move {
            db.step("look", |transaction, _| {
                transaction
                    .query_one("SHOW synchronous_commit", &[])
                    .map(|row| row.get::<_, String>(0))
            })
            .await
        })
        .unwrap();
        assert_eq!(synchronous, is, "{set}");
    }
    server.client().batch_execute("ALTER ROLE tiffany RESET synchronous_commit").unwrap();
}

fn clear(server: &Server) {
    server.client().batch_execute("TRUNCATE effect").unwrap();
}

fn done_and_logged(server: &Server) {
    let log = server.dir.join("logged");
    let mut runtime =
        builder(&log).register("work", entering(&server.postgres(), 2)).build().unwrap();
    let run = runtime.submit::<Vec<String>>("work", "logged", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), ["0 by attempt 1", "1 by attempt 1"]);
    drop(runtime);
    assert_eq!(server.effects(), [(0, 1), (1, 1)]);
    let lines = std::fs::read_to_string(log.join(format!("wal/{}.wal", run.uuid()))).unwrap();
    assert!(lines.contains(r#""about":{"kind":"transactional","input":0}"#), "{lines}");
    clear(server);
}

fn what_fails_leaves_nothing(server: &Server) {
    let db = server.postgres();
    let given: u64 = tiffany::try_run(async move {
        let step = db.step("enter", |transaction, attempt| {
            let enter = "INSERT INTO effect VALUES (1, $1)";
            transaction.execute(enter, &[&attempt.key()])?;
            match attempt.number() {
                1 => Err(StepError::from("not yet")),
                2 => panic!("nor now"),
                3 => transaction.execute("SELECT 1 / 0", &[]).map_err(Into::into),
                number => Ok(number),
            }
        });
        step.retry(at_once(5)).await
    })
    .unwrap();
    assert_eq!(given, 4);
    assert_eq!(server.effects(), [(1, 1)]);
    clear(server);
}

fn what_came_before_is_found(server: &Server) {
    // The first attempt hangs after its commit until it is given up.
    let db = server.postgres().on_stage(|stage, attempt| {
        if stage == Stage::Committed && attempt.number() == 1 {
            until(|| attempt.is_given_up());
        }
    });
    let done = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&done);
    let given: u64 = tiffany::try_run(async move {
        let step = db.step("enter", move |transaction, attempt| {
            count.fetch_add(1, Ordering::SeqCst);
            transaction.execute("INSERT INTO effect VALUES (7, $1)", &[&attempt.key()])?;
            Ok::<_, StepError>(attempt.number())
        });
        step.timeout(ms(200)).retry(at_once(2)).await
    })
    .unwrap();
    assert_eq!((given, done.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(server.effects(), [(7, 1)]);
    clear(server);
}

/// The first attempt hangs in the middle of its work while it holds the key, and the second one
/// waits for it. When the first is committed after all, the second returns its result.
fn of_two_at_once_one_does_it(server: &Server) {
    for level in [IsolationLevel::ReadCommitted, IsolationLevel::Serializable] {
        let second_waits = Arc::new(AtomicBool::new(false));
        let (waits, done) = (Arc::clone(&second_waits), Arc::new(AtomicU32::new(0)));
        let count = Arc::clone(&done);
        let db = server.postgres().isolation(level).on_stage(move |stage, attempt| {
            if stage == Stage::Begun && attempt.number() > 1 {
                waits.store(true, Ordering::SeqCst);
            }
        });
        let how = server.how();
        let is_waiting = move || {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            let row = connect(&how).query_one(waiting, &[]).unwrap();
            row.get::<_, i64>(0) > 1
        };
        // A trigger that runs during COMMIT is the only place after this crate's last check.
        server
            .client()
            .batch_execute(
                "CREATE OR REPLACE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN PERFORM pg_advisory_xact_lock(17); RETURN NULL; END $$;
                 CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION wait()",
            )
            .unwrap();
        let mut lock = server.client();
        lock.batch_execute("SELECT pg_advisory_lock(17)").unwrap();
        let second = Arc::clone(&second_waits);
        let free = std::thread::spawn(move || {
            until(|| second.load(Ordering::SeqCst) && is_waiting());
            std::thread::sleep(ms(50));
            lock.batch_execute("SELECT pg_advisory_unlock(17)").unwrap();
        });
        let given: u64 = tiffany::try_run(async move {
            let step = db.step("enter", move |transaction, attempt| {
                count.fetch_add(1, Ordering::SeqCst);
                transaction.execute("INSERT INTO effect VALUES (8, $1)", &[&attempt.key()])?;
                Ok::<_, StepError>(attempt.number())
            });
            step.timeout(ms(400)).retry(at_once(9)).await
        })
        .unwrap();
        free.join().unwrap();
        assert!(second_waits.load(Ordering::SeqCst));
        assert_eq!((given, done.load(Ordering::SeqCst)), (1, 1), "{level:?}");
        assert_eq!(server.effects(), [(8, 1)], "{level:?}");
        clear(server);
        server.client().batch_execute("DROP TRIGGER waits ON effect").unwrap();
    }
}

fn other_directories_are_told(server: &Server) {
    server.client().batch_execute("CREATE SCHEMA own").unwrap();
    for (log, table) in [("one", "own.keys"), ("two", "own.keys"), ("three", "own.\"keys\"")] {
        let db = server.postgres().table(table);
        let builder = builder(&server.dir.join(log)).register("work", entering(&db, 1));
        let mut runtime = builder.build().unwrap();
        let run = runtime.submit::<Vec<String>>("work", "a", &()).unwrap();
        let outcome = runtime.wait_for(&run);
        match log {
            "two" => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("TFY0050"), "{error}");
                assert!(error.contains("in the table `own.keys` belongs to"), "{error}");
            }
            _ => assert_eq!(outcome.unwrap(), ["0 by attempt 1"]),
        }
    }
    assert_eq!(server.effects(), [(0, 2)]);
    clear(server);
}

fn keys_can_be_removed(server: &Server) {
    let db = server.postgres().table("to_remove");
    let builder = builder(&server.dir.join("remove")).register("work", entering(&db, 3));
    let mut runtime = builder.build().unwrap();
    let run = runtime.submit::<Vec<String>>("work", "over", &()).unwrap();
    let keys = || {
        let row = server.client().query_one("SELECT count(*) FROM to_remove", &[]).unwrap();
        row.get::<_, i64>(0)
    };
    runtime.wait_for(&run).unwrap();
    assert_eq!(db.forget(|_| false).unwrap(), 0);
    assert_eq!(keys(), 3);
    assert_eq!(db.forget(|run| runtime.is_finished(run)).unwrap(), 3);
    assert_eq!(keys(), 0);
    clear(server);
}

#[test]
fn conflicting_transactions_are_repeated() {
    let server = Server::start();
    server
        .client()
        .batch_execute("CREATE TABLE sum (n bigint); INSERT INTO sum VALUES (0)")
        .unwrap();
    let db = server.postgres().isolation(IsolationLevel::Serializable);
    let add = move |db: Postgres| async move {
        let step = db.step("add", |transaction, _| {
            let n: i64 = transaction.query_one("SELECT n FROM sum", &[])?.get(0);
            std::thread::sleep(ms(20));
            transaction.execute("UPDATE sum SET n = $1", &[&(n + 1)])?;
            Ok::<_, StepError>(())
        });
        step.retry(Retry::times(1000).first(ms(5)).max(ms(20)).jitter(1.0)).await
    };
    tiffany::run(async move {
        let (a, b, c) = join!(add(db.clone()), add(db.clone()), add(db));
        a.and(b).and(c).unwrap();
    })
    .unwrap();
    let n: i64 = server.client().query_one("SELECT n FROM sum", &[]).unwrap().get(0);
    assert_eq!(n, 3);
}

#[test]
fn a_connection_lost_during_commit_is_resolved_by_the_next_attempt() {
    let server = Server::start();
    for (cut, result) in [(Cut::BeforeTheServerHasIt, 2), (Cut::BeforeTheAnswer, 1)] {
        for attempts in [1, 2] {
            clear(&server);
            let db = Postgres::new(&proxy(&server, cut)).unwrap();
            let done = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&done);
            let outcome = tiffany::run(async move {
                let step = db.step("enter", move |transaction, attempt| {
                    count.fetch_add(1, Ordering::SeqCst);
                    transaction.execute("INSERT INTO effect VALUES (9, $1)", &[&attempt.key()])?;
                    Ok::<_, StepError>(attempt.number())
                });
                step.retry(at_once(attempts)).await
            });
            let effects = server.effects();
            match (attempts, outcome.unwrap()) {
                (1, outcome) => {
                    let error = outcome.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::InDoubt, "{cut:?}: {error}");
                    assert!(error.message().contains("lost during COMMIT"), "{cut:?}: {error}");
                }
                (_, outcome) => {
                    assert_eq!(outcome, Ok(result), "{cut:?}");
                    assert_eq!(done.load(Ordering::SeqCst), result, "{cut:?}");
                    assert_eq!(effects, [(9, 1)], "{cut:?}");
                }
            }
        }
    }
}

#[test]
fn a_step_waits_for_a_server_that_restarts() {
    let mut server = Server::start();
    let db = server.postgres();
    assert_eq!(tiffany::try_run(enter(db.clone(), 1, at_once(1))).unwrap(), 1);
    server.kill();
    let error = tiffany::try_run(enter(db.clone(), 2, at_once(2))).unwrap_err();
    assert_eq!(error.code(), ErrorKind::Failed.code(), "{error}");
    let mut runtime = Runtime::new().unwrap();
    let run = runtime.try_start(enter(db, 3, Retry::times(1000).first(ms(20)).max(ms(20))));
    runtime.run(tiffany::sleep(ms(200))).unwrap();
    server.run();
    let number = runtime.finish(run).unwrap();
    assert!(number > 1, "the server was there all the time, so this shows nothing");
    assert_eq!(server.effects(), [(1, 1), (3, 1)]);
}
