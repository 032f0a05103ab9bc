//! The bytes of a block, the unit of the commit log: a header, a table of parts, and their
//! contents. This module only encodes and decodes them; `recover.rs` interprets them.

use tiffany_kernel::Uuid;

use super::batch::Batch;
use super::blob::BlobHash;

/// The alignment of blocks, so that writing one never touches a sector of another.
pub(crate) const ALIGN: usize = 4096;
pub(crate) const HEADER: usize = 64;
pub(crate) const PART: usize = 72;
const MAGIC: &[u8; 8] = b"\x89TFYBLK\n";
const VERSION: u32 = 1;

/// The identity of a block, from its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The generation of the segment's use. It grows each time a segment is reused or the log is
    /// opened, which tells blocks of earlier uses apart.
    pub(crate) generation: u64,
    /// The number of the block, consecutive over all segments.
    pub(crate) number: u64,
    /// The last block known to be durable when this one was written.
    pub(crate) durable: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Lines {
        run: Uuid,
        generation: u32,
        crc_before: u32,
        crc_after: u32,
        /// The offset in the run's file.
        offset: u64,
        first_seq: u64,
        last_seq: u64,
        finishes: bool,
    },
    Blob(BlobHash),
    Remove(Uuid),
}

/// The table entry of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) kind: PartKind,
    pub(crate) len: usize,
    pub(crate) crc: u32,
}

/// The header and the table of a block that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) head: Head,
    pub(crate) parts: Vec<Part>,
    pub(crate) content_len: u64,
}

/// The fields of a header that are known before the table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) head: Head,
    pub(crate) content_len: u64,
    pub(crate) parts: u32,
    table_crc: u32,
}

impl Header {
    pub(crate) fn table_len(&self) -> usize {
        self.parts as usize * PART
    }

    /// Returns the size of the whole block with its padding, in bytes; `None` on overflow.
    pub(crate) fn size(&self) -> Option<u64> {
        let bare = self.content_len.checked_add((HEADER + self.table_len()) as u64)?;
        bare.checked_next_multiple_of(ALIGN as u64)
    }
}

/// The meaning of 64 bytes that should be a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Block(Header),
    Newer(u64),
    Nothing,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn uuid_at(bytes: &[u8], at: usize) -> Uuid {
    Uuid(u128::from_be_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes")))
}

fn header_crc(salt: u32, header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(salt, &header[..12]), &header[16..HEADER])
}

/// Returns the size of the block for a batch, in bytes.
pub(crate) fn size(batch: &Batch) -> u64 {
    let parts = batch.parts.len() + batch.blobs.len() + batch.removed.len();
    (HEADER + parts * PART + batch.len()).next_multiple_of(ALIGN) as u64
}

/// Encodes a block into `out`. `offsets` are the offsets of the batch's lines in their files.
pub(crate) fn encode(out: &mut Vec<u8>, salt: u32, head: Head, batch: &Batch, offsets: &[u64]) {
    out.clear();
    out.resize(HEADER, 0);
    let mut lines = batch.lines.as_slice();
    for (hash, content) in &batch.blobs {
        push_part(out, 1, 0, content, |body| body[..32].copy_from_slice(&hash.0));
    }
    for (part, offset) in batch.parts.iter().zip(offsets) {
        let (content, rest) = lines.split_at(part.len);
        lines = rest;
        push_part(out, 0, u8::from(part.finishes), content, |body| {
            body[..16].copy_from_slice(&part.run.0.to_be_bytes());
            body[16..20].copy_from_slice(&part.generation.to_le_bytes());
            body[20..24].copy_from_slice(&part.crc_before.to_le_bytes());
            body[24..28].copy_from_slice(&part.crc_after.to_le_bytes());
            body[32..40].copy_from_slice(&offset.to_le_bytes());
            body[40..48].copy_from_slice(&part.first_seq.to_le_bytes());
            body[48..56].copy_from_slice(&part.last_seq.to_le_bytes());
        });
    }
    for run in &batch.removed {
        push_part(out, 2, 0, &[], |body| body[..16].copy_from_slice(&run.0.to_be_bytes()));
    }
    let parts = (out.len() - HEADER) / PART;
    let table_crc = crc32c::crc32c_append(salt, &out[HEADER..]);
    let lines_len = batch.lines.len() - lines.len();
    batch.blobs.iter().for_each(|(_, content)| out.extend_from_slice(content));
    out.extend_from_slice(&batch.lines[..lines_len]);
    let content_len = (batch.blob_bytes + lines_len) as u64;
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    let header = &mut out[..HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&head.generation.to_le_bytes());
    header[24..32].copy_from_slice(&head.number.to_le_bytes());
    header[32..40].copy_from_slice(&head.durable.to_le_bytes());
    header[40..48].copy_from_slice(&content_len.to_le_bytes());
    header[48..52].copy_from_slice(&(parts as u32).to_le_bytes());
    header[52..56].copy_from_slice(&table_crc.to_le_bytes());
    let crc = header_crc(salt, header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
}

fn push_part(out: &mut Vec<u8>, kind: u8, flags: u8, content: &[u8], fill: impl FnOnce(&mut [u8])) {
    let at = out.len();
    out.resize(at + PART, 0);
    let part = &mut out[at..];
    part[0] = kind;
    part[1] = flags;
    part[4..8].copy_from_slice(&crc32c::crc32c(content).to_le_bytes());
    part[8..16].copy_from_slice(&(content.len() as u64).to_le_bytes());
    fill(&mut part[16..]);
}

/// Reads a header.
pub(crate) fn probe(salt: u32, bytes: &[u8]) -> Probe {
    if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
        return Probe::Nothing;
    }
    if header_crc(salt, bytes) != u32_at(bytes, 12) {
        return Probe::Nothing;
    }
    let version = u32_at(bytes, 8);
    if version > VERSION {
        return Probe::Newer(u64::from(version));
    }
    Probe::Block(Header {
        head: Head {
            generation: u64_at(bytes, 16),
            number: u64_at(bytes, 24),
            durable: u64_at(bytes, 32),
        },
        content_len: u64_at(bytes, 40),
        parts: u32_at(bytes, 48),
        table_crc: u32_at(bytes, 52),
    })
}

/// Returns whether these bytes were meant to be a certain block. Two of three marks must match, so
/// that one changed byte does not hide a block, and the remains of an earlier use don't count as
/// one.
pub(crate) fn was_meant(bytes: &[u8], generation: u64, number: u64) -> bool {
    if bytes.len() < HEADER {
        return false;
    }
    let marks =
        [bytes.starts_with(MAGIC), u64_at(bytes, 16) == generation, u64_at(bytes, 24) == number];
    marks.iter().filter(|mark| **mark).count() >= 2
}

/// Parses a table; `None` if it is damaged.
pub(crate) fn table(salt: u32, header: &Header, bytes: &[u8]) -> Option<Block> {
    if crc32c::crc32c_append(salt, bytes) != header.table_crc {
        return None;
    }
    let parts: Option<Vec<Part>> = bytes.chunks_exact(PART).map(read_part).collect();
    let parts = parts?;
    let sum = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.len as u64))?;
    (sum == header.content_len).then_some(Block {
        head: header.head,
        parts,
        content_len: header.content_len,
    })
}

fn read_part(bytes: &[u8]) -> Option<Part> {
    let body = &bytes[16..];
    let kind = match bytes[0] {
        0 => PartKind::Lines {
            run: uuid_at(body, 0),
            generation: u32_at(body, 16),
            crc_before: u32_at(body, 20),
            crc_after: u32_at(body, 24),
            offset: u64_at(body, 32),
            first_seq: u64_at(body, 40),
            last_seq: u64_at(body, 48),
            finishes: bytes[1] & 1 != 0,
        },
        1 => PartKind::Blob(BlobHash(body[..32].try_into().ok()?)),
        2 => PartKind::Remove(uuid_at(body, 0)),
        _ => return None,
    };
    Some(Part { kind, len: usize::try_from(u64_at(bytes, 8)).ok()?, crc: u32_at(bytes, 4) })
}
