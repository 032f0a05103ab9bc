//! What the tests of the log share: a script of commits with a model of what each leaves behind, and the
//! comparison of a recovered log with that model.

pub(crate) mod calls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calls::{Calls, FaultyDisk};
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::wal::{
    Batch, Chain, LogError, Payload, Reader, RecordType, Recovery, RunReader, RunState, Settings,
    Stamp, Writer, read_blob,
};
use tiffany::{Tid, Uuid};

pub(crate) const ROOT: &str = "/log";
pub(crate) const BLOB_LIMIT: usize = 200;

pub(crate) fn root() -> &'static Path {
    Path::new(ROOT)
}

pub(crate) fn run_id(number: u128) -> Uuid {
    Uuid::from_random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

pub(crate) fn run_path(run: Uuid) -> PathBuf {
    root().join(format!("wal/{run}.wal"))
}

/// Four small blocks to a segment, so that segments are used again and again.
pub(crate) fn small() -> Settings {
    Settings {
        segment_bytes: 4 * 4096,
        segments: 2,
        blob_limit: BLOB_LIMIT,
        open_files: 4,
        single_syncs: 4,
        index_slack: 2,
        ..Settings::default()
    }
}

/// What one batch does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Some lines of a run, the last with a payload of this size.
    Lines(u128, usize, usize),
    /// The run's next generation.
    Generation(u128),
    /// Its last line.
    Finish(u128),
    /// Of a run that is over this is left: a new generation, whole and over.
    Compact(u128),
    /// Its file goes.
    Remove(u128),
}

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Commit(Vec<Act>),
    /// The background does what there is to do.
    Background,
    /// Blobs that nobody names go.
    Collect,
    /// The process ends in good order and begins again.
    Reopen,
    /// The power goes, with these survivors, and the log is opened again.
    Crash(Survivors),
}

/// A run as the model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Modelled {
    pub(crate) state: RunState,
    pub(crate) generation: u32,
    pub(crate) file: Vec<u8>,
}

pub(crate) type Model = BTreeMap<Uuid, Modelled>;

/// A script under way.
pub(crate) struct Play {
    pub(crate) disk: SimDisk,
    pub(crate) settings: Settings,
    /// Which calls the log makes of the disk, and which of them fail.
    pub(crate) calls: Calls,
    chains: BTreeMap<Uuid, Chain>,
    /// The model after each batch that was handed in; the first is empty.
    pub(crate) models: Vec<Model>,
    /// How many batches were reported durable.
    pub(crate) acked: usize,
}

impl Play {
    pub(crate) fn new(disk: SimDisk, settings: Settings) -> Play {
        let (chains, models) = (BTreeMap::new(), vec![Model::new()]);
        Play { disk, settings, calls: Calls::default(), chains, models, acked: 0 }
    }

    /// Goes on from what a recovered log has.
    pub(crate) fn resumed(
        disk: SimDisk,
        settings: Settings,
        model: &Model,
        writer: &Writer,
    ) -> Play {
        let chains = writer.runs().map(|(run, entry)| (run, entry.chain(run))).collect();
        Play { chains, models: vec![model.clone()], ..Play::new(disk, settings) }
    }

    /// The runs of the script that can go on.
    pub(crate) fn live(&self) -> Vec<u128> {
        let model = self.models.last().expect("a model");
        let is_live = |run: &u128| {
            model.get(&run_id(*run)).is_some_and(|known| known.state == RunState::Live)
        };
        (1..10).filter(is_live).collect()
    }

    pub(crate) fn open(&self) -> Result<(Writer, Recovery), LogError> {
        let disk = FaultyDisk { below: self.disk.clone(), calls: self.calls.clone() };
        Writer::open(Arc::new(disk), root(), self.settings.clone())
    }

    /// Plays until the end or the first error.
    pub(crate) fn play(&mut self, steps: &[Step]) -> Result<Writer, LogError> {
        let (mut writer, _) = self.open()?;
        for step in steps {
            match step {
                Step::Commit(acts) => self.commit(&mut writer, acts)?,
                Step::Background => {
                    writer.background()?;
                }
                Step::Collect => {
                    writer.collect_blobs()?;
                }
                Step::Reopen => {
                    writer.close()?;
                    writer = self.open()?.0;
                }
                Step::Crash(survivors) => {
                    drop(writer);
                    self.disk.crash(*survivors);
                    writer = self.open()?.0;
                }
            }
        }
        Ok(writer)
    }

    pub(crate) fn commit(&mut self, writer: &mut Writer, acts: &[Act]) -> Result<(), LogError> {
        let mut batch = self.batch(acts);
        let handed = self.models.len() - 1;
        let acked = &mut self.acked;
        writer.commit(&mut batch, |_| *acked = handed)
    }

    /// Makes the batch of some acts, and the model after it.
    pub(crate) fn batch(&mut self, acts: &[Act]) -> Batch {
        let mut batch = Batch::with_blob_limit(self.settings.blob_limit);
        let mut model = self.models.last().expect("a model").clone();
        let now = Stamp::from_unix_nanos(self.models.len() as u64 * 1_000_003);
        for act in acts {
            match act {
                Act::Lines(run, count, size) => {
                    let chain = self.chains.entry(run_id(*run));
                    let chain = chain.or_insert_with(|| Chain::new(run_id(*run)));
                    for at in 0..*count {
                        let payload = if at + 1 == *count { *size } else { 3 };
                        let text = format!("\"{}\"", filler(payload, chain.seq()));
                        let line = batch.line(chain, &now, RecordType::Message, Tid(at as u64 + 1));
                        line.json("value", &text).end();
                    }
                }
                Act::Generation(run) => {
                    let chain = self.chains.get_mut(&run_id(*run)).expect("a run");
                    *chain = chain.next_generation();
                    let line = batch.line(chain, &now, RecordType::Snapshot, Tid(1));
                    line.json("value", "\"whole\"").end();
                }
                Act::Finish(run) => {
                    let chain = self.chains.get_mut(&run_id(*run)).expect("a run");
                    batch.line(chain, &now, RecordType::TaskExit, Tid(1)).end();
                    batch.finish(chain);
                }
                Act::Compact(run) => {
                    let chain = self.chains.get_mut(&run_id(*run)).expect("a run");
                    *chain = chain.next_generation();
                    batch.line(chain, &now, RecordType::RunStart, Tid(1)).str("id", "r").end();
                    let text = format!("\"{}\"", filler(300, u64::from(chain.generation())));
                    let line = batch.line(chain, &now, RecordType::Compacted, Tid(1));
                    line.json("value", &text).end();
                    batch.line(chain, &now, RecordType::TaskExit, Tid(1)).end();
                    batch.finish(chain);
                }
                Act::Remove(run) => batch.remove(run_id(*run)),
            }
        }
        follow(&mut model, batch.text(), acts);
        self.models.push(model);
        batch
    }

    /// Is the log, opened again, what the model says? Nothing that was reported durable is missing, and a batch
    /// that was not is there as a whole or not at all.
    pub(crate) fn check(&self, writer: &Writer, recovery: &Recovery) -> Result<usize, String> {
        if let Some((run, error)) = recovery.refused.first() {
            return Err(format!("run {run} refused: {error}"));
        }
        if !recovery.missing_blobs.is_empty() {
            return Err(format!("blobs missing: {:?}", recovery.missing_blobs));
        }
        let there = read_all(&self.disk, writer)?;
        let last = self.models.len() - 1;
        let fits = (self.acked..=last).find(|at| self.models[*at] == there);
        fits.ok_or_else(|| {
            let acked = &self.models[self.acked];
            format!("acked {} of {last}: {}", self.acked, differences(acked, &there))
        })
    }
}

/// All runs of an open log as they are on the disk, each line checked, each blob read.
pub(crate) fn read_all(disk: &SimDisk, writer: &Writer) -> Result<Model, String> {
    let mut there = Model::new();
    for (run, entry) in writer.runs() {
        let (state, generation) = (entry.state, entry.generation);
        let mut file = Vec::new();
        if state != RunState::Removed {
            let mut reader =
                RunReader::open(disk, root(), run, Some(entry)).map_err(|e| e.to_string())?;
            while let Some(record) = reader.next() {
                let record = record.map_err(|error| error.to_string())?;
                file.extend_from_slice(record.json.as_bytes());
                file.push(b'\n');
                if let Some(Payload::Blob { hash, .. }) = record.payload("value") {
                    read_blob(disk, root(), hash).map_err(|error| error.to_string())?;
                }
            }
            let on_disk = disk.contents(&run_path(run)).ok_or("no file")?;
            if on_disk != file {
                return Err(format!(
                    "the file of {run} has {} bytes, not {}",
                    on_disk.len(),
                    file.len()
                ));
            }
        } else if disk.contents(&run_path(run)).is_some() {
            return Err(format!("the file of {run}, which was removed, is there"));
        }
        there.insert(run, Modelled { state, generation, file });
    }
    Ok(there)
}

/// What a batch does to the model, worked out from its text and not from the code under test.
fn follow(model: &mut Model, text: &str, acts: &[Act]) {
    for line in text.split_inclusive('\n') {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        let run = Uuid::parse(value["task_id"].as_str().unwrap()).unwrap();
        let fresh = || Modelled { state: RunState::Live, generation: 1, file: Vec::new() };
        let entry = model.entry(run).or_insert_with(fresh);
        if let Some(generation) = value["gen"].as_u64() {
            entry.generation = generation as u32;
            entry.file.clear();
        }
        entry.file.extend_from_slice(line.as_bytes());
    }
    for act in acts {
        match act {
            Act::Finish(run) => model.get_mut(&run_id(*run)).unwrap().state = RunState::Finished,
            Act::Remove(run) => {
                let entry = model.get_mut(&run_id(*run)).unwrap();
                entry.state = RunState::Removed;
                entry.file.clear();
            }
            _ => {}
        }
    }
}

fn filler(size: usize, salt: u64) -> String {
    (0..size).map(|at| (b'a' + ((at as u64 + salt) % 26) as u8) as char).collect()
}

fn differences(expected: &Model, there: &Model) -> String {
    let mut told = Vec::new();
    for run in expected.keys().chain(there.keys().filter(|run| !expected.contains_key(run))) {
        let shown = |model: &Model| match model.get(run) {
            Some(m) => {
                let lines = m.file.iter().filter(|byte| **byte == b'\n').count();
                format!("{:?} {}.{lines}", m.state, m.generation)
            }
            None => "nothing".to_string(),
        };
        if expected.get(run) != there.get(run) {
            told.push(format!("{run}: {} expected, {} found", shown(expected), shown(there)));
        }
    }
    told.join("; ")
}

/// A script that does everything: several runs, blobs, generations, an end, a removal, segments used again,
/// openings in between.
pub(crate) fn everything() -> Vec<Step> {
    use Act::*;
    let mut steps = vec![
        Step::Commit(vec![Lines(1, 2, 10)]),
        Step::Commit(vec![Lines(1, 1, 5), Lines(2, 1, 300), Lines(3, 2, 4)]),
        Step::Commit(vec![Lines(2, 1, 4), Lines(1, 1, 4), Lines(2, 2, 4)]),
        Step::Commit(vec![Finish(3), Lines(4, 1, 300)]),
        Step::Background,
        Step::Commit(vec![Lines(1, 1, 4), Generation(2), Lines(2, 1, 9)]),
        Step::Commit(vec![Remove(3), Lines(1, 1, 400)]),
        Step::Background,
        Step::Commit(vec![Lines(1, 3, 4), Lines(4, 1, 4)]),
        Step::Crash(Survivors::Some(11)),
        Step::Commit(vec![Lines(5, 1, 4), Lines(1, 1, 4)]),
    ];
    for turn in 0..5 {
        steps.push(Step::Commit(vec![Lines(1, 1, 4), Lines(5, 1, 250 + turn)]));
        steps.push(Step::Background);
    }
    steps.extend([
        Step::Reopen,
        Step::Commit(vec![Generation(1), Lines(6, 2, 2)]),
        Step::Commit(vec![Lines(1, 1, 4), Remove(4)]),
        Step::Crash(Survivors::Nothing),
        Step::Commit(vec![Lines(1, 1, 6), Lines(6, 1, 2)]),
        Step::Commit(vec![Lines(1, 1, 6), Lines(2, 1, 2)]),
    ]);
    steps
}

/// A script about runs that are over: they are compacted, removed, and their blobs collected, while others go on and name the same blobs.
pub(crate) fn keeping() -> Vec<Step> {
    use Act::*;
    vec![
        Step::Commit(vec![Lines(1, 2, 300), Lines(2, 3, 301), Lines(3, 1, 302)]),
        // The same text, and so the same blob, as run 1 has.
        Step::Commit(vec![Lines(4, 2, 300), Finish(1), Finish(2)]),
        Step::Commit(vec![Compact(1), Lines(3, 1, 4)]),
        Step::Collect,
        Step::Commit(vec![Finish(3), Remove(2), Lines(4, 1, 303)]),
        Step::Collect,
        Step::Commit(vec![Compact(3), Lines(5, 1, 301), Finish(5)]),
        Step::Crash(Survivors::Some(3)),
        Step::Commit(vec![Compact(5), Remove(1), Lines(6, 1, 300)]),
        Step::Background,
        Step::Collect,
        Step::Commit(vec![Lines(4, 1, 5), Lines(6, 1, 302)]),
    ]
}

/// All lines of a file, or where they stop being good.
pub(crate) fn count_lines(bytes: &[u8]) -> Result<u64, tiffany::wal::Broken> {
    let mut count = 0;
    for record in Reader::new(bytes, None) {
        record?;
        count += 1;
    }
    Ok(count)
}
