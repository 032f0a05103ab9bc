//! The seam between the log and the medium: what the log asks of a disk, and the real one. Its twin for
//! tests is in `sim.rs`. It knows nothing of lines or blocks.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::regular_file::{SymbolicLink, open_regular};
use crate::not_inherited::NotInherited;

/// Every sync the log makes, by what it protects. Each is made at one place of the code, so that a test can
/// leave out one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Barrier {
    /// The names of the log's directories, before anything is put into them.
    Tree,
    /// A new index, before it takes its name.
    NewIndex,
    /// The name of the index, before anything relies on it.
    IndexName,
    /// The zeros of a new segment, so that later syncs change no metadata.
    Segment,
    /// The name of a new segment, before a block is in it.
    SegmentName,
    /// A block: after this its lines are durable.
    Block,
    /// A run's lines, before the index counts on them.
    RunFile,
    /// The names of run files, before the index counts on them.
    RunNames,
    /// A blob, before the index counts on it.
    BlobFile,
    /// The names of blobs, before the index counts on them.
    BlobNames,
    /// All of that at once, when it is many files.
    Everything,
    /// An entry of the index, before the segments it covers are used again.
    Index,
    /// The list of removed runs, before the index counts on it.
    Removals,
    /// The name of that list, before the index counts on it.
    RemovalsName,
    /// The zeros in an erased segment, before the index says that nothing is left to erase.
    Erased,
    /// The names of a backup's directories, before anything is put into them.
    BackupTree,
    /// A file that was copied, before a manifest or an index counts on it.
    Copied,
    /// The names of copied files, before a manifest or an index counts on them.
    CopiedNames,
    /// All of that at once, when it is many files.
    CopiedAll,
    /// A manifest, before it takes its name.
    Manifest,
    /// The name of a manifest, before anything that only the one before it names is removed.
    ManifestName,
    /// The mark of a restore that is under way, before anything gets another name.
    Restoring,
    /// The names of a log that took the place of another, before the mark goes.
    Replaced,
    /// The end of that mark.
    Restored,
}

impl Barrier {
    /// All that a log makes.
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

    /// All that a backup and a restore make besides.
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

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// To read; it must be there.
    Read,
    /// To read and write; it must be there.
    Write,
    /// To read and write; it is made if it is not there.
    Create,
}

/// What a file system is to the log. Paths are whole.
pub trait Disk: Send + Sync {
    /// Makes a directory; its parent must be there. One that is there already is fine.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name in the same directory, in place of what had it. A directory too, if nothing has
    /// the name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The files of a directory with their lengths, in any order. Directories are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>>;
    /// Lists what is in a directory besides files, such as other directories.
    fn others(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// The canonical path of an existing file or directory, with all links resolved.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path, barrier: Barrier) -> io::Result<()>;
    /// Draws random bits.
    fn random(&self) -> io::Result<u32>;
    /// Takes the lock at this path until the returned value is dropped, and notes its owner in the file.
    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking>;
}

/// An open file. Several threads may use it at once.
pub trait DiskFile: Send + Sync {
    /// Reads some bytes; 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// How long it is.
    fn size(&self) -> io::Result<u64>;
    /// Cuts it, or lengthens it with zeros.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Makes its bytes and its length durable, but not its name.
    fn sync(&self, barrier: Barrier) -> io::Result<()>;
}

/// What became of the wish for a lock.
pub enum Locking {
    /// It is ours until this is dropped.
    Ours(Box<dyn DirLock>),
    /// Another has it, and left this note.
    Theirs(String),
}

/// The lock of a directory.
pub trait DirLock: Send + Sync {
    /// Makes all files and names of the file system durable, and reports any write to it that has failed since
    /// the lock was taken.
    fn sync_everything(&self, barrier: Barrier) -> io::Result<()>;

    /// Leaves another note on who has it.
    fn note(&self, owner: &str) -> io::Result<()>;

    /// An error if the directory is not what it was: moved, removed, or made anew by somebody else.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from `offset` to the end of a file.
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

/// Empties a file that has something in it. One that was just made is left alone: file systems take a cut for the
/// wish to replace a file, and write it out when it is closed.
pub(crate) fn empty(file: &dyn DiskFile) -> io::Result<()> {
    if file.size()? > 0 { file.set_size(0) } else { Ok(()) }
}

/// The file system of the machine. What it makes is for this user alone; what is there already keeps its rights.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// A directory of the log may be elsewhere by a link, if this user or root made it.
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
                // Names of the log are plain; whatever else lies there keeps a name of some kind.
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
        // Not truncated: what is in it tells who holds the lock.
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
        // `fdatasync` covers the length too where that is needed to read the bytes again.
        self.0.sync_data()
    }
}

/// The descriptor of the lock, which saw no earlier error of the file system: what fails after it was opened,
/// `syncfs` tells it, even if the file that failed was closed meanwhile.
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
