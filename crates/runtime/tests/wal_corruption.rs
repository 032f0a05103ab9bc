//! The threat: the medium gives back other bytes than were written. Every single byte of a run's file, of a
//! segment, of the index and of a blob is changed, and every file is cut at every byte: the log comes back whole, or
//! it says what is lost. It never panics and never lies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::wal_kit::{Act, Model, Play, Step, count_lines, root, run_id, run_path, small};
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::wal::{Disk, Flaw, LogError, RunReader, Settings, View, read_blob};

/// Three runs in four blocks, one of them with a blob; the process was killed and left all of it in the files.
fn killed(survivors: Survivors) -> (SimDisk, Play) {
    let disk = SimDisk::new();
    let settings = Settings { segment_bytes: 8 * 4096, ..small() };
    let mut play = Play::new(disk.clone(), settings);
    let steps = [
        Step::Commit(vec![Act::Lines(1, 2, 4)]),
        Step::Commit(vec![Act::Lines(2, 1, 4), Act::Lines(3, 1, 210)]),
        Step::Commit(vec![Act::Lines(1, 1, 4), Act::Lines(3, 1, 4)]),
        Step::Commit(vec![Act::Lines(2, 1, 4), Act::Lines(1, 1, 4)]),
    ];
    drop(play.play(&steps).unwrap());
    disk.crash(survivors);
    (disk, play)
}

/// Opens a log that somebody changed: all is there, or what is not there is told.
fn opens_or_tells(disk: &SimDisk, play: &Play, what: &str) -> Outcome {
    let disk = disk.copy();
    let again = Play::new(disk.clone(), play.settings.clone());
    let (writer, recovery) = match again.open() {
        Ok(opened) => opened,
        Err(error) => {
            let codes = ["TFY0107", "TFY0108", "TFY0109", "TFY0110"];
            assert!(codes.contains(&error.code()), "{what}: {error}");
            return Outcome::LogRefused;
        }
    };
    let last = play.models.last().unwrap();
    let mut outcome = Outcome::Whole;
    for (run, expected) in last {
        let refused = recovery.refused.iter().any(|(known, _)| known == run);
        let entry = writer.run(*run);
        let Some(entry) = entry else {
            assert!(
                recovery.torn_block.is_some() || refused,
                "{what}: run {run} is gone without a word"
            );
            outcome = outcome.max(Outcome::Torn);
            continue;
        };
        let mut reader = match RunReader::open(&disk, root(), *run, Some(entry)) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(refused, "{what}: {error}");
                outcome = outcome.max(Outcome::RunRefused);
                continue;
            }
        };
        let mut read = Vec::new();
        let mut told = refused;
        while let Some(record) = reader.next() {
            match record {
                Ok(record) => {
                    read.extend_from_slice(record.json.as_bytes());
                    read.push(b'\n');
                }
                Err(_) => told = true,
            }
        }
        assert!(
            expected.file.starts_with(&read),
            "{what}: run {run} has other lines than were written"
        );
        if told {
            outcome = outcome.max(Outcome::RunRefused);
        } else if read != expected.file {
            assert!(recovery.torn_block.is_some(), "{what}: run {run} is shorter without a word");
            outcome = outcome.max(Outcome::Torn);
        }
    }
    drop(writer);
    outcome
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// All that was durable is there.
    Whole,
    /// The last block counts as torn, and that is told.
    Torn,
    /// A run cannot go on, and that is told; the others can.
    RunRefused,
    /// The log cannot be opened.
    LogRefused,
}

fn flip_every_byte(disk: &SimDisk, play: &Play, path: &Path, limit: usize) -> Vec<Outcome> {
    let original = disk.contents(path).unwrap();
    // Of the padding, which nothing depends on, some bytes are enough.
    let places = (0..original.len().min(limit)).filter(|at| original[*at] != 0 || at % 16 == 0);
    let flips = places.map(|at| {
        let mut changed = original.clone();
        changed[at] ^= 1 << (at % 8);
        let disk = disk.copy();
        disk.tamper(path, changed);
        opens_or_tells(&disk, play, &format!("byte {at} of {} changed", path.display()))
    });
    flips.collect()
}

fn cut_at_every_byte(disk: &SimDisk, play: &Play, path: &Path) -> Vec<Outcome> {
    let original = disk.contents(path).unwrap();
    let step = if original.len() > 5000 { 97 } else { 1 };
    let cuts = (0..original.len()).step_by(step).map(|at| {
        let disk = disk.copy();
        disk.tamper(path, original[..at].to_vec());
        opens_or_tells(&disk, play, &format!("{} cut at {at}", path.display()))
    });
    cuts.collect()
}

fn segment() -> PathBuf {
    root().join(format!("commit/0000-{}.seg", 8 * 4096))
}

#[test]
fn a_changed_byte_in_a_segment_loses_nothing_while_the_run_files_are_there() {
    let (disk, play) = killed(Survivors::All);
    let outcomes = flip_every_byte(&disk, &play, &segment(), 4 * 4096);
    let worst = outcomes.iter().copied().filter(|o| *o != Outcome::LogRefused).max().unwrap();
    assert_eq!(worst, Outcome::Whole);
    // A header that cannot be read hides which runs it was about, and three blocks were known to be durable.
    let refused = outcomes.iter().filter(|o| **o == Outcome::LogRefused).count();
    assert!(refused > 0 && refused <= 3 * (64 + 3 * 72), "{refused}");
}

#[test]
fn a_changed_byte_in_a_segment_is_told_if_the_power_went() {
    let (disk, play) = killed(Survivors::Nothing);
    let outcomes = flip_every_byte(&disk, &play, &segment(), 4 * 4096);
    for wanted in [Outcome::Whole, Outcome::Torn, Outcome::RunRefused, Outcome::LogRefused] {
        assert!(outcomes.contains(&wanted), "{wanted:?} never happened");
    }
}

#[test]
fn a_segment_cut_anywhere_is_mended_or_told() {
    for survivors in [Survivors::All, Survivors::Nothing] {
        let (disk, play) = killed(survivors);
        cut_at_every_byte(&disk, &play, &segment());
    }
}

#[test]
fn a_changed_byte_in_a_run_file_that_the_commit_log_still_covers_is_mended() {
    let (disk, play) = killed(Survivors::All);
    let outcomes = flip_every_byte(&disk, &play, &run_path(run_id(1)), usize::MAX);
    assert_eq!(outcomes.into_iter().max(), Some(Outcome::Whole));
}

/// A log that was closed in good order: its segments count no more.
fn closed() -> (SimDisk, Play) {
    let (disk, play) = killed(Survivors::All);
    play.open().unwrap().0.close().unwrap();
    (disk, play)
}

#[test]
fn a_changed_byte_in_a_run_file_refuses_that_run_with_its_record_and_its_place() {
    let (disk, play) = closed();
    let path = run_path(run_id(1));
    let original = disk.contents(&path).unwrap();
    let starts: Vec<usize> = std::iter::once(0)
        .chain(original.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1))
        .collect();
    for at in 0..original.len() {
        let mut changed = original.clone();
        changed[at] ^= 1 << (at % 7);
        disk.tamper(&path, changed);
        let record = starts.iter().filter(|start| **start <= at).count();
        let (writer, recovery) = play.open().unwrap();
        assert!(recovery.refused.is_empty());
        let read = |run| {
            let mut reader = RunReader::open(&disk, root(), run, writer.run(run))?;
            while let Some(record) = reader.next() {
                record?;
            }
            Ok::<(), LogError>(())
        };
        read(run_id(2)).unwrap();
        match read(run_id(1)).unwrap_err() {
            LogError::DamagedRun { run, broken } => {
                assert_eq!(run, run_id(1));
                assert_eq!(broken.record, record as u64, "byte {at}");
                assert_eq!(broken.offset, starts[record - 1] as u64, "byte {at}");
            }
            LogError::Newer { version, .. } => assert!(version > 1, "byte {at}"),
            other => panic!("byte {at}: {other}"),
        }
        writer.close().unwrap();
    }
}

#[test]
fn a_run_file_cut_anywhere_is_refused_and_the_others_go_on() {
    let (disk, play) = closed();
    let path = run_path(run_id(1));
    let original = disk.contents(&path).unwrap();
    for at in 0..original.len() {
        let disk = disk.copy();
        disk.tamper(&path, original[..at].to_vec());
        let again = Play::new(disk.clone(), play.settings.clone());
        for _ in 0..2 {
            let (writer, recovery) = again.open().unwrap();
            let [(run, LogError::DamagedRun { broken, .. })] = &recovery.refused[..] else {
                panic!("cut at {at}: {recovery:?}");
            };
            assert_eq!((*run, broken.flaw), (run_id(1), Flaw::Missing));
            let whole = original[..at].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(broken.record, whole as u64 + 1, "cut at {at}");
            writer.close().unwrap();
        }
    }
}

#[test]
fn bytes_behind_the_committed_end_are_cut_off_and_that_is_told() {
    let (disk, play) = closed();
    let path = run_path(run_id(1));
    let original = disk.contents(&path).unwrap();
    for garbage in [&b"{"[..], b"{\"v\":1,\"seq\":5", b"\n", b"\0\0\0\0\0\n", b"{\"v\":9}\n"] {
        disk.tamper(&path, [&original[..], garbage].concat());
        let (writer, recovery) = play.open().unwrap();
        assert_eq!(recovery.cut.len(), 1, "{garbage:?}");
        assert_eq!(recovery.cut[0].to, original.len() as u64);
        assert_eq!(disk.contents(&path).unwrap(), original);
        writer.close().unwrap();
    }
}

#[test]
fn the_index_changed_or_cut_anywhere_is_mended_or_refused() {
    let index = root().join("commit/index");
    for (disk, play) in [killed(Survivors::All), killed(Survivors::Nothing), closed()] {
        flip_every_byte(&disk, &play, &index, usize::MAX);
        cut_at_every_byte(&disk, &play, &index);
    }
}

#[test]
fn a_vanished_index_or_segment_is_not_taken_for_a_new_log() {
    let (disk, play) = killed(Survivors::Nothing);
    let error_without = |path: &Path| {
        let disk = disk.copy();
        Disk::remove(&disk, path).unwrap();
        Play::new(disk, play.settings.clone()).open().map(|_| ()).unwrap_err()
    };
    assert_eq!(error_without(&root().join("commit/index")).code(), "TFY0109");
    assert_eq!(error_without(&segment()).code(), "TFY0108");
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let (disk, play) = closed();
    let path = run_path(run_id(1));
    let text = String::from_utf8(disk.contents(&path).unwrap()).unwrap();
    let first = text.lines().next().unwrap().replacen("{\"v\":1,", "{\"v\":3,", 1);
    let body = &first[..first.len() - 18];
    let seed =
        crc32c::crc32c_append(crc32c::crc32c(&run_id(1).0.to_be_bytes()), &1_u32.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, body.as_bytes());
    disk.tamper(&path, format!("{body},\"crc\":\"{crc:08x}\"}}\n").into_bytes());
    let (writer, _) = play.open().unwrap();
    let mut reader = RunReader::open(&disk, root(), run_id(1), writer.run(run_id(1))).unwrap();
    let error = reader.next().unwrap().unwrap_err();
    assert_eq!(error.code(), "TFY0110");
    assert!(error.to_string().contains("format version 3"), "{error}");
}

#[test]
fn a_blob_that_is_missing_or_changed_is_told() {
    let (disk, _) = closed();
    let blob =
        disk.paths().into_iter().find(|path| path.parent().unwrap().ends_with("blobs")).unwrap();
    let hash = tiffany::wal::BlobHash::parse(blob.file_name().unwrap().to_str().unwrap()).unwrap();
    let content = disk.contents(&blob).unwrap();
    assert_eq!(read_blob(&disk, root(), hash).unwrap(), content);
    let mut changed = content;
    changed[7] ^= 4;
    disk.tamper(&blob, changed);
    assert_eq!(read_blob(&disk, root(), hash).unwrap_err().code(), "TFY0112");
    Disk::remove(&disk, &blob).unwrap();
    assert_eq!(read_blob(&disk, root(), hash).unwrap_err().code(), "TFY0111");
}

#[test]
fn lines_lost_doubled_or_in_another_order_are_found() {
    let (disk, _) = closed();
    let bytes = disk.contents(&run_path(run_id(1))).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(count_lines(&bytes), Ok(4));
    for (at, other) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
        let mut swapped = lines.clone();
        swapped.swap(at, other);
        let broken = count_lines(&swapped.concat()).unwrap_err();
        assert_eq!(broken.record, at as u64 + 1);
        let mut lost = lines.clone();
        lost.remove(at);
        assert_eq!(count_lines(&lost.concat()).unwrap_err().record, at as u64 + 1);
        let mut doubled = lines.clone();
        doubled.insert(at + 1, lines[at]);
        assert_eq!(count_lines(&doubled.concat()).unwrap_err().record, at as u64 + 2);
    }
}

/// A run was removed and another checkpointed by an earlier process; the last one was killed. The disk after each of
/// its commits, with what the runs had then.
fn two_lives() -> Vec<(SimDisk, Model)> {
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), small());
    let first = [
        Step::Commit(vec![Act::Lines(1, 2, 4), Act::Lines(2, 1, 4)]),
        Step::Commit(vec![Act::Finish(2)]),
        Step::Commit(vec![Act::Remove(2), Act::Lines(1, 1, 4)]),
    ];
    play.play(&first).unwrap().close().unwrap();
    let (mut writer, _) = play.open().unwrap();
    let mut killed = Vec::new();
    for turn in 0..12_usize {
        let mut acts = vec![Act::Lines(3, 2, 4)];
        if turn % 3 == 1 {
            acts.push(Act::Lines(1, 1, 4));
        }
        play.commit(&mut writer, &acts).unwrap();
        writer.background().unwrap();
        let copy = disk.copy();
        copy.crash(Survivors::All);
        killed.push((copy, play.models.last().unwrap().clone()));
    }
    killed
}

type Damage = (&'static str, fn(&SimDisk));

fn segments_of(disk: &SimDisk) -> Vec<PathBuf> {
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg");
    disk.paths().into_iter().filter(is_segment).collect()
}

/// Changes the file of segment `at`, if there is one.
fn change_segment(disk: &SimDisk, at: usize, change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) {
    let Some(path) = segments_of(disk).get(at).cloned() else { return };
    match change(disk.contents(&path).unwrap()) {
        Some(bytes) => disk.tamper(&path, bytes),
        None => disk.remove(&path).unwrap(),
    }
}

fn zeroed(bytes: Vec<u8>) -> Option<Vec<u8>> {
    Some(vec![0; bytes.len()])
}

/// What can happen to `commit/`.
const COMMIT_DAMAGES: [Damage; 10] = [
    ("segment 0 zeroed", |disk| change_segment(disk, 0, zeroed)),
    ("segment 1 zeroed", |disk| change_segment(disk, 1, zeroed)),
    ("all segments zeroed", |disk| (0..2).for_each(|at| change_segment(disk, at, zeroed))),
    ("segment 0 removed", |disk| change_segment(disk, 0, |_| None)),
    ("segment 1 removed", |disk| change_segment(disk, 1, |_| None)),
    ("segment 0 cut", |disk| {
        change_segment(disk, 0, |bytes| Some(bytes[..bytes.len() / 2].to_vec()));
    }),
    ("the end of the index changed", |disk| {
        let index = root().join("commit/index");
        let mut bytes = disk.contents(&index).unwrap();
        *bytes.last_mut().unwrap() ^= 0x55;
        disk.tamper(&index, bytes);
    }),
    ("the index removed", |disk| disk.remove(&root().join("commit/index")).unwrap()),
    ("the list of removed runs removed", |disk| {
        disk.remove(&root().join("commit/removed")).unwrap();
    }),
    ("nothing of it", |_| {}),
];

fn cut_last_line(disk: &SimDisk, run: u128) {
    let path = run_path(run_id(run));
    let bytes = disk.contents(&path).unwrap();
    let end =
        bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    disk.tamper(&path, bytes[..end].to_vec());
}

/// What can happen to the files of runs.
const RUN_DAMAGES: [Damage; 5] = [
    ("run 1 cut by a line", |disk| cut_last_line(disk, 1)),
    ("run 3 cut by a line", |disk| cut_last_line(disk, 3)),
    ("run 1 removed", |disk| disk.remove(&run_path(run_id(1))).unwrap()),
    ("run 3 removed", |disk| disk.remove(&run_path(run_id(3))).unwrap()),
    ("no run", |_| {}),
];

#[test]
fn no_two_damages_shorten_a_run_without_a_word() {
    for (at, (disk, model)) in two_lives().iter().enumerate() {
        for (commit, damage_commit) in COMMIT_DAMAGES {
            for (run, damage_run) in RUN_DAMAGES {
                let disk = disk.copy();
                damage_commit(&disk);
                damage_run(&disk);
                is_whole_or_told(&disk, model, &format!("commit {at}: {commit}, {run}"));
            }
        }
    }
}

#[test]
fn run_files_that_have_more_than_the_commit_log_say_that_blocks_were_lost() {
    for (at, (disk, _)) in two_lives().iter().enumerate().take(3).skip(1) {
        change_segment(disk, 0, |mut bytes| {
            bytes[4096..].fill(0);
            Some(bytes)
        });
        cut_last_line(disk, 3);
        let view = View::open(Arc::new(disk.clone()), root()).unwrap();
        let codes: Vec<&str> = view.recovery().losses.iter().map(LogError::code).collect();
        assert_eq!(codes, ["TFY0252"], "commit {at}");
    }
}

#[test]
fn segments_of_a_log_that_was_closed_can_be_lost_without_harm() {
    let (disk, play) = closed();
    (0..2).for_each(|at| change_segment(&disk, at, zeroed));
    let (writer, recovery) = play.open().unwrap();
    assert!(recovery.is_clean(), "{recovery:?}");
    play.check(&writer, &recovery).unwrap();
}

/// Opens a damaged log: no run is shorter or back again unless that is told.
fn is_whole_or_told(disk: &SimDisk, model: &Model, what: &str) {
    let (writer, recovery) = match Play::new(disk.clone(), small()).open() {
        Ok(opened) => opened,
        Err(error) => {
            assert!(["TFY0108", "TFY0109"].contains(&error.code()), "{what}: {error}");
            return;
        }
    };
    if !recovery.losses.is_empty() {
        return;
    }
    for (run, expected) in model {
        let is_refused = recovery.refused.iter().any(|(known, _)| known == run);
        let Some(entry) = writer.run(*run) else {
            assert!(is_refused, "{what}: run {run} is gone without a word");
            continue;
        };
        assert_eq!(entry.state, expected.state, "{what}: run {run}");
        let is_shorter = entry.len < expected.file.len() as u64;
        assert!(!is_shorter || is_refused, "{what}: run {run} is shorter without a word");
    }
}
