//! What is known of the runs of a log, as far as a rule asks for it. A run that is over is looked at once: it changes no more.

use std::collections::{HashMap, HashSet};

use tiffany_kernel::{Time, Uuid};

use crate::run_log::needed::{Needed, Parent, parent_of};
use tiffany_log::{BlobHash, LogError, RunEntry, RunState, Stamp, View, blob_names};
use tiffany_records::key::LogEnd;
use tiffany_records::{Outcome, RunOutline};

/// A run that is over.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) run: Uuid,
    pub(crate) id: String,
    pub(crate) outcome: Outcome,
    pub(crate) ended: Time,
    /// How many bytes its file has, and the blobs it names if somebody wants to know.
    pub(crate) bytes: u64,
    pub(crate) blobs: Option<u64>,
    pub(crate) is_compacted: bool,
}

/// All of them, and which of them forks need.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) over: Vec<Fact>,
    pub(crate) needed: Needed,
    /// Runs that are over and can't be read.
    pub(crate) damaged: Vec<(Uuid, LogError)>,
    /// How many bytes the files of all runs have.
    pub(crate) bytes: u64,
}

/// What was seen before.
#[derive(Default)]
pub(crate) struct Memory {
    seen: HashMap<Uuid, (LogEnd, Fact)>,
    parents: HashMap<Uuid, Option<Uuid>>,
}

impl Memory {
    /// Looks at all runs. With `blobs`, the sizes of what they name too.
    pub(crate) fn look(&mut self, view: &View, blobs: bool) -> Result<Facts, LogError> {
        let sizes = if blobs { view.blob_sizes()? } else { HashMap::new() };
        let mut facts = Facts::default();
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
                        (None, None) => Fact::of(view, run, &entry),
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
        facts.needed = Needed::by(unfinished, |run| match view.run(run).map(|entry| entry.state) {
            None | Some(RunState::Removed) => Ok(None),
            Some(_) => self.known_parent(view, run),
        });
        facts.over.sort_by_key(|fact| (fact.ended, fact.run));
        Ok(facts)
    }

    /// The run that a run is a fork of; that never changes.
    fn parent(&mut self, view: &View, run: Uuid) -> Parent {
        let parent = self.known_parent(view, run)?;
        self.parents.insert(run, parent);
        Ok(parent)
    }

    fn known_parent(&self, view: &View, run: Uuid) -> Parent {
        match self.parents.get(&run) {
            Some(parent) => Ok(*parent),
            None => parent_of(&**view.disk(), view.root(), run),
        }
    }
}

impl Fact {
    /// `None`: it does not say how it ended.
    fn of(view: &View, run: Uuid, entry: &RunEntry) -> Result<Option<Fact>, LogError> {
        let outline = RunOutline::at(view, run, entry)?;
        if let Some(damage) = outline.damage {
            return Err(damage);
        }
        let (outcome, changed) = (outline.outcome, Stamp::parse(&outline.changed));
        Ok(outcome.zip(changed).map(|(outcome, changed)| Fact {
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

/// How many bytes the blobs have that a run names.
fn blob_bytes(view: &View, run: Uuid, sizes: &HashMap<BlobHash, u64>) -> Result<u64, LogError> {
    let mut named = HashSet::new();
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        // What is damaged is not removed by a rule either; what can be read counts.
        let Ok(record) = record else { break };
        blob_names(record.json.as_bytes(), |hash| {
            named.insert(hash);
        });
    }
    Ok(named.iter().filter_map(|hash| sizes.get(hash)).sum())
}
