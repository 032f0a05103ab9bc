//! Files and directories that are for one user alone: the one that the log belongs to, whoever makes them. It knows nothing of what is in them.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::Path;

use rustix::io::Errno;
use tiffany::wal::{SymbolicLink, open_regular};

/// Makes a directory, and those above it, for this user alone. One that is there keeps its rights.
pub fn make_dir(path: &Path) -> io::Result<()> {
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

/// Opens a regular file that is in the directory itself.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    open_regular(options, path, SymbolicLink::Refused)
}

/// The reason why a file is not ours, if it belongs to another user.
pub(crate) fn why_not_ours(path: &Path, has: &Metadata) -> Option<String> {
    let us = rustix::process::geteuid().as_raw();
    // Root works for the user that the directory belongs to.
    let owner = || std::fs::metadata(dir_of(path)).is_ok_and(|dir| dir.uid() == has.uid());
    let is_ours = has.uid() == us || has.uid() == 0 || (us == 0 && owner());
    (!is_ours).then(|| format!("it belongs to another user, {}", has.uid()))
}

/// What the system says of a file that could not be opened.
pub fn why_not_open(error: &io::Error) -> String {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => "it is a symbolic link".into(),
        false => error.to_string(),
    }
}

/// The directory that a file is in.
pub(crate) fn dir_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
