//! Files and directories with access for a single user: the owner of the log, even if root creates
//! them. It doesn't know their content.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::Path;

use rustix::io::Errno;
use tiffany::wal::{SymbolicLink, open_regular};

/// Creates a directory, and missing parents, with access for its owner only. An existing directory
/// keeps its permissions.
pub fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Changes the owner of a file to that of its directory. Only root can do so; a file that another
/// user creates has the right owner already.
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

/// Opens a regular file, and refuses a symbolic link.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    open_regular(options, path, SymbolicLink::Refused)
}

/// Returns an explanation if the file belongs to another user, or `None` if it can be trusted.
pub(crate) fn why_not_ours(path: &Path, has: &Metadata) -> Option<String> {
    let us = rustix::process::geteuid().as_raw();
    // Root acts for the owner of the directory.
    let owner = || std::fs::metadata(dir_of(path)).is_ok_and(|dir| dir.uid() == has.uid());
    let is_ours = has.uid() == us || has.uid() == 0 || (us == 0 && owner());
    (!is_ours).then(|| format!("it belongs to another user, {}", has.uid()))
}

/// Explains why a file could not be opened.
pub fn why_not_open(error: &io::Error) -> String {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => "it is a symbolic link".into(),
        false => error.to_string(),
    }
}

/// Returns the directory of a file.
pub(crate) fn dir_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
