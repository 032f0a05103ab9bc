//! What one run may use: it is held when it goes over a limit, and continues when a person releases it.

mod durable_kit;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tiffany::control::{Control, RunQuery, State};
use tiffany::durable::{DurableRun, Fork, RunLimits, receive, run_id, send, step};
use tiffany::{
    AgentTask, Builder, ErrorKind, RunError, Runtime, TaskContext, TaskError, TaskStatus, binding,
    random, sleep, spawn, spawn_agent,
};

use durable_kit::{Dir, TO_BE_KILLED, ms};

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
    assert!(bytes.contains("bytes of log, more than the 100000"), "{bytes}");
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

#[test]
fn a_held_run_can_be_cancelled() {
    for restarts in [false, true] {
        let dir = Dir::new();
        let build = || programs(&dir).run_limits(tasks(50)).build().unwrap();
        let mut runtime = build();
        let run = runtime.submit::<()>("breeds", "a", &()).unwrap();
        assert_eq!(kind(&runtime.wait_for(&run).unwrap_err()), ErrorKind::RunHeld);
        if restarts {
            drop(runtime);
            runtime = build();
        }
        runtime.cancel(&run).unwrap();
        let error = wait_error(&mut runtime, &run);
        assert_eq!(error.kind(), ErrorKind::TaskCancelled, "{error}");
        assert_eq!(state(&mut runtime, "a"), State::Cancelled);
    }
}

#[test]
fn a_run_that_is_far_over_its_limit_can_be_cancelled() {
    let dir = Dir::new();
    let mut runtime = programs(&dir).build().unwrap();
    let run = runtime.submit::<()>("breeds", "a", &()).unwrap();
    runtime.run(sleep(ms(100))).unwrap();
    drop(runtime);
    let mut runtime = programs(&dir).run_limits(tasks(10)).build().unwrap();
    assert_eq!(kind(&runtime.wait_for(&run).unwrap_err()), ErrorKind::RunHeld);
    runtime.cancel(&run).unwrap();
    assert_eq!(wait_error(&mut runtime, &run).kind(), ErrorKind::TaskCancelled);
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
fn a_full_inbox_refuses_senders_from_outside() {
    async fn takes_late(count: u64) -> Result<u64, TaskError> {
        receive::<u64>("go").await?;
        let mut sum = 0;
        for _ in 0..count {
            sum += receive::<u64>("n").await?;
        }
        Ok(sum)
    }
    let dir = Dir::new();
    let limits = RunLimits { messages: Some(10), ..RunLimits::default() };
    let mut runtime =
        dir.builder().register("late", takes_late).run_limits(limits).build().unwrap();
    let run = runtime.submit::<u64>("late", "a", &11_u64).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    for n in 0..10_u64 {
        runtime.send(&run, "n", &n).unwrap();
    }
    let full = runtime.send(&run, "n", &10_u64).unwrap_err();
    assert_eq!(kind(&full), ErrorKind::InboxFull);
    assert!(full.to_string().contains("has 10 messages that it has not received"), "{full}");
    // One that it waits for is not unread.
    assert_eq!(kind(&runtime.send(&run, "go", &0_u64).unwrap_err()), ErrorKind::InboxFull);
    drop(runtime);
    let limits = RunLimits { messages: Some(11), ..RunLimits::default() };
    let mut runtime =
        dir.builder().register("late", takes_late).run_limits(limits).build().unwrap();
    runtime.send(&run, "go", &0_u64).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.send(&run, "n", &10_u64).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 55);
}

#[test]
fn bytes_of_messages_count_too() {
    async fn never(_: ()) -> Result<(), TaskError> {
        receive::<()>("never").await
    }
    let dir = Dir::new();
    let limits = RunLimits { message_bytes: Some(10_000), ..RunLimits::default() };
    let mut runtime = dir.builder().register("never", never).run_limits(limits).build().unwrap();
    let run = runtime.submit::<()>("never", "a", &()).unwrap();
    let text = "x".repeat(4_000);
    let sent = (0..10).take_while(|_| runtime.send(&run, "n", &text).is_ok()).count();
    assert_eq!(sent, 3);
}

#[test]
fn messages_that_were_received_take_no_room() {
    async fn takes(count: usize) -> Result<usize, TaskError> {
        let mut bytes = 0;
        for _ in 0..count {
            bytes += receive::<String>("n").await?.len();
        }
        Ok(bytes)
    }
    let dir = Dir::new();
    let limits = RunLimits { message_bytes: Some(10_000), ..RunLimits::default() };
    let mut runtime = dir.builder().register("takes", takes).run_limits(limits).build().unwrap();
    let run = runtime.submit::<usize>("takes", "a", &9).unwrap();
    for _ in 0..3 {
        (0..3).for_each(|_| runtime.send(&run, "n", &"x".repeat(4_000)).unwrap());
        runtime.run(sleep(ms(5))).unwrap();
    }
    assert_eq!(runtime.wait_for(&run).unwrap(), 36_000);
}

#[test]
fn a_run_that_sends_to_a_full_inbox_waits_and_the_order_is_kept() {
    async fn slow(count: u64) -> Result<Vec<u64>, TaskError> {
        let mut all = Vec::new();
        for _ in 0..count {
            sleep(ms(1)).await;
            all.push(receive("n").await?);
        }
        Ok(all)
    }
    async fn fast(count: u64) -> Result<(), TaskError> {
        for n in 0..count {
            send(run_id("slow"), "n", &n).await?;
        }
        Ok(())
    }
    let dir = Dir::new();
    let limits = RunLimits { messages: Some(3), ..RunLimits::default() };
    let builder = dir.builder().register("slow", slow).register("fast", fast);
    let mut runtime = builder.run_limits(limits).build().unwrap();
    let to = runtime.submit::<Vec<u64>>("slow", "slow", &40_u64).unwrap();
    let from = runtime.submit::<()>("fast", "fast", &40_u64).unwrap();
    assert_eq!(runtime.wait_for(&to).unwrap(), (0..40).collect::<Vec<_>>());
    runtime.wait_for(&from).unwrap();
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

/// Sends itself more messages than its inbox takes, and says what came of the last one.
async fn sends_itself(id: String) -> Result<String, TaskError> {
    let own = run_id(&id);
    for number in 0..3 {
        send(own, "note", &number).await?;
    }
    let refused = send(own, "note", &3).await;
    let first: u32 = receive("note").await?;
    send(own, "note", &3).await?;
    Ok(format!("{} {first}", refused.map_err(|error| error.code()).unwrap_err()))
}

#[test]
fn a_run_that_sends_to_itself_does_not_wait_for_itself() {
    let dir = Dir::new();
    let limits = RunLimits { messages: Some(3), ..RunLimits::default() };
    let builder = dir.builder().register("own", sends_itself).run_limits(limits);
    let mut runtime = builder.build().unwrap();
    let run = runtime.submit::<String>("own", "own", &"own").unwrap();
    for _ in 0..200 {
        runtime.run(sleep(ms(20))).unwrap();
        if runtime.is_finished(run.uuid()) {
            break;
        }
    }
    assert!(runtime.is_finished(run.uuid()), "it waits for itself");
    assert_eq!(runtime.wait_for(&run).unwrap(), "TFY0237 0");
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

/// A task whose cleanup never ends: it starts another one of its kind, and another one.
struct Clings {
    spawns: bool,
}

impl AgentTask for Clings {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(Duration::from_secs(3600))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        self.spawns = !self.spawns;
        match self.spawns {
            true => TaskStatus::spawn(spawn_agent(Clings { spawns: false })),
            false => TaskStatus::sleep(ms(1)),
        }
    }
}

async fn clings(fails: bool) -> Result<(), TaskError> {
    drop(spawn_agent(Clings { spawns: false }).await);
    if fails {
        random().await;
        return Err(TaskError::failed("the root failed"));
    }
    sleep(Duration::from_secs(3600)).await;
    Ok(())
}

/// Drives the run `a` until it has come to this state.
fn await_state(runtime: &mut Runtime, wanted: State) {
    let began = std::time::Instant::now();
    while state(runtime, "a") != wanted {
        assert!(began.elapsed() < Duration::from_secs(10), "it does not become {wanted:?}");
        runtime.run(sleep(ms(1))).unwrap();
    }
}

#[test]
fn a_second_cancel_ends_a_run_whose_cleanup_does_not_end() {
    let dir = Dir::new();
    let build = || dir.builder().register("clings", clings).build().unwrap();
    let mut runtime = build();
    let run = runtime.submit::<()>("clings", "a", &false).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.cancel(&run).unwrap();
    // A repeated request is not a second one: the cleanup has had no turn yet.
    runtime.cancel(&run).unwrap();
    runtime.run(sleep(ms(30))).unwrap();
    assert_eq!(state(&mut runtime, "a"), State::Live, "its cleanup goes on");
    runtime.cancel(&run).unwrap();
    await_state(&mut runtime, State::Cancelled);
    assert_eq!(wait_error(&mut runtime, &run).kind(), ErrorKind::TaskCancelled);
    drop(runtime);
    // All that was spawned has its end in the log, and it can be replayed.
    assert_eq!(dir.count("\"type\":\"TaskSpawn\"") + 1, dir.count("\"type\":\"TaskCancel\""));
    assert_eq!(dir.count("\"force\":true"), 1);
    let cut = dir.cut_after(1, "\"force\":true");
    let mut runtime = cut.builder().register("clings", clings).build().unwrap();
    await_state(&mut runtime, State::Cancelled);
    drop(runtime);
    assert_eq!(cut.log(), dir.log(), "the forced end is the same after a crash");
}

#[test]
fn a_cleanup_has_limits_too() {
    for restarts in [false, true] {
        let dir = Dir::new();
        let build =
            || dir.builder().register("clings", clings).run_limits(tasks(20)).build().unwrap();
        let mut runtime = build();
        let run = runtime.submit::<()>("clings", "a", &false).unwrap();
        runtime.run(sleep(ms(5))).unwrap();
        runtime.cancel(&run).unwrap();
        await_state(&mut runtime, State::Held);
        assert!(wait_error(&mut runtime, &run).message().contains("more than the 40"));
        if restarts {
            drop(runtime);
            runtime = build();
            assert_eq!(state(&mut runtime, "a"), State::Held);
        }
        runtime.cancel(&run).unwrap();
        await_state(&mut runtime, State::Cancelled);
    }
}

#[test]
fn a_cancel_ends_a_failed_run_whose_cleanup_does_not_end() {
    for restarts in [false, true] {
        let dir = Dir::new();
        let build = || dir.builder().register("clings", clings).build().unwrap();
        let mut runtime = build();
        let run = runtime.submit::<()>("clings", "a", &true).unwrap();
        assert!(wait_error(&mut runtime, &run).message().contains("the root failed"));
        runtime.run(sleep(ms(30))).unwrap();
        assert_eq!(state(&mut runtime, "a"), State::Ending);
        if restarts {
            drop(runtime);
            runtime = build();
            runtime.run(sleep(ms(5))).unwrap();
            assert_eq!(state(&mut runtime, "a"), State::Ending);
        }
        runtime.cancel(&run).unwrap();
        await_state(&mut runtime, State::Failed);
        assert!(wait_error(&mut runtime, &run).message().contains("the root failed"));
    }
}

#[test]
fn a_release_doubles_the_time_of_a_turn_as_well() {
    async fn ponders(_: ()) -> Result<(), TaskError> {
        random().await;
        std::thread::sleep(ms(1_300));
        random().await;
        Ok(())
    }
    let dir = Dir::new();
    let build = || {
        let turn = Some(Duration::from_secs(1));
        let limits = RunLimits { turn, ..RunLimits::default() };
        let builder = dir.builder().register("ponders", ponders).watchdog(Some(ms(50)));
        builder.on_stuck(|_| {}).run_limits(limits).build().unwrap()
    };
    drop(dir.builder().register("ponders", ponders).build().map(|mut runtime| {
        runtime.submit::<()>("ponders", "a", &()).unwrap();
    }));
    // As a process leaves it that was killed in a turn which was too long.
    let marker = dir.0.join("turn.json");
    let run = run_id("a");
    std::fs::write(&marker, format!("{{\"run\":\"{run}\",\"tid\":1,\"seconds\":1,\"pid\":1}}"))
        .unwrap();
    let mut runtime = build();
    let run = runtime.submit::<()>("ponders", "a", &()).unwrap();
    assert!(wait_error(&mut runtime, &run).message().contains("kept its turn for 1 s"));
    assert!(!marker.exists());
    runtime.release(&run, "ada", None).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let seen = scope.spawn(|| {
            let mut seen = false;
            while !is_over.load(Ordering::SeqCst) {
                seen |= marker.exists();
                std::thread::sleep(ms(10));
            }
            seen
        });
        runtime.wait_for(&run).unwrap();
        is_over.store(true, Ordering::SeqCst);
        assert!(!seen.join().unwrap(), "a turn of 1.3 s was too long for a limit of 2 s");
    });
}

/// Runs this test in a process of its own that is told where it works. Tells whether that came to its end.
fn lives(test: &str, dir: &Dir) -> bool {
    let mut life = std::process::Command::new(std::env::current_exe().unwrap());
    life.args(["--exact", test, "--nocapture"]).env(TO_BE_KILLED, &dir.0);
    let life = life.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    life.status().unwrap().success()
}

#[test]
fn a_run_that_kills_its_process_is_held_after_three_deaths() {
    async fn dies(_: ()) -> Result<(), TaskError> {
        step("one", || Ok::<u32, String>(1)).await?;
        random().await;
        std::process::abort()
    }
    let build = |dir: &Dir| {
        let limits = RunLimits::for_services();
        programs(dir).register("dies", dies).run_limits(limits).build().unwrap()
    };
    if let Some(dir) = std::env::var_os(TO_BE_KILLED) {
        // The directory is the other process's.
        let dir = std::mem::ManuallyDrop::new(Dir(dir.into()));
        let mut runtime = build(&dir);
        let run = runtime.submit::<()>("dies", "a", &()).unwrap();
        let error = wait_error(&mut runtime, &run);
        assert_eq!(error.kind(), ErrorKind::RunHeld);
        return;
    }
    let dir = Dir::new();
    let test = "a_run_that_kills_its_process_is_held_after_three_deaths";
    let deaths = (1..10).take_while(|_| !lives(test, &dir)).count();
    assert_eq!(deaths, 3);
    let mut runtime = build(&dir);
    let run = runtime.submit::<()>("dies", "a", &()).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert!(error.message().contains("the process died 3 times"), "{error}");
    let other = runtime.submit::<u32>("quick", "other", &()).unwrap();
    assert_eq!(runtime.wait_for(&other).unwrap(), 1);
    drop(runtime);
    // A release doubles this, as all limits.
    let mut control = Control::open(&dir.0).unwrap();
    control.release(run.uuid(), "ada", None).unwrap();
    drop(control);
    assert_eq!((1..10).take_while(|_| !lives(test, &dir)).count(), 6);
}

#[test]
fn a_marker_that_cannot_be_read_is_removed() {
    let dir = Dir::new();
    drop(programs(&dir).build().unwrap());
    let marker = dir.0.join("turn.json");
    std::fs::write(&marker, "{\"run\":").unwrap();
    drop(programs(&dir).build().unwrap());
    assert!(!marker.exists());
}

#[test]
fn messages_to_a_run_that_is_not_in_memory_count_too() {
    async fn takes_one(_: ()) -> Result<(), TaskError> {
        receive::<u64>("n").await?;
        receive::<u64>("never").await.map(drop)
    }
    let dir = Dir::new();
    let build = || {
        let limits = RunLimits { messages: Some(3), ..RunLimits::default() };
        dir.builder().register("takes_one", takes_one).run_limits(limits).build().unwrap()
    };
    let mut runtime = build();
    let run = runtime.submit::<()>("takes_one", "a", &()).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.send(&run, "n", &0_u64).unwrap();
    runtime.send(&run, "n", &1_u64).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.hold(&run, "ada", None).unwrap();
    drop(runtime);
    let mut runtime = build();
    assert_eq!(state(&mut runtime, "a"), State::Held);
    // One of the two was received.
    runtime.send(&run, "n", &2_u64).unwrap();
    runtime.send(&run, "m", &3_u64).unwrap();
    let full = runtime.send(&run, "n", &4_u64).unwrap_err();
    assert_eq!(kind(&full), ErrorKind::InboxFull);
    assert!(full.to_string().contains("has 3 messages that it has not received"), "{full}");
}

#[test]
fn messages_that_are_sent_while_no_process_runs_count_too() {
    async fn never(_: ()) -> Result<(), TaskError> {
        receive::<()>("never").await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("never", never).build().unwrap();
    let run = runtime.submit::<()>("never", "a", &()).unwrap();
    let most = RunLimits::for_services().messages.unwrap();
    for n in 1..most {
        runtime.send(&run, "n", &n).unwrap();
    }
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    control.send(run.uuid(), "n", &0_u64).unwrap();
    let full = control.send(run.uuid(), "n", &0_u64).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::InboxFull, "{full}");
}
