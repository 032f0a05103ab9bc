//! Finding the blocks of the commit log after a crash, and where they end. It changes nothing.

use std::collections::BTreeMap;

use super::block::{self, ALIGN, Block, HEADER, Header, Probe};
use super::disk::DiskFile;
use super::error::{Doing, LogError};
use super::segments::Segment;

/// A block that counts, and where it is.
pub(crate) struct Found {
    pub(crate) block: Block,
    pub(crate) segment: usize,
    /// Where its contents begin in the segment.
    pub(crate) content_at: u64,
    /// For each part: is its content what was written?
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
    /// Its segment.
    pub segment: std::path::PathBuf,
    /// Where it begins.
    pub offset: u64,
    /// Its number.
    pub block: u64,
}

/// All that the segments say.
pub(crate) struct Scan<'a> {
    segments: &'a [Segment],
    salt: u32,
    upto: u64,
    life: u64,
    found: BTreeMap<u64, Found>,
    /// Blocks whose header is good and whose table is not.
    headless: BTreeMap<u64, (usize, u64)>,
    /// Places where a block could have been begun.
    ends: Vec<(usize, u64)>,
    pub(crate) max_generation: u64,
    /// The highest number of a block of this life.
    newest: u64,
}

/// The blocks that count, in order, and what comes after them.
pub(crate) struct Chained {
    pub(crate) blocks: Vec<Found>,
    pub(crate) torn: Option<TornBlock>,
    /// Blocks behind a gap that nobody was told of.
    pub(crate) dropped: usize,
}

impl<'a> Scan<'a> {
    /// Reads all segments. Blocks up to `upto`, and of generations below `life`, do not count.
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
        // While blocks follow each other, their lengths lead from one to the next. After that every place
        // where a block can begin is looked at: behind a damaged one there may be more.
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

    /// Takes in a block, and gives its size; `None` if it cannot be.
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

    /// An error if the index says that there is a block of this number, and neither it nor a later one is there.
    pub(crate) fn check_expected(&self, block: u64) -> Result<(), LogError> {
        match self.newest < block {
            true => Err(self.damaged(block)),
            false => Ok(()),
        }
    }

    /// Puts the blocks in order. A missing or bad one is the end of the log if nobody was told that it is
    /// durable, and damage otherwise. `proven` says whether the files of the runs have a block's lines, which
    /// they only get when it is durable.
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

    /// Where a block was begun that cannot be read.
    fn torn_at(&self, number: u64) -> Result<Option<TornBlock>, LogError> {
        if let Some((segment, at)) = self.headless.get(&number) {
            return Ok(Some(self.place(*segment, *at, number)));
        }
        for (segment, at) in &self.ends {
            let Segment { file, path, .. } = &self.segments[*segment];
            let mut header = [0; HEADER];
            let is_read = filled(&**file, &mut header, *at).doing("read", path)?;
            // A good block there is an earlier one.
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

/// Reads until the buffer is full, and tells whether there was enough for that.
pub(crate) fn filled(file: &dyn DiskFile, buf: &mut [u8], at: u64) -> std::io::Result<bool> {
    match fill(file, buf, at) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        filled => filled.map(|()| true),
    }
}

/// Reads until the buffer is full.
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
