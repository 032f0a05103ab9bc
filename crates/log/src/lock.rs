//! The note in the lock file, and the processes that hold the lock of a log.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::disk::DirLock;
use super::error::THIS_PROCESS;
use super::json::{Fields, parse_string, push_string, push_u64};
use super::regular_file::{SymbolicLink, open_regular};
use super::stamp::{Stamp, to_the_second};

/// How long a process holds the lock of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTerm {
    /// The lock is held as long as the process runs.
    Lasting,
    /// The lock is held for a single change, so others wait for it.
    Brief,
    /// The lock is not taken, because another process holds it and keeps writing. Lines that it
    /// writes after the end that was read are left out, so that all runs are seen at one moment.
    NotTaken,
    /// The lock is not taken, because another process holds it. Lines that it writes after the end
    /// that was read are included, but no file is read as a whole for them: a run that has finished
    /// meanwhile may still be shown as live.
    Observed,
}

/// Returns the note of this process: `{"pid":1,"host":"a","started":"…"}`, and `"brief":true` if it
/// holds the lock for a single change only.
pub(crate) fn owner(term: LockTerm) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started = Stamp::from_unix_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let mut note = b"{\"pid\":".to_vec();
    push_u64(&mut note, u64::from(std::process::id()));
    note.extend_from_slice(b",\"host\":");
    push_string(&mut note, &hostname());
    note.extend_from_slice(b",\"started\":");
    push_string(&mut note, started.as_str());
    if term == LockTerm::Brief {
        note.extend_from_slice(b",\"brief\":true");
    }
    note.extend_from_slice(b"}\n");
    String::from_utf8(note).expect("the note is text")
}

/// Announces in the note that the directory is free as soon as the last steps have ended, so that
/// others wait for it.
pub fn let_go_soon(lock: &dyn DirLock) {
    // It is only a note; a failure doesn't affect the lock.
    drop(lock.note(&owner(LockTerm::Brief)));
}

/// Returns whether the owner that left this note is about to release the lock, or to write the rest
/// of the note.
pub(crate) fn is_brief(note: &str) -> bool {
    let note = note.trim_end();
    note.ends_with(",\"brief\":true}") || !note.ends_with('}')
}

/// Describes the owner of a lock, from the note in its file and from the processes that have locked
/// the file.
pub(crate) fn describe(note: &str, lock: &Path) -> String {
    // The owner may be about to write its note.
    let Some(noted) = read_note(note) else { return "another process".to_string() };
    if noted.pid == std::process::id() && noted.is_here() {
        return THIS_PROCESS.to_owned();
    }
    if !noted.is_here() {
        return noted.to_string();
    }
    let mut lockers = lockers(lock);
    lockers.retain(|locker| locker.pid != std::process::id());
    let is_first = |locker: &&Locker| locker.pid == noted.pid || locker.pid == locker.taken_by;
    match lockers.iter().find(is_first).or(lockers.first()) {
        Some(locker) if locker.pid == noted.pid => noted.to_string(),
        Some(locker) => locker.to_string(),
        None if process_exists(noted.pid) => noted.to_string(),
        None => unseen(lock),
    }
}

fn unseen(path: &Path) -> String {
    format!("a process that this user cannot see (`fuser {}` finds it)", path.display())
}

/// Describes the process that has a file locked with `flock`, such as `process 4711 (python3)`.
pub fn file_holder(path: &Path) -> String {
    match lockers(path).first() {
        Some(locker) if locker.pid == std::process::id() => THIS_PROCESS.to_owned(),
        Some(locker) => locker.to_string(),
        None => unseen(path),
    }
}

/// Returns whether the process that took the lock ran on this machine and has ended.
pub(crate) fn is_orphaned(note: &str) -> bool {
    read_note(note).is_some_and(|noted| noted.is_here() && !process_exists(noted.pid))
}

/// A process that has locked a file.
struct Locker {
    pid: u32,
    name: String,
    /// The process that took the lock. Children that it forked share the lock.
    taken_by: u32,
}

impl std::fmt::Display for Locker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Locker { pid, name, taken_by } = self;
        write!(f, "process {pid} ({name})")?;
        if pid != taken_by {
            write!(f, ", which inherited it from process {taken_by}")?;
        }
        match process_exists(*taken_by) {
            true => Ok(()),
            false => f.write_str(", which has ended"),
        }
    }
}

/// Returns the processes that have locked a file, as far as this user can see them.
fn lockers(path: &Path) -> Vec<Locker> {
    let (Ok(file), Ok(all)) = (std::fs::metadata(path), std::fs::read_dir("/proc")) else {
        return Vec::new();
    };
    let with_lock = all.flatten().filter_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let open = std::fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let mut open = open.filter(|open| {
            // The link leads to the file itself, whatever its name is now.
            std::fs::metadata(open.path())
                .is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
        });
        let taken_by = open.find_map(|open| {
            let about = process.path().join("fdinfo").join(open.file_name());
            locked_by(&std::fs::read_to_string(about).ok()?)
        });
        let taken_by = taken_by?;
        let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        let name = name.trim().chars().filter(|c| !c.is_control()).collect();
        Some(Locker { pid, name, taken_by })
    });
    with_lock.collect()
}

/// Parses the process that took the lock of an open file, from a line such as
/// `lock:\t1: FLOCK  ADVISORY  WRITE 708 fe:00:1301 0 EOF`.
fn locked_by(about: &str) -> Option<u32> {
    let lock = about.lines().find(|line| line.starts_with("lock:") && line.contains("FLOCK"))?;
    lock.split_whitespace().skip_while(|word| *word != "FLOCK").nth(3)?.parse().ok()
}

fn process_exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists() || !Path::new("/proc/self").exists()
}

fn hostname() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    host.trim().to_owned()
}

/// The owner of a log, as described in its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process ID.
    pub pid: u32,
    /// The host name of its machine.
    pub host: String,
    /// When it started, as RFC 3339.
    pub since: String,
}

impl Holder {
    /// Returns whether it is a process on this machine.
    fn is_here(&self) -> bool {
        self.host == hostname()
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on {} since {}", self.pid, self.host, to_the_second(&self.since))
    }
}

fn read_note(note: &str) -> Option<Holder> {
    let inside = note.trim().strip_prefix('{')?.strip_suffix('}')?;
    let get = |field: &str| {
        Fields { rest: inside }.find(|(name, _)| *name == field).map(|(_, value)| value)
    };
    let text = |field: &str| get(field).and_then(parse_string);
    Some(Holder {
        pid: get("pid")?.parse().ok()?,
        host: text("host")?.into_owned(),
        since: text("started")?.into_owned(),
    })
}

/// Returns the process that uses the log at `root`. The lock itself is not touched: this reads the
/// system's list of locks, which contains only processes on this machine.
///
/// ```no_run
/// if let Some(holder) = tiffany_log::holder("/var/lib/orders".as_ref()) {
///     println!("in use by {holder}");
/// }
/// ```
pub fn holder(root: &Path) -> Option<Holder> {
    lock_state(root).map(|(holder, _)| holder)
}

/// Returns the process that owns the log at `root` for longer than a single change. A process that
/// only records something and then releases the log does not run any tasks, and is not returned.
pub fn lasting_holder(root: &Path) -> Option<Holder> {
    lock_state(root).filter(|(_, term)| *term == LockTerm::Lasting).map(|(holder, _)| holder)
}

fn lock_state(root: &Path) -> Option<(Holder, LockTerm)> {
    let (path, read) = (root.join("lock"), OpenOptions::new().read(true).clone());
    let mut lock = open_regular(&read, &path, SymbolicLink::Refused).ok()?;
    let file = lock.metadata().ok()?;
    let mut text = String::new();
    drop(lock.read_to_string(&mut text));
    let note = read_note(&text);
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let pid = locks.lines().find_map(|line| locker_in(line, &file, note.as_ref()))?;
    let term = if is_brief(&text) { LockTerm::Brief } else { LockTerm::Lasting };
    match note.filter(|note| note.pid == pid) {
        Some(note) => Some((note, term)),
        None => Some((Holder { pid, host: "this machine".into(), since: "just now".into() }, term)),
    }
}

/// Parses the process that has locked `file`, from a line such as
/// `1: FLOCK  ADVISORY  WRITE 708 fe:00:1301 0 EOF`; `None` if the line is about another file.
fn locker_in(line: &str, file: &std::fs::Metadata, note: Option<&Holder>) -> Option<u32> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK").skip(2);
    let (kind, pid, place) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let mut parts = place.split(':');
    let device = |part: Option<&str>| u32::from_str_radix(part?, 16).ok();
    let (major, minor) = (device(parts.next())?, device(parts.next())?);
    let inode: u64 = parts.next()?.parse().ok()?;
    let dev = file.dev();
    let same_device = (rustix::fs::major(dev), rustix::fs::minor(dev)) == (major, minor);
    // Some file systems show other device numbers here; in that case, the note must match.
    let fits = same_device || note.is_some_and(|note| note.pid == pid);
    (kind == "WRITE" && inode == file.ino() && fits).then_some(pid)
}
