//! Reads a run's file while another process or thread appends to it. It never waits: the caller
//! asks again later.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tiffany_kernel::Uuid;

use super::applier::Places;
use super::error::{Doing, LogError};
use super::read::{Checker, LogLine};
use super::regular_file::{SymbolicLink, open_regular};

/// The number of bytes per read.
const CHUNK: usize = 1 << 18;

/// The number of bytes at the beginning of a file that are enough to find its generation.
const HEAD: usize = 256;

/// Reads and checks lines as they are appended to a run's file. If a new generation replaces the
/// file, it is read from its beginning.
pub struct Follower {
    run: Uuid,
    path: PathBuf,
    checker: Checker,
    buffer: Vec<u8>,
    /// Where the unread part of the buffer begins.
    from: usize,
}

impl Follower {
    /// Continues where a [`RunReader`](crate::run_reader::RunReader) ended; `checker` is the
    /// reader's.
    pub fn new(root: &Path, run: Uuid, checker: Checker) -> Follower {
        let path = Places::new(root).run_file(run);
        Follower { run, path, checker, buffer: Vec::new(), from: 0 }
    }

    /// Returns the checker, whose position is after the last record that was returned.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    /// Returns the next record; `None` if it has not been written yet.
    #[allow(clippy::should_implement_trait, reason = "a record borrows from the follower")]
    pub fn next(&mut self) -> Result<Option<LogLine<'_>>, LogError> {
        let Some(end) = self.find_line()? else { return Ok(None) };
        let line = self.from..end;
        self.from = end;
        let checked = self.checker.check(&self.buffer[line]);
        checked.map(Some).map_err(|broken| LogError::run(self.run, &self.path, broken))
    }

    /// Finds the end of the next line in the buffer, reading more if needed. Returns `None` if the
    /// line is not complete yet.
    fn find_line(&mut self) -> Result<Option<usize>, LogError> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.from..]) {
                return Ok(Some(self.from + at + 1));
            }
            self.buffer.drain(..self.from);
            self.from = 0;
            let (file, generation) = open(&self.path)?;
            let known = self.checker.chain().map(|chain| chain.generation());
            if known.zip(generation).is_some_and(|(known, now)| known < now) {
                self.checker = Checker::new(Some(self.run));
                self.buffer.clear();
            }
            let had = self.buffer.len();
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

/// Opens the file of a run, and reads its generation.
fn open(path: &Path) -> Result<(File, Option<u32>), LogError> {
    let file = open_regular(OpenOptions::new().read(true), path, SymbolicLink::Refused);
    let file = file.doing("open", path)?;
    let mut head = [0; HEAD];
    let count = file.read_at(&mut head, 0).doing("read", path)?;
    Ok((file, generation_in(&head[..count])))
}

/// Opens the file of a run; `None` if it is not of this generation any more.
pub fn open_generation(root: &Path, run: Uuid, generation: u32) -> Result<Option<File>, LogError> {
    let (file, now) = open(&Places::new(root).run_file(run))?;
    Ok((now == Some(generation)).then_some(file))
}

/// Finds the generation in the first line of a file.
fn generation_in(head: &[u8]) -> Option<u32> {
    let field = b",\"gen\":";
    let at = memchr::memmem::find(head, field)? + field.len();
    let digits = head[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&head[at..at + digits]).ok()?.parse().ok()
}
