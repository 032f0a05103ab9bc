//! Clauses that need the log.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tiffany::control::{RunQuery, State};
use tiffany::durable::{Fork, TimeTravel, external_promise, receive, step};
use tiffany::wal::Settings;
use tiffany::{
    AgentTask, Builder, CallKind, RunError, Runtime, Settlement, TaskContext, TaskError,
    TaskStatus, Uuid, Verdict, handle, handler, put, sleep, spawn_agent, try_spawn, yield_now,
};

/// A directory of its own, removed with it.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("tiffany-rows-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn builder(dir: &Dir) -> Builder {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    Runtime::builder().log_dir(&dir.0).log_settings(settings)
}

/// Whether what was committed has this text. (The files of runs may lag behind.)
fn is_committed(dir: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(dir.join("commit")).expect("there is a log");
    files.into_iter().any(|file| {
        let bytes = std::fs::read(file.expect("it can be read").path()).expect("it can be read");
        memchr::memmem::find(&bytes, text.as_bytes()).is_some()
    })
}

/// The log of a run.
fn log_of(dir: &Dir, run: Uuid) -> String {
    std::fs::read_to_string(dir.0.join("wal").join(format!("{run}.wal"))).expect("there is a log")
}

/// "(random, recorded, handed out only once durable)": when the task has the UUID, the log has it.
#[test]
fn the_uuid_of_a_promise_is_handed_out_once_it_is_durable() {
    let dir = Dir::new("uuid");
    let path = dir.0.clone();
    let mut runtime = builder(&dir)
        .register("ask", move |()| {
            let path = path.clone();
            async move {
                let promise = external_promise::<u32>().await;
                Ok::<bool, TaskError>(is_committed(&path, &promise.uuid().to_string()))
            }
        })
        .build()
        .unwrap();
    let run = runtime.submit::<bool>("ask", "ask", &()).unwrap();
    assert!(runtime.wait_for(&run).unwrap());
}

/// "settling a durable one is acknowledged after commit"; what is settled again is not written down.
#[test]
fn settling_is_acknowledged_when_it_is_committed() {
    let dir = Dir::new("settle");
    let told: Arc<Mutex<Vec<(Settlement, bool)>>> = Arc::default();
    let (path, tells) = (dir.0.clone(), Arc::clone(&told));
    let mut runtime = builder(&dir)
        .register("ask", move |()| {
            let (path, tells, seen) = (path.clone(), Arc::clone(&tells), Arc::clone(&tells));
            async move {
                let promise = external_promise::<String>().await;
                let (handle, uuid) = (handle()?, promise.uuid());
                std::thread::spawn(move || {
                    for answer in ["the first", "the second"] {
                        let settlement = handle.settle_durable(uuid, Ok(&answer));
                        let committed = is_committed(&path, answer);
                        tells.lock().unwrap().push((settlement.unwrap(), committed));
                    }
                });
                let answer = promise.wait().await?;
                // Until the other thread has had all its answers.
                while seen.lock().unwrap().len() < 2 {
                    yield_now().await;
                }
                Ok::<String, TaskError>(answer)
            }
        })
        .build()
        .unwrap();
    let run = runtime.submit::<String>("ask", "ask", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "the first");
    let told = told.lock().unwrap();
    assert_eq!(told[0], (Settlement::Accepted, true));
    assert_eq!(told[1], (Settlement::Ignored, false));
}

/// "it is pure and runs again on replay": a resumed run asks its handlers again, and with the same calls.
#[test]
fn handlers_run_again_on_replay() {
    let dir = Dir::new("handlers");
    let asked = Rc::new(Cell::new(0));
    for process in 1..=2 {
        let count = Rc::clone(&asked);
        let mut runtime = builder(&dir)
            .handler(handler("count", move |call, _| {
                if call.kind() == CallKind::Put {
                    count.set(count.get() + 1);
                }
                Verdict::Pass
            }))
            .register("work", |()| async {
                put("key", 1).await;
                let first: u32 = receive("go").await?;
                put("key", 2).await;
                let second: u32 = receive("go").await?;
                Ok::<u32, TaskError>(first + second)
            })
            .build()
            .unwrap();
        let run = runtime.submit::<u32>("work", "work", &()).unwrap();
        runtime.send(&run, "go", &process).unwrap();
        if process == 2 {
            assert_eq!(runtime.wait_for(&run).unwrap(), 3);
        } else {
            // The process ends in good order, with the run where it waits for more.
            runtime.run(async { tiffany::sleep_secs(0.05).await }).unwrap();
            assert_eq!(asked.get(), 2);
        }
    }
    assert_eq!(asked.get(), 4, "twice more for what was there already");
}

/// "a panic or exception ends that task alone: Failed, recorded": with its error, in the log.
#[test]
fn a_failure_is_recorded() {
    let dir = Dir::new("failure");
    let mut runtime = builder(&dir)
        .register("work", |()| async {
            let child = try_spawn(async { Err::<(), _>("no such luck") }).await;
            let error = child.await.unwrap_err();
            Err::<(), TaskError>(error)
        })
        .build()
        .unwrap();
    let run = runtime.submit::<()>("work", "work", &()).unwrap();
    let Err(RunError::Failed(error)) = runtime.wait_for(&run) else { panic!("it fails") };
    assert_eq!(error.message(), "no such luck");
    drop(runtime);
    let log = log_of(&dir, run.uuid());
    let aborted: Vec<&str> = log.lines().filter(|line| line.contains("TaskAbort")).collect();
    assert_eq!(aborted.len(), 2, "{log}");
    assert!(aborted.iter().all(|line| line.contains("no such luck")), "{log}");
    // A process that comes later tells the same.
    let mut runtime =
        builder(&dir).register("work", |()| async { Ok::<(), TaskError>(()) }).build().unwrap();
    let run = runtime.submit::<()>("work", "work", &()).unwrap();
    let Err(RunError::Failed(again)) = runtime.wait_for(&run) else { panic!("it failed") };
    assert_eq!(again, error);
}

/// "commit": a task whose promise is not safe yet is Blocked(commit), and the others go on meanwhile.
#[test]
fn a_task_waits_for_the_log_and_the_others_go_on() {
    let dir = Dir::new("commit");
    let mut runtime = builder(&dir)
        .register("work", |()| async {
            let waits = try_spawn(async {
                let promise = external_promise::<u32>().await;
                Ok::<Uuid, TaskError>(promise.uuid())
            })
            .await;
            // Each of these is written down too, and none of them waits.
            let mut turns = 0;
            while turns < 5 {
                yield_now().await;
                turns += 1;
            }
            let first: u32 = step("after", || Ok::<u32, String>(7)).await?;
            waits.await?;
            Ok::<u32, TaskError>(first + turns)
        })
        .build()
        .unwrap();
    let run = runtime.submit::<u32>("work", "work", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 12);
    drop(runtime);
    let log = log_of(&dir, run.uuid());
    let place = |what: &str| log.lines().position(|line| line.contains(what)).expect(what);
    assert!(place("create_external_promise") < place("\"call\":\"yield\",\"count\":5"), "{log}");
    assert!(place("\"call\":\"yield\",\"count\":5") < place("TaskWake"), "{log}");
}

/// Values that look like what the log has a meaning for come back as they were.
#[test]
fn values_with_dollar_names_come_back() {
    let dir = Dir::new("dollar");
    let odd = r#"{"$base64":"aGVsbG8=","$blob":{"$json":[]}}"#;
    let odd: serde_json::Value = serde_json::from_str(odd).unwrap();
    for process in 1..=2 {
        let mut runtime = builder(&dir)
            .register("work", |input: serde_json::Value| async move {
                let from_step: serde_json::Value = {
                    let value = input.clone();
                    step("odd", move || Ok::<_, String>(value.clone())).await?
                };
                let message: serde_json::Value = receive("odd").await?;
                Ok::<_, TaskError>(vec![input, from_step, message])
            })
            .build()
            .unwrap();
        let run = runtime.submit::<Vec<serde_json::Value>>("work", "work", &odd).unwrap();
        if process == 1 {
            runtime.run(async { tiffany::sleep_secs(0.05).await }).unwrap();
        } else {
            runtime.send(&run, "odd", &odd).unwrap();
            assert_eq!(runtime.wait_for(&run).unwrap(), vec![odd.clone(); 3]);
        }
    }
    let mut runtime = builder(&dir).build().unwrap();
    let run = runtime.submit::<Vec<serde_json::Value>>("work", "work", &odd).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), vec![odd; 3]);
}

/// What acts on the world when it is dropped, and who still has it.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<&'static str>>>);

struct Acts(World);

impl Drop for Acts {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push("acted");
    }
}

/// A run that waits for a message with something in its hands that would act if it were unwound.
fn waiting(dir: &Dir, world: &World) -> Builder {
    let world = world.clone();
    builder(dir).register("wait", move |()| {
        let acts = Acts(world.clone());
        async move {
            step("look", || Ok::<u32, String>(1)).await?;
            let message = receive::<u32>("go").await?;
            drop(acts);
            Ok::<u32, TaskError>(message)
        }
    })
}

/// Drives a runtime until a run waits for its message.
fn until_it_waits(runtime: &mut Runtime, run: Uuid) {
    let waits = |runtime: &mut Runtime| {
        let runs = runtime.runs(&RunQuery::default()).unwrap().runs;
        runs.iter().any(|one| one.uuid == run && one.waits == ["message \"go\""])
    };
    while !waits(runtime) {
        runtime.run(async { sleep(Duration::from_millis(1)).await }).unwrap();
    }
}

/// "in inspection, […] unfinished durable coroutines are not unwound: their […] `Drop` must not act on the world": whichever of its
/// moments is looked at, forwards and backwards, and when one has seen enough.
#[test]
fn what_is_inspected_is_not_unwound() {
    let (dir, world) = (Dir::new("inspect"), World::default());
    let mut runtime = waiting(&dir, &world).build().unwrap();
    let run = runtime.submit::<u32>("wait", "wait", &()).unwrap();
    until_it_waits(&mut runtime, run.uuid());
    drop(runtime);
    let mut travel = TimeTravel::open(waiting(&dir, &world), &dir.0, run.uuid()).unwrap();
    let records = travel.records();
    for seq in (1..=records).chain((1..=records).rev()) {
        travel.seek(seq).unwrap();
    }
    drop(travel);
    assert!(world.0.lock().unwrap().is_empty());
}

/// "and when a fork is abandoned, unfinished durable coroutines are not unwound: their […] `Drop` must not act on the world": nor those of its
/// parent. One that comes to its end is.
#[test]
fn a_fork_that_is_abandoned_is_not_unwound() {
    let (dir, world) = (Dir::new("fork"), World::default());
    let mut runtime = waiting(&dir, &world).build().unwrap();
    let run = runtime.submit::<u32>("wait", "wait", &()).unwrap();
    until_it_waits(&mut runtime, run.uuid());
    drop(runtime);
    let log = log_of(&dir, run.uuid());
    let at = log.lines().position(|line| line.contains("EffectResult")).unwrap() as u64 + 1;
    let mut runtime = waiting(&dir, &world).build().unwrap();
    let fork = runtime.fork(&run, at, Fork::new()).unwrap();
    until_it_waits(&mut runtime, fork.uuid());
    drop(runtime);
    assert!(world.0.lock().unwrap().is_empty());

    let mut runtime = waiting(&dir, &world).only(fork.uuid()).build().unwrap();
    runtime.send(&fork, "go", &2).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), 2);
    assert_eq!(*world.0.lock().unwrap(), ["acted"]);
}

/// "(leak them, […])": what an unfinished durable coroutine has is still there when its runtime is gone.
#[test]
fn what_is_not_unwound_is_leaked() {
    let (dir, world) = (Dir::new("leak"), World::default());
    let mut runtime = waiting(&dir, &world).build().unwrap();
    let run = runtime.submit::<u32>("wait", "wait", &()).unwrap();
    until_it_waits(&mut runtime, run.uuid());
    drop(runtime);
    assert!(Arc::strong_count(&world.0) > 1, "nobody else has it any more");
    assert!(world.0.lock().unwrap().is_empty());
}

/// Sleeps for an hour, and for another one when it is cancelled.
struct Slow;

impl AgentTask for Slow {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(Duration::from_secs(3600))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(Duration::from_secs(3600))
    }
}

async fn fails_beside_a_slow_task(_: ()) -> Result<(), TaskError> {
    drop(spawn_agent(Slow).await);
    sleep(Duration::from_millis(1)).await;
    Err(TaskError::failed("no money"))
}

/// Starts a slow task when it is cancelled, and is slow itself.
struct Reluctant {
    has_spawned: bool,
}

impl AgentTask for Reluctant {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(Duration::from_secs(3600))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        match std::mem::replace(&mut self.has_spawned, true) {
            false => TaskStatus::spawn(spawn_agent(Slow)),
            true => TaskStatus::sleep(Duration::from_secs(3600)),
        }
    }
}

async fn sleeps_beside_a_reluctant_task(_: ()) -> Result<u32, TaskError> {
    drop(spawn_agent(Reluctant { has_spawned: false }).await);
    sleep(Duration::from_secs(3600)).await;
    Ok(5)
}

async fn ends_beside_a_slow_daemon_task(_: ()) -> Result<u32, TaskError> {
    drop(spawn_agent(Slow).daemon().await);
    sleep(Duration::from_millis(1)).await;
    Ok(5)
}

/// Where a run stands, and why it failed.
fn state_of(runtime: &mut Runtime, id: &str) -> (State, Option<String>) {
    let query = RunQuery { text: Some(id.into()), ..RunQuery::default() };
    let run = runtime.runs(&query).unwrap().runs.remove(0);
    (run.state, run.error.map(|error| error.message))
}

/// "is told as soon as it is durable, […] (the run is *ending* until they are terminal)": after a crash, too, and the outcome
/// stays what was told, whatever ends the rest.
#[test]
fn a_failed_root_is_told_as_soon_as_it_is_durable() {
    let dir = Dir::new("ending");
    let program = || builder(&dir).register("fails", fails_beside_a_slow_task);
    let failed = |run: Result<(), RunError>| {
        let error = run.unwrap_err();
        assert!(matches!(error, RunError::Failed(_)), "{error}");
        assert_eq!(error.task_error().unwrap().message(), "no money");
    };
    let mut runtime = program().build().unwrap();
    let run = runtime.submit::<()>("fails", "fails", &()).unwrap();
    failed(runtime.wait_for(&run));
    assert!(is_committed(&dir.0, "TaskAbort"));
    let ending = (State::Ending, Some("no money".to_owned()));
    assert_eq!(state_of(&mut runtime, "fails"), ending);
    // It is not closed in good order.
    let crashed = Dir::new("ending-crashed");
    copy(&dir.0, &crashed.0);
    drop(runtime);

    let mut runtime =
        builder(&crashed).register("fails", fails_beside_a_slow_task).build().unwrap();
    let run = runtime.submit::<()>("fails", "fails", &()).unwrap();
    failed(runtime.wait_for(&run));
    assert_eq!(state_of(&mut runtime, "fails"), ending);
    runtime.cancel(&run).unwrap();
    while state_of(&mut runtime, "fails").0 == State::Ending {
        runtime.run(sleep(Duration::from_millis(1))).unwrap();
    }
    assert_eq!(state_of(&mut runtime, "fails"), (State::Failed, Some("no money".to_owned())));
    failed(runtime.wait_for(&run));
    drop(runtime);
    let ends = log_of(&crashed, run.uuid());
    let ends =
        ends.lines().filter(|line| line.contains("TaskAbort") || line.contains("TaskCancel"));
    assert_eq!(ends.count(), 2, "each task has one end");
}

/// "A cancel of a durable run that is ending, or whose tasks had a turn since it was cancelled before, forces its end: no task
/// of it has another turn."
#[test]
fn a_second_cancel_forces_the_end() {
    let dir = Dir::new("forced");
    let program = || builder(&dir).register("slow", sleeps_beside_a_reluctant_task);
    let mut runtime = program().build().unwrap();
    let run = runtime.submit::<u32>("slow", "slow", &()).unwrap();
    runtime.run(sleep(Duration::from_millis(5))).unwrap();
    runtime.cancel(&run).unwrap();
    runtime.run(sleep(Duration::from_millis(5))).unwrap();
    assert_eq!(state_of(&mut runtime, "slow").0, State::Live);
    runtime.cancel(&run).unwrap();
    let is_over = (0..1000).any(|_| {
        runtime.run(sleep(Duration::from_millis(5))).unwrap();
        state_of(&mut runtime, "slow").0 == State::Cancelled
    });
    assert!(is_over, "a task that its cleanup started has another turn");
    assert!(runtime.wait_for(&run).unwrap_err().task_error().unwrap().is_cancelled());
    drop(runtime);
    let log = log_of(&dir, run.uuid());
    let after: Vec<&str> =
        log.lines().skip_while(|line| !line.contains("\"force\":true")).skip(1).collect();
    // Nothing but the ends of the two slow tasks.
    assert_eq!(after.len(), 2, "{after:?}");
    assert!(after.iter().all(|line| line.contains("\"TaskCancel\"")), "{after:?}");
}

/// "a run ends when all of its tasks are terminal, daemon tasks aside": it is told before they are.
#[test]
fn a_run_is_told_before_its_daemon_tasks_are_terminal() {
    let dir = Dir::new("daemon");
    let mut runtime =
        builder(&dir).register("ends", ends_beside_a_slow_daemon_task).build().unwrap();
    let run = runtime.submit::<u32>("ends", "ends", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 5);
    assert_eq!(state_of(&mut runtime, "ends"), (State::Ending, None));
    runtime.cancel(&run).unwrap();
    while state_of(&mut runtime, "ends").0 == State::Ending {
        runtime.run(sleep(Duration::from_millis(1))).unwrap();
    }
    assert_eq!(state_of(&mut runtime, "ends").0, State::Completed);
    assert_eq!(runtime.wait_for(&run).unwrap(), 5);
}

/// "RunStart carries `rules: 2` for this": and the log says which tasks are daemon tasks. (That "logs without it replay by the rule
/// they began with" is in `durable_golden.rs`, with logs that were written then.)
#[test]
fn the_log_says_by_which_rules_it_ends() {
    let dir = Dir::new("rules");
    let mut runtime =
        builder(&dir).register("ends", ends_beside_a_slow_daemon_task).build().unwrap();
    let run = runtime.submit::<u32>("ends", "ends", &()).unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let log = log_of(&dir, run.uuid());
    let mut lines = log.lines();
    assert!(lines.next().unwrap().contains("\"rules\":2,\"id\":\"ends\""), "{log}");
    let spawned = lines.find(|line| line.contains("\"TaskSpawn\"")).unwrap();
    assert!(spawned.contains("\"child\":2,\"daemon\":true,"), "{spawned}");
}

/// A directory as it is.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        match kind {
            kind if kind.is_dir() => copy(&entry.path(), &to),
            kind if kind.is_file() => drop(std::fs::copy(entry.path(), to).unwrap()),
            _ => {}
        }
    }
}
