//! Resuming durable runs when the log is opened: their functions are called again, and get the
//! recorded answers and completions; after the last record they continue live.

use crate::run_log::replay::read::add_all;
use crate::run_log::replay::read::fetch;
use crate::run_log::replay::read::read_script;
use std::collections::BTreeMap;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tiffany_records::errors::{compacted, log_failed};

use tiffany_kernel::{
    CallKind, Completion, ErrorKind, LogLevel, Mode, Order, Port, RecordKind, Recording, Rules,
    Run, RunFailure, RunId, Stage, TaskError, Tid, Time, Uuid, Value,
};

use crate::calls::context;
use crate::calls::context::Entered;
use crate::calls::context::Sources;
use crate::host::trace::Who;
use crate::program::language::Wanted;
use crate::program::run_limits::Overrun;
use crate::run_log::cancel::Cancel;
use crate::run_log::dormant_run::DormantRun;
use crate::run_log::earlier::{Continued, Earlier};
use crate::run_log::hold::{Hold, Holding, held};
use crate::run_log::journal::Journal;
use crate::run_log::replay::decoded_log;
use crate::run_log::replay::decoded_log::{DecodedLog, Told, What};
use crate::run_log::replay::divergence::{Cause, Divergence, Trial};
use crate::run_log::replay::halt::Halt;
use crate::run_log::replay::matcher::Replay;
use crate::runtime::Runtime;
use crate::runtime::branch::Branch;
use crate::runtime::durable::{Durable, DurableState};
use crate::runtime::durable_runs::{Beginning, Ending, Known};
use crate::runtime::hosted_runs::Hosted;
use crate::runtime::restore::restored;
use tiffany_log::{Chain, CurrentTurn, LogError, Payload, RunReader};
use tiffany_records::RunError;
use tiffany_records::activity::Data;
use tiffany_records::key::{LogEnd, Received};
use tiffany_records::redact::shown;

impl Runtime {
    /// Resumes a run, up to the end of its log.
    pub(crate) fn resume(&mut self, uuid: Uuid, chain: Chain) {
        let begun = Instant::now();
        if self.holds_at_start(uuid, &chain) {
            return;
        }
        let whole = chain.clone();
        self.bring_back(uuid, chain, &|durable| durable.read_whole(&whole));
        let meters = &self.host.inbox.meters;
        meters.resume_time.0.observe_time(begun.elapsed());
        match self.durable.as_ref().and_then(|durable| durable.runs.get(&uuid)) {
            Some(Known::Live(_)) => meters.resumed_live.add(1),
            Some(Known::Paused(..)) => meters.resumed_paused.add(1),
            _ => {}
        }
    }

    /// Resumes a run whose log may not be in its file yet.
    pub(crate) fn bring_back(
        &mut self,
        uuid: Uuid,
        chain: Chain,
        read: &dyn Fn(&Durable) -> Result<DecodedLog, LogError>,
    ) {
        let decoded = match read(self.durable_mut()) {
            Ok(decoded) => decoded,
            Err(error) => return self.pause(uuid, log_failed(error), None),
        };
        if decoded.is_compacted {
            // Only finished runs have such a log; the index that listed it is lost.
            let known = Known::Over(LogEnd::of(&chain), None);
            self.durable_mut().runs.insert(uuid, known);
            return;
        }
        if let Some(why) = &decoded.hold.held {
            let (error, dormant) =
                (held(uuid, why), self.durable_mut().keep_dormant(chain, &decoded));
            return self.keep_held(uuid, dormant, error);
        }
        let branch = Branch::of(&decoded, self.durable_mut());
        let stopped = match self.try_replay(&chain, decoded) {
            Ok((id, None)) => {
                let place = self.runs.place_of_live(id);
                if let Some(hold) = self.replay_hold(place) {
                    self.end_trial(id, None);
                    return match read(self.durable_mut()) {
                        Ok(decoded) => {
                            let dormant = self.durable_mut().keep_dormant(chain, &decoded);
                            self.hold_dormant(uuid, dormant, &hold);
                        }
                        Err(error) => self.pause(uuid, log_failed(error), None),
                    };
                }
                self.durable_mut().runs.insert(uuid, Known::Live(id));
                self.durable_mut().has_forks |= branch.is_some();
                if let Some(durable_state) = &mut self.runs[place].durable_state {
                    durable_state.branch = branch;
                }
                return self.go_live(place);
            }
            Ok((id, Some(divergence))) => Ok((divergence, self.end_trial(id, None).matched)),
            Err(error) => Err(error),
        };
        // The replay has consumed its decoded log, and nearly always none is needed after it.
        let decoded = match read(self.durable_mut()) {
            Ok(decoded) => decoded,
            Err(error) => return self.pause(uuid, log_failed(error), None),
        };
        let error = match stopped {
            Ok((divergence, matched)) => {
                match self.find_cause(&chain, &decoded, &divergence, matched) {
                    Ok(cause) => {
                        let language = self.settings.registry.language.as_deref();
                        divergence.into_error(cause, language, &decoded.beginning)
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        let dormant = self.durable_mut().keep_dormant(chain, &decoded);
        self.pause(uuid, error, Some(dormant));
    }

    /// Leaves a run as it is. Messages and answers for it are written to its log.
    pub(crate) fn leave_alone(&mut self, uuid: Uuid, chain: Chain) {
        let durable = self.durable_mut();
        let known = match durable.read(uuid, |_| false) {
            Ok(decoded) => {
                let message = format!(
                    "run {uuid} is not resumed by this process, which drives only another run"
                );
                let error = TaskError::new(ErrorKind::Unreachable, message);
                Known::Paused(error, Some(durable.keep_dormant(chain, &decoded)))
            }
            Err(error) => Known::Paused(log_failed(error), None),
        };
        durable.runs.insert(uuid, known);
    }

    /// Publishes the start of a run, which may be long ago.
    fn tell_ghost(&mut self, uuid: Uuid, beginning: &decoded_log::Beginning) {
        let (id, function) = (beginning.id.as_str().into(), beginning.function.as_str().into());
        let told = (Stage::ReceivedInstruction, beginning.function.clone());
        let data = Data::Instruction { id, function };
        self.feed.tell_ghost(&self.host, (uuid.into(), beginning.started), told, data);
    }

    /// Pauses a run that cannot continue.
    pub(crate) fn pause(&mut self, uuid: Uuid, error: TaskError, dormant: Option<Box<DormantRun>>) {
        self.warn_paused(uuid, &error);
        let told = (Stage::Log, format!("the run cannot continue and is paused: {error}"));
        let data = Data::Log { level: LogLevel::Error, step: None };
        self.feed.tell(&self.host, (uuid.into(), None), told, data);
        if error.kind() == ErrorKind::Diverged {
            self.host.inbox.meters.divergences.add(1);
        }
        self.durable_mut().runs.insert(uuid, Known::Paused(error, dormant));
    }

    /// Logs that a run does not continue.
    pub(crate) fn warn_paused(&self, uuid: Uuid, error: &TaskError) {
        let what = match error.kind() {
            ErrorKind::RunHeld => shown(error).to_string(),
            _ => format!("run {uuid} cannot continue and is paused: {}", shown(error)),
        };
        match (
            &self.settings.registry.language,
            tracing::enabled!(target: "tiffany", tracing::Level::WARN),
        ) {
            (_, true) => {
                tracing::warn!(target: "tiffany", run = %uuid, code = error.code(), "{what}");
            }
            (Some(language), false) => language.paused(uuid, error),
            (None, false) => eprintln!("tiffany: {what}"),
        }
    }

    /// Starts a run again, and replays it as far as its log fits.
    pub(crate) fn try_replay(
        &mut self,
        chain: &Chain,
        decoded: DecodedLog,
    ) -> Result<(RunId, Option<Divergence>), TaskError> {
        let id = self.start_again(chain, decoded, None)?;
        let stopped = self.go_on_replaying(id)?;
        Ok((id, stopped))
    }

    /// Starts a run again, to be replayed to the end of its log or to where it halts.
    pub(crate) fn start_again(
        &mut self,
        chain: &Chain,
        decoded: DecodedLog,
        halt: Option<Halt>,
    ) -> Result<RunId, TaskError> {
        let beginning = decoded.beginning.clone();
        let (function, input) = (&beginning.function, &beginning.input);
        refuse_partial(chain.run(), &decoded)?;
        let registry = &self.settings.registry;
        let snapshot = decoded.snapshot.clone();
        let root = match &snapshot {
            Some(_) => None,
            None => Some(registry.start(function, input, Wanted::Again)?),
        };
        let at = root.as_ref().map(|root| root.at).or_else(|| registry.place(function));
        let is_agent = root.as_ref().is_none_or(|root| root.is_agent);
        let mut config = self.settings.run_config(at.unwrap_or_else(|| Location::caller()));
        (config.mode, config.recording) = (Mode::Durable, recording(&beginning.recording));
        config.seed = beginning.seed;
        beginning.terms.apply(&mut config);
        config.rules = rules(&beginning)?;
        let continued = beginning.continued.as_ref();
        let forked = decoded.forks.last().and_then(|fork| fork.clock);
        let since = forked.or_else(|| continued.and_then(Continued::since));
        let since = since.unwrap_or(beginning.started);
        let known = Beginning::read(&beginning, registry.name(&beginning.function));
        let input = is_agent.then(|| Arc::from(beginning.input.as_str()));
        let durable_state = replayed_state(chain, &decoded, (known, input), since);
        let who = Who::Durable {
            uuid: chain.run(),
            id: &beginning.id,
            function: &beginning.function,
            comes_back: true,
        };
        let mut run = match (snapshot, root) {
            (Some(snapshot), _) => {
                let (id, config) = self.number_run(config, who);
                restored(registry, id, &snapshot, config, (since, beginning.started))
                    .inspect_err(|_| self.forget_number(id))?
            }
            (None, Some(root)) => self.new_run(root.coroutine, config, beginning.started, who),
            (None, None) => unreachable!("a run begins with its function or with a snapshot"),
        };
        self.tell_ghost(chain.run(), &beginning);
        self.feed.add_ghosts(&self.host.hub, chain.run().into(), &mut run);
        let releases = durable_state.holding.releases;
        let id = self.host_run(run, Some(Box::new(durable_state)));
        if let Some(watched) = &self.watched {
            watched.double_turns(id, releases);
        }
        let place = self.runs.place_of_live(id);
        let hosted = &mut self.runs[place];
        for fork in &decoded.forks {
            hosted.run.reseed_after(fork.draws, fork.seed);
        }
        if let Some(durable_state) = &mut hosted.durable_state {
            durable_state.replay =
                Some(Box::new(Replay::new(decoded, halt, self.settings.redactions.clone())));
        }
        Ok(id)
    }

    /// Continues a replay to its end or to where it halts.
    pub(crate) fn go_on_replaying(&mut self, id: RunId) -> Result<Option<Divergence>, TaskError> {
        let place = self.runs.place_of_live(id);
        let durable_state = self.runs[place].durable_state.as_ref();
        let replay = durable_state.and_then(|durable_state| durable_state.replay.as_ref());
        let sources = replay.map(|replay| Rc::clone(&replay.sources) as Rc<dyn Sources>);
        // A fork is replayed between the turns of other runs.
        let entered = Entered::again(&self.host).ok_or_else(nested)?;
        context::with(|context| *context.sources.borrow_mut() = sources);
        let uuid =
            self.runs[place].durable_state.as_ref().map(|durable_state| durable_state.uuid());
        if let Some((turn, uuid)) = self.current_turn.as_ref().zip(uuid) {
            turn.begins(uuid);
        }
        self.memory.iter_mut().for_each(|memory| memory.replay_begins());
        let replayed = self.replay(place);
        self.current_turn.iter().for_each(CurrentTurn::ends);
        context::with(|context| context.sources.take());
        drop(entered);
        Ok(replayed.err().map(|divergence| *divergence))
    }

    /// Ends a replay that does not continue, and returns how far it came.
    pub(crate) fn end_trial(&mut self, id: RunId, stopped: Option<Divergence>) -> Trial {
        self.host.tracer.forget_run(id);
        let durable_state = self.forget_run(id).and_then(|hosted| hosted.durable_state);
        let replay = durable_state.and_then(|durable_state| durable_state.replay);
        replay.map(|replay| replay.trial(stopped)).unwrap_or_default()
    }

    /// Finds out why a run does not fit its log: the code behaves differently each time, or the
    /// edit that explains most. No events are published meanwhile.
    pub(crate) fn find_cause(
        &mut self,
        chain: &Chain,
        decoded: &DecodedLog,
        divergence: &Divergence,
        matched: usize,
    ) -> Result<Cause, TaskError> {
        self.feed.is_muted = true;
        let cause = self.try_causes(chain, decoded, divergence, matched);
        self.feed.is_muted = false;
        cause
    }

    fn try_causes(
        &mut self,
        chain: &Chain,
        decoded: &DecodedLog,
        divergence: &Divergence,
        matched: usize,
    ) -> Result<Cause, TaskError> {
        for _ in 0..4 {
            let (id, again) = self.try_replay(chain, decoded.clone())?;
            self.end_trial(id, None);
            if !again.is_some_and(|again| again.is_same(divergence)) {
                return Ok(Cause::Unsteady);
            }
        }
        let mut trials = Vec::new();
        for (cause, edited) in divergence.suspects(decoded) {
            let (id, stopped) = self.try_replay(chain, edited)?;
            trials.push((cause, self.end_trial(id, stopped)));
        }
        Ok(divergence.judge(matched, &trials))
    }

    /// Replays everything in the log, or everything up to where the replay halts.
    fn replay(&mut self, place: usize) -> Result<(), Box<Divergence>> {
        loop {
            if self.replay_overrun(place).is_some() {
                return Ok(());
            }
            let hosted = &mut self.runs[place];
            let (run, Some(durable_state)) = (&mut hosted.run, &mut hosted.durable_state) else {
                return Ok(());
            };
            let uuid = durable_state.uuid();
            let DurableState { journal, replay: Some(replay), settled, .. } = &mut **durable_state
            else {
                return Ok(());
            };
            let by_turns = replay.halt.is_some();
            let is_over = match by_turns {
                true => replay.halts_here(),
                false => replay.is_over() && replay.has_shown_all(),
            };
            if is_over || (replay.is_over() && !run.is_ready()) {
                return Ok(());
            }
            // A round that was left in the middle continues; completions arrive between rounds.
            let goes_on = run.is_in_round();
            let ready = run.is_ready();
            let told = (!goes_on).then(|| replay.next_told(run.steps(), ready)).flatten();
            if let Some(What::Settled { promise, .. }) = told.as_ref().map(|told| &told.what) {
                settled.insert(*promise);
            }
            let is_forced = match told.map(|told| tell_again(told, run, replay, journal)) {
                Some(After::GoesOn) => continue,
                Some(After::Ended) => true,
                None => false,
            };
            if !ready && !is_forced {
                return if replay.can_halt() { Ok(()) } else { Err(replay.missing()) };
            }
            context::with(|context| match by_turns {
                _ if is_forced => {}
                true if goes_on => {}
                true => run.begin_round(&context.port, None),
                false => drop(context.take_turns(|port| run.rounds(port, None, 1))),
            });
            if context::with(|context| context.interrupted.take()) {
                journal.interrupt();
                return Ok(());
            }
            loop {
                let step = |port: &Port| run.step_round(port, None);
                let goes_on =
                    by_turns && !is_forced && context::with(|context| context.take_turns(step));
                run.take_orders().into_iter().for_each(|order| replay.keep(order));
                self.feed.add_ghosts(&self.host.hub, uuid.into(), run);
                compare_records(run, replay, journal)?;
                if !goes_on || replay.halts_here() {
                    break;
                }
            }
        }
    }

    /// The limit that a run exceeds while it is resumed. A run that is only inspected has none.
    fn replay_overrun(&mut self, place: usize) -> Option<Overrun> {
        let limits = self.settings.run_limits?;
        let durable_state = self.runs[place].durable_state.as_ref()?;
        if durable_state.replay.as_ref().is_none_or(|replay| replay.halt.is_some()) {
            return None;
        }
        if let Some(memory) = &mut self.memory {
            memory.look_alone(self.runs[place].run.id());
        }
        self.overrun(place, &limits)
    }

    /// Why a run that is being resumed is to be held.
    fn replay_hold(&mut self, place: usize) -> Option<Hold> {
        let is_broken = self.runs[place].durable_state.as_ref().is_some_and(|it| it.is_broken());
        match is_broken {
            true => Some(self.interrupted_turn().1),
            false => self.replay_overrun(place).map(Hold::Limit),
        }
    }

    /// Ends a replay at the end of the log: from here on the run is recorded.
    fn go_live(&mut self, place: usize) {
        let Hosted { run, durable_state: Some(durable_state), .. } = &mut self.runs[place] else {
            return;
        };
        let Some(mut replay) = durable_state.replay.take() else { return };
        // A cancel at the end of the log withdraws steps, which must not start again for a moment.
        run.take_orders().into_iter().for_each(|order| replay.keep(order));
        // The task is about to withdraw again the calls that the log has as withdrawn.
        for call in replay.unasked() {
            durable_state.journal.over(call);
            replay.done(call);
        }
        let durable = self.durable.as_mut().expect("a durable run has a log");
        // The recorded error of a failed root was reported, whatever today's code does.
        if let (Ok(Rules::Second), Some(Err(error))) =
            (rules(&replay.decoded.beginning), replay.decoded.outcome.take())
            && let failed @ RunError::Failed(_) = RunFailure::Root(error).into()
        {
            durable_state.ending = Ending::Told(Box::new(Err(failed)));
            durable.runs.may_have_settled(durable_state.uuid());
        }
        durable_state.begun = replay.decoded.begun;
        durable_state.received = replay.decoded.received;
        durable_state.journal.references = replay.decoded.references;
        durable_state.journal.has_ends(replay.decoded.ended.into_keys(), replay.decoded.failed);
        durable_state.journal.write_all(&mut durable.page, replay.later);
        let taken_over = replay.decoded.snapshot.clone();
        let promises = replay.decoded.promises;
        for (uuid, _) in taken_over.iter().flat_map(|snapshot| snapshot.promises()) {
            let run = self.runs[place].run.id();
            self.announce_again(place, uuid, run);
        }
        let mut continues = None;
        for order in replay.orders {
            match order {
                Order::Continue(call, input) => continues = Some((call, input)),
                // It may be known from an earlier process, and may be settled.
                Order::Announce(uuid, promise) if promises.contains(&uuid) => {
                    self.announce_again(place, uuid, promise.run);
                }
                other => self.execute_durable(place, other),
            }
        }
        if let Some((call, input)) = continues {
            self.continue_run(place, call, &input);
        }
        if self.runs[place]
            .durable_state
            .as_ref()
            .is_some_and(|durable_state| durable_state.is_cancelled())
        {
            self.make_room(place);
        }
        self.empty_outbox(place);
        self.line_up(place);
        self.inherit(place);
    }

    /// Announces a recorded promise again, which may be settled from now on if it is not.
    fn announce_again(&mut self, place: usize, uuid: Uuid, run: RunId) {
        let durable_state = self.runs[place].durable_state.as_ref();
        let is_settled =
            durable_state.is_some_and(|durable_state| durable_state.settled.contains(&uuid));
        let branch = durable_state.and_then(|durable_state| durable_state.branch.as_ref());
        let is_shared = branch.is_some_and(|branch| branch.shares(uuid));
        match is_shared {
            true => self.host.inbox.promises().add_shared(uuid, run),
            false => self.host.inbox.promises().add(uuid, run, true),
        }
        if is_settled {
            self.host.inbox.promises().claim(uuid, Some(run), true);
        }
    }
}

/// The state of a run after a recorded completion.
enum After {
    GoesOn,
    /// Its end was forced, and no task has another turn.
    Ended,
}

/// Passes a recorded completion to a run.
fn tell_again(told: Told, run: &mut Run, replay: &mut Replay, journal: &mut Journal) -> After {
    run.set_clock(told.clock);
    if let What::Cancel(Cancel::Forces) = told.what {
        run.force_end();
        return After::Ended;
    }
    match again(told.what, replay, journal) {
        Some(completion) => run.complete(completion),
        None => run.cancel_all(),
    }
    After::GoesOn
}

/// The recorded completion in the form of the kernel; `None` if the run was cancelled.
fn again(what: What, replay: &mut Replay, journal: &mut Journal) -> Option<Completion> {
    let mut call_of = |of: u64| {
        let (call, kind) = replay.calls.remove(&of)?;
        journal.over(call);
        replay.done(call);
        Some((call, kind))
    };
    Some(match what {
        What::Woken { of } => match call_of(of) {
            Some((call, CallKind::Sleep | CallKind::SleepUntil | CallKind::Approve)) => {
                Completion::Timer(call)
            }
            Some((call, _)) => Completion::Call(call, Ok(Value::Unit)),
            None => Completion::CutShort(Tid(0)),
        },
        What::Effect { of, result } => match call_of(of) {
            Some((call, _)) => Completion::Call(call, result),
            None => Completion::CutShort(Tid(0)),
        },
        What::Decided { of, answer } => match call_of(of) {
            Some((call, _)) => Completion::Decided(call, answer),
            None => Completion::CutShort(Tid(0)),
        },
        What::Settled { promise, result } => Completion::Settle(promise, result),
        What::Message { name, value } => Completion::Message(name, value),
        What::CutShort(tid) => Completion::CutShort(tid),
        What::OverTime => Completion::OverTime,
        What::PastDeadline => Completion::PastDeadline,
        What::Cancel(_) => return None,
    })
}

impl Durable {
    /// Reads a run's log, to its end or as far as the caller wants.
    pub(crate) fn read(
        &self,
        uuid: Uuid,
        enough: impl Fn(&DecodedLog) -> bool,
    ) -> Result<DecodedLog, LogError> {
        read_script(&*self.disk, &self.root, uuid, enough)
    }

    /// The log of a run from its first line to the one that the index knows as its last. A file of the same length may be
    /// of another generation, or of another copy: then nothing may be written behind it.
    pub(crate) fn read_whole(&self, chain: &Chain) -> Result<DecodedLog, LogError> {
        let mut reader = RunReader::open(&*self.disk, &self.root, chain.run(), None)?;
        let decoded = add_all(&mut reader, &*self.disk, &self.root, |_| false)?;
        match reader.checker().chain() == Some(chain) {
            true => Ok(decoded),
            false => Err(reader.ends_elsewhere()),
        }
    }

    /// Reads the log of a run that ended in this process, and whose file may lack its end yet.
    pub(crate) fn read_over(
        &mut self,
        uuid: Uuid,
        enough: impl Fn(&DecodedLog) -> bool,
    ) -> Result<DecodedLog, LogError> {
        let caught_up = self.log.catch_up();
        // After the log has failed, its files are read as they are.
        if self.log.is_inline() {
            caught_up?;
        }
        self.read(uuid, enough)
    }

    /// Makes a dormant run, with what is needed to write to its log.
    pub(crate) fn keep_dormant(&self, chain: Chain, decoded: &DecodedLog) -> Box<DormantRun> {
        let fetch = |payload: &Payload<'_>| fetch(&*self.disk, &self.root, payload);
        Box::new(DormantRun::new(chain, decoded, &fetch))
    }

    /// The outcome of a run that ended in an earlier process.
    pub(crate) fn read_outcome(&mut self, uuid: Uuid) -> Result<Arc<str>, RunError> {
        let decoded = self.read_over(uuid, |_| false)?;
        match decoded.outcome {
            Some(Ok(json)) => Ok(json.into()),
            Some(Err(error)) => Err(RunFailure::Root(error).into()),
            None => Ok("null".into()),
        }
    }
}

/// Compares what a replayed run has just recorded with its log, and takes over the numbers of its
/// calls.
fn compare_records(
    run: &mut Run,
    replay: &mut Replay,
    journal: &mut Journal,
) -> Result<(), Box<Divergence>> {
    for record in run.take_records() {
        match record.kind {
            RecordKind::Withdrawn(call) => journal.over(call),
            RecordKind::Unasked(call) if replay.is_unasked(call) => journal.over(call),
            _ => {}
        }
        if let Some((call, seq)) = replay.compare(record)? {
            journal.adopt(call, seq, replay.decoded.numbers.get(&seq).copied());
        }
    }
    Ok(())
}

/// An error if a run cannot be replayed because its log does not have all of it.
fn refuse_partial(run: Uuid, decoded: &DecodedLog) -> Result<(), TaskError> {
    if decoded.is_compacted {
        return Err(compacted(run));
    }
    if !decoded.is_whole() {
        let message = "its log was cut inside the snapshot that it begins with";
        return Err(TaskError::new(ErrorKind::NotRestored, message));
    }
    Ok(())
}

/// The durable side of a run that is about to be replayed, with what its log says of its beginning.
fn replayed_state(
    chain: &Chain,
    decoded: &DecodedLog,
    (known, input): (Beginning, Option<Arc<str>>),
    since: Time,
) -> DurableState {
    let (beginning, snapshot) = (&decoded.beginning, decoded.snapshot.as_ref());
    let calls = beginning.continued.as_ref().map_or(0, |continued| continued.calls);
    // The tables of the snapshot count these, too.
    let calls_taken_over = snapshot.map_or(0, |snapshot| snapshot.calls).min(calls);
    let settled = snapshot.into_iter().flat_map(|snapshot| snapshot.promises());
    let settled = settled.filter(|(_, is_settled)| *is_settled);
    DurableState {
        journal: Journal::new(chain.clone().with_blobs(decoded.blobs.clone())),
        beginning: known,
        earlier: Earlier { calls: calls - calls_taken_over, since },
        input,
        snapshot_at: 0,
        is_warned: false,
        settled: settled.map(|(promise, _)| promise).collect(),
        seed: decoded.seed(),
        begun: BTreeMap::new(),
        received: Received::default(),
        replay: None,
        branch: None,
        ending: Ending::No,
        is_over: false,
        holding: Holding::of(decoded),
        terms: beginning.terms.clone(),
    }
}

pub(crate) fn nested() -> TaskError {
    let message = "a runtime was built inside a task of another runtime";
    TaskError::new(ErrorKind::NestedRuntime, message)
}

/// The rules that a run began with. Logs of the first rules don't name them.
fn rules(beginning: &decoded_log::Beginning) -> Result<Rules, TaskError> {
    let Some(number) = beginning.rules else { return Ok(Rules::First) };
    Rules::of(number).ok_or_else(|| {
        let message = format!("its log follows rules {number}, which this version does not know");
        TaskError::new(ErrorKind::UnknownRules, message)
    })
}

fn recording(word: &str) -> Recording {
    match word {
        "outward" => Recording::Outward,
        _ => Recording::Every,
    }
}
