//! What is known of the runs of a log, as far as a rule asks for it. A run that is over is looked at once: it changes no more.

use std::collections::{BTreeMap, HashMap, HashSet};

use tiffany_kernel::{Time, Uuid};

use crate::durable::keeping::{Needed, needed};
use tiffany_log::{BlobHash, LogError, RunState, Stamp, View, blob_names};
use tiffany_records::key::LogEnd;
use tiffany_records::{Glance, Outcome};

/// A run that is over.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) run: Uuid,
    pub(super) id: String,
    pub(super) outcome: Outcome,
    pub(super) ended: Time,
    /// How many bytes its file has, and the blobs it names if somebody wants to know.
    pub(super) bytes: u64,
    pub(super) blobs: Option<u64>,
    pub(super) is_compacted: bool,
}

/// All of them, and which of them forks need.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) over: Vec<Fact>,
    pub(super) needed: Needed,
    /// How many bytes the files of all runs have.
    pub(super) bytes: u64,
}

/// What was seen before.
#[derive(Default)]
pub(super) struct Memory {
    seen: HashMap<Uuid, (LogEnd, Fact)>,
    parents: HashMap<Uuid, Option<Uuid>>,
}

impl Memory {
    /// Looks at all runs. With `blobs`, the sizes of what they name too.
    pub(super) fn look(&mut self, view: &View, blobs: bool) -> Result<Facts, LogError> {
        let sizes = if blobs { view.blob_sizes()? } else { HashMap::new() };
        let mut facts = Facts::default();
        let mut forks = Vec::new();
        let mut seen = HashMap::new();
        for (run, entry) in view.runs() {
            facts.bytes += entry.len;
            let stand = LogEnd { generation: entry.generation, seq: entry.seq, crc: entry.crc };
            let is_damaged = view.refused(run).is_some();
            match entry.state {
                RunState::Removed => drop(self.parents.remove(&run)),
                RunState::Live => forks.extend(self.parent(view, run).map(|parent| (run, parent))),
                RunState::Finished if is_damaged => {}
                RunState::Finished => {
                    let known = self.seen.remove(&run).filter(|(known, _)| *known == stand);
                    let known = known.map(|(_, fact)| fact);
                    let Some(mut fact) = known.or_else(|| self.fact(view, run)) else { continue };
                    if blobs && fact.blobs.is_none() {
                        fact.blobs = Some(blob_bytes(view, run, &sizes)?);
                    }
                    seen.insert(run, (stand, fact.clone()));
                    facts.over.push(fact);
                }
            }
        }
        self.seen = seen;
        let parents: BTreeMap<Uuid, Uuid> =
            self.parents.iter().filter_map(|(run, parent)| Some((*run, (*parent)?))).collect();
        facts.needed = needed(forks, |run| parents.get(&run).copied());
        facts.over.sort_by_key(|fact| (fact.ended, fact.run));
        Ok(facts)
    }

    /// The run that a run is a fork of; that never changes.
    fn parent(&mut self, view: &View, run: Uuid) -> Option<Uuid> {
        let look = || crate::durable::keeping::parent_of(&**view.disk(), view.root(), run);
        *self.parents.entry(run).or_insert_with(look)
    }

    /// `None`: it cannot be read, or does not say how it ended.
    fn fact(&mut self, view: &View, run: Uuid) -> Option<Fact> {
        let entry = view.run(run)?;
        let glance = Glance::at(view, run, &entry).ok()?;
        self.parents.insert(run, glance.fork.map(|(parent, _)| parent));
        Some(Fact {
            run,
            id: glance.id,
            outcome: glance.outcome?,
            ended: Time::from_nanos(Stamp::parse(&glance.changed)?.unix_nanos()),
            bytes: entry.len,
            blobs: None,
            is_compacted: glance.compacted.is_some(),
        })
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
