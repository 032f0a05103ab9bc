//! Copies the lines of a run from one file to another, and checks each line before it is written.

use std::collections::BTreeSet;
use std::path::Path;

use memchr::memmem;
use tiffany_kernel::Uuid;

use super::super::blob::BlobHash;
use super::super::disk::DiskFile;
use super::super::error::{Doing, LogError};
use super::super::line::Chain;
use super::super::read::{Broken, Checker, Flaw, LogLine, Payload};
use super::manifest::End;
use super::pace::Pace;

/// The number of bytes per read.
const CHUNK: usize = 1 << 18;

/// A range of a run's lines, and the file that contains them.
pub(super) struct Lines<'a> {
    pub run: Uuid,
    pub(super) generation: u32,
    /// The end of the line before the first one.
    pub(super) from: End,
    /// The end of the last line.
    pub(super) to: End,
    pub(super) file: &'a dyn DiskFile,
    pub(super) path: &'a Path,
}

/// The result of checking lines.
pub(super) struct Passed {
    /// The end of the last good line.
    pub(super) end: End,
    /// The blobs that the good lines reference.
    pub blobs: BTreeSet<BlobHash>,
    /// What is wrong after the last good line, if anything.
    pub(super) broken: Option<Broken>,
}

impl Lines<'_> {
    /// Checks each line, and passes good ones to `good` as `(bytes, offset in the file)`.
    pub(super) fn pass(
        &self,
        pace: &mut Pace<'_>,
        mut good: impl FnMut(&[u8], u64) -> Result<(), LogError>,
    ) -> Result<Passed, LogError> {
        let mut checker = match self.from.seq {
            0 => Checker::new(Some(self.run)),
            _ => {
                let chain = Chain::at(self.run, self.generation, self.from.seq, self.from.crc);
                Checker::after(chain, self.from.len)
            }
        };
        let mut end = self.from;
        let mut blobs = BTreeSet::new();
        let mut buffer = vec![0; CHUNK];
        // The number of bytes in the buffer; those before them were passed on.
        let mut filled = 0;
        loop {
            let place = end.len + filled as u64;
            let room = usize::try_from(self.to.len - place).unwrap_or(usize::MAX);
            let room = room.min(buffer.len() - filled);
            let count = match room {
                0 => 0,
                _ => {
                    let into = &mut buffer[filled..filled + room];
                    self.file.read_at(into, place).doing("read", self.path)?
                }
            };
            filled += count;
            let (checked, broken) = check(&mut checker, &buffer[..filled], &mut blobs);
            if checked > 0 {
                good(&buffer[..checked], end.len)?;
                let chain = checker.chain().expect("a line was good");
                let len = end.len + checked as u64;
                end = End { len, seq: chain.seq(), crc: chain.crc() };
                buffer.copy_within(checked..filled, 0);
                filled -= checked;
                pace.did(checked as u64).doing("copy", self.path)?;
            }
            if broken.is_some() {
                return Ok(Passed { end, blobs, broken });
            }
            if count == 0 {
                // The line is longer than the buffer, or the range ends here.
                if filled == buffer.len() && end.len + (filled as u64) < self.to.len {
                    buffer.resize(filled * 2, 0);
                    continue;
                }
                let generation = checker.chain().map(Chain::generation);
                let fits = end == self.to && generation.is_none_or(|g| g == self.generation);
                let broken = (!fits).then(|| checker.broken(Flaw::Missing));
                return Ok(Passed { end, blobs, broken });
            }
        }
    }
}

/// Returns the number of bytes in good lines, and what is wrong with the line after them.
fn check(
    checker: &mut Checker,
    bytes: &[u8],
    blobs: &mut BTreeSet<BlobHash>,
) -> (usize, Option<Broken>) {
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        match checker.check(&bytes[from..=end]) {
            Ok(record) => note_blobs(&record, blobs),
            Err(broken) => return (from, Some(broken)),
        }
        from = end + 1;
    }
    (from, None)
}

fn note_blobs(record: &LogLine<'_>, blobs: &mut BTreeSet<BlobHash>) {
    if memmem::find(record.json.as_bytes(), b"{\"$blob\":").is_none() {
        return;
    }
    for (name, _) in record.fields() {
        if let Some(Payload::Blob { hash, .. }) = record.payload(name) {
            blobs.insert(hash);
        }
    }
}
