//! Compares the file of a run with the commit log and the index when a log is opened. The file is
//! completed, kept because it is newer, cut back to its last complete line, or left as it is and
//! its run refused. A complete line is never cut off, because its writer had been told that it is
//! durable.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::applier::{Applier, begin_run_file};
use super::disk::{Disk, DiskFile, OpenMode, empty, read_from};
use super::error::{Doing, LogError};
use super::index::{RunEntry, RunState};
use super::line::Chain;
use super::lock::LockTerm;
use super::open_tasks::OpenTasks;
use super::read::{Broken, Flaw, Head, Reader, foreign_line, has_lines};
use super::recover::{Cut, Plan, Recovery, gather};
use super::segments::Segment;

/// How much is read at once in search of a first line.
const FIRST_READ: usize = 4096;

/// A run's file that is being compared.
struct Compared<'a> {
    run: Uuid,
    path: &'a Path,
    file: &'a dyn DiskFile,
}

impl Applier {
    /// Makes the file of a run match the commit log, unless the file is newer.
    pub(super) fn complete(
        &mut self,
        segments: &[Segment],
        run: Uuid,
        plan: &Plan,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let path = self.places.run_file(run);
        if plan.entry.state == RunState::Removed {
            return self.remove_run(run);
        }
        let file = match open_if_there(&*self.disk, &path, OpenMode::Write) {
            Err(error) if error.is_not_a_file() => {
                self.refuse(run, error, recovery);
                return Ok(());
            }
            other => other?,
        };
        let (start, has_all) = (plan.start(), plan.start() == 0);
        let tail = match &file {
            Some(file) => read_from(&**file, start).doing("read", &path)?,
            None => Vec::new(),
        };
        let head = match has_all {
            true => head_in(&tail, run),
            false => head_of(file.as_deref(), &path, run)?,
        };
        let is_newer = head.is_some_and(|head| head.is_newer_than(plan.entry.generation));
        if let Some(file) = file.as_deref().filter(|_| is_newer)
            // To see all runs at one moment, the commit log's lines count if it has them all.
            && !(has_all && self.term == LockTerm::NotTaken)
        {
            let found = Compared { run, path: &path, file };
            return self.keep_newer(&found, plan.entry.state, recovery);
        }
        let (content, bad) = gather(segments, plan, &tail)?;
        let is_leftover = has_all && plan.is_leftover(&tail, &content);
        let replaces = has_all && (is_newer || plan.replaces(head));
        // If the first line is damaged, the generation of the file is unknown.
        let is_unknown = replaces && !head.is_some_and(|head| head.is_good) && !is_leftover;
        let is_unexplained = is_unknown && !plan.explains(segments, &tail, &content)?;
        let is_replaced = replaces && !is_unexplained;
        let refusal = match self.misfit(run, plan, (file.as_deref(), head), bad)? {
            None if is_unexplained => {
                Some(missing_from(run, &path, file.as_deref(), tail.len() as u64)?)
            }
            None if !is_replaced && !tail.starts_with(&content) => {
                // Behind what was written over it, the old file still has its own lines.
                let len = if is_leftover { good_bytes(&tail, run) } else { tail.len() };
                plan.conflict(run, &tail[..len], &content)
            }
            other => other,
        };
        if let Some(error) = refusal {
            return self.set_aside(run, &path, &content, error, recovery);
        }
        self.touched.run_names = true;
        let file = match file.filter(|_| !is_replaced) {
            Some(file) if tail.starts_with(&content) => file,
            Some(file) => {
                recovery.completed.push(run);
                file.write_at(&content, start).doing("write", &path)?;
                file
            }
            None => {
                recovery.completed.push(run);
                let generation = plan.entry.generation;
                let file = begin_run_file(&*self.disk, &path, generation, &content)?;
                self.handles.put(run, file);
                return Ok(());
            }
        };
        self.handles.put(run, Arc::clone(&file));
        let found = Compared { run, path: &path, file: &*file };
        match tail.get(content.len()..).unwrap_or_default() {
            beyond if is_leftover => self.cut(&found, plan.entry.len, beyond.len(), recovery),
            beyond => self.look_beyond(&found, beyond, recovery),
        }
    }

    /// Why the lines of the commit log have no place in the file, if that is so: what should be
    /// before them is damaged, missing, or of an earlier generation.
    fn misfit(
        &self,
        run: Uuid,
        plan: &Plan,
        (file, head): (Option<&dyn DiskFile>, Option<Head>),
        bad: Option<u64>,
    ) -> Result<Option<LogError>, LogError> {
        let path = self.places.run_file(run);
        let start = plan.start();
        let is_earlier = |head: &Head| head.is_good && head.generation < plan.entry.generation;
        if let Some(head) = head.filter(is_earlier).filter(|_| start > 0) {
            let broken = Broken {
                record: plan.first_seq(),
                offset: start,
                flaw: Flaw::Earlier(head.generation),
            };
            return Ok(Some(LogError::run(run, &path, broken)));
        }
        let present = match file {
            Some(file) if start > 0 => file.size().doing("look at", &path)?,
            _ => 0,
        };
        let short = (present < start).then_some(present);
        let unknown = plan.starts_elsewhere().then(|| self.check_up_to(run, plan, file));
        let unknown = unknown.transpose()?.flatten();
        match bad.or(short).or(unknown) {
            Some(flaw_at) => missing_from(run, &path, file, flaw_at).map(Some),
            None => Ok(None),
        }
    }

    /// Checks the file of a run that the commit log continues at another offset than the index has.
    /// Returns the first offset before that one at which the file is not good.
    fn check_up_to(
        &self,
        run: Uuid,
        plan: &Plan,
        file: Option<&dyn DiskFile>,
    ) -> Result<Option<u64>, LogError> {
        let path = self.places.run_file(run);
        let Some(file) = file else { return Ok(Some(0)) };
        let mut bytes = read_from(file, 0).doing("read", &path)?;
        bytes.truncate(plan.start() as usize);
        let mut reader = Reader::new(&bytes, Some(run));
        let good = reader.by_ref().all(|record| record.is_ok());
        let crc = reader.checker().chain().map(Chain::crc);
        let follows = good && crc == Some(plan.crc_before());
        Ok((!follows).then_some(reader.checker().offset()))
    }

    /// Sets aside lines that have no place, for a person to look at.
    fn set_aside(
        &mut self,
        run: Uuid,
        path: &Path,
        lines: &[u8],
        error: LogError,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let aside = path.with_extension("wal.unplaced");
        let file = self.disk.open(&aside, OpenMode::Create).doing("make", &aside)?;
        empty(&*file).doing("empty", &aside)?;
        file.write_at(lines, 0).doing("write", &aside)?;
        self.touched.add_blob(file, self.settings.single_syncs);
        self.touched.run_names = true;
        self.refuse(run, error, recovery);
        Ok(())
    }

    /// Checks a run that the commit log does not mention: its file must be as long as the index
    /// says.
    pub(super) fn check_size(
        &mut self,
        run: Uuid,
        size: Option<u64>,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let entry = self.runs[&run].entry;
        let path = self.places.run_file(run);
        match size {
            Some(_) if entry.state == RunState::Removed => {
                self.touch(run, entry);
                self.note_unread_unerased(run);
                self.remove_run(run)
            }
            None if entry.state == RunState::Removed => Ok(()),
            // Readers of the file check the whole chain.
            Some(size) if size == entry.len => Ok(()),
            Some(size) => {
                let file = match self.disk.open(&path, OpenMode::Write).doing("open", &path) {
                    Ok(file) => file,
                    Err(error) => {
                        self.refuse(run, error, recovery);
                        return Ok(());
                    }
                };
                let found = Compared { run, path: &path, file: &*file };
                self.compare(&found, entry, size, recovery)
            }
            None => {
                // Only files have a size; something else may be in its place.
                let error = match open_if_there(&*self.disk, &path, OpenMode::Read) {
                    Err(error) if error.is_not_a_file() => error,
                    _ => missing_from(run, &path, None, 0)?,
                };
                self.refuse(run, error, recovery);
                Ok(())
            }
        }
    }

    /// Compares a file with an entry of the index that has another length.
    fn compare(
        &mut self,
        found: &Compared<'_>,
        entry: RunEntry,
        size: u64,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let Compared { run, path, file } = *found;
        let head = head_of(Some(file), path, run)?;
        if head.is_some_and(|head| head.is_newer_than(entry.generation)) {
            return self.keep_newer(found, entry.state, recovery);
        }
        if size < entry.len {
            let error = missing_from(run, path, Some(file), size)?;
            self.refuse(run, error, recovery);
            return Ok(());
        }
        if self.term == LockTerm::NotTaken {
            return Ok(());
        }
        if self.term == LockTerm::Observed {
            let beyond = read_from(file, entry.len).doing("read", path)?;
            return self.look_beyond(found, &beyond, recovery);
        }
        let bytes = read_from(file, 0).doing("read", path)?;
        let (known, beyond) = bytes.split_at((entry.len as usize).min(bytes.len()));
        let mut reader = Reader::new(known, Some(run));
        let broken = reader.by_ref().find_map(Result::err);
        if reader.checker().chain() != Some(&entry.chain(run)) {
            let broken = broken.unwrap_or_else(|| reader.checker().broken(Flaw::Missing));
            self.refuse(run, LogError::run(run, path, broken), recovery);
            return Ok(());
        }
        self.look_beyond(found, beyond, recovery)
    }

    /// Examines the part of a file after its committed end. A line is written to a file only after
    /// it is durable, so good lines there were committed, and the commit log lacks them.
    fn look_beyond(
        &mut self,
        found: &Compared<'_>,
        beyond: &[u8],
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        if beyond.is_empty() || self.term == LockTerm::NotTaken {
            return Ok(());
        }
        let mut entry = self.runs[&found.run].entry;
        let from = entry.len;
        let mut reader = Reader::after(beyond, entry.chain(found.run), from);
        let good = reader.by_ref().take_while(Result::is_ok).count();
        let checker = reader.checker();
        if good > 0 {
            let chain = checker.chain().expect("a chain that went on");
            (entry.len, entry.seq, entry.crc) = (checker.offset(), chain.seq(), chain.crc());
            entry.state = self.state_after(found, entry)?;
            recovery.rescued.push((found.run, good as u64));
        }
        self.settle(found, entry, &beyond[(entry.len - from) as usize..], recovery)
    }

    /// Returns the state of a run whose file has more lines than the commit log.
    fn state_after(&self, found: &Compared<'_>, entry: RunEntry) -> Result<RunState, LogError> {
        if entry.state != RunState::Live || self.term == LockTerm::Observed {
            return Ok(entry.state);
        }
        let bytes = read_from(found.file, 0).doing("read", found.path)?;
        let known = &bytes[..bytes.len().min(entry.len as usize)];
        Ok(self.entry_of(found.run, entry.state, known).map_or(entry.state, |whole| whole.state))
    }

    /// Returns the end of a run according to its file alone, after the last good line; `None` if
    /// the first line is not good.
    fn entry_of(&self, run: Uuid, state: RunState, bytes: &[u8]) -> Option<RunEntry> {
        let mut reader = Reader::new(bytes, Some(run));
        let mut tasks = OpenTasks::new(&*self.disk, &self.places.root);
        reader.by_ref().map_while(Result::ok).for_each(|record| tasks.take(&record));
        let state = if state == RunState::Live { tasks.state() } else { state };
        let (checker, len) = (reader.checker(), reader.checker().offset());
        let chain = checker.chain().filter(|_| len > 0)?;
        let (generation, seq, crc) = (chain.generation(), chain.seq(), chain.crc());
        Some(RunEntry { state, generation, len, seq, crc })
    }

    /// Trusts the file of a run, because the index and the commit log know only an earlier
    /// generation of it.
    fn keep_newer(
        &mut self,
        found: &Compared<'_>,
        state: RunState,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let Compared { run, path, file } = *found;
        if self.term == LockTerm::NotTaken {
            // A process is writing it at this moment; another look will find both alike.
            let error = missing_from(run, path, None, 0)?;
            self.refuse(run, error, recovery);
            return Ok(());
        }
        let bytes = read_from(file, 0).doing("read", path)?;
        let Some(entry) = self.entry_of(run, state, &bytes) else {
            // A newer program began that generation.
            let error = missing_from(run, path, Some(file), bytes.len() as u64)?;
            self.refuse(run, error, recovery);
            return Ok(());
        };
        recovery.rescued.push((run, entry.seq));
        self.settle(found, entry, &bytes[entry.len as usize..], recovery)
    }

    /// Handles files that neither the index nor the commit log mentions: a run whose block was
    /// lost, a copy that was put there, or half a file.
    pub(super) fn take_in_the_rest(
        &mut self,
        sizes: HashMap<String, u64>,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let mut names: Vec<String> = sizes.into_keys().collect();
        names.sort_unstable();
        for name in names {
            let path = self.places.wal.join(&name);
            if name.ends_with(".wal.new") || self.is_of_removed_run(&name) {
                self.remove_file(&path)?;
                continue;
            }
            let run = name.strip_suffix(".wal").and_then(Uuid::parse);
            let Some(run) = run.filter(|run| format!("{run}.wal") == name) else {
                recovery.stray.push(name);
                continue;
            };
            if !self.runs.contains_key(&run) && self.term != LockTerm::NotTaken {
                self.adopt(run, &path, name, recovery)?;
            }
        }
        Ok(())
    }

    fn adopt(
        &mut self,
        run: Uuid,
        path: &Path,
        name: String,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let file = self.disk.open(path, OpenMode::Write).doing("open", path)?;
        let bytes = read_from(&*file, 0).doing("read", path)?;
        match self.entry_of(run, RunState::Live, &bytes) {
            Some(entry) => {
                recovery.adopted.push(run);
                let found = Compared { run, path, file: &*file };
                self.settle(&found, entry, &bytes[entry.len as usize..], recovery)?;
            }
            // Only the existence of a run without a good line is known.
            None if has_lines(&bytes) => {
                let error = missing_from(run, path, Some(&*file), bytes.len() as u64)?;
                self.refuse(run, error, recovery);
            }
            None => recovery.stray.push(name),
        }
        Ok(())
    }

    /// Records the end of a run after its last good line. An incomplete line after that is cut off.
    /// If complete lines follow, the file is damaged: it stays as it is, and the run is refused.
    fn settle(
        &mut self,
        found: &Compared<'_>,
        entry: RunEntry,
        rest: &[u8],
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        let Compared { run, path, .. } = *found;
        self.touched.run_names = true;
        self.touch(run, entry);
        if has_lines(rest) {
            let mut reader = Reader::after(rest, entry.chain(run), entry.len);
            let broken = reader.find_map(Result::err).expect("the first line is not good");
            self.refuse(run, LogError::run(run, path, broken), recovery);
            return Ok(());
        }
        self.cut(found, entry.len, rest.len(), recovery)
    }

    /// Cuts off what is behind the end of a run.
    fn cut(
        &self,
        found: &Compared<'_>,
        to: u64,
        beyond: usize,
        recovery: &mut Recovery,
    ) -> Result<(), LogError> {
        if beyond > 0 {
            found.file.set_size(to).doing("cut", found.path)?;
            recovery.cut.push(Cut { run: found.run, from: to + beyond as u64, to });
        }
        Ok(())
    }
}

impl Plan {
    /// Whether the file is of an earlier generation than the one that begins here, or may be.
    fn replaces(&self, head: Option<Head>) -> bool {
        match head {
            Some(head) if head.is_good => head.generation < self.entry.generation,
            _ => self.begins_generation(),
        }
    }

    /// Whether the file is that of a finished run over which its compacted generation was being
    /// written, see [`Applier::overwrite`]. Such a file still has its old end, or was cut already.
    fn is_leftover(&self, tail: &[u8], content: &[u8]) -> bool {
        let old = &self.replaced;
        let ends_alike = || tail.ends_with(format!(",\"crc\":\"{:08x}\"}}\n", old.crc).as_bytes());
        old.state == RunState::Finished
            && old.generation < self.entry.generation
            && ((tail.len() as u64 == old.len && ends_alike()) || tail.len() == content.len())
    }

    /// Whether the commit log has each line of a file whose first line is damaged. Then a crash
    /// damaged the file, and nothing is lost if it is replaced. Pages that were never written are
    /// zeros.
    fn explains(
        &self,
        segments: &[Segment],
        tail: &[u8],
        content: &[u8],
    ) -> Result<bool, LogError> {
        if !has_lines(tail) {
            return Ok(true);
        }
        let mut known = self.read_earlier(segments)?;
        known.push((0, content.to_vec()));
        let is_known = |(at, byte): (usize, &u8)| {
            let has = |(from, bytes): &(usize, Vec<u8>)| {
                at.checked_sub(*from).and_then(|at| bytes.get(at)) == Some(byte)
            };
            *byte == 0 || known.iter().any(has)
        };
        let mut lines = tail.split_inclusive(|byte| *byte == b'\n');
        let mut from = 0;
        Ok(lines.all(|line| {
            let at = from;
            from += line.len();
            !has_lines(line) || line.iter().enumerate().all(|(to, byte)| is_known((at + to, byte)))
        }))
    }

    /// Why the file and the commit log cannot both be of this run, if that is so: the file has lines that follow each
    /// other, and the commit log has others in their place.
    fn conflict(&self, run: Uuid, tail: &[u8], content: &[u8]) -> Option<LogError> {
        let at = foreign_line(tail, self.crc_before(), content)?;
        let before = content[..at].iter().filter(|byte| **byte == b'\n').count();
        let record = self.first_seq() + before as u64;
        Some(LogError::Mismatch { run, record, offset: self.start() + at as u64 })
    }
}

/// Returns the length of the lines that follow each other from the first line on.
fn good_bytes(bytes: &[u8], run: Uuid) -> usize {
    let mut reader = Reader::new(bytes, Some(run));
    while let Some(Ok(_)) = reader.next() {}
    reader.checker().offset() as usize
}

pub(super) fn open_if_there(
    disk: &dyn Disk,
    path: &Path,
    mode: OpenMode,
) -> Result<Option<Arc<dyn DiskFile>>, LogError> {
    match disk.open(path, mode) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LogError::io("open", path, &error)),
    }
}

/// Parses the first line in the contents of a file; `None` if there is no complete line.
fn head_in(bytes: &[u8], run: Uuid) -> Option<Head> {
    let end = memchr::memchr(b'\n', bytes)?;
    Head::read(&bytes[..=end], run)
}

/// Reads the first line of a file; `None` if there is no complete line.
fn head_of(file: Option<&dyn DiskFile>, path: &Path, run: Uuid) -> Result<Option<Head>, LogError> {
    let Some(file) = file else { return Ok(None) };
    let mut line = Vec::new();
    loop {
        let from = line.len();
        line.resize(from + from.max(FIRST_READ), 0);
        let count = file.read_at(&mut line[from..], from as u64).doing("read", path)?;
        line.truncate(from + count);
        if let Some(at) = memchr::memchr(b'\n', &line[from..]) {
            return Ok(Head::read(&line[..=from + at], run));
        }
        if count == 0 {
            return Ok(None);
        }
    }
}

/// Makes the error for a file that lacks committed records, with the first one that is missing.
fn missing_from(
    run: Uuid,
    path: &Path,
    file: Option<&dyn DiskFile>,
    limit: u64,
) -> Result<LogError, LogError> {
    let mut bytes = match file {
        Some(file) => read_from(file, 0).doing("read", path)?,
        None => Vec::new(),
    };
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut reader = Reader::new(&bytes, Some(run));
    let broken = match reader.by_ref().find_map(Result::err) {
        Some(broken) if broken.flaw != Flaw::Torn => broken,
        _ => reader.checker().broken(Flaw::Missing),
    };
    Ok(LogError::run(run, path, broken))
}
