//! The limit of file descriptors of the process. A log needs some for run files, a daemon one for
//! each connection. The usual limit of 1024 is a soft one, which a process may raise itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of descriptors that a daemon should have; with fewer, it starts with a warning.
pub const MINIMUM: usize = 256;

/// The number of descriptors that a daemon needs to start at all.
pub const REQUIRED: usize = 64;

/// The limit that [`raise_limit`] sets, unless the system allows less.
pub const RAISED: u64 = 65_536;

/// Returns the number of descriptors that the process may have open.
///
/// ```
/// assert!(tiffany_log::descriptors::limit() > 0);
/// ```
pub fn limit() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, saturated)
}

/// Raises that limit to [`RAISED`] or to what the system allows, whichever is less, and returns the
/// new limit. The limit applies to the whole process, and child processes inherit it. A library
/// therefore leaves this to the program; `serve` and the daemon do it when they start.
///
/// ```
/// let before = tiffany_log::descriptors::limit();
/// assert!(tiffany_log::descriptors::raise_limit() >= before);
/// ```
pub fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(RAISED, |maximum| maximum.min(RAISED));
    if current.is_some_and(|current| current < wanted) {
        // If the system refuses, the limit stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    limit()
}

fn saturated(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
