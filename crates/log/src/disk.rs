//! The interface between the log and the medium: the operations the log needs of a disk, and the
//! real disk. The simulated disk for tests is in `sim.rs`. It knows nothing of lines or blocks.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::regular_file::{SymbolicLink, open_regular};
use crate::not_inherited::NotInherited;

/// The syncs that the log makes, named after what they protect. Each is made in one place of the
/// code, so that a test can leave out one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Barrier {
    /// The names of the log's directories, before anything is put into them.
    Tree,
    /// A new index, before it takes its name.
    NewIndex,
    /// The name of the index, before anything relies on it.
    IndexName,
    /// The zeros of a new segment, so that later syncs in it change no metadata.
    Segment,
    /// The name of a new segment, before a block is written to it.
    SegmentName,
    /// A block: after this sync, its lines are durable.
    Block,
    /// The lines of a run, before the index relies on them.
    RunFile,
    /// The names of run files, before the index relies on them.
    RunNames,
    /// A blob, before the index relies on it.
    BlobFile,
    /// The names of blobs, before the index relies on them.
    BlobNames,
    /// Run files, blobs and their names with one sync, when there are many of them.
    Everything,
    /// A frame of the index, before the segments it covers are reused.
    Index,
    /// The list of removed runs, before the index relies on it.
    Removals,
    /// The name of the list of removed runs, before the index relies on it.
    RemovalsName,
    /// The zeros in an erased segment, before the index says that nothing is left to erase.
    Erased,
    /// The names of a backup's directories, before anything is put into them.
    BackupTree,
    /// A copied file, before a manifest or an index relies on it.
    Copied,
    /// The names of copied files, before a manifest or an index relies on them.
    CopiedNames,
    /// Copied files and their names with one sync, when there are many of them.
    CopiedAll,
    /// A manifest, before it takes its name.
    Manifest,
    /// The name of a manifest, before the files that only the previous one lists are removed.
    ManifestName,
    /// The marker of a restore, before anything is renamed.
    Restoring,
    /// The names of a restored log, before the marker is removed.
    Replaced,
    /// The removal of the marker, once the restored log is in place.
    Restored,
}

impl Barrier {
    /// All syncs that a log makes.
    pub const ALL: &[Barrier] = &[
        Barrier::Tree,
        Barrier::NewIndex,
        Barrier::IndexName,
        Barrier::Segment,
        Barrier::SegmentName,
        Barrier::Block,
        Barrier::RunFile,
        Barrier::RunNames,
        Barrier::BlobFile,
        Barrier::BlobNames,
        Barrier::Everything,
        Barrier::Index,
    ];

    /// All syncs that only a backup or a restore makes.
    pub const OF_BACKUP: &[Barrier] = &[
        Barrier::BackupTree,
        Barrier::Copied,
        Barrier::CopiedNames,
        Barrier::CopiedAll,
        Barrier::Manifest,
        Barrier::ManifestName,
        Barrier::Restoring,
        Barrier::Replaced,
        Barrier::Restored,
    ];
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; it is created if it does not exist.
    Create,
}

/// A file system, as the log uses it. All paths include the directory of the log.
pub trait Disk: Send + Sync {
    /// Makes a directory, unless it exists already. Its parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file within its directory, replacing any file of that name. Also renames a
    /// directory, if nothing has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Lists the files of a directory with their lengths in bytes, in any order. Directories are
    /// left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>>;
    /// Lists the entries of a directory that are not files, such as other directories.
    fn others(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns the canonical path of an existing file or directory, with all links resolved.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path, barrier: Barrier) -> io::Result<()>;
    /// Draws random bits.
    fn random(&self) -> io::Result<u32>;
    /// Takes the lock at this path until the returned value is dropped, and writes its owner to the
    /// file.
    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking>;
}

/// An open file. Several threads may use it at once.
pub trait DiskFile: Send + Sync {
    /// Reads some bytes at this offset, and returns how many; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes at this offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Returns the length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Cuts the file, or extends it with zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Makes the contents and the length durable, but not the name.
    fn sync(&self, barrier: Barrier) -> io::Result<()>;
}

/// The result of a request for a lock.
pub enum Locking {
    /// This process has the lock until the value is dropped.
    Ours(Box<dyn DirLock>),
    /// Another process has the lock, and left this note.
    Theirs(String),
}

/// The lock of a directory.
pub trait DirLock: Send + Sync {
    /// Makes all files and names of the file system durable. Reports any write to it that has
    /// failed since the lock was taken.
    fn sync_everything(&self, barrier: Barrier) -> io::Result<()>;

    /// Replaces the note that describes the owner.
    fn note(&self, owner: &str) -> io::Result<()>;

    /// Fails if the directory was moved, removed or replaced since the lock was taken.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from `offset` to the end of the file.
pub(crate) fn read_from(file: &dyn DiskFile, offset: u64) -> io::Result<Vec<u8>> {
    let size = file.size()?.saturating_sub(offset);
    let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Empties a file unless it is empty already. A file that was just made is left alone, because file
/// systems take truncation as a sign that a file is being replaced, and flush it when it is closed.
pub(crate) fn empty(file: &dyn DiskFile) -> io::Result<()> {
    if file.size()? > 0 { file.set_size(0) } else { Ok(()) }
}

/// The real file system. Files and directories it makes are accessible to this user only; existing
/// ones keep their permissions.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// Fails if the path is a symbolic link that was made by anyone but this user or root.
fn no_foreign_link(path: &Path) -> io::Result<()> {
    let about = path.symlink_metadata()?;
    let is_ours = about.uid() == rustix::process::geteuid().as_raw() || about.uid() == 0;
    match about.is_symlink() && !is_ours {
        true => Err(rustix::io::Errno::LOOP.into()),
        false => Ok(()),
    }
}

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
                no_foreign_link(path)
            }
            other => other,
        }
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read).create(mode == OpenMode::Create);
        options.mode(0o600);
        Ok(Arc::new(RealFile(open_regular(&options, path, SymbolicLink::Refused)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                // The log uses plain ASCII names; any other file gets a readable approximation of
                // its name.
                let name = entry.file_name().to_string_lossy().into_owned();
                files.push((name, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }

    fn others(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn sync_dir(&self, dir: &Path, _: Barrier) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn random(&self) -> io::Result<u32> {
        let mut bits = [0; 4];
        rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())?;
        Ok(u32::from_le_bytes(bits))
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking> {
        let mut options = OpenOptions::new();
        // Not truncated: the contents tell who holds the lock.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let open = || open_regular(&options, path, SymbolicLink::Refused);
        let file = NotInherited::open(open)?;
        match file.try_lock() {
            Ok(()) => {
                let lock = RealLock { file, path: path.into() };
                lock.note(owner)?;
                Ok(Locking::Ours(Box::new(lock)))
            }
            Err(TryLockError::WouldBlock) => {
                let mut note = String::new();
                (&*file).read_to_string(&mut note)?;
                Ok(Locking::Theirs(note))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&self, _: Barrier) -> io::Result<()> {
        // `fdatasync` also covers the length where that is needed to read the bytes again.
        self.0.sync_data()
    }
}

/// The descriptor of the lock. It was opened before any write, so `syncfs` reports every later
/// failure through it, even of a file that has been closed since.
struct RealLock {
    file: NotInherited<File>,
    path: PathBuf,
}

impl DirLock for RealLock {
    fn sync_everything(&self, _: Barrier) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&*self.file)?)
    }

    fn note(&self, owner: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(owner.as_bytes(), 0)
    }

    fn check(&self) -> io::Result<()> {
        let (ours, there) = (self.file.metadata()?, std::fs::metadata(&self.path)?);
        match (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
