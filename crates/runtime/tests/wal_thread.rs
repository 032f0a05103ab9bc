//! The threat: the threads around the log. What is reported durable is durable, in order, whoever hands in and
//! however busy the disk is; a failure reaches everybody; nothing hangs at the end.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::wal_kit::{read_all, root, run_id, small};
use tiffany::wal::sim::{Part, SimDisk, Survivors};
use tiffany::wal::{
    Barrier, Batch, Chain, LogError, LogThread, Notice, RecordType, RunReader, Settings, Stamp,
    SyncWhen, Ticket, Writer,
};
use tiffany::{Tid, Uuid};

fn start(disk: &SimDisk, settings: Settings) -> (LogThread, Receiver<Notice>) {
    let (writer, _) = Writer::open(Arc::new(disk.clone()), root(), settings).unwrap();
    let (tell, told) = channel();
    (LogThread::start(writer, move |notice| drop(tell.send(notice))).unwrap(), told)
}

fn line(batch: &mut Batch, chain: &mut Chain, payload: usize) {
    let now = Stamp::from_unix_nanos(0);
    let value = format!("\"{}\"", "x".repeat(payload));
    batch.line(chain, &now, RecordType::Message, Tid(1)).json("value", &value).end();
}

fn wait_for(told: &Receiver<Notice>, ticket: Ticket) -> Result<(), LogError> {
    loop {
        match told.recv_timeout(Duration::from_secs(20)).expect("a notice in time") {
            Notice::Durable(durable) if durable >= ticket => return Ok(()),
            Notice::Durable(_) => {}
            Notice::Failed(error) => return Err(error),
        }
    }
}

/// How many lines each run has when the log is opened again.
fn reopened(disk: &SimDisk, settings: Settings) -> Vec<(Uuid, u64)> {
    let (writer, recovery) = Writer::open(Arc::new(disk.clone()), root(), settings).unwrap();
    assert!(recovery.refused.is_empty(), "{recovery:?}");
    read_all(disk, &writer).unwrap();
    let mut runs: Vec<_> = writer.runs().map(|(run, entry)| (run, entry.seq)).collect();
    runs.sort_unstable();
    runs
}

#[test]
fn several_threads_hand_in_and_all_of_it_is_there() {
    let disk = SimDisk::new();
    let (log, told) = start(&disk, small());
    let counts: Vec<u64> = (0..4).map(|run| 60 + run).collect();
    std::thread::scope(|scope| {
        for (run, count) in counts.iter().enumerate() {
            let log = &log;
            scope.spawn(move || {
                let mut chain = Chain::new(run_id(run as u128));
                let mut batch = Batch::with_blob_limit(200);
                for at in 0..*count {
                    line(&mut batch, &mut chain, if at % 9 == 0 { 300 } else { 5 });
                    log.submit(&mut batch);
                    assert!(batch.is_empty());
                }
            });
        }
    });
    let total = Ticket(counts.iter().sum());
    wait_for(&told, total).unwrap();
    disk.crash(Survivors::Nothing);
    drop(log);
    let mut expected: Vec<_> =
        counts.iter().enumerate().map(|(run, count)| (run_id(run as u128), *count)).collect();
    expected.sort_unstable();
    assert_eq!(reopened(&disk, small()), expected);
}

#[test]
fn a_power_cut_at_any_moment_leaves_at_least_what_was_reported() {
    for round in 0..60 {
        let disk = SimDisk::new();
        let (log, told) = start(&disk, small());
        let cut = disk.operations().len() + 3 + round * 2;
        disk.crash_at(cut, round * 37);
        let mut chains: Vec<Chain> = (0..3).map(|run| Chain::new(run_id(run))).collect();
        let mut batch = Batch::with_blob_limit(200);
        let mut handed = Vec::new();
        for at in 0..200 {
            let chain = &mut chains[at % 3];
            line(&mut batch, chain, if at % 7 == 0 { 250 } else { 5 });
            handed.push((log.submit(&mut batch), chain.run(), chain.seq()));
            std::thread::yield_now();
        }
        let mut durable = Ticket(0);
        loop {
            match told.recv_timeout(Duration::from_secs(20)).expect("a notice in time") {
                // All was committed before the cut.
                Notice::Durable(ticket) if ticket == Ticket(200) => break durable = ticket,
                Notice::Durable(ticket) => durable = ticket,
                Notice::Failed(error) => break assert_eq!(error.code(), "TFY0102", "{error}"),
            }
        }
        drop(log);
        disk.crash(Survivors::Some(round as u64));
        let there = reopened(&disk, small());
        for (ticket, run, seq) in handed {
            let found = there.iter().find(|(known, _)| *known == run).map_or(0, |(_, seq)| *seq);
            assert!(ticket > durable || seq <= found, "round {round}: line {seq} of {run} is lost");
        }
    }
}

#[test]
fn closing_leaves_nothing_to_mend() {
    let disk = SimDisk::new();
    let (log, _told) = start(&disk, small());
    let mut chain = Chain::new(run_id(1));
    let mut batch = Batch::new();
    for _ in 0..50 {
        line(&mut batch, &mut chain, 5);
        log.submit(&mut batch);
    }
    log.close().unwrap();
    disk.crash(Survivors::Nothing);
    let (writer, recovery) = Writer::open(Arc::new(disk.clone()), root(), small()).unwrap();
    assert!(recovery.is_clean(), "{recovery:?}");
    assert_eq!(writer.run(run_id(1)).unwrap().seq, 50);
}

#[test]
fn a_failure_of_the_commit_or_of_the_background_reaches_everybody() {
    let faults: [fn(&SimDisk); 4] = [
        |disk| disk.fail_barrier(Barrier::Block, 5),
        |disk| disk.fail_write(Part::RunFile, 28),
        |disk| disk.fail_barrier(Barrier::Index, 5),
        |disk| disk.fail_barrier(Barrier::Segment, 28),
    ];
    for (at, fault) in faults.into_iter().enumerate() {
        let disk = SimDisk::new();
        let (log, told) = start(&disk, small());
        fault(&disk);
        let mut chain = Chain::new(run_id(1));
        let mut batch = Batch::new();
        let mut failed = None;
        let mut reported = Ticket(0);
        let give_up = Instant::now() + Duration::from_secs(20);
        while failed.is_none() {
            assert!(Instant::now() < give_up, "fault {at} was never told");
            line(&mut batch, &mut chain, 5);
            log.submit(&mut batch);
            match told.recv_timeout(Duration::from_millis(50)) {
                Ok(Notice::Durable(ticket)) => reported = ticket,
                Ok(Notice::Failed(error)) => failed = Some(error),
                Err(_) => {}
            }
        }
        line(&mut batch, &mut chain, 5);
        log.submit(&mut batch);
        assert!(batch.is_empty() && log.backlog() == 0, "a stopped log collects nothing");
        assert_eq!(log.catch_up().unwrap_err().code(), "TFY0106", "fault {at}");
        let error = log.close().unwrap_err();
        assert_eq!(error.code(), failed.unwrap().code());
        disk.heal();
        disk.crash(Survivors::Nothing);
        let there = reopened(&disk, small());
        assert!(there.first().map_or(0, |(_, seq)| *seq) >= reported.0, "fault {at}");
    }
}

#[test]
fn with_an_interval_the_power_takes_back_only_what_was_not_synced() {
    let interval = Duration::from_millis(30);
    let settings = Settings { sync: SyncWhen::Interval(interval), ..small() };
    let disk = SimDisk::new();
    let (log, told) = start(&disk, settings.clone());
    let mut chain = Chain::new(run_id(1));
    let mut batch = Batch::new();
    for _ in 0..30 {
        line(&mut batch, &mut chain, 5);
        let ticket = log.submit(&mut batch);
        wait_for(&told, ticket).unwrap();
    }
    let give_up = Instant::now() + Duration::from_secs(20);
    loop {
        let copy = disk.copy();
        copy.crash(Survivors::Nothing);
        let there = reopened(&copy, settings.clone());
        let seq = there.first().map_or(0, |(_, seq)| *seq);
        if seq == 30 {
            break;
        }
        assert!(Instant::now() < give_up, "only {seq} lines were ever synced");
        std::thread::sleep(Duration::from_millis(5));
    }
    log.close().unwrap();
}

#[test]
fn without_syncs_the_end_of_the_process_loses_nothing_and_a_power_cut_leaves_beginnings() {
    for sync in [SyncWhen::Never, SyncWhen::Interval(Duration::from_secs(60))] {
        for seed in 0..40 {
            let settings = Settings { sync, ..small() };
            let disk = SimDisk::new();
            let (mut writer, _) =
                Writer::open(Arc::new(disk.clone()), root(), settings.clone()).unwrap();
            let mut chains: Vec<Chain> = (0..3).map(|run| Chain::new(run_id(run))).collect();
            for at in 0..23 {
                let mut batch = Batch::new();
                line(&mut batch, &mut chains[at % 3], 5);
                writer.commit(&mut batch, |_| {}).unwrap();
            }
            drop(writer);
            let killed = disk.copy();
            killed.crash(Survivors::All);
            let whole: u64 = reopened(&killed, settings.clone()).iter().map(|(_, seq)| seq).sum();
            assert_eq!(whole, 23);
            // Whatever is left of each run is a beginning of it: `reopened` has read every line.
            disk.crash(Survivors::Some(seed));
            reopened(&disk, settings);
        }
    }
}

/// Whether any file has this.
fn is_anywhere(disk: &SimDisk, secret: &str) -> bool {
    let has = |path: &std::path::PathBuf| {
        let bytes = disk.contents(path).unwrap_or_default();
        memchr::memmem::find(&bytes, secret.as_bytes()).is_some()
    };
    disk.paths().iter().any(has)
}

#[test]
fn what_a_removed_run_left_is_erased_while_others_commit() {
    for asks in [true, false] {
        let disk = SimDisk::new();
        let (log, told) = start(&disk, small());
        let mut batch = Batch::with_blob_limit(200);
        let (mut secretive, mut other) = (Chain::new(run_id(1)), Chain::new(run_id(2)));
        let now = Stamp::from_unix_nanos(0);
        let secret = "not-for-everybody";
        let value = format!("\"{}\"", secret.repeat(20));
        let record = batch.line(&mut secretive, &now, RecordType::Message, Tid(1));
        record.str("text", secret).json("value", &value).end();
        batch.finish(&secretive);
        log.submit(&mut batch);
        batch.remove(run_id(1));
        wait_for(&told, log.submit(&mut batch)).unwrap();
        log.catch_up().unwrap();
        let asked = asks.then(|| log.collect_blobs());
        let begun = Instant::now();
        let mut lines = 0;
        loop {
            line(&mut batch, &mut other, 5);
            wait_for(&told, log.submit(&mut batch)).unwrap();
            lines += 1;
            // Whenever the process is killed, nothing is missed in what was overwritten.
            let killed = disk.copy();
            killed.crash(Survivors::All);
            assert!(reopened(&killed, small()).contains(&(run_id(2), lines)));
            let is_erased = match asked {
                Some(number) => log.collected(number).is_some(),
                // Nobody has to ask.
                None => !is_anywhere(&disk, secret),
            };
            if is_erased {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "it is still there");
        }
        assert!(!is_anywhere(&disk, secret));
        if let Some(number) = asked {
            let collected = log.collected(number).unwrap().unwrap();
            assert!(collected.blobs == 1 && collected.segments > 0, "{collected:?}");
        }
        disk.crash(Survivors::Nothing);
        drop(log);
        assert!(reopened(&disk, small()).contains(&(run_id(2), lines)));
        // The power may have gone before the zeros were synced. Then that is known, and done again.
        let (writer, _) = Writer::open(Arc::new(disk.clone()), root(), small()).unwrap();
        let is_known = !asks && writer.unerased().any(|run| run == run_id(1));
        assert!(is_known || !is_anywhere(&disk, secret));
        writer.close().unwrap();
        assert!(!is_anywhere(&disk, secret));
    }
}

/// A run that begins anew again and again drops what it had, and nobody has to remove a run for that.
#[test]
fn blobs_of_generations_that_were_replaced_are_removed() {
    let disk = SimDisk::new();
    let (log, told) = start(&disk, Settings { garbage_bytes: 4_000, ..small() });
    let mut batch = Batch::with_blob_limit(200);
    let mut chain = Chain::new(run_id(1));
    let now = Stamp::from_unix_nanos(0);
    let begun = Instant::now();
    let blobs =
        || disk.paths().iter().filter(|path| path.starts_with(root().join("wal/blobs"))).count();
    for generation in 0_u32.. {
        let value = format!("\"{generation}{}\"", "x".repeat(500));
        batch.line(&mut chain, &now, RecordType::Message, Tid(1)).json("value", &value).end();
        batch.finish(&chain);
        wait_for(&told, log.submit(&mut batch)).unwrap();
        if generation > 100 && blobs() < 50 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{} blobs are there", blobs());
        chain = chain.next_generation();
    }
    log.catch_up().unwrap();
    drop(log);
    assert!(reopened(&disk, small()).contains(&(run_id(1), 1)), "the last one is there");
}

#[test]
fn an_erasure_ends_with_the_error_of_a_log_that_fails_meanwhile_or_has_failed() {
    let faults = [Barrier::Index, Barrier::Segment];
    for (at, barrier) in faults.into_iter().enumerate() {
        let disk = SimDisk::new();
        let (log, told) = start(&disk, small());
        let mut batch = Batch::new();
        let mut chain = Chain::new(run_id(1));
        line(&mut batch, &mut chain, 5);
        batch.finish(&chain);
        wait_for(&told, log.submit(&mut batch)).unwrap();
        log.catch_up().unwrap();
        // Before the removal, after which an erasure begins by itself.
        disk.fail_barrier(barrier, 5);
        batch.remove(run_id(1));
        drop(wait_for(&told, log.submit(&mut batch)));
        for when in ["meanwhile", "before"] {
            let number = log.collect_blobs();
            let give_up = Instant::now() + Duration::from_secs(20);
            let ended = loop {
                assert!(Instant::now() < give_up, "fault {at}, {when}: it does not end");
                match log.collected(number) {
                    Some(ended) => break ended,
                    None => std::thread::yield_now(),
                }
            };
            let error = ended.unwrap_err();
            assert!(error.to_string().contains("TFY0102"), "fault {at}, {when}: {error}");
        }
    }
}

#[test]
fn a_log_that_is_closed_right_after_a_removal_has_erased_its_lines() {
    let disk = SimDisk::new();
    let (log, _told) = start(&disk, small());
    let mut batch = Batch::new();
    let mut chain = Chain::new(run_id(1));
    let now = Stamp::from_unix_nanos(0);
    let record = batch.line(&mut chain, &now, RecordType::Message, Tid(1));
    record.str("text", "not-for-everybody").end();
    batch.finish(&chain);
    log.submit(&mut batch);
    batch.remove(run_id(1));
    log.submit(&mut batch);
    log.close().unwrap();
    assert!(!is_anywhere(&disk, "not-for-everybody"));
    let (writer, _) = Writer::open(Arc::new(disk.clone()), root(), small()).unwrap();
    assert_eq!(writer.unerased().count(), 0);
}

#[test]
fn whoever_catches_up_reads_what_it_has_handed_in_however_busy_others_are() {
    let disk = SimDisk::new();
    let (log, _told) = start(&disk, Settings::default());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (log, is_over, disk) = (&log, &is_over, &disk);
        for run in 1..4 {
            scope.spawn(move || {
                let mut chain = Chain::new(run_id(run));
                let mut batch = Batch::new();
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    line(&mut batch, &mut chain, 200);
                    log.submit(&mut batch);
                    std::thread::yield_now();
                }
            });
        }
        let mut chain = Chain::new(run_id(9));
        let mut batch = Batch::new();
        for count in 1..=200 {
            line(&mut batch, &mut chain, 10);
            log.submit(&mut batch);
            log.catch_up().unwrap();
            let mut reader = RunReader::open(disk, root(), run_id(9), None).unwrap();
            let mut read = 0;
            while let Some(record) = reader.next() {
                record.unwrap();
                read += 1;
            }
            if read != count {
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            assert_eq!(read, count, "lines in the file after catching up");
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    log.close().unwrap();
}
