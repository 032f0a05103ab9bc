//! The index: the end of every run at the last checkpoint. It is a file of frames: the first one
//! has all runs, later ones only changes, and from time to time the file is rewritten. It makes the
//! time for opening a log independent of how much was ever logged.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::disk::{Barrier, Disk, DiskFile, OpenMode, empty, read_from};
use super::error::{Doing, LogError};
use super::line::Chain;

const MAGIC: &[u8; 8] = b"\x89TFYIDX\n";
/// The version of frames that name a block which must exist. Other frames have version 1, so older
/// programs can read a log that was closed.
const VERSION: u32 = 2;
const HEADER: usize = 48;
/// The length of the block number that frames of version 2 have before their entries.
const EXPECTED: usize = 8;
const ENTRY: usize = 48;
/// The number of bytes that a medium writes completely or not at all.
const SECTOR: usize = 512;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run is resumed when the log is opened.
    Live,
    /// The run is finished; its file still exists.
    Finished,
    /// The run was removed; only its UUID is known.
    Removed,
}

/// The last known end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEntry {
    /// Whether the run is live, finished or removed.
    pub state: RunState,
    /// The generation of its file.
    pub generation: u32,
    /// The number of committed bytes in its file.
    pub len: u64,
    /// The sequence number of its last line.
    pub seq: u64,
    /// The checksum of its last line.
    pub crc: u32,
}

impl RunEntry {
    /// Returns the chain that the next line of the run continues.
    pub fn chain(&self, run: Uuid) -> Chain {
        Chain::at(run, self.generation, self.seq, self.crc).with_bytes(self.len)
    }
}

/// The combined contents of all frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexState {
    pub(crate) runs: HashMap<Uuid, RunEntry>,
    /// Runs that were removed or compacted and whose lines or blobs may not have been erased yet.
    pub(crate) unerased: BTreeSet<Uuid>,
    /// The last block whose lines, like those of all blocks before it, are in the run files and
    /// synced.
    pub(crate) upto: u64,
    /// The lowest generation of blocks that count. Lower ones were written before the last opening.
    pub(crate) life: u64,
    /// A random number that is part of all checksums of the commit log, so that no payload can pass
    /// for a block.
    pub(crate) salt: u32,
    /// The minimum number of segments.
    pub(crate) segments: u32,
    /// The number of a block such that it or a later one is in the segments; 0 if the index doesn't
    /// say.
    pub(crate) expected: u64,
    /// The offset of the end of the last good frame.
    pub(crate) len: u64,
    /// The number of entries in all frames, including duplicates.
    pub(crate) entries: usize,
    /// Whether the last frame can't be read.
    pub(crate) torn: bool,
    /// Whether that frame is complete, and so was not being written when the process ended or the
    /// power failed.
    pub(crate) is_end_damaged: bool,
    /// Whether there was no index.
    pub(crate) is_new: bool,
}

/// The contents of a frame to be written.
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
    /// Applies the frame at the beginning of `bytes`, and returns its length.
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

/// Returns whether a bad last frame, at this offset, was still being written: the file ends before
/// the frame does, or some of its sectors were never written.
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

/// Parses all frames. A bad frame at the end was being written when the process ended; a bad frame
/// before a good one is damage.
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

/// The open file of the index.
#[derive(Clone)]
pub(crate) struct IndexFile {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

impl IndexFile {
    /// Opens and parses the index of a log; `None` if there is none.
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

    /// Writes a complete index next to the old one, and then replaces it.
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

    /// Appends a frame and syncs it.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.file.write_at(frame, self.len).doing("write", &self.path)?;
        self.file.sync(Barrier::Index).doing("sync", &self.path)?;
        self.len += frame.len() as u64;
        Ok(())
    }
}
