//! The facts that retention rules need about the runs of a log. A finished run is read once,
//! because it no longer changes.

use std::collections::{HashMap, HashSet};

use tiffany_kernel::{Time, Uuid};

use tiffany_log::{BlobHash, LogError, RunEntry, RunState, Stamp, View, blob_names};

use super::needed::{NeededRuns, ParentRun, parent_of};
use crate::key::LogEnd;
use crate::outline::{Outcome, RunOutline};

/// A finished run.
#[derive(Clone, Debug)]
pub(crate) struct FinishedRun {
    pub(crate) run: Uuid,
    pub(crate) id: String,
    pub(crate) outcome: Outcome,
    pub(crate) ended: Time,
    /// The size of its file, and that of the blobs it references if a rule needs it, in bytes.
    pub(crate) bytes: u64,
    pub(crate) blobs: Option<u64>,
    pub(crate) is_compacted: bool,
}

/// All finished runs, and those that forks need.
#[derive(Default)]
pub(crate) struct RetentionFacts {
    pub(crate) over: Vec<FinishedRun>,
    pub(crate) needed: NeededRuns,
    /// Finished runs that cannot be read.
    pub(crate) damaged: Vec<(Uuid, LogError)>,
    /// The size of the files of all runs, in bytes.
    pub(crate) bytes: u64,
}

/// Facts about runs that were read earlier, so that each finished run is read only once.
#[derive(Default)]
pub struct FactCache {
    seen: HashMap<Uuid, (LogEnd, FinishedRun)>,
    parents: HashMap<Uuid, Option<Uuid>>,
}

impl FactCache {
    /// Reads all runs of a log; with `blobs`, also the sizes of the blobs that they reference.
    pub(crate) fn read(&mut self, view: &View, blobs: bool) -> Result<RetentionFacts, LogError> {
        let sizes = if blobs { view.blob_sizes()? } else { HashMap::new() };
        let mut facts = RetentionFacts::default();
        let mut unfinished = Vec::new();
        let mut seen = HashMap::new();
        for (run, entry) in view.runs() {
            facts.bytes += entry.len;
            let stand = LogEnd { generation: entry.generation, seq: entry.seq, crc: entry.crc };
            match entry.state {
                RunState::Removed => drop(self.parents.remove(&run)),
                RunState::Live => unfinished.push((run, self.parent(view, run))),
                RunState::Finished => {
                    let known = self.seen.remove(&run).filter(|(known, _)| *known == stand);
                    let looked = match (known, view.refused(run)) {
                        (_, Some(error)) => Err(error.clone()),
                        (Some((_, fact)), None) => Ok(Some(fact)),
                        (None, None) => FinishedRun::of(view, run, &entry),
                    };
                    let mut fact = match looked {
                        Ok(Some(fact)) => fact,
                        Ok(None) => continue,
                        Err(error) => {
                            facts.damaged.push((run, error));
                            continue;
                        }
                    };
                    if blobs && fact.blobs.is_none() {
                        fact.blobs = Some(blob_bytes(view, run, &sizes)?);
                    }
                    seen.insert(run, (stand, fact.clone()));
                    facts.over.push(fact);
                }
            }
        }
        self.seen = seen;
        facts.needed =
            NeededRuns::of(unfinished, |run| match view.run(run).map(|entry| entry.state) {
                None | Some(RunState::Removed) => Ok(None),
                Some(_) => self.known_parent(view, run),
            });
        facts.over.sort_by_key(|fact| (fact.ended, fact.run));
        Ok(facts)
    }

    /// Returns the parent of a run, if the run is a fork. A parent never changes.
    fn parent(&mut self, view: &View, run: Uuid) -> ParentRun {
        let parent = self.known_parent(view, run)?;
        self.parents.insert(run, parent);
        Ok(parent)
    }

    fn known_parent(&self, view: &View, run: Uuid) -> ParentRun {
        match self.parents.get(&run) {
            Some(parent) => Ok(*parent),
            None => parent_of(view, run),
        }
    }
}

impl FinishedRun {
    /// Reads a finished run. Returns `None` if its log does not say how it ended.
    fn of(view: &View, run: Uuid, entry: &RunEntry) -> Result<Option<FinishedRun>, LogError> {
        let outline = RunOutline::at(view, run, entry)?;
        if let Some(damage) = outline.damage {
            return Err(damage);
        }
        let (outcome, changed) = (outline.outcome, Stamp::parse(&outline.changed));
        Ok(outcome.zip(changed).map(|(outcome, changed)| FinishedRun {
            run,
            id: outline.id,
            outcome,
            ended: Time::from_nanos(changed.unix_nanos()),
            bytes: entry.len,
            blobs: None,
            is_compacted: outline.compacted.is_some(),
        }))
    }
}

/// Adds up the sizes of the blobs that a run references, in bytes.
fn blob_bytes(view: &View, run: Uuid, sizes: &HashMap<BlobHash, u64>) -> Result<u64, LogError> {
    let mut named = HashSet::new();
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        // Rules do not remove damaged runs; the blobs referenced before the damage count.
        let Ok(record) = record else { break };
        blob_names(record.json.as_bytes(), |hash| {
            named.insert(hash);
        });
    }
    Ok(named.iter().filter_map(|hash| sizes.get(hash)).sum())
}
