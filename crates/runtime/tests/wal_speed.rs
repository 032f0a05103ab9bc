//! How fast the log is, beside a bare loop on the same disk: lines formatted, records read, commits, openings. It
//! asserts nothing, because disks swing tenfold; it is for people:
//! `cargo test --release -p tiffany --test wal_speed -- --ignored --nocapture` (`WAL_DIR` says where).

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tiffany::wal::{
    Batch, Chain, LogThread, Notice, Reader, RealDisk, RecordType, Settings, Stamp, Ticket, Writer,
};
use tiffany::{Tid, Uuid};

fn small_line(batch: &mut Batch, chain: &mut Chain, now: &Stamp) {
    batch
        .line(chain, now, RecordType::TaskYield, Tid(3))
        .uint("call", 17)
        .str("kind", "sleep")
        .end();
}

fn rate(count: u64, since: Duration) -> f64 {
    count as f64 / since.as_secs_f64()
}

fn lines_and_records() {
    const LINES: u64 = 1_000_000;
    let now = Stamp::from_unix_nanos(1_762_335_660_123_456_789);
    let mut chain = Chain::new(Uuid::from_random(1));
    let mut batch = Batch::new();
    let start = Instant::now();
    for at in 0..LINES {
        small_line(&mut batch, &mut chain, &now);
        if at % 1000 == 999 {
            black_box(batch.text().len());
            batch.clear();
        }
    }
    let took = start.elapsed();
    println!(
        "line: {:.0} ns, {:.0} lines/s",
        took.as_nanos() as f64 / LINES as f64,
        rate(LINES, took)
    );
    let mut chain = Chain::new(Uuid::from_random(1));
    for _ in 0..LINES {
        small_line(&mut batch, &mut chain, &now);
    }
    let text = batch.text();
    let start = Instant::now();
    let mut sum = 0;
    for record in Reader::new(text.as_bytes(), None) {
        sum += record.expect("a good line").uint("call").unwrap_or(0);
    }
    let took = start.elapsed();
    let size = text.len() as f64 / LINES as f64;
    println!("read: {:.0} records/s of {size:.0} bytes ({})", rate(LINES, took), black_box(sum));
}

/// Bare appends to one file, each with its fdatasync.
fn raw(dir: &Path, bytes: usize, count: u64) -> f64 {
    let path = dir.join("raw");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a file");
    let data = vec![b'x'; bytes];
    let start = Instant::now();
    for _ in 0..count {
        file.write_all(&data).expect("a write");
        file.sync_data().expect("a sync");
    }
    let rate = rate(count, start.elapsed());
    std::fs::remove_file(path).expect("to remove it");
    rate
}

fn open(dir: &Path) -> (LogThread, mpsc::Receiver<Notice>) {
    let (writer, _) = Writer::open(Arc::new(RealDisk), dir, Settings::default()).expect("a log");
    let (tell, told) = mpsc::channel();
    let log = LogThread::start(writer, move |notice| drop(tell.send(notice))).expect("threads");
    (log, told)
}

fn wait_for(told: &mpsc::Receiver<Notice>, ticket: Ticket) {
    loop {
        match told.recv().expect("a notice") {
            Notice::Durable(durable) if durable >= ticket => return,
            Notice::Durable(_) => {}
            Notice::Failed(error) => panic!("{error}"),
        }
    }
}

/// One run, one step after the other: two lines each, each waiting for its commit.
fn sequential(dir: &Path, count: u64, run: u128) -> f64 {
    let (log, told) = open(dir);
    let now = Stamp::from_unix_nanos(0);
    let mut batch = Batch::new();
    let mut chain = Chain::new(Uuid::from_random(run));
    let start = Instant::now();
    for _ in 0..count {
        small_line(&mut batch, &mut chain, &now);
        small_line(&mut batch, &mut chain, &now);
        let ticket = log.submit(&mut batch);
        wait_for(&told, ticket);
    }
    let rate = rate(count, start.elapsed());
    log.close().expect("to close");
    rate
}

/// Many runs at once: each hands in its next step when its last one is durable.
fn concurrent(dir: &Path, runs: usize, steps: u64, payload: usize, salt: u128) -> f64 {
    let (log, told) = open(dir);
    let now = Stamp::from_unix_nanos(0);
    let mut batch = Batch::new();
    let mut chains: Vec<Chain> =
        (0..runs).map(|run| Chain::new(Uuid::from_random(salt + run as u128))).collect();
    let mut left = vec![steps; runs];
    let start = Instant::now();
    let mut waiting: Vec<(Ticket, Vec<usize>)> = Vec::new();
    let mut ready: Vec<usize> = (0..runs).collect();
    let mut value = vec![b'"'; payload.max(2)];
    while !ready.is_empty() || !waiting.is_empty() {
        if !ready.is_empty() {
            for run in &ready {
                let chain = &mut chains[*run];
                small_line(&mut batch, chain, &now);
                if payload > 0 {
                    let mark = format!("{:>12}{:>8}", run, left[*run]);
                    value[1..payload - 1].fill(b'x');
                    value[1..21].copy_from_slice(mark.as_bytes());
                    let json = std::str::from_utf8(&value).expect("text");
                    batch
                        .line(chain, &now, RecordType::EffectResult, Tid(1))
                        .json("value", json)
                        .end();
                } else {
                    small_line(&mut batch, chain, &now);
                }
            }
            waiting.push((log.submit(&mut batch), std::mem::take(&mut ready)));
        }
        let durable = match told.recv().expect("a notice") {
            Notice::Durable(durable) => durable,
            Notice::Failed(error) => panic!("{error}"),
        };
        for (_, runs) in waiting.extract_if(.., |(ticket, _)| *ticket <= durable) {
            for run in runs {
                left[run] -= 1;
                if left[run] > 0 {
                    ready.push(run);
                }
            }
        }
    }
    let rate = rate(runs as u64 * steps, start.elapsed());
    log.close().expect("to close");
    rate
}

fn opening(dir: &Path) {
    let (log, told) = open(dir);
    let now = Stamp::from_unix_nanos(0);
    let mut batch = Batch::new();
    let mut ticket = Ticket(0);
    for run in 0..11_000_u128 {
        let mut chain = Chain::new(Uuid::from_random(run << 20));
        for _ in 0..10 {
            small_line(&mut batch, &mut chain, &now);
        }
        if run < 10_000 {
            batch.finish(&chain);
        }
        if run % 100 == 99 {
            ticket = log.submit(&mut batch);
        }
    }
    wait_for(&told, ticket);
    drop(log); // as if killed: nothing is tidied up
    let start = Instant::now();
    let (writer, recovery) =
        Writer::open(Arc::new(RealDisk), dir, Settings::default()).expect("a log");
    let crashed = start.elapsed();
    let blocks = recovery.blocks;
    writer.close().expect("to close");
    let start = Instant::now();
    let (writer, recovery) =
        Writer::open(Arc::new(RealDisk), dir, Settings::default()).expect("a log");
    assert!(recovery.is_clean());
    println!(
        "open: {} runs in {:.1} ms after a kill ({blocks} blocks), {:.1} ms after a good end",
        writer.runs().count(),
        crashed.as_secs_f64() * 1e3,
        start.elapsed().as_secs_f64() * 1e3
    );
}

fn blobs(dir: &Path) {
    for (round, steps) in [5, 20, 20].into_iter().enumerate() {
        let rate = concurrent(&dir.join("w5"), 200, steps, 50_000, (7 + round as u128) << 50);
        let bare = raw(dir, 64 * 50_000, 3 * steps) * 64.0;
        println!(
            "50 kB x{steps}: {rate:.0} steps/s; raw 64-way {bare:.0}; ratio {:.2}",
            rate / bare
        );
    }
}

#[test]
#[ignore = "it measures; run it by hand"]
fn speed() {
    let base = std::env::var_os("WAL_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("wal-speed-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    lines_and_records();
    for round in 0..3_u128 {
        let steps = sequential(&dir.join("w1"), 1000, round << 32);
        let bare = raw(&dir, 400, 1000);
        println!("w1: {steps:.0} steps/s; raw {bare:.0}; ratio {:.2}", steps / bare);
    }
    for (runs, steps) in [(200, 20), (1000, 20), (200, 200)] {
        let salt = (runs as u128 + u128::from(steps)) << 40;
        let rate = concurrent(&dir.join("w2"), runs, steps, 0, salt);
        let bare = raw(&dir, 64 * 400, 200) * 64.0;
        let ratio = rate / bare;
        println!("w2 {runs}x{steps}: {rate:.0} steps/s; raw 64-way {bare:.0}; ratio {ratio:.2}");
    }
    blobs(&dir);
    opening(&dir.join("open"));
    std::fs::remove_dir_all(dir).expect("to clean up");
}
