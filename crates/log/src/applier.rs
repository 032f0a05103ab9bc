//! The second half of the log: copies lines that are durable in the commit log to the files of
//! their runs, and syncs those files at checkpoints so that segments can be reused. It may lag
//! behind the first half; it then writes more lines at once.

use crate::blob_gc::Garbage;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::committer::Committed;
use super::disk::{Barrier, DirLock, Disk, DiskFile, OpenMode, empty, read_from};
use super::error::{Doing, LogError};
use super::growth::Followers;
use super::handles::Handles;
use super::index::{Frame, IndexFile, RunEntry, RunState};
use super::lock::LockTerm;
use super::removals::Removals;
use super::settings::Settings;
use crate::blob_gc::Collecting;

/// The directories of a log.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) root: PathBuf,
    pub(crate) commit: PathBuf,
    pub(crate) wal: PathBuf,
    pub(crate) blobs: PathBuf,
}

impl Places {
    pub(crate) fn new(root: &Path) -> Places {
        let wal = root.join("wal");
        let (commit, blobs) = (root.join("commit"), wal.join("blobs"));
        Places { root: root.to_path_buf(), commit, wal, blobs }
    }

    pub(crate) fn run_file(&self, run: Uuid) -> PathBuf {
        self.wal.join(format!("{run}.wal"))
    }

    /// Returns the path of the file that marks a restore in progress.
    pub(crate) fn restoring(&self) -> PathBuf {
        self.root.join("restoring")
    }
}

/// The files that the next checkpoint has to sync.
#[derive(Default)]
pub(crate) struct Touched {
    pub(crate) runs: Vec<Uuid>,
    pub(crate) run_names: bool,
    /// Open blobs. Beyond a small number, blobs are closed and only counted.
    pub(crate) blobs: Vec<Arc<dyn DiskFile>>,
    pub(crate) closed_blobs: usize,
    /// Whether blobs were removed since the last checkpoint, so that the names in their directory
    /// must be synced.
    pub(crate) blob_names: bool,
}

/// The state of a run in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    pub(crate) entry: RunEntry,
    /// Whether the run is listed in [`Touched`].
    pub(crate) touched: bool,
}

pub(crate) struct Applier {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) places: Places,
    pub(crate) settings: Settings,
    pub(crate) dir_lock: Arc<dyn DirLock>,
    pub(crate) term: LockTerm,
    pub(crate) runs: HashMap<Uuid, Applied>,
    /// Runs whose files differ from what the index says.
    pub(crate) refused: HashMap<Uuid, LogError>,
    pub(crate) index: IndexFile,
    pub(crate) index_entries: usize,
    pub(crate) removals: Removals,
    pub(crate) salt: u32,
    pub(crate) life: u64,
    /// The last block that is in the files, like all blocks before it.
    pub(crate) applied: u64,
    /// The contents of the last index frame: the last block it covers, the number of segments, and
    /// the block that must be present in them.
    pub(crate) covered: u64,
    pub(crate) segments: u32,
    pub(crate) expected: u64,
    pub(crate) handles: Arc<Handles>,
    pub(crate) touched: Touched,
    /// Runs that were removed or compacted and whose lines or blobs may not have been erased yet.
    pub(crate) unerased: BTreeSet<Uuid>,
    /// Whether any of these runs may have left blobs behind.
    pub(crate) leaves_blobs: bool,
    pub(crate) garbage: Garbage,
    /// The search for unreferenced blobs, while one is running.
    pub(crate) collecting: Option<Collecting>,
    /// The followers to notify when run files grow.
    pub(crate) followers: Arc<Followers>,
}

/// The lines that a sequence of batches holds for one run, in one generation of its file.
struct Share {
    run: Uuid,
    generation: u32,
    offset: u64,
    removed: bool,
    /// Whether it is the compacted generation of a run whose file has the finished one.
    compacts: bool,
}

/// Lines, with the index of the share that they belong to.
type Piece<'a> = (usize, &'a [u8]);

impl Applier {
    /// Writes batches to the files of their runs. Each run's lines are combined into one write,
    /// however many batches they come from, unless they are large.
    pub(crate) fn apply<'a>(
        &mut self,
        batches: impl Iterator<Item = &'a Committed> + Clone,
    ) -> Result<(), LogError> {
        let mut newest: HashMap<Uuid, usize> = HashMap::new();
        // Files are written in the order of their first lines, so that equal commits cause equal
        // operations.
        let mut shares: Vec<Share> = Vec::new();
        let mut pieces: Vec<Piece<'a>> = Vec::new();
        for Committed { batch, offsets, block } in batches {
            for (hash, content) in &batch.blobs {
                self.store_blob(&hash.to_string(), content)?;
            }
            let mut lines = batch.lines.as_slice();
            if let Some(collecting) = &mut self.collecting {
                collecting.note(lines);
            }
            for (part, offset) in batch.parts.iter().zip(offsets) {
                let (content, rest) = lines.split_at(part.len);
                lines = rest;
                let (run, generation, offset) = (part.run, part.generation, *offset);
                let mut entry = self.entry(run);
                let is_finished = entry.state == RunState::Finished;
                let compacts = is_finished && !newest.contains_key(&run);
                if is_finished {
                    // Only a compacted generation can follow the end of a finished run.
                    self.leaves_blobs |= newest.contains_key(&run);
                    self.note_unerased(run, &self.places.run_file(run));
                }
                self.garbage.is_possible |= entry.seq > 0 && entry.generation < generation;
                entry.take(part, offset);
                self.touch(run, entry);
                let known = newest.get(&run).filter(|at| shares[**at].generation == generation);
                let share = *known.unwrap_or(&shares.len());
                if share == shares.len() {
                    let removed = false;
                    shares.push(Share { run, generation, offset, removed, compacts });
                    newest.insert(run, share);
                }
                pieces.push((share, content));
            }
            for run in &batch.removed {
                let mut entry = self.entry(*run);
                self.leaves_blobs |= newest.contains_key(run);
                self.note_unerased(*run, &self.places.run_file(*run));
                entry.remove();
                self.touch(*run, entry);
                let share = *newest.entry(*run).or_insert(shares.len());
                if share == shares.len() {
                    let (run, removed, compacts) = (*run, true, false);
                    shares.push(Share { run, generation: 0, offset: 0, removed, compacts });
                }
                shares[share].removed = true;
            }
            self.applied = *block;
        }
        pieces.sort_by_key(|(share, _)| *share);
        let mut rest = pieces.as_slice();
        for (at, share) in shares.iter().enumerate() {
            let count = rest.iter().take_while(|(share, _)| *share == at).count();
            let (mine, others) = rest.split_at(count);
            rest = others;
            // A generation that a newer one in these batches replaces is not written: otherwise, a
            // run that calls `continue_as` in a tight loop would delay all others.
            if newest.get(&share.run) == Some(&at) {
                self.write_share(share, mine)?;
            }
        }
        self.followers.tell(shares.iter().map(|share| share.run));
        Ok(())
    }

    pub(crate) fn entry(&self, run: Uuid) -> RunEntry {
        self.runs.get(&run).map_or_else(|| RunEntry::unborn(run), |known| known.entry)
    }

    pub(crate) fn touch(&mut self, run: Uuid, entry: RunEntry) {
        let before = self.runs.get(&run).map(|known| known.entry.state);
        if entry.state == RunState::Removed && before != Some(RunState::Removed) {
            self.removals.note(run);
        }
        let known = self.runs.entry(run).or_insert(Applied { entry, touched: false });
        known.entry = entry;
        if !std::mem::replace(&mut known.touched, true) {
            self.touched.runs.push(run);
        }
    }

    fn write_share(&mut self, share: &Share, mut pieces: &[Piece<'_>]) -> Result<(), LogError> {
        let (run, mut at) = (share.run, share.offset);
        let path = self.places.run_file(run);
        if share.removed {
            self.handles.forget(run);
            self.refused.remove(&run);
            return self.remove_run(run);
        }
        let mut together = Vec::new();
        while !pieces.is_empty() {
            let (lines, count) = next_write(pieces, &mut together);
            pieces = &pieces[count..];
            if at == 0 {
                self.touched.run_names = true;
                let begun = begin_run_file(&*self.disk, &path, share.generation, lines);
                let file = match begun {
                    Err(LogError::Full { .. }) if share.compacts => {
                        self.overwrite(run, &path, lines)?
                    }
                    begun => begun?,
                };
                self.handles.put(run, file);
            } else {
                self.open_run(run, &path)?.write_at(lines, at).doing("write", &path)?;
            }
            at += lines.len() as u64;
        }
        Ok(())
    }

    /// Overwrites the old file of a finished run with its compacted generation, because the disk
    /// has no room for another file. The old file is longer, so this needs no space. If the write
    /// is interrupted, recovery takes the lines from the commit log.
    fn overwrite(
        &mut self,
        run: Uuid,
        path: &Path,
        lines: &[u8],
    ) -> Result<Arc<dyn DiskFile>, LogError> {
        let new = path.with_extension("wal.new");
        drop(self.disk.remove(&new));
        let file = self.open_run(run, path)?;
        file.write_at(lines, 0).doing("write", path)?;
        file.set_size(lines.len() as u64).doing("cut", path)?;
        Ok(file)
    }

    fn open_run(&mut self, run: Uuid, path: &Path) -> Result<Arc<dyn DiskFile>, LogError> {
        let disk = &self.disk;
        self.handles.get(run, || disk.open(path, OpenMode::Write).doing("open", path))
    }

    /// Removes the file of a run, and the lines that recovery may have set aside next to it.
    pub(crate) fn remove_run(&mut self, run: Uuid) -> Result<(), LogError> {
        let path = self.places.run_file(run);
        self.remove_file(&path)?;
        self.remove_file(&path.with_extension("wal.unplaced"))
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> Result<(), LogError> {
        self.touched.run_names = true;
        match self.disk.remove(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(LogError::io("remove", path, &error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn store_blob(&mut self, name: &str, content: &[u8]) -> Result<(), LogError> {
        let path = self.places.blobs.join(name);
        let file = self.disk.open(&path, OpenMode::Create).doing("make", &path)?;
        // Blobs are named by their content, so one that exists and is complete need not be written
        // again.
        let same_size = file.size().doing("look at", &path)? == content.len() as u64;
        if !same_size || read_from(&*file, 0).doing("read", &path)? != content {
            empty(&*file).doing("empty", &path)?;
            file.write_at(content, 0).doing("write", &path)?;
        }
        self.garbage.stored += content.len() as u64;
        self.touched.add_blob(file, self.settings.single_syncs);
        Ok(())
    }

    /// Makes the files durable and records that in the index. Returns the last block that is no
    /// longer needed in the commit log.
    pub(crate) fn checkpoint(&mut self, segments: u32) -> Result<u64, LogError> {
        let touched = std::mem::take(&mut self.touched);
        self.sync_files(&touched)?;
        let mut entries = Vec::with_capacity(touched.runs.len());
        for run in &touched.runs {
            let run = *run;
            let known = self.runs.get_mut(&run).expect("a touched run is known");
            known.touched = false;
            entries.push((run, known.entry));
        }
        let limit = 2 * self.runs.len() + self.settings.index_slack;
        let whole = self.index_entries + entries.len() > limit;
        if whole {
            entries = self.runs.iter().map(|(run, known)| (*run, known.entry)).collect();
        }
        entries.sort_unstable_by_key(|(run, _)| *run);
        self.removals.sync(&*self.disk)?;
        let upto = self.applied;
        (self.covered, self.segments) = (upto, segments);
        let frame = self.frame(&entries);
        if whole {
            self.index = IndexFile::replace(&*self.disk, &self.places.commit, &frame)?;
            self.index_entries = entries.len();
        } else {
            self.append(&frame)?;
            self.index_entries += entries.len();
        }
        Ok(upto)
    }

    fn frame(&self, entries: &[(Uuid, RunEntry)]) -> Vec<u8> {
        let Applier { covered: upto, life, salt, segments, expected, ref unerased, .. } = *self;
        Frame { upto, life, salt, segments, expected, entries, unerased }.encode()
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        // Writing to an index whose directory was removed would still succeed.
        self.disk.open(&self.index.path, OpenMode::Read).doing("open", &self.index.path)?;
        self.index.append(frame)
    }

    /// Records in the index that this block, which is durable, is in the segments; 0 means that
    /// they may be empty. Without this, a segment whose bytes were lost would look like an unused
    /// one.
    pub(crate) fn expect(&mut self, block: u64) -> Result<(), LogError> {
        if std::mem::replace(&mut self.expected, block) == block {
            return Ok(());
        }
        let frame = self.frame(&[]);
        self.append(&frame)
    }

    /// Records that nothing removed or compacted of these runs is left. The next checkpoint writes
    /// it to the index.
    pub(crate) fn note_erased(&mut self, runs: &BTreeSet<Uuid>) {
        for run in runs {
            if self.unerased.remove(run)
                && let Some(known) = self.runs.get(run)
            {
                self.touch(*run, known.entry);
            }
        }
    }

    fn sync_files(&mut self, touched: &Touched) -> Result<(), LogError> {
        let blobs = touched.blobs.len() + touched.closed_blobs;
        let few = touched.runs.len() + blobs <= self.settings.single_syncs;
        if few && !self.handles.take_were_closed() {
            self.sync_each(touched)?;
            // A write to a file that has been closed since may have failed without an error being
            // reported.
            if !self.handles.take_were_closed() {
                return Ok(());
            }
        }
        let synced = self.dir_lock.sync_everything(Barrier::Everything);
        synced.doing("sync all files of", &self.places.root)?;
        Ok(())
    }

    fn sync_each(&mut self, touched: &Touched) -> Result<(), LogError> {
        for run in &touched.runs {
            let is_gone = self.runs[run].entry.state == RunState::Removed;
            if !is_gone && !self.refused.contains_key(run) {
                let path = self.places.run_file(*run);
                self.open_run(*run, &path)?.sync(Barrier::RunFile).doing("sync", &path)?;
            }
        }
        for file in &touched.blobs {
            file.sync(Barrier::BlobFile).doing("sync a blob in", &self.places.blobs)?;
        }
        if touched.run_names {
            let wal = &self.places.wal;
            self.disk.sync_dir(wal, Barrier::RunNames).doing("sync", wal)?;
        }
        let blobs = touched.blobs.len() + touched.closed_blobs;
        if blobs > 0 || touched.blob_names {
            let dir = &self.places.blobs;
            self.disk.sync_dir(dir, Barrier::BlobNames).doing("sync", dir)?;
        }
        Ok(())
    }
}

/// Returns the bytes of the next write and the number of pieces in it: small pieces are combined, a
/// large one is written by itself.
fn next_write<'a>(pieces: &[Piece<'a>], together: &'a mut Vec<u8>) -> (&'a [u8], usize) {
    const LARGE: usize = 16 << 10;
    let count = pieces.iter().take_while(|(_, piece)| piece.len() < LARGE).count();
    if let 0 | 1 = count {
        return (pieces[0].1, 1);
    }
    together.clear();
    pieces[..count].iter().for_each(|(_, piece)| together.extend_from_slice(piece));
    (together, count)
}

/// Writes the first lines of a generation to the file of their run. A later generation replaces the
/// existing file atomically, so that readers never see a partial one.
pub(crate) fn begin_run_file(
    disk: &dyn Disk,
    path: &Path,
    generation: u32,
    lines: &[u8],
) -> Result<Arc<dyn DiskFile>, LogError> {
    if generation == 1 {
        let file = disk.open(path, OpenMode::Create).doing("make", path)?;
        empty(&*file).doing("empty", path)?;
        file.write_at(lines, 0).doing("write", path)?;
        return Ok(file);
    }
    let new = path.with_extension("wal.new");
    let file = disk.open(&new, OpenMode::Create).doing("make", &new)?;
    empty(&*file).doing("empty", &new)?;
    file.write_at(lines, 0).doing("write", &new)?;
    disk.rename(&new, path).doing("rename", &new)?;
    Ok(file)
}

impl Touched {
    pub(crate) fn add_blob(&mut self, file: Arc<dyn DiskFile>, keep: usize) {
        // Too many to be synced one by one, so they need not stay open.
        if self.blobs.len() < keep {
            self.blobs.push(file);
        } else {
            self.closed_blobs += 1;
        }
    }
}
