//! Opens files and accepts regular ones only. Opening a FIFO waits for a second process, and
//! opening a device can have any effect; neither may block a daemon or command that finds it in the
//! place of a file.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Whether a file may be reached through a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolicLink {
    /// Symbolic links are refused. Otherwise, a user who can write to the directory could lead the
    /// process to any file.
    Refused,
    /// Symbolic links are followed, because the path was given by a person.
    Followed,
}

/// The kind of file in the place of a regular one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {0}, not a regular file")]
pub struct NotRegular(pub &'static str);

impl NotRegular {
    fn of(kind: FileType) -> NotRegular {
        NotRegular(match kind {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_fifo() => "a FIFO",
            kind if kind.is_socket() => "a socket",
            kind if kind.is_char_device() || kind.is_block_device() => "a device",
            _ => "something else",
        })
    }

    /// Returns the [`NotRegular`] inside an error of [`open_regular`], if it contains one.
    pub fn cause(error: &io::Error) -> Option<NotRegular> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// Opens a file with these options, and never waits. If it is not a regular file, the error
/// contains [`NotRegular`]. If it is a symbolic link and links are refused, the error is the
/// system's `ELOOP`.
///
/// ```
/// use std::fs::OpenOptions;
/// use tiffany_log::{NotRegular, SymbolicLink, open_regular};
///
/// let (read, link) = (OpenOptions::new().read(true).clone(), SymbolicLink::Refused);
/// assert!(open_regular(&read, "/proc/self/comm".as_ref(), link).is_ok());
/// let error = open_regular(&read, "/".as_ref(), link).unwrap_err();
/// assert_eq!(NotRegular::cause(&error), Some(NotRegular("a directory")));
/// ```
pub fn open_regular(options: &OpenOptions, path: &Path, link: SymbolicLink) -> io::Result<File> {
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, link == SymbolicLink::Refused);
    let file = match options.clone().custom_flags(flags.bits() as i32).open(path) {
        // A directory can't be opened for writing, and a socket not at all.
        Err(error) if is_refusal_of_kind(&error) => {
            return Err(match path.metadata() {
                Ok(about) if !about.is_file() => {
                    io::Error::other(NotRegular::of(about.file_type()))
                }
                _ => error,
            });
        }
        opened => opened?,
    };
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind => Err(io::Error::other(NotRegular::of(kind))),
    }
}

fn is_refusal_of_kind(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ISDIR | Errno::NXIO | Errno::NODEV))
}
