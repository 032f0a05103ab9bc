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

use super::applier::{Applier, Places};
use super::blob::BlobHash;
use super::disk::{Disk, DiskFile, OpenMode};
use super::error::{Doing, LogError};

/// How the name of a blob begins in a line, and how many hex digits follow.
const MARK: &[u8] = b"{\"$blob\":\"";
const DIGITS: usize = 64;

/// So much is read at once, and so many blobs are removed at once.
const PIECE: usize = 1 << 18;
const SWEEP: usize = 64;

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
}

/// A collection under way.
pub(crate) struct Collecting {
    /// What is named by any line that was found or has come since.
    named: HashSet<BlobHash>,
    phase: Phase,
    collected: Collected,
}

enum Phase {
    Marking { files: Vec<PathBuf>, open: Option<Scanning> },
    Sweeping { blobs: Vec<(BlobHash, u64)> },
}

/// A file that is being read.
struct Scanning {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    at: u64,
    /// The end of the last piece, which may be the beginning of a name.
    carry: Vec<u8>,
}

impl Collecting {
    /// All files that are there now will be read.
    fn begin(disk: &dyn Disk, places: &Places) -> Result<Collecting, LogError> {
        let there = disk.list(&places.wal).doing("list", &places.wal)?;
        let files = there.into_iter().map(|(name, _)| name).filter(|name| name.contains(".wal"));
        let files = files.map(|name| places.wal.join(name)).collect();
        let phase = Phase::Marking { files, open: None };
        Ok(Collecting { named: HashSet::new(), phase, collected: Collected::default() })
    }

    /// Lines that go to a file now.
    pub(crate) fn note(&mut self, lines: &[u8]) {
        names(lines, |hash| {
            self.named.insert(hash);
        });
    }

    /// Does a piece of it. `true`: it is done.
    fn go_on(&mut self, disk: &dyn Disk, places: &Places) -> Result<bool, LogError> {
        match &mut self.phase {
            Phase::Marking { files, open: None } => match files.pop() {
                Some(path) => {
                    let file = match disk.open(&path, OpenMode::Read) {
                        // It was removed meanwhile.
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                            return Ok(false);
                        }
                        other => other.doing("open", &path)?,
                    };
                    let scanning = Scanning { file, path, at: 0, carry: Vec::new() };
                    self.phase =
                        Phase::Marking { files: std::mem::take(files), open: Some(scanning) };
                }
                None => {
                    let mut blobs = Vec::new();
                    for (name, len) in disk.list(&places.blobs).doing("list", &places.blobs)? {
                        blobs.extend(BlobHash::parse(&name).map(|hash| (hash, len)));
                    }
                    self.phase = Phase::Sweeping { blobs };
                }
            },
            Phase::Marking { open, .. } => {
                if let Some(scanning) = open
                    && scanning.read(&mut self.named)?
                {
                    *open = None;
                }
            }
            Phase::Sweeping { blobs } => {
                for (hash, len) in blobs.split_off(blobs.len().saturating_sub(SWEEP)) {
                    if !self.named.contains(&hash) {
                        remove(disk, &places.blobs.join(hash.to_string()))?;
                        self.collected.blobs += 1;
                        self.collected.bytes += len;
                    }
                }
                return Ok(blobs.is_empty());
            }
        }
        Ok(false)
    }
}

impl Scanning {
    /// Reads a piece. `true`: that was the end.
    fn read(&mut self, named: &mut HashSet<BlobHash>) -> Result<bool, LogError> {
        let kept = self.carry.len();
        self.carry.resize(kept + PIECE, 0);
        let read = self.file.read_at(&mut self.carry[kept..], self.at).doing("read", &self.path)?;
        self.carry.truncate(kept + read);
        self.at += read as u64;
        names(&self.carry, |hash| {
            named.insert(hash);
        });
        let rest = self.carry.len().saturating_sub(MARK.len() + DIGITS - 1);
        self.carry.drain(..rest);
        Ok(read == 0)
    }
}

/// Finds the blobs that are named in some lines. A text of the user's that looks like a name is taken for one: that
/// keeps a blob too many at worst.
pub(crate) fn names(lines: &[u8], mut found: impl FnMut(BlobHash)) {
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
    /// Does the next piece of a collection, which begins if none is under way, and tells what came of it when it is done. A failure ends
    /// the collection and nothing else: blobs that stay harm nobody.
    pub(crate) fn collect_some(&mut self) -> Option<Result<Collected, LogError>> {
        if !self.refused.is_empty() {
            self.collecting = None;
            let damaged = self.refused.len() as u64;
            return Some(Ok(Collected { damaged, ..Collected::default() }));
        }
        let begun = match self.collecting.take() {
            Some(collecting) => Ok(collecting),
            None => Collecting::begin(&*self.disk, &self.places),
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
            Ok(true) => Some(Ok(collecting.collected)),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_a_piece_ends() {
        let hashes: Vec<BlobHash> = (0..40_u8).map(|byte| BlobHash::of(&[byte])).collect();
        let mut text = vec![b'x'; PIECE - 37];
        for hash in &hashes {
            text.extend_from_slice(format!("{{\"$blob\":\"{hash}\",\"len\":3}}").as_bytes());
            text.resize(text.len() + PIECE - 100, b'y');
        }
        let disk = crate::wal::sim::SimDisk::new();
        let file = disk.open(Path::new("/a"), OpenMode::Create).unwrap();
        file.write_at(&text, 0).unwrap();
        let mut scanning = Scanning { file, path: "/a".into(), at: 0, carry: Vec::new() };
        let mut named = HashSet::new();
        while !scanning.read(&mut named).unwrap() {}
        assert_eq!(named, hashes.into_iter().collect());
    }
}
