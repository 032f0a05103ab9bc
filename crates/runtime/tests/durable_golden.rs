//! The threat: what a durable run writes changes without anybody meaning it. Logs of runs that do a bit
//! of everything are kept as files: `runs-v2` is what today's program writes on a simulated machine,
//! byte for byte, and `runs-v1` is what it wrote before `RunStart` had `rules`. Today's program must
//! understand both wherever they end, each by its own rules, and a reader that shares no code with this
//! one must find every record as the book says.
//!
//! `WAL_BLESS=1 cargo nextest run -p tiffany durable_golden` writes `runs-v2` again. It names lines of this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::durable_kit::Dir;
use serde_json::Value;
use tiffany::control::{RunQuery, State};
use tiffany::durable::{
    Retry, StepError, receive, run_id, saga, send, step, step_transactional, step_with,
};
use tiffany::testing::{Machine, Made, Simulation, Watcher};
use tiffany::wal::sim::SimDisk;
use tiffany::{Builder, ErrorKind, TaskError, Tid, Time, sleep, spawn, try_spawn};

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
    Builder::new()
        .register("worker", worker)
        .register("friend", friend)
        .register("ends", ends)
        .register("beside", beside)
        .log_settings(log)
}

struct Nobody;

impl Watcher for Nobody {
    fn begins(&self, _: &Made<'_>) -> bool {
        true
    }

    fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
}

/// What the program writes on a simulated machine: the files of these runs.
fn written(functions: &[&str]) -> Vec<(String, Vec<u8>)> {
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
    let submit = |function: &&str| simulation.submit::<Value>(function, function, &()).unwrap().0;
    let runs: Vec<_> = functions.iter().map(submit).collect();
    while runs.iter().any(|run| simulation.outcome(run).is_none()) {
        simulation.drive().unwrap();
        simulation.set_clock(simulation.next_event().unwrap_or(simulation.now()));
    }
    drop(simulation);
    let runs = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|e| e == "wal"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    runs.map(|path| (name(&path), disk.contents(&path).unwrap())).collect()
}

/// Logs by the first rules, and by today's.
const FIRST: &str = "runs-v1";
const TODAY: &str = "runs-v2";

fn golden(rules: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(rules)
}

fn kept(rules: &str) -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(golden(rules)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn the_same_runs_write_the_same_bytes() {
    let mut written = written(&["friend", "worker"]);
    written.extend(self::written(&["beside", "ends"]));
    written.sort();
    if std::env::var_os("WAL_BLESS").is_some() {
        fs::create_dir_all(golden(TODAY)).unwrap();
        for (name, bytes) in &written {
            fs::write(golden(TODAY).join(name), bytes).unwrap();
        }
    }
    let written: Vec<(String, String)> = written
        .into_iter()
        .map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap()))
        .collect();
    for ((name, is), (kept_name, was)) in written.iter().zip(&kept(TODAY)) {
        assert_eq!(name, kept_name);
        for (line, (is, was)) in is.lines().zip(was.lines()).enumerate() {
            assert_eq!(is, was, "line {} of {name} has changed", line + 1);
        }
        assert_eq!(is.len(), was.len(), "{name}");
    }
    assert_eq!(written.len(), kept(TODAY).len());
}

#[test]
fn they_have_every_record_that_effects_write() {
    for rules in [FIRST, TODAY] {
        let all: String = kept(rules).into_iter().map(|(_, log)| log).collect();
        let effects = ["EffectStart", "EffectCheckpoint", "EffectResult"];
        let fields = ["\"from\":", "\"retry_at\":", "\"name\":\"send\""];
        for what in effects.into_iter().chain(fields).chain(["transactional", "at_most_once"]) {
            assert!(all.contains(what), "no {what} in {rules}");
        }
        let is_today = rules == TODAY;
        assert_eq!(all.contains("\"tid\":1,\"gen\":1,\"rules\":2,\"id\":"), is_today, "{rules}");
        assert_eq!(all.contains("\"daemon\":true"), is_today, "{rules}");
    }
}

/// The logs end after each of their lines, as far as a crash can leave them so: a message is not there without its call.
#[test]
fn todays_program_goes_on_from_wherever_they_end() {
    for rules in [FIRST, TODAY] {
        goes_on_from_wherever_they_end(rules);
    }
}

/// The kept log of a run.
fn log_of(rules: &str, id: &str) -> String {
    let name = format!("{}.wal", run_id(id));
    kept(rules).into_iter().find(|(kept, _)| *kept == name).unwrap().1
}

fn goes_on_from_wherever_they_end(rules: &str) {
    let (worker_log, friend_log) = (log_of(rules, "worker"), log_of(rules, "friend"));
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
    let files = |rules| kept(rules).into_iter().map(move |(name, _)| golden(rules).join(name));
    let files = files(FIRST).chain(files(TODAY));
    let output = Command::new("python3").arg(&reader).args(files).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A record that lacks a field, with a checksum that is right, is found.
    let (name, log) =
        kept(TODAY).into_iter().find(|(_, log)| log.contains("EffectCheckpoint")).unwrap();
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

/// Its root fails while another task has something to do.
async fn ends(_: ()) -> Result<(), TaskError> {
    let listener = async {
        sleep(Duration::from_millis(30)).await;
        step("after", || Ok::<_, String>(1)).await
    };
    drop(try_spawn(listener).name("listener").await);
    sleep(Duration::from_millis(10)).await;
    Err(TaskError::failed("no money"))
}

/// A daemon task beside its root.
async fn beside(_: ()) -> Result<u64, TaskError> {
    let ticks = async {
        loop {
            sleep(Duration::from_millis(7)).await;
        }
    };
    drop(spawn(ticks).daemon().await);
    sleep(Duration::from_millis(20)).await;
    Ok(5)
}

/// How the log of one run ends if it is resumed after each of its lines: the types of the records of each task's end.
fn resumed(rules: &str, id: &str) -> Vec<Vec<(u64, String)>> {
    let log = log_of(rules, id);
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let mut all = Vec::new();
    for end in 1..=lines.len() {
        let dir = Dir::new();
        fs::create_dir_all(dir.0.join("wal")).unwrap();
        let path = dir.0.join(format!("wal/{}.wal", run_id(id)));
        fs::write(&path, lines[..end].concat()).unwrap();
        let mut runtime = program().log_dir(&dir.0).build().unwrap();
        assert_eq!(runtime.paused().len(), 0, "after line {end}: {:?}", runtime.paused());
        let run = runtime.submit::<Value>(id, id, &()).unwrap();
        match runtime.wait_for(&run) {
            Ok(value) => assert_eq!(value, 5),
            Err(error) => assert_eq!(error.task_error().unwrap().message(), "no money"),
        }
        let ending = RunQuery { states: vec![State::Ending], ..RunQuery::default() };
        while !runtime.runs(&ending).unwrap().runs.is_empty() {
            runtime.run(sleep(Duration::from_millis(1))).unwrap();
        }
        drop(runtime);
        let records = fs::read_to_string(&path).unwrap();
        let records = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ends = records.filter_map(|record| {
            let kind = record["type"].as_str().unwrap().to_owned();
            let is_end = ["TaskExit", "TaskAbort", "TaskCancel"].contains(&kind.as_str());
            is_end.then(|| (record["tid"].as_u64().unwrap(), kind))
        });
        all.push(ends.collect());
    }
    all
}

#[test]
fn a_failed_root_means_to_a_log_what_it_meant_when_it_was_begun() {
    let ends = |all: [(u64, &str); 2]| all.map(|(tid, kind)| (tid, kind.to_owned())).to_vec();
    for resumed in resumed(FIRST, "ends") {
        assert_eq!(resumed, ends([(1, "TaskAbort"), (2, "TaskExit")]));
    }
    for resumed in resumed(TODAY, "ends") {
        assert_eq!(resumed, ends([(1, "TaskAbort"), (2, "TaskCancel")]));
    }
}

#[test]
fn a_daemon_task_is_one_after_a_crash_too() {
    for resumed in resumed(TODAY, "beside") {
        assert_eq!(resumed, [(1, "TaskExit".to_owned()), (2, "TaskCancel".to_owned())]);
    }
}

#[test]
fn rules_that_nobody_knows_pause_a_run() {
    let dir = Dir::new();
    fs::create_dir_all(dir.0.join("wal")).unwrap();
    // Its checksums are made by whoever writes it: this program, with other rules.
    let run = run_id("ends");
    let mut batch = tiffany::wal::Batch::new();
    let mut chain = tiffany::wal::Chain::new(run);
    let now = tiffany::wal::Stamp::from_unix_nanos(1_700_000_000_000_000_000);
    let line = batch.line(&mut chain, &now, tiffany::wal::RecordType::RunStart, Tid(1));
    let line = line.uint("rules", 3).str("id", "ends").str("function", "ends");
    line.json("input", "null").str("seed", "1").str("recording", "every").end();
    let path = dir.0.join(format!("wal/{run}.wal"));
    fs::write(&path, batch.text()).unwrap();
    let runtime = program().log_dir(&dir.0).build().unwrap();
    let paused = runtime.paused();
    assert_eq!(paused.len(), 1);
    let error = &paused[0].error;
    assert_eq!((error.kind(), error.code()), (ErrorKind::UnknownRules, "TFY0230"));
    assert!(error.message().contains("rules 3"), "{error}");
}
