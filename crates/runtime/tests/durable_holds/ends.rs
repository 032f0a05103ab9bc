//! Runs that are cancelled while they are held, or whose cleanup does not end.

use super::*;

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

/// What a run does after it was released happened then, and not when it was held.
#[test]
fn a_released_run_ends_later_than_it_was_released() {
    let dir = Dir::new();
    let mut runtime = programs(&dir).register("naps", naps).build().unwrap();
    let run = runtime.submit::<()>("naps", "a", &()).unwrap();
    runtime.run(sleep(ms(20))).unwrap();
    runtime.hold(&run, "ada", None).unwrap();
    runtime.run(sleep(ms(200))).unwrap();
    runtime.release(&run, "ada", None).unwrap();
    runtime.wait_for(&run).unwrap();
    runtime.flush().unwrap();
    drop(runtime);
    let log = std::fs::read_to_string(dir.0.join(format!("wal/{}.wal", run.uuid()))).unwrap();
    let times: Vec<&str> = log.lines().filter_map(|line| line.split("\"ts\":\"").nth(1)).collect();
    assert!(times.iter().map(|line| &line[..30]).is_sorted(), "{log}");
}

async fn naps(_: ()) -> Result<(), TaskError> {
    let nap = || {
        std::thread::sleep(ms(60));
        Ok::<(), String>(())
    };
    step("nap", nap).await
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

/// A task whose cleanup takes an hour.
struct Lingers;

impl AgentTask for Lingers {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(Duration::from_secs(3600))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(Duration::from_secs(3600))
    }
}

#[test]
fn a_run_that_was_cancelled_comes_back_to_end_however_much_it_used() {
    async fn crowds(_: ()) -> Result<(), TaskError> {
        drop(spawn_agent(Lingers).await);
        for _ in 0..100 {
            drop(spawn(async { sleep(Duration::from_secs(3600)).await }).await);
        }
        receive("never").await
    }
    let dir = Dir::new();
    let programs = || dir.builder().register("crowds", crowds);
    let mut runtime = programs().build().unwrap();
    let run = runtime.submit::<()>("crowds", "a", &()).unwrap();
    run_until(&mut runtime, || dir_count(&dir, "a", "TaskSpawn") == 101);
    runtime.cancel(&run).unwrap();
    run_until(&mut runtime, || dir_count(&dir, "a", "TaskCancel") == 101);
    drop(runtime);
    // On its way back it has a hundred tasks for a moment.
    let mut runtime = programs().run_limits(tasks(10)).build().unwrap();
    runtime.run(sleep(ms(20))).unwrap();
    assert_eq!(state(&mut runtime, "a"), State::Live, "its cleanup goes on");
    assert_eq!(dir_count(&dir, "a", "RunHeld"), 0);
    runtime.cancel(&run).unwrap();
    await_state(&mut runtime, State::Cancelled);
}

static WORKING: AtomicUsize = AtomicUsize::new(0);
static WORK_ENDS: AtomicBool = AtomicBool::new(false);
static WAS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Is interrupted while its step is under way.
async fn works_on(kind: String) -> Result<(), TaskError> {
    let work = spawn(async move {
        let work = step("work", || {
            WORKING.fetch_add(1, Ordering::SeqCst);
            while !WORK_ENDS.load(Ordering::SeqCst) {
                std::thread::sleep(ms(1));
            }
            Ok::<(), String>(())
        });
        let work = match &*kind {
            "at_most_once" => work.at_most_once(),
            "in_doubt" => work.at_most_once().hold_in_doubt(),
            "pure" => work.pure(),
            _ => work,
        };
        work.await
    });
    let work = work.await;
    receive::<()>("go").await?;
    if !WAS_INTERRUPTED.swap(true, Ordering::SeqCst) {
        binding::interrupted();
    }
    work.await?
}

/// A cancel waits for no step, whether its run is held or not.
#[test]
fn an_interrupted_run_can_be_cancelled_while_its_steps_are_under_way() {
    for (kind, restarts) in [
        ("idempotent", false),
        ("idempotent", true),
        ("at_most_once", false),
        ("at_most_once", true),
        ("in_doubt", true),
        ("pure", false),
    ] {
        WORKING.store(0, Ordering::SeqCst);
        WORK_ENDS.store(false, Ordering::SeqCst);
        WAS_INTERRUPTED.store(false, Ordering::SeqCst);
        let dir = Dir::new();
        let build = || dir.builder().register("works_on", works_on).build().unwrap();
        let mut runtime = build();
        let run = runtime.submit::<()>("works_on", "a", &kind).unwrap();
        run_until(&mut runtime, || WORKING.load(Ordering::SeqCst) == 1);
        runtime.send(&run, "go", &()).unwrap();
        run_until(&mut runtime, || WAS_INTERRUPTED.load(Ordering::SeqCst));
        assert_eq!(state(&mut runtime, "a"), State::Held);
        runtime.cancel(&run).unwrap();
        if restarts {
            // Nothing was driven since: the cancel is in the log.
            WORK_ENDS.store(true, Ordering::SeqCst);
            drop(runtime);
            runtime = build();
        }
        let error = wait_error(&mut runtime, &run);
        assert_eq!(error.kind(), ErrorKind::TaskCancelled, "{kind}: {error}");
        assert_eq!(state(&mut runtime, "a"), State::Cancelled);
        WORK_ENDS.store(true, Ordering::SeqCst);
        runtime.run(sleep(ms(20))).unwrap();
        assert_eq!(WORKING.load(Ordering::SeqCst), 1, "{kind}: the step was begun again");
        assert_eq!(dir_count(&dir, "a", "EffectStart"), 1, "{kind}: {}", log_of(&dir, "a"));
        assert_eq!(dir_count(&dir, "a", "EffectResult"), 0, "{kind}: {}", log_of(&dir, "a"));
        // Its log replays as it was.
        drop(runtime);
        assert_eq!(state(&mut build(), "a"), State::Cancelled);
    }
}
