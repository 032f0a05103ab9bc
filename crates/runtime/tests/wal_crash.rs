//! The threat: the process or the machine stops at any moment. Crashes before and inside every operation on
//! the disk, with nothing, all or some of the unsynced bytes left, then recovery, then more of the same.
//! And the test of the tests: every sync that is left out and every write that comes late is noticed.

use crate::wal_kit::{Act, Play, Step, everything, keeping, read_all, root, run_id, small};
use tiffany::Tid;
use tiffany::wal::sim::{Operation, Part, SimDisk, Survivors};
use tiffany::wal::{
    Barrier, Batch, Chain, Disk, LogError, RecordType, Recovery, RunState, Settings, Stamp,
    SyncWhen, Writer,
};

/// A way in which a disk can lie.
#[derive(Clone, Copy, Debug)]
enum Lie {
    Ignore(Barrier),
    Late(Part),
}

fn disk_with(lie: Option<Lie>) -> SimDisk {
    let disk = SimDisk::new();
    match lie {
        Some(Lie::Ignore(barrier)) => disk.ignore(barrier),
        Some(Lie::Late(part)) => disk.late(part),
        None => {}
    }
    disk
}

/// Where to crash inside an operation: at its beginning, and for writes also inside and after.
fn tears(operation: &Operation, stride: usize) -> Vec<usize> {
    let Operation::Write { len, .. } = operation else { return vec![0] };
    let ends = [0, 1, len / 2, len.saturating_sub(1), *len];
    let mut tears: Vec<usize> = (0..*len).step_by(stride).chain(ends).collect();
    tears.sort_unstable();
    tears.dedup();
    tears
}

/// One crash, the recovery after it, and a life after that.
fn crash_once(
    steps: &[Step],
    settings: &Settings,
    lie: Option<Lie>,
    (at, torn): (usize, usize),
    survivors: Survivors,
) -> Result<(), String> {
    let disk = disk_with(lie);
    disk.crash_at(at, torn);
    let mut play = Play::new(disk.clone(), settings.clone());
    let writer = play.play(steps);
    drop(writer);
    disk.crash(survivors);
    let (mut writer, recovery) = play.open().map_err(|error| format!("first opening: {error}"))?;
    let fits = play.check(&writer, &recovery)?;
    // What came back is the truth from here on, and must stay it.
    let after = play.models[fits].clone();
    let mut more = Play::resumed(disk.clone(), settings.clone(), &after, &writer);
    for _ in 0..3 {
        let known: Vec<Act> = more.live().into_iter().map(|run| Act::Lines(run, 1, 4)).collect();
        let acts = [known, vec![Act::Lines(77, 1, 4)]].concat();
        more.commit(&mut writer, &acts).map_err(|error| format!("going on: {error}"))?;
    }
    drop(writer);
    disk.crash(Survivors::Nothing);
    let (writer, recovery) = more.open().map_err(|error| format!("second opening: {error}"))?;
    more.check(&writer, &recovery).map_err(|error| format!("second time: {error}"))?;
    writer.close().map_err(|error| format!("closing: {error}"))?;
    let (writer, recovery) = more.open().map_err(|error| format!("third opening: {error}"))?;
    if !recovery.is_clean() {
        return Err(format!("not clean after a good end: {recovery:?}"));
    }
    more.check(&writer, &recovery).map(|_| ()).map_err(|error| format!("third time: {error}"))
}

/// Crashes everywhere. The first thing that is wrong is told, with what repeats it.
fn sweep(
    steps: &[Step],
    settings: &Settings,
    lie: Option<Lie>,
    stride: usize,
) -> Result<usize, String> {
    let disk = disk_with(lie);
    let mut play = Play::new(disk.clone(), settings.clone());
    let undisturbed = play.play(steps).map_err(|error| format!("undisturbed: {error}"));
    drop(undisturbed?);
    let operations = disk.operations();
    let mut crashes = 0;
    for (at, operation) in operations.iter().enumerate() {
        for torn in tears(operation, stride) {
            let seeds = [at as u64, at as u64 * 31 + torn as u64 + 1].map(Survivors::Some);
            for survivors in [Survivors::Nothing, Survivors::All, seeds[0], seeds[1]] {
                crashes += 1;
                crash_once(steps, settings, lie, (at, torn), survivors).map_err(|error| {
                    format!("crash in operation {at} ({operation:?}) after {torn} bytes, {survivors:?}: {error}")
                })?;
            }
        }
    }
    Ok(crashes)
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_durable() {
    let crashes = sweep(&everything(), &small(), None, 2048).unwrap();
    assert!(crashes > 1000, "{crashes} crashes");
}

#[test]
fn the_same_while_runs_are_compacted_and_removed_and_their_blobs_collected() {
    let crashes = sweep(&keeping(), &small(), None, 8192).unwrap();
    assert!(crashes > 300, "{crashes} crashes");
}

#[test]
fn the_same_of_these_when_all_files_are_synced_at_once() {
    let settings = Settings { single_syncs: 0, ..small() };
    sweep(&keeping(), &settings, None, 8192).unwrap();
}

#[test]
fn what_takes_the_place_of_a_file_is_durable_before_whatever_the_settings_say() {
    let settings = Settings { sync: SyncWhen::Never, ..small() };
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), settings.clone());
    let over = [Act::Lines(1, 3, 300), Act::Finish(1), Act::Lines(2, 3, 4), Act::Finish(2)];
    play.play(&[Step::Commit(over.to_vec()), Step::Reopen]).unwrap().close().unwrap();
    let model = play.models.last().unwrap().clone();
    let life = |disk: &SimDisk| {
        let writer = match Play::new(disk.clone(), settings.clone()).open() {
            Ok((writer, _)) => writer,
            Err(error) => return (Play::new(disk.clone(), settings.clone()), Err(error)),
        };
        let mut play = Play::resumed(disk.clone(), settings.clone(), &model, &writer);
        drop(writer);
        let acts = [vec![Act::Compact(1), Act::Remove(2)], vec![Act::Lines(3, 1, 4)]];
        let played = play.play(&acts.map(Step::Commit));
        (play, played.map(drop))
    };
    let calm = disk.copy();
    life(&calm).1.unwrap();
    for at in disk.operation_count()..calm.operation_count() {
        for survivors in [Survivors::Nothing, Survivors::All, Survivors::Some(at as u64)] {
            let disk = disk.copy();
            disk.crash_at(at, 50);
            let (play, _) = life(&disk);
            disk.crash(survivors);
            let (writer, recovery) = play.open().unwrap();
            let what = format!("operation {at}, {survivors:?}");
            assert!(recovery.refused.is_empty(), "{what}: {:?}", recovery.refused);
            let there = read_all(&disk, &writer).unwrap_or_else(|error| panic!("{what}: {error}"));
            for run in [1, 2].map(run_id) {
                let known = play.models.iter().chain([&model]).filter_map(|model| model.get(&run));
                let fits = known.into_iter().any(|known| *known == there[&run]);
                assert!(fits, "{what}: {run}");
            }
        }
    }
}

#[test]
fn the_same_when_all_files_are_synced_at_once() {
    let settings = Settings { single_syncs: 0, ..small() };
    sweep(&everything(), &settings, None, 4096).unwrap();
}

/// Crashes after every byte of every write of two commits.
fn crash_at_every_byte(survivors: impl Fn(usize) -> Survivors) {
    let steps = [
        Step::Commit(vec![Act::Lines(1, 1, 4), Act::Lines(2, 1, 210)]),
        Step::Commit(vec![Act::Lines(1, 2, 4)]),
    ];
    let settings = Settings { segment_bytes: 4096, ..small() };
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), settings.clone());
    drop(play.play(&steps).unwrap());
    for (at, operation) in disk.operations().iter().enumerate() {
        let Operation::Write { len, .. } = operation else { continue };
        // The blocks have about 900 bytes; behind that is padding.
        for torn in 0..=(*len).min(900) {
            let outcome = crash_once(&steps, &settings, None, (at, torn), survivors(torn));
            outcome.unwrap_or_else(|error| panic!("{operation:?} after {torn} bytes: {error}"));
        }
    }
}

#[test]
fn the_end_of_the_process_at_any_byte_loses_nothing_that_was_durable() {
    crash_at_every_byte(|_| Survivors::All);
}

#[test]
fn a_power_cut_at_any_byte_loses_nothing_that_was_durable() {
    crash_at_every_byte(|torn| Survivors::Some(torn as u64));
}

/// Which settings make a sync of this kind happen.
fn settings_for(barrier: Barrier) -> Settings {
    match barrier {
        Barrier::Everything => Settings { single_syncs: 0, ..small() },
        _ => small(),
    }
}

#[test]
fn every_sync_that_is_left_out_is_noticed() {
    for barrier in Barrier::ALL {
        let lie = Some(Lie::Ignore(*barrier));
        let outcome = sweep(&everything(), &settings_for(*barrier), lie, 4096);
        let noticed = outcome.expect_err(&format!("nothing noticed that {barrier:?} was left out"));
        println!("{barrier:?}: {noticed}");
    }
}

#[test]
fn every_write_that_comes_after_its_sync_is_noticed() {
    for part in Part::ALL {
        let outcome = sweep(&everything(), &small(), Some(Lie::Late(*part)), 4096);
        let noticed = outcome.expect_err(&format!("nothing noticed that {part:?} was late"));
        println!("{part:?}: {noticed}");
    }
}

/// A commit must not have to write the zeros of its segment: that is the other reason for syncing a new one.
#[test]
fn a_commit_syncs_no_more_than_its_block() {
    let flushed = |lie| {
        let disk = disk_with(lie);
        let mut play = Play::new(disk.clone(), small());
        drop(play.play(&everything()).unwrap());
        disk.most_flushed_by(Barrier::Block)
    };
    assert_eq!(flushed(None), 4096);
    assert!(flushed(Some(Lie::Ignore(Barrier::Segment))) > 4096);
}

/// What must not be left: in a line, and in a payload that is a blob.
const SECRETS: [&str; 2] = ["secret-in-a-line", "secret-in-a-blob"];

/// A run that has secrets and is finished, and a live one beside it.
struct Secretive {
    play: Play,
    chain: Chain,
}

impl Secretive {
    fn new(disk: SimDisk) -> Secretive {
        Secretive { play: Play::new(disk, small()), chain: Chain::new(run_id(50)) }
    }

    fn begin(&mut self) -> Result<Writer, LogError> {
        let mut writer = self.play.play(&[Step::Commit(vec![Act::Lines(1, 2, 300)])])?;
        let mut batch = Batch::with_blob_limit(small().blob_limit);
        let now = Stamp::from_unix_nanos(0);
        let line = batch.line(&mut self.chain, &now, RecordType::Message, Tid(1));
        line.str("text", SECRETS[0]).end();
        let large = format!("\"{}\"", SECRETS[1].repeat(20));
        let line = batch.line(&mut self.chain, &now, RecordType::Message, Tid(1));
        line.json("value", &large).end();
        batch.finish(&self.chain);
        writer.commit(&mut batch, |_| {})?;
        self.play.commit(&mut writer, &[Act::Lines(1, 1, 4)])?;
        writer.background()?;
        Ok(writer)
    }

    /// Removes the run, if it is there, and erases what it left.
    fn erase(&mut self, writer: &mut Writer) -> Result<(), LogError> {
        let run = self.chain.run();
        if writer.run(run).is_some_and(|entry| entry.state != RunState::Removed) {
            let mut batch = Batch::new();
            batch.remove(run);
            writer.commit(&mut batch, |_| {})?;
        }
        writer.collect_blobs().map(drop)
    }

    fn whole(&mut self) -> Result<(), LogError> {
        let mut writer = self.begin()?;
        self.erase(&mut writer)?;
        self.play.commit(&mut writer, &[Act::Lines(1, 1, 4)])
    }
}

/// The files that have a secret.
fn betrayed(disk: &SimDisk) -> Vec<std::path::PathBuf> {
    let has_one = |path: &std::path::PathBuf| {
        let bytes = disk.contents(path).unwrap_or_default();
        SECRETS.iter().any(|secret| memchr::memmem::find(&bytes, secret.as_bytes()).is_some())
    };
    disk.paths().into_iter().filter(has_one).collect()
}

/// Power goes at every operation while a run is removed and erased. Nothing of the other run is lost. What is left of
/// the removed one is known to be left, and the next erasure gets it.
fn erase_with_power_cuts(lie: Option<Barrier>) -> Result<usize, String> {
    let with_lie = || {
        let disk = SimDisk::new();
        lie.into_iter().for_each(|barrier| disk.ignore(barrier));
        disk
    };
    let disk = with_lie();
    Secretive::new(disk.clone()).whole().map_err(|error| format!("undisturbed: {error}"))?;
    let operations = disk.operation_count();
    for at in 0..operations {
        for survivors in [Survivors::Nothing, Survivors::All, Survivors::Some(at as u64)] {
            let what = |error: String| format!("crash in operation {at}, {survivors:?}: {error}");
            let disk = with_lie();
            disk.crash_at(at, 0);
            let mut secretive = Secretive::new(disk.clone());
            drop(secretive.whole());
            disk.crash(survivors);
            let opened = secretive.play.open().map_err(|error| what(error.to_string()))?;
            let (mut writer, recovery) = opened;
            let run = secretive.chain.run();
            let state = writer.run(run).map(|entry| entry.state);
            let is_known = writer.unerased().any(|unerased| unerased == run);
            if state == Some(RunState::Removed) && !is_known && !betrayed(&disk).is_empty() {
                return Err(what(format!("forgotten in {:?}", betrayed(&disk))));
            }
            secretive.erase(&mut writer).map_err(|error| what(error.to_string()))?;
            drop(writer);
            disk.crash(Survivors::Nothing);
            // Of a batch that never became durable there may be parts; that run was never there.
            if state.is_some() && !betrayed(&disk).is_empty() {
                return Err(what(format!("left in {:?}", betrayed(&disk))));
            }
            let (writer, _) = secretive.play.open().map_err(|error| what(error.to_string()))?;
            let others = read_all(&disk, &writer).map_err(what)?;
            let there = others.get(&run_id(1)).map_or(0, |one| one.file.len());
            let acked = &secretive.play.models[secretive.play.acked];
            let promised = acked.get(&run_id(1)).map_or(0, |one| one.file.len());
            if there < promised || !recovery.refused.is_empty() {
                return Err(what(format!("{there} of {promised} bytes of the other run")));
            }
        }
    }
    Ok(operations)
}

#[test]
fn a_removed_run_leaves_nothing_behind_whenever_the_power_goes() {
    let operations = erase_with_power_cuts(None).unwrap();
    assert!(operations > 40, "{operations} operations");
}

#[test]
fn zeros_that_are_not_synced_are_noticed() {
    let told = erase_with_power_cuts(Some(Barrier::Erased)).unwrap_err();
    assert!(told.contains("commit/"), "{told}");
}

/// A log whose only removed run was erased, after the power went.
fn erased(lie: Option<Barrier>) -> (SimDisk, Secretive) {
    let disk = SimDisk::new();
    lie.into_iter().for_each(|barrier| disk.ignore(barrier));
    let mut secretive = Secretive::new(disk.clone());
    let mut writer = secretive.begin().unwrap();
    secretive.erase(&mut writer).unwrap();
    writer.close().unwrap();
    disk.crash(Survivors::Nothing);
    (disk, secretive)
}

/// How a log comes back that lost the end of its index.
fn with_index_cut(disk: &SimDisk, len: usize) -> Result<(Writer, Recovery, SimDisk), LogError> {
    let (disk, index) = (disk.copy(), root().join("commit/index"));
    let bytes = disk.contents(&index).unwrap();
    disk.tamper(&index, bytes[..len].to_vec());
    let (writer, recovery) = Play::new(disk.clone(), small()).open()?;
    Ok((writer, recovery, disk))
}

#[test]
fn a_removed_run_stays_removed_whatever_the_index_loses() {
    let (disk, secretive) = erased(None);
    let run = secretive.chain.run();
    let whole = disk.contents(&root().join("commit/index")).unwrap().len();
    let mut mended = 0;
    for len in 0..=whole {
        let Ok((writer, recovery, disk)) = with_index_cut(&disk, len) else { continue };
        let state = writer.run(run).map(|entry| entry.state);
        assert_eq!(state, Some(RunState::Removed), "the index was cut at {len} of {whole}");
        assert!(len < whole || !recovery.torn_index);
        mended += usize::from(len < whole);
        writer.close().unwrap();
        // It is in the index again.
        assert!(Disk::remove(&disk, &root().join("commit/removed")).is_ok());
        let (writer, recovery) = Play::new(disk.clone(), small()).open().unwrap();
        assert_eq!(writer.run(run).map(|entry| entry.state), Some(RunState::Removed), "{len}");
        assert!(!recovery.torn_index, "{len}");
    }
    assert!(mended > 100, "only {mended} of {whole} cuts could be opened");
}

#[test]
fn a_damaged_list_of_removed_runs_is_written_again() {
    let (disk, secretive) = erased(None);
    let run = secretive.chain.run();
    let path = root().join("commit/removed");
    let list = disk.contents(&path).unwrap();
    let cut = (0..list.len()).map(|len| list[..len].to_vec());
    let flipped = (0..list.len()).map(|at| {
        let mut changed = list.clone();
        changed[at] ^= 1 << (at % 8);
        changed
    });
    let longer = [[&list[..], b"x"].concat()];
    for changed in cut.chain(flipped).chain(longer) {
        disk.tamper(&path, changed.clone());
        let (writer, _) = secretive.play.open().unwrap();
        assert_eq!(writer.run(run).map(|entry| entry.state), Some(RunState::Removed));
        writer.close().unwrap();
        assert_eq!(disk.contents(&path).unwrap(), list, "{changed:?}");
    }
    disk.tamper(&path, list);
    Disk::remove(&disk, &root().join("commit/index")).unwrap();
    for segment in disk.paths().iter().filter(|path| path.extension().is_some_and(|e| e == "seg")) {
        Disk::remove(&disk, segment).unwrap();
    }
    let error = secretive.play.open().map(drop).unwrap_err();
    assert_eq!(error.code(), "TFY0109", "a log without an index is not new if a run was removed");
}

#[test]
fn a_list_of_removed_runs_that_is_not_synced_is_noticed() {
    let forgets = |lie: Option<Barrier>| {
        let (disk, secretive) = erased(lie);
        let whole = disk.contents(&root().join("commit/index")).unwrap().len();
        let opened = (0..whole).filter_map(|len| with_index_cut(&disk, len).ok());
        let runs = opened.map(|(writer, ..)| writer.run(secretive.chain.run()));
        runs.into_iter().any(|entry| entry.is_none_or(|entry| entry.state != RunState::Removed))
    };
    assert!(!forgets(None));
    assert!(forgets(Some(Barrier::Removals)));
    assert!(forgets(Some(Barrier::RemovalsName)));
}
