//! The threat: a look at a run's past shows what was not so, does something in the world, or unwinds the code it looks at.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::durable_kit::{Dir, ms};
use tiffany::durable::{TimeTravel, step};
use tiffany::wal::View;
use tiffany::{
    Builder, RunError, Runtime, TaskError, Tid, gather, get, put, sleep, try_spawn, yield_now,
};

static EFFECTS: AtomicU32 = AtomicU32::new(0);
static UNWOUND: AtomicU32 = AtomicU32::new(0);

/// Somebody who would clean up if the code were unwound.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        UNWOUND.fetch_add(1, Ordering::SeqCst);
    }
}

async fn price(item: u32) -> Result<u32, TaskError> {
    step("price", move || {
        EFFECTS.fetch_add(1, Ordering::SeqCst);
        Ok::<u32, String>(item * 10)
    })
    .input(&item)
    .await
}

/// Stores a sum that grows, with a task for each item.
async fn shop(items: u32) -> Result<u32, TaskError> {
    let _guard = Guard;
    let mut tasks = Vec::new();
    for item in 0..items {
        tasks.push(try_spawn(price(item)).name("pricing").await);
        put("items", item + 1).await;
    }
    let sum: u32 = gather(tasks).await?.into_iter().sum();
    put("sum", sum).await;
    sleep(ms(1)).await;
    match items {
        13 => Err(TaskError::failed("nobody sells thirteen")),
        _ => get::<u32>("sum").await.ok_or_else(|| TaskError::failed("no sum")),
    }
}

fn program() -> Builder {
    Runtime::builder().register("shop", shop)
}

fn travel(dir: &Dir, items: u32) -> (TimeTravel, u32) {
    let mut runtime = dir.builder().register("shop", shop).build().unwrap();
    let run = runtime.submit::<u32>("shop", "shop", &items).unwrap();
    let value = runtime.wait_for(&run).unwrap_or(0);
    drop(runtime);
    (TimeTravel::open(program(), &dir.0, run.uuid()).unwrap(), value)
}

fn record_with(travel: &TimeTravel, what: &str) -> u64 {
    let has = |seq: &u64| travel.record(*seq).is_some_and(|line| line.contains(what));
    (1..=travel.records()).find(has).unwrap_or_else(|| panic!("no record has {what}"))
}

/// One test, because it counts what happens in the whole process.
#[test]
fn every_moment_can_be_seen_in_any_order_and_nothing_happens() {
    let dir = Dir::new();
    let (mut travel, value) = travel(&dir, 4);
    assert_eq!(value, 60);
    let (effects, unwound) = (EFFECTS.load(Ordering::SeqCst), UNWOUND.load(Ordering::SeqCst));
    assert_eq!((effects, unwound), (4, 1));
    let records = travel.records();
    let forwards: Vec<String> =
        (1..=records).map(|seq| format!("{:?}", travel.seek(seq).unwrap().tasks)).collect();
    for seq in (1..=records).rev().chain([records, 1, records / 2]) {
        let again = format!("{:?}", travel.seek(seq).unwrap().tasks);
        assert_eq!(again, forwards[seq as usize - 1], "record {seq}, seen again");
    }
    drop(travel);
    assert_eq!(EFFECTS.load(Ordering::SeqCst), effects, "no effect began");
    // At the last record its code comes to its end; everywhere else it was left as it stood.
    assert_eq!(UNWOUND.load(Ordering::SeqCst), unwound + 1, "nothing else was unwound");
    for seq in [records - 1, 2, records / 2] {
        let mut travel = TimeTravel::open(program(), &dir.0, uuid(&dir)).unwrap();
        travel.seek(seq).unwrap();
    }
    assert_eq!(UNWOUND.load(Ordering::SeqCst), unwound + 1, "nothing was unwound");
    // A record is seen as the scheduler had it when it was written.
    let mut travel = TimeTravel::open(program(), &dir.0, uuid(&dir)).unwrap();
    let first = travel.seek(1).unwrap();
    assert_eq!((first.tasks.len(), first.tasks[0].state), (1, "new"));
    let asked = record_with(&travel, "\"call\":\"gather\"");
    let moment = travel.seek(asked).unwrap();
    let root = moment.task(Tid(1)).unwrap();
    assert_eq!((root.state, &*root.store), ("waiting", &[("items".into(), "4".into())][..]));
    assert_eq!(moment.task(Tid(2)).unwrap().name.as_deref(), Some("pricing"));
    // What was stored is what had been stored by then.
    let second = record_with(&travel, "\"child\":4");
    let moment = travel.seek(second).unwrap();
    assert_eq!(moment.task(Tid(1)).unwrap().store, [("items".to_owned(), "2".to_owned())]);
    assert!(moment.task(Tid(4)).is_some(), "the record is the one of its spawn");
    let last = travel.seek(records).unwrap();
    assert_eq!(last.task(Tid(1)).unwrap().state, "completed");
    assert_eq!(travel.failure(), None);
    assert_eq!(travel.next_of(Tid(3), 1), Some(record_of(&travel, 3)));
    for wrong in [0, records + 1, records + 2, u64::MAX] {
        assert_eq!(travel.record(wrong), None);
        match travel.seek(wrong) {
            Err(RunError::Log(error)) => assert_eq!(error.code(), "TFY0115"),
            other => panic!("{other:?}"),
        }
    }
}

/// Tasks that wait for each other in many ways, and go on at the same time.
async fn busy(rounds: u32) -> Result<u32, TaskError> {
    let mut sum = 0;
    for round in 0..rounds {
        let quick = try_spawn(async move {
            for turn in 0..3 {
                put("turn", turn).await;
                yield_now().await;
            }
            price(round).await
        });
        let slow = try_spawn(async move {
            sleep(ms(1)).await;
            put("slow", round).await;
            yield_now().await;
            price(round + 1).await
        });
        let (quick, slow) = (quick.await, slow.await);
        yield_now().await;
        sum += gather(vec![quick, slow]).await?.into_iter().sum::<u32>();
        put("sum", sum).await;
    }
    Ok(sum)
}

#[test]
fn a_moment_is_the_same_however_one_comes_there() {
    for outward in [false, true] {
        let dir = Dir::new();
        let builder = dir.builder().register("busy", busy);
        let builder = if outward { builder.record_outward_only() } else { builder };
        let mut runtime = builder.build().unwrap();
        let run = runtime.submit::<u32>("busy", "busy", &12).unwrap();
        runtime.wait_for(&run).unwrap();
        drop(runtime);
        let open = || {
            let program = Runtime::builder().register("busy", busy);
            TimeTravel::open(program, &dir.0, run.uuid()).unwrap()
        };
        let seen = |travel: &mut TimeTravel, seq| format!("{:?}", travel.seek(seq).unwrap());
        let mut travel = open();
        let records = travel.records();
        assert!(records > 140, "{records}");
        let forwards: Vec<String> = (1..=records).map(|seq| seen(&mut travel, seq)).collect();
        let backwards: Vec<String> =
            (1..=records).rev().map(|seq| seen(&mut travel, seq)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        for seq in (1..=records).step_by(5) {
            assert_eq!(seen(&mut open(), seq), forwards[seq as usize - 1], "record {seq}, at once");
            let other = seq * 7919 % records + 1;
            assert_eq!(seen(&mut travel, other), forwards[other as usize - 1], "record {other}");
        }
        // Between the records something happens, too: most of them look different.
        let different: BTreeSet<&str> =
            forwards.iter().map(|text| text.split_once("tasks: ").unwrap().1).collect();
        assert!(different.len() as u64 > records / 2, "{} of {records}", different.len());
    }
}

fn uuid(dir: &Dir) -> tiffany::Uuid {
    let view = View::open(std::sync::Arc::new(tiffany::wal::RealDisk), &dir.0).unwrap();
    view.runs().next().unwrap().0
}

/// The first record of a task.
fn record_of(travel: &TimeTravel, tid: u64) -> u64 {
    record_with(travel, &format!("\"tid\":{tid},"))
}

#[test]
fn a_failure_is_found_and_shown() {
    let dir = Dir::new();
    let (mut travel, _) = travel(&dir, 13);
    let failure = travel.failure().unwrap();
    let moment = travel.seek(failure).unwrap();
    let root = moment.task(Tid(1)).unwrap();
    assert_eq!(root.state, "failed");
    let error = root.error.as_ref().unwrap();
    assert!(error.to_string().contains("nobody sells thirteen"), "{error}");
    let before = travel.seek(failure - 1).unwrap();
    assert_eq!(before.task(Tid(1)).unwrap().error, None);
}

/// Catches the failure of a first task. Then it fails by itself, or with the failure of another.
async fn lenient(by_itself: bool) -> Result<(), TaskError> {
    let refuse = |why: &'static str| async move {
        price(1).await?;
        Err::<(), _>(TaskError::failed(why))
    };
    let first = try_spawn(refuse("at first")).await;
    assert!(first.await.is_err());
    let last = try_spawn(refuse("at last")).await;
    if by_itself {
        assert!(last.await.is_err());
        return Err(TaskError::failed("by itself"));
    }
    last.await
}

#[test]
fn the_failure_is_the_one_that_nobody_caught() {
    for (by_itself, tid, message) in [(true, 1, "by itself"), (false, 3, "at last")] {
        let dir = Dir::new();
        let mut runtime = dir.builder().register("lenient", lenient).build().unwrap();
        let run = runtime.submit::<()>("lenient", "lenient", &by_itself).unwrap();
        runtime.wait_for(&run).unwrap_err();
        drop(runtime);
        let program = Runtime::builder().register("lenient", lenient);
        let mut travel = TimeTravel::open(program, &dir.0, run.uuid()).unwrap();
        let failure = travel.failure().unwrap();
        let line = travel.record(failure).unwrap();
        assert!(line.contains("TaskAbort") && line.contains(message), "{line}");
        let moment = travel.seek(failure).unwrap();
        let error = moment.task(Tid(tid)).unwrap().error.as_ref().unwrap();
        assert_eq!(error.message(), message);
        // Whether they go on or are over, they were spawned where they were.
        let last = travel.seek(travel.records()).unwrap();
        for task in moment.tasks.iter().chain(&last.tasks) {
            assert!(task.spawned_at.file.ends_with("time_travel.rs"), "{task:?}");
        }
    }
}

#[test]
fn code_that_does_something_else_says_where() {
    let dir = Dir::new();
    drop(travel(&dir, 2));
    let other = |_: u32| async { price(7).await };
    let program = Runtime::builder().register("shop", other);
    let mut travel = TimeTravel::open(program, &dir.0, uuid(&dir)).unwrap();
    assert!(travel.seek(1).is_ok(), "so far it is the same");
    let Err(RunError::Failed(error)) = travel.seek(3) else { panic!("it is not the same") };
    assert_eq!(error.code(), "TFY0036");
}
