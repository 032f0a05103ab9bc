//! What one run may use: it is held when it goes over a limit, and continues when a person releases it.

mod deaths;
mod ends;
mod inbox;
mod log_size;
mod queues;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tiffany::control::{Control, Request, RunQuery, State};
use tiffany::durable::{DurableRun, Fork, RunLimits, receive, run_id, send, step};
use tiffany::history::RunIndex;
use tiffany::pal::{Stage, Told, Wanted};
use tiffany::{
    AgentTask, Builder, ErrorKind, RunError, Runtime, RuntimeHandle, TaskContext, TaskError,
    TaskStatus, binding, random, sleep, spawn, spawn_agent, timeout,
};

use crate::durable_kit::{Dir, TO_BE_KILLED, ms};

fn kind(error: &RunError) -> ErrorKind {
    error.task_error().unwrap_or_else(|| panic!("{error}")).kind()
}

fn state(runtime: &mut Runtime, id: &str) -> State {
    let page = runtime.runs(&RunQuery { text: Some(id.into()), ..RunQuery::default() }).unwrap();
    page.runs[0].state
}

fn wait_error<T: serde::de::DeserializeOwned + std::fmt::Debug>(
    runtime: &mut Runtime,
    run: &DurableRun<T>,
) -> TaskError {
    runtime.wait_for(run).unwrap_err().task_error().unwrap().clone()
}

/// Spawns for ever.
async fn breeds(_: ()) -> Result<(), TaskError> {
    loop {
        drop(spawn(async { sleep(Duration::from_secs(3600)).await }).await);
    }
}

async fn counts(to: u64) -> Result<u64, TaskError> {
    for _ in 0..to {
        random().await;
    }
    Ok(to)
}

async fn quick(_: ()) -> Result<u32, TaskError> {
    sleep(ms(5)).await;
    step("one", || Ok::<u32, String>(1)).await
}

fn programs(dir: &Dir) -> Builder {
    dir.builder().register("breeds", breeds).register("counts", counts).register("quick", quick)
}

fn tasks(limit: u64) -> RunLimits {
    RunLimits { tasks: Some(limit), ..RunLimits::default() }
}

#[test]
fn a_run_that_spawns_for_ever_is_held_and_others_go_on() {
    let dir = Dir::new();
    let mut runtime = programs(&dir).run_limits(tasks(500)).build().unwrap();
    let breeder = runtime.submit::<()>("breeds", "breeder", &()).unwrap();
    let error = wait_error(&mut runtime, &breeder);
    assert_eq!(error.kind(), ErrorKind::RunHeld);
    assert!(error.message().contains("501 tasks alive, more than the 500"), "{error}");
    assert_eq!(state(&mut runtime, "breeder"), State::Held);
    let other = runtime.submit::<u32>("quick", "other", &()).unwrap();
    assert_eq!(runtime.wait_for(&other).unwrap(), 1);
    // It is not driven any further, and nothing that it did is recorded after its hold.
    runtime.run(sleep(ms(30))).unwrap();
    drop(runtime);
    assert_eq!(dir_count(&dir, "breeder", "TaskSpawn"), 500);
    let log = log_of(&dir, "breeder");
    let last = log.lines().rfind(|line| !line.contains("ShutdownMarker")).unwrap();
    assert!(last.contains("\"type\":\"RunHeld\""), "{last}");
}

fn log_of(dir: &Dir, id: &str) -> String {
    let file = dir.0.join("wal").join(format!("{}.wal", run_id(id)));
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Runs what there is until this is so. Lines get into the file of a run a little after they are durable.
fn run_until(runtime: &mut Runtime, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not come to that");
        runtime.run(sleep(ms(1))).unwrap();
    }
}

/// How many records of this type the file of a run has.
fn dir_count(dir: &Dir, id: &str, what: &str) -> usize {
    log_of(dir, id).lines().filter(|line| line.contains(&format!("\"type\":\"{what}\""))).count()
}

#[test]
fn after_a_restart_it_is_held_without_being_replayed() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    async fn breeds_and_counts(_: ()) -> Result<(), TaskError> {
        CALLED.fetch_add(1, Ordering::SeqCst);
        breeds(()).await
    }
    let dir = Dir::new();
    let build = || {
        let builder = dir.builder().register("breeds", breeds_and_counts);
        builder.run_limits(tasks(100)).build().unwrap()
    };
    let mut runtime = build();
    let run = runtime.submit::<()>("breeds", "a", &()).unwrap();
    assert_eq!(kind(&runtime.wait_for(&run).unwrap_err()), ErrorKind::RunHeld);
    drop(runtime);
    assert_eq!(CALLED.load(Ordering::SeqCst), 1);
    let mut runtime = build();
    assert_eq!(CALLED.load(Ordering::SeqCst), 1, "it was replayed");
    assert_eq!(state(&mut runtime, "a"), State::Held);
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().contains("101 tasks alive, more than the 100"), "{error}");
    // A release allows it twice as many, and that holds after another restart.
    runtime.release(&run, "ada", Some("to see how far it goes")).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().contains("201 tasks alive, more than the 200"), "{error}");
    runtime.release(&run, "ada", None).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().contains("more than the 400"), "{error}");
    drop(runtime);
    let mut runtime = build();
    runtime.release(&run, "ada", None).unwrap();
    assert!(wait_error(&mut runtime, &run).message().contains("more than the 800"));
}

#[test]
fn a_run_that_grew_without_limits_is_held_on_its_way_back() {
    let dir = Dir::new();
    let mut runtime = programs(&dir).build().unwrap();
    let run = runtime.submit::<()>("breeds", "a", &()).unwrap();
    run_until(&mut runtime, || dir_count(&dir, "a", "TaskSpawn") > 300);
    drop(runtime);
    let spawned = dir_count(&dir, "a", "TaskSpawn");
    let mut runtime = programs(&dir).run_limits(tasks(100)).build().unwrap();
    let error = wait_error(&mut runtime, &run);
    assert_eq!((error.kind(), state(&mut runtime, "a")), (ErrorKind::RunHeld, State::Held));
    assert!(error.message().contains("more than the 100"), "{error}");
    assert_eq!(dir_count(&dir, "a", "TaskSpawn"), spawned);
    drop(runtime);
    // The next process knows it from the log.
    assert_eq!(dir_count(&dir, "a", "RunHeld"), 1);
    let mut runtime = programs(&dir).build().unwrap();
    assert_eq!(kind(&runtime.wait_for(&run).unwrap_err()), ErrorKind::RunHeld);
}

#[test]
fn records_bytes_and_calls_are_limited() {
    let few = |limits: RunLimits| {
        let dir = Dir::new();
        let mut runtime = programs(&dir).run_limits(limits).build().unwrap();
        let run = runtime.submit::<u64>("counts", "a", &5_000_u64).unwrap();
        let error = wait_error(&mut runtime, &run);
        assert_eq!(error.kind(), ErrorKind::RunHeld);
        for _ in 0..10 {
            runtime.release(&run, "ada", None).unwrap();
            match runtime.wait_for(&run) {
                Ok(count) => {
                    assert_eq!(count, 5_000);
                    return error.message().to_owned();
                }
                Err(error) => assert_eq!(kind(&error), ErrorKind::RunHeld),
            }
        }
        panic!("it was held again and again");
    };
    let records = few(RunLimits { records: Some(1_000), ..RunLimits::default() });
    assert!(records.contains("records in its log, more than the 1000"), "{records}");
    let bytes = few(RunLimits { log_bytes: Some(100_000), ..RunLimits::default() });
    assert!(bytes.contains("bytes of log, with large values, more than the 100000"), "{bytes}");
    let calls = few(RunLimits { calls: Some(2_000), ..RunLimits::default() });
    assert!(calls.contains("system calls, more than the 2000"), "{calls}");
}

#[test]
fn memory_is_estimated() {
    let dir = Dir::new();
    let limits = RunLimits { memory_bytes: Some(4_000_000), ..RunLimits::default() };
    let mut runtime = programs(&dir).run_limits(limits).build().unwrap();
    let run = runtime.submit::<()>("breeds", "a", &()).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().contains("bytes of memory, as estimated"), "{error}");
    assert!(dir_count(&dir, "a", "TaskSpawn") < 20_000);
}

#[test]
fn a_person_holds_a_run_and_its_steps_come_to_their_end() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static LET_GO: AtomicBool = AtomicBool::new(false);
    static SECOND: AtomicUsize = AtomicUsize::new(0);
    async fn two(_: ()) -> Result<u32, TaskError> {
        let first: u32 = step("first", || {
            BEGUN.store(true, Ordering::SeqCst);
            while !LET_GO.load(Ordering::SeqCst) {
                std::thread::sleep(ms(1));
            }
            Ok::<u32, String>(1)
        })
        .await?;
        let second = step("second", || Ok::<_, String>(SECOND.fetch_add(1, Ordering::SeqCst)));
        second.await?;
        Ok(first)
    }
    let dir = Dir::new();
    let build = || dir.builder().register("two", two).build().unwrap();
    let mut runtime = build();
    let run = runtime.submit::<u32>("two", "a", &()).unwrap();
    run_until(&mut runtime, || BEGUN.load(Ordering::SeqCst));
    runtime.hold(&run, "ada", Some("the bank is closed")).unwrap();
    runtime.hold(&run, "bob", None).unwrap(); // it is held already
    LET_GO.store(true, Ordering::SeqCst);
    run_until(&mut runtime, || dir_count(&dir, "a", "EffectResult") == 1);
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().ends_with("is held by ada: the bank is closed"), "{error}");
    drop(runtime);
    assert_eq!(dir_count(&dir, "a", "EffectResult"), 1, "its step was recorded");
    assert_eq!(SECOND.load(Ordering::SeqCst), 0);
    let mut runtime = build();
    runtime.run(sleep(ms(20))).unwrap();
    assert_eq!(SECOND.load(Ordering::SeqCst), 0);
    runtime.hold(&run, "bob", None).unwrap(); // it is still held
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().ends_with("is held by ada: the bank is closed"), "{error}");
    runtime.release(&run, "ada", None).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 1);
    assert_eq!(SECOND.load(Ordering::SeqCst), 1);
    // What is not held can't be released, and what is over can't be held.
    assert_eq!(kind(&runtime.release(&run, "ada", None).unwrap_err()), ErrorKind::RunOver);
    assert_eq!(kind(&runtime.hold(&run, "ada", None).unwrap_err()), ErrorKind::RunOver);
}

#[test]
fn a_fork_of_a_held_run_is_not_held() {
    async fn waits(_: ()) -> Result<u64, TaskError> {
        random().await;
        receive("n").await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("waits", waits).build().unwrap();
    let run = runtime.submit::<u64>("waits", "a", &()).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.hold(&run, "ada", None).unwrap();
    runtime.send(&run, "n", &7_u64).unwrap();
    runtime.flush().unwrap();
    // RunStart, two calls, RunHeld, Message.
    let fork = runtime.fork(&run, 5, Fork::new()).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), 7);
    let paused = runtime.paused();
    assert_eq!(paused.len(), 1);
    assert_eq!((paused[0].run, paused[0].error.kind()), (run.uuid(), ErrorKind::RunHeld));
}

/// A log that is longer than what is read at once at a restart.
#[test]
fn a_long_log_is_held_without_being_replayed_unless_its_run_was_cancelled() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    static IS_READY: AtomicBool = AtomicBool::new(false);
    async fn sprawls(_: ()) -> Result<(), TaskError> {
        CALLED.fetch_add(1, Ordering::SeqCst);
        let name = "x".repeat(15_000);
        for _ in 0..2_400 {
            drop(spawn(async {}).name(name.clone()).await);
        }
        IS_READY.store(true, Ordering::SeqCst);
        receive("never").await
    }
    let dir = Dir::new();
    let build = |limits: RunLimits| {
        dir.builder().register("sprawls", sprawls).run_limits(limits).build().unwrap()
    };
    let mut runtime = build(RunLimits::default());
    let run = runtime.submit::<()>("sprawls", "a", &()).unwrap();
    while !IS_READY.load(Ordering::SeqCst) {
        runtime.run(sleep(ms(5))).unwrap();
    }
    drop(runtime);
    assert!(log_of(&dir, "a").len() > 33 << 20, "the log is long");
    let limits = RunLimits { records: Some(100), ..RunLimits::default() };
    let mut runtime = build(limits);
    assert_eq!(state(&mut runtime, "a"), State::Held);
    assert_eq!(CALLED.load(Ordering::SeqCst), 1, "it was replayed");
    // From here on its log says that it is held.
    drop(runtime);
    let mut runtime = build(RunLimits::default());
    assert_eq!((state(&mut runtime, "a"), CALLED.load(Ordering::SeqCst)), (State::Held, 1));
    runtime.cancel(&run).unwrap();
    drop(runtime);
    let mut runtime = build(limits);
    assert_eq!(wait_error(&mut runtime, &run).kind(), ErrorKind::TaskCancelled);
}

#[test]
fn a_held_run_begins_no_new_attempt() {
    static TRIED: AtomicUsize = AtomicUsize::new(0);
    async fn retries(_: ()) -> Result<usize, TaskError> {
        let fails = step("fails", || match TRIED.fetch_add(1, Ordering::SeqCst) {
            0..3 => Err("not yet"),
            tries => Ok(tries),
        });
        fails.retry(tiffany::durable::Retry::times(10).first(ms(30))).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("retries", retries).build().unwrap();
    let run = runtime.submit::<usize>("retries", "a", &()).unwrap();
    while TRIED.load(Ordering::SeqCst) == 0 {
        runtime.run(sleep(ms(1))).unwrap();
    }
    runtime.hold(&run, "ada", None).unwrap();
    let tried = TRIED.load(Ordering::SeqCst);
    runtime.run(sleep(ms(300))).unwrap();
    assert!(TRIED.load(Ordering::SeqCst) <= tried + 1, "only what was under way comes to its end");
    let tried = TRIED.load(Ordering::SeqCst);
    runtime.run(sleep(ms(100))).unwrap();
    assert_eq!(TRIED.load(Ordering::SeqCst), tried);
    runtime.release(&run, "ada", None).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 3);
}

#[test]
fn only_releases_from_a_limit_double_it() {
    let dir = Dir::new();
    let build = || programs(&dir).run_limits(tasks(40)).build().unwrap();
    let mut runtime = build();
    let run = runtime.submit::<()>("breeds", "a", &()).unwrap();
    for _ in 0..3 {
        runtime.hold(&run, "ada", None).unwrap();
        runtime.release(&run, "ada", None).unwrap();
    }
    runtime.hold(&run, "ada", None).unwrap();
    drop(runtime);
    // After a restart the log tells how often it was released, and from what.
    let mut runtime = build();
    runtime.release(&run, "ada", None).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().contains("more than the 40"), "{error}");
}

#[test]
fn a_loop_that_hosts_a_runtime_is_told_which_runs_have_settled() {
    let dir = Dir::new();
    let builder = programs(&dir).register("fails", |(): ()| async {
        drop(spawn(receive::<()>("never")).await);
        Err::<(), TaskError>(TaskError::failed("so"))
    });
    let mut runtime = builder.run_limits(tasks(500)).build().unwrap();
    let waits = runtime.submit::<u64>("counts", "long", &100_000_000).unwrap();
    // Nobody has asked before, so any run may have settled.
    assert_eq!(binding::settled(&mut runtime), None);
    let mut settles = |id: &str, function: &str| {
        let run = runtime.submit::<()>(function, id, &()).unwrap();
        let mut told = Vec::new();
        while told.is_empty() {
            binding::go_on(&mut runtime, 16, |_| false).unwrap();
            told.extend(binding::settled(&mut runtime).expect("somebody has asked"));
        }
        assert!(told.iter().all(|other| *other == run.uuid()), "{told:?}");
        assert!(!binding::is_live(&runtime, run.uuid()));
    };
    settles("over", "quick");
    settles("held", "breeds");
    settles("ending", "fails");
    assert!(binding::is_live(&runtime, waits.uuid()));
    runtime.hold(&waits, "ada", None).unwrap();
    assert_eq!(binding::settled(&mut runtime), Some(vec![waits.uuid()]));
}

/// Keeps a megabyte more after each call, in one of the places where a task can keep something.
async fn hoards(place: String) -> Result<usize, TaskError> {
    let (mut kept, (sender, _receiver)) = (Vec::new(), tiffany::unbounded_channel().await);
    for _ in 0..800 {
        random().await;
        let piece = vec![1_u8; 1 << 20];
        match place.as_str() {
            "variables" => kept.push(piece),
            _ => sender.send(piece).await.map_err(|error| TaskError::failed(error.to_string()))?,
        }
    }
    Ok(kept.len())
}

async fn ticks(count: u32) -> Result<u32, TaskError> {
    for _ in 0..count {
        random().await;
        sleep(ms(1)).await;
    }
    Ok(count)
}

#[test]
fn memory_counts_wherever_a_run_keeps_it() {
    for place in ["variables", "channels"] {
        let dir = Dir::new();
        let limits = RunLimits { memory_bytes: Some(150_000_000), ..RunLimits::default() };
        let build = || {
            let builder = dir.builder().register("hoards", hoards).register("ticks", ticks);
            builder.run_limits(limits).build().unwrap()
        };
        let mut runtime = build();
        let other = runtime.submit::<u32>("ticks", "other", &100_u32).unwrap();
        let run = runtime.submit::<usize>("hoards", "a", &place).unwrap();
        let error = wait_error(&mut runtime, &run);
        assert_eq!(error.kind(), ErrorKind::RunHeld, "{place}: {error}");
        assert!(error.message().contains("bytes of memory"), "{error}");
        assert_eq!(runtime.wait_for(&other).unwrap(), 100, "the other run took nothing");
        // A release allows it twice as much, in a replay as well.
        drop(runtime);
        let calls = dir_count(&dir, "a", "TaskYield");
        assert!(calls < 600, "{place}: held after {calls} calls");
        let mut runtime = build();
        runtime.release(&run, "ada", None).unwrap();
        let error = wait_error(&mut runtime, &run);
        assert!(error.message().contains("more than the 300000000"), "{place}: {error}");
    }
}

#[test]
fn a_run_stands_in_its_log_before_the_hold_where_it_stood_in_memory() {
    let dir = Dir::new();
    let handle: Arc<OnceLock<RuntimeHandle>> = Arc::default();
    let of_loop = Arc::clone(&handle);
    let builder = dir.builder().register("holds", move |()| {
        let handle = of_loop.get().unwrap().clone();
        async move {
            sleep(ms(5)).await;
            // The other run was woken at the same time, and has not had its turn yet.
            let (run, by) = (run_id("woken"), "ada".to_owned());
            handle.ask(Request::Hold { run, by, why: None }, |held| drop(held.unwrap()));
            Ok::<(), TaskError>(())
        }
    });
    let builder = builder.register("woken", |()| async {
        sleep(ms(5)).await;
        receive::<u64>("n").await
    });
    let mut runtime = builder.build().unwrap();
    assert!(handle.set(runtime.handle()).is_ok());
    let holds = runtime.submit::<()>("holds", "holds", &()).unwrap();
    let woken = runtime.submit::<u64>("woken", "woken", &()).unwrap();
    runtime.run(sleep(ms(1))).unwrap();
    // Both timers are due before the next run has its turn.
    runtime.run(async { std::thread::sleep(ms(30)) }).unwrap();
    runtime.wait_for(&holds).unwrap();
    run_until(&mut runtime, || dir_count(&dir, "woken", "RunHeld") == 1);
    let log = log_of(&dir, "woken");
    let place = |what: &str| log.find(&format!("\"type\":\"{what}\""));
    assert!(place("TaskWake").is_some_and(|wake| Some(wake) < place("RunHeld")), "{log}");
    runtime.release(&woken, "ada", None).unwrap();
    runtime.send(&woken, "n", &7_u64).unwrap();
    assert_eq!(runtime.wait_for(&woken).unwrap(), 7);
}

#[test]
fn those_who_watch_see_a_hold() {
    let dir = Dir::new();
    let mut runtime = programs(&dir).run_limits(tasks(50)).build().unwrap();
    let mut events = runtime.activity().subscribe(Wanted::new());
    let run = runtime.submit::<()>("breeds", "a", &()).unwrap();
    let error = wait_error(&mut runtime, &run);
    drop(runtime);
    let mut seen = Vec::new();
    while let Some(told) = events.next_timeout(Duration::from_secs(30)).unwrap() {
        match told {
            Told::Event(event) if event.message == error.to_string() => {
                seen.push((event.task_id, event.stage));
            }
            _ => {}
        }
    }
    assert_eq!(seen, [(run.uuid().into(), Stage::Log)]);
}

#[test]
fn an_estimate_falls_with_the_tasks_it_was_made_of() {
    async fn grows_twice(_: ()) -> Result<(), TaskError> {
        let mut tasks = Vec::new();
        for _ in 0..2_000 {
            tasks.push(spawn(receive::<()>("task")).await);
        }
        for task in tasks {
            tiffany::cancel(&task).await;
        }
        receive::<()>("go").await?;
        sleep(ms(1)).await;
        Ok(())
    }
    let dir = Dir::new();
    let limits = RunLimits { memory_bytes: Some(8_000_000), ..RunLimits::default() };
    let builder = dir.builder().register("grows_twice", grows_twice).run_limits(limits);
    let mut runtime = builder.build().unwrap();
    let run = runtime.submit::<()>("grows_twice", "a", &()).unwrap();
    run_until(&mut runtime, || dir_count(&dir, "a", "TaskCancel") == 2_000);
    assert_eq!(state(&mut runtime, "a"), State::Live, "its tasks were no reason");
    // Fewer than its tasks were, and much larger.
    let message = "x".repeat(10_000);
    for _ in 0..1_200 {
        runtime.send(&run, "unread", &message).unwrap();
    }
    runtime.send(&run, "go", &()).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert_eq!(error.kind(), ErrorKind::RunHeld, "{error}");
    assert!(error.message().contains("bytes of memory, as estimated"), "{error}");
}

#[test]
fn an_interrupted_run_is_not_released_while_its_steps_are_under_way() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static LET_GO: AtomicBool = AtomicBool::new(false);
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    async fn works(_: ()) -> Result<u32, TaskError> {
        let work = spawn(async {
            step("work", || {
                BEGUN.fetch_add(1, Ordering::SeqCst);
                while !LET_GO.load(Ordering::SeqCst) {
                    std::thread::sleep(ms(1));
                }
                Ok::<u32, String>(1)
            })
            .await
        })
        .await;
        receive::<()>("go").await?;
        if !INTERRUPTED.swap(true, Ordering::SeqCst) {
            binding::interrupted();
        }
        work.await?
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("works", works).build().unwrap();
    let run = runtime.submit::<u32>("works", "a", &()).unwrap();
    run_until(&mut runtime, || BEGUN.load(Ordering::SeqCst) == 1);
    runtime.send(&run, "go", &()).unwrap();
    run_until(&mut runtime, || INTERRUPTED.load(Ordering::SeqCst));
    runtime.run(sleep(ms(5))).unwrap();
    let refused = runtime.release(&run, "ada", None).unwrap_err();
    assert!(refused.to_string().contains("until its running steps have finished"), "{refused}");
    assert!(refused.to_string().contains("`work` for "), "{refused}");
    assert_eq!(
        BEGUN.load(Ordering::SeqCst),
        1,
        "its step was begun again beside the first attempt"
    );
    LET_GO.store(true, Ordering::SeqCst);
    run_until(&mut runtime, || dir_count(&dir, "a", "EffectResult") == 1);
    runtime.release(&run, "ada", None).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 1);
    assert_eq!(BEGUN.load(Ordering::SeqCst), 1);
}
