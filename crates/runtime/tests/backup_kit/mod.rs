//! A log with a backup on a simulated disk, and acts that are stopped at every operation.

use std::path::Path;
use std::sync::Arc;

use tiffany::wal::backup::{self, BackupError, Over, Pace, Taken};
use tiffany::wal::sim::{Operation, SimDisk, Survivors};
use tiffany::wal::{Barrier, RunState, View, Writer};

use crate::wal_kit::{Act, Model, Modelled, Play, everything, root, small};

pub(crate) fn dest() -> &'static Path {
    Path::new("/copy")
}

pub(crate) fn again() -> &'static Path {
    Path::new("/again")
}

pub(crate) fn take(disk: &SimDisk) -> Result<Taken, BackupError> {
    backup::take(Arc::new(disk.clone()), root(), dest(), &mut Pace::full())
}

pub(crate) fn restore(disk: &SimDisk, over: Over) -> Result<backup::Restored, BackupError> {
    backup::restore(Arc::new(disk.clone()), dest(), again(), over)
}

/// All runs of a log, each line and each blob checked.
pub(crate) fn read(disk: &SimDisk, root: &Path) -> Result<Model, String> {
    let view = View::open(Arc::new(disk.clone()), root).map_err(|error| error.to_string())?;
    let mut model = Model::new();
    for (run, entry) in view.runs() {
        let mut file = Vec::new();
        if entry.state != RunState::Removed {
            let mut reader = view.reader(run).map_err(|error| error.to_string())?;
            while let Some(record) = reader.next() {
                let record = record.map_err(|error| error.to_string())?;
                file.extend_from_slice(record.json.as_bytes());
                file.push(b'\n');
                if let Some(tiffany::wal::Payload::Blob { hash, .. }) = record.payload("value") {
                    view.blob(hash).map_err(|error| error.to_string())?;
                }
            }
        }
        model.insert(run, Modelled { state: entry.state, generation: entry.generation, file });
    }
    Ok(model)
}

/// A log that has a backup, and went on since. The process that has it is still there.
pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) play: Play,
    pub(crate) writer: Writer,
    /// As it was when the backup was taken.
    pub(crate) before: Model,
}

impl World {
    pub(crate) fn new(lie: Option<Barrier>) -> World {
        let disk = SimDisk::new();
        if let Some(barrier) = lie {
            disk.ignore(barrier);
        }
        let mut play = Play::new(disk.clone(), small());
        let mut writer = play.play(&everything()).unwrap();
        take(&disk).unwrap();
        let before = play.models.last().unwrap().clone();
        let more = [
            vec![Act::Lines(1, 2, 300), Act::Generation(2), Act::Lines(2, 1, 4)],
            vec![Act::Remove(5), Act::Finish(6), Act::Lines(7, 3, 500)],
            vec![Act::Lines(1, 1, 4), Act::Lines(8, 1, 4)],
        ];
        for acts in &more {
            play.commit(&mut writer, acts).unwrap();
        }
        World { disk, play, writer, before }
    }

    pub(crate) fn now(&self) -> &Model {
        self.play.models.last().unwrap()
    }
}

/// Where to stop inside an operation.
pub(crate) fn tears(operation: &Operation) -> Vec<usize> {
    match operation {
        Operation::Write { len, .. } => vec![0, len / 2, *len],
        _ => vec![0],
    }
}

/// Stops an act at every operation it makes on a disk, in several ways, and looks at what is left.
pub(crate) fn sweep(
    disk: &SimDisk,
    act: impl Fn(&SimDisk) -> Result<(), String>,
    look: impl Fn(&SimDisk, bool) -> Result<(), String>,
) -> Result<usize, String> {
    let from = disk.operation_count();
    let undisturbed = disk.copy();
    act(&undisturbed).map_err(|error| format!("undisturbed: {error}"))?;
    let operations = undisturbed.operations();
    undisturbed.crash(Survivors::Nothing);
    look(&undisturbed, true).map_err(|error| format!("after a good end: {error}"))?;
    let mut crashes = 0;
    for (at, operation) in operations.iter().enumerate().skip(from) {
        for torn in tears(operation) {
            let seed = at as u64 * 31 + torn as u64;
            for survivors in [Survivors::Nothing, Survivors::All, Survivors::Some(seed)] {
                let disk = disk.copy();
                disk.crash_at(at, torn);
                let done = act(&disk).is_ok();
                disk.crash(survivors);
                crashes += 1;
                look(&disk, done).map_err(|error| {
                    format!("crash in operation {at} ({operation:?}) after {torn} bytes, {survivors:?}: {error}")
                })?;
            }
        }
    }
    Ok(crashes)
}
