//! Steps under way. Each waits in its queue, is recorded when it leaves, starts when the record is
//! durable, and is retried or answered when the attempt has finished. The work itself is done
//! elsewhere.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tiffany_kernel::{CallRef, ErrorKind, RunId, Stage, TaskError, Tid, Time, Value};

use crate::calls::step::StepWork;
use crate::host::attempt::Kind;
use crate::host::attempt::{Attempt, Identity, StepError, StepJob, Stop, Tried, Worth};
use crate::host::chunks::Chunks;
use crate::host::entropy::mixed;
use crate::host::inbox::Inbox;
use crate::host::slots::{Slot, Slots};
use crate::host::step_output::Onlookers;
use crate::host::trace::Tracer;
use crate::metrics::loop_state::{SlotUsage, StepStates};
use crate::metrics::meter::MAX_NAMES;
use crate::metrics::meters::AttemptOutcome;
use crate::run_log::replay::decoded_log::Begun;
use crate::runtime::builder::Builder;
use crate::runtime::commit::AfterCommit;
use crate::runtime::durable::DurableState;
use crate::runtime::parts::Parts;
use crate::runtime::step_queue::{Next, Queue};
use tiffany_records::activity::{Data, StepData};

/// All unfinished steps of a runtime.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) steps: BTreeMap<CallRef, Underway>,
    queues: Vec<(String, Queue)>,
    slots: Slots<CallRef>,
    timers: BTreeSet<(Time, Due)>,
    pub(crate) late: u64,
    pub(crate) late_checkpoints: u64,
    chunks: Option<Arc<Chunks>>,
    /// Whether no more attempts start.
    is_closed: bool,
}

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Step(CallRef),
    Queue(usize),
    /// Steps wait because the system refused a thread.
    Thread,
}

/// An unfinished step.
pub(crate) struct Underway {
    pub(crate) work: StepWork,
    pub(crate) key: Arc<str>,
    birth: u64,
    /// The seed of its jitter.
    seed: u64,
    /// The checkpoint of its work, as JSON.
    checkpoint: Option<Arc<str>>,
    /// Whether an attempt was abandoned while it was running, and may still take effect.
    in_doubt: bool,
    pub(crate) queue: Option<usize>,
    /// The number of the last attempt, and how many failed.
    pub(crate) attempt: u64,
    failures: u64,
    pub(crate) state: State,
    /// Its slot for blocking a thread, from the moment it is granted until the work takes it.
    slot: Option<Slot>,
    timer: Option<Time>,
    /// When its task called it, when it last joined its queue, and when the last attempt started.
    asked: Time,
    queued: Time,
    launched: Time,
}

/// Where a step stands.
pub(crate) enum State {
    /// In its queue, or on the way there.
    Queued,
    /// It has left its queue, and waits for a slot.
    Slotless,
    /// It failed, and waits until it is tried again.
    Waiting,
    /// It was cut off, and waits for a person to say what happened.
    InDoubt,
    /// Its attempt may begin; the log does not have that yet.
    Uncommitted,
    /// It runs, or waits for a thread.
    Running { attempt: Attempt, stop: Option<Stop> },
}

impl State {
    /// Whether the log says that an attempt has begun.
    pub(crate) fn is_out(&self) -> bool {
        matches!(self, State::Uncommitted | State::Running { .. })
    }
}

/// The key of a step, and its state in the log.
struct Known {
    key: String,
    birth: u64,
    seed: u64,
    begun: Begun,
}

impl Effects {
    pub(crate) fn new(settings: &Builder) -> Effects {
        let queues = settings.queues.iter();
        let queues = queues.map(|(name, settings)| (name.clone(), Queue::new(*settings)));
        let mut effects = Effects::default();
        effects.queues = queues.collect();
        effects.slots = Slots::new(settings.step_slots);
        effects.chunks = settings.on_chunk.as_ref().map(|hook| Chunks::new(Arc::clone(hook)));
        effects
    }

    /// Keeps a checkpoint of a step. `false`: no task waits for this attempt.
    pub(crate) fn keep(&mut self, call: CallRef, number: u64, json: &str) -> bool {
        let Some(step) = self.steps.get_mut(&call) else { return false };
        let is_awaited = step.is_awaited(number);
        if is_awaited {
            step.checkpoint = Some(json.into());
        }
        is_awaited
    }

    /// The state of the attempts at a step in the log, if the step exists.
    pub(crate) fn begun(&self, call: CallRef) -> Option<Begun> {
        let step = self.steps.get(&call)?;
        let is_open = step.state.is_out() || matches!(step.state, State::InDoubt);
        Some(Begun {
            attempt: step.attempt,
            is_open,
            cut_off: step.in_doubt,
            failures: step.failures,
            retry_at: step.timer.filter(|_| matches!(step.state, State::Waiting)),
            checkpoint: step.checkpoint.clone(),
            is_refused: false,
        })
    }

    /// Starts no more attempts from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether an attempt is running, or is about to start.
    pub(crate) fn is_under_way(&self) -> bool {
        self.steps.values().any(|step| step.state.is_out())
    }

    /// Whether work is being done.
    pub(crate) fn is_running(&self) -> bool {
        self.steps.values().any(|step| matches!(step.state, State::Running { .. }))
    }

    /// When the next timer is due.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    /// How many steps are in which state.
    pub(crate) fn states(&self) -> StepStates {
        let mut states = StepStates::default();
        for step in self.steps.values() {
            states.0[match step.state {
                State::Queued | State::Slotless => 0,
                State::Waiting => 1,
                State::InDoubt => 2,
                State::Uncommitted => 3,
                State::Running { .. } => 4,
            }] += 1;
        }
        states
    }

    /// Each queue, with how many wait in it and how many have left it and are under way.
    pub(crate) fn queue_lengths(&self) -> Vec<(String, usize, usize)> {
        let queues = self.queues.iter().take(MAX_NAMES);
        queues.map(|(name, queue)| (name.clone(), queue.waiting(), queue.under_way())).collect()
    }

    /// How the slots for blocking steps are used.
    pub(crate) fn slot_usage(&self) -> SlotUsage {
        self.slots.usage()
    }

    /// How many steps wait for nothing but time, or for others.
    pub(crate) fn parked(&self) -> usize {
        self.steps.values().filter(|step| !step.state.is_out()).count()
    }

    /// The attempts at steps of a run that are under way or are about to be, and for how long each has run.
    pub(crate) fn attempts(&self, run: RunId, now: Time) -> Vec<String> {
        let of_run =
            self.steps.iter().filter(|(call, step)| call.run == run && step.state.is_out());
        let named = of_run.map(|(_, step)| {
            format!("`{}` for {:.1} s so far", step.work.name, step.worked(now).as_secs_f64())
        });
        named.collect()
    }

    /// A run was released: its steps that waited for nothing else go to their queues.
    pub(crate) fn queue_parked(&mut self, parts: &mut Parts<'_>, run: RunId) {
        let parked = |step: &Underway| matches!(step.state, State::Waiting) && step.timer.is_none();
        let of_run = self.steps.iter().filter(|(call, _)| call.run == run);
        let parked: Vec<CallRef> =
            of_run.filter(|(_, step)| parked(step)).map(|(call, _)| *call).collect();
        parked.into_iter().for_each(|call| self.queue_up(parts, call));
    }

    /// Whether steps of a run are under way that end by themselves.
    pub(crate) fn is_busy(&self, run: RunId) -> bool {
        let mut steps = self.steps.iter().filter(|(call, _)| call.run == run);
        steps.any(|(_, step)| !matches!(step.state, State::InDoubt))
    }

    fn arm(&mut self, call: CallRef, at: Option<Time>) {
        let Some(step) = self.steps.get_mut(&call) else { return };
        if let Some(armed) = std::mem::replace(&mut step.timer, at) {
            self.timers.remove(&(armed, Due::Step(call)));
        }
        if let Some(at) = at {
            self.timers.insert((at, Due::Step(call)));
        }
    }

    /// The next attempt at a step, as its work sees it.
    fn attempt(
        &self,
        call: CallRef,
        step: &Underway,
        inbox: &Arc<Inbox>,
        onlookers: Onlookers,
        span: tracing::Span,
    ) -> Attempt {
        let identity = Identity {
            call,
            name: step.work.name,
            key: Arc::clone(&step.key),
            number: step.attempt,
            kind: step.work.kind,
            birth: step.birth,
            checkpoint: step.checkpoint.clone(),
            span,
        };
        Attempt::new(identity, inbox, self.chunks.as_ref(), onlookers)
    }

    /// Notes that the clock stepped ahead to this moment. Running attempts keep the time they have
    /// left.
    pub(crate) fn clock_stepped(&mut self, now: Time, by: Duration) {
        let before = Time::from_nanos(now.saturating_since(Time::ZERO + by).as_nanos() as u64);
        for (call, step) in &mut self.steps {
            let State::Running { attempt, .. } = &step.state else { continue };
            attempt.clock_stepped(before, by);
            step.launched = step.launched + by;
            if let Some(armed) = step.timer {
                self.timers.remove(&(armed, Due::Step(*call)));
                self.timers.insert((armed + by, Due::Step(*call)));
                step.timer = Some(armed + by);
            }
        }
    }

    /// Ends an attempt, and frees its place in the queue and a slot that it has not used.
    pub(crate) fn attempt_over(&mut self, call: CallRef) {
        self.arm(call, None);
        let Some(step) = self.steps.get_mut(&call) else { return };
        let state = std::mem::replace(&mut step.state, State::Waiting);
        if let Some(slot) = step.slot.take() {
            self.slots.give_back(slot);
        }
        if let State::Slotless = state {
            self.slots.leave(call);
        }
        match (state, step.queue) {
            (State::Queued, Some(queue)) => self.queues[queue].1.leave(call),
            (State::Slotless | State::Uncommitted | State::Running { .. }, Some(queue)) => {
                self.queues[queue].1.over();
            }
            _ => {}
        }
    }
}

/// The answer for the call of a step.
pub(crate) struct Answered {
    pub(crate) call: CallRef,
    pub(crate) result: Result<Value, TaskError>,
    /// The queue in which other steps may begin once the task has its answer.
    pub(crate) queue: Option<usize>,
}

impl Effects {
    /// Begins a step for a task. An error is the answer.
    pub(crate) fn begin(
        &mut self,
        parts: &mut Parts<'_>,
        call: CallRef,
        work: StepWork,
    ) -> Result<(), TaskError> {
        let queue = match &work.queue {
            None => None,
            Some(name) => match self.queues.iter().position(|(known, _)| known == name) {
                None => {
                    let message =
                        format!("there is no queue `{name}`; make it with `Builder::queue`");
                    return Err(TaskError::new(ErrorKind::BadArgument, message));
                }
                known => known,
            },
        };
        let Some(Known { key, birth, seed, begun }) = identity(parts, call) else { return Ok(()) };
        let in_doubt = begun.is_open && work.kind == Kind::AtMostOnce;
        if in_doubt && !work.holds_in_doubt {
            let message = format!("the process ended while attempt {} was running", begun.attempt);
            let mut error = TaskError::new(ErrorKind::InDoubt, message);
            error.add_call(work.name, work.at.clone());
            return Err(error);
        }
        let (attempt, failures) = (begun.attempt, begun.failures);
        let is_cut_off = begun.cut_off || begun.is_open;
        let is_held = in_doubt;
        // The next attempt finds in the database what happened.
        let in_doubt = is_cut_off && work.tells_doubt && work.kind != Kind::Transactional;
        let now = parts.host.clock.now();
        let step = Underway {
            work,
            key: key.into(),
            birth,
            seed,
            checkpoint: begun.checkpoint,
            in_doubt,
            queue,
            attempt,
            failures,
            state: if is_held { State::InDoubt } else { State::Waiting },
            slot: None,
            timer: None,
            asked: now,
            queued: now,
            launched: now,
        };
        self.steps.insert(call, step);
        match begun.retry_at {
            _ if is_held => {}
            Some(due) if due > now => self.arm(call, Some(due)),
            _ => self.queue_up(parts, call),
        }
        Ok(())
    }

    pub(crate) fn queue_up(&mut self, parts: &mut Parts<'_>, call: CallRef) {
        let Some(step) = self.steps.get_mut(&call) else { return };
        if is_run_held(parts, call.run) {
            // It is queued when its run is released.
            step.state = State::Waiting;
            return;
        }
        step.state = State::Queued;
        step.queued = parts.host.clock.now();
        match step.queue {
            // It waits for the next process.
            None if self.is_closed => {}
            None => self.await_slot(parts, call),
            Some(queue) => {
                self.queues[queue].1.join(call);
                self.serve_queue(parts, queue);
            }
        }
    }

    /// Lets steps of a queue begin as far as its limits allow.
    fn serve_queue(&mut self, parts: &mut Parts<'_>, queue: usize) {
        if self.is_closed {
            return;
        }
        let now = parts.host.clock.now();
        loop {
            match self.queues[queue].1.next(now) {
                Next::Leaves(call) => self.await_slot(parts, call),
                Next::NotBefore(time) => {
                    self.timers.insert((time, Due::Queue(queue)));
                    return;
                }
                Next::Nobody => return,
            }
        }
    }

    /// A step that left its queue begins when it has a slot, if it needs one.
    fn await_slot(&mut self, parts: &mut Parts<'_>, call: CallRef) {
        let Some(step) = self.steps.get_mut(&call) else { return };
        if let StepJob::Blocking(_) = step.work.job {
            step.state = State::Slotless;
            let room = parts.host.room_for_attempts(self.slots.taken() + 1);
            self.slots.limit_to(room);
            let Some(slot) = self.slots.take_or_wait(call) else {
                return self.await_thread(parts);
            };
            step.slot = Some(slot);
        }
        self.begin_attempt(parts, call);
    }

    /// Sets a timer to ask the system for a thread again, if steps wait although slots are free.
    fn await_thread(&mut self, parts: &Parts<'_>) {
        if self.is_closed {
            return;
        }
        let at = self.slots.ask_again(parts.host.clock.now());
        self.timers.extend(at.map(|at| (at, Due::Thread)));
    }

    /// The next step that waits for a slot and can begin, with its slot.
    fn next_with_slot(&mut self, parts: &Parts<'_>) -> Option<(CallRef, Slot)> {
        if self.is_closed || self.slots.is_awaited_by_none() {
            return None;
        }
        self.slots.limit_to(parts.host.room_for_attempts(self.slots.taken() + 1));
        self.slots.next()
    }

    /// Lets those begin that wait for a slot, as far as there are any.
    fn serve_slots(&mut self, parts: &mut Parts<'_>) {
        let mut freed = BTreeSet::new();
        while let Some((call, slot)) = self.next_with_slot(parts) {
            if let Some(step) = self.steps.get_mut(&call) {
                step.slot = Some(slot);
                let queue = step.queue;
                self.begin_attempt(parts, call);
                // A step of a run that was held meanwhile gives up its place in its queue.
                let gave_up = |step: &Underway| !step.state.is_out();
                if self.steps.get(&call).is_some_and(gave_up) {
                    freed.extend(queue);
                }
            }
        }
        self.await_thread(parts);
        freed.into_iter().for_each(|queue| self.serve_queue(parts, queue));
    }

    /// Lets other steps begin after an attempt has left its queue or returned its slot.
    pub(crate) fn serve_waiting(&mut self, parts: &mut Parts<'_>, queue: Option<usize>) {
        if let Some(queue) = queue {
            self.serve_queue(parts, queue);
        }
        self.serve_slots(parts);
    }

    /// Records an attempt, which starts when the record is durable.
    fn begin_attempt(&mut self, parts: &mut Parts<'_>, call: CallRef) {
        if is_run_held(parts, call.run) {
            return self.attempt_over(call);
        }
        let Some(step) = self.steps.get_mut(&call) else { return };
        if step.queue.is_some() || matches!(step.state, State::Slotless) {
            let waited = parts.host.clock.now().saturating_since(step.queued);
            parts.host.inbox.meters.waited.queue.0.observe_time(waited);
        }
        step.attempt = step.attempt.saturating_add(1);
        step.state = State::Uncommitted;
        let (attempt, kind) = (step.attempt, step.work.kind);
        let is_durable = parts.write(call, |lines, tid| lines.effect_start(tid, call, attempt));
        match &mut parts.durable {
            Some(durable) if is_durable && kind != Kind::Pure => {
                durable.after_commit.push(AfterCommit::Attempt(call, attempt));
            }
            _ => self.launch(parts, call, attempt),
        }
    }

    /// Starts an attempt, unless it was withdrawn meanwhile.
    pub(crate) fn launch(&mut self, parts: &mut Parts<'_>, call: CallRef, number: u64) {
        let now = parts.host.clock.now();
        let Some(step) = self.steps.get(&call) else { return };
        if step.attempt != number || !matches!(step.state, State::Uncommitted) {
            return;
        }
        let Some(hosted) = parts.runs.of(call.run) else { return };
        let (hub, task_id) = (parts.host.hub.clone(), hosted.task_id());
        let tid = hosted.run.caller(call).unwrap_or(Tid(1));
        let onlookers = Onlookers { hub, task_id, tid };
        let span = parts.host.tracer.attempt(call.run, tid, (step.work.name, &step.key, number));
        let attempt = self.attempt(call, step, &parts.host.inbox, onlookers, span);
        let told = (Stage::ToolExecutionStart, step.work.name);
        let data = StepData::new(step.work.name, &step.key, number);
        parts.tell((task_id, Some(tid)), told, Data::Step(data));
        let Some(step) = self.steps.get_mut(&call) else { return };
        let what = (call, step.work.name, step.work.at.clone());
        let kept = parts.durable.as_ref().map(|durable| step.work.job.keeping(&durable.dir_lock));
        let job = kept.as_ref().unwrap_or(&step.work.job);
        let given = (attempt.clone(), step.slot.take());
        let stop = parts.host.start_attempt(what, given, job);
        step.launched = now;
        let begun = attempt.begun().unwrap_or(now);
        let due = step.next_check(begun, begun);
        step.state = State::Running { attempt, stop };
        self.arm(call, due);
    }

    /// Handles the result of an attempt, whose thread is free.
    pub(crate) fn attempted(
        &mut self,
        parts: &mut Parts<'_>,
        (call, number): (CallRef, u64),
        tried: Tried,
        slot: Option<Slot>,
    ) -> Option<Answered> {
        if let Some(slot) = slot {
            self.slots.give_back(slot);
        }
        let step = self.steps.get(&call);
        if !step.is_some_and(|step| step.is_awaited(number)) {
            self.late += 1;
            parts.host.inbox.meters.late.add(1);
            if let Some(hosted) = parts.runs.of_mut(call.run) {
                hosted.run.count_late();
            }
            self.serve_slots(parts);
            return None;
        }
        self.tried(parts, call, tried)
    }

    /// Returns the answer for the task; `None` if there is another attempt.
    fn tried(
        &mut self,
        parts: &mut Parts<'_>,
        call: CallRef,
        mut tried: Tried,
    ) -> Option<Answered> {
        let now = parts.host.clock.now();
        let step = self.steps.get(&call)?;
        let worked = step.worked(now);
        if let State::Running { attempt, .. } = &step.state {
            Tracer::attempt_over(attempt, tried.as_ref().err().map(|failed| &failed.error));
        }
        self.attempt_over(call);
        let step = self.steps.get_mut(&call)?;
        let queue = step.queue;
        let meters = parts.host.inbox.meters.effects.of(step.work.name);
        let outcome = AttemptOutcome::of(tried.as_ref().map_err(|failed| &failed.error));
        meters.attempted(outcome, worked);
        if let Err(StepError { error, .. }) = &mut tried {
            error.add_call(step.work.name, step.work.at.clone());
            step.in_doubt |= step.work.tells_doubt && error.kind() == ErrorKind::InDoubt;
        }
        match tried {
            Err(StepError { error, worth: Worth::Trying }) if step.fails_again(&error) => {
                meters.retries.add(1);
                let (attempt, failures) = (step.attempt, step.failures);
                let wait = step.work.retry.as_ref().map(|retry| retry.wait(failures, step.seed));
                let retry_at = now + wait.unwrap_or_default();
                step.tell_attempt_over(parts, call, Err(&error), Some(retry_at));
                self.arm(call, Some(retry_at));
                parts.write(call, |lines, tid| {
                    lines.effect_failed(tid, call, (attempt, &error, retry_at));
                });
                self.serve_waiting(parts, queue);
                None
            }
            tried => {
                let waited = now.saturating_since(step.asked);
                parts.host.inbox.meters.waited.effect.0.observe_time(waited);
                let result = tried.as_ref().map(drop).map_err(|failed| &failed.error);
                step.tell_attempt_over(parts, call, result, None);
                let in_doubt = self.steps.remove(&call).filter(|step| step.in_doubt);
                let result = match tried {
                    Ok(json) => Ok(Value::new(json)),
                    Err(StepError { error, .. }) => Err(match in_doubt {
                        Some(step) if error.kind() != ErrorKind::InDoubt => step.doubts(&error),
                        _ => error,
                    }),
                };
                Some(Answered { call, result, queue })
            }
        }
    }

    /// Gives up a step that no task waits for any more.
    pub(crate) fn abort(&mut self, parts: &mut Parts<'_>, call: CallRef) {
        self.count_cut_off(parts, call, AttemptOutcome::Cancelled);
        self.stop_work(parts, call);
        self.attempt_over(call);
        if let Some(step) = self.steps.remove(&call) {
            self.serve_waiting(parts, step.queue);
        }
    }

    /// Counts an attempt that is abandoned.
    pub(crate) fn count_cut_off(&self, parts: &Parts<'_>, call: CallRef, outcome: AttemptOutcome) {
        if let Some(step) = self.steps.get(&call)
            && matches!(step.state, State::Running { .. })
        {
            let time = step.worked(parts.host.clock.now());
            parts.host.inbox.meters.effects.of(step.work.name).attempted(outcome, time);
        }
    }

    /// Stops the work if that is possible. `true`: the work had not started.
    fn stop_work(&mut self, parts: &Parts<'_>, call: CallRef) -> bool {
        if let Some(Underway { state: State::Running { attempt, stop, .. }, .. }) =
            self.steps.get(&call)
        {
            attempt.give_up();
            if let Some(stop) = stop {
                stop.stop();
            }
        }
        let Some(work) = parts.host.abort_work(call) else { return false };
        if let Some(slot) = work.into_slot() {
            self.slots.give_back(slot);
        }
        true
    }

    /// Forgets the steps of a run that is gone.
    pub(crate) fn forget_run(&mut self, parts: &mut Parts<'_>, run: RunId) {
        let of_run = |call: &&CallRef| call.run == run;
        let calls: Vec<CallRef> = self.steps.keys().filter(of_run).copied().collect();
        calls.into_iter().for_each(|call| self.abort(parts, call));
    }

    /// Takes out something that is due by now.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Due> {
        let (time, due) = self.timers.first().copied()?;
        (time <= now).then(|| {
            self.timers.pop_first();
            due
        })
    }

    /// Handles it.
    pub(crate) fn fire(&mut self, parts: &mut Parts<'_>, due: Due, now: Time) -> Option<Answered> {
        match due {
            Due::Queue(queue) => {
                self.serve_queue(parts, queue);
                None
            }
            Due::Step(call) => self.step_due(parts, call, now),
            Due::Thread => {
                self.slots.asks();
                parts.host.ask_for_thread();
                self.serve_slots(parts);
                None
            }
        }
    }

    fn step_due(&mut self, parts: &mut Parts<'_>, call: CallRef, now: Time) -> Option<Answered> {
        let step = self.steps.get_mut(&call)?;
        step.timer = None;
        let State::Running { attempt, .. } = &step.state else {
            self.queue_up(parts, call);
            return None;
        };
        // While it waits for a thread, neither its timeout nor its heartbeat counts.
        let begun = attempt.begun().unwrap_or(now);
        let sign = if attempt.has_beaten() { now } else { begun };
        if let Some(due) = step.next_check(begun, sign).filter(|due| *due > now) {
            self.arm(call, Some(due));
            return None;
        }
        let heartbeat = step.work.heartbeat;
        let is_over_time = step.work.timeout.is_some_and(|timeout| begun + timeout <= now);
        let (number, kind) = (step.attempt, step.work.kind);
        let what = match (is_over_time, step.work.timeout, heartbeat) {
            (true, Some(timeout), _) => format!("took longer than {timeout:?}"),
            (_, _, heartbeat) => {
                format!("sent no heartbeat for {:?}", heartbeat.unwrap_or_default())
            }
        };
        let never_began = self.stop_work(parts, call);
        if kind == Kind::AtMostOnce && !never_began && self.hold_in_doubt(parts, call) {
            return None;
        }
        if let Some(step) = self.steps.get_mut(&call) {
            step.in_doubt |= step.work.tells_doubt && !never_began;
        }
        let error = |kind| TaskError::new(kind, format!("attempt {number} {what}"));
        let failed = match kind {
            Kind::AtMostOnce if !never_began => StepError::last(error(ErrorKind::InDoubt)),
            _ => StepError::passing(error(ErrorKind::TimedOut)),
        };
        self.tried(parts, call, Err(failed))
    }
}

/// The key of a step, and what the log has of it. `None`: no task waits for this call.
fn identity(parts: &mut Parts<'_>, call: CallRef) -> Option<Known> {
    let hosted = parts.runs.of_mut(call.run)?;
    let Some(durable_state) = &mut hosted.durable_state else {
        let entropy = &parts.host.entropy;
        let (key, seed) = (entropy.uuid().to_string(), entropy.seed());
        return Some(Known { key, birth: seed, seed, begun: Begun::default() });
    };
    let seq = durable_state.journal.seq_of(call)?;
    let key = durable_state.journal.key_of(call)?.to_string();
    let begun = durable_state.begun.remove(&seq).unwrap_or_default();
    let (birth, seed) = (durable_state.seed, mixed(durable_state.seed ^ mixed(seq)));
    Some(Known { key, birth, seed, begun })
}

/// Whether a run is held, so that no attempt at a step of it begins.
fn is_run_held(parts: &Parts<'_>, run: RunId) -> bool {
    let durable = parts.durable.as_ref().filter(|durable| durable.has_held);
    durable.and_then(|_| parts.runs.durable_state(run)).is_some_and(DurableState::is_held)
}

impl Underway {
    /// Publishes the result of an attempt.
    fn tell_attempt_over(
        &self,
        parts: &mut Parts<'_>,
        call: CallRef,
        result: Result<(), &TaskError>,
        retry_at: Option<Time>,
    ) {
        let Some(hosted) = parts.runs.of(call.run) else { return };
        let of = (hosted.task_id(), hosted.run.caller(call));
        let mut data = StepData::new(self.work.name, &self.key, self.attempt);
        let message = match result {
            Ok(()) => self.work.name.into(),
            Err(error) => format!("{}: {}", self.work.name, error.message()).into(),
        };
        data.code = result.err().map(|error| error.code().into());
        data.retry_at = retry_at;
        let told: (Stage, Cow<'static, str>) = (Stage::ToolExecutionComplete, message);
        parts.tell(of, told, Data::Step(data));
    }

    /// When an attempt that began and last showed activity at these moments is checked next.
    fn next_check(&self, begun: Time, sign: Time) -> Option<Time> {
        let until = self.work.timeout.map(|timeout| begun + timeout);
        let silence = self.work.heartbeat.map(|heartbeat| sign + heartbeat);
        until.into_iter().chain(silence).min()
    }

    /// How long its attempt has worked so far.
    fn worked(&self, now: Time) -> Duration {
        let begun = match &self.state {
            State::Running { attempt, .. } => attempt.begun().unwrap_or(now),
            _ => self.launched,
        };
        now.saturating_since(begun)
    }

    /// Counts a failure, and says whether another attempt follows.
    fn fails_again(&mut self, error: &TaskError) -> bool {
        self.failures += 1;
        self.work.retry.as_ref().is_some_and(|retry| retry.allows(self.failures, error))
    }

    /// Whether the attempt of this number is the one that is under way.
    fn is_awaited(&self, number: u64) -> bool {
        self.attempt == number && matches!(self.state, State::Running { .. })
    }

    /// The last error of a step of which an earlier attempt was abandoned and may have taken effect
    /// all the same.
    fn doubts(&self, error: &TaskError) -> TaskError {
        let message =
            format!("{}; an attempt that was cut off may have had its way", error.message());
        let mut error = TaskError::new(ErrorKind::InDoubt, message);
        error.add_call(self.work.name, self.work.at.clone());
        error
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        // No task reads their results any more.
        for step in self.steps.values() {
            if let State::Running { attempt, .. } = &step.state {
                attempt.give_up();
            }
        }
    }
}
