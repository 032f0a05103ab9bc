//! Blobs that no run names any more. They are looked for in small pieces between other work: first all files of runs are read for the
//! names they have, then blobs without a name go. What is written meanwhile counts as named. It knows nothing of why a
//! run is gone.
//!
//! Lines get into a file after the block that has them is durable, and a run goes or is replaced only after its block is. So a blob that no file
//! names, and no line that came since, is needed by nobody: not after a crash either, because blocks that are read back have their blobs with them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tiffany_kernel::Uuid;

use crate::applier::{Applier, Places};
use crate::blob::BlobHash;
use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{Doing, LogError};
use crate::leftovers::clear_leftovers;
use crate::read::Checker;

/// How the name of a blob begins in a line, and how many hex digits follow.
const MARK: &[u8] = b"{\"$blob\":\"";
const DIGITS: usize = 64;

/// So much is read at once, and so many blobs are removed at once.
const PIECE: usize = 1 << 18;
const SWEEP: usize = 64;
/// So much is read at once of a run that goes.
const SMALL_PIECE: usize = 1 << 14;

/// What came of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Collected {
    /// How many blobs were removed.
    pub blobs: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many runs are damaged. If there are some, no blob is removed: nobody knows which of them they need.
    pub damaged: u64,
    /// How many segments of the commit log were overwritten, because lines of removed or compacted runs may have been
    /// in them.
    #[serde(default)]
    pub segments: u64,
}

/// Blobs of generations that were replaced.
#[derive(Default)]
pub(crate) struct Garbage {
    /// Whether there may be some.
    pub(crate) is_possible: bool,
    /// How many bytes of blobs were stored since they were last looked for.
    pub(crate) stored: u64,
    /// From how many of these it is worth looking.
    worth_from: u64,
}

/// A collection under way.
pub(crate) struct Collecting {
    /// What is named by any line that was found or has come since.
    named: HashSet<BlobHash>,
    /// Files of runs that are to be read, the one that is being read, and what is read at once.
    files: Vec<PathBuf>,
    open: Option<Scanning>,
    buffer: Vec<u8>,
    /// The blobs that were there at the beginning. Those that come later are named.
    blobs: Vec<(BlobHash, u64)>,
    collected: Collected,
}

/// A file that is being read.
struct Scanning {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    at: u64,
    /// The end of the last piece, which may be the beginning of a name.
    carry: Vec<u8>,
    lines: LineCheck,
}

/// Whether the lines of a file are what was written. A damaged one may have lost the name of a blob.
struct LineCheck {
    checker: Checker,
    /// The beginning of a line whose end is in the next piece.
    partial: Vec<u8>,
    is_damaged: bool,
}

impl LineCheck {
    fn new() -> LineCheck {
        LineCheck { checker: Checker::new(None), partial: Vec::new(), is_damaged: false }
    }

    /// Takes in the next bytes. A line without an end is still being written.
    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes).filter(|_| !self.is_damaged) {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            self.is_damaged = match self.partial.is_empty() {
                true => self.checker.check(line).is_err(),
                false => {
                    self.partial.extend_from_slice(line);
                    let is_damaged = self.checker.check(&self.partial).is_err();
                    self.partial.clear();
                    is_damaged
                }
            };
        }
        if !self.is_damaged {
            self.partial.extend_from_slice(bytes);
        }
    }
}

impl Collecting {
    /// All files that are there now will be read, if there is any blob.
    fn begin(disk: &dyn Disk, places: &Places) -> Result<Collecting, LogError> {
        let mut blobs = Vec::new();
        for (name, len) in disk.list(&places.blobs).doing("list", &places.blobs)? {
            blobs.extend(BlobHash::parse(&name).map(|hash| (hash, len)));
        }
        let mut files = Vec::new();
        if !blobs.is_empty() {
            let there = disk.list(&places.wal).doing("list", &places.wal)?;
            let names =
                there.into_iter().map(|(name, _)| name).filter(|name| name.contains(".wal"));
            files.extend(names.map(|name| places.wal.join(name)));
        }
        let (named, open, buffer) = (HashSet::new(), None, vec![0; MARK.len() + DIGITS + PIECE]);
        Ok(Collecting { named, files, open, buffer, blobs, collected: Collected::default() })
    }

    /// Lines that go to a file now.
    pub(crate) fn note(&mut self, lines: &[u8]) {
        names(lines, |hash| {
            self.named.insert(hash);
        });
    }

    /// Does a piece of it. `true`: it is done.
    fn go_on(&mut self, disk: &dyn Disk, places: &Places) -> Result<bool, LogError> {
        if let Some(open) = &mut self.open {
            if open.read(&mut self.buffer, &mut self.named)? {
                self.collected.damaged += u64::from(open.lines.is_damaged);
                self.open = None;
            }
            return Ok(false);
        }
        if let Some(path) = self.files.pop() {
            self.open = match disk.open(&path, OpenMode::Read) {
                // It was removed meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                file => Some(Scanning::new(file.doing("open", &path)?, path)),
            };
            return Ok(false);
        }
        if self.collected.damaged > 0 {
            return Ok(true);
        }
        for (hash, len) in self.blobs.split_off(self.blobs.len().saturating_sub(SWEEP)) {
            if !self.named.contains(&hash) {
                remove(disk, &places.blobs.join(hash.to_string()))?;
                self.collected.blobs += 1;
                self.collected.bytes += len;
            }
        }
        Ok(self.blobs.is_empty())
    }
}

impl Scanning {
    fn new(file: Arc<dyn DiskFile>, path: PathBuf) -> Scanning {
        Scanning { file, path, at: 0, carry: Vec::new(), lines: LineCheck::new() }
    }

    /// Reads a piece. `true`: that was the end.
    fn read(&mut self, buffer: &mut [u8], named: &mut HashSet<BlobHash>) -> Result<bool, LogError> {
        let kept = self.carry.len();
        buffer[..kept].copy_from_slice(&self.carry);
        let read = self.file.read_at(&mut buffer[kept..], self.at).doing("read", &self.path)?;
        self.lines.take(&buffer[kept..kept + read]);
        let piece = &buffer[..kept + read];
        self.at += read as u64;
        names(piece, |hash| {
            named.insert(hash);
        });
        let rest = piece.len().saturating_sub(MARK.len() + DIGITS - 1);
        self.carry.clear();
        self.carry.extend_from_slice(&piece[rest..]);
        Ok(read == 0)
    }
}

/// Finds the blobs that are named in some lines. A text of the user's that looks like a name is taken for one: that
/// keeps a blob too many at worst.
pub fn names(lines: &[u8], mut found: impl FnMut(BlobHash)) {
    for at in memchr::memmem::find_iter(lines, MARK) {
        let digits = lines[at + MARK.len()..].get(..DIGITS);
        let hash = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        hash.and_then(BlobHash::parse).into_iter().for_each(&mut found);
    }
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<(), LogError> {
    match disk.remove(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LogError::io("remove", path, &error))
        }
        _ => Ok(()),
    }
}

impl Applier {
    /// Notes that a run is about to go or to be compacted: what it leaves behind is to be erased. Whether that may be a
    /// blob is found in its file, if that can be read.
    pub(crate) fn note_unerased(&mut self, run: Uuid, path: &Path) {
        self.unerased.insert(run);
        if self.leaves_blobs {
            return;
        }
        let Ok(file) = self.disk.open(path, OpenMode::Read) else {
            self.leaves_blobs = true;
            return;
        };
        let mut scanning = Scanning::new(file, path.to_path_buf());
        let (mut buffer, mut named) = (vec![0; MARK.len() + DIGITS + SMALL_PIECE], HashSet::new());
        let is_read = loop {
            match scanning.read(&mut buffer, &mut named) {
                Ok(is_over) if !is_over && named.is_empty() => {}
                read => break read.is_ok(),
            }
        };
        self.leaves_blobs = !is_read || !named.is_empty();
    }

    /// Whether it is worth looking for blobs of generations that were replaced: more was stored than has to be read for it.
    pub(crate) fn is_garbage_worth_it(&mut self) -> bool {
        let least = self.settings.garbage_bytes;
        let Garbage { is_possible, stored, worth_from } = &mut self.garbage;
        if !*is_possible || *stored < (*worth_from).max(least) {
            return false;
        }
        *worth_from = self.runs.values().map(|known| known.entry.len).sum::<u64>().max(least);
        let is_worth_it = *stored >= *worth_from;
        self.leaves_blobs |= is_worth_it;
        is_worth_it
    }

    /// Whether a run that went may have left blobs that were not looked for to the end.
    pub(crate) fn may_leave_blobs(&self) -> bool {
        self.leaves_blobs || self.collecting.is_some()
    }

    /// Does the next piece of a collection, which begins if none is under way, and tells what came of it when it is done. What
    /// a restore that was cut off has left goes first. A failure ends the collection and nothing else: blobs that stay
    /// harm nobody.
    pub(crate) fn collect_some(&mut self) -> Option<Result<Collected, LogError>> {
        if self.collecting.is_none()
            && let Err(error) = clear_leftovers(&*self.disk, &self.places.root)
        {
            return Some(Err(error));
        }
        if !self.refused.is_empty() {
            self.collecting = None;
            let damaged = self.refused.len() as u64;
            return Some(Ok(Collected { damaged, ..Collected::default() }));
        }
        let begun = match self.collecting.take() {
            Some(collecting) => Ok(collecting),
            None => {
                self.leaves_blobs = false;
                self.garbage = Garbage::default();
                Collecting::begin(&*self.disk, &self.places)
            }
        };
        let mut collecting = match begun {
            Ok(collecting) => collecting,
            Err(error) => return Some(Err(error)),
        };
        match collecting.go_on(&*self.disk, &self.places) {
            Ok(false) => {
                self.collecting = Some(collecting);
                None
            }
            Ok(true) => {
                self.touched.blob_names |= collecting.collected.blobs > 0;
                Some(Ok(collecting.collected))
            }
            Err(error) => {
                self.leaves_blobs = true;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tiffany_kernel::Tid;

    use super::*;
    use crate::batch::Batch;
    use crate::line::{Chain, RecordType};
    use crate::run_reader::read_blob;
    use crate::settings::Settings;
    use crate::sim::SimDisk;
    use crate::stamp::Stamp;
    use crate::writer::Writer;

    const ROOT: &str = "/log";

    fn settings() -> Settings {
        Settings { segment_bytes: 1 << 16, blob_limit: 10, ..Settings::default() }
    }

    fn open(disk: &SimDisk) -> Writer {
        Writer::open(Arc::new(disk.clone()), ROOT.as_ref(), settings()).unwrap().0
    }

    fn commit(writer: &mut Writer, fill: impl FnOnce(&mut Batch, &Stamp)) {
        let mut batch = Batch::with_blob_limit(settings().blob_limit);
        fill(&mut batch, &Stamp::from_unix_nanos(0));
        writer.commit(&mut batch, |_| ()).unwrap();
    }

    /// A line of a run that goes on or begins, with this text, which is a blob.
    fn name(writer: &mut Writer, run: u128, text: &str) {
        let run = Uuid(run);
        let mut chain = writer.run(run).map_or_else(|| Chain::new(run), |entry| entry.chain(run));
        commit(writer, |batch, now| {
            let line = batch.line(&mut chain, now, RecordType::Message, Tid(1));
            line.json("value", text).end();
        });
    }

    /// A line of a fork, with this text: the line is copied without its blob.
    fn copy_name(writer: &mut Writer, run: u128, text: &str) {
        let mut chain = Chain::new(Uuid(run));
        let (hash, len) = (BlobHash::of(text.as_bytes()), text.len());
        commit(writer, |batch, now| {
            let line = batch.line(&mut chain, now, RecordType::Message, Tid(1));
            line.piece(&format!(",\"value\":{{\"$blob\":\"{hash}\",\"len\":{len}}}")).end();
        });
    }

    fn is_there(disk: &SimDisk, text: &str) -> bool {
        read_blob(disk, ROOT.as_ref(), BlobHash::of(text.as_bytes())).is_ok()
    }

    #[test]
    fn what_is_named_while_blobs_are_collected_stays_whenever_that_happens() {
        let [old, copied, gone] = ["old", "copied", "gone"].map(|text| format!("\"{text:>20}\""));
        let disk = SimDisk::new();
        let mut writer = open(&disk);
        for (run, text) in [(1, &old), (2, &copied), (3, &gone)] {
            name(&mut writer, run, text);
        }
        commit(&mut writer, |batch, _| batch.remove(Uuid(1)));
        commit(&mut writer, |batch, _| batch.remove(Uuid(3)));
        writer.close().unwrap();
        let (mut pieces, mut done) = (0, false);
        while !done {
            for later in 0..=pieces {
                let disk = disk.copy();
                let mut writer = open(&disk);
                let mut collected = None;
                for piece in 0.. {
                    if piece == later {
                        // A blob that nobody names is named again; one is copied from a run that goes after that.
                        name(&mut writer, 4, &old);
                        copy_name(&mut writer, 5, &copied);
                    }
                    if piece == pieces {
                        commit(&mut writer, |batch, _| batch.remove(Uuid(2)));
                    }
                    if piece >= pieces && collected.is_some() {
                        break;
                    }
                    if collected.is_none() {
                        collected = writer.applier.collect_some();
                    }
                    done = piece < pieces && collected.is_some();
                }
                let collected = collected.unwrap().unwrap();
                assert!(is_there(&disk, &old), "named at {later} of {pieces}: {collected:?}");
                assert!(is_there(&disk, &copied), "copied at {later} of {pieces}: {collected:?}");
                assert!(!is_there(&disk, &gone), "{later} of {pieces}");
            }
            pieces += 1;
        }
        assert!(pieces > 4, "{pieces} pieces");
    }

    #[test]
    fn names_are_found_wherever_a_piece_ends() {
        let hashes: Vec<BlobHash> = (0..40_u8).map(|byte| BlobHash::of(&[byte])).collect();
        let mut text = vec![b'x'; PIECE - 37];
        for hash in &hashes {
            text.extend_from_slice(format!("{{\"$blob\":\"{hash}\",\"len\":3}}").as_bytes());
            text.resize(text.len() + PIECE - 100, b'y');
        }
        let disk = SimDisk::new();
        let file = disk.open(Path::new("/a"), OpenMode::Create).unwrap();
        file.write_at(&text, 0).unwrap();
        let mut scanning = Scanning::new(file, "/a".into());
        let (mut named, mut buffer) = (HashSet::new(), vec![0; MARK.len() + DIGITS + PIECE]);
        while !scanning.read(&mut buffer, &mut named).unwrap() {}
        assert_eq!(named, hashes.into_iter().collect());
    }
}
