//! The files of the commit log: which segment is written, which may be used again. It knows blocks by their
//! size and number only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::ALIGN;
use super::disk::{Barrier, Disk, DiskFile, OpenMode};
use super::error::{Doing, LogError};
use crate::mutation::Mutation;

/// How much is written at once while a segment is made.
const FILL: usize = 1 << 20;

/// One file of the commit log.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) name: u32,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    size: u64,
    /// The last block in it; 0 if it may be used.
    last_block: u64,
}

impl Segment {
    /// What a segment's file name says: its number, and the size it was made with.
    pub(crate) fn parse_name(file_name: &str) -> Option<(u32, u64)> {
        let (number, size) = file_name.strip_suffix(".seg")?.split_once('-')?;
        Some((number.parse().ok()?, size.parse().ok()?))
    }

    /// Opens all that are there, in order. Each is at least as long as its name says: it gets its name after
    /// that.
    pub(crate) fn open_all(
        disk: &dyn Disk,
        dir: &Path,
        at_least: u32,
        next_block: u64,
    ) -> Result<Vec<Segment>, LogError> {
        let mut list = Vec::new();
        for (file_name, size) in disk.list(dir).doing("list", dir)? {
            let path = dir.join(&file_name);
            if file_name.ends_with(".seg.new") {
                disk.remove(&path).doing("remove", &path)?;
            }
            let Some((name, made)) = Segment::parse_name(&file_name) else { continue };
            if size < made {
                return Err(LogError::DamagedCommitLog { path, offset: size, block: next_block });
            }
            let file = disk.open(&path, OpenMode::Write).doing("open", &path)?;
            list.push(Segment { name, path, file, size, last_block: 0 });
        }
        if (list.len() as u32) < at_least {
            let path = dir.to_path_buf();
            return Err(LogError::DamagedCommitLog { path, offset: 0, block: next_block });
        }
        list.sort_unstable_by_key(|segment| segment.name);
        Ok(list)
    }

    /// Makes one, full of zeros: a sync of a block in it then has no metadata to write.
    pub(crate) fn make(
        disk: &dyn Disk,
        dir: &Path,
        name: u32,
        size: u64,
    ) -> Result<Segment, LogError> {
        let path = dir.join(format!("{name:04}-{size}.seg"));
        let new = path.with_extension("seg.new");
        let file = disk.open(&new, OpenMode::Create).doing("make", &new)?;
        let name_it = || {
            disk.rename(&new, &path).doing("rename", &new)?;
            disk.sync_dir(dir, Barrier::SegmentName).doing("sync", dir)
        };
        if Mutation::SegmentNamedFirst.is_on() {
            name_it()?;
        }
        let zeros = vec![0; FILL.min(size as usize)];
        let mut at = 0;
        while at < size {
            let length = zeros.len().min((size - at) as usize);
            file.write_at(&zeros[..length], at).doing("write", &new)?;
            at += length as u64;
        }
        file.sync(Barrier::Segment).doing("sync", &new)?;
        if !Mutation::SegmentNamedFirst.is_on() {
            name_it()?;
        }
        Ok(Segment { name, path, file, size, last_block: 0 })
    }
}

/// All segments of a log that is open.
pub(crate) struct Segments {
    list: Vec<Segment>,
    current: usize,
    /// Where the next block goes in the current segment.
    at: u64,
    pub(crate) generation: u64,
    size: u64,
    next_name: u32,
    /// How many are being made.
    pub(crate) under_way: usize,
}

impl Segments {
    /// Segments that may all be used, the first of them at once.
    pub(crate) fn new(list: Vec<Segment>, generation: u64, size: u64) -> Segments {
        let size = size.next_multiple_of(ALIGN as u64);
        let next_name = list.iter().map(|segment| segment.name + 1).max().unwrap_or(0);
        Segments { list, current: 0, at: 0, generation, size, next_name, under_way: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// How many wait for a checkpoint before they can be used again.
    pub(crate) fn full(&self) -> usize {
        let others = self.list.iter().enumerate().filter(|(at, _)| *at != self.current);
        others.filter(|(_, segment)| segment.last_block != 0).count()
    }

    /// How many could be used next.
    pub(crate) fn free(&self) -> usize {
        let others = self.list.iter().enumerate().filter(|(at, _)| *at != self.current);
        others.filter(|(_, segment)| segment.last_block == 0).count()
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.at * 2 >= self.list[self.current].size
    }

    /// Name and size of a segment to be made. A name is not given twice: one may be made here and one in the
    /// background.
    pub(crate) fn new_name(&mut self) -> (u32, u64) {
        self.next_name += 1;
        self.under_way += 1;
        (self.next_name - 1, self.size)
    }

    pub(crate) fn add(&mut self, segment: Segment) {
        assert!(
            self.list.iter().all(|known| known.name != segment.name),
            "two segments of one name"
        );
        self.under_way -= 1;
        self.list.push(segment);
    }

    /// Is there room for a block where the last one ended? One that is too large for any segment lengthens
    /// an empty one.
    pub(crate) fn fits(&self, size: u64) -> bool {
        self.at == 0 || self.at + size <= self.list[self.current].size
    }

    /// Goes to a segment that may be used. False if there is none.
    pub(crate) fn turn(&mut self) -> bool {
        let count = self.list.len();
        let next = (1..count)
            .map(|step| (self.current + step) % count)
            .find(|at| self.list[*at].last_block == 0);
        let Some(next) = next else { return false };
        self.current = next;
        self.at = 0;
        self.generation += 1;
        true
    }

    pub(crate) fn write(&mut self, block: &[u8], number: u64) -> Result<(), LogError> {
        let segment = &mut self.list[self.current];
        segment.file.write_at(block, self.at).doing("write", &segment.path)?;
        self.at += block.len() as u64;
        segment.size = segment.size.max(self.at);
        segment.last_block = number;
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), LogError> {
        let segment = &self.list[self.current];
        segment.file.sync(Barrier::Block).doing("sync", &segment.path)
    }

    /// All blocks up to this one are in the run files for good.
    pub(crate) fn release(&mut self, upto: u64) {
        for segment in &mut self.list {
            if segment.last_block <= upto {
                segment.last_block = 0;
            }
        }
    }
}
