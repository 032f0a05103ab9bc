//! Runs that begin anew by `continue_as`: what stays, what goes, and what is refused.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use crate::durable_kit::{Dir, ms};
use serde_json::Value;
use tiffany::durable::{continue_as, external_promise, receive, run_id, send, step_with};
use tiffany::wal::{Batch, Chain, RecordType, Stamp};
use tiffany::{
    Builder, ErrorKind, RunError, Settlement, TaskError, Tid, Uuid, random, sleep, spawn, yield_now,
};

/// The keys of the steps of one test, with the number that each is for, in the order in which they were begun.
static KEYS: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

/// Adds numbers that come by message, three in each generation, and a step with each.
async fn adder((mut sum, mut drawn): (u64, Vec<u64>)) -> Result<(u64, Vec<u64>), TaskError> {
    drawn.push(random().await);
    for _ in 0..3 {
        let Some(number) = receive::<Option<u64>>("number").await? else {
            return Ok((sum, drawn));
        };
        sum = step_with("add", move |attempt| {
            KEYS.lock().unwrap().push((attempt.key().to_owned(), number));
            Ok::<u64, String>(sum + number)
        })
        .await?;
    }
    continue_as(&(sum, drawn)).await
}

fn first(dir: &Dir) -> Value {
    let log = dir.log();
    serde_json::from_str(log.lines().next().expect("it has a line")).expect("it is JSON")
}

#[test]
fn a_run_that_begins_anew_is_the_same_run() {
    let dir = Dir::new();
    let start = || dir.builder().register("adder", adder).build().unwrap();
    let mut runtime = start();
    let none: Vec<u64> = Vec::new();
    let run = runtime.submit::<(u64, Vec<u64>)>("adder", "sum", &(0, &none)).unwrap();
    for number in 1..=8 {
        runtime.send(&run, "number", &Some(number)).unwrap();
    }
    runtime.flush().unwrap();
    drop(runtime);
    // Brought back, it is the last generation that goes on, with what it had not taken.
    let mut runtime = start();
    let again = runtime.submit::<(u64, Vec<u64>)>("adder", "sum", &(0, &none)).unwrap();
    assert_eq!(again.uuid(), run.uuid());
    let other = runtime.submit::<(u64, Vec<u64>)>("adder", "sum", &(6, &none));
    let Err(RunError::Failed(other)) = other else { panic!("it was started with another input") };
    assert_eq!(other.kind(), ErrorKind::OtherRun);
    runtime.send(&run, "number", &None::<u64>).unwrap();
    let (sum, drawn) = runtime.wait_for(&run).unwrap();
    assert_eq!((sum, drawn.len()), (36, 3));
    assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "random numbers are repeated: {drawn:?}");
    drop(runtime);

    // A step that was under way when the first runtime ended is begun again, with the same key.
    let mut keys = KEYS.lock().unwrap().clone();
    keys.dedup();
    let unique: BTreeSet<&str> = keys.iter().map(|(key, _)| &**key).collect();
    assert_eq!((unique.len(), keys.len()), (8, 8), "a key was used twice: {keys:?}");
    assert!(keys[7].0.starts_with(&format!("{}/3.", run.uuid())), "{:?}", keys[7]);

    let line = first(&dir);
    assert_eq!((line["gen"].as_u64(), line["seq"].as_u64()), (Some(3), Some(1)));
    assert_eq!(line["id"], "sum");
    assert_eq!(line["continued"]["gen"], 2);
    // Two generations: a random number, three messages, three steps, and the call itself.
    assert_eq!(line["continued"]["calls"], 16);
    // After its end it is known by what it was first started with, too.
    let mut runtime = start();
    let again = runtime.submit::<(u64, Vec<u64>)>("adder", "sum", &(0, &none)).unwrap();
    assert_eq!(runtime.wait_for(&again).unwrap().0, 36);
}

#[test]
fn a_crash_before_the_new_generation_is_safe_changes_nothing() {
    async fn count(number: u64) -> Result<u64, TaskError> {
        sleep(ms(1)).await;
        if number == 4 { Ok(number) } else { continue_as(&(number + 1)).await }
    }
    let dir = Dir::new();
    let builder = |dir: &Dir| dir.builder().register("count", count);
    let mut runtime = builder(&dir).build().unwrap();
    let run = runtime.submit::<u64>("count", "c", &0).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 4);
    drop(runtime);
    assert_eq!(first(&dir)["gen"], 5);

    // The log of a first generation that ends with the call, as if the next had never been written.
    let cut = dir.with_log(&first_generation(run.uuid(), 3));
    let mut runtime = builder(&cut).build().unwrap();
    let run = runtime.submit::<u64>("count", "c", &3).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 4);
    drop(runtime);
    assert_eq!(first(&cut)["gen"], 2);
}

/// What a run of `count` writes until it begins anew.
fn first_generation(run: Uuid, number: u64) -> String {
    let (mut chain, mut batch, tid) = (Chain::new(run), Batch::new(), Tid(1));
    let stamp = Stamp::from_unix_nanos(1_000_000_000);
    batch
        .line(&mut chain, &stamp, RecordType::RunStart, tid)
        .str("id", "c")
        .str("function", "count")
        .json("input", &number.to_string())
        .str("seed", "7")
        .str("recording", "every")
        .end();
    let call = batch.line(&mut chain, &stamp, RecordType::TaskYield, tid).str("call", "sleep");
    call.str("time", "1970-01-01T00:00:01.001000000Z").str("at", "x.rs:1").end();
    let wake = batch.line(&mut chain, &stamp, RecordType::TaskWake, tid);
    wake.uint("of", 2).uint("step", 1).end();
    let call = batch.line(&mut chain, &stamp, RecordType::TaskYield, tid);
    let call = call.str("call", "continue_as").json("about", &(number + 1).to_string());
    call.str("at", "x.rs:1").end();
    batch.text().to_owned()
}

#[test]
fn what_may_not_begin_anew_is_told_so_and_goes_on() {
    async fn bad(_: u64) -> Result<Vec<String>, TaskError> {
        let mut told = Vec::new();
        let mut tell =
            |error: TaskError| told.push(format!("{} {}", error.code(), error.message()));
        let child = spawn(async { continue_as::<()>(&1).await.unwrap_err() }).await;
        tell(child.await?);
        let child = spawn(async { sleep(ms(20)).await }).await;
        tell(continue_as::<()>(&2).await.unwrap_err());
        child.await?;
        tell(continue_as::<()>(&"no number").await.unwrap_err());
        tell(continue_as::<()>(&f64::NAN).await.unwrap_err());
        Ok(told)
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("bad", bad).build().unwrap();
    let run = runtime.submit::<Vec<String>>("bad", "b", &0).unwrap();
    let told = runtime.wait_for(&run).unwrap();
    assert!(told[0].starts_with("TFY0125 task 2 is not the root"), "{told:?}");
    assert!(
        told[1].starts_with("TFY0125 task 3") && told[1].contains("is not finished"),
        "{told:?}"
    );
    assert!(told[2].starts_with("TFY0035"), "{told:?}");
    assert!(told[3].starts_with("TFY0034"), "{told:?}");
    drop(runtime);
    assert_eq!(first(&dir)["gen"], 1);
    // It is the same when it is brought back from any place.
    for records in 1..dir.log().lines().count() {
        let lines: String = dir.log().split_inclusive('\n').take(records).collect();
        let cut = dir.with_log(&lines);
        let mut runtime = cut.builder().register("bad", bad).build().unwrap();
        let run = runtime.submit::<Vec<String>>("bad", "b", &0).unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), told, "after {records} records");
    }

    let ephemeral = tiffany::try_run(async { continue_as::<()>(&1).await });
    assert_eq!(ephemeral.unwrap_err().task_error().unwrap().kind(), ErrorKind::CannotContinue);
}

#[test]
fn promises_that_are_not_settled_are_gone() {
    /// The promise of the generation before, and this one's.
    static PROMISES: Mutex<Option<(Uuid, Uuid)>> = Mutex::new(None);
    async fn promising(old: Option<Uuid>) -> Result<u32, TaskError> {
        let promise = external_promise::<u32>().await;
        let Some(old) = old else { return continue_as(&Some(promise.uuid())).await };
        let new = promise.uuid();
        step_with("tell", move |_| {
            *PROMISES.lock().unwrap() = Some((old, new));
            Ok::<(), String>(())
        })
        .await?;
        promise.wait().await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("promising", promising).build().unwrap();
    let run = runtime.submit::<u32>("promising", "p", &None::<Uuid>).unwrap();
    let handle = runtime.handle();
    let settling = std::thread::spawn(move || {
        let (old, new) = loop {
            match *PROMISES.lock().unwrap() {
                Some(promises) => break promises,
                None => std::thread::sleep(ms(1)),
            }
        };
        let old = handle.settle_durable(old, Ok(&1u32));
        (old, handle.settle_durable(new, Ok(&7u32)))
    });
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
    let (old, new) = settling.join().unwrap();
    assert_eq!(old.unwrap_err().kind(), ErrorKind::UnknownPromise);
    assert_eq!(new.unwrap(), Settlement::Accepted);
}

#[test]
fn cancelled_between_generations_it_is_cancelled() {
    async fn forever(number: u64) -> Result<u64, TaskError> {
        yield_now().await;
        sleep(ms(1)).await;
        continue_as(&(number + 1)).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("forever", forever).build().unwrap();
    let run = runtime.submit::<u64>("forever", "f", &0).unwrap();
    runtime.run(async { sleep(ms(50)).await }).unwrap();
    runtime.cancel(&run).unwrap();
    let error = runtime.wait_for(&run).unwrap_err();
    assert!(error.task_error().unwrap().is_cancelled());
    drop(runtime);
    assert!(first(&dir)["gen"].as_u64().unwrap() > 2);
    assert_eq!(dir.count("\"type\":\"TaskCancel\""), 1);
}

#[test]
fn messages_of_other_runs_come_once_over_generations() {
    async fn sender(count: u64) -> Result<(), TaskError> {
        for number in 0..count {
            send(run_id("sum"), "number", &Some(number)).await?;
        }
        send(run_id("sum"), "number", &None::<u64>).await
    }
    async fn taker(mut all: Vec<u64>) -> Result<Vec<u64>, TaskError> {
        for _ in 0..2 {
            match receive::<Option<u64>>("number").await? {
                Some(number) => all.push(number),
                None => return Ok(all),
            }
        }
        continue_as(&all).await
    }
    let dir = Dir::new();
    let register = |builder: Builder| builder.register("sender", sender).register("taker", taker);
    let mut runtime = register(dir.builder()).build().unwrap();
    let run = runtime.submit::<Vec<u64>>("taker", "sum", &Vec::<u64>::new()).unwrap();
    let sends = runtime.submit::<()>("sender", "s", &9).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), (0..9).collect::<Vec<_>>());
    runtime.wait_for(&sends).unwrap();
}

/// "has a bounded log": ten thousand calls, continued every hundred.
#[test]
fn the_log_does_not_grow() {
    async fn busy(left: u64) -> Result<u64, TaskError> {
        for _ in 0..100 {
            random().await;
        }
        if left == 0 { Ok(0) } else { continue_as(&(left - 1)).await }
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("busy", busy).build().unwrap();
    let run = runtime.submit::<u64>("busy", "b", &99).unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let line = first(&dir);
    assert_eq!(
        (line["gen"].as_u64(), line["continued"]["calls"].as_u64()),
        (Some(100), Some(99 * 101))
    );
    assert!(dir.log().len() < 40_000, "{}", dir.log().len());
}

/// Waits for a word, and begins again.
async fn again(at: u32) -> Result<u32, TaskError> {
    let _: u32 = receive("go").await?;
    continue_as(&(at + 1)).await
}

/// The threat: an index that is older than a run's file, which happens to have the length that the index knows.
#[test]
fn a_later_generation_of_the_same_length_is_not_written_to_as_the_earlier_one() {
    let copy = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to).unwrap();
        for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
        }
    };
    let dir = Dir::new();
    let build = |dir: &Dir| dir.builder().register("again", again).build().unwrap();
    let mut lengths: Vec<(u64, Dir)> = Vec::new();
    // A seed has some digits more or less, so that the lengths differ a little.
    let (older, newer) = loop {
        let mut runtime = build(&dir);
        let run = runtime.submit::<u32>("again", "a", &10).unwrap();
        runtime.send(&run, "go", &1u32).unwrap();
        runtime.run(async { sleep(ms(20)).await }).unwrap();
        drop(runtime);
        let length = std::fs::metadata(dir.run_file()).unwrap().len();
        let kept = Dir::new();
        copy(&dir.0.join("commit"), &kept.0.join("commit"));
        copy(&dir.0.join("wal"), &kept.0.join("wal"));
        if let Some(at) = lengths.iter().position(|(known, _)| *known == length) {
            break (lengths.swap_remove(at).1, kept);
        }
        lengths.push((length, kept));
        assert!(lengths.len() < 40, "no two generations have one length");
    };
    let mixed = Dir::new();
    copy(&older.0.join("commit"), &mixed.0.join("commit"));
    copy(&newer.0.join("wal"), &mixed.0.join("wal"));
    let before = mixed.log();
    assert_ne!(before, older.log());
    let mut runtime = build(&mixed);
    let paused = runtime.paused();
    assert_eq!(paused.len(), 1, "it goes on from an earlier generation");
    assert!(paused[0].error.message().contains("TFY0107"), "{}", paused[0].error);
    let run = runtime.submit::<u32>("again", "a", &10);
    drop(run.map(|run| runtime.send(&run, "go", &1u32)));
    drop(runtime);
    assert_eq!(mixed.log(), before, "its file was changed");
}
