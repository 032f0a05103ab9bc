//! A log without its runtime: either no process has it open, and requests become records that the
//! runs find when they are resumed; or it has failed, and is only read.

use crate::run_log::damage::lost;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, TaskError, Time, Uuid};

use super::catalogue::{Catalogue, Listing, Shown};
use super::no_activity;
use crate::clock::Clock;
use crate::control::asked_run;
use crate::control::asked_run::{AskedDormantRun, AskedRun, AskedRuns, Settling};
use crate::control::audit_hook;
use crate::control::audit_hook::AuditHook;
use crate::host::entropy::Entropy;
use crate::program::run_limits::RunLimits;
use crate::run_log::dormant_run::{DormantRun, why_not_open};
use crate::run_log::fork::copy::Source;
use crate::run_log::fork::copy::copy;
use crate::run_log::hold::Hold;
use crate::run_log::page::Page;
use crate::run_log::replay::read::{fetch, read_script};
use tiffany_log::{
    Batch, Collected, Disk, LockTerm, LogError, LogFiles, Payload, RealDisk, RunEntry, RunState,
    Settings, View, Writer, is_redacted,
};
use tiffany_records::errors::{
    log_failed, no_such_run, not_over, read_too_early, run_over, run_removed,
};
use tiffany_records::key::{LogEnd, Received, refuse_ambiguous};
use tiffany_records::redact::{self, Redactions};
use tiffany_records::request::{
    Answer, Approval, Decision, Fork, Lost, Request, Ruling, RunQuery, Settlement, State, Status,
    find_named, no_such_approval, not_encodable, own_uid,
};
use tiffany_records::retention::{NeededRuns, Remains, parent_of};
use tiffany_records::value::plain::check_readable;

/// A log that a client reads or changes.
pub(crate) struct Offline {
    log: Option<Log>,
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// The runs that forks need, once they were computed, and the last collection of blobs.
    needed: Option<Arc<NeededRuns>>,
    collected: Option<Collected>,
    /// Damage that was found when it was opened, and the damaged runs.
    pub(super) losses: Vec<LogError>,
    damaged: BTreeMap<Uuid, LogError>,
    /// The audit hook for changes.
    pub(super) audit_hook: Option<Arc<dyn AuditHook>>,
}

enum Log {
    /// Locked, so that it can be written.
    Held(Box<Writer>),
    /// As its files are, whichever process has it open.
    Seen(Box<View>),
}

/// Why a log cannot be opened.
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
        match Writer::open_for(LockTerm::Brief, Arc::clone(&disk), root, settings) {
            Ok((writer, recovery)) => {
                let log = Some(Log::Held(Box::new(writer)));
                let damaged = recovery.refused.into_iter().collect();
                Ok(Offline::of(log, disk, root, recovery.losses, damaged))
            }
            Err(error @ LogError::Locked { .. }) => Err(Refused::InUse(error)),
            Err(error) => Err(Refused::Broken(log_failed(error))),
        }
    }

    /// Reads the log as its files are now. It cannot be changed through this.
    pub(crate) fn look(disk: Arc<dyn Disk>, root: &Path) -> Result<Offline, TaskError> {
        let view = View::open(disk, root).map_err(log_failed)?;
        let disk = Arc::clone(view.disk());
        let damaged = view.recovery().refused.iter().cloned().collect();
        let log = Some(Log::Seen(Box::new(view)));
        Ok(Offline::of(log, disk, root, Vec::new(), damaged))
    }

    fn of(
        log: Option<Log>,
        disk: Arc<dyn Disk>,
        root: &Path,
        losses: Vec<LogError>,
        damaged: BTreeMap<Uuid, LogError>,
    ) -> Offline {
        let (needed, collected, audit_hook) = (None, None, None);
        Offline { log, disk, root: root.into(), needed, collected, losses, damaged, audit_hook }
    }

    /// The end of the log of a run.
    fn entry(&self, run: Uuid) -> Option<RunEntry> {
        match self.log.as_ref()? {
            Log::Held(writer) => writer.run(run),
            Log::Seen(view) => view.run(run),
        }
    }

    fn entries(&self) -> Box<dyn Iterator<Item = (Uuid, RunEntry)> + '_> {
        match &self.log {
            Some(Log::Held(writer)) => Box::new(writer.runs()),
            Some(Log::Seen(view)) => Box::new(view.runs()),
            None => Box::new(std::iter::empty()),
        }
    }

    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer, TaskError> {
        let noted = audit_hook::begin(self.audit_hook.as_deref(), own_uid(), &request)?;
        let answer = self.carry_out(request);
        audit_hook::finish(noted, answer)
    }

    fn carry_out(&mut self, request: Request) -> Result<Answer, TaskError> {
        let clock = Clock::system().now();
        // Only the program that has the codec knows whether its classes exist.
        let request = request.accepted(check_readable)?;
        let rules = self.rules_for(&request)?;
        let mut page = Page::new(Batch::new());
        page.batch.redact(rules.clone());
        let answer = self.write(&mut page, request, clock);
        let answer = match &rules {
            Some(rules) => answer.map(|answer| answer.redacted(rules)).map_err(|e| rules.error(e)),
            None => answer,
        }?;
        if let Some(Log::Held(writer)) = &mut self.log {
            writer.commit(&mut page.batch, |_| {}).map_err(log_failed)?;
        }
        Ok(answer)
    }

    /// The rules by which secrets are redacted in what is written: those of this process. If it has
    /// none, and the program that usually owns the directory has some, nothing is written that may
    /// contain a secret.
    fn rules_for(&self, request: &Request) -> Result<Option<Arc<Redactions>>, TaskError> {
        let rules = redact::known();
        if let Some(rules) = &rules {
            let mut names = asked_run::names_in(request).into_iter();
            names.try_for_each(|(what, name)| rules.refuse_name(what, name))?;
        }
        let brings_text = match request {
            Request::Send { .. } | Request::Settle { .. } => true,
            Request::Fork { fork, .. } => fork.has_reply(),
            Request::Hold { why, .. } | Request::Release { why, .. } => why.is_some(),
            Request::Decide { decision, .. } => !matches!(decision, Decision::Again),
            Request::Resolve { ruling, .. } => ruling.has_reason(),
            _ => false,
        };
        if brings_text && rules.is_none() && is_redacted(&*self.disk, &self.root) {
            return Err(needs_process(
                "the program that owned it redacts secrets by rules that are not known here; start it and try again",
            ));
        }
        Ok(rules)
    }

    fn write(
        &mut self,
        page: &mut Page,
        request: Request,
        clock: Time,
    ) -> Result<Answer, TaskError> {
        let request = match request {
            Request::Resolve { approval, ruling } => {
                Request::Resolve { approval, ruling: ruling.asked_by_user(own_uid()) }
            }
            request => request,
        };
        let mut writing = WrittenRuns { offline: self, page, clock };
        let request = match asked_run::carry_out(&mut writing, request) {
            ControlFlow::Break(answer) => return answer,
            ControlFlow::Continue(request) => request,
        };
        match request {
            Request::Status => Ok(Answer::Status(status())),
            Request::Health => Ok(Answer::Done),
            Request::Runs(query) => self.catalogue().list(self.listing(query)),
            Request::Find { name } => self.find(&name).map(Answer::Found),
            Request::Show { run } => self.show(run),
            Request::Recorded { run } => self.recorded(run),
            Request::Submit { function, .. } => Err(needs_process(&format!(
                "a run of `{function}` is started by the program that has this function"
            ))),
            Request::Question { run, .. } => {
                self.dormant(run)?;
                Err(needs_process("a run answers from its memory, and it has none"))
            }
            Request::Metrics => {
                Err(needs_process("metrics are those of a process, and none has the log"))
            }
            // No task has a turn.
            Request::LongTurns => Ok(Answer::LongTurns(Vec::new())),
            Request::Fork { run, at, fork } => {
                self.needed = None;
                self.fork(page, run, at, &fork.asked_by_user(own_uid()), clock)
            }
            Request::Remove { runs } => Ok(Answer::Each(self.remove(page, runs))),
            Request::RemoveDamaged { run } => self.remove_damaged(page, run).map(Answer::Lost),
            Request::Compact { remains } => Ok(Answer::Each(self.compact(page, &remains, clock))),
            Request::Collect { number } => self.collect_blobs(number),
            Request::Events(_) => Err(no_activity()),
            Request::Doubts => {
                let (runs, warning) = self.dormant_runs();
                let doubts = runs.iter().flat_map(DormantRun::doubts).cloned().collect();
                Ok(warned(Answer::Doubts(doubts), warning))
            }
            Request::Approvals => {
                let (runs, warning) = self.dormant_runs();
                let open = runs.iter().flat_map(|run| run.approvals(clock)).cloned().collect();
                Ok(warned(Answer::Approvals(open), warning))
            }
            Request::Encoded(_) => Err(not_encodable()),
            Request::Hold { .. }
            | Request::Release { .. }
            | Request::Cancel { .. }
            | Request::Send { .. }
            | Request::Allow { .. }
            | Request::Settle { .. }
            | Request::Decide { .. }
            | Request::Resolve { .. } => unreachable!("what is asked of one run was answered"),
        }
    }

    /// Returns how far the log of a run is written.
    fn recorded(&self, run: Uuid) -> Result<Answer, TaskError> {
        let entry = self.entry(run).ok_or_else(|| no_such_run(run))?;
        match (entry.state, &self.log) {
            (RunState::Removed, _) => Err(run_removed(run)),
            // Its file may never have all that the commit log has.
            (_, Some(Log::Seen(_))) => Ok(Answer::Recorded { generation: 0, seq: 0 }),
            _ => Ok(Answer::Recorded { generation: entry.generation, seq: entry.seq }),
        }
    }

    /// Removes finished runs. A run that is named twice is removed once.
    fn remove(&mut self, page: &mut Page, runs: Vec<Uuid>) -> Vec<Result<(), TaskError>> {
        let needed = self.needed();
        let mut seen = BTreeSet::new();
        let each = runs.into_iter().map(|run| {
            if !seen.insert(run) {
                return Err(run_removed(run));
            }
            self.at_rest(run, &needed)?;
            page.batch.remove(run);
            Ok(())
        });
        each.collect()
    }

    /// Replaces the logs of finished runs by what remains of them, unless they have changed since
    /// that was computed.
    fn compact(
        &mut self,
        page: &mut Page,
        remains: &[Remains],
        clock: Time,
    ) -> Vec<Result<(), TaskError>> {
        let needed = self.needed();
        let mut seen = BTreeSet::new();
        let each = remains.iter().map(|remains| {
            let (run, stand) = (remains.run, self.at_rest(remains.run, &needed)?);
            if stand != remains.stand || !seen.insert(run) {
                return Err(read_too_early(run));
            }
            let mut received = Received::of_keys(&remains.received);
            received.retain(|sender| self.is_live(sender));
            remains.write(&mut page.batch, &received, clock).map(drop)
        });
        each.collect()
    }

    /// Removes blobs that no run names. A question about a collection is answered with the last one.
    fn collect_blobs(&mut self, number: Option<u64>) -> Result<Answer, TaskError> {
        let Some(Log::Held(writer)) = &mut self.log else {
            return Err(needs_process("it is closed"));
        };
        let collected = match (number, &self.collected) {
            (Some(_), Some(collected)) => collected.clone(),
            _ => writer.collect_blobs().map_err(log_failed)?,
        };
        self.collected = Some(collected.clone());
        Ok(Answer::Collection(1, Some(collected)))
    }

    /// The runs as they are now. No other process writes.
    fn catalogue(&self) -> Catalogue {
        let mut catalogue = Catalogue::new(Arc::clone(&self.disk), self.root.clone());
        let over = self.entries();
        let over = over.filter(|(_, entry)| entry.state == RunState::Finished);
        catalogue.read(over.map(|(run, entry)| (run, LogEnd::of(&entry.chain(run)))).collect());
        catalogue
    }

    fn listing(&self, query: RunQuery) -> Listing {
        let removed = self.entries();
        let removed = removed.filter(|(_, entry)| entry.state == RunState::Removed);
        Listing {
            live: Vec::new(),
            live_total: 0,
            paused: self.live().into_iter().map(|run| (run, None, State::Live, None)).collect(),
            removed: removed.map(|(run, _)| run).filter(|_| query.wants(State::Removed)).collect(),
            query,
        }
    }

    fn find(&self, name: &str) -> Result<Uuid, TaskError> {
        let known = |run: &Uuid| self.entry(*run).is_some() || self.damaged.contains_key(run);
        find_named(name, known, |from, to| {
            let runs = self.entries().map(|(run, _)| run);
            runs.filter(move |run| (from..=to).contains(run))
        })
    }

    fn show(&self, run: Uuid) -> Result<Answer, TaskError> {
        let entry = self.entry(run);
        let entry = entry.ok_or_else(|| no_such_run(run))?;
        let shown = match entry.state {
            RunState::Live => Shown::Paused(None, State::Live, None),
            RunState::Finished => Shown::Over(LogEnd::of(&entry.chain(run)), None),
            RunState::Removed => return Err(run_removed(run)),
        };
        Catalogue::new(Arc::clone(&self.disk), self.root.clone()).show(run, shown)
    }

    fn fork(
        &self,
        page: &mut Page,
        run: Uuid,
        at: u64,
        fork: &Fork,
        clock: Time,
    ) -> Result<Answer, TaskError> {
        let Some(Log::Held(writer)) = &self.log else { return Err(no_such_run(run)) };
        let entry = writer.run(run).ok_or_else(|| no_such_run(run))?;
        if entry.state == RunState::Removed {
            return Err(run_removed(run));
        }
        let source = Source { disk: &*self.disk, root: &self.root, run };
        let empty = page.batch.another_with_blob_limit(writer.settings().blob_limit);
        let mut copied = copy(&source, at, fork, clock, empty, |uuid, id| {
            let knows = |run: Uuid| writer.run(run).is_some();
            let is_free = !knows(uuid) && refuse_ambiguous(id, knows).is_ok();
            is_free.then(|| Entropy::System.seed_of(uuid))
        })?;
        page.batch.append(&mut copied.batch);
        Ok(Answer::Forked { run: copied.chain.run(), id: copied.id })
    }

    /// The runs that forks need. No other process writes meanwhile, so they are computed once.
    fn needed(&mut self) -> Arc<NeededRuns> {
        if let Some(needed) = &self.needed {
            return Arc::clone(needed);
        }
        let log = LogFiles::new(Arc::clone(&self.disk), &self.root);
        let first_line = |run| parent_of(&log, run);
        let unknown = self.damaged.keys().filter(|run| self.entry(**run).is_none());
        let unfinished = self.live().into_iter().chain(unknown.copied());
        let needed = NeededRuns::of(unfinished.map(|run| (run, first_line(run))), |run| match self
            .entry(run)
            .map(|entry| entry.state)
        {
            None | Some(RunState::Removed) => Ok(None),
            Some(_) => first_line(run),
        });
        let needed = Arc::new(needed);
        self.needed = Some(Arc::clone(&needed));
        needed
    }

    fn remove_damaged(&mut self, page: &mut Page, run: Uuid) -> Result<Lost, TaskError> {
        let known = self.damaged.get(&run);
        match self.entry(run).map(|entry| entry.state) {
            Some(RunState::Removed) => return Err(run_removed(run)),
            None if known.is_none() => return Err(no_such_run(run)),
            _ => {}
        }
        let forks = self.needed().forks_of(run);
        let known = self.damaged.get(&run);
        let lost = lost((&*self.disk, &self.root), run, known, forks)?;
        page.batch.remove(run);
        self.damaged.remove(&run);
        self.needed = None;
        Ok(lost)
    }

    /// The end of the log of a finished run that no fork needs.
    fn at_rest(&self, run: Uuid, needed: &NeededRuns) -> Result<LogEnd, TaskError> {
        let entry = self.entry(run);
        let entry = entry.ok_or_else(|| no_such_run(run))?;
        match entry.state {
            RunState::Live => return Err(not_over(run)),
            RunState::Removed => return Err(run_removed(run)),
            RunState::Finished => {}
        }
        needed.check(run)?;
        Ok(LogEnd::of(&entry.chain(run)))
    }

    fn is_live(&self, run: Uuid) -> bool {
        let entry = self.entry(run);
        entry.is_some_and(|entry| entry.state == RunState::Live)
    }

    /// The unfinished runs, in order.
    fn live(&self) -> Vec<Uuid> {
        let runs = self.entries();
        let live = runs.filter(|(_, entry)| entry.state == RunState::Live).map(|(run, _)| run);
        let mut live: Vec<Uuid> = live.collect();
        live.sort();
        live
    }

    /// The unfinished runs that can be read, and the errors of those that can't.
    fn dormant_runs(&self) -> (Vec<DormantRun>, Option<String>) {
        let (mut runs, mut unread) = (Vec::new(), Vec::new());
        for run in self.live() {
            match self.dormant(run) {
                Ok(dormant) => {
                    let errors = dormant.unreadable().iter();
                    unread.extend(errors.map(|error| format!("run {run}: {error}")));
                    runs.push(dormant);
                }
                // The other runs are listed all the same.
                Err(error) => unread.push(format!("run {run}: {}", error.message())),
            }
        }
        let warning =
            format!("this may not be all, because logs can't be read: {}", unread.join("; "));
        (runs, (!unread.is_empty()).then_some(warning))
    }

    fn dormant(&self, run: Uuid) -> Result<DormantRun, TaskError> {
        let entry = self.entry(run);
        let entry = entry.ok_or_else(|| no_such_run(run))?;
        match entry.state {
            RunState::Live => {}
            RunState::Finished => return Err(run_over(run)),
            RunState::Removed => return Err(run_removed(run)),
        }
        // The rest of it may look whole.
        if let Some(damage) = self.damaged.get(&run) {
            return Err(log_failed(damage.clone()));
        }
        let decoded = read_script(&*self.disk, &self.root, run, |_| false).map_err(log_failed)?;
        let fetch = |payload: &Payload<'_>| fetch(&*self.disk, &self.root, payload);
        Ok(DormantRun::new(entry.chain(run), &decoded, &fetch))
    }
}

/// The runs of a log that no process has open, for a request that is written on this page.
struct WrittenRuns<'a> {
    offline: &'a mut Offline,
    page: &'a mut Page,
    clock: Time,
}

/// One of these runs.
struct WrittenRun<'a> {
    run: DormantRun,
    page: &'a mut Page,
    clock: Time,
}

impl AskedRuns for WrittenRuns<'_> {
    fn find(&mut self, run: Uuid) -> Result<Box<dyn AskedRun + '_>, TaskError> {
        let run = self.offline.dormant(run)?;
        Ok(Box::new(WrittenRun { run, page: self.page, clock: self.clock }))
    }

    fn not_found(&self, why: TaskError, _: TaskError) -> TaskError {
        why
    }

    fn settle_any(
        &mut self,
        promise: Uuid,
        result: &Settling,
    ) -> Result<Option<Settlement>, TaskError> {
        let mut unread = None;
        for run in self.offline.live() {
            let mut dormant = match self.offline.dormant(run) {
                Ok(dormant) => dormant,
                // A damaged run does not prevent answers about the others.
                Err(error) => {
                    unread.get_or_insert(error);
                    continue;
                }
            };
            let settled = dormant.settle(self.page, self.clock, (promise, false), result);
            if settled.is_some() {
                return Ok(settled);
            }
        }
        // It may be a promise of the run that can't be read.
        unread.map_or(Ok(None), Err)
    }

    fn settle_late(&self, _: Uuid, why: TaskError) -> Result<Settlement, TaskError> {
        Err(why)
    }

    fn resolve_other(&mut self, approval: &str, _: Ruling) -> Result<Approval, TaskError> {
        Err(no_such_approval(approval))
    }

    fn why_not_open(&self, approval: &str) -> TaskError {
        why_not_open(&*self.offline.disk, &self.offline.root, approval)
    }
}

impl AskedDormantRun for WrittenRun<'_> {
    fn dormant(&self) -> &DormantRun {
        &self.run
    }

    fn is_held(&self) -> bool {
        self.run.held().is_some()
    }

    fn open(&mut self) -> Result<(&mut DormantRun, &mut Page, Time), TaskError> {
        Ok((&mut self.run, self.page, self.clock))
    }

    /// The limits of its program are not known, so those of the daemon apply.
    fn limits(&self) -> Option<RunLimits> {
        Some(RunLimits::for_services())
    }

    fn hold(&mut self, hold: &Hold) -> Result<(), TaskError> {
        self.run.hold(self.page, self.clock, hold);
        Ok(())
    }

    fn release(&mut self, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        self.run.release(self.page, self.clock, (by, why));
        Ok(())
    }

    fn cancel(&mut self) -> Result<Option<String>, TaskError> {
        if self.run.held().is_some() {
            self.run.release(self.page, self.clock, ("cancel", None));
        }
        self.run.cancel(self.page, self.clock);
        Ok(None)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        if let Some(Log::Held(writer)) = self.log.take()
            && let Err(error) = writer.close()
        {
            // Everything that was acknowledged is in the commit log all the same.
            tracing::warn!(target: "tiffany", "closing the log: {error}");
        }
    }
}

fn warned(answer: Answer, warning: Option<String>) -> Answer {
    match warning {
        Some(warning) => Answer::Warned { answer: Box::new(answer), warning },
        None => answer,
    }
}

/// The status of a directory that no process has open.
fn status() -> Status {
    Status {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        functions: Vec::new(),
        url: None,
        live: 0,
        paused: Vec::new(),
        failed: None,
    }
}

fn needs_process(why: &str) -> TaskError {
    let message = format!("no process has this log: {why}");
    TaskError::new(ErrorKind::Unreachable, message)
}
