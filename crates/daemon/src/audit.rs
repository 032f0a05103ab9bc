//! What was changed, by whom, and what came of it: a file of JSON lines beside the log. A line is written before its answer leaves, and each line carries
//! a checksum over itself and the one before it, as the log's do, so that a line that was changed or taken out is found. It knows nothing of what is done.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use tiffany::control::{Seen, Witness};
use tiffany::{ErrorKind, TaskError};

use crate::auth::{AuthError, Role};

/// The name of the file in a log directory.
pub const AUDIT: &str = "audit.jsonl";

/// Something that was asked for and changes something, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Who asked.
    pub who: String,
    /// Their role then.
    pub role: String,
    /// How that was known: `token:ID`, `certificate`, `loopback` or `uid:NUMBER`.
    pub by: String,
    /// Where they asked from.
    pub from: String,
    /// What was asked for: a word.
    pub did: String,
    /// What it was done to: a run, a promise, an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What came of it: `ok`, or the code of an error.
    pub outcome: String,
}

/// The file, while it is written to.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// The checksum of the last line.
    last: u32,
    /// How long the file is.
    length: u64,
    /// Up to where the disk has room for it.
    room_until: u64,
    /// Whether something was written that may not be on the disk yet.
    is_dirty: bool,
}

/// So much room is kept ahead, so that what was done can always be written down, on a full disk too.
const ROOM: u64 = 256 << 10;
/// With less than this nothing is done any more.
const LEAST_ROOM: u64 = 64 << 10;

impl Audit {
    /// The file of a log directory. It is made if there is none.
    pub fn at(dir: &Path) -> Result<Audit, AuthError> {
        let path = dir.join(AUDIT);
        let open = Open::at(&path).map_err(|error| failed(&path, &error))?;
        Ok(Audit { path, open: Mutex::new(open) })
    }

    /// An error, if what is done could not be written down afterwards: then it must not be done.
    pub fn has_room(&self) -> Result<(), AuthError> {
        self.with_open(Open::make_room)
    }

    /// Writes down what was done. When this comes back the system has it, and a crash of this process takes nothing away; [`sync`](Audit::sync) brings
    /// it to the disk.
    pub fn write(&self, entry: &Entry) -> Result<(), AuthError> {
        self.with_open(|open| open.write(entry))
    }

    fn with_open(&self, act: impl FnOnce(&mut Open) -> io::Result<()>) -> Result<(), AuthError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let current = match is_elsewhere(&self.path, &open.file) {
            // It was moved away to be kept; a new one begins.
            true => Open::at(&self.path).map(|new| *open = new),
            false => Ok(()),
        };
        current.and_then(|()| act(&mut open)).map_err(|error| failed(&self.path, &error))
    }

    /// Brings what was written to the disk.
    pub fn sync(&self) -> Result<(), AuthError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut open.is_dirty) {
            return Ok(());
        }
        open.file.sync_data().map_err(|error| failed(&self.path, &error))
    }
}

/// What comes through the socket is written down too. Who may open it may do everything.
impl Witness for Audit {
    fn may(&self) -> Result<(), TaskError> {
        self.has_room().map_err(|error| TaskError::new(ErrorKind::Host, error.to_string()))
    }

    fn saw(&self, seen: &Seen<'_>) {
        let entry = Entry {
            who: seen.user.clone(),
            role: Role::Admin.to_string(),
            by: format!("uid:{}", seen.uid),
            from: "socket".into(),
            did: seen.did.into(),
            to: seen.to.clone(),
            outcome: seen.refused.map_or("ok", TaskError::code).into(),
        };
        if let Err(error) = self.write(&entry) {
            tracing::error!(target: "tiffany", code = error.code(), "{error}");
        }
    }
}

impl Open {
    fn at(path: &Path) -> io::Result<Open> {
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let tail = tail(&mut file)?;
        let whole = tail.rfind('\n').map_or("", |end| &tail[..end]);
        let last = whole.lines().next_back().and_then(|line| parse(line).ok());
        if !tail.is_empty() && !tail.ends_with('\n') {
            // The machine went down in the middle of a line, whose answer nobody was given.
            file.write_all(b"\n")?;
        }
        let length = file.metadata()?.len();
        let last = last.map_or(0, |(_, crc)| crc);
        let mut open = Open { file, last, length, room_until: length, is_dirty: false };
        open.make_room()?;
        Ok(open)
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.room_until >= self.length + LEAST_ROOM {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, ROOM) {
            Ok(()) => self.room_until = self.length + ROOM,
            // Some file systems cannot keep room: there it is found out when it is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.room_until = u64::MAX,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let (line, crc) = line(SystemTime::now(), entry, self.last)?;
        self.file.write_all(line.as_bytes())?;
        (self.last, self.is_dirty) = (crc, true);
        self.length += line.len() as u64;
        Ok(())
    }
}

/// The last lines of a file.
fn tail(file: &mut File) -> io::Result<String> {
    const ENOUGH: u64 = 64 << 10;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(ENOUGH)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_elsewhere(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (there, here) = (std::fs::metadata(path), file.metadata());
    match (there, here) {
        (Ok(there), Ok(here)) => (there.dev(), there.ino()) != (here.dev(), here.ino()),
        _ => true,
    }
}

fn line(at: SystemTime, entry: &Entry, last: u32) -> io::Result<(String, u32)> {
    #[derive(Serialize)]
    struct Stamped<'a> {
        ts: &'a str,
        #[serde(flatten)]
        entry: &'a Entry,
    }
    let nanos = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let stamp = tiffany::wal::Stamp::from_unix_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    let mut line = serde_json::to_string(&Stamped { ts: stamp.as_str(), entry })?;
    line.pop();
    let crc = crc32c::crc32c_append(last, line.as_bytes());
    line.push_str(&format!(",\"crc\":\"{crc:08x}\"}}\n"));
    Ok((line, crc))
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// When it was written.
    pub ts: String,
    /// What is in it.
    #[serde(flatten)]
    pub entry: Entry,
    /// Its checksum.
    crc: String,
}

fn parse(line: &str) -> Result<(Written, u32), String> {
    let read: Written = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let crc = u32::from_str_radix(&read.crc, 16).map_err(|error| error.to_string())?;
    Ok((read, crc))
}

/// The lines of a file in order, each with what is wrong with it, if something is.
///
/// ```
/// use tiffany_daemon::audit::{Audit, Entry, read};
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-audit-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let audit = Audit::at(&dir)?;
/// audit.write(&Entry {
///     who: "ada".into(),
///     role: "operator".into(),
///     by: "loopback".into(),
///     from: "127.0.0.1:40000".into(),
///     did: "cancel".into(),
///     to: Some("order-1".into()),
///     outcome: "ok".into(),
/// })?;
/// let text = std::fs::read_to_string(dir.join("audit.jsonl"))?;
/// let lines: Vec<_> = read(&text).collect::<Result<_, _>>()?;
/// assert_eq!(lines[0].entry.did, "cancel");
/// assert!(read(&text.replace("cancel", "query")).all(|line| line.is_err()));
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read(text: &str) -> impl Iterator<Item = Result<Written, String>> {
    let mut last = 0;
    text.lines().enumerate().map(move |(number, line)| {
        let number = number + 1;
        let (read, crc) = parse(line).map_err(|why| format!("line {number}: {why}"))?;
        let body = line.rfind(",\"crc\":\"").map_or(line, |end| &line[..end]);
        let should_be = crc32c::crc32c_append(last, body.as_bytes());
        last = crc;
        match crc == should_be {
            true => Ok(read),
            false => {
                Err(format!("line {number}: it, or the one before it, is not what was written"))
            }
        }
    })
}

fn failed(path: &Path, error: &io::Error) -> AuthError {
    AuthError::Audit { file: path.into(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_file_that_was_moved_away_is_followed_by_a_new_one() {
        let dir = Dir::new();
        let audit = Audit::at(&dir.0).unwrap();
        audit.write(&entry("old")).unwrap();
        std::fs::rename(dir.0.join(AUDIT), dir.0.join("audit.1")).unwrap();
        audit.write(&entry("new")).unwrap();
        assert_eq!(done(&text(&dir)), goods(&["new"]));
        let old = std::fs::read_to_string(dir.0.join("audit.1")).unwrap();
        assert_eq!(done(&old), goods(&["old"]));
    }
}
