//! Reads lines of a run's file by number. The lines have been checked before, so it only checks
//! that the file is still the one that was indexed.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use tiffany_kernel::Uuid;

use crate::run_index::index::Index;
use tiffany_log::{BlobHash, LogError, LogLine, RealDisk, open_generation, read_blob};

/// The number of bytes per read.
const PIECE: u64 = 1 << 20;

/// The reason why lines can't be returned.
pub(crate) enum Moved {
    /// The file is now of another generation.
    Generation,
    Log(LogError),
}

impl From<LogError> for Moved {
    fn from(error: LogError) -> Moved {
        Moved::Log(error)
    }
}

/// The lines of one generation of a run.
pub(crate) struct Lines<'a> {
    root: &'a Path,
    run: Uuid,
    generation: u32,
    file: OnceCell<File>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(root: &'a Path, run: Uuid, generation: u32) -> Lines<'a> {
        Lines { root, run, generation, file: OnceCell::new() }
    }

    /// Reads a blob that a record references.
    pub(crate) fn blob(&self, hash: BlobHash) -> Result<Vec<u8>, LogError> {
        read_blob(&RealDisk, self.root, hash)
    }

    /// Passes records to `each`, in order, from one number to another (inclusive), until it has
    /// enough.
    pub(crate) fn each(
        &self,
        index: &Index,
        from: u64,
        to: u64,
        mut each: impl FnMut(&LogLine<'_>) -> Going,
    ) -> Result<(), Moved> {
        let mut from = from.max(1);
        while from <= to {
            let upto = index.piece(from, to, PIECE);
            let text = self.text(index, from, upto)?;
            for line in text.split_inclusive('\n') {
                let record = LogLine::of_checked(line).ok_or(Moved::Generation)?;
                if let Going::Enough = each(&record) {
                    return Ok(());
                }
            }
            from = upto + 1;
        }
        Ok(())
    }

    /// Passes records to `each`, in reverse order, between two numbers (inclusive), until it has
    /// enough.
    pub(crate) fn each_back(
        &self,
        index: &Index,
        from: u64,
        to: u64,
        mut each: impl FnMut(&LogLine<'_>) -> Going,
    ) -> Result<(), Moved> {
        let mut to = to;
        while to >= from.max(1) {
            let first = index.piece_back(from.max(1), to, PIECE);
            let text = self.text(index, first, to)?;
            for line in text.split_inclusive('\n').rev() {
                let record = LogLine::of_checked(line).ok_or(Moved::Generation)?;
                if let Going::Enough = each(&record) {
                    return Ok(());
                }
            }
            to = first - 1;
        }
        Ok(())
    }

    fn file(&self) -> Result<&File, Moved> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = open_generation(self.root, self.run, self.generation)?;
        let file = file.ok_or(Moved::Generation)?;
        Ok(self.file.get_or_init(|| file))
    }

    fn text(&self, index: &Index, from: u64, to: u64) -> Result<String, Moved> {
        let (file, begin, end) = (self.file()?, index.begin(from), index.end(to));
        let mut bytes = vec![0; usize::try_from(end - begin).unwrap_or(0)];
        match file.read_exact_at(&mut bytes, begin) {
            Ok(()) => String::from_utf8(bytes).map_err(|_| Moved::Generation),
            // A file that is shorter than before is another one.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Moved::Generation),
            Err(error) => Err(LogError::io("read", self.root, &error).into()),
        }
    }
}

/// Whether to continue with the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    On,
    Enough,
}
