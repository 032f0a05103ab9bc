//! What a durable run waits for is still there after a restart: promises by their UUID, messages, sleeps, steps;
//! and what came of it is told by any later process.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tiffany::durable::{external_promise, receive, step};
use tiffany::wal::Settings;
use tiffany::{
    Builder, RunError, Runtime, TaskError, Uuid, now, promise, select, sleep, sleep_secs,
};

static LEARNT: Mutex<Vec<Uuid>> = Mutex::new(Vec::new());
static DONE: Mutex<Vec<&str>> = Mutex::new(Vec::new());

fn fresh(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tiffany-restart-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn builder(dir: &Path) -> Builder {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    Runtime::builder().log_dir(dir).log_settings(settings)
}

/// Lets the runs go on for a moment.
fn moment(runtime: &mut Runtime) {
    runtime.run(async { sleep_secs(0.03).await }).unwrap();
}

async fn ask(_: ()) -> Result<String, TaskError> {
    let promise = external_promise::<String>().await;
    LEARNT.lock().unwrap().push(promise.uuid());
    promise.wait().await
}

#[test]
fn a_promise_keeps_its_uuid() {
    let dir = fresh("promise");
    for _ in 0..3 {
        let mut runtime = builder(&dir).register("ask", ask).build().unwrap();
        runtime.submit::<String>("ask", "ask", &()).unwrap();
        moment(&mut runtime);
    }
    let mut runtime = builder(&dir).register("ask", ask).build().unwrap();
    let run = runtime.submit::<String>("ask", "ask", &()).unwrap();
    moment(&mut runtime);
    let learnt = LEARNT.lock().unwrap().clone();
    assert_eq!(learnt.len(), 4);
    assert!(learnt.iter().all(|uuid| *uuid == learnt[0]), "{learnt:?}");
    let handle = runtime.handle();
    let settler = std::thread::spawn(move || handle.settle_durable(learnt[0], Ok(&"at last")));
    assert_eq!(runtime.wait_for(&run).unwrap(), "at last");
    settler.join().unwrap().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

async fn listen(_: ()) -> Result<Vec<u32>, TaskError> {
    let mut all = Vec::new();
    while all.len() < 6 {
        all.push(receive("numbers").await?);
    }
    Ok(all)
}

#[test]
fn messages_keep_their_order() {
    let dir = fresh("messages");
    for n in 0..3u32 {
        let mut runtime = builder(&dir).register("listen", listen).build().unwrap();
        let run = runtime.submit::<Vec<u32>>("listen", "listen", &()).unwrap();
        runtime.send(&run, "numbers", &(2 * n)).unwrap();
        moment(&mut runtime);
        // Not taken before the process ends.
        runtime.send(&run, "numbers", &(2 * n + 1)).unwrap();
    }
    let mut runtime = builder(&dir).register("listen", listen).build().unwrap();
    let run = runtime.submit::<Vec<u32>>("listen", "listen", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), [0, 1, 2, 3, 4, 5]);
    let error = runtime.send(&run, "numbers", &7).unwrap_err();
    assert_eq!(error.code(), "TFY0042", "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_sleep_ends_when_it_would_have_ended() {
    let dir = fresh("sleep");
    let nap = |_: ()| async {
        let began = now().await;
        sleep(Duration::from_millis(250)).await;
        Ok::<Duration, TaskError>(now().await.saturating_since(began))
    };
    let began = Instant::now();
    for _ in 0..2 {
        let mut runtime = builder(&dir).register("nap", nap).build().unwrap();
        runtime.submit::<Duration>("nap", "nap", &()).unwrap();
        moment(&mut runtime);
    }
    let mut runtime = builder(&dir).register("nap", nap).build().unwrap();
    let run = runtime.submit::<Duration>("nap", "nap", &()).unwrap();
    let slept = runtime.wait_for(&run).unwrap();
    assert!(slept >= Duration::from_millis(250));
    assert!(slept <= began.elapsed() + Duration::from_millis(1), "{slept:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_step_that_lost_a_race_stays_lost() {
    let dir = fresh("lost");
    let work = |_: ()| async {
        let slow = step("slow", || {
            std::thread::sleep(Duration::from_millis(300));
            DONE.lock().unwrap().push("slow");
            Ok::<u32, String>(1)
        });
        let won = select! {
            _ = async { slow.await } => "slow",
            _ = sleep(Duration::from_millis(5)) => "sleep",
        };
        let _: u32 = receive("go").await?;
        Ok::<String, TaskError>(won.into())
    };
    let mut runtime = builder(&dir).register("work", work).build().unwrap();
    runtime.submit::<String>("work", "work", &()).unwrap();
    moment(&mut runtime);
    drop(runtime);
    // The directory is held until the step has ended, if it had begun.
    let mut runtime = builder(&dir).register("work", work).build().unwrap();
    DONE.lock().unwrap().clear();
    let run = runtime.submit::<String>("work", "work", &()).unwrap();
    runtime.send(&run, "go", &1).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "sleep");
    assert!(DONE.lock().unwrap().is_empty(), "it was not begun again");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn how_a_run_failed_is_known_later() {
    let dir = fresh("failed");
    let stuck = |_: ()| async {
        let nobody_settles = promise::<u32>().await;
        nobody_settles.future().await
    };
    let waits = |_: ()| async { receive::<u32>("never").await };
    let mut codes = Vec::new();
    for process in 0..2 {
        let mut runtime =
            builder(&dir).register("stuck", stuck).register("waits", waits).build().unwrap();
        let stuck = runtime.submit::<u32>("stuck", "stuck", &()).unwrap();
        let waits = runtime.submit::<u32>("waits", "waits", &()).unwrap();
        if process == 0 {
            moment(&mut runtime);
            runtime.cancel(&waits).unwrap();
        }
        let errors = [runtime.wait_for(&stuck).unwrap_err(), runtime.wait_for(&waits).unwrap_err()];
        assert!(matches!(errors[1], RunError::Cancelled(_)), "{}", errors[1]);
        codes.push(errors.map(|error| error.code()));
    }
    assert_eq!(codes[0], codes[1]);
    assert_eq!(codes[0][0], "TFY0024");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn ids_name_one_piece_of_work() {
    let dir = fresh("ids");
    let double = |n: u32| async move { Ok::<u32, TaskError>(2 * n) };
    for _ in 0..2 {
        let mut runtime = builder(&dir).register("double", double).build().unwrap();
        let run = runtime.submit::<u32>("double", "one", &4).unwrap();
        let same = runtime.submit::<u32>("double", "one", &4).unwrap();
        assert_eq!(run.uuid(), same.uuid());
        let code = |error: Option<RunError>| error.expect("it is an error").code();
        assert_eq!(code(runtime.submit::<u32>("double", "one", &5).err()), "TFY0037");
        assert_eq!(code(runtime.submit::<u32>("triple", "one", &4).err()), "TFY0037");
        assert_eq!(code(runtime.submit::<u32>("triple", "two", &4).err()), "TFY0038");
        assert_eq!(code(runtime.submit::<u32>("double", "three", &"text").err()), "TFY0035");
        assert_eq!(runtime.wait_for(&run).unwrap(), 8);
        assert_eq!(code(runtime.submit::<u32>("double", "one", &5).err()), "TFY0037");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// What became of a run can be asked for at any time, also when so many have ended since that it is read from its file.
#[test]
fn outcomes_of_many_runs_are_known() {
    let dir = fresh("many");
    let mut runtime = builder(&dir)
        .register("echo", |n: u32| async move { Ok::<u32, TaskError>(n) })
        .build()
        .unwrap();
    let runs: Vec<_> =
        (0..3000u32).map(|n| runtime.submit::<u32>("echo", &n.to_string(), &n).unwrap()).collect();
    // In this order the first ones are long gone, and the last lines of all are still on their way.
    runtime.wait_for(&runs[2999]).unwrap();
    for (n, run) in runs.iter().enumerate() {
        assert_eq!(runtime.wait_for(run).unwrap(), n as u32);
        runtime.submit::<u32>("echo", &n.to_string(), &(n as u32)).unwrap();
    }
    drop(runtime);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A map has no order: the same one is the same input, however it is written.
#[test]
fn the_order_of_a_map_does_not_matter() {
    use std::collections::HashMap;
    let dir = fresh("maps");
    let count = |map: HashMap<String, u32>| async move { Ok::<usize, TaskError>(map.len()) };
    let mut runtime = builder(&dir).register("count", count).build().unwrap();
    let map = |n: u32| (0..20).map(|k| (format!("key {k}"), k * n)).collect::<HashMap<_, _>>();
    for _ in 0..5 {
        let run = runtime.submit::<usize>("count", "a", &map(1)).unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), 20);
    }
    let error = runtime.submit::<usize>("count", "a", &map(2)).map(drop).unwrap_err();
    assert_eq!(error.code(), "TFY0037");
    // Also of a run whose beginning is not on the disk yet.
    runtime.submit::<usize>("count", "b", &map(1)).unwrap();
    let error = runtime.submit::<usize>("count", "b", &map(2)).map(drop).unwrap_err();
    assert_eq!(error.code(), "TFY0037");
    drop(runtime);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A panic while the input of one run is read is that run's alone.
#[test]
fn an_input_that_panics_pauses_its_run() {
    struct Bad;
    impl<'de> serde::Deserialize<'de> for Bad {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Bad, D::Error> {
            panic!("what is this?");
        }
    }
    let dir = fresh("bad-input");
    let wait = |_: u32| async { tiffany::durable::receive::<u32>("go").await };
    let mut runtime = builder(&dir).register("one", wait).register("two", wait).build().unwrap();
    let one = runtime.submit::<u32>("one", "one", &1).unwrap();
    let two = runtime.submit::<u32>("two", "two", &2).unwrap();
    drop(runtime);
    let bad = |_: Bad| async { Ok::<u32, TaskError>(1) };
    let mut runtime = builder(&dir).register("one", bad).register("two", wait).build().unwrap();
    assert_eq!(runtime.wait_for(&one).unwrap_err().code(), "TFY0035");
    runtime.send(&two, "go", &7).unwrap();
    assert_eq!(runtime.wait_for(&two).unwrap(), 7);
    drop(runtime);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Nothing is safe in a directory that nobody will find again.
#[test]
fn a_directory_that_is_moved_or_removed_is_noticed_at_once() {
    for removed in [true, false] {
        let dir = fresh("vanished");
        let mut runtime = builder(&dir)
            .register("count", |n: u32| async move {
                for k in 0..n {
                    tiffany::durable::step("count", move || Ok::<u32, String>(k)).await?;
                }
                Ok::<u32, TaskError>(n)
            })
            .build()
            .unwrap();
        let first = runtime.submit::<u32>("count", "a", &3).unwrap();
        assert_eq!(runtime.wait_for(&first).unwrap(), 3);
        let moved = dir.with_extension("moved");
        match removed {
            true => std::fs::remove_dir_all(&dir).unwrap(),
            false => std::fs::rename(&dir, &moved).unwrap(),
        }
        let run = runtime.submit::<u32>("count", "b", &3).unwrap();
        let error = runtime.wait_for(&run).unwrap_err();
        assert_eq!(error.code(), "TFY0105", "{error}");
        drop(runtime);
        let _ = std::fs::remove_dir_all(&moved);
    }
}

/// Fails while another task waits for messages.
async fn fails_beside_a_listener(_: ()) -> Result<(), TaskError> {
    let listener = async { receive::<u32>("numbers").await };
    drop(tiffany::try_spawn(listener).name("listener").await);
    sleep_secs(0.001).await;
    Err(TaskError::failed("no money"))
}

#[test]
fn a_failed_root_is_told_although_a_task_waits() {
    let dir = fresh("failed-root");
    let program = || builder(&dir).register("fails", fails_beside_a_listener);
    let mut runtime = program().build().unwrap();
    let run = runtime.submit::<()>("fails", "fails", &()).unwrap();
    // A run that is not told of is cancelled, so that this test does not hang.
    let (told, waits) = std::sync::mpsc::channel::<()>();
    let (mut control, uuid) = (runtime.handle().control(), run.uuid());
    let helper = std::thread::spawn(move || match waits.recv_timeout(Duration::from_secs(5)) {
        Ok(()) => false,
        Err(_) => control.cancel(uuid).is_ok(),
    });
    let error = runtime.wait_for(&run).unwrap_err();
    told.send(()).ok();
    assert_eq!(error.task_error().unwrap().message(), "no money");
    assert!(!helper.join().unwrap(), "it had to be cancelled to be told");
    std::fs::remove_dir_all(&dir).unwrap();
}
