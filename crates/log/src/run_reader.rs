//! Reads a run's records and blobs from the disk piece by piece, for resuming a run and for
//! inspecting it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::applier::Places;
use super::blob::BlobHash;
use super::disk::{Disk, DiskFile, OpenMode, read_from};
use super::error::{Doing, LogError};
use super::index::RunEntry;
use super::read::{Checker, Flaw, LogLine};
use super::view::RunFile;

/// The initial size of the buffer, in bytes.
const CHUNK: usize = 1 << 18;

/// Reads and checks the lines of a run's file.
pub struct RunReader {
    run: Uuid,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    checker: Checker,
    /// The expected end of the run. Without one, all lines in the file are read.
    end: Option<RunEntry>,
    buffer: Vec<u8>,
    /// The unread part of the buffer, and the offset in the file after it.
    from: usize,
    to: usize,
    read_to: u64,
    over: bool,
}

impl RunReader {
    /// Opens the file of a run in the log at `root`. With an entry, exactly its lines are read, and
    /// missing ones are an error; without one, all lines that exist are read.
    pub fn open(
        disk: &dyn Disk,
        root: &Path,
        run: Uuid,
        end: Option<RunEntry>,
    ) -> Result<RunReader, LogError> {
        let path = Places::new(root).run_file(run);
        let file = match disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && end.is_none() => {
                return Err(LogError::UnknownRun(run));
            }
            other => other.doing("open", &path)?,
        };
        Ok(RunReader::of(RunFile { run, file, path }, end))
    }

    /// Reads an open file from its beginning.
    pub(crate) fn of(file: RunFile, end: Option<RunEntry>) -> RunReader {
        let RunFile { run, file, path } = file;
        RunReader {
            run,
            path,
            file,
            checker: Checker::new(Some(run)),
            end,
            buffer: vec![0; CHUNK],
            from: 0,
            to: 0,
            read_to: 0,
            over: false,
        }
    }

    /// Returns the next record; `None` at the end and after an error.
    #[allow(clippy::should_implement_trait, reason = "a record borrows from the reader")]
    pub fn next(&mut self) -> Option<Result<LogLine<'_>, LogError>> {
        if self.over {
            return None;
        }
        let line = match self.find_line() {
            Ok(Some(line)) => line,
            Ok(None) => {
                self.over = true;
                return self.at_end().map(|flaw| {
                    Err(LogError::run(self.run, &self.path, self.checker.broken(flaw)))
                });
            }
            Err(error) => {
                self.over = true;
                return Some(Err(error));
            }
        };
        self.from = line.end;
        match self.checker.check(&self.buffer[line]) {
            Ok(record) => Some(Ok(record)),
            Err(broken) => {
                self.over = true;
                Some(Err(LogError::run(self.run, &self.path, broken)))
            }
        }
    }

    /// Makes the error for a file that ends with another line than expected.
    pub fn ends_elsewhere(&self) -> LogError {
        LogError::run(self.run, &self.path, self.checker.broken(Flaw::Missing))
    }

    /// Returns the checker, whose position is after the last record that was returned.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }

    /// Finds the next line in the buffer, and reads more if necessary.
    fn find_line(&mut self) -> Result<Option<std::ops::Range<usize>>, LogError> {
        let mut searched = self.from;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[searched..self.to]) {
                return Ok(Some(self.from..searched + at + 1));
            }
            searched = self.to;
            if self.from > 0 {
                self.buffer.copy_within(self.from..self.to, 0);
                (searched, self.to, self.from) = (searched - self.from, self.to - self.from, 0);
            }
            if self.to == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let limit = self.end.map_or(u64::MAX, |end| end.len) - self.read_to;
            let room =
                (self.buffer.len() - self.to).min(usize::try_from(limit).unwrap_or(usize::MAX));
            let into = &mut self.buffer[self.to..self.to + room];
            let count = if room == 0 {
                0
            } else {
                self.file.read_at(into, self.read_to).doing("read", &self.path)?
            };
            if count == 0 {
                return Ok(None);
            }
            self.to += count;
            self.read_to += count as u64;
        }
    }

    /// Returns what is wrong with the end of the file, if anything.
    fn at_end(&self) -> Option<Flaw> {
        let stands =
            self.checker.chain().map(|chain| (chain.generation(), chain.seq(), chain.crc()));
        match self.end {
            Some(end) if stands != Some((end.generation, end.seq, end.crc)) => Some(Flaw::Missing),
            None if self.from < self.to => Some(Flaw::Torn),
            _ => None,
        }
    }
}

/// Reads a blob of the log at `root`, and checks its hash.
pub fn read_blob(disk: &dyn Disk, root: &Path, hash: BlobHash) -> Result<Vec<u8>, LogError> {
    let path = Places::new(root).blobs.join(hash.to_string());
    let file = match disk.open(&path, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(LogError::MissingBlob(hash));
        }
        other => other.doing("open", &path)?,
    };
    let bytes = read_from(&*file, 0).doing("read", &path)?;
    if BlobHash::of(&bytes) != hash {
        return Err(LogError::DamagedBlob(hash));
    }
    Ok(bytes)
}
