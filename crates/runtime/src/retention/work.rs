//! Removes and compacts runs in small batches. The owner of the log checks each batch: a process
//! behind a socket, a runtime of this process, or this process for a log that no process owns.

use std::time::{Duration, Instant};

use tiffany_kernel::{TaskError, Uuid};

use crate::control::{Control, unexpected};
use tiffany_log::{Collected, LogError, View};
use tiffany_records::errors::{log_failed, run_removed};
use tiffany_records::request::{Answer, Request};
use tiffany_records::retention::{Plan, Remains};

/// How many runs are removed at once.
const REMOVAL_BATCH: usize = 256;
/// How many runs are compacted at once, how many bytes their files may have, and how many bytes what is left of them.
const COMPACTION_BATCH: usize = 64;
const COMPACTION_BATCH_BYTES: u64 = 16 << 20;
const MAX_REMAINS_BYTES: usize = 256 << 10;
/// The time between two looks at whether a collection of blobs has ended.
const COLLECTION_POLL: Duration = Duration::from_millis(5);

/// What was removed and compacted.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// How many runs were removed.
    pub removed: u64,
    /// How many runs were compacted.
    pub compacted: u64,
    /// How many bytes were saved.
    pub bytes: u64,
    /// The blobs that were removed because no run named them any more.
    pub collected: Collected,
    /// Runs that were not compacted because nothing would be saved: they are short, or were compacted before.
    pub unchanged: Vec<Uuid>,
    /// Runs that were left as they are, and why: a fork was made of one meanwhile, say, or one is damaged.
    pub refused: Vec<(Uuid, TaskError)>,
}

/// The owner of a log, or a way to ask it.
pub(crate) trait Ask {
    fn request(&mut self, request: Request) -> Result<Answer, TaskError>;

    /// Leaves the disk and the processor to others after a batch that took this long.
    fn rest(&self, _: Duration) {}
}

impl Ask for Control {
    fn request(&mut self, request: Request) -> Result<Answer, TaskError> {
        self.ask(request)
    }

    fn rest(&self, took: Duration) {
        if !self.is_offline() {
            std::thread::sleep(took);
        }
    }
}

/// Removes one run.
pub(crate) fn remove(ask: &mut dyn Ask, run: Uuid) -> Result<(), TaskError> {
    let each = each(ask, Request::Remove { runs: vec![run] })?;
    each.into_iter().next().unwrap_or(Ok(()))
}

fn each(ask: &mut dyn Ask, request: Request) -> Result<Vec<Result<(), TaskError>>, TaskError> {
    match ask.request(request)? {
        Answer::Each(each) => Ok(each),
        other => Err(unexpected(&other)),
    }
}

impl Pruned {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed + self.compacted == 0
    }

    /// Removes runs.
    pub(crate) fn remove(
        &mut self,
        ask: &mut dyn Ask,
        runs: &[(Uuid, u64)],
    ) -> Result<(), TaskError> {
        for batch in runs.chunks(REMOVAL_BATCH) {
            let began = Instant::now();
            let named = batch.iter().map(|(run, _)| *run).collect();
            let outcomes = each(ask, Request::Remove { runs: named })?;
            for ((run, bytes), outcome) in batch.iter().zip(outcomes) {
                match outcome {
                    Ok(()) => {
                        self.removed += 1;
                        self.bytes += bytes;
                    }
                    Err(error) => self.refused.push((*run, error)),
                }
            }
            ask.rest(began.elapsed());
        }
        Ok(())
    }

    /// Compacts runs, each of which is read and checked first. One that is damaged is left alone.
    pub(crate) fn compact(
        &mut self,
        ask: &mut dyn Ask,
        view: &View,
        runs: &[Uuid],
    ) -> Result<(), TaskError> {
        let mut batch: Vec<Remains> = Vec::new();
        let mut began = Instant::now();
        for (at, run) in runs.iter().enumerate() {
            match Remains::read(view, *run) {
                Ok(Some(remains)) => batch.push(remains),
                Ok(None) => self.unchanged.push(*run),
                Err(error) => self.refused.push((*run, compaction_failed(*run, error))),
            }
            let left: usize = batch.iter().map(Remains::size).sum();
            let read: u64 = batch.iter().map(|remains| remains.bytes).sum();
            let is_full = batch.len() >= COMPACTION_BATCH
                || left >= MAX_REMAINS_BYTES
                || read >= COMPACTION_BATCH_BYTES;
            if is_full || at + 1 == runs.len() {
                self.hand_over(ask, std::mem::take(&mut batch))?;
                ask.rest(began.elapsed());
                began = Instant::now();
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, ask: &mut dyn Ask, batch: Vec<Remains>) -> Result<(), TaskError> {
        if batch.is_empty() {
            return Ok(());
        }
        let sizes: Vec<(Uuid, u64)> = batch
            .iter()
            .map(|remains| (remains.run, remains.bytes.saturating_sub(remains.size() as u64)))
            .collect();
        let outcomes = each(ask, Request::Compact { remains: batch })?;
        for ((run, saved), outcome) in sizes.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    self.compacted += 1;
                    self.bytes += saved;
                }
                Err(error) => self.refused.push((run, error)),
            }
        }
        Ok(())
    }

    /// Removes the blobs that no run names any more, and waits for that.
    pub(crate) fn collect(&mut self, ask: &mut dyn Ask) -> Result<(), TaskError> {
        let mut number = None;
        loop {
            match ask.request(Request::Collect { number })? {
                Answer::Collection(_, Some(collected)) => {
                    self.collected = collected;
                    return Ok(());
                }
                Answer::Collection(of, None) => number = Some(of),
                other => return Err(unexpected(&other)),
            }
            std::thread::sleep(COLLECTION_POLL);
        }
    }

    /// Carries out a plan.
    pub(crate) fn carry_out(
        &mut self,
        ask: &mut dyn Ask,
        view: &View,
        plan: &Plan,
    ) -> Result<(), TaskError> {
        self.refused.extend(plan.damaged.iter().cloned());
        let runs: Vec<(Uuid, u64)> = plan.remove.iter().map(|one| (one.run, one.bytes)).collect();
        self.remove(ask, &runs)?;
        let runs: Vec<Uuid> = plan.compact.iter().map(|one| one.run).collect();
        self.compact(ask, view, &runs)
    }
}

fn compaction_failed(run: Uuid, error: LogError) -> TaskError {
    match error {
        LogError::UnknownRun(_) => run_removed(run),
        error => log_failed(error),
    }
}
