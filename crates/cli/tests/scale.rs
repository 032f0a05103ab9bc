//! The threat: what is fast with ten runs is slow with ten thousand; a long log is held in memory.

use std::mem::MaybeUninit;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kit::{self, Home, clean_env, finish, tiffany};
use rustix::fs::inotify;
use tiffany::wal::{Batch, Chain, RealDisk, RecordType, Settings, Stamp, SyncWhen, Writer};
use tiffany::{Tid, Uuid};

fn writer(home: &Home) -> Writer {
    let settings = Settings { sync: SyncWhen::Never, ..Settings::default() };
    Writer::open(Arc::new(RealDisk), &home.log(), settings).unwrap().0
}

#[test]
fn thousands_of_runs_are_listed_at_once() {
    let home = Home::new();
    let mut writer = writer(&home);
    let now = Stamp::from_unix_nanos(1_800_000_000_000_000_000);
    let mut batch = Batch::new();
    // The relevant figure is that of a release build: `cargo nextest run --release -p tiffany-cli
    // scale`.
    let runs = if cfg!(debug_assertions) { 2_000 } else { 10_000 };
    for number in 0..runs {
        let mut chain = Chain::new(Uuid::from_random((number as u128) << 96 | 7));
        let line = batch.line(&mut chain, &now, RecordType::RunStart, Tid(1));
        let line = line.str("id", &format!("run-{number}")).str("function", "f");
        line.json("input", &format!("\"{}\"", "x".repeat(400))).end();
        for _ in 0..4 {
            let line = batch.line(&mut chain, &now, RecordType::TaskYield, Tid(1));
            line.str("call", "get_tid").str("at", &"y".repeat(200)).end();
        }
        batch.line(&mut chain, &now, RecordType::TaskExit, Tid(1)).json("value", "7").end();
        batch.finish(&chain);
        if number % 500 == 499 {
            writer.commit(&mut batch, |_| ()).unwrap();
        }
    }
    writer.close().unwrap();
    let begun = Instant::now();
    let listed = home.run(&["ls", "--json"]).ok();
    let took = begun.elapsed();
    assert_eq!(listed.stdout.lines().count(), runs);
    assert_eq!(listed.stdout.matches("\"state\":\"completed\"").count(), runs);
    println!("ls of {runs} runs: {took:?}");
    // A debug build is slower, and shares the machine with other tests.
    let limit = if cfg!(debug_assertions) { 10 } else { 1 };
    assert!(took < Duration::from_secs(limit), "{took:?}");
}

#[test]
fn a_long_log_is_streamed() {
    let home = Home::new();
    let mut writer = writer(&home);
    let mut chain = Chain::new(Uuid::from_random(7));
    let mut batch = Batch::new();
    let now = Stamp::from_unix_nanos(1_800_000_000_000_000_000);
    let records = if cfg!(debug_assertions) { 420_000 } else { 1_000_000 };
    for number in 0..records {
        let line = batch.line(&mut chain, &now, RecordType::TaskYield, Tid(1));
        line.str("call", "get_tid")
            .uint("number", number)
            .str("at", "crates/cli/examples/orders.rs:16")
            .end();
        if number % 10_000 == 9_999 {
            writer.commit(&mut batch, |_| ()).unwrap();
        }
    }
    writer.close().unwrap();
    let run = Uuid::from_random(7).to_string();
    let size = std::fs::metadata(home.log().join(format!("wal/{run}.wal"))).unwrap().len();
    // The program and its buffers; much less than the log.
    let kilobytes = 60_000;
    assert!(size > kilobytes * 1000, "the log is too short: {size}");
    for rest in ["--json", "--failed"] {
        let mut command = Command::new("sh");
        clean_env(&mut command);
        let shell = format!(
            "ulimit -v {kilobytes}; exec {} --dir orders log {run} {rest} | wc -l",
            tiffany().display()
        );
        command.current_dir(&home.0).args(["-c", &shell]);
        let ran = finish(command);
        assert_eq!(ran.stderr, "", "{rest}");
        let lines: u64 = ran.stdout.trim().parse().unwrap();
        let expected = match rest {
            "--json" => records,
            // The heading.
            _ => 1,
        };
        assert_eq!(lines, expected, "{rest}");
    }
}

#[test]
fn a_command_about_one_run_opens_no_other_run_s_file() {
    let home = Home::new();
    let mut writer = writer(&home);
    let now = Stamp::from_unix_nanos(1_800_000_000_000_000_000);
    let mut batch = Batch::new();
    let uuids = [7_u128, 8, 9].map(|number| Uuid::from_random(number << 120 | number));
    for uuid in uuids {
        let mut chain = Chain::new(uuid);
        let line = batch.line(&mut chain, &now, RecordType::RunStart, Tid(1));
        line.str("id", "r").str("function", "f").json("input", "1").end();
        batch.line(&mut chain, &now, RecordType::TaskExit, Tid(1)).json("value", "7").end();
        batch.finish(&chain);
    }
    writer.commit(&mut batch, |_| ()).unwrap();
    writer.close().unwrap();
    let opened = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&opened, home.log().join("wal"), inotify::WatchFlags::OPEN).unwrap();
    let name = uuids[0].to_string();
    let short = &name[..8];
    for arguments in [
        &["show", &name][..],
        &["show", short, "--json"],
        &["log", &name],
        &["log", &name, "--format", "json"],
        &["resume", "--dry-run", &name],
        &["diff", &name, short],
        // No process owns the directory.
        &["ls", "--active", &name],
    ] {
        let ran = kit::finish_within(home.command(&tiffany(), arguments), Duration::from_secs(20));
        let expected = if arguments[1] == "--active" { 4 } else { 0 };
        assert_eq!(ran.code, expected, "{arguments:?}: {ran:?}");
        let mut space = [const { MaybeUninit::uninit() }; 4096];
        let mut events = inotify::Reader::new(&opened, &mut space);
        while let Ok(event) = events.next() {
            // An event without a name means that the directory was listed.
            let file = event.file_name().map(|file| file.to_string_lossy().into_owned());
            assert_eq!(file, Some(format!("{name}.wal")), "{arguments:?} opened another file");
        }
    }
}
