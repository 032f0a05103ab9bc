//! A read-only view of a log, opened as its owner would open it after a crash, but in memory. No
//! file is changed and no lock taken, so the directory may be in use, read-only or in need of
//! repair.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiffany_kernel::Uuid;

use super::applier::Places;
use super::blob::BlobHash;
use super::disk::{Disk, DiskFile, OpenMode, read_from};
use super::error::{Doing, LogError};
use super::index::{RunEntry, RunState};
use super::lock::{Holder, LockTerm, holder};
use super::log_reader::LogReader;
use super::open_tasks::OpenTasks;
use super::overlay::Overlay;
use super::read::{Reader, has_lines};
use super::recover::{Recovery, Scope};
use super::run_reader::{RunReader, read_blob};
use super::settings::Settings;
use super::writer::Writer;

/// How often a log that changes meanwhile is read again.
const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(10);
/// After this time a view is returned although the log changed while it was read: some runs may be
/// shown as they were a moment earlier.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The contents of a log at one moment.
///
/// ```
/// # use std::sync::Arc;
/// # use tiffany_log::sim::SimDisk;
/// # use tiffany_log::{Batch, Chain, RecordType, Settings, Stamp, View, Writer};
/// # use tiffany_kernel::{Tid, Uuid};
/// # let disk = Arc::new(SimDisk::new());
/// # let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
/// # let (mut writer, _) = Writer::open(disk.clone(), "/log".as_ref(), settings)?;
/// # let mut batch = Batch::new();
/// # let mut chain = Chain::new(Uuid::from_random(7));
/// # let now = Stamp::from_unix_nanos(0);
/// # batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("id", "a").end();
/// # writer.commit(&mut batch, |_| ())?;
/// # drop(writer);
/// let view = View::open(disk, "/log".as_ref())?;
/// for (run, entry) in view.runs() {
///     println!("{run} has {} records", entry.seq);
///     let mut reader = view.reader(run)?;
///     while let Some(record) = reader.next() {
///         println!("{}", record?.json);
///     }
/// }
/// # Ok::<(), tiffany_log::LogError>(())
/// ```
pub struct View {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    runs: BTreeMap<Uuid, RunEntry>,
    refused: BTreeMap<Uuid, LogError>,
    recovery: Recovery,
    /// Runs that may have left lines or blobs behind.
    unerased: BTreeSet<Uuid>,
    holder: Option<Holder>,
    /// A random number that tells logs apart.
    salt: u32,
}

impl View {
    /// Opens a view of the log in a directory, which must exist.
    pub fn open(disk: Arc<dyn Disk>, root: &Path) -> Result<View, LogError> {
        View::open_with(disk, root, Scope::All, beside)
    }

    /// Opens a view of a few runs only, chosen by UUID, whether the log knows them or not. `choose`
    /// is given all UUIDs that the log knows. The ends of the other runs are taken from the index
    /// and the commit log without a look at their files, so opening doesn't take longer if the log
    /// has more runs.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tiffany_log::sim::SimDisk;
    /// # use tiffany_log::{Settings, View, Writer};
    /// # use tiffany_kernel::Uuid;
    /// # let disk = Arc::new(SimDisk::new());
    /// # let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
    /// # drop(Writer::open(disk.clone(), "/log".as_ref(), settings)?);
    /// let run = Uuid::from_random(7);
    /// let view = View::open_chosen(disk, "/log".as_ref(), &|_| vec![run])?;
    /// assert!(view.run(run).is_none());
    /// # Ok::<(), tiffany_log::LogError>(())
    /// ```
    pub fn open_chosen(
        disk: Arc<dyn Disk>,
        root: &Path,
        choose: &dyn Fn(&mut dyn Iterator<Item = Uuid>) -> Vec<Uuid>,
    ) -> Result<View, LogError> {
        View::open_with(disk, root, Scope::Chosen(choose), beside)
    }

    /// Opens a view. If the index or the commit log is damaged, it is made from the files of the
    /// runs alone, and the damage is returned too.
    pub fn open_anyhow(
        disk: Arc<dyn Disk>,
        root: &Path,
    ) -> Result<(View, Option<LogError>), LogError> {
        View::open(Arc::clone(&disk), root).map(|view| (view, None)).or_else(|trouble| {
            View::of_files_after(trouble, disk, root).map(|(view, trouble)| (view, Some(trouble)))
        })
    }

    /// Opens a view of the files of the runs alone, if the index or the commit log could not be
    /// read.
    pub fn of_files_after(
        trouble: LogError,
        disk: Arc<dyn Disk>,
        root: &Path,
    ) -> Result<(View, LogError), LogError> {
        match trouble {
            LogError::DamagedCommitLog { .. }
            | LogError::DamagedIndex { .. }
            | LogError::Newer { .. }
            | LogError::NotRegular { .. }
            | LogError::Link { .. } => Ok((View::of_files(disk, root)?, trouble)),
            error => Err(error),
        }
    }

    /// Opens a view for a copy: all runs at one moment, even while a process writes.
    pub(crate) fn open_at_once(disk: Arc<dyn Disk>, root: &Path) -> Result<View, LogError> {
        View::open_with(disk, root, Scope::All, |holder| match holder {
            Some(_) => LockTerm::NotTaken,
            None => LockTerm::Lasting,
        })
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        root: &Path,
        scope: Scope<'_>,
        term: impl Fn(Option<&Holder>) -> LockTerm,
    ) -> Result<View, LogError> {
        let places = Places::new(root);
        if let Err(error) = disk.list(&places.commit)
            && disk.list(&places.wal).is_err()
        {
            return Err(LogError::io("look into", root, &error));
        }
        let (mut tries, began) = (0, Instant::now());
        loop {
            tries += 1;
            // A process that writes reuses segments once they are in the index, so what was read
            // counts only if the index did not change meanwhile.
            let before = index_sum(&*disk, &places)?;
            let holder = holder(root);
            let term = term(holder.as_ref());
            let seen = View::once(Arc::clone(&disk), root, scope, holder, term);
            let is_still = index_sum(&*disk, &places)? == before;
            let again = match &seen {
                Ok(view) if view.holder.is_some() => !is_still || !view.refused.is_empty(),
                Ok(_) => !is_still,
                Err(_) => true,
            };
            // Damage doesn't disappear when the log is read again, but the effects of a concurrent
            // writer do.
            let patience = if is_still && !is_locked(&seen, root) { 1 } else { TRIES };
            let is_late = began.elapsed() >= SETTLE_TIMEOUT;
            let is_readable = seen.as_ref().is_ok_and(|view| view.refused.is_empty());
            if !again || tries >= patience || (is_late && is_readable) {
                return seen;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn once(
        below: Arc<dyn Disk>,
        root: &Path,
        scope: Scope<'_>,
        holder: Option<Holder>,
        term: LockTerm,
    ) -> Result<View, LogError> {
        let disk = Arc::new(Overlay::new(below));
        // A new segment is made in memory if there is none.
        let settings = Settings { segment_bytes: 1, ..Settings::default() };
        let (writer, recovery) = Writer::open_scope(term, scope, disk, root, settings)?;
        let salt = writer.applier.salt;
        writer.applier.handles.close_all();
        let disk = writer.disk();
        let mut runs: BTreeMap<Uuid, RunEntry> = writer.runs().collect();
        for (run, _) in &recovery.refused {
            let entry = runs.entry(*run).or_insert_with(|| RunEntry::unborn(*run));
            *entry = with_damage(entry, &*disk, root, *run);
        }
        let unerased = writer.unerased().collect();
        let refused = recovery.refused.iter().cloned().collect();
        let root = root.to_path_buf();
        Ok(View { disk, root, runs, refused, recovery, unerased, holder, salt })
    }

    /// Opens a view of the files of the runs alone, each up to its last good line. It is for logs
    /// whose index or commit log cannot be read.
    pub fn of_files(disk: Arc<dyn Disk>, root: &Path) -> Result<View, LogError> {
        let places = Places::new(root);
        let (mut runs, mut refused) = (BTreeMap::new(), BTreeMap::new());
        for (name, _) in disk.list(&places.wal).doing("list", &places.wal)? {
            let Some(run) = name.strip_suffix(".wal").and_then(Uuid::parse) else { continue };
            let path = places.run_file(run);
            let file = disk.open(&path, OpenMode::Read).doing("open", &path)?;
            let bytes = read_from(&*file, 0).doing("read", &path)?;
            let mut reader = Reader::new(&bytes, Some(run));
            let mut tasks = OpenTasks::new(&*disk, root);
            let broken = reader.by_ref().find_map(|record| match record {
                Ok(record) => {
                    tasks.take(&record);
                    None
                }
                Err(broken) => Some(broken),
            });
            let (len, chain) = (reader.checker().offset(), reader.checker().chain());
            let mut entry = RunEntry::unborn(run);
            if let Some(chain) = chain {
                let (generation, seq, crc) = (chain.generation(), chain.seq(), chain.crc());
                entry = RunEntry { state: tasks.state(), generation, len, seq, crc };
            }
            if let Some(broken) = broken.filter(|_| has_lines(&bytes[len as usize..])) {
                refused.insert(run, LogError::run(run, &path, broken));
                entry = with_damage(&entry, &*disk, root, run);
            }
            if entry.len > 0 {
                runs.insert(run, entry);
            }
        }
        let recovery = Recovery::default();
        let root = root.to_path_buf();
        let (unerased, holder) = (BTreeSet::new(), holder(&root));
        Ok(View { disk, root, runs, refused, recovery, unerased, holder, salt: 0 })
    }

    /// Returns all runs and their ends, by UUID.
    pub fn runs(&self) -> impl Iterator<Item = (Uuid, RunEntry)> + '_ {
        self.runs.iter().map(|(run, entry)| (*run, *entry))
    }

    /// Returns the end of a run, if the log knows it.
    pub fn run(&self, run: Uuid) -> Option<RunEntry> {
        self.runs.get(&run).copied()
    }

    /// Returns the reason why a run cannot be resumed, if there is one.
    pub fn refused(&self, run: Uuid) -> Option<&LogError> {
        self.refused.get(&run)
    }

    /// Returns whether a run that was removed or compacted may have left lines or blobs that are
    /// not erased yet. This happens a second later, in the process that uses the directory, or
    /// otherwise in the one that removed the run.
    pub fn is_unerased(&self, run: Uuid) -> bool {
        self.unerased.contains(&run)
    }

    /// Returns what opening the log would find and repair. While another process uses it, this is
    /// only what that process is about to write.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns the process that uses the directory.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a random number that identifies the log with high probability.
    pub(crate) fn salt(&self) -> u32 {
        self.salt
    }

    /// Returns the disk as it would be after the repair. Writes to it stay in memory.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Returns a reader for the records of a run, including those that its file does not have yet.
    /// For a damaged run, it returns the readable records and then the error.
    pub fn reader(&self, run: Uuid) -> Result<RunReader, LogError> {
        let entry = self.run(run).ok_or(LogError::UnknownRun(run))?;
        if entry.state == RunState::Removed {
            return Err(LogError::UnknownRun(run));
        }
        RunReader::open(&*self.disk, &self.root, run, Some(entry))
    }

    /// A blob, checked.
    pub fn blob(&self, hash: BlobHash) -> Result<Vec<u8>, LogError> {
        read_blob(&*self.disk, &self.root, hash)
    }

    /// Returns all blobs, with their lengths in bytes.
    pub fn blob_sizes(&self) -> Result<HashMap<BlobHash, u64>, LogError> {
        let dir = Places::new(&self.root).blobs;
        let there = self.disk.list(&dir).doing("list", &dir)?.into_iter();
        Ok(there.filter_map(|(name, len)| Some((BlobHash::parse(&name)?, len))).collect())
    }

    /// Returns the last line of a run that contains these bytes and begins before a place in its
    /// file, and where it begins.
    pub fn line_with(
        &self,
        run: Uuid,
        bytes: &[u8],
        before: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, LogError> {
        RunFile::open(&*self.disk, &self.root, run)?.line_with(bytes, before)
    }

    /// The beginning and the end of a run's lines, `bytes` of each at most, unchecked.
    pub fn ends(&self, run: Uuid, bytes: usize) -> Result<(Vec<u8>, Vec<u8>), LogError> {
        let entry = self.run(run).ok_or(LogError::UnknownRun(run))?;
        RunFile::open(&*self.disk, &self.root, run)?.ends(entry.len, bytes)
    }
}

/// The log as it would be after recovery.
impl LogReader for View {
    fn run_file(&self, run: Uuid) -> Result<RunFile, LogError> {
        RunFile::open(&*self.disk, &self.root, run)
    }

    fn blob(&self, hash: BlobHash) -> Result<Vec<u8>, LogError> {
        View::blob(self, hash)
    }
}

/// The file of a run, read at any offset, unchecked.
pub struct RunFile {
    pub(crate) run: Uuid,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: PathBuf,
}

impl RunFile {
    /// Opens the file of a run.
    pub fn open(disk: &dyn Disk, root: &Path, run: Uuid) -> Result<RunFile, LogError> {
        let path = Places::new(root).run_file(run);
        let file = disk.open(&path, OpenMode::Read).doing("open", &path)?;
        Ok(RunFile { run, file, path })
    }

    /// Returns its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a file of a run that is empty has no meaning")]
    pub fn len(&self) -> Result<u64, LogError> {
        self.file.size().doing("look at", &self.path)
    }

    /// Returns the beginning and the end of its first `len` bytes, with at most `bytes` of each.
    pub fn ends(&self, len: u64, bytes: usize) -> Result<(Vec<u8>, Vec<u8>), LogError> {
        let whole = usize::try_from(len).unwrap_or(usize::MAX);
        let head = self.read(0, bytes.min(whole))?;
        // A short run is read once.
        let tail = match whole <= bytes {
            true => head.clone(),
            false => self.read(len - bytes as u64, bytes)?,
        };
        Ok((head, tail))
    }

    /// Returns the last line that contains these bytes and begins before a place in the file, and
    /// where it begins. The file is read backwards, piece by piece.
    pub fn line_with(&self, bytes: &[u8], before: u64) -> Result<Option<(u64, Vec<u8>)>, LogError> {
        const PIECE: u64 = 1 << 18;
        let finder = memchr::memmem::FinderRev::new(bytes);
        let mut end = before.min(self.len()?);
        while end > 0 {
            let begin = end.saturating_sub(PIECE);
            // A match may begin in this piece and end in the next one.
            let count = (end - begin) as usize + bytes.len() - 1;
            let piece = self.read(begin, count)?;
            if let Some(found) = finder.rfind(&piece) {
                return self.line_at(begin + found as u64).map(Some);
            }
            end = begin;
        }
        Ok(None)
    }

    /// The line around a place in the file, and where it begins.
    fn line_at(&self, place: u64) -> Result<(u64, Vec<u8>), LogError> {
        const PIECE: u64 = 1 << 12;
        let mut begin = place;
        while begin > 0 {
            let from = begin.saturating_sub(PIECE);
            let part = self.read(from, (begin - from) as usize)?;
            if let Some(newline) = memchr::memrchr(b'\n', &part) {
                begin = from + newline as u64 + 1;
                break;
            }
            begin = from;
        }
        let mut line = Vec::new();
        loop {
            let part = self.read(begin + line.len() as u64, PIECE as usize)?;
            match memchr::memchr(b'\n', &part) {
                Some(newline) => line.extend_from_slice(&part[..=newline]),
                None => line.extend_from_slice(&part),
            }
            if part.is_empty() || line.ends_with(b"\n") {
                return Ok((begin, line));
            }
        }
    }

    fn read(&self, at: u64, count: usize) -> Result<Vec<u8>, LogError> {
        let mut part = vec![0; count];
        let mut filled = 0;
        while filled < count {
            let place = at + filled as u64;
            match self.file.read_at(&mut part[filled..], place).doing("read", &self.path)? {
                0 => break,
                more => filled += more,
            }
        }
        part.truncate(filled);
        Ok(part)
    }
}

/// Returns the end of a refused run in a view. It includes the damaged lines, so that a reader or a
/// backup finds them and does not mistake the part before them for the whole run.
fn with_damage(entry: &RunEntry, disk: &dyn Disk, root: &Path, run: Uuid) -> RunEntry {
    let len = RunFile::open(disk, root, run).and_then(|file| file.len()).unwrap_or(0);
    match len > entry.len {
        true => RunEntry { len, seq: entry.seq + 1, ..*entry },
        false => *entry,
    }
}

/// Returns how to open a view of a log that another process may hold.
fn beside(holder: Option<&Holder>) -> LockTerm {
    match holder {
        Some(_) => LockTerm::Observed,
        None => LockTerm::Lasting,
    }
}

/// Returns whether another process was writing the log while it was read.
fn is_locked(seen: &Result<View, LogError>, root: &Path) -> bool {
    match seen {
        Ok(view) => view.holder.is_some(),
        Err(_) => holder(root).is_some(),
    }
}

/// Returns the length and the checksum of the index; `None` if there is no index.
fn index_sum(disk: &dyn Disk, places: &Places) -> Result<Option<(usize, u32)>, LogError> {
    let path = places.commit.join("index");
    let file = match disk.open(&path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LogError::io("open", &path, &error)),
    };
    let bytes = read_from(&*file, 0).doing("read", &path)?;
    Ok(Some((bytes.len(), crc32c::crc32c(&bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

    #[test]
    fn the_last_line_with_these_bytes_is_found_across_read_boundaries() {
        let (root, run) = (Path::new("/log"), Uuid(7));
        let disk = SimDisk::new();
        for dir in ["/log", "/log/wal"] {
            disk.create_dir(Path::new(dir)).unwrap();
        }
        let path = Places::new(root).run_file(run);
        let file = disk.open(&path, OpenMode::Create).unwrap();
        let size = 3 << 18;
        let line_with = |before: u64| {
            RunFile::open(&disk, root, run).unwrap().line_with(b"RunHeld", before).unwrap()
        };
        for at in [1, 100, (1 << 18) - 7, (1 << 18) - 3, (1 << 18) - 1, 1 << 18, size - 11] {
            file.write_at(&vec![b'.'; size as usize], 0).unwrap();
            assert_eq!(line_with(u64::MAX), None);
            file.write_at(b"\n(RunHeld)\n", at - 1).unwrap();
            assert_eq!(line_with(u64::MAX), Some((at, b"(RunHeld)\n".to_vec())), "at {at}");
            assert_eq!(line_with(at), None, "only lines that begin before it");
        }
        // A long line, and the last one without an end.
        let mut lines = vec![b'.'; 3 << 18];
        lines[5..12].copy_from_slice(b"RunHeld");
        lines.extend_from_slice(b"\nRunHeld");
        file.write_at(&lines, 0).unwrap();
        let second = (3 << 18) + 1;
        assert_eq!(line_with(u64::MAX), Some((second, b"RunHeld".to_vec())));
        assert_eq!(
            line_with(second).map(|(at, line)| (at, line.len())),
            Some((0, second as usize))
        );
    }
}
