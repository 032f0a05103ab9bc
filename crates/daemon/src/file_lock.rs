//! Locks on files that several processes write, each held for one change. Forked children do not
//! inherit them. A wait for a lock is bounded, and ends with an error that names the process that
//! holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tiffany::binding::NotInherited;
use tiffany::wal::file_holder;

use crate::private;

/// How long a lock is waited for. Writing one line takes much less. Unit tests don't wait as long.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 10 });
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// Opens a regular file. Children that are forked later do not keep its lock.
pub(crate) fn open(options: &OpenOptions, path: &Path) -> io::Result<NotInherited<File>> {
    NotInherited::open(|| private::open(options, path))
}

/// Locks a file against other processes, and fails if that takes longer than `timeout`. With a
/// `timeout` of zero it fails at once, with `WouldBlock`.
pub(crate) fn lock(file: &File, path: &Path, timeout: Duration) -> io::Result<()> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(50);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(error);
            }
            // Another process holds the lock, or a signal interrupted the call.
            Err(_) if timeout.is_zero() => return Err(io::ErrorKind::WouldBlock.into()),
            Err(_) if begun.elapsed() >= timeout => return Err(still_locked(path)),
            Err(_) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

/// Returns the error of a lock that was not released in time.
pub(crate) fn still_locked(path: &Path) -> io::Error {
    let holder = file_holder(path);
    let why = format!("{holder} has had it locked for more than {} s", LOCK_TIMEOUT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, why)
}
