//! The index: where every run stood at the last checkpoint. Frames of one file, the first one whole, the
//! later ones with what changed; now and then it is written anew. It makes opening independent of how much
//! was ever logged.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::disk::{Barrier, Disk, DiskFile, OpenMode, empty, read_from};
use super::error::{Doing, LogError};
use super::line::Chain;

const MAGIC: &[u8; 8] = b"\x89TFYIDX\n";
/// Frames have the second version if they say which block must be there, so that a log that was closed can be read by
/// older programs.
const VERSION: u32 = 2;
const HEADER: usize = 48;
/// The length of the block number that the second version has before its entries.
const EXPECTED: usize = 8;
const ENTRY: usize = 48;
/// The bytes that a medium writes as a whole or not at all.
const SECTOR: usize = 512;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It goes on when the log is opened.
    Live,
    /// It is over; its file is there.
    Finished,
    /// It was removed; only its UUID is known.
    Removed,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEntry {
    /// Whether it goes on.
    pub state: RunState,
    /// The generation of its file.
    pub generation: u32,
    /// How many bytes of its file are committed.
    pub len: u64,
    /// The number of its last line.
    pub seq: u64,
    /// The checksum of its last line.
    pub crc: u32,
}

impl RunEntry {
    /// What its next line must follow.
    pub fn chain(&self, run: Uuid) -> Chain {
        Chain::at(run, self.generation, self.seq, self.crc).with_bytes(self.len)
    }
}

/// What the frames say together.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexState {
    pub(crate) runs: HashMap<Uuid, RunEntry>,
    /// Runs that were removed or compacted, and may have left lines or blobs behind.
    pub(crate) unerased: BTreeSet<Uuid>,
    /// All blocks up to this one are in the run files, which are synced.
    pub(crate) upto: u64,
    /// Blocks of a lower generation are from before the last opening, and do not count.
    pub(crate) life: u64,
    /// Goes into the checksums of the commit log, so that no payload can pass for a block.
    pub(crate) salt: u32,
    /// So many segments there are at least.
    pub(crate) segments: u32,
    /// A block of this number or a higher one is in the segments; 0 if nothing is said.
    pub(crate) expected: u64,
    /// Where the last good frame ends.
    pub(crate) len: u64,
    /// How many entries the frames have, doubles included.
    pub(crate) entries: usize,
    /// The last frame can't be read.
    pub(crate) torn: bool,
    /// It is there as a whole, so it was not being written when the process ended or the power went.
    pub(crate) is_end_damaged: bool,
    /// There was no index.
    pub(crate) is_new: bool,
}

/// One frame, to be written.
pub(crate) struct Frame<'a> {
    pub(crate) upto: u64,
    pub(crate) life: u64,
    pub(crate) salt: u32,
    pub(crate) segments: u32,
    pub(crate) expected: u64,
    pub(crate) entries: &'a [(Uuid, RunEntry)],
    pub(crate) unerased: &'a BTreeSet<Uuid>,
}

impl Frame<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        let version = match self.expected {
            0 => 1,
            expected => {
                out.extend_from_slice(&expected.to_le_bytes());
                VERSION
            }
        };
        for (run, entry) in self.entries {
            out.extend_from_slice(&run.0.to_be_bytes());
            out.extend_from_slice(&entry.len.to_le_bytes());
            out.extend_from_slice(&entry.seq.to_le_bytes());
            out.extend_from_slice(&entry.generation.to_le_bytes());
            out.extend_from_slice(&entry.crc.to_le_bytes());
            let unerased = u8::from(self.unerased.contains(run));
            out.extend_from_slice(&[entry.state as u8, unerased, 0, 0, 0, 0, 0, 0]);
        }
        let table_crc = crc32c::crc32c(&out[HEADER..]);
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[16..24].copy_from_slice(&self.upto.to_le_bytes());
        out[24..32].copy_from_slice(&self.life.to_le_bytes());
        out[32..36].copy_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out[36..40].copy_from_slice(&table_crc.to_le_bytes());
        out[40..44].copy_from_slice(&self.salt.to_le_bytes());
        out[44..48].copy_from_slice(&self.segments.to_le_bytes());
        let crc = header_crc(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }
}

fn header_crc(header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..HEADER])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

enum FrameFlaw {
    Newer(u64),
    Bad,
}

impl IndexState {
    /// Takes in the frame at the beginning of `bytes`, and gives its length.
    fn take_frame(&mut self, bytes: &[u8]) -> Result<usize, FrameFlaw> {
        if bytes.len() < HEADER
            || !bytes.starts_with(MAGIC)
            || header_crc(bytes) != u32_at(bytes, 12)
        {
            return Err(FrameFlaw::Bad);
        }
        let version = u32_at(bytes, 8);
        if version > VERSION {
            return Err(FrameFlaw::Newer(u64::from(version)));
        }
        let count = u32_at(bytes, 32) as usize;
        let before = if version == 1 { 0 } else { EXPECTED };
        let rest = bytes.get(HEADER..HEADER + before + count * ENTRY).ok_or(FrameFlaw::Bad)?;
        if crc32c::crc32c(rest) != u32_at(bytes, 36) {
            return Err(FrameFlaw::Bad);
        }
        let (expected, table) = rest.split_at(before);
        for entry in table.chunks_exact(ENTRY) {
            let run = Uuid(u128::from_be_bytes(entry[..16].try_into().expect("sixteen bytes")));
            let state = match entry[40] {
                0 => RunState::Live,
                1 => RunState::Finished,
                2 => RunState::Removed,
                _ => return Err(FrameFlaw::Bad),
            };
            let known = RunEntry {
                state,
                generation: u32_at(entry, 32),
                len: u64_at(entry, 16),
                seq: u64_at(entry, 24),
                crc: u32_at(entry, 36),
            };
            self.runs.insert(run, known);
            match entry[41] & 1 {
                0 => self.unerased.remove(&run),
                _ => self.unerased.insert(run),
            };
        }
        (self.upto, self.life, self.salt) =
            (u64_at(bytes, 16), u64_at(bytes, 24), u32_at(bytes, 40));
        self.segments = u32_at(bytes, 44);
        self.expected = if expected.is_empty() { 0 } else { u64_at(expected, 0) };
        self.entries += count;
        Ok(HEADER + rest.len())
    }
}

/// Whether a bad frame at this place, the last one, was being written: the file ends before it does, or sectors of it
/// were never written.
fn is_unfinished(frame: &[u8], at: usize) -> bool {
    let written = frame.len() - frame.iter().rev().take_while(|byte| **byte == 0).count();
    let sectors = (at + written).next_multiple_of(SECTOR);
    if frame.len() < HEADER || written == 0 || sectors < at + frame.len() {
        return true;
    }
    let is_header = frame.starts_with(MAGIC) && header_crc(frame) == u32_at(frame, 12);
    let before = if u32_at(frame, 8) == 1 { 0 } else { EXPECTED };
    is_header && frame.len() < HEADER + before + u32_at(frame, 32) as usize * ENTRY
}

/// Reads all frames. A bad one at the end was being written when the process ended; a bad one before a good
/// one is damage.
pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<IndexState, LogError> {
    let mut state = IndexState::default();
    let mut at = 0;
    while at < bytes.len() {
        match state.take_frame(&bytes[at..]) {
            Ok(len) => at += len,
            Err(FrameFlaw::Newer(version)) => {
                return Err(LogError::Newer { path: path.to_path_buf(), version });
            }
            Err(FrameFlaw::Bad) => {
                let starts = memchr::memmem::find_iter(&bytes[at + 1..], MAGIC);
                let good = |start: usize| {
                    IndexState::default().take_frame(&bytes[at + 1 + start..]).is_ok()
                };
                if at == 0 || starts.into_iter().any(good) {
                    let offset = at as u64;
                    return Err(LogError::DamagedIndex { path: path.to_path_buf(), offset });
                }
                state.torn = true;
                state.is_end_damaged = !is_unfinished(&bytes[at..], at);
                break;
            }
        }
    }
    if at == 0 {
        return Err(LogError::DamagedIndex { path: path.to_path_buf(), offset: 0 });
    }
    state.len = at as u64;
    Ok(state)
}

/// The file of the index while the log is open.
#[derive(Clone)]
pub(crate) struct IndexFile {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

impl IndexFile {
    /// Reads it; `None` if there is none.
    pub(crate) fn load(
        disk: &dyn Disk,
        commit_dir: &Path,
    ) -> Result<Option<(IndexFile, IndexState)>, LogError> {
        let path = commit_dir.join("index");
        let file = match disk.open(&path, OpenMode::Write) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("open", &path, &error)),
        };
        let bytes = read_from(&*file, 0).doing("read", &path)?;
        let state = parse(&bytes, &path)?;
        Ok(Some((IndexFile { file, path, len: state.len }, state)))
    }

    /// Writes it anew beside the old one, which it then replaces.
    pub(crate) fn replace(
        disk: &dyn Disk,
        commit_dir: &Path,
        whole: &[u8],
    ) -> Result<IndexFile, LogError> {
        let (path, new) = (commit_dir.join("index"), commit_dir.join("index.new"));
        let file = disk.open(&new, OpenMode::Create).doing("make", &new)?;
        empty(&*file).doing("empty", &new)?;
        file.write_at(whole, 0).doing("write", &new)?;
        file.sync(Barrier::NewIndex).doing("sync", &new)?;
        disk.rename(&new, &path).doing("rename", &new)?;
        disk.sync_dir(commit_dir, Barrier::IndexName).doing("sync", commit_dir)?;
        Ok(IndexFile { file, path, len: whole.len() as u64 })
    }

    /// Adds a frame.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.file.write_at(frame, self.len).doing("write", &self.path)?;
        self.file.sync(Barrier::Index).doing("sync", &self.path)?;
        self.len += frame.len() as u64;
        Ok(())
    }
}
