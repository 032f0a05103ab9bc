//! How many file descriptors the process may have. A log needs some for the files of its runs, a daemon one for each
//! connection; the usual limit of 1024 is soft, and may be raised by the process itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The descriptors that a daemon should have; with fewer it starts, and warns.
pub const MINIMUM: usize = 256;

/// The descriptors that a daemon needs to start at all.
pub const REQUIRED: usize = 64;

/// What [`raise_limit`] raises the limit to, unless the system allows less.
pub const RAISED: u64 = 65_536;

/// How many descriptors the process may have now.
///
/// ```
/// assert!(tiffany_log::descriptors::limit() > 0);
/// ```
pub fn limit() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, saturated)
}

/// Raises that limit to [`RAISED`] or to what the system allows, whichever is less, and returns what it is then. It is the
/// whole process's limit, and child processes inherit it, so a library leaves that to the program: `serve` and the daemon
/// do it when they start.
///
/// ```
/// let before = tiffany_log::descriptors::limit();
/// assert!(tiffany_log::descriptors::raise_limit() >= before);
/// ```
pub fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(RAISED, |maximum| maximum.min(RAISED));
    if current.is_some_and(|current| current < wanted) {
        // If that is refused, the limit stays what it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    limit()
}

fn saturated(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
