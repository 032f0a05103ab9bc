//! Turns that last too long, and runs in whose turns the process dies.

use super::*;

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

/// Runs this test of the module in a process of its own, in this directory. Returns whether the process ended well.
fn lives(test: &str, dir: &Dir) -> bool {
    let mut life = crate::test_process::command(module_path!(), test);
    life.env(TO_BE_KILLED, &dir.0);
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
