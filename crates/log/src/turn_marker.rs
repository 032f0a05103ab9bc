//! A file next to the log that records a turn which takes too long. It exists as long as the turn
//! lasts, so the next process can tell which run made this one hang.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tiffany_kernel::Uuid;

use super::disk::{Disk, OpenMode, empty, read_from};
use super::error::{Doing, LogError};

pub(super) const NAME: &str = "turn.json";

/// A turn that has taken longer than allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongTurn {
    /// The run that has the turn.
    pub run: Uuid,
    /// The task that has the turn.
    pub tid: u64,
    /// The duration of the turn so far, in seconds.
    pub secs: u64,
}

#[derive(Serialize, Deserialize)]
struct Written {
    run: String,
    tid: u64,
    seconds: u64,
}

/// Records a turn that takes too long.
pub fn mark_turn(disk: &dyn Disk, root: &Path, turn: &LongTurn) -> Result<(), LogError> {
    let path = root.join(NAME);
    let LongTurn { run, tid, secs } = turn;
    let written = Written { run: run.to_string(), tid: *tid, seconds: *secs };
    let text = serde_json::to_vec(&written).expect("it is plain");
    let file = disk.open(&path, OpenMode::Create).doing("make", &path)?;
    empty(&*file).and_then(|()| file.write_at(&text, 0)).doing("write", &path)
}

/// Removes the record, because the turn has ended or its run is paused.
pub fn unmark_turn(disk: &dyn Disk, root: &Path) {
    if has_marker(disk, root) {
        drop(disk.remove(&root.join(NAME)));
    }
}

/// Returns the turn that the last process did not survive, if there was one. A record that can't be
/// read is removed: the process died while writing it.
pub fn marked_turn(disk: &dyn Disk, root: &Path) -> Option<LongTurn> {
    if !has_marker(disk, root) {
        return None;
    }
    let turn = read_turn(disk, root);
    if turn.is_none() {
        tracing::warn!(target: "tiffany", "{} can't be read and is removed", root.join(NAME).display());
        unmark_turn(disk, root);
    }
    turn
}

fn read_turn(disk: &dyn Disk, root: &Path) -> Option<LongTurn> {
    let file = disk.open(&root.join(NAME), OpenMode::Read).ok()?;
    let text = read_from(&*file, 0).ok()?;
    let Written { run, tid, seconds } = serde_json::from_slice(&text).ok()?;
    Some(LongTurn { run: Uuid::parse(&run)?, tid, secs: seconds })
}

fn has_marker(disk: &dyn Disk, root: &Path) -> bool {
    disk.list(root).unwrap_or_default().iter().any(|(name, _)| name == NAME)
}
