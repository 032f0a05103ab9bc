//! The threat: what a run is started with and what it says of itself, in logs of today, is not understood tomorrow.
//! `golden/runs-v3` has logs with what came after `runs-v2`: a namespace, a deadline, tags, attributes, annotations. Today's
//! program writes them again byte for byte, goes on from wherever they end, and a reader that shares no code with it
//! finds every record as the book says.
//!
//! `WAL_BLESS=1 cargo nextest run -p tiffany durable_golden_terms` writes them again. They name lines of this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::durable_kit::Dir;
use serde_json::Value;
use tiffany::control::RunQuery;
use tiffany::durable::{
    AnnotationKind, StartOptions, add_tags, annotate, receive, remove_attributes, run_id,
    set_attributes, step,
};
use tiffany::history::key::run_id_in;
use tiffany::testing::{Machine, Made, Simulation, Watcher};
use tiffany::wal::sim::SimDisk;
use tiffany::{Builder, TaskError, Time, Uuid, try_spawn};

/// Annotates what it and a task of its own do, and changes its attributes.
async fn noted(_: ()) -> Result<u64, TaskError> {
    annotate(AnnotationKind::InstructionStart, "count the files").await?;
    set_attributes([("stage", "begun")]).await?;
    let files: u64 = step("count", || Ok::<_, String>(3)).await?;
    annotate(AnnotationKind::ToolResult, &files).await?;
    let child = try_spawn(async {
        annotate(AnnotationKind::StepStart, "in a task of its own").await?;
        step("more", || Ok::<u64, String>(1)).await
    });
    let more = child.await.await?;
    add_tags(["counted"]).await?;
    remove_attributes(["rate"]).await?;
    annotate(AnnotationKind::TaskComplete, "done").await?;
    Ok(files + more)
}

/// Waits for what nobody sends.
async fn late(_: ()) -> Result<u64, TaskError> {
    receive("word").await
}

/// What the run `noted` is started with.
fn terms() -> StartOptions {
    StartOptions::new()
        .namespace("shop")
        .tag("gold")
        .attribute("amount", 17_i64)
        .attribute("customer", "ada")
        .attribute("due", Time::from_nanos(1_800_000_000_000_000_000))
        .attribute("paid", false)
        .attribute("rate", 0.5)
        .deadline_in(Duration::from_secs(3600))
}

fn program() -> Builder {
    let log = tiffany::wal::Settings { segment_bytes: 1 << 18, ..Default::default() };
    Builder::new().register("noted", noted).register("late", late).log_settings(log)
}

struct Nobody;

impl Watcher for Nobody {
    fn begins(&self, _: &Made<'_>) -> bool {
        true
    }

    fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
}

/// What the program writes of one run on a simulated machine.
fn written(function: &str, options: &StartOptions) -> Vec<(String, Vec<u8>)> {
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
    let run = simulation.submit_with::<Value>(function, function, &(), options).unwrap().0;
    while simulation.outcome(&run).is_none() {
        simulation.drive().unwrap();
        simulation.set_clock(simulation.next_event().unwrap_or(simulation.now()));
    }
    drop(simulation);
    let runs = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|e| e == "wal"));
    runs.map(|path| (name(&path), disk.contents(&path).unwrap())).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/runs-v3")
}

fn kept(uuid: Uuid) -> String {
    fs::read_to_string(golden().join(format!("{uuid}.wal"))).unwrap()
}

#[test]
fn the_same_runs_write_the_same_bytes() {
    let soon = StartOptions::new().tag("late").deadline_in(Duration::from_millis(20));
    let mut written = written("noted", &terms());
    written.extend(self::written("late", &soon));
    if std::env::var_os("WAL_BLESS").is_some() {
        fs::create_dir_all(golden()).unwrap();
        for (name, bytes) in &written {
            fs::write(golden().join(name), bytes).unwrap();
        }
    }
    for (name, is) in &written {
        let (is, was) = (std::str::from_utf8(is).unwrap(), fs::read_to_string(golden().join(name)));
        let was = was.unwrap();
        for (line, (is, was)) in is.lines().zip(was.lines()).enumerate() {
            assert_eq!(is, was, "line {} of {name} has changed", line + 1);
        }
        assert_eq!(is.len(), was.len(), "{name}");
    }
    assert_eq!((written.len(), fs::read_dir(golden()).unwrap().count()), (2, 2));
}

#[test]
fn they_have_what_a_run_is_started_with_and_what_it_says_of_itself() {
    let noted = kept(run_id_in("shop", "noted"));
    let start = "\"rules\":2,\"namespace\":\"shop\",\"id\":\"noted\",\"function\":\"noted\",\"deadline\":\"2023-11-14T23:13:20.000000000Z\",\"tags\":[\"gold\"],\"attributes\":{\"amount\":17,\"customer\":\"ada\",\"due\":{\"time\":\"2027-01-15T08:00:00.000000000Z\"},\"paid\":false,\"rate\":0.5},\"input\":null,";
    assert!(noted.starts_with("{\"v\":2,\"seq\":1,") && noted.contains(start), "{noted}");
    assert_eq!(noted.matches("{\"v\":1,").count(), noted.lines().count() - 1);
    for what in ["InstructionStart", "ToolResult", "StepStart", "TaskComplete", "Attributes"] {
        assert!(noted.contains(&format!("\"type\":\"{what}\"")), "no {what}");
    }
    let last = noted.lines().last().unwrap();
    let end = "\"tags\":[\"counted\",\"gold\"],\"attributes\":{\"amount\":17,";
    assert!(last.contains(end) && !last.contains("\"at\":"), "{last}");
    let late = kept(run_id("late"));
    for what in ["\"why\":\"deadline\"", "\"kind\":\"DeadlinePassed\"", "\"tags\":[\"late\"]"] {
        assert!(late.contains(what), "no {what} in {late}");
    }
    // Nothing of it is in a log of a run that has none of it.
    for rules in ["runs-v1", "runs-v2"] {
        for file in fs::read_dir(golden().with_file_name(rules)).unwrap() {
            let log = fs::read_to_string(file.unwrap().path()).unwrap();
            for what in ["\"v\":2", "namespace", "deadline", "\"tags\"", "attributes"] {
                assert!(!log.contains(what), "{what} in {rules}");
            }
        }
    }
}

#[test]
fn todays_program_goes_on_from_wherever_they_end() {
    let uuid = run_id_in("shop", "noted");
    let log = kept(uuid);
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    for end in 1..=lines.len() {
        let dir = Dir::new();
        fs::create_dir_all(dir.0.join("wal")).unwrap();
        let path = dir.0.join(format!("wal/{uuid}.wal"));
        fs::write(&path, lines[..end].concat()).unwrap();
        // Its deadline was long ago: a run that has not ended fails.
        let mut runtime = program().log_dir(&dir.0).build().unwrap();
        let run = runtime.submit_with::<u64>("noted", "noted", &(), &terms()).unwrap();
        assert_eq!(run.uuid(), uuid);
        match runtime.wait_for(&run) {
            Ok(value) => assert!(value == 4 && end + 2 > lines.len(), "after line {end}"),
            Err(error) => {
                let error = error.task_error().unwrap();
                assert_eq!(error.code(), "TFY0271", "after line {end}: {error}");
                assert!(error.message().contains("2023-11-14T23:13:20"), "{error}");
            }
        }
        let run = runtime.runs(&RunQuery::default()).unwrap().runs.remove(0);
        assert_eq!((run.id.as_str(), &run.attributes["amount"]), ("noted", &17_i64.into()));
        drop(runtime);
        // The next generation of a run, and what is left of one, keep its namespace.
        assert!(fs::read_to_string(&path).unwrap().contains("\"namespace\":\"shop\""));
    }
}

#[test]
fn another_reader_finds_every_record_as_the_book_says() {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wal_reader.py");
    let files = fs::read_dir(golden()).unwrap().map(|file| file.unwrap().path());
    let output = Command::new("python3").arg(&reader).args(files).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dir = Dir::new();
    fs::create_dir_all(&dir.0).unwrap();
    let refusal = |log: String| {
        let path = dir.0.join("noted.wal");
        fs::write(&path, log).unwrap();
        let output =
            Command::new("python3").arg(&reader).arg("--ignore-checksums").arg(path).output();
        String::from_utf8_lossy(&output.unwrap().stderr).into_owned()
    };
    // A deadline that a program of the first version would pass over, a version that nobody knows, attributes that are
    // none, and a namespace that is not that of the UUID.
    let noted = kept(run_id_in("shop", "noted"));
    for (was, is, why) in [
        ("{\"v\":2,", "{\"v\":1,", "version 1"),
        ("{\"v\":1,\"seq\":3,", "{\"v\":3,\"seq\":3,", "version 3"),
        ("\"paid\":false", "\"paid\":null", "attribute paid"),
        ("\"tags\":[\"gold\"]", "\"tags\":\"gold\"", "tags"),
        ("\"namespace\":\"shop\"", "\"namespace\":\"store\"", "namespace"),
        ("\"value\":\"done\",", "", "says nothing"),
    ] {
        let changed = noted.replacen(was, is, 1);
        assert_ne!(changed, noted, "{was}");
        let told = refusal(changed);
        assert!(told.contains(why), "{was}: {told}");
    }
}
