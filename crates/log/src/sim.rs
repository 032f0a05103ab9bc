//! A simulated disk in memory that fails as disks do: the twin of `RealDisk` for tests. It loses,
//! tears and reorders what was not synced, fails on request, and can ignore syncs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Barrier, DirLock, Disk, DiskFile, Locking, OpenMode};
use crate::sync::Mutex;

/// The unit in which an interrupted write is torn.
const SECTOR: usize = 512;

/// The unsynced writes that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// No write survives: a power failure.
    Nothing,
    /// All writes survive: only the process ended.
    All,
    /// A selection drawn from this seed: each write and each name survives completely, partly or
    /// not at all, in any order.
    Some(u64),
}

/// The kind of a file in the log, for injecting faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A segment of the commit log.
    Segment,
    /// The index.
    Index,
    /// An index that is about to replace the old one.
    NewIndex,
    /// A run's file.
    RunFile,
    /// A blob.
    Blob,
}

impl Part {
    /// All kinds.
    pub const ALL: &[Part] =
        &[Part::Segment, Part::Index, Part::NewIndex, Part::RunFile, Part::Blob];

    /// Returns the kind of a file.
    fn of(path: &Path) -> Option<Part> {
        let name = path.file_name()?.to_str()?;
        let dir = path.parent()?.file_name()?.to_str()?;
        match (dir, name) {
            ("commit", "index") => Some(Part::Index),
            ("commit", "index.new") => Some(Part::NewIndex),
            ("commit", _) => Some(Part::Segment),
            ("blobs", _) => Some(Part::Blob),
            ("wal", _) => Some(Part::RunFile),
            _ => None,
        }
    }
}

/// One change or sync that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bytes were written.
    Write {
        /// The file.
        path: PathBuf,
        /// The offset.
        offset: u64,
        /// The number of bytes.
        len: usize,
    },
    /// A file was cut or extended.
    SetSize(PathBuf, u64),
    /// A file or directory was made.
    Create(PathBuf),
    /// A file or directory was renamed.
    Rename(PathBuf, PathBuf),
    /// A file or directory was removed.
    Remove(PathBuf),
    /// Something was synced.
    Sync(Barrier),
}

/// A simulated disk in memory. Clones share its state; [`SimDisk::copy`] makes an independent disk.
///
/// ```
/// # use tiffany_log::sim::{SimDisk, Survivors};
/// # use tiffany_log::{Barrier, Disk, OpenMode};
/// # use std::path::Path;
/// let disk = SimDisk::new();
/// let file = disk.open(Path::new("/a"), OpenMode::Create)?;
/// file.write_at(b"kept", 0)?;
/// file.sync(Barrier::Block)?;
/// disk.sync_dir(Path::new("/"), Barrier::Tree)?;
/// file.write_at(b"lost", 4)?;
/// disk.crash(Survivors::Nothing);
/// assert_eq!(disk.contents(Path::new("/a")).unwrap(), b"kept");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    files: Vec<Inode>,
    /// The names in each directory: as programs see them, and as they are on the medium.
    dirs: BTreeMap<PathBuf, Names>,
    /// Renames and removals of directories that are not on the medium yet. They reach it in this
    /// order.
    moves: Vec<Move>,
    locks: BTreeMap<PathBuf, String>,
    operations: Vec<Operation>,
    /// The largest number of bytes that one sync of each kind had to write.
    flushed: BTreeMap<Barrier, usize>,
    /// The number of crashes. Handles from before a crash no longer work.
    life: u64,
    faults: Faults,
}

#[derive(Clone, Default)]
struct Faults {
    crash_at: Option<(usize, usize)>,
    crashed: bool,
    fail: BTreeMap<usize, i32>,
    fail_barrier: BTreeMap<Barrier, i32>,
    fail_write: BTreeMap<Part, i32>,
    ignored: BTreeSet<Barrier>,
    late: BTreeSet<Part>,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone)]
struct Change {
    kind: ChangeKind,
    /// Whether it takes effect after the next sync, although it was requested before.
    late: bool,
}

#[derive(Clone)]
enum ChangeKind {
    Write(usize, Vec<u8>),
    SetSize(usize),
}

#[derive(Clone, Default)]
struct Names {
    now: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    pending: Vec<NameChange>,
    /// Whether the directory's own name is on the medium.
    is_durable: bool,
}

#[derive(Clone)]
enum Move {
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf, Names),
}

impl Move {
    fn is_in(&self, dir: &Path) -> bool {
        let (Move::Renamed(path, _) | Move::Removed(path, _)) = self;
        path.parent() == Some(dir)
    }
}

#[derive(Clone)]
struct NameChange {
    gone: Option<String>,
    new: Option<(String, usize)>,
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((name, inode)) = &self.new {
            names.insert(name.clone(), *inode);
        }
    }
}

impl ChangeKind {
    fn len(&self) -> usize {
        if let ChangeKind::Write(_, data) = self { data.len() } else { 0 }
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            ChangeKind::Write(offset, data) => {
                if bytes.len() < offset + data.len() {
                    bytes.resize(offset + data.len(), 0);
                }
                bytes[*offset..offset + data.len()].copy_from_slice(data);
            }
            ChangeKind::SetSize(size) => bytes.resize(*size, 0),
        }
    }
}

impl Inode {
    fn sync(&mut self) {
        let durable = &mut self.durable;
        self.pending.retain_mut(|change| {
            let late = std::mem::take(&mut change.late);
            if !late {
                change.kind.apply(durable);
            }
            late
        });
    }
}

impl Names {
    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }
}

/// A small random number generator, so that a seed causes the same crash everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    }

    /// Applies the part of a change that survives to the bytes on the medium.
    fn survive(&mut self, change: &ChangeKind, durable: &mut Vec<u8>) {
        match (change, self.next(4)) {
            (_, 0) => {}
            (change, 1) | (change @ ChangeKind::SetSize(_), _) => change.apply(durable),
            (ChangeKind::Write(offset, data), 2) => {
                let kept = data[..self.next(data.len() + 1)].to_vec();
                ChangeKind::Write(*offset, kept).apply(durable);
            }
            (ChangeKind::Write(offset, data), _) => {
                for (at, sector) in data.chunks(SECTOR).enumerate() {
                    if self.next(2) == 0 {
                        ChangeKind::Write(offset + at * SECTOR, sector.to_vec()).apply(durable);
                    }
                }
            }
        }
    }
}

impl State {
    /// Records an operation, and decides its outcome: `Ok`, or an error and the number of bytes
    /// after which it occurs.
    fn begin(&mut self, operation: Operation) -> Result<(), (io::Error, usize)> {
        let crashed = || io::Error::other("the simulated disk has crashed");
        if self.faults.crashed {
            return Err((crashed(), 0));
        }
        let at = self.operations.len();
        let by_kind = match &operation {
            Operation::Sync(barrier) => self.faults.fail_barrier.get(barrier),
            Operation::Write { path, .. } => {
                Part::of(path).and_then(|part| self.faults.fail_write.get(&part))
            }
            _ => None,
        };
        let fault = by_kind.or_else(|| self.faults.fail.get(&at)).copied();
        let half = if let Operation::Write { len, .. } = &operation { len / 2 } else { 0 };
        self.operations.push(operation);
        if let Some((crash_at, torn)) = self.faults.crash_at
            && crash_at == at
        {
            self.faults.crashed = true;
            return Err((crashed(), torn));
        }
        fault.map_or(Ok(()), |errno| Err((io::Error::from_raw_os_error(errno), half)))
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let (dir, name) = split(path)?;
        let names = self.dirs.get(&dir).ok_or_else(missing)?;
        names.now.get(&name).copied().ok_or_else(missing)
    }

    fn rename_in(&mut self, dir: &Path, change: NameChange) -> io::Result<()> {
        let names = self.dirs.get_mut(dir).ok_or_else(missing)?;
        change.apply(&mut names.now);
        names.pending.push(change);
        Ok(())
    }

    fn change(&mut self, inode: usize, kind: ChangeKind, path: &Path) {
        let late = Part::of(path).is_some_and(|part| self.faults.late.contains(&part));
        let file = &mut self.files[inode];
        kind.apply(&mut file.now);
        file.pending.push(Change { kind, late });
    }

    fn rename_dir(&mut self, from: &Path, to: &Path) {
        let moved: Vec<PathBuf> =
            self.dirs.keys().filter(|dir| dir.starts_with(from)).cloned().collect();
        for dir in moved {
            let names = self.dirs.remove(&dir).expect("it was just listed");
            let rest = dir.strip_prefix(from).expect("it begins so");
            // Joining an empty path would add a slash at the end.
            let new = if rest == Path::new("") { to.to_path_buf() } else { to.join(rest) };
            self.dirs.insert(new, names);
        }
    }

    /// Undoes renames and removals of directories, the last first, until `kept` of them are left.
    fn unmove(&mut self, kept: usize) {
        for step in self.moves.split_off(kept).into_iter().rev() {
            match step {
                Move::Renamed(from, to) => self.rename_dir(&to, &from),
                Move::Removed(path, names) => drop(self.dirs.insert(path, names)),
            }
        }
        self.moves.clear();
    }

    /// Returns whether the medium obeys this sync.
    fn heeds(&self, barrier: Barrier) -> bool {
        !self.faults.ignored.contains(&barrier)
    }

    fn crash(&mut self, survivors: Survivors) {
        let mut draw = Draw(if let Survivors::Some(seed) = survivors { seed } else { 0 });
        let kept = match survivors {
            Survivors::Nothing => 0,
            Survivors::All => self.moves.len(),
            Survivors::Some(_) if self.moves.is_empty() => 0,
            Survivors::Some(_) => draw.next(self.moves.len() + 1),
        };
        self.unmove(kept);
        for file in &mut self.files {
            for change in std::mem::take(&mut file.pending) {
                match survivors {
                    Survivors::Nothing => {}
                    Survivors::All => change.kind.apply(&mut file.durable),
                    Survivors::Some(_) => draw.survive(&change.kind, &mut file.durable),
                }
            }
            file.now = file.durable.clone();
        }
        for names in self.dirs.values_mut() {
            for change in std::mem::take(&mut names.pending) {
                let kept = match survivors {
                    Survivors::Nothing => false,
                    Survivors::All => true,
                    Survivors::Some(_) => draw.next(2) == 0,
                };
                if kept {
                    change.apply(&mut names.durable);
                }
            }
            names.now = names.durable.clone();
            names.is_durable |= match survivors {
                Survivors::Nothing => false,
                Survivors::All => true,
                Survivors::Some(_) => draw.next(2) == 0,
            };
        }
        let gone: Vec<PathBuf> = self
            .dirs
            .iter()
            .filter(|(_, names)| !names.is_durable)
            .map(|(dir, _)| dir.clone())
            .collect();
        self.dirs.retain(|dir, _| !gone.iter().any(|gone| dir.starts_with(gone)));
        self.locks.clear();
        self.faults.crashed = false;
        self.faults.crash_at = None;
        self.life += 1;
    }
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let name = path.file_name().ok_or_else(missing)?.to_string_lossy().into_owned();
    Ok((path.parent().ok_or_else(missing)?.to_path_buf(), name))
}

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::new()
    }
}

impl SimDisk {
    /// Makes an empty disk with only the directory `/`.
    pub fn new() -> SimDisk {
        let mut state = State::default();
        state.dirs.insert(PathBuf::from("/"), Names { is_durable: true, ..Names::default() });
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes an independent disk with the same state.
    pub fn copy(&self) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(self.state.lock().clone())) }
    }

    /// Returns all requested changes and syncs, in order. Their indices are the operation numbers
    /// for injecting faults.
    pub fn operations(&self) -> Vec<Operation> {
        self.state.lock().operations.clone()
    }

    /// Crashes in the middle of the n-th operation; if it is a write, its first `torn` bytes are
    /// written. All later calls fail until [`SimDisk::crash`].
    pub fn crash_at(&self, operation: usize, torn: usize) {
        self.state.lock().faults.crash_at = Some((operation, torn));
    }

    /// Stops the disk: all calls fail from now on, until [`SimDisk::crash`].
    pub fn power_off(&self) {
        self.state.lock().faults.crashed = true;
    }

    /// Returns whether the disk has stopped.
    pub fn is_down(&self) -> bool {
        self.state.lock().faults.crashed
    }

    /// Returns the number of requested changes and syncs.
    pub fn operation_count(&self) -> usize {
        self.state.lock().operations.len()
    }

    /// Returns one of the requested changes and syncs.
    pub fn operation(&self, at: usize) -> Option<Operation> {
        self.state.lock().operations.get(at).cloned()
    }

    /// Flips one bit of one file, on the medium too, and returns its file and offset; `None` if all
    /// files are empty.
    pub fn flip(&self, seed: u64) -> Option<(PathBuf, usize)> {
        let mut draw = Draw(seed);
        let files: Vec<(PathBuf, Vec<u8>)> = self
            .paths()
            .into_iter()
            .filter_map(|path| self.contents(&path).map(|bytes| (path, bytes)))
            .filter(|(_, bytes)| !bytes.is_empty())
            .collect();
        if files.is_empty() {
            return None;
        }
        let (path, mut bytes) = files[draw.next(files.len())].clone();
        // Most of a segment is empty; only the bytes before that matter.
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |last| last + 1);
        let at = draw.next(used);
        bytes[at] ^= 1 << draw.next(8);
        self.tamper(&path, bytes);
        Some((path, at))
    }

    /// Crashes and restarts: open files and locks are gone, and of the changes that were not
    /// synced, only the survivors remain.
    pub fn crash(&self, survivors: Survivors) {
        self.state.lock().crash(survivors);
    }

    /// Makes the n-th operation fail with this error number.
    pub fn fail(&self, operation: usize, errno: i32) {
        self.state.lock().faults.fail.insert(operation, errno);
    }

    /// Makes all syncs of a kind fail.
    pub fn fail_barrier(&self, barrier: Barrier, errno: i32) {
        self.state.lock().faults.fail_barrier.insert(barrier, errno);
    }

    /// Makes all writes to a kind of file fail halfway.
    pub fn fail_write(&self, part: Part, errno: i32) {
        self.state.lock().faults.fail_write.insert(part, errno);
    }

    /// Removes all injected faults except crashes.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        let faults = &mut state.faults;
        faults.fail.clear();
        faults.fail_barrier.clear();
        faults.fail_write.clear();
    }

    /// Makes syncs of this kind report success without doing anything.
    pub fn ignore(&self, barrier: Barrier) {
        self.state.lock().faults.ignored.insert(barrier);
    }

    /// Delays writes to this kind of file until after the sync that follows them.
    pub fn late(&self, part: Part) {
        self.state.lock().faults.late.insert(part);
    }

    /// Returns the largest number of bytes that one sync of this kind had to write.
    pub fn most_flushed_by(&self, barrier: Barrier) -> usize {
        self.state.lock().flushed.get(&barrier).copied().unwrap_or(0)
    }

    /// Returns the contents of a file, as programs see them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let inode = state.find(path).ok()?;
        Some(state.files[inode].now.clone())
    }

    /// Replaces the contents of a file, on the medium too, as a bad disk or a person might.
    pub fn tamper(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let inode = state.find(path).expect("the file to tamper with");
        state.files[inode] = Inode { now: bytes.clone(), durable: bytes, pending: Vec::new() };
    }

    /// Returns the paths of all files, in order.
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.state.lock();
        let files = state.dirs.iter();
        files.flat_map(|(dir, names)| names.now.keys().map(|name| dir.join(name))).collect()
    }
}

impl Disk for SimDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.dirs.contains_key(path) {
            return Ok(());
        }
        if !path.parent().is_some_and(|parent| state.dirs.contains_key(parent)) {
            return Err(missing());
        }
        state.begin(Operation::Create(path.into())).map_err(|(error, _)| error)?;
        state.dirs.insert(path.into(), Names::default());
        Ok(())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        let inode = match state.find(path) {
            Ok(inode) => inode,
            Err(error) if mode != OpenMode::Create => return Err(error),
            Err(_) => {
                let (dir, name) = split(path)?;
                state.begin(Operation::Create(path.into())).map_err(|(error, _)| error)?;
                let inode = state.files.len();
                state.files.push(Inode::default());
                state.rename_in(&dir, NameChange { gone: None, new: Some((name, inode)) })?;
                inode
            }
        };
        let life = state.life;
        Ok(Arc::new(SimFile { disk: self.clone(), inode, path: path.into(), life }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let operation = Operation::Rename(from.into(), to.into());
        if state.dirs.contains_key(from) {
            if state.dirs.contains_key(to) || from.parent() != to.parent() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.begin(operation).map_err(|(error, _)| error)?;
            state.rename_dir(from, to);
            state.moves.push(Move::Renamed(from.into(), to.into()));
            return Ok(());
        }
        let inode = state.find(from)?;
        let ((dir, gone), (_, new)) = (split(from)?, split(to)?);
        state.begin(operation).map_err(|(error, _)| error)?;
        state.rename_in(&dir, NameChange { gone: Some(gone), new: Some((new, inode)) })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.find(path)?;
        let (dir, gone) = split(path)?;
        state.begin(Operation::Remove(path.into())).map_err(|(error, _)| error)?;
        state.rename_in(&dir, NameChange { gone: Some(gone), new: None })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        let state = self.state.lock();
        let names = state.dirs.get(dir).ok_or_else(missing)?;
        let size = |inode: &usize| state.files[*inode].now.len() as u64;
        Ok(names.now.iter().map(|(name, inode)| (name.clone(), size(inode))).collect())
    }

    fn others(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        state.dirs.get(dir).ok_or_else(missing)?;
        let inside = state.dirs.keys().filter(|path| path.parent() == Some(dir));
        inside.map(|path| split(path).map(|(_, name)| name)).collect()
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        let names = state.dirs.get(path).ok_or_else(missing)?.clone();
        if !names.now.is_empty() || state.dirs.keys().any(|dir| dir.parent() == Some(path)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.begin(Operation::Remove(path.into())).map_err(|(error, _)| error)?;
        state.dirs.remove(path);
        state.moves.push(Move::Removed(path.into(), names));
        Ok(())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let state = self.state.lock();
        if !state.dirs.contains_key(path) {
            state.find(path)?;
        }
        Ok(path.into())
    }

    fn sync_dir(&self, dir: &Path, barrier: Barrier) -> io::Result<()> {
        let mut state = self.state.lock();
        state.begin(Operation::Sync(barrier)).map_err(|(error, _)| error)?;
        if !state.dirs.contains_key(dir) {
            return Err(missing());
        }
        if state.heeds(barrier) {
            state.moves.retain(|step| !step.is_in(dir));
            for (path, names) in &mut state.dirs {
                if path == dir {
                    names.sync();
                } else if path.parent() == Some(dir) {
                    names.is_durable = true;
                }
            }
        }
        Ok(())
    }

    fn random(&self) -> io::Result<u32> {
        // A constant, so that logs made on this disk can be compared byte by byte.
        Ok(0x7466_7931)
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking> {
        let mut state = self.state.lock();
        if let Some(note) = state.locks.get(path) {
            return Ok(Locking::Theirs(note.clone()));
        }
        if !path.parent().is_some_and(|dir| state.dirs.contains_key(dir)) {
            return Err(missing());
        }
        state.locks.insert(path.into(), owner.into());
        let life = state.life;
        Ok(Locking::Ours(Box::new(SimLock { disk: self.clone(), path: path.into(), life })))
    }
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    life: u64,
}

impl DirLock for SimLock {
    fn sync_everything(&self, barrier: Barrier) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.begin(Operation::Sync(barrier)).map_err(|(error, _)| error)?;
        if state.heeds(barrier) {
            state.moves.clear();
            state.files.iter_mut().for_each(Inode::sync);
            for names in state.dirs.values_mut() {
                names.sync();
                names.is_durable = true;
            }
        }
        Ok(())
    }

    fn note(&self, owner: &str) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        if self.is_alive(&state) {
            state.locks.insert(self.path.clone(), owner.into());
        }
        Ok(())
    }
}

impl SimLock {
    fn is_alive(&self, state: &State) -> bool {
        state.life == self.life
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if self.is_alive(&state) {
            state.locks.remove(&self.path);
        }
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
    path: PathBuf,
    life: u64,
}

impl SimFile {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state.lock();
        if state.life != self.life {
            return Err(io::Error::other("a file of a process that has crashed"));
        }
        act(&mut state)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|state| {
            let bytes = &state.files[self.inode].now;
            let rest = bytes.get(offset as usize..).unwrap_or(&[]);
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(|state| {
            let path = self.path.clone();
            let outcome = state.begin(Operation::Write { path, offset, len: bytes.len() });
            let done = match &outcome {
                Ok(()) => bytes.len(),
                Err((_, torn)) => bytes.len().min(*torn),
            };
            if done > 0 {
                let kind = ChangeKind::Write(offset as usize, bytes[..done].to_vec());
                state.change(self.inode, kind, &self.path);
            }
            outcome.map_err(|(error, _)| error)
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.with(|state| Ok(state.files[self.inode].now.len() as u64))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.with(|state| {
            let operation = Operation::SetSize(self.path.clone(), size);
            state.begin(operation).map_err(|(error, _)| error)?;
            state.change(self.inode, ChangeKind::SetSize(size as usize), &self.path);
            Ok(())
        })
    }

    fn sync(&self, barrier: Barrier) -> io::Result<()> {
        self.with(|state| {
            state.begin(Operation::Sync(barrier)).map_err(|(error, _)| error)?;
            if state.heeds(barrier) {
                let bytes: usize =
                    state.files[self.inode].pending.iter().map(|c| c.kind.len()).sum();
                let most = state.flushed.entry(barrier).or_default();
                *most = bytes.max(*most);
                state.files[self.inode].sync();
            }
            Ok(())
        })
    }
}
