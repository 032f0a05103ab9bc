//! Finds the blocks of the commit log after a crash, and the end of the log. It changes nothing.

use std::collections::BTreeMap;

use super::block::{self, ALIGN, Block, HEADER, Header, Probe};
use super::disk::DiskFile;
use super::error::{Doing, LogError};
use super::segments::Segment;

/// A valid block and its location.
pub(crate) struct Found {
    pub(crate) block: Block,
    pub(crate) segment: usize,
    /// The offset of its contents in the segment.
    pub(crate) content_at: u64,
    /// Whether the content of each part is intact.
    pub(crate) intact: Vec<bool>,
}

impl Found {
    fn is_whole(&self) -> bool {
        self.intact.iter().all(|intact| *intact)
    }
}

/// A block that was being written when the process or the machine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornBlock {
    /// The path of its segment.
    pub segment: std::path::PathBuf,
    /// The offset of its beginning.
    pub offset: u64,
    /// Its number.
    pub block: u64,
}

/// The blocks found in all segments.
pub(crate) struct Scan<'a> {
    segments: &'a [Segment],
    salt: u32,
    upto: u64,
    life: u64,
    found: BTreeMap<u64, Found>,
    /// Blocks with a good header and a damaged table: segment and offset by number.
    headless: BTreeMap<u64, (usize, u64)>,
    /// Places where a block may have been begun, as segment and offset.
    ends: Vec<(usize, u64)>,
    pub(crate) max_generation: u64,
    /// The highest block number of this life.
    newest: u64,
}

/// The valid blocks in order, and what follows them.
pub(crate) struct Chained {
    pub(crate) blocks: Vec<Found>,
    pub(crate) torn: Option<TornBlock>,
    /// The number of blocks after a gap that had not been reported as durable.
    pub(crate) dropped: usize,
}

impl<'a> Scan<'a> {
    /// Reads all segments. Ignores blocks up to `upto`, and those of generations below `life`.
    pub(crate) fn new(
        segments: &'a [Segment],
        salt: u32,
        upto: u64,
        life: u64,
    ) -> Result<Scan<'a>, LogError> {
        let mut scan = Scan {
            segments,
            salt,
            upto,
            life,
            found: BTreeMap::new(),
            headless: BTreeMap::new(),
            ends: Vec::new(),
            max_generation: life,
            newest: 0,
        };
        for at in 0..segments.len() {
            scan.read_segment(at)?;
        }
        Ok(scan)
    }

    fn read_segment(&mut self, number: usize) -> Result<(), LogError> {
        let segment = &self.segments[number];
        let size = segment.file.size().doing("look at", &segment.path)?;
        // While blocks follow each other, the length of one leads to the next. After that, every
        // offset where a block can begin is tried, because there may be more behind a damaged one.
        let mut in_step = true;
        let mut at = 0;
        self.ends.push((number, 0));
        while at + (HEADER as u64) <= size {
            let mut header = [0; HEADER];
            fill(&*segment.file, &mut header, at).doing("read", &segment.path)?;
            let step = match block::probe(self.salt, &header) {
                Probe::Newer(version) => {
                    return Err(LogError::Newer { path: segment.path.clone(), version });
                }
                Probe::Block(header) => self.take(number, at, size, &header)?,
                Probe::Nothing => None,
            };
            match step {
                Some(step) if in_step => at += step,
                _ => {
                    if in_step {
                        self.ends.push((number, at));
                    }
                    in_step = false;
                    at += ALIGN as u64;
                }
            }
        }
        Ok(())
    }

    /// Adds a block, and returns its size; `None` if it doesn't fit into the segment.
    fn take(
        &mut self,
        number: usize,
        at: u64,
        end: u64,
        header: &Header,
    ) -> Result<Option<u64>, LogError> {
        if header.head.generation >= self.life {
            self.newest = self.newest.max(header.head.number);
        }
        let size = header.size().filter(|size| at.checked_add(*size).is_some_and(|to| to <= end));
        let Some(size) = size else { return Ok(None) };
        self.max_generation = self.max_generation.max(header.head.generation);
        if header.head.number <= self.upto || header.head.generation < self.life {
            return Ok(Some(size));
        }
        let segment = &self.segments[number];
        let mut bytes = vec![0; size as usize - HEADER];
        fill(&*segment.file, &mut bytes, at + HEADER as u64).doing("read", &segment.path)?;
        let (table, contents) = bytes.split_at(header.table_len());
        let Some(block) = block::table(self.salt, header, table) else {
            self.headless.insert(header.head.number, (number, at));
            return Ok(Some(size));
        };
        let mut rest = contents;
        let intact = block.parts.iter().map(|part| {
            let (content, after) = rest.split_at(part.len);
            rest = after;
            crc32c::crc32c(content) == part.crc
        });
        let intact = intact.collect();
        let content_at = at + (HEADER + table.len()) as u64;
        let found = Found { block, segment: number, content_at, intact };
        self.found.insert(header.head.number, found);
        Ok(Some(size))
    }

    /// Fails if the index expects a block with this number and neither it nor a later one exists.
    pub(crate) fn check_expected(&self, block: u64) -> Result<(), LogError> {
        match self.newest < block {
            true => Err(self.damaged(block)),
            false => Ok(()),
        }
    }

    /// Puts the blocks in order. A missing or bad block is the end of the log if it had not been
    /// reported as durable, and damage otherwise. `proven` tells whether run files contain a
    /// block's lines, which are written there only once the block is durable.
    pub(crate) fn chain(
        mut self,
        mut proven: impl FnMut(&Found) -> Result<bool, LogError>,
    ) -> Result<Chained, LogError> {
        let told = self.found.values().map(|found| found.block.head.durable).max().unwrap_or(0);
        let mut blocks: Vec<Found> = Vec::new();
        let mut next = self.upto + 1;
        let torn = loop {
            match self.found.remove(&next) {
                Some(found) if found.is_whole() || next <= told || proven(&found)? => {
                    blocks.push(found);
                }
                Some(found) => {
                    let header = HEADER + found.block.parts.len() * block::PART;
                    break Some(self.place(found.segment, found.content_at - header as u64, next));
                }
                None if next <= told => return Err(self.damaged(next)),
                None => break self.torn_at(next)?,
            }
            next += 1;
        };
        Ok(Chained { blocks, torn, dropped: self.found.len() })
    }

    fn place(&self, segment: usize, offset: u64, block: u64) -> TornBlock {
        TornBlock { segment: self.segments[segment].path.clone(), offset, block }
    }

    /// Finds the beginning of a block that cannot be read.
    fn torn_at(&self, number: u64) -> Result<Option<TornBlock>, LogError> {
        if let Some((segment, at)) = self.headless.get(&number) {
            return Ok(Some(self.place(*segment, *at, number)));
        }
        for (segment, at) in &self.ends {
            let Segment { file, path, .. } = &self.segments[*segment];
            let mut header = [0; HEADER];
            let is_read = filled(&**file, &mut header, *at).doing("read", path)?;
            // A good block at this place is an earlier one.
            if !is_read || block::probe(self.salt, &header) != Probe::Nothing {
                continue;
            }
            let generations = self.max_generation..=self.max_generation + 1;
            if generations.into_iter().any(|known| block::was_meant(&header, known, number)) {
                return Ok(Some(TornBlock { segment: path.clone(), offset: *at, block: number }));
            }
        }
        Ok(None)
    }

    fn damaged(&self, number: u64) -> LogError {
        let torn = self.torn_at(number).ok().flatten();
        let (path, offset) = match torn {
            Some(torn) => (torn.segment, torn.offset),
            // A damaged index can expect a block where there is no segment.
            None => (self.segments.first().map_or("commit".into(), |first| first.path.clone()), 0),
        };
        LogError::DamagedCommitLog { path, offset, block: number }
    }
}

/// Reads until the buffer is full. Returns false if the file ends before that.
pub(crate) fn filled(file: &dyn DiskFile, buf: &mut [u8], at: u64) -> std::io::Result<bool> {
    match fill(file, buf, at) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        filled => filled.map(|()| true),
    }
}

/// Reads until the buffer is full. Fails if the file ends before that.
pub(crate) fn fill(file: &dyn DiskFile, mut buf: &mut [u8], mut at: u64) -> std::io::Result<()> {
    while !buf.is_empty() {
        match file.read_at(buf, at)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => {
                buf = &mut buf[count..];
                at += count as u64;
            }
        }
    }
    Ok(())
}
