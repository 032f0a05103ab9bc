//! The records of a run, read once and checked, and the script up to any of them. It knows nothing of what they mean.

use std::path::PathBuf;
use std::sync::Arc;

use tiffany_kernel::{Tid, Uuid};

use crate::durable::resume::resuming::fetch;
use crate::durable::resume::script::Script;
use crate::wal::{Chain, Disk, LogError, Record, RecordType, View};

/// Another look at a record nearby begins so many records before it.
const BEFORE: u64 = 2_000;

/// All records of a run.
pub(super) struct History {
    chain: Chain,
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// The lines, one after the other, and where each of them ends.
    text: String,
    lines: Vec<Line>,
    /// A script up to some record, to go on from.
    near: Option<(u64, Script)>,
}

/// A record as far as it is looked for.
pub(super) struct Line {
    end: usize,
    pub(super) tid: Tid,
    pub(super) kind: Option<RecordType>,
}

impl History {
    pub(super) fn read(view: &View, run: Uuid) -> Result<History, LogError> {
        let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
        if let Some(error) = view.refused(run) {
            return Err(error.clone());
        }
        let (mut text, mut lines) = (String::new(), Vec::new());
        let mut reader = view.reader(run)?;
        while let Some(record) = reader.next() {
            let record = record?;
            text.push_str(record.json);
            text.push('\n');
            lines.push(Line { end: text.len(), tid: record.tid, kind: record.record_type() });
        }
        Ok(History {
            chain: entry.chain(run),
            disk: Arc::clone(view.disk()),
            root: view.root().to_path_buf(),
            text,
            lines,
            near: None,
        })
    }

    pub(super) fn run(&self) -> Uuid {
        self.chain.run()
    }

    pub(super) fn chain(&self) -> &Chain {
        &self.chain
    }

    pub(super) fn len(&self) -> u64 {
        self.lines.len() as u64
    }

    pub(super) fn line(&self, seq: u64) -> Option<&str> {
        let at = usize::try_from(seq).ok()?.checked_sub(1)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.lines[before].end);
        self.text.get(begin..self.lines.get(at)?.end)
    }

    /// The first record after this one that fits.
    pub(super) fn find(&self, after: u64, fits: impl Fn(&Line) -> bool) -> Option<u64> {
        let after = usize::try_from(after).ok()?;
        let found = self.lines.iter().skip(after).position(fits)?;
        Some((after + found) as u64 + 1)
    }

    /// The first task's failure in a run whose root failed.
    pub(super) fn failure(&self) -> Option<u64> {
        let aborted = |line: &Line| line.kind == Some(RecordType::TaskAbort);
        let failed = self.lines.iter().any(|line| aborted(line) && line.tid == Tid(1));
        failed.then(|| self.find(0, aborted)).flatten()
    }

    /// What the log has up to a record, that one included.
    pub(super) fn script_to(&mut self, seq: u64) -> Result<Script, LogError> {
        let near = self.near.take().filter(|(at, _)| *at <= seq);
        let (at, script) = near.unwrap_or_default();
        let (at, script) = self.extend(at, script, seq.saturating_sub(BEFORE).max(at))?;
        let (_, whole) = self.extend(at, script.clone(), seq)?;
        self.near = Some((at, script));
        Ok(whole)
    }

    fn extend(&self, from: u64, mut script: Script, to: u64) -> Result<(u64, Script), LogError> {
        for seq in from + 1..=to {
            let text = self.line(seq).unwrap_or_default();
            let Some(record) = Record::of_checked(text) else { break };
            script.add(&record, &|payload| fetch(&*self.disk, &self.root, payload))?;
        }
        Ok((to.max(from), script))
    }
}
