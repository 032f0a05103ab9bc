//! Holding runs. A person or a limit holds a run, and it gets no turns until a person releases it.
//! Steps that are running finish and are recorded. After a restart a held run is not replayed, so
//! that a run which uses too much cannot end the next process as well.

use crate::run_log::hold::Hold;
use crate::run_log::hold::HoldState;
use crate::run_log::hold::held;
use tiffany_kernel::{LogLevel, RunId, Stage, TaskError, Uuid};

use crate::program::run_limits::{Overrun, RunLimits, Usage};
use crate::run_log::cancel::Cancel;
use crate::run_log::dormant_run::DormantRun;
use crate::runtime::Runtime;
use crate::runtime::deadlines::{PastDeadline, RELEASED_BY};
use crate::runtime::durable::{Durable, DurableState};
use crate::runtime::durable_runs::Known;
use crate::runtime::hosted_runs::Hosted;
use crate::watchdog::{StuckTask, TurnLimit};
use tiffany_log::{
    Chain, CurrentTurn, LogError, LongTurn, RunEntry, RunFile, RunReader, mark_turn, marked_turn,
    unmark_turn,
};
use tiffany_records::activity::Data;
use tiffany_records::errors::log_failed;
use tiffany_records::record::Record;
use tiffany_records::value::Json;

/// The error for the release of a run whose code was interrupted while its steps are running.
fn still_busy(run: Uuid, steps: &[String]) -> TaskError {
    let steps = steps.join(", ");
    let why = format!(
        "until its running steps have finished: {steps}; release it after that, or cancel it, which does not wait for steps"
    );
    held(run, &why)
}

/// The memory of a task that is not counted, at least.
const TASK_OVERHEAD: usize = 512;
/// The memory of fewer tasks and messages is not estimated.
const MIN_ESTIMATED: usize = 1_000;
/// Logs up to this length are read once at a restart. Longer ones are first searched for a hold,
/// before they are read into memory.
const SHORT_LOG: u64 = 32 << 20;

impl Runtime {
    /// Holds a run if it has exceeded a limit.
    #[inline]
    pub(crate) fn check_limits(&mut self, place: usize) {
        if let Some(limits) = self.settings.run_limits
            && let Some(overrun) = self.overrun(place, &limits)
        {
            self.hold_live(place, &Hold::Limit(overrun));
        }
    }

    /// The limit that a run in memory has gone over.
    pub(crate) fn overrun(&mut self, place: usize, limits: &RunLimits) -> Option<Overrun> {
        let durable_state = self.runs[place].durable_state.as_ref()?;
        let holding = &durable_state.holding;
        // A cancelled run must be resumed to clean up, however much it uses.
        let comes_back_to_end = holding.cancelled_at.is_some() && durable_state.replay.is_some();
        if holding.error.is_some() || comes_back_to_end || durable_state.is_over {
            return None;
        }
        let releases = holding.releases;
        limits.overrun(self.usage(place)?, releases)
    }

    /// Gives a run that was cancelled room to clean up: it may use twice what it uses now, at least.
    pub(crate) fn make_room(&mut self, place: usize) {
        let (Some(limits), Some(usage)) = (self.settings.run_limits, self.usage(place)) else {
            return;
        };
        if let Some(durable_state) = &mut self.runs[place].durable_state {
            durable_state.holding.releases =
                limits.releases_for(usage, durable_state.holding.releases) + 1;
        }
    }

    /// What a durable run in memory uses.
    fn usage(&mut self, place: usize) -> Option<Usage> {
        let hosted = &mut self.runs[place];
        let (run, durable_state) = (&hosted.run, hosted.durable_state.as_mut()?);
        let holding = &mut durable_state.holding;
        let count = run.live_tasks() + run.unread_count();
        let (before, _) = holding.measured;
        if count > MIN_ESTIMATED.max(before + before / 4) {
            let messages: usize = run.unread().map(json_len).sum();
            let bytes = run.task_bytes() + run.live_tasks() * TASK_OVERHEAD + messages;
            holding.measured = (count, bytes as u64);
        } else if count < before / 2 {
            holding.measured = (0, 0);
        }
        let chain = &durable_state.journal.chain;
        let charged = self.memory.as_ref().map_or(0, |memory| memory.charged(run.id()));
        Some(Usage {
            tasks: run.live_tasks() as u64,
            calls: run.calls_made(),
            records: chain.seq(),
            log_bytes: chain.bytes().saturating_add(chain.blob_bytes()),
            memory_bytes: holding.measured.1.max(charged),
        })
    }

    /// Holds a run that is in memory.
    pub(crate) fn hold_live(&mut self, place: usize, hold: &Hold) {
        let now = self.host.clock.now();
        let hosted = &mut self.runs[place];
        let (Some(durable_state), Some(durable)) = (&mut hosted.durable_state, &mut self.durable)
        else {
            return;
        };
        let uuid = durable_state.uuid();
        durable_state.journal.lines_now(&mut durable.page, &mut hosted.run, now).held(hold);
        let error = held(uuid, &hold.why());
        durable_state.holding.error = Some(error.clone());
        durable_state.holding.is_by_limit = hold.is_limit();
        durable.has_held = true;
        durable.runs.may_have_settled(uuid);
        self.tell_held(uuid, &error);
        self.hand_in();
    }

    /// Holds a run whose task was interrupted in the middle of its turn. Everything since the last
    /// record is void, and the run continues from its log once it is released.
    pub(crate) fn hold_broken(&mut self, place: usize, hold: &Hold) {
        let hosted = &mut self.runs[place];
        drop((hosted.run.take_records(), hosted.run.take_orders()));
        if let Some(durable_state) = &mut hosted.durable_state {
            durable_state.journal.interrupt();
        }
        self.hold_live(place, hold);
    }

    /// Holds the run of a task that was interrupted because it kept its turn for too long.
    #[cold]
    pub(crate) fn interrupted(&mut self, place: usize) {
        let hosted = &mut self.runs[place];
        hosted.leave_turn();
        drop(hosted.run.take_events());
        let id = hosted.run.id();
        let (meant, hold) = self.interrupted_turn();
        self.hold_broken(place, &hold);
        // The turn to be interrupted had just ended, and this run has done nothing wrong.
        let why = "the turn that was interrupted had just ended";
        if meant != Some(id)
            && let Some(uuid) = self.runs.durable_state(id).map(DurableState::uuid)
            && let Err(error) = self.release_live(place, ("tiffany", Some(why)))
        {
            tracing::warn!(target: "tiffany", run = %uuid, "{error}");
        }
    }

    /// The run whose turn was interrupted, and why it is held.
    pub(crate) fn interrupted_turn(&self) -> (Option<RunId>, Hold) {
        let stuck = self.watched.as_ref().and_then(|watched| watched.take_interrupted());
        let (tid, secs) = stuck.as_ref().map_or((0, 0), |stuck| (stuck.tid.0, stuck.secs()));
        (stuck.map(|stuck| stuck.run), Hold::Turn { tid, secs })
    }

    /// Limits how long tasks may keep their turns, if a limit is set.
    pub(crate) fn limit_turns(&mut self) {
        let limit = self.settings.run_limits.and_then(|limits| limits.turn);
        let (Some(limit), Some(watched)) = (limit, &self.watched) else { return };
        let language = self.settings.registry.language.as_ref();
        let interrupt = language.and_then(|language| language.interrupter());
        let of_steps = language.and_then(|language| language.step_interrupter());
        if let (Some(interrupt), Some(steps)) = (of_steps, self.host.inbox.step_watch.get()) {
            steps.limit(limit, interrupt);
        }
        let Some(durable) = &self.durable else { return };
        let (disk, root) = durable.place();
        let note = move |stuck: Option<&StuckTask>| match stuck.and_then(StuckTask::marked) {
            None => unmark_turn(&*disk, &root),
            Some(turn) => {
                if let Err(error) = mark_turn(&*disk, &root, &turn) {
                    tracing::warn!(target: "tiffany", "{error}");
                }
            }
        };
        watched.limit_turns(TurnLimit { limit, note: Box::new(note), interrupt });
    }

    /// Holds the run whose task made the last process hang, if there is one.
    pub(crate) fn hold_marked(&mut self, live: &mut Vec<(Uuid, RunEntry)>) {
        let (disk, root) = self.durable_mut().place();
        let Some(turn) = marked_turn(&*disk, &root) else { return };
        let found = live.iter().position(|(uuid, _)| *uuid == turn.run);
        if let Some((uuid, entry)) = found.map(|at| live.remove(at)) {
            let hold = Hold::Turn { tid: turn.tid, secs: turn.secs };
            self.hold_at_start(uuid, entry.chain(uuid), &hold);
            if self.durable_mut().log.catch_up().is_err() {
                // It is then held again at the next start.
                return;
            }
        }
        unmark_turn(&*disk, &root);
    }

    /// Notes from now on which run has its turn, and holds the run in whose turns the last processes died, if there were
    /// too many of them.
    pub(crate) fn hold_deadly(&mut self, live: &mut Vec<(Uuid, RunEntry)>) {
        let Some(limits) = self.settings.run_limits.filter(|limits| limits.deaths.is_some()) else {
            return;
        };
        let (_, root) = self.durable_mut().place();
        let turn = match CurrentTurn::open(&root) {
            Ok(turn) => turn,
            Err(error) => {
                tracing::warn!(
                    target: "tiffany", "runs that kill their process are not noticed: {error}"
                );
                return;
            }
        };
        let deadly = turn.take_interrupted();
        let found = deadly.and_then(|run| live.iter().position(|(uuid, _)| *uuid == run));
        if let Some(at) = found {
            let (uuid, entry) = &live[at];
            // A log that can't be read pauses its run, which is reported when the run is resumed.
            let state = self.durable_mut().read_holds(*uuid).unwrap_or_default();
            let deaths = turn.count_death(*uuid, (entry.generation.into(), state.progress));
            if limits.forbids_deaths(deaths, state.releases) {
                let (uuid, entry) = live.remove(at);
                self.hold_at_start(uuid, entry.chain(uuid), &Hold::Deaths(deaths));
            }
        }
        self.current_turn = Some(turn);
    }

    /// Holds a run before it is replayed, unless its log says already that it is held.
    fn hold_at_start(&mut self, uuid: Uuid, chain: Chain, hold: &Hold) {
        let decoded = match self.durable_mut().read(uuid, |_| false) {
            Ok(decoded) => decoded,
            Err(error) => return self.pause(uuid, log_failed(error), None),
        };
        let dormant = self.durable_mut().keep_dormant(chain, &decoded);
        match &decoded.hold.held {
            Some(why) => self.keep_held(uuid, dormant, held(uuid, why)),
            None => self.hold_dormant(uuid, dormant, hold),
        }
    }

    fn tell_held(&mut self, uuid: Uuid, error: &TaskError) {
        self.warn_paused(uuid, error);
        let data = Data::Log { level: LogLevel::Error, step: None };
        self.feed.tell(&self.host, (uuid.into(), None), (Stage::Log, error.to_string()), data);
    }

    /// Lets a run in memory continue.
    pub(crate) fn release_live(
        &mut self,
        place: usize,
        (by, why): (&str, Option<&str>),
    ) -> Result<(), TaskError> {
        let clock = self.host.clock.now();
        let id = self.runs[place].run.id();
        let busy = self.effects.attempts(id, clock);
        let hosted = &mut self.runs[place];
        let (Some(durable_state), Some(durable)) = (&mut hosted.durable_state, &mut self.durable)
        else {
            return Ok(());
        };
        let uuid = durable_state.uuid();
        if durable_state.is_broken() && !busy.is_empty() {
            return Err(still_busy(uuid, &busy));
        }
        // The run's next calls have the present time, not that of the hold.
        let (page, run) = (&mut durable.page, &mut hosted.run);
        durable_state.journal.lines_now(page, run, clock).released(by, why);
        durable_state.holding.error = None;
        let counts = std::mem::take(&mut durable_state.holding.is_by_limit);
        durable_state.holding.releases =
            durable_state.holding.releases.saturating_add(u32::from(counts));
        if let Some(watched) = &self.watched {
            watched.double_turns(id, durable_state.holding.releases);
        }
        if !durable_state.is_broken() {
            let (steps, mut parts) = self.steps();
            steps.queue_parked(&mut parts, id);
            self.line_up(place);
            return Ok(());
        }
        self.bring_back_broken(place);
        Ok(())
    }

    /// Replays a run whose code was interrupted. The state of its steps is in its log.
    fn bring_back_broken(&mut self, place: usize) {
        let id = self.runs[place].run.id();
        let Some(durable_state) = &self.runs[place].durable_state else { return };
        let (uuid, chain) = (durable_state.uuid(), durable_state.journal.chain.clone());
        self.forget_steps(id);
        self.end_trial(id, None);
        self.bring_back_from_log(uuid, chain);
    }

    /// Replays a run whose last records may not be in its file yet.
    pub(crate) fn bring_back_from_log(&mut self, uuid: Uuid, chain: Chain) {
        self.hand_in();
        if let Err(error) = self.durable_mut().log.catch_up() {
            return self.pause(uuid, log_failed(error), None);
        }
        let whole = chain.clone();
        self.bring_back(uuid, chain, &|durable| durable.read_whole(&whole));
    }

    /// Cancels a held run in memory, which releases it, or ends it if it was cancelled before.
    /// `false`: it is to be cancelled like a run that isn't held.
    pub(crate) fn cancel_held(&mut self, place: usize) -> Result<bool, TaskError> {
        let clock = self.host.clock.now();
        let id = self.runs[place].run.id();
        let Some(durable_state) = &self.runs[place].durable_state else { return Ok(false) };
        let is_broken = durable_state.is_broken();
        if is_broken && durable_state.is_cancelled() {
            let (uuid, chain) = (durable_state.uuid(), durable_state.journal.chain.clone());
            self.forget_steps(id);
            self.end_trial(id, None);
            return self.force_end_of_log(uuid, chain).map(|()| true);
        }
        if is_broken {
            // As with any cancel, the run does not wait for its steps: their results come too late.
            self.forget_steps(id);
            let Hosted { run, durable_state, .. } = &mut self.runs[place];
            let (Some(durable_state), Some(durable)) = (durable_state, &mut self.durable) else {
                return Ok(false);
            };
            // Recorded before it is replayed, so that no limit stops the replay.
            let mut lines = durable_state.journal.lines_now(&mut durable.page, run, clock);
            lines.cancelled(Cancel::Unwinds);
        }
        self.release_live(place, ("cancel", None))?;
        Ok(is_broken)
    }

    /// Whether the log of an unfinished run or a limit holds it, so that it is not replayed. Holds
    /// it if so.
    pub(crate) fn holds_at_start(&mut self, uuid: Uuid, chain: &Chain) -> bool {
        if chain.bytes() <= SHORT_LOG {
            return false;
        }
        let usage = Usage { records: chain.seq(), log_bytes: chain.bytes(), ..Usage::default() };
        let limits = self.settings.run_limits;
        let is_large = limits.is_some_and(|limits| limits.overrun(usage, 0).is_some());
        // Searching for a word is much faster than reading the records.
        if !is_large && !self.durable_mut().may_be_held(uuid) {
            return false;
        }
        let Ok(state) = self.durable_mut().read_holds(uuid) else { return false };
        // Only the beginning of its log is read; if that fails, the error is reported when the run
        // is resumed.
        let bare = |durable: &mut Durable| durable.bare_dormant(chain.clone()).ok();
        if let Some(why) = &state.held {
            let Some(bare) = bare(self.durable_mut()) else { return false };
            self.keep_held(uuid, bare, held(uuid, why));
            return true;
        }
        let limits = limits.filter(|_| !state.is_cancelled);
        let overrun = limits.and_then(|limits| limits.overrun(usage, state.releases));
        let Some(overrun) = overrun else { return false };
        let Some(bare) = bare(self.durable_mut()) else { return false };
        self.hold_dormant(uuid, bare, &Hold::Limit(overrun));
        true
    }

    /// Holds a run that is not in memory, and records that.
    pub(crate) fn hold_dormant(&mut self, uuid: Uuid, mut dormant: Box<DormantRun>, hold: &Hold) {
        let clock = self.host.clock.now();
        dormant.hold(&mut self.durable_mut().page, clock, hold);
        self.keep_held(uuid, dormant, held(uuid, &hold.why()));
        self.hand_in();
    }

    /// Keeps a held run that is not in memory.
    pub(crate) fn keep_held(&mut self, uuid: Uuid, dormant: Box<DormantRun>, error: TaskError) {
        self.tell_held(uuid, &error);
        let durable = self.durable_mut();
        durable.held_deadlines.note(uuid, dormant.deadline());
        durable.runs.insert(uuid, Known::Paused(error, Some(dormant)));
    }

    /// Gives a run in memory room to end if its deadline has passed, and releases it if it is held.
    pub(crate) fn heed_deadline(&mut self, place: usize) {
        let Some(past) = self.runs[place].pass_deadline() else { return };
        self.make_room(place);
        match past {
            PastDeadline::Running => return,
            PastDeadline::Held => {}
            PastDeadline::Interrupted => {
                // Recorded before it is replayed, so that no limit stops the replay.
                self.steps().1.record_past_deadline(place);
                self.forget_steps(self.runs[place].run.id());
            }
        }
        // The release of an interrupted run would have to wait for its steps; there are none left.
        if let Err(error) = self.release_live(place, (RELEASED_BY, None)) {
            tracing::warn!(target: "tiffany", "a held run is past its deadline: {error}");
        }
    }

    /// Resumes held runs that are not in memory and whose deadlines have passed: they fail at once.
    #[cold]
    pub(crate) fn resume_past_deadline(&mut self) {
        let now = self.host.clock.now();
        while let Some(durable) = &mut self.durable
            && let Some((uuid, chain)) = durable.release_past_deadline(now)
        {
            self.bring_back_from_log(uuid, chain);
        }
    }
}

impl Hosted {
    /// An error if a durable run has too many unread messages for another one.
    pub(crate) fn refuse_message(
        &mut self,
        limits: Option<&RunLimits>,
        json: &str,
    ) -> Result<(), TaskError> {
        let (Some(limits), Some(durable_state)) = (limits, &mut self.durable_state) else {
            return Ok(());
        };
        let (uuid, bytes) = (durable_state.uuid(), &mut durable_state.holding.message_bytes);
        let most = limits.message_bytes.map_or(usize::MAX, |most| most as usize);
        limits.refuse_message(uuid, json.len(), self.run.unread_count(), || {
            if bytes.saturating_add(json.len()) > most {
                *bytes = self.run.unread().map(json_len).sum();
            }
            *bytes
        })?;
        *bytes = bytes.saturating_add(json.len());
        Ok(())
    }
}

impl Durable {
    /// The end of the log of a run that is not in memory and was cancelled.
    pub(crate) fn cancelled_dormant(&self, uuid: Uuid) -> Result<Option<Chain>, TaskError> {
        let Some(Known::Paused(_, Some(dormant))) = self.runs.get(&uuid) else { return Ok(None) };
        let is_cancelled = match dormant.is_bare() {
            true => self.read_holds(uuid).map_err(log_failed)?.is_cancelled,
            false => dormant.is_cancelled(),
        };
        Ok(is_cancelled.then(|| dormant.chain().clone()))
    }

    /// Whether the file of a run has a record of a hold, or something that looks like one.
    fn may_be_held(&self, uuid: Uuid) -> bool {
        let file = RunFile::open(&*self.disk, &self.root, uuid);
        let found = file.and_then(|file| file.line_with(b"\"type\":\"RunHeld\"", u64::MAX));
        found.map_or(true, |line| line.is_some())
    }

    /// Reads from a log whether its run is held. Nothing of the log is kept in memory.
    fn read_holds(&self, uuid: Uuid) -> Result<HoldState, LogError> {
        let mut reader = RunReader::open(&*self.disk, &self.root, uuid, None)?;
        let mut state = HoldState::default();
        while let Some(record) = reader.next() {
            state.add(&Record::read(&record?));
        }
        Ok(state)
    }
}

impl StuckTask {
    /// For how many seconds it has had its turn.
    fn secs(&self) -> u64 {
        self.running_for.as_secs()
    }

    /// The note for the next process.
    fn marked(&self) -> Option<LongTurn> {
        Some(LongTurn { run: self.uuid?, tid: self.tid.0, secs: self.secs() })
    }
}

fn json_len(value: &tiffany_kernel::Value) -> usize {
    value.borrow::<Json>().map_or(0, |json| json.0.len())
}
