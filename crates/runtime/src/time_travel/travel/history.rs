//! The records of a run, read once and checked, and their decoded log.

use std::collections::BTreeMap;

use tiffany_kernel::{Site, TaskError, Tid, Uuid};

use crate::run_log::replay::decoded_log::{DecodedLog, means};
use crate::run_log::replay::halt::Means;
use crate::run_log::replay::read::fetch;
use tiffany_log::{Chain, LogError, LogLine, Payload, RecordType, View};
use tiffany_records::record::{Record, TaskSpawn};

/// All records of a run.
pub(crate) struct History {
    chain: Chain,
    decoded: DecodedLog,
    /// The lines, one after the other, and the end of each.
    text: String,
    lines: Vec<Line>,
    /// The lines of code that spawned tasks.
    spawned: BTreeMap<Tid, Site>,
}

/// The parts of a record that are searched for.
pub(crate) struct Line {
    end: usize,
    pub(crate) tid: Tid,
    pub(crate) kind: Option<RecordType>,
    pub(crate) means: Means,
}

impl History {
    pub(crate) fn read(view: &View, run: Uuid) -> Result<History, LogError> {
        let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
        if let Some(error) = view.refused(run) {
            return Err(error.clone());
        }
        let (mut text, mut lines, mut decoded) = (String::new(), Vec::new(), DecodedLog::default());
        let mut spawned = BTreeMap::new();
        let fetch = |payload: &Payload<'_>| fetch(&**view.disk(), view.root(), payload);
        let mut reader = view.reader(run)?;
        while let Some(line) = reader.next() {
            let line = line?;
            text.push_str(line.json);
            text.push('\n');
            let record = Record::read(&line);
            if let Record::TaskSpawn(it) = &record {
                spawned.extend(spawn(it));
            }
            let (tid, kind, means) = (line.tid, line.record_type(), means(&record));
            lines.push(Line { end: text.len(), tid, kind, means });
            decoded.add(&line, &fetch)?;
        }
        Ok(History { chain: entry.chain(run), decoded, text, lines, spawned })
    }

    pub(crate) fn run(&self) -> Uuid {
        self.chain.run()
    }

    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(crate) fn decoded(&self) -> &DecodedLog {
        &self.decoded
    }

    pub(crate) fn len(&self) -> u64 {
        self.lines.len() as u64
    }

    pub(crate) fn line(&self, seq: u64) -> Option<&str> {
        let at = usize::try_from(seq).ok()?.checked_sub(1)?;
        let end = self.lines.get(at)?.end;
        let begin = at.checked_sub(1).map_or(0, |before| self.lines[before].end);
        self.text.get(begin..end)
    }

    /// The line of code that spawned a task, if the log has it.
    pub(crate) fn spawned_at(&self, tid: Tid) -> Option<&Site> {
        self.spawned.get(&tid)
    }

    /// How many tasks were spawned up to a record.
    pub(crate) fn tasks(&self, seq: u64) -> u64 {
        let spawned = |line: &&Line| line.kind == Some(RecordType::TaskSpawn);
        1 + self.lines(0, seq).filter(spawned).count() as u64
    }

    /// The lines after one record, up to and including another.
    pub(crate) fn lines(&self, after: u64, to: u64) -> impl Iterator<Item = &Line> {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        self.lines.iter().take(usize::try_from(to).unwrap_or(usize::MAX)).skip(after)
    }

    /// The first record after this one that matches.
    pub(crate) fn find(&self, after: u64, fits: impl Fn(&Line) -> bool) -> Option<u64> {
        let after = usize::try_from(after).ok()?;
        let found = self.lines.iter().skip(after).position(fits)?;
        Some((after + found) as u64 + 1)
    }

    /// The failure that the run failed with: that of the task that the root's error comes from, or
    /// the root's own.
    pub(crate) fn failure(&self) -> Option<u64> {
        let root = self.failure_of(Tid(1))?;
        let error = self.error_at(root);
        let source = error.as_ref().and_then(|error| {
            let first = self.failure_of(error.task()?.tid)?;
            // An error may name a task that failed with another error.
            self.error_at(first).filter(|first| is_same(first, error)).map(|_| first)
        });
        Some(source.unwrap_or(root))
    }

    /// The record with which a task failed.
    fn failure_of(&self, tid: Tid) -> Option<u64> {
        self.find(0, |line| line.kind == Some(RecordType::TaskAbort) && line.tid == tid)
    }

    fn error_at(&self, seq: u64) -> Option<TaskError> {
        let line = LogLine::of_checked(self.line(seq)?)?;
        serde_json::from_str(Record::read(&line).error()?).ok()
    }
}

/// The task whose spawn a record contains, and the line of it.
fn spawn(spawn: &TaskSpawn<'_>) -> Option<(Tid, Site)> {
    let at = spawn.at?.owned();
    let (file, line) = at.rsplit_once(':')?;
    let at = Site { file: file.to_owned().into(), line: line.parse().ok()? };
    Some((Tid(spawn.child?), at))
}

/// Whether two errors are the same one, on its way from task to task.
fn is_same(a: &TaskError, b: &TaskError) -> bool {
    let what = |error: &TaskError| {
        (error.kind(), error.message().to_owned(), error.detail().map(str::to_owned))
    };
    what(a) == what(b) && a.call_site() == b.call_site()
}
