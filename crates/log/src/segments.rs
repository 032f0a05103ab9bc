//! The files of the commit log: which segment is being written, and which ones can be reused. It
//! knows only the size and number of blocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::block::ALIGN;
use super::disk::{Barrier, Disk, DiskFile, OpenMode};
use super::error::{Doing, LogError};
use super::scan::fill;

/// The number of bytes per write while a segment is created.
const FILL: usize = 1 << 20;

/// One file of the commit log.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) name: u32,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    size: u64,
    /// The size it was created with. It is larger while it holds a block that is larger.
    made: u64,
    /// The number of the last block in it; 0 if it can be reused.
    last_block: u64,
    /// The number of the oldest block that may have left bytes in it; 0 if it is full of zeros.
    oldest: u64,
    /// The offset from which on it contains only zeros.
    used: u64,
    /// Whether the background thread is overwriting it.
    is_being_erased: bool,
}

/// The next step of an erasure, which removes all traces of some blocks from the segments.
pub(crate) enum ErasureStep {
    /// This segment must be overwritten.
    Overwrite(Segment),
    /// A checkpoint must be made, so that a segment with such blocks is not needed any more.
    Checkpoint,
    /// A new segment must be made to replace the current one.
    NewSegment,
    /// A step that has begun must complete.
    Wait,
    Done,
}

impl Segment {
    /// Parses the number and the original size of a segment from its file name.
    pub(crate) fn parse_name(file_name: &str) -> Option<(u32, u64)> {
        let (number, size) = file_name.strip_suffix(".seg")?.split_once('-')?;
        Some((number.parse().ok()?, size.parse().ok()?))
    }

    /// Opens all existing segments in order. Each is at least as long as its name says, because it
    /// gets its name after its bytes.
    pub(crate) fn open_all(
        disk: &dyn Disk,
        dir: &Path,
        at_least: u32,
        next_block: u64,
    ) -> Result<Vec<Segment>, LogError> {
        // Listings leave out what is not a file. In the place of a segment, it would hide blocks.
        for file_name in disk.others(dir).doing("list", dir)? {
            if Segment::parse_name(&file_name).is_some() {
                let path = dir.join(file_name);
                disk.open(&path, OpenMode::Read).doing("open", &path)?;
            }
        }
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
            // The blocks that an earlier process left in it are not known.
            let segment = Segment { size, ..Segment::new(name, path, file, made) };
            list.push(Segment { oldest: 1, used: size, ..segment });
        }
        if (list.len() as u32) < at_least {
            let path = dir.to_path_buf();
            return Err(LogError::DamagedCommitLog { path, offset: 0, block: next_block });
        }
        list.sort_unstable_by_key(|segment| segment.name);
        Ok(list)
    }

    /// Creates a segment full of zeros, so that syncing a block in it writes no metadata.
    pub(crate) fn make(
        disk: &dyn Disk,
        dir: &Path,
        name: u32,
        size: u64,
    ) -> Result<Segment, LogError> {
        let path = dir.join(format!("{name:04}-{size}.seg"));
        let new = path.with_extension("seg.new");
        let file = disk.open(&new, OpenMode::Create).doing("make", &new)?;
        let zeros = vec![0; FILL.min(size as usize)];
        let mut at = 0;
        while at < size {
            let length = zeros.len().min((size - at) as usize);
            file.write_at(&zeros[..length], at).doing("write", &new)?;
            at += length as u64;
        }
        file.sync(Barrier::Segment).doing("sync", &new)?;
        disk.rename(&new, &path).doing("rename", &new)?;
        disk.sync_dir(dir, Barrier::SegmentName).doing("sync", dir)?;
        Ok(Segment::new(name, path, file, size))
    }

    /// Makes the value for a segment that is full of zeros.
    fn new(name: u32, path: PathBuf, file: Arc<dyn DiskFile>, made: u64) -> Segment {
        let (size, last_block, oldest, used, is_being_erased) = (made, 0, 0, 0, false);
        Segment { name, path, file, size, made, last_block, oldest, used, is_being_erased }
    }

    /// Overwrites everything that was ever written to it with zeros, and restores its original
    /// size. None of its blocks may be needed.
    pub(crate) fn erase(&self) -> Result<(), LogError> {
        if self.file.size().doing("look at", &self.path)? > self.made {
            self.file.set_size(self.made).doing("cut", &self.path)?;
        }
        let end = self.used.min(self.made);
        let zeros = vec![0; FILL.min(end as usize)];
        let mut there = zeros.clone();
        let mut at = 0;
        while at < end {
            let length = zeros.len().min((end - at) as usize);
            fill(&*self.file, &mut there[..length], at).doing("read", &self.path)?;
            if there[..length] != zeros[..length] {
                self.file.write_at(&zeros[..length], at).doing("write", &self.path)?;
            }
            at += length as u64;
        }
        self.file.sync(Barrier::Erased).doing("sync", &self.path)
    }

    fn become_erased(&mut self) {
        (self.oldest, self.used, self.size, self.is_being_erased) = (0, 0, self.made, false);
    }

    /// Returns whether blocks up to this one may have left bytes in it.
    fn has_any_upto(&self, upto: u64) -> bool {
        self.oldest != 0 && self.oldest <= upto
    }

    fn is_free(&self) -> bool {
        self.last_block == 0 && !self.is_being_erased
    }
}

/// All segments of an open log.
pub(crate) struct Segments {
    list: Vec<Segment>,
    current: usize,
    /// The offset of the next block in the current segment, and the number of the first block in
    /// it; 0 if there is none.
    at: u64,
    first_block: u64,
    pub(crate) generation: u64,
    size: u64,
    next_name: u32,
    /// The number of segments that are being created.
    pub(crate) under_way: usize,
}

impl Segments {
    /// Starts with segments that can all be reused, the first of them as the current one.
    pub(crate) fn new(list: Vec<Segment>, generation: u64, size: u64) -> Segments {
        let size = size.next_multiple_of(ALIGN as u64);
        let next_name = list.iter().map(|segment| segment.name + 1).max().unwrap_or(0);
        let (current, at, first_block, under_way) = (0, 0, 0, 0);
        Segments { list, current, at, first_block, generation, size, next_name, under_way }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the number of segments that can be reused only after a checkpoint.
    pub(crate) fn full(&self) -> usize {
        let others = self.list.iter().enumerate().filter(|(at, _)| *at != self.current);
        others.filter(|(_, segment)| segment.last_block != 0).count()
    }

    /// Returns the number of segments that can be used next.
    pub(crate) fn free(&self) -> usize {
        let others = self.list.iter().enumerate().filter(|(at, _)| *at != self.current);
        others.filter(|(_, segment)| segment.is_free()).count()
    }

    pub(crate) fn is_half_full(&self) -> bool {
        self.at * 2 >= self.list[self.current].size
    }

    /// Returns the name and size of a segment to be created. Names are unique, because one may be
    /// created here and another in the background at the same time.
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

    /// Returns whether a block of this size fits after the last one. A block that is too large for
    /// any segment extends an empty one.
    pub(crate) fn fits(&self, size: u64) -> bool {
        self.at == 0 || self.at + size <= self.list[self.current].size
    }

    /// Switches to a segment that can be reused. Returns false if there is none.
    pub(crate) fn turn(&mut self) -> bool {
        let count = self.list.len();
        let next = (1..count)
            .map(|step| (self.current + step) % count)
            .find(|at| self.list[*at].is_free());
        let Some(next) = next else { return false };
        self.begin(next);
        true
    }

    /// Returns the first block of the current segment; 0 if it has none yet.
    pub(crate) fn first_block(&self) -> u64 {
        self.first_block
    }

    /// Makes this segment the current one, to be written from its beginning.
    fn begin(&mut self, segment: usize) {
        (self.current, self.at, self.first_block) = (segment, 0, 0);
        self.generation += 1;
    }

    pub(crate) fn write(&mut self, block: &[u8], number: u64) -> Result<(), LogError> {
        let segment = &mut self.list[self.current];
        segment.file.write_at(block, self.at).doing("write", &segment.path)?;
        if self.at == 0 {
            self.first_block = number;
        }
        self.at += block.len() as u64;
        segment.size = segment.size.max(self.at);
        segment.used = segment.used.max(self.at);
        segment.last_block = number;
        if segment.oldest == 0 {
            segment.oldest = number;
        }
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), LogError> {
        let segment = &self.list[self.current];
        segment.file.sync(Barrier::Block).doing("sync", &segment.path)
    }

    /// Releases blocks up to this one, which are in the run files for good. A segment that was
    /// extended for a large block shrinks to its original size.
    pub(crate) fn release(&mut self, upto: u64) -> Result<(), LogError> {
        for (at, segment) in self.list.iter_mut().enumerate() {
            if segment.last_block <= upto {
                segment.last_block = 0;
            }
            let is_unused = segment.is_free() && (at != self.current || self.at == 0);
            if is_unused && segment.size > segment.made {
                segment.file.set_size(segment.made).doing("cut", &segment.path)?;
                segment.size = segment.made;
            }
        }
        Ok(())
    }

    /// Returns whether the current segment must be erased and there is another one to switch to.
    pub(crate) fn can_leave(&self, upto: u64) -> bool {
        self.list[self.current].has_any_upto(upto) && self.place_without(upto).is_some()
    }

    fn place_without(&self, upto: u64) -> Option<usize> {
        let usable = |segment: &Segment| segment.is_free() && !segment.has_any_upto(upto);
        (0..self.list.len()).find(|at| *at != self.current && usable(&self.list[*at]))
    }

    /// Leaves the current segment, in which everything is durable.
    pub(crate) fn leave(&mut self, upto: u64) {
        if let Some(next) = self.place_without(upto) {
            self.begin(next);
        }
    }

    /// Returns the next step towards erasing all traces of blocks up to this one.
    pub(crate) fn erasure_step(&mut self, upto: u64) -> ErasureStep {
        if self.list.iter().any(|segment| segment.is_being_erased) {
            return ErasureStep::Wait;
        }
        let current = self.current;
        let mut others = self.list.iter_mut().enumerate().filter(|(at, _)| *at != current);
        if let Some((_, segment)) =
            others.find(|(_, segment)| segment.is_free() && segment.has_any_upto(upto))
        {
            segment.is_being_erased = true;
            return ErasureStep::Overwrite(segment.clone());
        }
        let left = |at: usize| self.list[at].has_any_upto(upto);
        match (0..self.list.len()).filter(|at| *at != current).any(left) {
            true => ErasureStep::Checkpoint,
            false if left(current) => ErasureStep::NewSegment,
            false => ErasureStep::Done,
        }
    }

    /// Notes that the segment with this name was overwritten.
    pub(crate) fn erased(&mut self, name: u32) {
        for segment in self.list.iter_mut().filter(|segment| segment.name == name) {
            segment.become_erased();
        }
    }

    /// Overwrites all segments, none of which is needed, and starts again with the first. Returns
    /// the number of segments that were not empty.
    pub(crate) fn erase_all(&mut self) -> Result<u64, LogError> {
        let mut count = 0;
        for segment in self.list.iter_mut().filter(|segment| segment.oldest != 0) {
            assert_eq!(segment.last_block, 0, "a segment that is needed is not erased");
            segment.erase()?;
            segment.become_erased();
            count += 1;
        }
        self.begin(self.current);
        Ok(count)
    }
}
