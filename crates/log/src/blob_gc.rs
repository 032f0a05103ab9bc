//! Removes blobs that no run references any more, in small pieces between other work. It first
//! reads all run files for references, then removes the blobs without any. Blobs in lines that are
//! written meanwhile count as referenced. It doesn't know why a run was removed.
//!
//! Lines are written to a file after their block is durable, and a run is removed or replaced only
//! after the block that says so is durable. A blob that neither a file nor a later line references
//! is therefore not needed, even after a crash, because the blocks that recovery reads contain
//! their own blobs.

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

/// The text before the name of a blob in a line, and the number of hex digits in the name.
const MARK: &[u8] = b"{\"$blob\":\"";
const DIGITS: usize = 64;

/// The number of bytes per read, and of blobs that are removed per piece of work.
const PIECE: usize = 1 << 18;
const SWEEP: usize = 64;
/// The number of bytes per read of a run that is about to be removed.
const SMALL_PIECE: usize = 1 << 14;

/// The result of a collection of blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Collected {
    /// The number of blobs that were removed.
    pub blobs: u64,
    /// The size of these blobs, in bytes.
    pub bytes: u64,
    /// The number of damaged runs. If there are any, no blob is removed, because these runs may
    /// reference it.
    pub damaged: u64,
    /// The number of commit log segments that were overwritten because they may have contained
    /// lines of removed or compacted runs.
    #[serde(default)]
    pub segments: u64,
}

/// An estimate of the blobs that replaced generations left behind.
#[derive(Default)]
pub(crate) struct Garbage {
    /// Whether there can be any.
    pub(crate) is_possible: bool,
    /// The number of bytes of blobs stored since the last collection.
    pub(crate) stored: u64,
    /// The value of `stored` from which a collection is worth its cost.
    worth_from: u64,
}

/// A collection in progress.
pub(crate) struct Collecting {
    /// The blobs that are referenced in a line that was read or has been written since.
    named: HashSet<BlobHash>,
    /// The run files still to be read, the one that is being read, and the buffer for it.
    files: Vec<PathBuf>,
    open: Option<Scanning>,
    buffer: Vec<u8>,
    /// The blobs that existed at the beginning. Later ones are referenced.
    blobs: Vec<(BlobHash, u64)>,
    collected: Collected,
}

/// A file that is being read.
struct Scanning {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    at: u64,
    /// The end of the last piece, which may be the beginning of a reference.
    carry: Vec<u8>,
    lines: LineCheck,
}

/// A check of the lines of a file. A damaged line may have lost the reference to a blob.
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

    /// Checks the next bytes. A line without an end is still being written.
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
    /// Begins a collection that reads all files that exist now; none if there are no blobs.
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

    /// Notes the references in lines that are being written to a file.
    pub(crate) fn note(&mut self, lines: &[u8]) {
        names(lines, |hash| {
            self.named.insert(hash);
        });
    }

    /// Does the next piece of the collection. Returns `true` when it is complete.
    fn do_piece(&mut self, disk: &dyn Disk, places: &Places) -> Result<bool, LogError> {
        if let Some(open) = &mut self.open {
            if open.read(&mut self.buffer, &mut self.named)? {
                self.collected.damaged += u64::from(open.lines.is_damaged);
                self.open = None;
            }
            return Ok(false);
        }
        if let Some(path) = self.files.pop() {
            self.open = match disk.open(&path, OpenMode::Read) {
                // The file has been removed since it was listed.
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

    /// Reads the next piece. Returns `true` at the end of the file.
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

/// Finds the references to blobs in some lines. User text that looks like a reference counts as
/// one; at worst, this keeps a blob that is not needed.
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
    /// Records that a run is about to be removed or compacted, and that its remains must be erased.
    /// Its file shows whether blobs may be among them; if the file can't be read, they may.
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

    /// Returns whether a collection is worth its cost: replaced generations may have left blobs,
    /// and more bytes of blobs were stored than a collection has to read.
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

    /// Returns whether removed runs may have left blobs that no complete collection has looked for.
    pub(crate) fn may_leave_blobs(&self) -> bool {
        self.leaves_blobs || self.collecting.is_some()
    }

    /// Does the next piece of a collection, and starts one if none is running. Returns the result
    /// when it is complete. A new collection first removes what an interrupted restore left behind.
    /// A failure ends only the collection: blobs that remain are harmless.
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
        match collecting.do_piece(&*self.disk, &self.places) {
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

    /// Writes a line of a new or existing run with this text, which is stored as a blob.
    fn name(writer: &mut Writer, run: u128, text: &str) {
        let run = Uuid(run);
        let mut chain = writer.run(run).map_or_else(|| Chain::new(run), |entry| entry.chain(run));
        commit(writer, |batch, now| {
            let line = batch.line(&mut chain, now, RecordType::Message, Tid(1));
            line.json("value", text).end();
        });
    }

    /// Writes a line of a fork with this text: the line is copied without its blob.
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
    fn blobs_referenced_during_a_collection_are_kept_at_every_point() {
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
                        // An unreferenced blob is referenced again, and one is copied from a run
                        // that is removed afterwards.
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
    fn references_across_piece_boundaries_are_found() {
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
