//! The threat: what a durable run writes changes without anybody meaning it. The logs of two runs that do a bit of everything are kept as files; the same
//! program on the same simulated machine must write the same bytes, today's program must understand them wherever they end, and a reader that shares no code
//! with this one must find every record as the book says.
//!
//! `WAL_BLESS=1 cargo test -p tiffany --test durable_golden` writes the files anew. They name lines of this one.

mod durable_kit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use durable_kit::Dir;
use tiffany::durable::{
    Retry, StepError, receive, run_id, saga, send, step, step_transactional, step_with,
};
use tiffany::testing::{Machine, Made, Simulation, Watcher};
use tiffany::wal::sim::SimDisk;
use tiffany::{Builder, TaskError, Time, sleep, spawn};

async fn worker(_: ()) -> Result<String, TaskError> {
    let kept = step_with("keep", |attempt| {
        let before: Option<String> = attempt.last_checkpoint()?;
        attempt.checkpoint(&format!("attempt {}", attempt.number()))?;
        before.ok_or_else(|| StepError::from("nothing was kept"))
    });
    let kept = kept.input(&7).retry(Retry::times(2).first(Duration::from_millis(9))).await?;
    let stored: u64 = step_transactional("store", |attempt| attempt.to_json(&17_u64)).await?;
    send(run_id("friend"), "news", &(kept, stored)).await?;
    let nap = spawn(sleep(Duration::from_millis(30))).await;
    let failed = saga(async |saga| {
        let book = step("book", || Ok::<_, String>("room 9".to_string())).at_most_once();
        saga.step(book, |room| step("unbook", move || Ok::<_, String>(room.clone()))).await?;
        Err::<(), TaskError>(TaskError::failed("no money"))
    });
    let failed = failed.await.unwrap_err();
    nap.await?;
    Ok(format!("{}; undone: {}", failed.cause().message(), failed.undone().join(", ")))
}

async fn friend(_: ()) -> Result<(String, u64), TaskError> {
    receive("news").await
}

fn program() -> Builder {
    let log = tiffany::wal::Settings { segment_bytes: 1 << 18, ..Default::default() };
    Builder::new().register("worker", worker).register("friend", friend).log_settings(log)
}

struct Nobody;

impl Watcher for Nobody {
    fn begins(&self, _: &Made<'_>) -> bool {
        true
    }

    fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
}

/// What the program writes on a simulated machine: the files of its runs.
fn written() -> Vec<(String, Vec<u8>)> {
    let disk = SimDisk::new();
    let machine = Machine {
        disk: Arc::new(disk.clone()),
        seed: 11,
        life: 1,
        now: Time::from_nanos(1_700_000_000_000_000_000),
        longest_work: Duration::from_millis(20),
        longest_commit: Duration::from_millis(5),
        watcher: Rc::new(Nobody),
    };
    let mut simulation = Simulation::start(program(), machine).unwrap();
    let (friend, _) = simulation.submit::<(String, u64)>("friend", "friend", &()).unwrap();
    let (worker, _) = simulation.submit::<String>("worker", "worker", &()).unwrap();
    while simulation.outcome(&worker).is_none() || simulation.outcome(&friend).is_none() {
        simulation.drive().unwrap();
        simulation.set_clock(simulation.next_event().unwrap_or(simulation.now()));
    }
    drop(simulation);
    let runs = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|e| e == "wal"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    runs.map(|path| (name(&path), disk.contents(&path).unwrap())).collect()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/runs-v1")
}

fn kept() -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(golden()).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_same_runs_write_the_same_bytes() {
    let written = written();
    if std::env::var_os("WAL_BLESS").is_some() {
        fs::create_dir_all(golden()).unwrap();
        for (name, bytes) in &written {
            fs::write(golden().join(name), bytes).unwrap();
        }
    }
    let written: Vec<(String, String)> = written
        .into_iter()
        .map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap()))
        .collect();
    for ((name, is), (kept_name, was)) in written.iter().zip(&kept()) {
        assert_eq!(name, kept_name);
        for (line, (is, was)) in is.lines().zip(was.lines()).enumerate() {
            assert_eq!(is, was, "line {} of {name} has changed", line + 1);
        }
        assert_eq!(is.len(), was.len(), "{name}");
    }
    assert_eq!(written.len(), kept().len());
}

#[test]
fn they_have_every_record_that_effects_write() {
    let all: String = kept().into_iter().map(|(_, log)| log).collect();
    let wanted = ["EffectStart", "EffectCheckpoint", "EffectResult", "\"from\":", "\"retry_at\":"];
    for what in wanted.into_iter().chain(["transactional", "at_most_once", "\"name\":\"send\""]) {
        assert!(all.contains(what), "no {what}");
    }
}

/// The logs end after each of their lines, as far as a crash can leave them so: a message is not there without its call.
#[test]
fn todays_program_goes_on_from_wherever_they_end() {
    let kept = kept();
    let log_of = |id: &str| {
        let name = format!("{}.wal", run_id(id));
        kept.iter().find(|(kept, _)| *kept == name).map(|(_, log)| log.clone()).unwrap()
    };
    let (worker_log, friend_log) = (log_of("worker"), log_of("friend"));
    let lines: Vec<&str> = worker_log.split_inclusive('\n').collect();
    let call = lines.iter().position(|line| line.contains("\"name\":\"send\"")).unwrap();
    let first = friend_log.find('\n').unwrap() + 1;
    for end in 1..=lines.len() {
        let friend = if end > call { &friend_log } else { &friend_log[..first] };
        let dir = Dir::new();
        fs::create_dir_all(dir.0.join("wal")).unwrap();
        let path = |id: &str| dir.0.join(format!("wal/{}.wal", run_id(id)));
        fs::write(path("worker"), lines[..end].concat()).unwrap();
        fs::write(path("friend"), friend).unwrap();
        let mut runtime = program().log_dir(&dir.0).build().unwrap();
        let worker = runtime.submit::<String>("worker", "worker", &()).unwrap();
        let friend = runtime.submit::<(String, u64)>("friend", "friend", &()).unwrap();
        let outcome = runtime.wait_for(&worker).unwrap();
        // Cut off in the middle, what must not be done twice is in doubt.
        let in_doubt = lines[end - 1].contains("EffectStart") && outcome.contains("ended while");
        assert!(in_doubt || outcome == "no money; undone: book", "after line {end}: {outcome}");
        let (text, number) = runtime.wait_for(&friend).unwrap();
        assert!(text.starts_with("attempt ") && number == 17, "after line {end}: {text}");
    }
}

#[test]
fn another_reader_finds_every_record_as_the_book_says() {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wal_reader.py");
    let files = kept().into_iter().map(|(name, _)| golden().join(name));
    let output = Command::new("python3").arg(&reader).args(files).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A record that lacks a field, with a checksum that is right, is found.
    let (name, log) = kept().into_iter().find(|(_, log)| log.contains("EffectCheckpoint")).unwrap();
    let without = log.replace(",\"value\":\"attempt 1\"", "");
    assert_ne!(without, log);
    let dir = Dir::new();
    fs::create_dir_all(&dir.0).unwrap();
    fs::write(dir.0.join(&name), without).unwrap();
    let path = dir.0.join(&name);
    let output =
        Command::new("python3").arg(&reader).arg("--ignore-checksums").arg(path).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("EffectCheckpoint") && told.contains("value"), "{told}");
}
