//! The threat: a backup that is no backup. The process or the machine stops at any moment of taking or restoring one,
//! the disk is full, bytes change, the log goes on meanwhile. There must be the old backup or the new one, the log
//! must be as it was, and half of anything must not pass for the whole.

use std::path::Path;
use std::sync::Arc;

use crate::backup_kit::{World, again, dest, read, restore, sweep, take};
use crate::wal_kit::{Act, Play, Step, root, run_id, run_path, small};
use tiffany::wal::backup::{self, BackupError, Over, Pace};
use tiffany::wal::sim::{Operation, SimDisk, Survivors};
use tiffany::wal::{Barrier, Disk, LogError, OpenMode, View, Writer};

/// What must be there after a backup was stopped somewhere.
fn after_backup(world: &World, disk: &SimDisk, done: bool) -> Result<(), String> {
    if &read(disk, root())? != world.now() {
        return Err("the log is another".into());
    }
    backup::check(disk, dest()).map_err(|error| error.to_string())?;
    restore(disk, Over::Nothing).map_err(|error| error.to_string())?;
    let there = read(disk, again())?;
    if &there != world.now() && (done || there != world.before) {
        return Err("it is neither the old backup nor the new one".into());
    }
    take(disk).map_err(|error| format!("the next one: {error}"))?;
    restore(disk, Over::OldLog).map_err(|error| error.to_string())?;
    match &read(disk, again())? == world.now() {
        true => Ok(()),
        false => Err("the next one is another".into()),
    }
}

fn sweep_backup(lie: Option<Barrier>) -> Result<usize, String> {
    let world = World::new(lie);
    let act = |disk: &SimDisk| take(disk).map(drop).map_err(|error| error.to_string());
    sweep(&world.disk, act, |disk, done| after_backup(&world, disk, done))
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_backup_or_the_new_one() {
    let crashes = sweep_backup(None).unwrap();
    assert!(crashes > 100, "{crashes} crashes");
}

#[test]
fn a_first_backup_that_is_stopped_is_none() {
    let world = World::new(None);
    let disk = world.disk.copy();
    for path in disk.paths().iter().filter(|path| path.starts_with(dest())) {
        tiffany::wal::Disk::remove(&disk, path).unwrap();
    }
    disk.crash(Survivors::All);
    let act = |disk: &SimDisk| take(disk).map(drop).map_err(|error| error.to_string());
    let look = |disk: &SimDisk, done: bool| match backup::check(disk, dest()) {
        Err(BackupError::NoBackup(_)) if !done => {
            let no = restore(disk, Over::Nothing).map(drop);
            match no {
                Err(BackupError::NoBackup(_)) => {}
                other => return Err(format!("{other:?}")),
            }
            take(disk).map_err(|error| error.to_string())?;
            after_backup(&world, disk, true)
        }
        _ => after_backup(&world, disk, done),
    };
    sweep(&disk, act, look).unwrap();
}

#[test]
fn every_sync_that_is_left_out_is_noticed() {
    for barrier in Barrier::OF_BACKUP.iter().copied() {
        // Many files are needed for the one; the others are of restores.
        let is_elsewhere =
            [Barrier::CopiedAll, Barrier::Restoring, Barrier::Replaced, Barrier::Restored];
        if is_elsewhere.contains(&barrier) {
            continue;
        }
        let is_noticed = sweep_backup(Some(barrier)).is_err();
        assert!(is_noticed, "{barrier:?} can be left out");
    }
}

/// A log of so many runs that their copies are synced together.
fn many_runs(lie: Option<Barrier>) -> (SimDisk, Play, Writer) {
    let disk = SimDisk::new();
    if let Some(barrier) = lie {
        disk.ignore(barrier);
    }
    let mut play = Play::new(disk.clone(), small());
    let acts: Vec<Act> = (1..40).map(|run| Act::Lines(run, 1, 4)).collect();
    let writer = play.play(&[Step::Commit(acts)]).unwrap();
    (disk, play, writer)
}

#[test]
fn many_files_are_synced_together_and_that_is_needed() {
    for lie in [None, Some(Barrier::CopiedAll)] {
        let (disk, play, _writer) = many_runs(lie);
        take(&disk).unwrap();
        let syncs = |barrier| {
            disk.operations().iter().filter(|op| **op == Operation::Sync(barrier)).count()
        };
        assert_eq!((syncs(Barrier::Copied), syncs(Barrier::CopiedAll)), (0, 1));
        disk.crash(Survivors::Nothing);
        assert_eq!(backup::check(&disk, dest()).is_ok(), lie.is_none(), "{lie:?}");
        if lie.is_none() {
            restore(&disk, Over::Nothing).unwrap();
            assert_eq!(&read(&disk, again()).unwrap(), play.models.last().unwrap());
        }
    }
}

#[test]
fn a_second_backup_copies_only_what_is_new_and_forgets_what_is_gone() {
    let mut world = World::new(None);
    let first = take(&world.disk).unwrap();
    assert!(first.removed_files >= 3, "{first:?}: two generations, a run, and its blobs are gone");
    let second = take(&world.disk).unwrap();
    assert_eq!((second.copied_runs, second.copied_blobs, second.copied_bytes), (0, 0, 0));
    assert_eq!((second.runs, second.blobs), (first.runs, first.blobs));
    // The same payload as before: a blob is not copied twice.
    world.play.commit(&mut world.writer, &[Act::Lines(9, 1, 300)]).unwrap();
    let third = take(&world.disk).unwrap();
    let length = world.disk.contents(&run_path(run_id(9))).unwrap().len() as u64;
    assert_eq!((third.copied_runs, third.copied_bytes - third.copied_blobs * 302), (1, length));
    world.play.commit(&mut world.writer, &[Act::Lines(10, 1, 300)]).unwrap();
    assert_eq!(take(&world.disk).unwrap().copied_blobs, 0);
}

#[test]
fn what_is_replaced_and_removed_meanwhile_is_taken_as_it_is_then() {
    let mut world = World::new(None);
    // Everything is known to the index, so that no copy of it is held while it is looked at.
    world.writer.close().unwrap();
    world.writer = world.play.open().unwrap().0;
    let World { disk, play, writer, .. } = &mut world;
    let mut left = vec![
        vec![Act::Generation(8), Act::Lines(8, 1, 300)],
        vec![Act::Remove(7), Act::Lines(1, 1, 4)],
        vec![Act::Generation(1)],
    ];
    let mut meanwhile = |_, _| {
        if let Some(acts) = left.pop() {
            play.commit(writer, &acts).unwrap();
        }
    };
    let mut pace = Pace::full().watched_by(&mut meanwhile);
    let fresh = Path::new("/fresh");
    let taken = backup::take(Arc::new(disk.clone()), root(), fresh, &mut pace).unwrap();
    assert_eq!(taken.damaged, []);
    assert!(left.is_empty());
    backup::restore(Arc::new(disk.clone()), fresh, again(), Over::Nothing).unwrap();
    let there = read(disk, again()).unwrap();
    let last = play.models.len() - 1;
    let fits = (last - 3..=last).find(|at| play.models[*at] == there);
    assert!(fits.is_some_and(|at| at > last - 3), "no moment of the log is like it: {fits:?}");
}

#[test]
fn a_full_disk_stops_a_backup_and_a_restore_and_neither_counts() {
    const ENOSPC: i32 = 28;
    let world = World::new(None);
    let from = world.disk.operation_count();
    let sizes = {
        let copy = world.disk.copy();
        take(&copy).unwrap();
        let taken = copy.operation_count();
        restore(&copy, Over::Nothing).unwrap();
        (taken, copy.operation_count())
    };
    for at in from..sizes.0 {
        let disk = world.disk.copy();
        disk.fail(at, ENOSPC);
        let error = take(&disk).map(drop);
        match &error {
            Err(BackupError::Stopped { what: "backup", cause, .. }) => {
                assert!(cause.contains("the disk is full"), "{cause}");
            }
            other => panic!("operation {at}: {other:?}"),
        }
        disk.heal();
        disk.crash(Survivors::All);
        after_backup(&world, &disk, false).unwrap();
    }
    for at in sizes.0..sizes.1 {
        let disk = world.disk.copy();
        take(&disk).unwrap();
        disk.fail(at, ENOSPC);
        let stopped = restore(&disk, Over::Nothing);
        assert!(stopped.is_err(), "operation {at}");
        disk.heal();
        if read(&disk, again()).as_ref() != Ok(world.now()) {
            restore(&disk, Over::Nothing).unwrap();
        }
        assert_eq!(&read(&disk, again()).unwrap(), world.now(), "operation {at}");
    }
}

#[test]
fn a_changed_byte_of_a_backup_is_found_before_anything_is_restored() {
    let world = World::new(None);
    take(&world.disk).unwrap();
    let paths = world.disk.paths();
    let files: Vec<_> = paths.iter().filter(|path| path.starts_with(dest())).collect();
    assert!(files.len() > 5, "{files:?}");
    for path in files.into_iter().filter(|path| !path.ends_with("lock")) {
        let bytes = world.disk.contents(path).unwrap();
        for at in [0, bytes.len() / 2, bytes.len() - 1] {
            let disk = world.disk.copy();
            let mut other = bytes.clone();
            other[at] ^= 4;
            disk.tamper(path, other);
            let refused = restore(&disk, Over::Nothing);
            assert!(matches!(refused, Err(BackupError::Damaged { .. })), "{path:?}: {refused:?}");
            assert_eq!(disk.paths().iter().filter(|path| path.starts_with(again())).count(), 0);
        }
    }
}

#[test]
fn a_damaged_run_keeps_what_its_backup_has_and_stays_refused() {
    let mut world = World::new(None);
    let run = run_id(1);
    let good = world.disk.contents(&run_path(run)).unwrap();
    world.play.commit(&mut world.writer, &[Act::Lines(1, 3, 4)]).unwrap();
    let mut bad = world.disk.contents(&run_path(run)).unwrap();
    drop(world.writer);
    let at = good.len() + (bad.len() - good.len()) / 2;
    bad[at] ^= 4;
    let disk = world.disk.copy();
    disk.crash(Survivors::All);
    // The lines are in the index alone, so that the commit log cannot mend them.
    Writer::open(Arc::new(disk.clone()), root(), small()).unwrap().0.close().unwrap();
    disk.tamper(&run_path(run), bad);
    let taken = take(&disk).unwrap();
    assert_eq!(taken.damaged.len(), 1, "{taken:?}");
    assert!(taken.damaged[0].what.contains("TFY0107"), "{taken:?}");
    restore(&disk, Over::Nothing).unwrap();
    let view = View::open(Arc::new(disk.clone()), again()).unwrap();
    assert!(matches!(view.refused(run), Some(LogError::DamagedRun { .. })));
    assert_eq!(view.runs().count(), world.play.models.last().unwrap().len());
    let restored = disk.contents(&again().join(format!("wal/{run}.wal"))).unwrap();
    assert!(restored.starts_with(&good) && restored.len() < good.len() + 400);
}

#[test]
fn a_damaged_generation_does_not_take_the_place_of_the_one_that_the_backup_has() {
    let mut world = World::new(None);
    let run = run_id(1);
    take(&world.disk).unwrap();
    let good = world.disk.contents(&run_path(run)).unwrap();
    world.play.commit(&mut world.writer, &[Act::Generation(1), Act::Lines(1, 1, 4)]).unwrap();
    drop(world.writer);
    let disk = world.disk.copy();
    disk.crash(Survivors::All);
    // The lines are in the index alone, so that the commit log cannot mend them.
    Writer::open(Arc::new(disk.clone()), root(), small()).unwrap().0.close().unwrap();
    let mut bad = disk.contents(&run_path(run)).unwrap();
    bad[60] ^= 4;
    disk.tamper(&run_path(run), bad);
    let taken = take(&disk).unwrap();
    assert_eq!(taken.damaged.len(), 1, "{taken:?}");
    restore(&disk, Over::Nothing).unwrap();
    let restored = disk.contents(&again().join(format!("wal/{run}.wal"))).unwrap();
    assert_eq!(restored, good, "what the backup had is kept");
}

#[test]
fn what_is_in_the_way_is_not_written_over() {
    let world = World::new(None);
    let disk = &world.disk;
    let log = Arc::new(disk.clone());
    // A log that is in use, one that is not, and a backup of another log.
    let in_use = backup::restore(log.clone(), dest(), root(), Over::OldLog);
    assert!(matches!(in_use, Err(BackupError::Log(LogError::Locked { .. }))), "{in_use:?}");
    restore(disk, Over::Nothing).unwrap();
    let not_empty = restore(disk, Over::Nothing);
    assert!(matches!(not_empty, Err(BackupError::NotEmpty { .. })), "{not_empty:?}");
    restore(disk, Over::OldLog).unwrap();
    let onto_log = backup::take(log.clone(), root(), again(), &mut Pace::full());
    assert!(matches!(onto_log, Err(BackupError::NotEmpty { .. })), "{onto_log:?}");
    // The log itself, and what is inside of it.
    let onto_itself = backup::take(log.clone(), root(), root(), &mut Pace::full());
    assert!(matches!(onto_itself, Err(BackupError::NotEmpty { .. })), "{onto_itself:?}");
    for name in ["copy", "wal", "wal/copy", "commit"] {
        let before = disk.operation_count();
        let inside = backup::take(log.clone(), root(), &root().join(name), &mut Pace::full());
        assert!(matches!(inside, Err(BackupError::Inside { .. })), "{name}: {inside:?}");
        assert_eq!(inside.unwrap_err().code(), "TFY0090");
        assert_eq!(disk.operation_count(), before, "{name}");
    }
    let nothing = backup::restore(log, Path::new("/nowhere"), again(), Over::OldLog);
    assert!(matches!(nothing, Err(BackupError::NoBackup(_))), "{nothing:?}");
    assert_eq!(&read(disk, root()).unwrap(), world.now());
}

#[test]
fn every_error_has_its_code_a_next_step_and_a_section_in_the_book() {
    let path = || dest().to_path_buf();
    let errors = [
        BackupError::NoBackup(path()),
        BackupError::Damaged { path: path(), what: "line 3".into() },
        BackupError::OtherLog(path()),
        BackupError::NotEmpty { dir: path(), found: "diary".into() },
        BackupError::Restless(3),
        BackupError::Stopped { what: "backup", cause: "no room".into(), next: "make room" },
    ];
    let codes: Vec<&str> = errors.iter().map(BackupError::code).collect();
    assert_eq!(codes, BackupError::CODES);
    for error in &errors {
        let text = error.to_string();
        assert_eq!(text.matches(&format!(" [{}]; ", error.code())).count(), 1, "{text}");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/retention.md");
    let text = std::fs::read_to_string(page).unwrap();
    for code in codes {
        let section = text.split(&format!("\n### {code}\n")).nth(1).expect(code);
        let section = section.split("\n#").next().unwrap();
        for part in ["**What happened.** ", "**Why.** ", "**What to do.** "] {
            assert_eq!(section.matches(part).count(), 1, "{code} has no {part}");
        }
    }
}

#[test]
fn a_run_that_is_damaged_in_the_middle_is_refused_after_a_restore_too() {
    let world = World::new(None);
    let path = run_path(run_id(9));
    let mut play = Play::new(SimDisk::new(), small());
    drop(play.play(&[Step::Commit(vec![Act::Lines(9, 4, 4)])]).unwrap());
    let good = play.disk.contents(&path).unwrap();
    for line in 0..4 {
        let starts: usize = good.split_inclusive(|b| *b == b'\n').take(line).map(<[u8]>::len).sum();
        let mut changed = good.clone();
        changed[starts + 60] ^= 1;
        // A file that neither the index nor the commit log knows.
        let disk = world.disk.copy();
        let file = disk.open(&path, OpenMode::Create).unwrap();
        file.write_at(&changed, 0).unwrap();
        disk.crash(Survivors::All);
        let taken = take(&disk).unwrap();
        assert_eq!(taken.damaged.len(), 1, "line {line}: {:?}", taken.damaged);
        backup::check(&disk, dest()).unwrap();
        restore(&disk, Over::Nothing).unwrap();
        let (_writer, recovery) = Writer::open(Arc::new(disk), again(), small()).unwrap();
        let refused: Vec<_> = recovery.refused.iter().map(|(run, _)| *run).collect();
        assert_eq!(refused, [run_id(9)], "line {line}");
    }
}
