//! The threat: a restore that costs a log. It is stopped at any operation, the disk is full, or the directory has
//! something that is not of a log. There must be the log that was there or the new one, or a directory that nobody
//! opens and that the next restore puts right; and what is not ours must stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backup_kit::{World, again, dest, read, restore, sweep, take};
use crate::wal_kit::{Act, Model, Play, small};
use tiffany::wal::backup::{self, BackupError, Over};
use tiffany::wal::sim::{Operation, SimDisk, Survivors};
use tiffany::wal::{Barrier, Disk, LogError, OpenMode, Writer};

const ENOSPC: i32 = 28;

/// A backup, and where it is to be restored.
struct Scene {
    disk: SimDisk,
    over: Over,
    /// The log that is in the way.
    old: Option<Model>,
    new: Model,
}

impl Scene {
    fn new(lie: Option<Barrier>, over: Over) -> Scene {
        let world = World::new(lie);
        take(&world.disk).unwrap();
        let disk = world.disk.clone();
        if over == Over::OldLog {
            let (mut writer, _) = Writer::open(Arc::new(disk.clone()), again(), small()).unwrap();
            let mut other = Play::new(disk.clone(), small());
            other.commit(&mut writer, &[Act::Lines(1, 1, 300), Act::Lines(9, 1, 4)]).unwrap();
            writer.close().unwrap();
        }
        Scene { old: read(&disk, again()).ok(), over, new: world.now().clone(), disk }
    }

    fn act(&self, disk: &SimDisk) -> Result<(), String> {
        restore(disk, self.over).map(drop).map_err(|error| error.to_string())
    }

    /// What must be there after it was stopped somewhere.
    fn look(&self, disk: &SimDisk, done: bool) -> Result<(), String> {
        let there = read(disk, again());
        let is_new = there.as_ref() == Ok(&self.new);
        let is_old = there.as_ref().ok() == self.old.as_ref();
        let opened = Writer::open(Arc::new(disk.copy()), again(), small());
        match &opened {
            Err(LogError::HalfRestored(_)) if !done => self.is_kept(&disk.copy())?,
            Ok((writer, _)) if is_new || (is_old && !done) => {
                let model = if is_new { Some(&self.new) } else { self.old.as_ref() };
                if writer.runs().count() != model.map_or(0, Model::len) {
                    return Err("it opens as another log".into());
                }
            }
            other => {
                return Err(format!(
                    "neither the one nor the other: {there:?}, {:?}",
                    other.as_ref().err()
                ));
            }
        }
        if !is_new {
            self.act(disk).map_err(|error| format!("once more: {error}"))?;
            if read(disk, again())? != self.new {
                return Err("once more, it is another".into());
            }
            if let Some(path) = beside(disk) {
                return Err(format!("once more, {path:?} is left"));
            }
        }
        backup::check(disk, dest()).map(drop).map_err(|error| error.to_string())
    }

    /// The log that was there is not lost: a restore that may not replace it brings it back.
    fn is_kept(&self, disk: &SimDisk) -> Result<(), String> {
        let Some(old) = &self.old else { return Ok(()) };
        match restore(disk, Over::Nothing) {
            Err(BackupError::NotEmpty { .. }) if read(disk, again()).as_ref() == Ok(old) => Ok(()),
            other => Err(format!("it does not come back: {other:?}")),
        }
    }

    fn sweep(&self) -> Result<usize, String> {
        let stopped = self.stop_at_the_end_of_the_mark()?;
        let all = sweep(&self.disk, |disk| self.act(disk), |disk, done| self.look(disk, done))?;
        Ok(stopped + all)
    }

    /// When the mark goes, in many ways: it must not be gone before the names are there.
    fn stop_at_the_end_of_the_mark(&self) -> Result<usize, String> {
        let mark = Operation::Remove(again().join("restoring"));
        let mut ends = self.operations().into_iter().filter(|(_, operation)| *operation == mark);
        let (at, _) = ends.next_back().ok_or("there was no mark")?;
        let seeds = 0..32;
        for seed in seeds.clone() {
            let disk = self.disk.copy();
            disk.crash_at(at + 1, 0);
            let done = self.act(&disk).is_ok();
            disk.crash(Survivors::Some(seed));
            self.look(&disk, done).map_err(|error| format!("the mark goes, {seed}: {error}"))?;
        }
        Ok(seeds.count())
    }

    /// The operations of a restore.
    fn operations(&self) -> Vec<(usize, Operation)> {
        let (copy, from) = (self.disk.copy(), self.disk.operation_count());
        self.act(&copy).unwrap();
        copy.operations().into_iter().enumerate().skip(from).collect()
    }
}

/// A file or a directory of a restore that is under way.
fn beside(disk: &SimDisk) -> Option<PathBuf> {
    let is_ours = |name: &str| name.ends_with("restoring") || name.ends_with(".replaced");
    let files = disk.list(again()).ok()?.into_iter().map(|(name, _)| name);
    let mut names = files.chain(disk.others(again()).unwrap());
    names.find(|name| is_ours(name)).map(|name| again().join(name))
}

#[test]
fn a_crash_at_any_operation_leaves_nothing_that_passes_for_a_log() {
    let crashes = Scene::new(None, Over::Nothing).sweep().unwrap();
    assert!(crashes > 100, "{crashes} crashes");
}

#[test]
fn a_crash_at_any_operation_leaves_the_log_that_was_there_or_the_new_one() {
    let crashes = Scene::new(None, Over::OldLog).sweep().unwrap();
    assert!(crashes > 100, "{crashes} crashes");
}

#[test]
fn a_restore_that_mends_another_can_be_stopped_too() {
    let mut scene = Scene::new(None, Over::OldLog);
    let names: Vec<usize> = scene
        .operations()
        .into_iter()
        .filter(|(_, operation)| matches!(operation, Operation::Rename(from, _) if from.parent() == Some(again())))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(names.len(), 4);
    // The old part is aside, and the new one not in its place.
    let whole = scene.disk.copy();
    for at in names.into_iter().skip(1).step_by(2) {
        scene.disk = whole.copy();
        scene.disk.crash_at(at, 0);
        scene.act(&scene.disk).unwrap_err();
        scene.disk.crash(Survivors::All);
        scene.sweep().unwrap_or_else(|error| panic!("after operation {at}: {error}"));
    }
}

#[test]
fn every_sync_that_is_left_out_is_noticed() {
    for barrier in [Barrier::Restoring, Barrier::Replaced, Barrier::Restored] {
        let mut both = [Over::Nothing, Over::OldLog].into_iter();
        let is_noticed = both.any(|over| Scene::new(Some(barrier), over).sweep().is_err());
        assert!(is_noticed, "{barrier:?} can be left out");
    }
}

#[test]
fn a_full_disk_at_any_operation_leaves_the_log_that_was_there() {
    let scene = Scene::new(None, Over::OldLog);
    let operations = scene.operations();
    let is_rename =
        |op: &Operation| matches!(op, Operation::Rename(from, _) if from.parent() == Some(again()));
    let last_name = operations.iter().rposition(|(_, operation)| is_rename(operation)).unwrap();
    for (number, (at, operation)) in operations.iter().enumerate() {
        let disk = scene.disk.copy();
        disk.fail(*at, ENOSPC);
        let error = scene.act(&disk).unwrap_err();
        assert!(error.contains("TFY0122"), "{operation:?}: {error}");
        disk.heal();
        let there = read(&disk, again()).unwrap();
        // Behind the names come their sync, the end of the mark and its sync; then the old log is removed.
        if number <= last_name + 3 {
            assert_eq!(Some(&there), scene.old.as_ref(), "{operation:?}: {error}");
            assert_eq!(beside(&disk), None, "{operation:?}: {error}");
        } else {
            assert_eq!(there, scene.new, "{operation:?}: {error}");
            assert!(error.contains("the restored log is in its place"), "{error}");
        }
        disk.crash(Survivors::Nothing);
        scene.look(&disk, false).unwrap();
    }
}

#[test]
fn a_disk_that_stays_full_costs_nothing_either() {
    let scene = Scene::new(None, Over::OldLog);
    let operations = scene.operations();
    for (at, operation) in &operations {
        let disk = scene.disk.copy();
        (*at..at + 2 * operations.len()).for_each(|at| disk.fail(at, ENOSPC));
        scene.act(&disk).unwrap_err();
        disk.heal();
        disk.crash(Survivors::All);
        scene.look(&disk, false).unwrap_or_else(|error| panic!("{at}, {operation:?}: {error}"));
    }
}

#[test]
fn what_is_not_of_a_log_is_neither_removed_nor_mixed_with_one() {
    let scene = Scene::new(None, Over::OldLog);
    let places =
        ["diary", "commit/diary", "wal/diary.wal", "wal/blobs/diary", "wal.replaced/diary"];
    for place in places {
        let disk = scene.disk.copy();
        let path = again().join(place);
        disk.create_dir(path.parent().unwrap()).unwrap();
        disk.open(&path, OpenMode::Create).unwrap();
        refuses(&disk, place);
    }
    for place in ["commit/album", "wal/album", "wal/blobs/album"] {
        let disk = scene.disk.copy();
        disk.create_dir(&again().join(place)).unwrap();
        refuses(&disk, place);
    }
    // A directory beside those of the log is in nobody's way.
    scene.disk.create_dir(&again().join("album")).unwrap();
    scene.act(&scene.disk).unwrap();
    assert_eq!(scene.disk.others(again()).unwrap(), ["album", "commit", "wal"]);
}

fn refuses(disk: &SimDisk, place: &str) {
    let before = disk.operation_count();
    match restore(disk, Over::OldLog) {
        Err(BackupError::NotEmpty { dir, found }) => assert_eq!((&*dir, &*found), (again(), place)),
        other => panic!("{place}: {other:?}"),
    }
    assert_eq!(disk.operation_count(), before, "{place}");
    assert!(disk.resolve(&again().join(Path::new(place))).is_ok());
}
