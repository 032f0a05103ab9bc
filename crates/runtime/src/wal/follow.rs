//! Going on with a run's file while somebody else writes it. It waits for nothing: who follows asks again later.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tiffany_kernel::Uuid;

use super::applier::Places;
use super::error::{Doing, LogError};
use super::read::{Checker, Record};

/// How much is read at once.
const CHUNK: usize = 1 << 16;

/// Reads lines that are appended to a run's file, and checks each.
pub struct Follower {
    run: Uuid,
    path: PathBuf,
    checker: Checker,
    buffer: Vec<u8>,
    /// The part of the buffer that was given out.
    from: usize,
}

impl Follower {
    /// From where a [`RunReader`](super::RunReader) came to its end.
    pub fn new(root: &Path, run: Uuid, checker: Checker) -> Follower {
        let path = Places::new(root).run_file(run);
        Follower { run, path, checker, buffer: Vec::new(), from: 0 }
    }

    /// The next record, if it is there already.
    #[allow(clippy::should_implement_trait, reason = "a record borrows from the follower")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, LogError> {
        let Some(end) = self.find_line()? else { return Ok(None) };
        let line = self.from..end;
        self.from = end;
        let checked = self.checker.check(&self.buffer[line]);
        checked.map(Some).map_err(|broken| LogError::run(self.run, &self.path, broken))
    }

    /// Where the next line ends in the buffer, if all of it is there.
    fn find_line(&mut self) -> Result<Option<usize>, LogError> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.from..]) {
                return Ok(Some(self.from + at + 1));
            }
            self.buffer.drain(..self.from);
            self.from = 0;
            let had = self.buffer.len();
            let file = File::open(&self.path).doing("open", &self.path)?;
            self.buffer.resize(had + CHUNK, 0);
            let place = self.checker.offset() + had as u64;
            let count = file.read_at(&mut self.buffer[had..], place).doing("read", &self.path)?;
            self.buffer.truncate(had + count);
            if count == 0 {
                return Ok(None);
            }
        }
    }
}
