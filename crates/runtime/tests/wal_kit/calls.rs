//! A disk that lets any single call of the log fail, reads and openings included, as a real one would if the system refused it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tiffany::wal::{Barrier, DirLock, Disk, DiskFile, Locking, OpenMode};

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The lock of the directory, and a descriptor for it.
    Lock,
    /// A new descriptor.
    Descriptor,
    /// Nothing of that.
    Nothing,
}

/// A call that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) what: &'static str,
    pub(crate) need: Need,
    /// The name of the file or directory.
    pub(crate) on: String,
}

/// The calls that were made, and which are to fail.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    made: Vec<Made>,
    fault: Option<Fault>,
    errno: i32,
    /// How often the call that is made just now has failed.
    failed: usize,
}

/// Which calls fail.
#[derive(Clone, Copy)]
enum Fault {
    /// The one with this number.
    At(usize),
    /// Every one that needs something, a number of times before it works.
    Each(fn(Need) -> bool, usize),
}

impl Calls {
    /// Lets one call fail, by its number.
    pub(crate) fn fail(&self, call: usize, errno: i32) {
        self.set(Fault::At(call), errno);
    }

    /// Lets every call that is meant fail a number of times before it works.
    pub(crate) fn fail_each(&self, is_meant: fn(Need) -> bool, times: usize, errno: i32) {
        self.set(Fault::Each(is_meant, times), errno);
    }

    fn set(&self, fault: Fault, errno: i32) {
        let mut state = self.0.lock().unwrap();
        (state.fault, state.errno) = (Some(fault), errno);
    }

    pub(crate) fn heal(&self) {
        self.0.lock().unwrap().fault = None;
    }

    /// What was called so far.
    pub(crate) fn made(&self) -> Vec<Made> {
        self.0.lock().unwrap().made.clone()
    }

    fn make(&self, what: &'static str, need: Need, on: &Path) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let number = state.made.len();
        let on = on.file_name().unwrap_or_default().to_string_lossy().into_owned();
        state.made.push(Made { what, need, on });
        let fails = match state.fault {
            Some(Fault::At(call)) => call == number,
            Some(Fault::Each(is_meant, times)) => is_meant(need) && state.failed < times,
            None => false,
        };
        state.failed = if fails { state.failed + 1 } else { 0 };
        if fails { Err(io::Error::from_raw_os_error(state.errno)) } else { Ok(()) }
    }
}

pub(crate) struct FaultyDisk<D> {
    pub(crate) below: D,
    pub(crate) calls: Calls,
}

impl<D: Disk> Disk for FaultyDisk<D> {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.calls.make("create_dir", Need::Nothing, path)?;
        self.below.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let what = if mode == OpenMode::Read { "open_read" } else { "open_write" };
        self.calls.make(what, Need::Descriptor, path)?;
        let below = self.below.open(path, mode)?;
        Ok(Arc::new(FaultyFile { below, calls: self.calls.clone(), path: path.into() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.calls.make("rename", Need::Nothing, from)?;
        self.below.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.calls.make("remove", Need::Nothing, path)?;
        self.below.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        self.calls.make("list", Need::Descriptor, dir)?;
        self.below.list(dir)
    }

    fn others(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.calls.make("others", Need::Descriptor, dir)?;
        self.below.others(dir)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.calls.make("remove_dir", Need::Nothing, path)?;
        self.below.remove_dir(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.below.resolve(path)
    }

    fn sync_dir(&self, dir: &Path, barrier: Barrier) -> io::Result<()> {
        self.calls.make("sync_dir", Need::Descriptor, dir)?;
        self.below.sync_dir(dir, barrier)
    }

    fn random(&self) -> io::Result<u32> {
        self.calls.make("random", Need::Nothing, Path::new("lock"))?;
        self.below.random()
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking> {
        self.calls.make("lock", Need::Lock, path)?;
        Ok(match self.below.lock(path, owner)? {
            Locking::Ours(below) => {
                Locking::Ours(Box::new(FaultyLock { below, calls: self.calls.clone() }))
            }
            theirs @ Locking::Theirs(_) => theirs,
        })
    }
}

struct FaultyFile {
    below: Arc<dyn DiskFile>,
    calls: Calls,
    path: PathBuf,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.calls.make("read_at", Need::Nothing, &self.path)?;
        self.below.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let made = self.calls.make("write_at", Need::Nothing, &self.path);
        // A call that fails may have done a part.
        let part = if made.is_err() { &bytes[..bytes.len() / 2] } else { bytes };
        self.below.write_at(part, offset)?;
        made
    }

    fn size(&self) -> io::Result<u64> {
        self.calls.make("size", Need::Nothing, &self.path)?;
        self.below.size()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.calls.make("set_size", Need::Nothing, &self.path)?;
        self.below.set_size(size)
    }

    fn sync(&self, barrier: Barrier) -> io::Result<()> {
        self.calls.make("sync", Need::Nothing, &self.path)?;
        self.below.sync(barrier)
    }
}

struct FaultyLock {
    below: Box<dyn DirLock>,
    calls: Calls,
}

impl DirLock for FaultyLock {
    fn sync_everything(&self, barrier: Barrier) -> io::Result<()> {
        self.calls.make("sync_everything", Need::Nothing, Path::new("lock"))?;
        self.below.sync_everything(barrier)
    }

    fn note(&self, owner: &str) -> io::Result<()> {
        self.calls.make("note", Need::Nothing, Path::new("lock"))?;
        self.below.note(owner)
    }

    fn check(&self) -> io::Result<()> {
        self.calls.make("check", Need::Nothing, Path::new("lock"))?;
        self.below.check()
    }
}
