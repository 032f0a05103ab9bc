//! The threat: a backup of a log that is being written has one run of a later moment than another. Real files, a thread
//! that commits without pause, and blocks that each have a line for every run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tiffany::wal::backup::{self, Over, Pace};
use tiffany::wal::{
    Batch, Chain, RealDisk, RecordType, RunState, Settings, Stamp, SyncWhen, View, Writer,
};
use tiffany::{Tid, Uuid};

const RUNS: u128 = 12;

/// A directory of this test, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("tiffany-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Commits until it is told to stop. Every block has its number in a line of every run; now and then a run begins
/// anew, and now and then one is removed and another one begins.
fn write(root: &Path, stop: &AtomicBool, durable: &AtomicU64) {
    let settings = Settings {
        segment_bytes: 1 << 18,
        sync: SyncWhen::Never,
        blob_limit: 300,
        ..Settings::default()
    };
    let (mut writer, _) = Writer::open(Arc::new(RealDisk), root, settings).unwrap();
    let uuid = |number: u128| Uuid::from_random(number << 64 | 7);
    let mut chains: Vec<Chain> = (0..RUNS).map(|number| Chain::new(uuid(number))).collect();
    let mut batch = Batch::with_blob_limit(300);
    let mut next = RUNS;
    for block in 1_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let now = Stamp::from_unix_nanos(block);
        let at = block as usize % chains.len();
        if block % 5 == 0 {
            chains[at] = chains[at].next_generation();
        }
        if block % 37 == 0 {
            batch.remove(chains[at].run());
            chains[at] = Chain::new(uuid(next));
            next += 1;
        }
        for chain in &mut chains {
            let line = batch.line(chain, &now, RecordType::Message, Tid(1));
            let text = if block % 3 == 0 { "x".repeat(310) } else { "y".into() };
            line.uint("block", block).json("value", &format!("\"{text}{block}\"")).end();
        }
        writer.commit(&mut batch, |_| durable.store(block, Ordering::SeqCst)).unwrap();
        writer.background().unwrap();
    }
}

/// The block that the last line of each run is of.
fn last_blocks(root: &Path) -> Vec<u64> {
    let view = View::open(Arc::new(RealDisk), root).unwrap();
    let there = view.runs().filter(|(_, entry)| entry.state != RunState::Removed);
    there
        .map(|(run, _)| {
            let (mut reader, mut last) = (view.reader(run).unwrap(), 0);
            while let Some(record) = reader.next() {
                last = record.unwrap().uint("block").unwrap();
            }
            last
        })
        .collect()
}

#[test]
fn all_runs_are_taken_at_one_moment_that_is_not_before_the_beginning() {
    let place = Place::new("backup-live");
    let (root, dest, again) = (place.0.join("log"), place.0.join("copy"), place.0.join("again"));
    let (stop, durable) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| write(&root, &stop, &durable));
        while durable.load(Ordering::SeqCst) < 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = Instant::now();
        let (mut backups, mut given_up) = (0, 0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while backups < 40 && begun.elapsed() < Duration::from_secs(10) {
                let before = durable.load(Ordering::SeqCst);
                match backup::take(Arc::new(RealDisk), &root, &dest, &mut Pace::full()) {
                    Ok(taken) => assert_eq!(taken.damaged, []),
                    // Runs are replaced without pause here, and two threads share little processor.
                    Err(backup::BackupError::Restless(_)) => {
                        given_up += 1;
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                }
                backups += 1;
                backup::restore(Arc::new(RealDisk), &dest, &again, Over::OldLog).unwrap();
                let blocks = last_blocks(&again);
                assert_eq!(blocks.len(), RUNS as usize, "backup {backups}");
                assert!(blocks.iter().all(|block| *block == blocks[0]), "{backups}: {blocks:?}");
                assert!(blocks[0] >= before, "{backups}: {} is before {before}", blocks[0]);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        println!(
            "{backups} backups, {given_up} given up, {} blocks",
            durable.load(Ordering::SeqCst)
        );
        outcome.unwrap();
        assert!(backups >= 5, "{backups} backups, {given_up} given up");
    });
}
