//! Opens a log: reads what a crash left behind, compares the files of the runs with it
//! (`reconcile.rs`), and syncs everything before the first new commit. Repeating or interrupting it
//! does no harm.

use crate::blob_gc::Garbage;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiffany_kernel::Uuid;

use super::applier::{Applied, Applier, Places, Touched};
use super::blob::BlobHash;
use super::block::{Part, PartKind};
use super::committer::Committer;
use super::disk::{Barrier, DirLock, Disk, Locking, OpenMode};
use super::error::{Doing, LogError};
use super::handles::Handles;
use super::index::{Frame, IndexFile, IndexState, RunEntry, RunState};
use super::leftovers::leftovers;
use super::lock::{LockTerm, describe, is_brief, is_orphaned, owner};
use super::reconcile::open_if_there;
use super::removals::{self, Removals};
use super::retry_disk::RetryDisk;
use super::scan::{Chained, Found, Scan, TornBlock, fill, filled};
use super::segments::{Segment, Segments};
use super::settings::Settings;
use super::writer::Writer;
use crate::descriptors;

/// How long to wait for a lock whose owner has ended.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for an owner that holds the lock for a single change.
const BRIEF_OWNER_TIMEOUT: Duration = Duration::from_secs(10);

/// Chooses runs to look at, given the UUIDs that the log knows. It may return others too.
pub(crate) type Choose<'a> = &'a dyn Fn(&mut dyn Iterator<Item = Uuid>) -> Vec<Uuid>;

/// The runs whose files are compared when a log is opened, besides those with lines in the commit
/// log.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    All,
    /// Only a few runs, for a reader that needs no others and writes nothing.
    Chosen(Choose<'a>),
}

/// The findings and repairs of opening a log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of blocks that were read from the commit log.
    pub blocks: usize,
    /// A block that was still being written. It had not been reported as durable, and was dropped.
    pub torn_block: Option<TornBlock>,
    /// The number of blocks after a gap. A power failure can cause one if commits are not synced at
    /// once.
    pub dropped_blocks: usize,
    /// Whether the index had an incomplete frame, or lacks frames that it once had.
    pub torn_index: bool,
    /// Runs whose files lacked lines that the commit log had.
    pub completed: Vec<Uuid>,
    /// Runs whose files ended in the middle of a line.
    pub cut: Vec<Cut>,
    /// Runs whose files have good lines that the commit log lacks, with the number of these lines,
    /// or are of a later generation. These files were kept.
    pub rescued: Vec<(Uuid, u64)>,
    /// Runs whose files were unknown to the index and the commit log. They were added to the log.
    pub adopted: Vec<Uuid>,
    /// Files in `wal/` that belong to no run. They were left alone.
    pub stray: Vec<String>,
    /// Runs that cannot be resumed, and the reasons.
    pub refused: Vec<(Uuid, LogError)>,
    /// Blobs that were committed and are missing.
    pub missing_blobs: Vec<BlobHash>,
    /// Damage that may have lost records, whole runs, or the list of removed ones, without a way to
    /// tell which runs are affected.
    pub losses: Vec<LogError>,
}

/// A file that was cut to its committed end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The run that the file belongs to.
    pub run: Uuid,
    /// Its length before, in bytes.
    pub from: u64,
    /// Its length now, in bytes.
    pub to: u64,
}

impl Recovery {
    /// Returns true if the log was as a clean shutdown leaves it.
    pub fn is_clean(&self) -> bool {
        self.blocks == 0
            && self.torn_block.is_none()
            && self.dropped_blocks == 0
            && !self.torn_index
            && self.cut.is_empty()
            && self.rescued.is_empty()
            && self.adopted.is_empty()
            && self.refused.is_empty()
            && self.missing_blobs.is_empty()
            && self.losses.is_empty()
    }
}

/// Takes the lock. Waits for an owner that holds it for a single change.
fn take(disk: &dyn Disk, lock: &Path, term: LockTerm) -> Result<Box<dyn DirLock>, LogError> {
    let began = Instant::now();
    loop {
        match disk.lock(lock, &owner(term)).doing("lock", lock)? {
            Locking::Ours(lock) => return Ok(lock),
            Locking::Theirs(note) if is_brief(&note) && began.elapsed() < BRIEF_OWNER_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            // A child that was just forked releases the lock as soon as it runs.
            Locking::Theirs(note) if is_orphaned(&note) && began.elapsed() < ORPHAN_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Locking::Theirs(note) => {
                let dir = lock.parent().unwrap_or(lock).into();
                return Err(LogError::Locked { dir, owner: describe(&note, lock) });
            }
        }
    }
}

/// The location of some lines of a run in the commit log.
pub(super) struct Piece {
    segment: usize,
    at: u64,
    part: Part,
    offset: u64,
    intact: bool,
}

/// The lines that the commit log has for a run.
pub(super) struct Plan {
    base: RunEntry,
    pub(super) entry: RunEntry,
    pieces: Vec<Piece>,
    /// The pieces of earlier generations.
    earlier: Vec<Piece>,
    /// The state of the run before the generation that begins here.
    pub(super) replaced: RunEntry,
}

impl Plan {
    /// Returns the offset in the file of the run where its lines begin.
    pub(super) fn start(&self) -> u64 {
        self.pieces[0].offset
    }

    /// Returns whether it contains the beginning of a later generation than the index knows.
    pub(super) fn begins_generation(&self) -> bool {
        self.base.generation < self.entry.generation
    }

    /// Returns the sequence number of its first line.
    pub(super) fn first_seq(&self) -> u64 {
        match self.pieces[0].part.kind {
            PartKind::Lines { first_seq, .. } => first_seq,
            PartKind::Blob(_) | PartKind::Remove(_) => 0,
        }
    }

    /// Returns whether the lines in the commit log don't begin where the index says that the run
    /// ends. This happens if the index lost its last frame.
    pub(super) fn starts_elsewhere(&self) -> bool {
        let start = self.start();
        start > 0 && (self.base.generation != self.entry.generation || self.base.len != start)
    }

    /// Reads the lines of earlier generations, with their offsets in their files. Damaged lines are
    /// included.
    pub(super) fn read_earlier(
        &self,
        segments: &[Segment],
    ) -> Result<Vec<(usize, Vec<u8>)>, LogError> {
        let read = |piece: &Piece| {
            let lines = read_part(&segments[piece.segment], piece.at, piece.part.len)?;
            Ok((piece.offset as usize, lines))
        };
        self.earlier.iter().map(read).collect()
    }

    pub(super) fn crc_before(&self) -> u32 {
        match self.pieces[0].part.kind {
            PartKind::Lines { crc_before, .. } => crc_before,
            PartKind::Blob(_) | PartKind::Remove(_) => 0,
        }
    }
}

impl Writer {
    /// Opens the log in a directory, and creates the directory if it does not exist; its parent
    /// must exist. Repairs what a crash left behind, and reports it.
    pub fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        settings: Settings,
    ) -> Result<(Writer, Recovery), LogError> {
        Writer::open_for(LockTerm::Lasting, disk, root, settings)
    }

    /// Opens the log like [`Writer::open`], and tells other processes how long this one keeps it.
    pub fn open_for(
        term: LockTerm,
        disk: Arc<dyn Disk>,
        root: &Path,
        settings: Settings,
    ) -> Result<(Writer, Recovery), LogError> {
        Writer::open_scope(term, Scope::All, disk, root, settings)
    }

    pub(crate) fn open_scope(
        term: LockTerm,
        scope: Scope<'_>,
        disk: Arc<dyn Disk>,
        root: &Path,
        mut settings: Settings,
    ) -> Result<(Writer, Recovery), LogError> {
        settings.open_files = settings.open_files.min(descriptors::limit() / 4).max(1);
        // A file that is synced individually must still be open, or a failed write to it could go
        // unnoticed.
        settings.single_syncs = settings.single_syncs.min(settings.open_files);
        let handles = Arc::new(Handles::new(settings.open_files));
        let (below, timeout) = (disk, settings.descriptor_timeout);
        let disk: Arc<dyn Disk> = Arc::new(RetryDisk::new(below, Arc::clone(&handles), timeout));
        let places = Places::new(root);
        disk.create_dir(root).doing("make", root)?;
        let lock = root.join("lock");
        let dir_lock: Arc<dyn DirLock> = take(&*disk, &lock, term)?.into();
        let (index, state) = load_or_make(&*disk, &places)?;
        let segments = Segment::open_all(&*disk, &places.commit, state.segments, state.upto + 1)?;
        let scan = Scan::new(&segments, state.salt, state.upto, state.life)?;
        scan.check_expected(state.expected)?;
        let life = scan.max_generation + 1;
        let chained = scan.chain(|found| proven(&*disk, &places, found))?;

        let IndexState { runs, unerased, upto, salt, torn, is_end_damaged, is_new, .. } = state;
        let (mut removals, listed) = Removals::load(&*disk, &places.commit, salt)?;
        removals.complete(&listed, removed_in(&runs));
        let unindexed = unindexed(&runs, &listed);
        let losses = removals.damage().into_iter().collect();
        let mut recovery = Recovery { torn_index: torn, losses, ..Recovery::default() };
        let last = upto + chained.blocks.len() as u64;
        let known = |entry| Applied { entry, touched: false };
        let has_leftovers = !leftovers(&*disk, &places.root).is_ok_and(|there| there.is_empty());
        let mut applier = Applier {
            disk: Arc::clone(&disk),
            places,
            settings: settings.clone(),
            dir_lock,
            term,
            runs: runs.into_iter().map(|(run, entry)| (run, known(entry))).collect(),
            refused: HashMap::new(),
            index,
            index_entries: state.entries,
            removals,
            salt,
            life,
            applied: last,
            covered: upto,
            segments: state.segments,
            expected: 0,
            handles,
            touched: Touched::default(),
            // The blobs that these runs referenced are not known any more.
            leaves_blobs: !unerased.is_empty() || has_leftovers,
            garbage: Garbage::default(),
            unerased,
            collecting: None,
            followers: Arc::default(),
        };
        let lacks_removed = applier.add_removed(unindexed, &chained);
        recovery.torn_index |= lacks_removed;
        applier.mend(&segments, chained, scope, &mut recovery)?;
        applier.tell_losses(is_new, &mut recovery);
        if is_end_damaged || lacks_removed {
            let (path, offset) = (applier.index.path.clone(), applier.index.len);
            recovery.losses.push(LogError::DamagedEnd { path, offset });
        }
        let mut committer = Committer {
            disk,
            dir: applier.places.commit.clone(),
            dir_lock: Arc::clone(&applier.dir_lock),
            lock,
            segments: Segments::new(segments, life, settings.segment_bytes),
            settings,
            runs: applier.runs.iter().map(|(run, known)| (*run, known.entry)).collect(),
            refused: applier.refused.clone(),
            salt,
            written: last,
            synced: last,
            block: Vec::new(),
            observer: None,
        };
        applier.begin_life(&mut committer)?;
        Ok((Writer::new(committer, applier), recovery))
    }
}

impl Applier {
    /// Starts a new life of the log: after this, no blocks of earlier ones are needed.
    fn begin_life(&mut self, committer: &mut Committer) -> Result<(), LogError> {
        let index = &self.index;
        if index.file.size().doing("look at", &index.path)? > index.len {
            index.file.set_size(index.len).doing("cut", &index.path)?;
        }
        if committer.segments.count() == 0 {
            committer.add_segment()?;
        }
        let upto = self.checkpoint(committer.segments.count() as u32)?;
        committer.segments.release(upto)
    }

    /// Reports damage whose extent is unknown. A line is written to its run file after its block is
    /// durable, so files that have more than the commit log show that blocks were lost, and these
    /// may have been about any run.
    fn tell_losses(&self, is_new: bool, recovery: &mut Recovery) {
        let Places { root, commit, .. } = &self.places;
        let runs = recovery.rescued.len() + recovery.adopted.len();
        if is_new && runs + recovery.refused.len() > 0 {
            recovery.losses.push(LogError::NoCommitLog(root.clone()));
        } else if runs > 0 {
            recovery.losses.push(LogError::LostBlocks { commit: commit.clone(), runs });
        }
    }

    /// Adds removed runs that the index doesn't list as such. Returns `true` if the commit log
    /// lacks one of the removals, which means that the index has lost it.
    fn add_removed(&mut self, mut runs: BTreeSet<Uuid>, chained: &Chained) -> bool {
        for run in &runs {
            let mut entry = self.entry(*run);
            entry.remove();
            self.touch(*run, entry);
            self.note_unread_unerased(*run);
        }
        for part in chained.blocks.iter().flat_map(|found| &found.block.parts) {
            if let PartKind::Remove(run) = part.kind {
                runs.remove(&run);
            }
        }
        !runs.is_empty()
    }

    fn mend(
        &mut self,
        segments: &[Segment],
        chained: Chained,
        scope: Scope<'_>,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        recovery.blocks = chained.blocks.len();
        recovery.torn_block = chained.torn;
        recovery.dropped_blocks = chained.dropped;
        let mut plans = BTreeMap::new();
        for found in &chained.blocks {
            self.plan(segments, found, &mut plans, recovery)?;
        }
        let (sizes, mut others) = self.files_in(scope)?;
        for (run, plan) in &plans {
            self.touch(*run, plan.entry);
            self.complete(segments, *run, plan, recovery)?;
        }
        others.retain(|run| !plans.contains_key(run));
        others.sort_unstable();
        for run in others {
            self.check_size(run, sizes.get(&format!("{run}.wal")).copied(), recovery)?;
        }
        self.take_in_the_rest(sizes, recovery)
    }

    /// Returns the files to compare, with their sizes, and the known runs among them.
    fn files_in(&self, scope: Scope<'_>) -> Result<(HashMap<String, u64>, Vec<Uuid>), LogError> {
        let wal = &self.places.wal;
        let Scope::Chosen(choose) = scope else {
            let sizes = self.disk.list(wal).doing("list", wal)?.into_iter().collect();
            return Ok((sizes, self.runs.keys().copied().collect()));
        };
        let chosen = choose(&mut self.runs.keys().copied());
        let mut sizes = HashMap::new();
        for run in &chosen {
            let path = self.places.run_file(*run);
            if let Ok(file) = self.disk.open(&path, OpenMode::Read) {
                sizes.insert(format!("{run}.wal"), file.size().doing("look at", &path)?);
            }
        }
        Ok((sizes, chosen.into_iter().filter(|run| self.runs.contains_key(run)).collect()))
    }

    pub(super) fn refuse(&mut self, run: Uuid, error: LogError, recovery: &mut Recovery) {
        recovery.refused.push((run, error.clone()));
        self.refused.insert(run, error);
    }

    /// Groups the parts of a block by run, and stores its blobs.
    fn plan(
        &mut self,
        segments: &[Segment],
        found: &Found,
        plans: &mut BTreeMap<Uuid, Plan>,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let mut at = found.content_at;
        for (part, intact) in found.block.parts.iter().zip(&found.intact) {
            let place = (found.segment, at);
            at += part.len as u64;
            match &part.kind {
                PartKind::Blob(hash) => {
                    let content = read_part(&segments[place.0], place.1, part.len)?;
                    self.mend_blob(*hash, &content, recovery)?;
                }
                PartKind::Remove(run) => {
                    self.note_unread_unerased(*run);
                    let plan = plans.entry(*run).or_insert_with(|| self.plan_for(*run));
                    plan.pieces.clear();
                    plan.entry.remove();
                }
                PartKind::Lines {
                    run, generation, offset, last_seq, crc_after, finishes, ..
                } => {
                    if self.is_removed(*run) {
                        self.note_unread_unerased(*run);
                        continue;
                    }
                    let plan = plans.entry(*run).or_insert_with(|| self.plan_for(*run));
                    if *offset == 0 {
                        plan.replaced = plan.entry;
                        plan.earlier.append(&mut plan.pieces);
                    }
                    if plan.entry.state == RunState::Finished {
                        self.note_unread_unerased(*run);
                    }
                    plan.entry = RunEntry {
                        state: if *finishes { RunState::Finished } else { RunState::Live },
                        generation: *generation,
                        len: offset + part.len as u64,
                        seq: *last_seq,
                        crc: *crc_after,
                    };
                    plan.pieces.push(Piece {
                        segment: place.0,
                        at: place.1,
                        part: part.clone(),
                        offset: *offset,
                        intact: *intact,
                    });
                }
            }
        }
        Ok(())
    }

    /// Notes that a run was removed or compacted whose file may be gone already.
    pub(super) fn note_unread_unerased(&mut self, run: Uuid) {
        self.unerased.insert(run);
        self.leaves_blobs = true;
    }

    fn plan_for(&self, run: Uuid) -> Plan {
        let known = self.runs.get(&run).map(|known| known.entry);
        let entry = known.unwrap_or_else(|| RunEntry::unborn(run));
        let (pieces, earlier) = (Vec::new(), Vec::new());
        Plan { base: entry, entry, pieces, earlier, replaced: RunEntry::unborn(run) }
    }

    fn mend_blob(
        &mut self,
        hash: BlobHash,
        content: &[u8],
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        if BlobHash::of(content) == hash {
            return self.store_blob(&hash.to_string(), content);
        }
        match super::run_reader::read_blob(&*self.disk, &self.places.root, hash) {
            // Its part of the block is damaged, but its file is complete and only has to be synced.
            Ok(content) => self.store_blob(&hash.to_string(), &content),
            Err(LogError::MissingBlob(_) | LogError::DamagedBlob(_)) => {
                recovery.missing_blobs.push(hash);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether a file has lines that recovery set aside for a run that has been removed
    /// since.
    pub(super) fn is_of_removed_run(&self, name: &str) -> bool {
        let run = name.strip_suffix(".wal.unplaced").and_then(Uuid::parse);
        run.is_some_and(|run| self.is_removed(run))
    }

    fn is_removed(&self, run: Uuid) -> bool {
        self.runs.get(&run).is_some_and(|known| known.entry.state == RunState::Removed)
    }
}

/// Returns the listed runs that the index doesn't know as removed.
fn unindexed(runs: &HashMap<Uuid, RunEntry>, listed: &BTreeSet<Uuid>) -> BTreeSet<Uuid> {
    let mut unknown = listed.clone();
    for run in removed_in(runs) {
        unknown.remove(&run);
    }
    unknown
}

fn removed_in(runs: &HashMap<Uuid, RunEntry>) -> impl Iterator<Item = Uuid> {
    runs.iter().filter(|(_, entry)| entry.state == RunState::Removed).map(|(run, _)| *run)
}

/// Loads the index. A directory without one is new, unless it has a commit log.
fn load_or_make(disk: &dyn Disk, places: &Places) -> Result<(IndexFile, IndexState), LogError> {
    let mark = places.restoring();
    if open_if_there(disk, &mark, OpenMode::Read)?.is_some() {
        return Err(LogError::HalfRestored(places.root.clone()));
    }
    for dir in [&places.commit, &places.wal, &places.blobs] {
        disk.create_dir(dir).doing("make", dir)?;
    }
    if let Some(loaded) = IndexFile::load(disk, &places.commit)? {
        return Ok(loaded);
    }
    let files = disk.list(&places.commit).doing("list", &places.commit)?;
    if files.iter().any(|(name, _)| Segment::parse_name(name).is_some() || name == removals::NAME) {
        return Err(LogError::DamagedIndex { path: places.commit.join("index"), offset: 0 });
    }
    for dir in [places.root.parent(), Some(&places.root), Some(&places.wal)] {
        // The parent of a path with a single component is the working directory.
        let dir = dir.filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
        disk.sync_dir(dir, Barrier::Tree).doing("sync", dir)?;
    }
    let salt = disk.random().doing("draw random bits for", &places.root)?;
    let unerased = &BTreeSet::new();
    let (upto, life, segments, expected) = (0, 0, 0, 0);
    let frame = Frame { upto, life, salt, segments, expected, entries: &[], unerased };
    let index = IndexFile::replace(disk, &places.commit, &frame.encode())?;
    let len = index.len;
    Ok((index, IndexState { salt, len, is_new: true, ..IndexState::default() }))
}

/// Returns whether the file of any run contains lines of this block.
fn proven(disk: &dyn Disk, places: &Places, found: &Found) -> Result<bool, LogError> {
    for part in &found.block.parts {
        let PartKind::Lines { run, offset, .. } = part.kind else { continue };
        let path = places.run_file(run);
        // A file that cannot be read now may have them; only a missing one certainly does not.
        let file = match open_if_there(disk, &path, OpenMode::Read) {
            Err(error) if !error.is_not_a_file() => return Err(error),
            opened => opened.ok().flatten(),
        };
        let Some(file) = file else { continue };
        let mut lines = vec![0; part.len];
        let is_there = filled(&*file, &mut lines, offset).doing("read", &path)?;
        if is_there && crc32c::crc32c(&lines) == part.crc {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_part(segment: &Segment, at: u64, len: usize) -> Result<Vec<u8>, LogError> {
    let mut bytes = vec![0; len];
    fill(&*segment.file, &mut bytes, at).doing("read", &segment.path)?;
    Ok(bytes)
}

/// Returns the lines of a plan. If some are damaged and the file does not have them either, also
/// returns the offset of the damage in the file.
pub(super) fn gather(
    segments: &[Segment],
    plan: &Plan,
    tail: &[u8],
) -> Result<(Vec<u8>, Option<u64>), LogError> {
    let mut content = Vec::new();
    let mut bad = None;
    for piece in &plan.pieces {
        let read = read_part(&segments[piece.segment], piece.at, piece.part.len)?;
        let there = tail.get(content.len()..content.len() + piece.part.len);
        match there.filter(|there| crc32c::crc32c(there) == piece.part.crc) {
            Some(there) if !piece.intact => content.extend_from_slice(there),
            _ => {
                if !piece.intact {
                    bad = bad.or(Some(piece.offset));
                }
                content.extend_from_slice(&read);
            }
        }
    }
    Ok((content, bad))
}
