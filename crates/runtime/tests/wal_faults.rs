//! The threat: the disk is full, or fails. The first failure stops the log for good, everything after it says so
//! with the first cause, and opening it again on a healthy disk finds all that was durable. Signals that interrupt a
//! call, and a lack of descriptors that passes, are no failures.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::wal_kit::calls::{Made, Need};
use crate::wal_kit::{Act, Play, Step, everything, keeping, root, run_id, run_path, small};
use tiffany::wal::sim::{Operation, Part, SimDisk, Survivors};
use tiffany::wal::{Barrier, LogError, Settings};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EROFS: i32 = 30;
const EACCES: i32 = 13;
const EINTR: i32 = 4;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOLCK: i32 = 37;

/// After a failure: nothing works, and the first cause is named.
fn is_poisoned(play: &mut Play, mut writer: tiffany::wal::Writer, first: &LogError) {
    let acked = play.acked;
    let told = play.commit(&mut writer, &[Act::Lines(9, 1, 4)]).unwrap_err();
    assert_eq!(told.code(), "TFY0106");
    assert!(told.to_string().contains("earlier failure"), "{told}");
    assert!(told.to_string().contains(&first.to_string()), "{told} does not name {first}");
    assert_eq!(play.acked, acked, "a stopped log reported a commit");
    assert_eq!(writer.sync().unwrap_err().code(), "TFY0106");
    assert_eq!(writer.background().unwrap_err().code(), "TFY0106");
    assert_eq!(writer.close().unwrap_err().code(), "TFY0106");
    play.models.pop();
}

#[test]
fn every_operation_that_fails_stops_the_log_and_loses_nothing_durable() {
    let steps = everything();
    let settings = small();
    let disk = SimDisk::new();
    drop(Play::new(disk.clone(), settings.clone()).play(&steps).unwrap());
    for (at, operation) in disk.operations().iter().enumerate() {
        for errno in [ENOSPC, EIO] {
            let disk = SimDisk::new();
            disk.fail(at, errno);
            let mut play = Play::new(disk.clone(), settings.clone());
            let error = match play.play(&steps) {
                Err(error) => error,
                Ok(_) => panic!("{operation:?} failed, and nobody noticed"),
            };
            let expected = if errno == ENOSPC { "TFY0103" } else { "TFY0102" };
            assert_eq!(error.code(), expected, "{operation:?}: {error}");
            disk.heal();
            disk.crash(Survivors::Some(at as u64));
            let (writer, recovery) = play.open().unwrap();
            let found = play.check(&writer, &recovery);
            found
                .unwrap_or_else(|error| panic!("after {operation:?} failed with {errno}: {error}"));
        }
    }
}

#[test]
fn a_full_disk_while_runs_are_compacted_loses_nothing_and_stops_nothing_that_has_room() {
    let (steps, settings) = (keeping(), small());
    let disk = SimDisk::new();
    drop(Play::new(disk.clone(), settings.clone()).play(&steps).unwrap());
    let mut in_place = 0;
    for (at, operation) in disk.operations().iter().enumerate() {
        let disk = SimDisk::new();
        disk.fail(at, ENOSPC);
        let mut play = Play::new(disk.clone(), settings.clone());
        match play.play(&steps) {
            Err(error) => assert_eq!(error.code(), "TFY0103", "{operation:?}: {error}"),
            Ok(_) => {
                let new = |path: &std::path::Path| path.to_string_lossy().ends_with(".wal.new");
                let is_new_file = match operation {
                    Operation::Write { path, .. } => new(path),
                    Operation::Create(path) | Operation::Rename(path, _) => new(path),
                    _ => false,
                };
                assert!(is_new_file, "{operation:?} failed, and nobody noticed");
                in_place += 1;
            }
        }
        disk.heal();
        disk.crash(Survivors::Some(at as u64));
        let (writer, recovery) = play.open().unwrap();
        let found = play.check(&writer, &recovery);
        found.unwrap_or_else(|error| panic!("after {operation:?} failed: {error}"));
    }
    assert!(in_place >= 6, "{in_place} times the old file took what was left");
}

#[test]
fn a_crash_while_the_old_file_takes_what_is_left_loses_nothing() {
    let steps = [
        Step::Commit(vec![Act::Lines(1, 9, 150), Act::Finish(1)]),
        Step::Commit(vec![Act::Lines(2, 1, 4)]),
        Step::Commit(vec![Act::Compact(1)]),
    ];
    let disk = SimDisk::new();
    drop(Play::new(disk.clone(), small()).play(&steps).unwrap());
    let is_new = |operation: &Operation| match operation {
        Operation::Create(path) => path.to_string_lossy().ends_with(".wal.new"),
        _ => false,
    };
    let full = disk.operations().iter().position(is_new).expect("a new file");
    for at in full + 1..full + 4 {
        for torn in [0, 1, 100, 10_000] {
            for survivors in [Survivors::Nothing, Survivors::All, Survivors::Some(at as u64)] {
                let disk = SimDisk::new();
                disk.fail(full, ENOSPC);
                disk.crash_at(at, torn);
                let mut play = Play::new(disk.clone(), small());
                drop(play.play(&steps));
                disk.heal();
                disk.crash(survivors);
                let (writer, recovery) = play.open().unwrap();
                let what = format!("operation {at}, {torn} bytes, {survivors:?}");
                play.check(&writer, &recovery).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
    }
}

#[test]
fn a_full_disk_poisons_wherever_it_is_met() {
    for part in [Part::Segment, Part::RunFile, Part::Blob] {
        let disk = SimDisk::new();
        let mut play = Play::new(disk.clone(), small());
        let (mut writer, _) = play.open().unwrap();
        play.commit(&mut writer, &[Act::Lines(1, 1, 4)]).unwrap();
        disk.fail_write(part, ENOSPC);
        let first = play.commit(&mut writer, &[Act::Lines(1, 1, 300)]).unwrap_err();
        assert_eq!(first.code(), "TFY0103", "{part:?}");
        // In the run's file and the blob's it fails after the commit.
        assert_eq!(play.acked, if part == Part::Segment { 1 } else { 2 }, "{part:?}");
        disk.heal(); // no retry: it stays stopped
        is_poisoned(&mut play, writer, &first);
        let (writer, recovery) = play.open().unwrap();
        play.check(&writer, &recovery).unwrap();
    }
}

#[test]
fn a_failed_sync_poisons_in_the_background_too() {
    let background = [
        Barrier::RunFile,
        Barrier::RunNames,
        Barrier::BlobFile,
        Barrier::BlobNames,
        Barrier::Index,
        Barrier::Everything,
    ];
    for barrier in background {
        let disk = SimDisk::new();
        let single_syncs = if barrier == Barrier::Everything { 0 } else { 64 };
        let mut play = Play::new(
            disk.clone(),
            Settings { segments: 3, single_syncs, open_files: 64, index_slack: 999, ..small() },
        );
        let (mut writer, _) = play.open().unwrap();
        disk.fail_barrier(barrier, EIO);
        let first = loop {
            play.commit(&mut writer, &[Act::Lines(1, 1, 300), Act::Lines(2, 1, 4)]).unwrap();
            // At first it may only prepare a segment.
            if let Err(first) = writer.background() {
                break first;
            }
            assert!(play.acked < 50, "{barrier:?} never happened");
        };
        assert_eq!(first.code(), "TFY0102", "{barrier:?}: {first}");
        is_poisoned(&mut play, writer, &first);
        disk.heal();
        let (writer, recovery) = play.open().unwrap();
        play.check(&writer, &recovery).unwrap();
    }
}

#[test]
fn a_failed_sync_of_a_commit_reports_nothing_durable() {
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), small());
    let (mut writer, _) = play.open().unwrap();
    disk.fail_barrier(Barrier::Block, EIO);
    let first = play.commit(&mut writer, &[Act::Lines(1, 1, 4)]).unwrap_err();
    assert_eq!((first.code(), play.acked), ("TFY0102", 0));
    assert!(disk.operations().iter().all(|operation| {
        !matches!(operation, Operation::Write { path, .. } if path.extension().is_some_and(|e| e == "wal"))
    }), "lines went to a run's file before they were durable");
    disk.heal();
    is_poisoned(&mut play, writer, &first);
}

#[test]
fn a_directory_that_may_not_be_written_has_its_own_code() {
    for errno in [EROFS, EACCES] {
        let disk = SimDisk::new();
        disk.fail(0, errno);
        let error = Play::new(disk, small()).open().map(|_| ()).unwrap_err();
        assert_eq!(error.code(), "TFY0104", "{error}");
    }
}

/// Every call that is meant fails some times before it works, and the log continues as if nothing had happened.
fn goes_on(is_meant: fn(Need) -> bool, times: usize, errno: i32) {
    for steps in [everything(), keeping()] {
        let mut play = Play::new(SimDisk::new(), small());
        play.calls.fail_each(is_meant, times, errno);
        drop(play.play(&steps).unwrap());
        let made = play.calls.made();
        let meant = made.iter().filter(|made| is_meant(made.need)).count();
        assert!(meant > 100 * times, "{meant} of {} calls", made.len());
        play.calls.heal();
        play.disk.crash(Survivors::Nothing);
        let (writer, recovery) = play.open().unwrap();
        let found = play.check(&writer, &recovery).unwrap();
        assert_eq!(found, play.models.len() - 1, "not all that was handed in is there");
    }
}

#[test]
fn signals_that_interrupt_every_call_are_not_noticed() {
    for times in [1, 3] {
        goes_on(|_| true, times, EINTR);
    }
}

#[test]
fn a_lack_of_descriptors_that_passes_is_not_noticed() {
    for (errno, times) in [(EMFILE, 1), (ENFILE, 1), (EMFILE, 2)] {
        goes_on(|need| need != Need::Nothing, times, errno);
    }
}

/// Every call that the log makes fails once: the log says so, and has all that was
/// durable when it is opened again.
#[test]
fn any_call_that_fails_is_told_and_leaves_all_that_was_durable() {
    let errors = [(ENOLCK, "TFY0102"), (ENOSPC, "TFY0103")];
    let mut seen = BTreeSet::new();
    for steps in [everything(), keeping()] {
        let mut calm = Play::new(SimDisk::new(), small());
        drop(calm.play(&steps).unwrap());
        let made = calm.calls.made();
        for (at, call) in made.iter().enumerate() {
            seen.insert(call.what);
            for (errno, code) in errors {
                let mut play = Play::new(SimDisk::new(), small());
                play.calls.fail(at, errno);
                match play.play(&steps) {
                    Err(error) => assert_eq!(error.code(), code, "{call:?} {at}: {error}"),
                    Ok(_) => {
                        assert!(may_fail(&made[..=at], errno), "{call:?} {at} failed unnoticed");
                    }
                }
                play.disk.crash(Survivors::Some(at as u64));
                let (writer, recovery) = play.open().unwrap();
                let found = play.check(&writer, &recovery);
                found.unwrap_or_else(|error| panic!("after {call:?} {at} failed: {error}"));
            }
        }
    }
    let all = [
        "check",
        "create_dir",
        "list",
        "lock",
        "open_read",
        "open_write",
        "others",
        "random",
        "read_at",
        "remove",
        "rename",
        "size",
        "sync",
        "sync_dir",
        "sync_everything",
        "write_at",
    ];
    assert_eq!(seen, BTreeSet::from(all));
}

/// Whether the log can do without the last of these calls.
fn may_fail(made: &[Made], errno: i32) -> bool {
    let Some(call) = made.last() else { return false };
    // The file of a run that goes tells whether blobs have to be looked for. If it can't, they are looked for.
    let is_open = |made: &&Made| made.on == call.on && made.what.starts_with("open");
    let opened = made.iter().rev().find(is_open).map(|made| made.what);
    let is_hint = matches!(call.what, "open_read" | "read_at")
        && opened == Some("open_read")
        && call.on.ends_with(".wal");
    // What a restore may have left is looked for again when something is erased, and that is told if it fails.
    let is_leftover =
        call.what == "list" && (call.on.contains(".restoring") || call.on.contains(".replaced"));
    // What is left of a compacted run is written over its old file if there is no room for a new one.
    is_hint || is_leftover || (errno == ENOSPC && call.on.ends_with(".wal.new"))
}

/// Something that a crash or the disk did to a log with two runs in one block.
type Damage = fn(&SimDisk);

fn damages() -> [(&'static str, Damage); 2] {
    [
        // The block counts if the file of a run has its lines: then the other run's lines count, too, which are not in
        // its file. A file that can't be read just now says nothing of that.
        ("a damaged block", |disk| {
            let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
            for path in disk.paths().into_iter().filter(is_segment) {
                let mut bytes = disk.contents(&path).unwrap();
                if let Some(at) = bytes.windows(9).position(|bytes| bytes == b"\"task_id\"") {
                    bytes[at] ^= 1;
                    disk.tamper(&path, bytes);
                }
            }
            disk.tamper(&run_path(run_id(2)), Vec::new());
        }),
        ("torn files", |disk| {
            for path in [run_path(run_id(1)), root().join("commit/index")] {
                let bytes = disk.contents(&path).unwrap();
                disk.tamper(&path, [&bytes, &bytes[..20]].concat());
            }
        }),
    ]
}

/// Any call of an opening that has to mend the log fails: the next one mends all of it.
#[test]
fn a_call_that_fails_while_a_log_is_mended_costs_no_line() {
    let mut seen = BTreeSet::new();
    for (what, damage) in damages() {
        let disk = SimDisk::new();
        let mut play = Play::new(disk.clone(), small());
        let (mut writer, _) = play.open().unwrap();
        play.commit(&mut writer, &[Act::Lines(1, 3, 4), Act::Lines(2, 3, 4)]).unwrap();
        let expected = [1, 2].map(|run| writer.run(run_id(run)));
        drop(writer);
        disk.crash(Survivors::All);
        damage(&disk);
        let calm = Play::new(disk.copy(), small());
        drop(calm.open().unwrap());
        for (at, call) in calm.calls.made().iter().enumerate() {
            seen.insert(call.what);
            let play = Play::new(disk.copy(), small());
            play.calls.fail(at, EIO);
            drop(play.open());
            play.calls.heal();
            let (writer, _) = play.open().unwrap();
            let found = [1, 2].map(|run| writer.run(run_id(run)));
            assert_eq!(found, expected, "{what}, after {call:?} {at} failed");
        }
    }
    assert!(seen.contains("set_size"), "{seen:?}");
}

#[test]
fn a_lack_of_descriptors_that_stays_stops_the_log_and_says_what_to_do() {
    let settings = Settings { descriptor_timeout: std::time::Duration::from_millis(30), ..small() };
    let mut play = Play::new(SimDisk::new(), settings);
    let (mut writer, _) = play.open().unwrap();
    play.commit(&mut writer, &[Act::Lines(1, 1, 4)]).unwrap();
    assert_eq!(writer.open_files(), 1);
    play.calls.fail_each(|need| need == Need::Descriptor, usize::MAX, EMFILE);
    // A commit needs none, nor does a run whose file is open.
    play.commit(&mut writer, &[Act::Lines(1, 1, 4)]).unwrap();
    let first = play.commit(&mut writer, &[Act::Lines(2, 1, 4)]).unwrap_err();
    assert_eq!(first.code(), "TFY0201", "{first}");
    assert!(first.to_string().contains("`ulimit -n`"), "{first}");
    assert_eq!((play.acked, writer.open_files()), (3, 0));
    play.calls.heal();
    is_poisoned(&mut play, writer, &first);
    let (writer, recovery) = play.open().unwrap();
    play.check(&writer, &recovery).unwrap();
}

/// What is closed early may have failed unseen, so that it is synced with everything else.
#[test]
fn files_that_were_closed_for_their_descriptors_are_synced_all_the_same() {
    let settings = Settings { open_files: 64, single_syncs: 64, ..small() };
    let mut play = Play::new(SimDisk::new(), settings);
    let (mut writer, _) = play.open().unwrap();
    play.commit(&mut writer, &[Act::Lines(1, 1, 4)]).unwrap();
    play.calls.fail_each(|need| need == Need::Descriptor, 1, EMFILE);
    let together = |disk: &SimDisk| {
        let all = Operation::Sync(Barrier::Everything);
        disk.operations().iter().filter(|operation| **operation == all).count()
    };
    let before = together(&play.disk);
    play.commit(&mut writer, &[Act::Lines(2, 1, 4)]).unwrap();
    writer.close().unwrap();
    assert_eq!(together(&play.disk), before + 1);
    play.disk.crash(Survivors::Nothing);
    let (writer, recovery) = play.open().unwrap();
    assert!(recovery.is_clean(), "{recovery:?}");
    play.check(&writer, &recovery).unwrap();
}
