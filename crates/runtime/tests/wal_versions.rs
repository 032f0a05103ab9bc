//! The threat: a program passes over a record of a newer one that it must not pass over, or takes a damaged byte for a
//! newer version. A line that a newer program wrote has a higher `v`; its run is refused, whole and unchanged, and all
//! others go on.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::durable_kit::Dir;
use tiffany::control::{RunQuery, State};
use tiffany::durable::{DurableRun, receive, run_id, step};
use tiffany::retention::{Keeper, Retention};
use tiffany::wal::backup::{Pace, take};
use tiffany::wal::{LINE_VERSION, RealDisk, RunReader, View};
use tiffany::{Builder, ErrorKind, Runtime, TaskError, Uuid};

/// One that no program writes yet.
const NEWER: u64 = LINE_VERSION + 1;

async fn waits(_: ()) -> Result<u32, TaskError> {
    let one: u32 = step("one", || Ok::<u32, String>(1)).await?;
    Ok(one + receive::<u32>("more").await?)
}

async fn quick(_: ()) -> Result<u32, TaskError> {
    step("one", || Ok::<u32, String>(1)).await
}

fn program(dir: &Dir) -> Builder {
    dir.builder().register("waits", waits).register("quick", quick)
}

fn path(dir: &Dir, run: Uuid) -> PathBuf {
    dir.0.join(format!("wal/{run}.wal"))
}

/// The lines with other bytes in the place of `crc`: each checksum is that of the line before it and this one.
fn chained(run: Uuid, lines: &[String]) -> String {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&run.0.to_be_bytes()), &1_u32.to_le_bytes());
    let (mut crc, mut log) = (seed, String::new());
    for line in lines {
        let body = &line[..line.rfind(",\"crc\":").unwrap_or(line.len())];
        crc = crc32c::crc32c_append(crc, body.as_bytes());
        log.push_str(&format!("{body},\"crc\":\"{crc:08x}\"}}\n"));
    }
    log
}

/// The log of a run with one more line, of this version and type.
fn with_line(dir: &Dir, run: Uuid, version: u64, kind: &str) -> String {
    let log = fs::read_to_string(path(dir, run)).unwrap();
    let mut lines: Vec<String> = log.lines().map(str::to_owned).collect();
    let seq = lines.len() + 1;
    lines.push(format!(
        "{{\"v\":{version},\"seq\":{seq},\"ts\":\"2026-11-05T09:41:00.000000000Z\",\"type\":\"{kind}\",\"task_id\":\"{run}\",\"tid\":1,\"by\":\"ada\""
    ));
    chained(run, &lines)
}

fn state(runtime: &mut Runtime, id: &str) -> (State, String) {
    let query = RunQuery { text: Some(id.into()), ..RunQuery::default() };
    let run = runtime.runs(&query).unwrap().runs.remove(0);
    (run.state, run.error.map(|error| error.message).unwrap_or_default())
}

/// A run that waits and one that has ended, in a directory that no process has.
fn two_runs() -> (Dir, DurableRun<u32>, DurableRun<u32>) {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let waiting = runtime.submit::<u32>("waits", "waiting", &()).unwrap();
    let ended = runtime.submit::<u32>("quick", "ended", &()).unwrap();
    runtime.wait_for(&ended).unwrap();
    drop(runtime);
    (dir, waiting, ended)
}

#[test]
fn a_type_that_is_not_known_is_passed_over_where_its_version_is_known() {
    for version in 1..=LINE_VERSION {
        let (dir, waiting, _) = two_runs();
        fs::write(path(&dir, waiting.uuid()), with_line(&dir, waiting.uuid(), version, "Tomorrow"))
            .unwrap();
        let mut runtime = program(&dir).build().unwrap();
        assert_eq!(runtime.paused().len(), 0, "v {version}: {:?}", runtime.paused());
        runtime.send(&waiting, "more", &2).unwrap();
        assert_eq!(runtime.wait_for(&waiting).unwrap(), 3, "v {version}");
    }
}

#[test]
fn a_run_with_a_newer_line_is_refused_unchanged_and_the_others_go_on() {
    let (dir, waiting, ended) = two_runs();
    let log = with_line(&dir, waiting.uuid(), NEWER, "RunReopened");
    fs::write(path(&dir, waiting.uuid()), &log).unwrap();
    for _ in 0..2 {
        let mut runtime = program(&dir).build().unwrap();
        let paused = runtime.paused();
        assert_eq!((paused.len(), paused[0].run), (1, waiting.uuid()));
        let message = paused[0].error.message().to_owned();
        let what = format!("format version {NEWER}, which is newer than this program [TFY0110]");
        assert!(message.contains(&what), "{message}");
        // Nothing can be written behind a line that isn't understood.
        assert!(runtime.send(&waiting, "more", &2).is_err());
        assert!(runtime.cancel(&waiting).is_err());
        assert_eq!(state(&mut runtime, "waiting").0, State::Damaged);
        let other =
            runtime.submit::<u32>("quick", &format!("other-{}", runtime.paused().len()), &());
        assert_eq!(runtime.wait_for(&other.unwrap()).unwrap(), 1);
        assert_eq!(runtime.wait_for(&ended).unwrap(), 1);
        drop(runtime);
        assert_eq!(fs::read_to_string(path(&dir, waiting.uuid())).unwrap(), log);
    }

    let view = View::open(Arc::new(RealDisk), &dir.0).unwrap();
    let mut reader = view.reader(waiting.uuid()).unwrap();
    let mut read = || loop {
        match reader.next() {
            Some(Ok(_)) => {}
            other => return other.map(|line| line.map(drop)),
        }
    };
    assert_eq!(read().unwrap().unwrap_err().code(), "TFY0110");
    // A backup has the lines before it, and says why it has no more; the other runs are whole.
    let to = Dir::new();
    let taken = take(Arc::new(RealDisk), &dir.0, &to.0, &mut Pace::full()).unwrap();
    assert_eq!((taken.damaged.len(), taken.damaged[0].run), (1, waiting.uuid()));
    assert!(taken.damaged[0].what.contains("TFY0110"), "{}", taken.damaged[0].what);
    // It isn't damaged, so it isn't given up as damaged.
    let error = Keeper::open(&dir.0).unwrap().remove_damaged(waiting.uuid()).unwrap_err();
    assert!(error.message().contains("TFY0110"), "{error}");
    assert_eq!(fs::read_to_string(path(&dir, waiting.uuid())).unwrap(), log);
}

#[test]
fn a_finished_run_with_a_newer_line_is_neither_read_nor_removed_nor_compacted() {
    let (dir, _, ended) = two_runs();
    // A newer program wrote its last line, and knew how long it is: only the line itself says that it is newer.
    let log = fs::read_to_string(path(&dir, ended.uuid())).unwrap();
    let lines: Vec<String> = log.lines().map(str::to_owned).collect();
    let newer = chained(
        ended.uuid(),
        &[
            lines,
            vec![
                with_line(&dir, ended.uuid(), NEWER, "RunRetried")
                    .lines()
                    .last()
                    .unwrap()
                    .to_owned(),
            ],
        ]
        .concat(),
    );
    fs::write(path(&dir, ended.uuid()), &newer).unwrap();
    let mut runtime = program(&dir).build().unwrap();
    let (is, why) = state(&mut runtime, "ended");
    assert!(is == State::Damaged && why.contains("TFY0110"), "{is:?} {why}");
    drop(runtime);

    let mut keeper = Keeper::open(&dir.0).unwrap();
    let plan = keeper.plan(&[Retention::new().keep(0)]).unwrap();
    let pruned = keeper.carry_out(&plan).unwrap();
    assert_eq!(pruned.removed, 0, "{pruned:?}");
    let pruned = keeper.compact(&[ended.uuid()]).unwrap();
    assert!(
        pruned.compacted == 0 && pruned.refused[0].1.message().contains("TFY0110"),
        "{pruned:?}"
    );
    drop(keeper);
    assert_eq!(fs::read_to_string(path(&dir, ended.uuid())).unwrap(), newer);
}

#[test]
fn a_first_line_that_is_newer_is_not_taken_for_damage() {
    let (dir, waiting, _) = two_runs();
    let log = fs::read_to_string(path(&dir, waiting.uuid())).unwrap();
    let newer: Vec<String> = log
        .lines()
        .map(|line| line.replacen("{\"v\":1,", &format!("{{\"v\":{NEWER},"), 1))
        .collect();
    let newer = chained(waiting.uuid(), &newer);
    fs::write(path(&dir, waiting.uuid()), &newer).unwrap();
    let runtime = program(&dir).build().unwrap();
    assert!(runtime.paused()[0].error.message().contains("TFY0110"), "{:?}", runtime.paused());
    drop(runtime);
    assert_eq!(fs::read_to_string(path(&dir, waiting.uuid())).unwrap(), newer);
    // Without an index nothing else is known of it either.
    let bare = Dir::new();
    fs::create_dir_all(bare.0.join("wal")).unwrap();
    fs::write(path(&bare, waiting.uuid()), &newer).unwrap();
    let mut runtime = program(&bare).build().unwrap();
    assert_eq!(fs::read_to_string(path(&bare, waiting.uuid())).unwrap(), newer);
    let again = runtime.submit::<u32>("waits", "waiting", &());
    assert!(again.is_err(), "its steps would be done again");
}

#[test]
fn a_damaged_byte_is_not_taken_for_a_newer_version() {
    let (dir, waiting, _) = two_runs();
    let log = fs::read_to_string(path(&dir, waiting.uuid())).unwrap();
    fs::write(
        path(&dir, waiting.uuid()),
        log.replacen("{\"v\":1,\"seq\":2,", "{\"v\":9,\"seq\":2,", 1),
    )
    .unwrap();
    let mut reader = RunReader::open(&RealDisk, &dir.0, waiting.uuid(), None).unwrap();
    reader.next().unwrap().unwrap();
    assert_eq!(reader.next().unwrap().unwrap_err().code(), "TFY0107");
}

#[test]
fn a_line_has_the_lowest_version_that_understands_it() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let in_hour =
        tiffany::durable::StartOptions::new().deadline_in(std::time::Duration::from_secs(3600));
    let tagged = tiffany::durable::StartOptions::new().tag("gold").attribute("amount", 1.5);
    for (id, options) in [("deadline", in_hour), ("tagged", tagged)] {
        let run = runtime.submit_with::<u32>("quick", id, &(), &options).unwrap();
        runtime.wait_for(&run).unwrap();
    }
    drop(runtime);
    for (id, first) in [("deadline", 2), ("tagged", 1)] {
        let log = fs::read_to_string(path(&dir, run_id(id))).unwrap();
        let versions: Vec<u64> = log
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["v"].as_u64().unwrap()
            })
            .collect();
        assert_eq!(versions[0], first, "{id}");
        assert!(versions[1..].iter().all(|version| *version == 1), "{id}: {versions:?}");
    }
    assert_eq!(ErrorKind::DeadlinePassed.code(), "TFY0271");
}
