//! A disk on top of another one: writes stay in memory, and nothing below is changed, created or
//! locked. It lets recovery run for a reader that must not change anything.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Barrier, DirLock, Disk, DiskFile, Locking, OpenMode};
use crate::sync::Mutex;

pub(crate) struct Overlay {
    below: Arc<dyn Disk>,
    /// Files that were opened for writing, by path; `None` for names that were removed.
    files: Mutex<BTreeMap<PathBuf, Option<Arc<Layer>>>>,
    dirs: Mutex<BTreeSet<PathBuf>>,
}

impl Overlay {
    pub(crate) fn new(below: Arc<dyn Disk>) -> Overlay {
        Overlay { below, files: Mutex::default(), dirs: Mutex::default() }
    }

    /// Returns the listing of a directory below; an empty one if the directory was made here.
    fn unless_made<T>(&self, dir: &Path, below: io::Result<Vec<T>>) -> io::Result<Vec<T>> {
        match below {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && self.dirs.lock().contains(dir) =>
            {
                Ok(Vec::new())
            }
            other => other,
        }
    }

    fn is_there(&self, path: &Path) -> io::Result<()> {
        match self.files.lock().get(path) {
            Some(Some(_)) => Ok(()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => self.below.open(path, OpenMode::Read).map(drop),
        }
    }
}

impl Disk for Overlay {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.dirs.lock().insert(path.to_path_buf());
        Ok(())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = self.files.lock();
        let below = match files.get(path) {
            Some(Some(layer)) => return Ok(layer.clone()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            None => self.below.open(path, OpenMode::Read),
        };
        let below = match below {
            Ok(file) if mode == OpenMode::Read => return Ok(file),
            Ok(file) => Some(file),
            Err(error) if mode == OpenMode::Create && error.kind() == io::ErrorKind::NotFound => {
                None
            }
            Err(error) => return Err(error),
        };
        let layer = Arc::new(Layer::new(below)?);
        files.insert(path.to_path_buf(), Some(Arc::clone(&layer)));
        Ok(layer)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let layer = self.open(from, OpenMode::Write).map(|_| self.files.lock().remove(from))?;
        let mut files = self.files.lock();
        files.insert(from.to_path_buf(), None);
        files.insert(to.to_path_buf(), layer.flatten());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.is_there(path)?;
        self.files.lock().insert(path.to_path_buf(), None);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        let below = self.unless_made(dir, self.below.list(dir))?;
        let mut all: BTreeMap<String, u64> = below.into_iter().collect();
        for (path, layer) in &*self.files.lock() {
            if path.parent() != Some(dir) {
                continue;
            }
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            match layer {
                Some(layer) => drop(all.insert(name.to_owned(), layer.size()?)),
                None => drop(all.remove(name)),
            }
        }
        Ok(all.into_iter().collect())
    }

    fn others(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.unless_made(dir, self.below.others(dir))
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.below.resolve(path)
    }

    fn sync_dir(&self, _: &Path, _: Barrier) -> io::Result<()> {
        Ok(())
    }

    fn random(&self) -> io::Result<u32> {
        self.below.random()
    }

    fn lock(&self, _: &Path, _: &str) -> io::Result<Locking> {
        Ok(Locking::Ours(Box::new(NoLock)))
    }
}

struct NoLock;

impl DirLock for NoLock {
    fn sync_everything(&self, _: Barrier) -> io::Result<()> {
        Ok(())
    }

    fn note(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

/// A file whose beginning is below and whose end is in memory. Bytes that are appended below after
/// it was opened are not visible.
struct Layer {
    below: Option<Arc<dyn DiskFile>>,
    tail: Mutex<Tail>,
}

/// The bytes from offset `from` to the end.
struct Tail {
    from: u64,
    bytes: Vec<u8>,
}

impl Layer {
    fn new(below: Option<Arc<dyn DiskFile>>) -> io::Result<Layer> {
        let from = below.as_ref().map_or(Ok(0), |file| file.size())?;
        Ok(Layer { below, tail: Mutex::new(Tail { from, bytes: Vec::new() }) })
    }

    /// Copies the bytes below from offset `to` on into memory.
    fn lift(&self, tail: &mut Tail, to: u64) -> io::Result<()> {
        let Some(below) = self.below.as_ref().filter(|_| to < tail.from) else { return Ok(()) };
        let mut bytes = vec![0; usize::try_from(tail.from - to).map_err(io::Error::other)?];
        super::scan::fill(&**below, &mut bytes, to)?;
        bytes.append(&mut tail.bytes);
        *tail = Tail { from: to, bytes };
        Ok(())
    }
}

impl DiskFile for Layer {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let tail = self.tail.lock();
        if let Some(below) = self.below.as_ref().filter(|_| offset < tail.from) {
            let room = usize::try_from(tail.from - offset).unwrap_or(usize::MAX).min(buf.len());
            return below.read_at(&mut buf[..room], offset);
        }
        let at = usize::try_from(offset - tail.from).unwrap_or(usize::MAX);
        let there = tail.bytes.get(at..).unwrap_or_default();
        let count = there.len().min(buf.len());
        buf[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut tail = self.tail.lock();
        self.lift(&mut tail, offset)?;
        let at = usize::try_from(offset - tail.from).map_err(io::Error::other)?;
        let end = at + bytes.len();
        if tail.bytes.len() < end {
            tail.bytes.resize(end, 0);
        }
        tail.bytes[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        let tail = self.tail.lock();
        Ok(tail.from + tail.bytes.len() as u64)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let mut tail = self.tail.lock();
        if size < tail.from {
            *tail = Tail { from: size, bytes: Vec::new() };
        }
        let len = usize::try_from(size - tail.from).map_err(io::Error::other)?;
        tail.bytes.resize(len, 0);
        Ok(())
    }

    fn sync(&self, _: Barrier) -> io::Result<()> {
        Ok(())
    }
}
