//! The audit file beside the log: what was changed, by whom, and with which outcome, as JSON lines.
//! A change has two lines: its intent, written before anything is done, and its outcome, written
//! before the answer is sent. Each line has a checksum over itself and the line before it, as in
//! the log, so that a changed or removed line is detected. This file doesn't depend on what is
//! changed.

mod lines;
mod strangers;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use tiffany::binding::NotInherited;
use tiffany::redact;

use crate::auth::AuthError;
use crate::file_lock::{self, LOCK_TIMEOUT};
use crate::private;
pub use lines::{Written, joined, read};
use lines::{line, parse};
use strangers::Strangers;

/// The name of the file in a log directory.
pub const AUDIT: &str = "audit.jsonl";

/// An entry of the audit file: a request for a change, and its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of the client.
    pub who: String,
    /// The client's role at the time.
    pub role: String,
    /// How the client was identified: `token:ID`, `certificate`, `loopback`, `uid:NUMBER`, or
    /// `nothing` if it was not.
    pub by: String,
    /// The address that the request came from.
    pub from: String,
    /// A word for the requested change.
    pub did: String,
    /// The target of the change: a run, a promise, an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `begun` in the line of an intent; afterwards `ok`, or the code of an error.
    pub outcome: String,
    /// Joins the intent of a change with its outcome. Empty for a request that was refused before
    /// any intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The number of refused unknown clients that got no line of their own since the previous such
    /// line.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// The outcome in the line of an intent.
pub const BEGUN: &str = "begun";
/// The outcome of a change that was made.
const OK: &str = "ok";

/// A change whose intent is recorded, and whose outcome is not yet.
#[derive(Clone, Debug)]
#[must_use = "its outcome must be written, or the audit shows a change that was cut off"]
pub struct Intent(Entry);

/// The audit file, open for writing.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    open: Mutex<Open>,
    /// Lines that could not be written. They are written before the next intent is.
    behind: Mutex<Vec<Entry>>,
    strangers: Mutex<Strangers>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: Arc<NotInherited<File>>,
    /// The device and the number of the file, by which it is known again.
    identity: (u64, u64),
    /// The checksum of the last line.
    last: u32,
    /// How long the file is.
    length: u64,
    /// The offset up to which disk space is reserved.
    room_until: u64,
    /// Whether something was written that may not be on the disk yet.
    is_dirty: bool,
    /// Whether the file is being synced: a write may have to wait for that.
    is_syncing: bool,
    /// Whether the file waits for another process that writes to it.
    waits: bool,
    /// Whether the last wait for another process timed out. Then the next change doesn't wait.
    is_stuck: bool,
}

/// How much disk space is reserved ahead, so that outcomes can be recorded even on a full disk.
const ROOM: u64 = 256 << 10;
/// With less reserved space than this, changes are refused.
const LEAST_ROOM: u64 = 64 << 10;
/// The most letters of a target's name that are recorded.
const MAX_NAME_CHARS: usize = 10_000;
const MAX_STRANGER_NAME_CHARS: usize = 200;

impl Audit {
    /// Opens the audit file of a log directory; creates it if there is none.
    pub fn at(dir: &Path) -> Result<Audit, AuthError> {
        let path = dir.join(AUDIT);
        let open = Open::at(&path).map_err(|error| failed(&path, &error))?;
        let (behind, strangers) = (Mutex::default(), Mutex::new(Strangers::new()));
        Ok(Audit { path, open: Mutex::new(open), behind, strangers })
    }

    /// Returns an error while the audit file cannot be written: nothing may be changed then.
    /// Outcomes that could not be written earlier are written now. A file that was moved away is
    /// replaced by a new one.
    pub fn check(&self) -> Result<(), AuthError> {
        self.waiting(|behind, open| open.refresh(&self.path, behind))
    }

    /// Records the intent of a change. After an error the change must not be made.
    pub fn begin(&self, entry: &Entry) -> Result<Intent, AuthError> {
        self.waiting(|behind, open| open.begin(&self.path, behind, entry))
    }

    /// Does what [`begin`](Audit::begin) does, if it can do so without waiting for another process
    /// or for the disk. Otherwise it returns `None`, and nothing was written.
    pub(crate) fn begin_at_once(&self, entry: &Entry) -> Option<Result<Intent, AuthError>> {
        self.at_once(|behind, open| open.begin(&self.path, behind, entry))
    }

    /// Writes the outcome of a change: `ok`, or the code of an error. If that fails, the outcome is
    /// kept and written before the next change begins; the error says that the change was made, if
    /// it was.
    pub fn finish(&self, Intent(intent): Intent, outcome: &str) -> Result<(), AuthError> {
        let written = self.waiting(|behind, open| {
            behind.push(clean(&Entry { outcome: outcome.into(), ..intent }));
            open.catch_up(behind)
        });
        of_change(outcome, written)
    }

    /// Does what [`finish`](Audit::finish) does, if it can do so without waiting. Otherwise it
    /// returns `None`, and nothing was written or kept.
    pub(crate) fn finish_at_once(
        &self,
        Intent(intent): &Intent,
        outcome: &str,
    ) -> Option<Result<(), AuthError>> {
        let entry = clean(&Entry { outcome: outcome.into(), ..intent.clone() });
        let written = self.at_once(|behind, open| {
            open.catch_up(behind).and_then(|()| open.write(&entry)).inspect_err(|error| {
                if !would_wait(error) {
                    behind.push(entry);
                }
            })
        });
        written.map(|written| of_change(outcome, written))
    }

    /// Writes one line, [redacted](tiffany::redact). When this returns, the operating system has
    /// the line, and a crash of this process doesn't lose it; [`sync`](Audit::sync) makes it
    /// durable. Several processes may write.
    pub fn write(&self, entry: &Entry) -> Result<(), AuthError> {
        self.waiting(|_, open| open.write(&clean(entry)))
    }

    /// Records that an unknown client was refused. Repeated refusals must not fill the disk, so
    /// most of them are only counted.
    pub fn write_stranger(&self, entry: &Entry) -> Result<(), AuthError> {
        let left_out = {
            let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
            strangers.next(Instant::now())
        };
        match left_out {
            Some(left_out) => {
                let to =
                    entry.to.as_ref().map(|to| to.chars().take(MAX_STRANGER_NAME_CHARS).collect());
                self.write(&Entry { to, left_out, ..entry.clone() })
            }
            None => Ok(()),
        }
    }

    /// Runs an action on the file, however long it takes to lock it.
    fn waiting<T>(
        &self,
        act: impl FnOnce(&mut Vec<Entry>, &mut Open) -> io::Result<T>,
    ) -> Result<T, AuthError> {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.waits = true;
        act(&mut behind, &mut open).map_err(|error| failed(&self.path, &error))
    }

    /// Runs an action on the file, unless another thread may hold it for long.
    fn at_once<T>(
        &self,
        act: impl FnOnce(&mut Vec<Entry>, &mut Open) -> io::Result<T>,
    ) -> Option<Result<T, AuthError>> {
        let mut behind = lock_soon(&self.behind)?;
        let mut open = lock_soon(&self.open)?;
        if open.is_syncing {
            return None;
        }
        open.waits = false;
        match act(&mut behind, &mut open) {
            Err(error) if would_wait(&error) => None,
            done => Some(done.map_err(|error| failed(&self.path, &error))),
        }
    }

    /// Syncs what was written to disk.
    pub fn sync(&self) -> Result<(), AuthError> {
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let file = {
            let mut open = open();
            if !std::mem::take(&mut open.is_dirty) {
                return Ok(());
            }
            open.is_syncing = true;
            Arc::clone(&open.file)
        };
        // Syncing can take long, so the lock is not held meanwhile.
        let synced = file.sync_data();
        let mut open = open();
        open.is_syncing = false;
        synced.map_err(|error| {
            open.is_dirty = true;
            failed(&self.path, &error)
        })
    }
}

/// Locks a mutex that is usually held for a moment; returns `None` if it is held for longer.
fn lock_soon<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    // Some microseconds: about the time to write a line, and less than a switch to another thread.
    const TRIES: usize = 1000;
    (0..TRIES).find_map(|_| match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::hint::spin_loop();
            None
        }
    })
}

/// Whether a call failed because it would have to wait.
fn would_wait(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Returns the result of writing an outcome.
fn of_change(outcome: &str, written: Result<(), AuthError>) -> Result<(), AuthError> {
    match outcome {
        OK => written.map_err(AuthError::after_the_change),
        // Nothing was changed, and nothing can be until the audit file can be written.
        _ => written,
    }
}

impl Intent {
    /// Returns the intent with another target.
    pub fn done_to(self, to: String) -> Intent {
        Intent(Entry { to: Some(to), ..self.0 })
    }
}

/// Redacts an entry, and limits its length.
fn clean(entry: &Entry) -> Entry {
    let to =
        entry.to.as_deref().map(redact::clean).map(|to| to.chars().take(MAX_NAME_CHARS).collect());
    Entry { to, ..entry.clone() }
}

/// Returns a random name for a change.
fn draw_name() -> io::Result<String> {
    let mut bits = [0; 8];
    match rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())? {
        8 => Ok(format!("{:016x}", u64::from_be_bytes(bits))),
        _ => Err(io::Error::other("the system returned no random numbers")),
    }
}

impl Open {
    fn at(path: &Path) -> io::Result<Open> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = file_lock::open(&options, path)?;
        if let Some(why) = private::why_not_ours(path, &file.metadata()?) {
            return Err(io::Error::other(why));
        }
        private::give_to_owner_of(private::dir_of(path), &file)?;
        file_lock::lock(&file, path, LOCK_TIMEOUT)?;
        let tail = tail(&file)?;
        if is_torn(&tail) {
            (&*file).write_all(b"\n")?;
        }
        let about = file.metadata()?;
        let mut open = Open {
            path: path.into(),
            identity: identity(&about),
            last: last_checksum(&tail),
            length: about.len(),
            room_until: about.len(),
            is_dirty: false,
            is_syncing: false,
            waits: true,
            is_stuck: false,
            file: Arc::new(file),
        };
        let has_room = open.make_room();
        open.file.unlock()?;
        has_room.map(|()| open)
    }

    /// Whether the path now refers to another file, or to none.
    fn is_elsewhere(&self, path: &Path) -> bool {
        !std::fs::symlink_metadata(path).is_ok_and(|there| identity(&there) == self.identity)
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.room_until >= self.length + LEAST_ROOM {
            return Ok(());
        }
        let keep =
            || rustix::fs::fallocate(&**self.file, FallocateFlags::KEEP_SIZE, self.length, ROOM);
        match rustix::io::retry_on_intr(keep) {
            Ok(()) => self.room_until = self.length + ROOM,
            // Some file systems cannot reserve space: there a full disk is noticed only when
            // writing.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.room_until = u64::MAX,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes these entries in their order. Entries that could not be written stay in the list.
    fn catch_up(&mut self, behind: &mut Vec<Entry>) -> io::Result<()> {
        while let Some(entry) = behind.first() {
            self.write(entry)?;
            behind.remove(0);
        }
        Ok(())
    }

    /// Checks that the file can be written, and writes entries that could not be written before.
    fn refresh(&mut self, path: &Path, behind: &mut Vec<Entry>) -> io::Result<()> {
        if self.is_elsewhere(path) {
            // Opening another one takes its lock.
            if !self.waits {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            *self = Open::at(path)?;
        }
        self.make_room()?;
        self.catch_up(behind)
    }

    fn begin(&mut self, path: &Path, behind: &mut Vec<Entry>, entry: &Entry) -> io::Result<Intent> {
        self.refresh(path, behind)?;
        let intent = Entry { outcome: BEGUN.into(), change: Some(draw_name()?), ..entry.clone() };
        let written = self.write(&clean(&intent));
        written.inspect_err(|error| note_failure(path, behind, error))?;
        Ok(Intent(intent))
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        self.lock()?;
        let written = self.write_locked(entry);
        self.file.unlock().and(written)
    }

    fn lock(&mut self) -> io::Result<()> {
        let timeout = if self.waits && !self.is_stuck { LOCK_TIMEOUT } else { Duration::ZERO };
        let locked = file_lock::lock(&self.file, &self.path, timeout);
        let is_held = |error: &io::Error| would_wait(error) && self.waits;
        let locked = locked.map_err(|error| match is_held(&error) {
            true => file_lock::still_locked(&self.path),
            false => error,
        });
        if self.waits || locked.is_ok() {
            let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
            self.is_stuck = locked.as_ref().is_err_and(is_late);
        }
        locked
    }

    fn write_locked(&mut self, entry: &Entry) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length != self.length {
            // Another process has written in the meantime, so its line is the previous one.
            let tail = tail(&self.file)?;
            (self.last, self.length) = (last_checksum(&tail), length);
            if is_torn(&tail) {
                (&**self.file).write_all(b"\n")?;
                self.length += 1;
            }
        }
        let (line, crc) = line(SystemTime::now(), entry, self.last)?;
        if let Err(error) = (&**self.file).write_all(line.as_bytes()) {
            // A part of the line may be there. If it cannot be removed, the next line begins after
            // it.
            drop(self.file.set_len(self.length));
            return Err(error);
        }
        (self.last, self.is_dirty) = (crc, true);
        self.length += line.len() as u64;
        Ok(())
    }
}

/// Keeps an entry for a change that was refused because the audit file could not be written: only
/// one, until it can be written again.
fn note_failure(path: &Path, behind: &mut Vec<Entry>, error: &io::Error) {
    if behind.is_empty() && !would_wait(error) {
        behind.push(Entry {
            who: "tiffany".into(),
            role: "none".into(),
            by: "nothing".into(),
            from: "audit".into(),
            did: "audit_failed".into(),
            outcome: failed(path, error).code().into(),
            ..Entry::default()
        });
    }
}

/// Whether the last line has no end: a machine or a disk failed in the middle of it.
fn is_torn(tail: &str) -> bool {
    !tail.is_empty() && !tail.ends_with('\n')
}

fn identity(about: &std::fs::Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

/// Reads the last lines of a file.
fn tail(mut file: &File) -> io::Result<String> {
    const TAIL_BYTES: u64 = 64 << 10;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the checksum of the last complete line.
fn last_checksum(tail: &str) -> u32 {
    let whole = tail.rfind('\n').map_or("", |end| &tail[..end]);
    let last = whole.lines().next_back().and_then(|line| parse(line).ok());
    last.map_or(0, |(_, crc)| crc)
}

fn failed(path: &Path, error: &io::Error) -> AuthError {
    AuthError::Audit { file: path.into(), why: private::why_not_open(error) }
}

#[cfg(test)]
mod tests {
    use super::strangers::{SECONDS_EACH, STRANGERS};
    use super::*;
    use crate::scratch::Dir;

    fn text(dir: &Dir) -> String {
        std::fs::read_to_string(dir.0.join(AUDIT)).unwrap()
    }

    fn entry(did: &str) -> Entry {
        Entry {
            who: "ada".into(),
            role: "operator".into(),
            by: "token:abc".into(),
            from: "127.0.0.1:1".into(),
            did: did.into(),
            to: Some("run \"x\"\n\u{1b}[31m".into()),
            outcome: "ok".into(),
            ..Entry::default()
        }
    }

    fn done(text: &str) -> Vec<Result<String, String>> {
        read(text).map(|line| line.map(|line| line.entry.did)).collect()
    }

    fn goods(names: &[&str]) -> Vec<Result<String, String>> {
        names.iter().map(|name| Ok((*name).to_owned())).collect()
    }

    #[test]
    fn lines_go_on_in_one_chain_over_restarts() {
        let dir = Dir::new();
        for did in ["submit", "cancel", "fork"] {
            let audit = Audit::at(&dir.0).unwrap();
            audit.write(&entry(did)).unwrap();
            audit.write(&entry("send")).unwrap();
            audit.sync().unwrap();
        }
        let text = text(&dir);
        assert_eq!(done(&text), goods(&["submit", "send", "cancel", "send", "fork", "send"]));
        assert!(!text.contains('\u{1b}'));
        assert_eq!(read(&text).next().unwrap().unwrap().entry, entry("submit"));
    }

    #[test]
    fn a_line_that_was_changed_or_taken_out_is_found() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        for did in ["first", "second", "third", "fourth"] {
            audit.write(&entry(did)).unwrap();
        }
        let text = text(&dir);
        let good: Vec<bool> =
            read(&text.replace("second", "seventh")).map(|line| line.is_ok()).collect();
        assert_eq!(good, [true, false, true, true]);
        let lines: Vec<&str> = text.lines().collect();
        let without = [lines[0], lines[2], lines[3]].join("\n");
        let good: Vec<bool> = read(&without).map(|line| line.is_ok()).collect();
        assert_eq!(good, [true, false, true]);
    }

    #[test]
    fn a_torn_last_line_is_left_and_the_chain_goes_on_after_it() {
        let dir = Dir::new();
        Audit::at(&dir.0).unwrap().write(&entry("whole")).unwrap();
        let path = dir.0.join(AUDIT);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"ts\":\"2026").unwrap();
        let audit = Audit::at(&dir.0).unwrap();
        audit.write(&entry("after")).unwrap();
        let lines = done(&text(&dir));
        assert_eq!(lines.len(), 3);
        assert_eq!([&lines[0], &lines[2]], [&Ok("whole".into()), &Ok("after".into())]);
        assert!(lines[1].as_ref().unwrap_err().starts_with("line 2: "));
    }

    /// Returns each change with its outcome, in the order of the intents.
    fn outcomes(dir: &Dir) -> Vec<(String, String)> {
        let lines = read(&text(dir)).collect::<Result<Vec<_>, _>>().unwrap();
        joined(lines).into_iter().map(|row| (row.entry.did, row.entry.outcome)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(did, outcome)| ((*did).into(), (*outcome).into())).collect()
    }

    #[test]
    fn an_intent_without_an_outcome_is_shown_as_such() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        let first = audit.begin(&entry("first")).unwrap();
        drop(audit.begin(&entry("cut off")).unwrap());
        audit.finish(first, "TFY0041").unwrap();
        audit.write(&entry("refused")).unwrap();
        assert_eq!(
            outcomes(&dir),
            pairs(&[("first", "TFY0041"), ("cut off", BEGUN), ("refused", "ok")])
        );
    }

    #[test]
    fn an_outcome_that_could_not_be_written_comes_before_the_next_intent() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        let (first, second) =
            (audit.begin(&entry("first")).unwrap(), audit.begin(&entry("second")).unwrap());
        // Writing fails on a file that is open for reading.
        let path = dir.0.join(AUDIT);
        let good = {
            let mut open = audit.open.lock().unwrap();
            let other = NotInherited::open(|| File::open(&path)).unwrap();
            std::mem::replace(&mut open.file, Arc::new(other))
        };
        // Only the error of a change that was made says that it was made.
        for (intent, outcome, code) in [(first, OK, "TFY0210"), (second, "TFY0041", "TFY0179")] {
            assert_eq!(audit.finish(intent, outcome).unwrap_err().code(), code);
        }
        for error in [audit.check().unwrap_err(), audit.begin(&entry("third")).unwrap_err()] {
            assert_eq!(error.code(), "TFY0179");
        }
        audit.open.lock().unwrap().file = good;
        let third = audit.begin(&entry("third")).unwrap();
        audit.finish(third, "ok").unwrap();
        let expected = [("first", "ok"), ("second", "TFY0041"), ("third", "ok")];
        assert_eq!(outcomes(&dir), pairs(&expected));
    }

    #[test]
    fn where_it_would_have_to_wait_it_writes_nothing() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        let intent = audit.begin_at_once(&entry("first")).unwrap().unwrap();
        let other = File::open(dir.0.join(AUDIT)).unwrap();
        other.lock().unwrap();
        assert!(audit.begin_at_once(&entry("second")).is_none());
        assert!(audit.finish_at_once(&intent, OK).is_none());
        other.unlock().unwrap();
        assert_eq!(outcomes(&dir), pairs(&[("first", BEGUN)]));
        audit.finish_at_once(&intent, OK).unwrap().unwrap();
        assert_eq!(outcomes(&dir), pairs(&[("first", "ok")]));
    }

    #[test]
    fn a_signal_while_the_lock_is_waited_for_changes_nothing() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the handler does nothing, and no other code in this process uses this signal.
        unsafe {
            // Without SA_RESTART, system calls that wait end with EINTR.
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
        }
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        let other = File::open(dir.0.join(AUDIT)).unwrap();
        other.lock().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let writes = scope.spawn(|| {
                // SAFETY: it only returns the identifier of this thread.
                tell.send(unsafe { libc::pthread_self() }).unwrap();
                audit.write(&entry("submit"))
            });
            let thread = told.recv().unwrap();
            for _ in 0..20 {
                // SAFETY: the thread waits for the lock, and is joined after this.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
                std::thread::sleep(Duration::from_millis(5));
            }
            other.unlock().unwrap();
            writes.join().unwrap().unwrap();
        });
        assert_eq!(done(&text(&dir)), goods(&["submit"]));
    }

    #[test]
    fn a_holder_that_never_unlocks_is_named_and_waited_for_once() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        let mut holder = std::process::Command::new("flock")
            .arg("--no-fork")
            .arg(dir.0.join(AUDIT))
            .args(["sleep", "60"])
            .spawn()
            .unwrap();
        let is_locked = || File::open(dir.0.join(AUDIT)).unwrap().try_lock().is_err();
        while !is_locked() {
            std::thread::yield_now();
        }
        let begun = Instant::now();
        let errors = [Audit::at(&dir.0).map(drop), audit.write(&entry("submit"))];
        let waited = begun.elapsed();
        let again = Instant::now();
        assert_eq!(audit.begin(&entry("send")).unwrap_err().code(), "TFY0179");
        let at_once = again.elapsed();
        holder.kill().unwrap();
        holder.wait().unwrap();
        for error in errors {
            let error = error.unwrap_err();
            assert_eq!(error.code(), "TFY0179");
            let name = format!("process {} (sleep) has had it locked", holder.id());
            assert!(error.to_string().contains(&name), "{error}");
        }
        assert!(waited < LOCK_TIMEOUT * 3, "{waited:?}");
        assert!(at_once < LOCK_TIMEOUT / 2, "a second wait: {at_once:?}");
        // What was refused for want of the lock has a line, as other failures have.
        audit.begin(&entry("cancel")).map(drop).unwrap();
        assert_eq!(done(&text(&dir)), goods(&["audit_failed", "cancel"]));
    }

    /// Not a test: a process of the next one. It has the lock and a forked child that outlives it.
    #[test]
    fn forker() {
        let Some(dir) = std::env::var_os("AUDIT_FORK") else { return };
        let audit = Audit::at(Path::new(&dir)).unwrap();
        let mut open = audit.open.lock().unwrap();
        open.lock().unwrap();
        // SAFETY: the child calls only functions that a forked child may.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                libc::sleep(60);
                libc::_exit(0);
            }
        }
        println!("\nforked {child}");
        std::thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn a_kill_inside_the_lock_leaves_no_lock_with_a_forked_child() {
        use std::io::BufRead;
        let dir = Dir::new();
        Audit::at(&dir.0).unwrap().write(&entry("before")).unwrap();
        let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "audit::tests::forker", "--nocapture"])
            .env("AUDIT_FORK", &dir.0)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = io::BufReader::new(parent.stdout.take().unwrap()).lines();
        let child: libc::pid_t = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("forked ")?.parse().ok())
            .unwrap();
        parent.kill().unwrap();
        parent.wait().unwrap();
        let begun = Instant::now();
        let written = Audit::at(&dir.0).and_then(|audit| audit.write(&entry("after")));
        let waited = begun.elapsed();
        // SAFETY: the child of the killed process lives until here.
        let lived = unsafe { libc::kill(child, libc::SIGKILL) } == 0;
        assert!(lived, "the child ended with its parent");
        written.unwrap();
        assert!(waited < Duration::from_secs(2), "{waited:?}");
        assert_eq!(done(&text(&dir)), goods(&["before", "after"]));
    }

    #[test]
    fn several_processes_write_one_chain() {
        let dir = Dir::new();
        let (daemon, command) = (Audit::at(&dir.0).unwrap(), Audit::at(&dir.0).unwrap());
        for _ in 0..3 {
            daemon.write(&entry("submit")).unwrap();
            command.write(&entry("token_add")).unwrap();
        }
        assert_eq!(done(&text(&dir)), goods(&["submit", "token_add"].repeat(3)));
    }

    #[test]
    fn strangers_fill_no_disk_and_are_counted() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        for _ in 0..1000 {
            audit.write_stranger(&entry("submit")).unwrap();
        }
        assert_eq!(done(&text(&dir)).len(), STRANGERS as usize);
        let mut strangers = Strangers::new();
        let begun = strangers.since;
        let lines = (0..1000).filter_map(|_| strangers.next(begun)).count();
        assert_eq!(lines, STRANGERS as usize);
        let later = begun + Duration::from_secs_f64(SECONDS_EACH * 1.5);
        assert_eq!(strangers.next(later), Some(1000 - STRANGERS as u64));
        assert_eq!(strangers.next(later), None);
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_not_followed() {
        let (dir, other) = (Dir::new(), Dir::new());
        let victim = other.0.join("victim");
        std::fs::write(&victim, "precious\n").unwrap();
        let link = || std::os::unix::fs::symlink(&victim, dir.0.join(AUDIT)).unwrap();
        link();
        let refused = Audit::at(&dir.0).unwrap_err();
        assert_eq!(refused.code(), "TFY0179");
        assert!(refused.to_string().contains("it is a symbolic link"), "{refused}");
        // A symbolic link that is created later is not followed either.
        std::fs::remove_file(dir.0.join(AUDIT)).unwrap();
        let audit = Audit::at(&dir.0).unwrap();
        std::fs::remove_file(dir.0.join(AUDIT)).unwrap();
        link();
        assert_eq!(audit.begin(&entry("submit")).unwrap_err().code(), "TFY0179");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious\n");
    }

    #[test]
    fn a_file_that_was_moved_away_is_followed_by_a_new_one() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        audit.write(&entry("old")).unwrap();
        std::fs::rename(dir.0.join(AUDIT), dir.0.join("audit.1")).unwrap();
        audit.check().unwrap();
        audit.write(&entry("new")).unwrap();
        assert_eq!(done(&text(&dir)), goods(&["new"]));
        let old = std::fs::read_to_string(dir.0.join("audit.1")).unwrap();
        assert_eq!(done(&old), goods(&["old"]));
    }
}
