//! Files and directories that are for one user alone: the one that the log belongs to, whoever makes them. It knows nothing of what is in them.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::Path;

/// Makes a directory, and those above it, for this user alone. One that is there keeps its rights.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Gives a file to whom its directory belongs. Only root can; whoever else made it is the owner anyway.
pub(crate) fn give_to_owner_of(dir: &Path, file: &File) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (dir, has) = (std::fs::metadata(dir)?, file.metadata()?);
    if (dir.uid(), dir.gid()) == (has.uid(), has.gid()) {
        return Ok(());
    }
    fchown(file, Some(dir.uid()), Some(dir.gid()))
}

/// The directory that a file is in.
pub(crate) fn dir_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
