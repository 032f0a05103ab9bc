//! A log that no process has: requests become records, which the runs find when they are brought back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, TaskError, Time, Uuid};

use super::request::{Answer, Request, Status};
use crate::clock::Clock;
use crate::durable::{
    Fork, Page, Shelved, Source, copy, fetch, log_failed, no_such_run, not_in_doubt, parse_key,
    read_script, run_over, uuid_of,
};
use crate::host::Entropy;
use crate::inbox::unknown;
use crate::wal::{Batch, Disk, Holding, LogError, Payload, RealDisk, RunState, Settings, Writer};

/// A log in the hands of who wants to change something in it.
pub(super) struct Offline {
    writer: Option<Writer>,
    disk: Arc<dyn Disk>,
    root: PathBuf,
}

/// Why a log cannot be had.
pub(super) enum Refused {
    InUse(LogError),
    Broken(TaskError),
}

impl From<Refused> for TaskError {
    fn from(refused: Refused) -> TaskError {
        match refused {
            Refused::InUse(error) => {
                let message = format!("{error}; that process does not answer");
                TaskError::new(ErrorKind::Unreachable, message)
            }
            Refused::Broken(error) => error,
        }
    }
}

impl Offline {
    pub(super) fn open(root: &Path) -> Result<Offline, Refused> {
        if !root.join("wal").is_dir() {
            let message = format!("there is no log in {}", root.display());
            return Err(Refused::Broken(TaskError::new(ErrorKind::LogFailed, message)));
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let settings = Settings::default();
        match Writer::open_for(Holding::Briefly, Arc::clone(&disk), root, settings) {
            Ok((writer, _)) => Ok(Offline { writer: Some(writer), disk, root: root.into() }),
            Err(error @ LogError::Locked { .. }) => Err(Refused::InUse(error)),
            Err(error) => Err(Refused::Broken(log_failed(error))),
        }
    }

    pub(super) fn ask(&mut self, request: Request) -> Result<Answer, TaskError> {
        let clock = Clock::system().now();
        let mut page = Page::new(Batch::new());
        let answer = self.write(&mut page, request, clock)?;
        if let Some(writer) = &mut self.writer {
            writer.commit(&mut page.batch, |_| {}).map_err(log_failed)?;
        }
        Ok(answer)
    }

    fn write(&self, page: &mut Page, request: Request, clock: Time) -> Result<Answer, TaskError> {
        match request {
            Request::Status => Ok(Answer::Status(Status {
                pid: std::process::id(),
                version: env!("CARGO_PKG_VERSION").into(),
                functions: Vec::new(),
                live: 0,
                paused: Vec::new(),
            })),
            Request::Submit { function, .. } => Err(needs_process(&format!(
                "a run of `{function}` is started by the program that has this function"
            ))),
            Request::Question { run, .. } => {
                self.shelved(run)?;
                Err(needs_process("a run answers from its memory, and it has none"))
            }
            Request::Send { run, name, message } => {
                self.shelved(run)?.send(page, clock, &name, &message);
                Ok(Answer::Done)
            }
            Request::Cancel { run } => {
                self.shelved(run)?.cancel(page, clock);
                Ok(Answer::Done)
            }
            Request::Settle { run: Some(run), promise, result } => {
                let settled = self.shelved(run)?.settle(page, clock, (promise, true), &result);
                settled.map(Answer::Settled).ok_or_else(|| unknown(promise))
            }
            Request::Settle { run: None, promise, result } => {
                for run in self.live() {
                    // One that is damaged does not stand in the way of the others.
                    let Ok(mut shelved) = self.shelved(run) else { continue };
                    let settled = shelved.settle(page, clock, (promise, false), &result);
                    if let Some(settlement) = settled {
                        return Ok(Answer::Settled(settlement));
                    }
                }
                Err(unknown(promise))
            }
            Request::Fork { run, at, fork } => self.fork(page, run, at, &fork, clock),
            Request::Allow { run, names } => {
                self.shelved(run)?.allow(page, clock, &names)?;
                Ok(Answer::Done)
            }
            Request::Doubts => {
                let mut doubts = Vec::new();
                for run in self.live() {
                    let Ok(shelved) = self.shelved(run) else { continue };
                    doubts.extend(shelved.doubts().cloned());
                }
                Ok(Answer::Doubts(doubts))
            }
            Request::Decide { key, decision } => {
                let parsed = parse_key(&key)?;
                match self.shelved(parsed.run)?.decide(page, clock, parsed, &decision) {
                    true => Ok(Answer::Done),
                    false => Err(not_in_doubt(&key)),
                }
            }
        }
    }

    fn fork(
        &self,
        page: &mut Page,
        run: Uuid,
        at: u64,
        fork: &Fork,
        clock: Time,
    ) -> Result<Answer, TaskError> {
        let Some(writer) = &self.writer else { return Err(no_such_run(run)) };
        let entry = writer.run(run).filter(|entry| entry.state != RunState::Removed);
        entry.ok_or_else(|| no_such_run(run))?;
        let source = Source { disk: &*self.disk, root: &self.root, run };
        let limit = writer.settings().blob_limit;
        let mut copied = copy(&source, at, fork, clock, limit, |id| {
            let uuid = uuid_of(id);
            writer.run(uuid).is_none().then(|| Entropy::System.seed_of(uuid))
        })?;
        page.batch.append(&mut copied.batch);
        Ok(Answer::Forked { run: copied.chain.run(), id: copied.id })
    }

    /// The runs that are not over, in order.
    fn live(&self) -> Vec<Uuid> {
        let runs = self.writer.iter().flat_map(Writer::runs);
        let live = runs.filter(|(_, entry)| entry.state == RunState::Live).map(|(run, _)| run);
        let mut live: Vec<Uuid> = live.collect();
        live.sort();
        live
    }

    fn shelved(&self, run: Uuid) -> Result<Shelved, TaskError> {
        let entry = self.writer.as_ref().and_then(|writer| writer.run(run));
        let entry = entry.ok_or_else(|| no_such_run(run))?;
        if entry.state != RunState::Live {
            return Err(run_over(run));
        }
        let script = read_script(&*self.disk, &self.root, run, |_| false).map_err(log_failed)?;
        let fetch = |payload: &Payload<'_>| fetch(&*self.disk, &self.root, payload);
        Ok(Shelved::new(entry.chain(run), &script, &fetch))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take()
            && let Err(error) = writer.close()
        {
            // Everything that was answered is in the commit log all the same.
            tracing::warn!(target: "tiffany", "closing the log: {error}");
        }
    }
}

fn needs_process(why: &str) -> TaskError {
    let message = format!("no process has this log: {why}");
    TaskError::new(ErrorKind::Unreachable, message)
}
