//! Going on with a run's file while somebody else writes it. It waits for nothing: who follows asks again later.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tiffany_kernel::Uuid;

use super::applier::Places;
use super::error::{Doing, LogError};
use super::read::{Checker, LogLine};
use super::regular_file::{SymbolicLink, open_regular};

/// How much is read at once.
const CHUNK: usize = 1 << 18;

/// So much of a file tells its generation.
const HEAD: usize = 256;

/// Reads lines that are appended to a run's file, and checks each. A new generation is read from its beginning.
pub struct Follower {
    run: Uuid,
    path: PathBuf,
    checker: Checker,
    buffer: Vec<u8>,
    /// The part of the buffer that was given out.
    from: usize,
}

impl Follower {
    /// From where a [`RunReader`](crate::run_reader::RunReader) came to its end.
    pub fn new(root: &Path, run: Uuid, checker: Checker) -> Follower {
        let path = Places::new(root).run_file(run);
        Follower { run, path, checker, buffer: Vec::new(), from: 0 }
    }

    /// Where it stands: after the last record it gave.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    /// The next record, if it is there already.
    #[allow(clippy::should_implement_trait, reason = "a record borrows from the follower")]
    pub fn next(&mut self) -> Result<Option<LogLine<'_>>, LogError> {
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

/// The file of a run and the generation that it is of.
fn open(path: &Path) -> Result<(File, Option<u32>), LogError> {
    let file = open_regular(OpenOptions::new().read(true), path, SymbolicLink::Refused);
    let file = file.doing("open", path)?;
    let mut head = [0; HEAD];
    let count = file.read_at(&mut head, 0).doing("read", path)?;
    Ok((file, generation_in(&head[..count])))
}

/// The file of a run, if it is still of this generation.
pub fn open_generation(root: &Path, run: Uuid, generation: u32) -> Result<Option<File>, LogError> {
    let (file, now) = open(&Places::new(root).run_file(run))?;
    Ok((now == Some(generation)).then_some(file))
}

/// The generation that the first line of a file is of.
fn generation_in(head: &[u8]) -> Option<u32> {
    let field = b",\"gen\":";
    let at = memchr::memmem::find(head, field)? + field.len();
    let digits = head[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&head[at..at + digits]).ok()?.parse().ok()
}
