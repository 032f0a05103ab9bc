//! How many attempts may block a thread at once, and what waiting for a slot means for timeouts and for the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use tiffany::durable::step;
use tiffany::{Builder, ErrorKind, Runtime, TaskError, gather, sleep, spawn, try_spawn};

use crate::durable_kit::{Dir, ms};
use crate::test_process;

fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "it never came to that");
        std::thread::sleep(ms(1));
    }
}

/// The largest number of attempts that a log has begun and not ended, at any line.
fn most_at_once(log: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in log.lines() {
        now += usize::from(line.contains("\"EffectStart\""));
        now -= usize::from(line.contains("\"EffectResult\""));
        most = most.max(now);
    }
    most
}

#[test]
fn waiting_for_a_slot_counts_against_no_timeout() {
    async fn work(_: ()) -> Result<Vec<u32>, TaskError> {
        let mut tasks = Vec::new();
        for n in 0..20 {
            let slow = step("slow", move || {
                std::thread::sleep(ms(100));
                Ok::<u32, String>(n)
            });
            // With four slots the last ones wait for four times this long.
            tasks.push(try_spawn(slow.timeout(ms(400)).into_future()).await);
        }
        gather(tasks).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().step_slots(4).register("work", work).build().unwrap();
    let run = runtime.submit::<Vec<u32>>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), (0..20).collect::<Vec<u32>>());
    drop(runtime);
    assert_eq!(most_at_once(&dir.log()), 4);
}

#[test]
fn twenty_steps_run_at_once_unless_told_otherwise() {
    let all = Arc::new(Barrier::new(20));
    let count = tiffany::run(async move {
        let mut tasks = Vec::new();
        for _ in 0..20 {
            let all = Arc::clone(&all);
            // None of them returns before the last one has begun.
            let meets = step("meets", move || {
                all.wait();
                Ok::<u32, String>(1)
            });
            tasks.push(try_spawn(meets.timeout(Duration::from_secs(20)).into_future()).await);
        }
        gather(tasks).await.map(|ones| ones.len())
    });
    assert_eq!(count.unwrap().unwrap(), 20);
}

#[test]
fn after_a_crash_only_attempts_that_had_a_slot_are_in_doubt() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static LET_GO: AtomicBool = AtomicBool::new(false);
    async fn work(_: ()) -> Result<Vec<String>, TaskError> {
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(
                spawn(async {
                    let once = step("once", || {
                        BEGUN.fetch_add(1, Ordering::SeqCst);
                        until(|| LET_GO.load(Ordering::SeqCst));
                        Ok::<u32, String>(1)
                    });
                    match once.at_most_once().await {
                        Ok(_) => "done".to_string(),
                        Err(error) => error.code().to_string(),
                    }
                })
                .await,
            );
        }
        gather(tasks).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().step_slots(4).register("work", work).build().unwrap();
    let run = runtime.submit::<Vec<String>>("work", "a", &()).unwrap();
    while BEGUN.load(Ordering::SeqCst) < 4 {
        runtime.run(sleep(ms(2))).unwrap();
    }
    // What a process that is killed now leaves behind: the whole directory, while it is in use.
    let crashed = Dir::new();
    let copied = Command::new("cp").arg("-r").args([&dir.0, &crashed.0]).status().unwrap();
    assert!(copied.success());
    LET_GO.store(true, Ordering::SeqCst);
    drop(runtime);

    let mut runtime = crashed.builder().step_slots(4).register("work", work).build().unwrap();
    let outcomes = runtime.wait_for(&run).unwrap();
    let in_doubt = outcomes.iter().filter(|code| *code == ErrorKind::InDoubt.code()).count();
    let done = outcomes.iter().filter(|outcome| *outcome == "done").count();
    assert_eq!((in_doubt, done), (4, 16));
}

/// In the environment of a process that is to be killed: its directory.
const BE_KILLED: &str = "TIFFANY_SLOTS_BE_KILLED";

/// More steps than there are slots. In the process that is killed they enter their numbers in a ledger
/// and never return.
async fn more_than_slots(_: ()) -> Result<Vec<String>, TaskError> {
    let mut tasks = Vec::new();
    for n in 0..Builder::DEFAULT_STEP_SLOTS + 50 {
        let once = step("once", move || {
            if let Some(dir) = std::env::var_os(BE_KILLED) {
                let ledger = Path::new(&dir).join("ledger");
                let mut ledger = OpenOptions::new().create(true).append(true).open(ledger)?;
                ledger.write_all(format!("{n}\n").as_bytes())?;
                loop {
                    std::thread::park();
                }
            }
            Ok::<_, std::io::Error>(())
        });
        let once = async { once.at_most_once().await.map_or_else(|e| e.code(), |()| "done") };
        tasks.push(spawn(async { once.await.to_string() }).await);
    }
    gather(tasks).await
}

#[test]
fn after_a_kill_only_steps_that_had_begun_are_in_doubt() {
    let build = |dir: &Path| {
        let builder = Runtime::builder().log_dir(dir.join("log"));
        builder.register("more", more_than_slots).build().unwrap()
    };
    if let Some(dir) = std::env::var_os(BE_KILLED) {
        let mut runtime = build(Path::new(&dir));
        let run = runtime.submit::<Vec<String>>("more", "a", &()).unwrap();
        runtime.wait_for(&run).unwrap();
        return;
    }
    let dir = Dir::new();
    std::fs::create_dir_all(&dir.0).unwrap();
    let name = "after_a_kill_only_steps_that_had_begun_are_in_doubt";
    let mut command = test_process::command(module_path!(), name);
    let mut child = command.env(BE_KILLED, &dir.0).stdout(Stdio::null()).spawn().unwrap();
    let begun = || std::fs::read_to_string(dir.0.join("ledger")).unwrap_or_default();
    until(|| begun().lines().count() >= Builder::DEFAULT_STEP_SLOTS);
    std::thread::sleep(ms(50));
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = begun();
    let begun: BTreeSet<usize> = begun.lines().map(|line| line.parse().unwrap()).collect();
    let mut runtime = build(&dir.0);
    let run = runtime.submit::<Vec<String>>("more", "a", &()).unwrap();
    let outcomes = runtime.wait_for(&run).unwrap();
    let in_doubt = outcomes.iter().enumerate().filter(|(_, outcome)| *outcome != "done");
    let in_doubt: BTreeMap<usize, &str> = in_doubt.map(|(n, outcome)| (n, &**outcome)).collect();
    assert!(in_doubt.values().all(|code| *code == ErrorKind::InDoubt.code()), "{in_doubt:?}");
    assert_eq!(in_doubt.into_keys().collect::<BTreeSet<_>>(), begun);
    assert_eq!(begun.len(), Builder::DEFAULT_STEP_SLOTS);
}

#[test]
fn an_attempt_that_was_given_up_has_its_slot_until_its_work_returns() {
    static LET_GO: AtomicBool = AtomicBool::new(false);
    static ORDER: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let mut runtime = Runtime::builder().step_slots(1).build().unwrap();
    let kinds = runtime.run(async {
        let first = spawn(async {
            let hangs = step("hangs", || {
                until(|| LET_GO.load(Ordering::SeqCst));
                ORDER.lock().unwrap().push("the first returns");
                Ok::<u32, String>(1)
            });
            hangs.timeout(ms(20)).await
        })
        .await;
        sleep(ms(5)).await;
        let second = spawn(async {
            let quick = step("quick", || {
                ORDER.lock().unwrap().push("the second begins");
                Ok::<u32, String>(2)
            });
            quick.at_most_once().timeout(ms(20)).await
        })
        .await;
        let first = first.await.unwrap().unwrap_err().kind();
        sleep(ms(60)).await;
        LET_GO.store(true, Ordering::SeqCst);
        (first, second.await.unwrap())
    });
    assert_eq!(kinds.unwrap(), (ErrorKind::TimedOut, Ok(2)));
    assert_eq!(*ORDER.lock().unwrap(), ["the first returns", "the second begins"]);
}

#[test]
fn a_step_that_is_cancelled_while_it_waits_for_a_slot_never_begins() {
    static LET_GO: AtomicBool = AtomicBool::new(false);
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    async fn work(_: ()) -> Result<u32, TaskError> {
        let first = try_spawn(
            step("hangs", || {
                until(|| LET_GO.load(Ordering::SeqCst));
                Ok::<u32, String>(1)
            })
            .into_future(),
        )
        .await;
        let mut others = Vec::new();
        for _ in 0..2 {
            let never = step("counts", || Ok::<_, String>(BEGUN.fetch_add(1, Ordering::SeqCst)));
            others.push(try_spawn(never.queue("two").into_future()).await);
        }
        sleep(ms(20)).await;
        tiffany::cancel(&others[0]).await;
        sleep(ms(20)).await;
        LET_GO.store(true, Ordering::SeqCst);
        others.remove(1).await?;
        first.await
    }
    let dir = Dir::new();
    let queue = tiffany::durable::QueueSettings { concurrency: Some(2), rate: None };
    let builder = dir.builder().step_slots(1).queue("two", queue);
    let mut runtime = builder.register("work", work).build().unwrap();
    let run = runtime.submit::<u32>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 1);
    assert_eq!(BEGUN.load(Ordering::SeqCst), 1);
    drop(runtime);
    assert_eq!(most_at_once(&dir.log()), 1);
}
