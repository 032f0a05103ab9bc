//! Files and directories that are for one user alone: the one that the log belongs to, whoever makes them. It knows nothing of what is in them.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

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

/// Options that follow no symbolic link: whoever else can write the directory could lead us to any file with one.
pub(crate) fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}

/// What is wrong with a file that must be ours, if something is: that it is a link, or belongs to somebody else.
pub(crate) fn why_not_ours(path: &Path, has: &Metadata) -> Option<String> {
    if !has.is_file() {
        return Some("it is a symbolic link, or not a file".into());
    }
    let us = rustix::process::geteuid().as_raw();
    // Root works for the user that the directory belongs to.
    let owner = || std::fs::metadata(dir_of(path)).is_ok_and(|dir| dir.uid() == has.uid());
    let is_ours = has.uid() == us || has.uid() == 0 || (us == 0 && owner());
    (!is_ours).then(|| format!("it belongs to another user, {}", has.uid()))
}

/// What the system says of a file that could not be opened.
pub(crate) fn why_not_open(error: &io::Error) -> String {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => "it is a symbolic link".into(),
        false => error.to_string(),
    }
}

/// The directory that a file is in.
pub(crate) fn dir_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
