//! The durable side of a runtime: the log is opened, unfinished runs in it are resumed, and the log
//! is closed in an orderly way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use tiffany_kernel::{CallRef, ErrorKind, TaskError, Time, Uuid};

use crate::control::socket::{House, Listening};
use crate::host::trace::Who;
use crate::metrics::loop_state::LogState;
use crate::retention::background::Background;
use crate::run_log::damage::Damaged;
use crate::run_log::earlier::Earlier;
use crate::run_log::hold::Holding;
use crate::run_log::journal::Journal;
use crate::run_log::log::{CommitTime, Log};
use crate::run_log::page::Page;
use crate::run_log::replay::decoded_log::Begun;
use crate::run_log::replay::matcher::Replay;
use crate::run_log::terms::Terms;
use crate::runtime::Runtime;
use crate::runtime::branch::Branch;
use crate::runtime::commit::AfterCommit;
use crate::runtime::deadlines::HeldDeadlines;
use crate::runtime::durable_runs::{Beginning, Ending, Known};
use crate::runtime::failed_log::FailedLog;
use crate::runtime::known_runs::KnownRuns;
use crate::runtime::memory_gauge::MemoryGauge;
use crate::runtime::run_list::FinishedRuns;
use crate::watchdog::Watched;
use tiffany_log::{
    Batch, DirLock, Disk, LogError, RunEntry, RunState, Ticket, Writer, let_go_soon, mark_redacted,
};
use tiffany_records::RunError;
use tiffany_records::errors::log_failed;
use tiffany_records::key::{Key, LogEnd, Received};

/// The durable side of a runtime.
pub(crate) struct Durable {
    pub(crate) log: Log,
    /// The lock of the directory, which is held while this exists and while attempts at steps run,
    /// even after the log has failed.
    pub(crate) dir_lock: Arc<dyn DirLock>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) page: Page,
    /// The actions that wait for lines which were not handed in yet, and for lines which were.
    pub(crate) after_commit: Vec<AfterCommit>,
    pub(crate) waiting: VecDeque<(Ticket, Time, Vec<AfterCommit>)>,
    /// The last batch that was handed in, and the last one that is durable.
    pub(crate) handed_in: Ticket,
    pub(crate) safe: Ticket,
    /// Whether more bytes wait for the disk than should, and the runs that wait for that to end.
    pub(crate) is_behind: bool,
    pub(crate) held_back: Vec<usize>,
    pub(crate) runs: KnownRuns,
    /// Runs that were found to be damaged when the log was opened.
    pub(crate) damaged: BTreeMap<Uuid, Damaged>,
    pub(crate) ended: VecDeque<Uuid>,
    pub(crate) failed: Option<LogError>,
    /// Shows runs after the log has failed.
    pub(crate) failed_log: Option<FailedLog>,
    /// The catalogue of finished runs.
    pub(crate) finished_runs: FinishedRuns,
    /// Whether a run in memory was a fork, and whether one was held.
    pub(crate) has_forks: bool,
    pub(crate) has_held: bool,
    pub(crate) held_deadlines: HeldDeadlines,
    /// The socket for other processes, and the thread that applies retention rules. Both are
    /// dropped before the log is closed.
    listening: Option<Listening>,
    keeping: Option<Background>,
}

/// The durable side of one run.
pub(crate) struct DurableState {
    pub(crate) journal: Journal,
    pub(crate) beginning: Beginning,
    /// The calls and the start time of earlier generations.
    pub(crate) earlier: Earlier,
    pub(crate) settled: BTreeSet<Uuid>,
    /// The input, if it is made of state machines, which can be saved as a snapshot.
    pub(crate) input: Option<Arc<str>>,
    /// The record at which a snapshot is tried next, and whether a warning said that there can be
    /// none.
    pub(crate) snapshot_at: u64,
    pub(crate) is_warned: bool,
    /// The seed of its random numbers.
    pub(crate) seed: u64,
    /// The attempts at steps that have no result in the log.
    pub(crate) begun: BTreeMap<u64, Begun>,
    /// The messages of other runs that it has received.
    pub(crate) received: Received,
    pub(crate) replay: Option<Box<Replay>>,
    /// The state of a fork.
    pub(crate) branch: Option<Box<Branch>>,
    pub(crate) ending: Ending,
    pub(crate) is_over: bool,
    /// Whether it is held.
    pub(crate) holding: Holding,
    /// Its namespace and deadline, and the tags and attributes that this generation began with.
    pub(crate) terms: Terms,
}

impl DurableState {
    /// Whether its code was interrupted in the middle of a turn, so that it can continue only from its log.
    pub(crate) fn is_broken(&self) -> bool {
        self.journal.is_interrupted()
    }

    /// Whether a person or a limit holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.holding.error.is_some()
    }

    /// The run's identity.
    pub(crate) fn uuid(&self) -> Uuid {
        self.journal.run()
    }

    /// The name of a call that waits for the outside world, and the id of its run.
    pub(crate) fn name_of(&self, call: CallRef) -> Option<(Key, String)> {
        Some((self.journal.key_of(call)?, self.beginning.id.to_string()))
    }

    /// The identity of the run in spans of log output.
    pub(crate) fn who(&self) -> Who<'_> {
        let Beginning { id, function, .. } = &self.beginning;
        Who::Durable { uuid: self.uuid(), id, function, comes_back: false }
    }

    /// The run's function, and when it was started.
    pub(crate) fn began(&self) -> (Rc<str>, Time) {
        (Rc::clone(&self.beginning.function), self.earlier.since)
    }
}

impl Durable {
    fn new(
        (log, dir_lock, disk, root, page): (Log, Arc<dyn DirLock>, Arc<dyn Disk>, PathBuf, Page),
        runs: KnownRuns,
        listening: Option<Listening>,
    ) -> Durable {
        Durable {
            log,
            dir_lock,
            disk,
            root,
            page,
            after_commit: Vec::new(),
            waiting: VecDeque::new(),
            handed_in: Ticket(0),
            safe: Ticket(0),
            is_behind: false,
            held_back: Vec::new(),
            runs,
            damaged: BTreeMap::new(),
            ended: VecDeque::new(),
            failed: None,
            failed_log: None,
            finished_runs: FinishedRuns::Unread,
            has_forks: false,
            has_held: false,
            held_deadlines: HeldDeadlines::default(),
            listening,
            keeping: None,
        }
    }

    /// The state of the log, for the metrics.
    pub(crate) fn standing(&self) -> LogState {
        LogState {
            runs: self.runs.states(),
            backlog: self.log.backlog() + self.page.batch.len(),
            held_back: self.held_back.len(),
            has_failed: self.failed.is_some(),
        }
    }

    /// The disk and the directory of the log.
    pub(crate) fn place(&self) -> (Arc<dyn Disk>, PathBuf) {
        (Arc::clone(&self.disk), self.root.clone())
    }
}

impl Runtime {
    /// Opens the log, and resumes the unfinished runs in it.
    pub(crate) fn open_log(
        &mut self,
        root: PathBuf,
        disk: Arc<dyn Disk>,
        inline: Option<CommitTime>,
    ) -> Result<(), RunError> {
        self.host.hub.wake();
        let settings = self.settings.log_settings.clone();
        let mut batch = Batch::with_blob_limit(settings.blob_limit);
        batch.redact(self.settings.redactions.clone());
        let page = Page::new(batch);
        let (writer, recovery) = Writer::open(disk, &root, settings)?;
        let disk = writer.disk();
        if inline.is_none() {
            recovery.losses.iter().for_each(|loss| tracing::warn!(target: "tiffany", "{loss}"));
            let rules = self.settings.redactions.as_ref().map(|rules| rules.marks());
            mark_redacted(&*disk, &root, &rules.unwrap_or_default())?;
        }
        let (runs, mut live) = known_runs(&writer);
        let dir_lock = writer.lock();
        let inbox = Arc::clone(&self.host.inbox);
        if inline.is_none() {
            inbox.meters.has_log_in(root.clone());
        }
        let log = Log::start(writer, inbox, inline)
            .map_err(|error| RunError::system("a thread for the log", &error))?;
        let listening = match inline {
            // A simulated disk has no other processes.
            Some(_) => None,
            None => self.listen(&root),
        };
        let opened = (log, dir_lock, disk, root, page);
        self.durable = Some(Durable::new(opened, runs, listening));
        self.pause_damaged(recovery.refused, &mut live);
        let over = self.durable_mut().runs.len();
        tracing::info!(
            target: "tiffany", dir = %self.durable_mut().root.display(), live = live.len(), over,
            "log opened",
        );
        self.post.close();
        live.sort_by_key(|(uuid, _)| *uuid);
        if inline.is_none() {
            self.begin_limits(&mut live);
        }
        self.resume_all(live);
        self.open_post();
        if inline.is_none() {
            self.durable_mut().keeping = self.keep_rules()?;
        }
        Ok(())
    }

    /// Pauses the runs whose logs were found to be damaged.
    fn pause_damaged(&mut self, refused: Vec<(Uuid, LogError)>, live: &mut Vec<(Uuid, RunEntry)>) {
        for (uuid, error) in refused {
            let durable = self.durable_mut();
            let is_over = matches!(durable.runs.get(&uuid), Some(Known::Over(..)));
            durable.damaged.insert(uuid, Damaged { error: error.clone(), is_over });
            live.retain(|(run, _)| *run != uuid);
            self.pause(uuid, log_failed(error), None);
        }
    }

    /// Holds the runs that stopped earlier processes, and limits the turns and the memory of the
    /// others.
    fn begin_limits(&mut self, live: &mut Vec<(Uuid, RunEntry)>) {
        self.hold_marked(live);
        self.hold_deadly(live);
        self.limit_turns();
        if self.settings.run_limits.is_some_and(|limits| limits.memory_bytes.is_some()) {
            self.memory = MemoryGauge::new().map(Box::new);
        }
    }

    /// Resumes unfinished runs.
    fn resume_all(&mut self, live: Vec<(Uuid, RunEntry)>) {
        let _awake = self.watched.as_ref().map(Watched::watch);
        for (uuid, entry) in live {
            match self.settings.only {
                Some(only) if only != uuid => self.leave_alone(uuid, entry.chain(uuid)),
                _ => self.resume(uuid, entry.chain(uuid)),
            }
        }
    }

    /// Starts the thread that applies retention rules, if there are any.
    fn keep_rules(&mut self) -> Result<Option<Background>, RunError> {
        let rules = self.settings.retention.clone();
        if rules.is_empty() {
            return Ok(None);
        }
        let (every, inbox) = (self.settings.retention_every, Arc::clone(&self.host.inbox));
        let started = Background::start(rules, every, inbox, self.durable_mut().root.clone());
        started.map(Some).map_err(|error| RunError::system("a thread for old runs", &error))
    }

    /// Opens the socket for other processes. If that fails, everything else continues.
    fn listen(&self, root: &Path) -> Option<Listening> {
        let house = House {
            inbox: Arc::clone(&self.host.inbox),
            hub: self.host.hub.clone(),
            audit_hook: self.settings.audit_hook.clone(),
        };
        let listening = Listening::start(root, house);
        listening
            .inspect_err(|error| {
                tracing::warn!(target: "tiffany", "other processes cannot reach this one: {error}");
            })
            .ok()
    }

    pub(crate) fn durable_mut(&mut self) -> &mut Durable {
        self.durable.as_mut().expect("only asked for where there is a log")
    }

    /// Records in the log of each unfinished run that the process ended in an orderly way, and
    /// closes the log.
    pub(crate) fn close_log(&mut self) {
        let (steps, mut parts) = self.steps();
        steps.take_back(&mut parts);
        let Some(mut durable) = self.durable.take() else { return };
        drop(durable.listening.take());
        if let Some(keeping) = durable.keeping.take() {
            // It may wait for an answer, which will not come.
            self.host.inbox.close();
            drop(keeping);
        }
        let clock = self.host.clock.now();
        for hosted in self.runs.iter_mut() {
            if let Some(durable_state) = &mut hosted.durable_state
                && !durable_state.is_over
            {
                let (page, run) = (&mut durable.page, &mut hosted.run);
                durable_state.journal.lines_now(page, run, clock).shutdown();
            }
        }
        durable.log.submit(&mut durable.page.batch, &self.host.clock);
        let closed = durable.log.close();
        if let Err(error) = &closed {
            tracing::error!(target: "tiffany", "closing the log: {error}");
        }
        if Arc::strong_count(&durable.dir_lock) > 1 {
            // Attempts still run, and keep the lock until they end. The process that opens the
            // directory next may wait for that.
            let_go_soon(&*durable.dir_lock);
        }
        // Closing the log has made everything in it durable.
        let waiting = durable.waiting.into_iter().flat_map(|(_, _, after)| after);
        for after in durable.after_commit.into_iter().chain(waiting) {
            if let AfterCommit::Answer(tell, answer) = after {
                tell.tell(closed.clone().map_err(log_failed).and(answer));
            }
        }
    }
}

/// The runs of a log, and the unfinished ones among them with their entries.
fn known_runs(writer: &Writer) -> (KnownRuns, Vec<(Uuid, RunEntry)>) {
    let mut runs = KnownRuns::default();
    let mut live = Vec::new();
    for (uuid, entry) in writer.runs() {
        match entry.state {
            RunState::Live => live.push((uuid, entry)),
            RunState::Finished => {
                let RunEntry { generation, seq, crc, .. } = entry;
                let stand = LogEnd { generation, seq, crc };
                runs.insert(uuid, Known::Over(stand, None));
            }
            RunState::Removed => runs.insert(uuid, Known::Removed),
        }
    }
    (runs, live)
}

pub(crate) fn no_log() -> RunError {
    RunError::Failed(no_log_here())
}

pub(crate) fn no_log_here() -> TaskError {
    let message = "this runtime has no log; give its builder a `log_dir`";
    TaskError::new(ErrorKind::LogFailed, message)
}
