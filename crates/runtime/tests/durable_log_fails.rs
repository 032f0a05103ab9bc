//! The threat: the disk refuses a write while steps are under way, on real threads. The runs stop with an error that says so, nobody waits for ever,
//! nothing continues as if it were safe, and a restart completes everything. Until its last step has ended the process keeps the directory.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::durable_kit::{Dir, ms};
use crate::test_process::arguments;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tiffany::durable::{StepError, external_promise, step, step_with};
use tiffany::wal::{RealDisk, Settings, Writer};
use tiffany::{Runtime, TaskError, try_spawn};

/// What the threads of the first life tell.
static TELL: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

fn tell(what: String) {
    if let Some(tell) = &*TELL.lock().unwrap() {
        let _ = tell.send(what);
    }
}

fn is_first_life() -> bool {
    TELL.lock().unwrap().is_some()
}

fn enter(dir: &Path, entry: &str) -> std::io::Result<()> {
    let mut ledger = OpenOptions::new().create(true).append(true).open(dir.join("ledger"))?;
    ledger.write_all(format!("{entry}\n").as_bytes())
}

/// From here on no file may become longer than a page, nor be written behind that.
fn break_the_disk() -> Result<(), StepError> {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: Some(4096), maximum }).map_err(StepError::give_up)
}

async fn work(dir: PathBuf) -> Result<u64, TaskError> {
    let ledger = dir.clone();
    let hangs = try_spawn(async move {
        let step = step_with("hangs", move |attempt| {
            enter(&ledger, &format!("hangs {}", attempt.key()))?;
            let began = Instant::now();
            while is_first_life() && !attempt.is_given_up() && began.elapsed() < ms(20_000) {
                std::thread::sleep(ms(1));
            }
            tell(format!("hangs: given up: {}", attempt.is_given_up()));
            Ok::<u64, StepError>(1)
        });
        step.await
    })
    .await;
    let keeps = try_spawn(async {
        let step = step_with("keeps", |attempt| {
            while is_first_life() {
                if let Err(error) = attempt.checkpoint(&attempt.number()) {
                    tell(format!("keeps: {}", error.error()));
                    return Err(error);
                }
                std::thread::sleep(ms(1));
            }
            Ok(attempt.last_checkpoint::<u64>()?.map_or(0, |_| 1))
        });
        step.await
    })
    .await;
    let promise = external_promise::<u64>().await;
    let uuid = promise.uuid();
    if is_first_life() {
        let handle = tiffany::handle()?;
        std::thread::spawn(move || {
            std::thread::sleep(ms(300));
            tell(format!("settles: {:?}", handle.settle_durable(uuid, Ok(&1_u64))));
        });
    }
    let mut done = 0;
    for round in 0..200 {
        let ledger = dir.clone();
        let step = step_with("round", move |attempt| {
            enter(&ledger, &format!("round {}", attempt.key()))?;
            if round == 20 && is_first_life() {
                break_the_disk()?;
            }
            Ok::<u64, StepError>(1)
        });
        done += step.input(&round).await?;
    }
    Ok(done + hangs.await? + keeps.await?)
}

fn start(dir: &Path) -> Runtime {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    let builder = Runtime::builder().log_dir(dir.join("log")).log_settings(settings);
    builder.register("work", work).build().expect("the log opens")
}

/// The first life, in a process of its own.
fn first_life(dir: &Path) {
    let (sender, told) = mpsc::channel();
    *TELL.lock().unwrap() = Some(sender);
    let mut runtime = start(dir);
    let run = runtime.submit::<u64>("work", "a", &dir).expect("it starts");
    let began = Instant::now();
    let error = runtime.wait_for(&run).expect_err("the disk refuses");
    std::thread::sleep(ms(500));
    // The first has read all that the threads had to say; nothing comes for the second to hear.
    let again = runtime.wait_for(&run).expect_err("it does not go on");
    let third = runtime.wait_for(&run).expect_err("it does not wait for ever either");
    let another = runtime.submit::<u64>("work", "b", &dir).map(drop).expect_err("nor begin");
    let loose = runtime.try_run(step("loose", || Ok::<_, String>(1)).into_future());
    let loose = loose.expect_err("a run that is not durable is not driven either");
    for error in [error, again, third, another, loose] {
        let error = error.to_string();
        assert!(error.contains("TFY01"), "{error}");
    }
    drop(runtime);
    let mut said: Vec<String> = (0..3)
        .map(|_| told.recv_timeout(Duration::from_secs(10)).expect("nobody waits for ever"))
        .collect();
    said.sort();
    assert_eq!(said[0], "hangs: given up: true");
    assert!(said[1].starts_with("keeps: ") && said[1].contains("TFY00"), "{said:?}");
    assert!(said[2].starts_with("settles: Err("), "{said:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
}

#[test]
fn a_disk_that_refuses_while_steps_are_under_way() {
    if let Ok(dir) = std::env::var("TIFFANY_FIRST_LIFE") {
        return first_life(Path::new(&dir));
    }
    let dir = Dir::new();
    std::fs::create_dir_all(&dir.0).unwrap();
    // The signal that comes with the limit would end the process; ignored, the write fails.
    let life = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(arguments(module_path!(), "a_disk_that_refuses_while_steps_are_under_way"))
        .env("TIFFANY_FIRST_LIFE", &dir.0)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&life.stderr);
    assert!(life.status.success(), "{told}");
    let mut runtime = start(&dir.0);
    let run = runtime.submit::<u64>("work", "a", &dir.0).unwrap();
    // The promise nobody waits for is settled or not; what was kept is there.
    assert_eq!(runtime.wait_for(&run).unwrap(), 200 + 1 + 1);
    let ledger = std::fs::read_to_string(dir.0.join("ledger")).unwrap();
    let mut keys: Vec<&str> = ledger.lines().collect();
    let entries = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 201, "what is done again is done under its key:\n{ledger}");
    assert!(entries > 201, "nothing was cut off, so this shows nothing");
}

/// What the process of the next test says, line by line.
fn say(what: &str) {
    println!("\n{what}");
}

/// A run whose first step lasts until a file is there, while its second one breaks the disk.
async fn lasting(dir: PathBuf) -> Result<(), TaskError> {
    let release = dir.join("release");
    let lasts = try_spawn(async move {
        let lasts = step("lasts", move || {
            while !release.exists() {
                std::thread::sleep(ms(1));
            }
            say("ended");
            Ok::<u64, StepError>(1)
        });
        lasts.at_most_once().await
    })
    .await;
    step("breaks", || break_the_disk().map(|()| 1_u64)).await?;
    lasts.await.map(drop)
}

/// The process of the next test: its log fails while a step runs, and then its runtime is dropped.
fn fails_while_a_step_runs(dir: &Path) {
    let mut runtime = Runtime::builder()
        .log_dir(dir.join("log"))
        .log_settings(Settings { segment_bytes: 1 << 18, ..Settings::default() })
        .register("lasting", lasting)
        .build()
        .expect("the log opens");
    let run = runtime.submit::<()>("lasting", "a", &dir).expect("it starts");
    runtime.wait_for(&run).expect_err("the disk refuses");
    say("failed");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("it is told to go on");
    drop(runtime);
    say("dropped");
    std::io::stdin().read_line(&mut line).expect("it is told to end");
}

#[test]
fn the_directory_is_held_until_the_last_step_has_ended() {
    if let Ok(dir) = std::env::var("TIFFANY_FIRST_LIFE") {
        return fails_while_a_step_runs(Path::new(&dir));
    }
    let dir = Dir::new();
    std::fs::create_dir_all(&dir.0).unwrap();
    let mut life = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(arguments(module_path!(), "the_directory_is_held_until_the_last_step_has_ended"))
        .env("TIFFANY_FIRST_LIFE", &dir.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(life.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut hears = |what: &str| assert!(lines.any(|line| line == what), "it never said `{what}`");
    let mut go_on = life.stdin.take().unwrap();
    let log = dir.0.join("log");
    let open = |log: &Path| Writer::open(Arc::new(RealDisk), log, Settings::default()).map(drop);
    hears("failed");
    // The log has failed, and the step still runs.
    let error = open(&log).expect_err("another process has its directory");
    assert_eq!(error.code(), "TFY0101", "{error}");
    assert!(error.to_string().contains(&format!("process {} ", life.id())), "{error}");
    go_on.write_all(b"\n").unwrap();
    hears("dropped");
    // Its runtime is gone too, and the step still runs. Who wants the directory now waits for that.
    assert!(tiffany::wal::holder(&log).is_some(), "the directory is free");
    let wants = log.clone();
    let waits = std::thread::spawn(move || open(&wants));
    std::thread::sleep(ms(50));
    assert!(!waits.is_finished(), "the directory was opened while a step runs");
    std::fs::write(dir.0.join("release"), "").unwrap();
    hears("ended");
    waits.join().unwrap().unwrap();
    drop(go_on);
    assert!(life.wait().unwrap().success());
}
