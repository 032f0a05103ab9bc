//! Fuzz targets, for the fuzzer and for the test that runs its corpus. Arbitrary bytes must be read
//! or refused with an error, without a panic and in bounded time.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tiffany::control::Request;
use tiffany::durable::{external_promise, receive, step};
use tiffany::pal::{Hub, Told, progress};
use tiffany::testing::{Machine, Simulation};
use tiffany::wal::sim::SimDisk;
use tiffany::wal::{
    Barrier, Batch, Chain, Disk, LogError, OpenMode, RecordType, RunReader, Settings, Stamp, Writer,
};
use tiffany::{
    Builder, Runtime, TaskError, Tid, Time, Uuid, new_uuid, now, random, sleep, try_spawn,
};

use crate::ledger::Ledger;
use crate::logs::ROOT;

/// The run whose file consists of the bytes.
const RUN: Uuid = Uuid(0x0412_abcc_f010_411c_bf60_2f8c_f381_3ff3);

/// A function that reads arbitrary bytes and must not panic.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("run_file", run_file),
    ("segment", segment),
    ("index", index),
    ("script", script),
    ("request", request),
];

fn small() -> Settings {
    Settings { segment_bytes: 4096, segments: 2, ..Settings::default() }
}

/// Returns the result; asserts that an error has a code.
fn told<T>(result: Result<T, LogError>) -> Option<T> {
    if let Err(error) = &result {
        assert!(error.to_string().contains("[TFY"), "it is refused without a code: {error}");
    }
    result.ok()
}

/// Opens the log on a disk twice, and reads all of it.
fn open(disk: &SimDisk) {
    for _ in 0..2 {
        let opened = Writer::open(Arc::new(disk.clone()), Path::new(ROOT), small());
        let Some((writer, _)) = told(opened) else { return };
        for (run, entry) in writer.runs() {
            let reader = RunReader::open(disk, Path::new(ROOT), run, Some(entry));
            let Some(mut reader) = told(reader) else { continue };
            while let Some(record) = reader.next() {
                if told(record.map(|_| ())).is_none() {
                    break;
                }
            }
        }
        told(writer.close());
    }
}

/// Treats the bytes as requests that a client writes to the control socket, one per line. A request
/// that can be read must be the same after being written and read again. If it asks for events, the
/// subscription must deliver them.
pub fn request(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(request) = serde_json::from_slice::<Request>(line) else { continue };
        let written = serde_json::to_string(&request).expect("what was read can be written");
        let again: Request = serde_json::from_str(&written).expect("what was written can be read");
        let rewritten = serde_json::to_string(&again).expect("what was read can be written");
        assert_eq!(written, rewritten, "a request changes on its way");
        if let Request::Events(wanted) = request {
            thread_local!(static HUB: Hub = told_something());
            let mut events = HUB.with(|hub| hub.subscribe(wanted));
            let mut last = 0;
            while let Some(told) = events.try_next() {
                if let Told::Event(event) = told {
                    assert!(event.seq > last, "events are out of order");
                    last = event.seq;
                }
            }
        }
    }
}

/// Makes a hub with the events of a run.
fn told_something() -> Hub {
    let mut runtime = Runtime::new().expect("there is a reactor");
    let hub = runtime.activity();
    runtime.run(progress(1, 2, "half")).expect("it ends well");
    hub
}

/// Returns the run that the bytes claim to be from.
fn run_in(bytes: &[u8]) -> Option<Uuid> {
    let text = String::from_utf8_lossy(bytes);
    let (_, rest) = text.split_once("\"task_id\":\"")?;
    Uuid::parse(rest.get(..36)?)
}

/// Treats the bytes as the file of a run.
pub fn run_file(bytes: &[u8]) {
    let disk = SimDisk::new();
    let wal = Path::new(ROOT).join("wal");
    let run = run_in(bytes).unwrap_or(RUN);
    let write = || -> std::io::Result<()> {
        disk.create_dir(Path::new(ROOT))?;
        disk.create_dir(&wal)?;
        let file = disk.open(&wal.join(format!("{run}.wal")), OpenMode::Create)?;
        file.write_at(bytes, 0)?;
        file.sync(Barrier::RunFile)
    };
    write().expect("the disk is fine");
    if let Some(mut reader) = told(RunReader::open(&disk, Path::new(ROOT), run, None)) {
        while let Some(record) = reader.next() {
            let Some(record) = told(record) else { break };
            // Call what a reader would use.
            let _ = (record.stamp(), record.record_type(), record.str("id"), record.uint("of"));
            let _ = record.fields().count();
        }
    }
    open(&disk);
}

/// Makes a log with a few lines, in the state after a crash.
pub fn some_log() -> SimDisk {
    let disk = SimDisk::new();
    let opened = Writer::open(Arc::new(disk.clone()), Path::new(ROOT), small());
    let (mut writer, _) = opened.expect("an empty log opens");
    let mut chain = Chain::new(RUN);
    for number in 0..4 {
        let mut batch = Batch::with_blob_limit(64);
        let line =
            batch.line(&mut chain, &Stamp::from_unix_nanos(number), RecordType::Message, Tid(1));
        line.str("value", &"x".repeat(40 * number as usize)).end();
        writer.commit(&mut batch, |_| {}).expect("it is written");
    }
    drop(writer);
    disk
}

fn replaced(ending: &str, bytes: &[u8]) {
    let disk = some_log();
    let path = disk.paths().into_iter().find(|path| path.to_string_lossy().ends_with(ending));
    disk.tamper(&path.expect("it is there"), bytes.to_vec());
    open(&disk);
}

/// Treats the bytes as a segment of the commit log.
pub fn segment(bytes: &[u8]) {
    replaced(".seg", bytes);
}

/// Treats the bytes as the index.
pub fn index(bytes: &[u8]) {
    replaced("/index", bytes);
}

/// A workflow that makes one call of each kind.
async fn workflow(input: Value) -> Result<Value, TaskError> {
    let child = try_spawn(async {
        sleep(Duration::from_millis(1)).await;
        Ok::<u64, TaskError>(random().await)
    })
    .await;
    now().await;
    new_uuid().await;
    let value: Value = step("echo", move || Ok::<Value, String>(input.clone())).await?;
    let promise = external_promise::<Value>().await;
    let message: Value = receive("word").await?;
    child.await?;
    Ok(Value::from(vec![value, message, promise.wait().await?]))
}

/// Treats the bytes as well-formed records, from which the run is resumed. Each line has a type, a
/// task and the fields as an object: `TaskYield 1 {"call":"now"}`.
pub fn script(bytes: &[u8]) {
    let disk = SimDisk::new();
    let opened = Writer::open(Arc::new(disk.clone()), Path::new(ROOT), small());
    let (mut writer, _) = opened.expect("an empty log opens");
    let mut chain = Chain::new(RUN);
    let mut batch = Batch::with_blob_limit(usize::MAX);
    for (at, line) in String::from_utf8_lossy(bytes).lines().take(64).enumerate() {
        let mut parts = line.splitn(3, ' ');
        let kind = parts.next().and_then(RecordType::parse);
        let tid = parts.next().and_then(|tid| tid.parse().ok());
        let fields = parts.next().and_then(|json| serde_json::from_str::<Map<_, _>>(json).ok());
        let (Some(kind), Some(tid), Some(fields)) = (kind, tid, fields) else { continue };
        let stamp = Stamp::from_unix_nanos(1_700_000_000_000_000_000 + at as u64);
        let mut line = batch.line(&mut chain, &stamp, kind, Tid(tid));
        for (name, value) in &fields {
            let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if plain
                && !name.is_empty()
                && !["v", "seq", "ts", "tid", "crc", "gen"].contains(&name.as_str())
            {
                line = line.json(name, &value.to_string());
            }
        }
        line.end();
    }
    let written = writer.commit(&mut batch, |_| {}).and_then(|()| writer.close());
    if told(written).is_none() {
        return;
    }
    let machine = Machine {
        disk: Arc::new(disk.clone()),
        seed: 1,
        life: 1,
        now: Time::from_nanos(1_700_000_001_000_000_000),
        longest_work: Duration::from_millis(1),
        longest_commit: Duration::ZERO,
        watcher: Rc::new(Ledger::new(disk)),
    };
    let settings = Builder::new().register("workflow", workflow).log_settings(small());
    let Ok(mut simulation) = Simulation::start(settings.on_unobserved(|_| {}), machine) else {
        return;
    };
    for _ in 0..200 {
        if simulation.drive().is_err() {
            return;
        }
        let Some(next) = simulation.next_event() else { return };
        simulation.set_clock(next);
    }
}
