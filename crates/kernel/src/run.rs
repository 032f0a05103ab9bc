//! One run: its tables, and the interface for its host. Turns are in `scheduler.rs`; the effect of
//! each call is under `calls/`.

use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use slab::Slab;

use crate::calls::promise::Promise;
use crate::calls::wait::WaitSet;
use crate::config::{End, Events, Limits, Mode, Rules, RunConfig};
use crate::coroutine::BoxCoroutine;
use crate::deadlock::DeadlockError;
use crate::error::{ErrorKind, Site, TaskError, TaskLabel};
use crate::id::{CallId, ObjectRef, RunId, TaskRef, Tid, Waitable};
use crate::outbox::{CallRef, Event, EventKind, Order};
use crate::policy::Policy;
use crate::rare::Rare;
use crate::ready::Ready;
use crate::record::{Record, Recording};
use crate::state::TaskState;
use crate::store::{Env, Scope, chain};
use crate::task::{Body, Mark, Outcome, Task};
use crate::tids::TidIndex;
use crate::time::Time;
use crate::timer::{Due, Timers};
use crate::value::Value;
use crate::waiters::WaitMap;

/// The most undelivered failures that are kept for the end of the run.
const MAX_UNOBSERVED: usize = 100;

/// A root task and every task it spawned, with their tables, queue, timers and clock.
pub struct Run {
    pub(crate) id: RunId,
    pub(crate) mode: Mode,
    pub(crate) end: End,
    pub(crate) rules: Rules,
    pub(crate) cancel_grace: Option<Duration>,
    pub(crate) env: Env,
    pub(crate) policy: Option<Box<dyn Policy>>,
    events_wanted: Events,
    /// Whether turns or calls are watched.
    pub(crate) watched_turns: bool,
    pub(crate) recording: Recording,
    /// Whether calls are watched, counted or recorded, and so take the slow path.
    pub(crate) careful: bool,
    /// Turns taken so far.
    pub(crate) steps: u64,
    /// The state of the random number generator.
    pub(crate) random: u64,

    pub(crate) tasks: Slab<Task>,
    pub(crate) tids: Option<Box<TidIndex>>,
    pub(crate) next_tid: u64,
    pub(crate) live: usize,
    pub(crate) root: u32,

    pub(crate) ready: Ready,
    /// Whether the running task was answered, so that it goes to the back of the queue.
    pub(crate) running_answered: bool,

    pub(crate) waits: WaitMap,
    pub(crate) sets: Slab<WaitSet>,
    pub(crate) timers: Timers,
    pub(crate) promises: Slab<Promise>,
    pub(crate) next_object: u64,
    pub(crate) next_end: u64,

    pub(crate) clock: Time,
    pub(crate) next_call: u64,
    pub(crate) calls_made: u64,
    pub(crate) cost: u64,
    pub(crate) hope: Hope,

    orders: Vec<Order>,
    events: Vec<Event>,
    records: Vec<Record>,
    /// Whether a task has begun to wait since the last search for cycles.
    pub(crate) waits_changed: bool,

    pub(crate) failure: Option<Box<RunFailure>>,
    /// Whether the outcome is fixed, whatever the remaining tasks do.
    pub(crate) is_decided: bool,
    pub(crate) rare: Rare,
}

/// Data that few tasks have.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<Rc<str>>,
    pub(crate) group: Option<u32>,
    /// The key of the environment that the task computes.
    pub(crate) resolves: Option<Rc<str>>,
}

/// Counts of what could still wake a run in which no task is ready.
#[derive(Default)]
pub(crate) struct Hope {
    pub(crate) timers: usize,
    pub(crate) descriptors: usize,
    pub(crate) effects: usize,
    pub(crate) externals: usize,
}

/// Counts of completions and failures that were ignored. None of them is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// External promises that were settled again.
    pub settled_again: u64,
    /// Answers of the host to calls that no longer wait.
    pub late: u64,
    /// Failures that were not delivered to any task, beyond those that are kept.
    pub unobserved_dropped: u64,
}

/// Why a run ended without its root's value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunFailure {
    /// The root failed or was cancelled.
    Root(TaskError),
    /// All tasks waited and nothing could wake them.
    Deadlock(DeadlockError),
    /// The run exceeded a limit.
    Limit(TaskError),
}

/// A task, as the host sees it.
#[derive(Clone, Debug)]
pub struct TaskInfo {
    /// The task's number, name and line.
    pub label: TaskLabel,
    /// The task's state.
    pub state: TaskState,
    /// A description of what the task waits for.
    pub waits_for: Option<String>,
    /// The line of the call that the task waits in.
    pub waits_at: Option<Site>,
}

impl Run {
    /// Creates a run with this root, ready for its first round.
    pub fn new(id: RunId, root: BoxCoroutine, config: RunConfig, now: Time) -> Run {
        let (name, at) = (config.name.clone(), config.started_at);
        let handlers = config.handlers.clone();
        let mut run = Run::without_tasks(id, config, now);
        let scope = (!handlers.is_empty())
            .then(|| Rc::new(Scope { handlers: chain(handlers, None), ..Scope::default() }));
        run.root = run.add_task(root, at, scope, None);
        if let Some(name) = name {
            run.set_name(run.root, name);
        }
        run.announce_spawn(run.root, None);
        run
    }

    /// Creates the empty tables of a run. Its time begins now.
    pub(crate) fn without_tasks(id: RunId, config: RunConfig, now: Time) -> Run {
        let mut run = Run {
            id,
            mode: config.mode,
            end: config.end,
            rules: config.rules,
            cancel_grace: config.cancel_grace,
            env: config.env,
            policy: config.policy,
            events_wanted: config.events,
            watched_turns: false,
            careful: false,
            recording: config.recording,
            // Most durable runs have one task.
            tasks: Slab::with_capacity(1),
            tids: None,
            next_tid: 1,
            live: 0,
            root: 0,
            ready: Ready::default(),
            running_answered: false,
            waits: WaitMap::default(),
            sets: Slab::new(),
            timers: Timers::default(),
            promises: Slab::new(),
            steps: 0,
            random: config.seed,
            next_object: 1,
            next_end: 0,
            clock: now,
            next_call: 1,
            calls_made: 0,
            cost: 0,
            hope: Hope::default(),
            orders: Vec::new(),
            events: Vec::new(),
            records: Vec::new(),
            waits_changed: false,
            failure: None,
            is_decided: false,
            rare: Rare::default(),
        };
        if config.limits != Limits::default() {
            run.rare.limits = config.limits;
        }
        run.want_events(config.events);
        if let Some(deadline) = config.limits.max_time.and_then(|limit| now.checked_add(limit)) {
            run.timers.arm(deadline, Due::Limit);
        }
        if let Some(deadline) = config.deadline {
            run.timers.arm(deadline.at, Due::Deadline);
            run.rare.deadline = Some(deadline);
        }
        if !config.attributes.is_empty() {
            run.rare.attributes = Some(config.attributes.into());
        }
        run
    }

    /// The run's number.
    #[inline]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The root task.
    pub fn root(&self) -> TaskRef {
        TaskRef { run: self.id, slot: self.root, tid: Tid(1) }
    }

    /// The run's clock.
    pub fn clock(&self) -> Time {
        self.clock
    }

    /// Whether a task is ready.
    #[inline]
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether all tasks have ended.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.live == 0
    }

    /// Returns the number of tasks that have not ended.
    pub fn live_tasks(&self) -> usize {
        self.live
    }

    /// Returns when the next timer is due.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }

    /// Returns the number of calls that the host is working on.
    pub fn effects(&self) -> usize {
        self.hope.effects
    }

    /// Counts an answer of the host to a call that it had answered, or was about to answer, in
    /// another way.
    pub fn count_late(&mut self) {
        self.rare.counts.late += 1;
    }

    /// Returns the counts of ignored completions and failures so far.
    pub fn counts(&self) -> Counts {
        self.rare.counts
    }

    /// Returns the number of system calls that were accepted so far.
    pub fn calls_made(&self) -> u64 {
        self.calls_made
    }

    /// Returns the sum of all Charge calls.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Takes the orders for the host.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// Whether the host has orders to execute, events to report or records to store.
    #[inline]
    pub fn has_outbox(&self) -> bool {
        self.has_orders() || self.has_events() || !self.records.is_empty()
    }

    /// Whether the host has orders to execute.
    #[inline]
    pub fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    /// Whether the host has events to report.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the records that have been made since the last call, in order.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    pub(crate) fn push_record(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Returns which calls are recorded.
    pub fn recording(&self) -> Recording {
        self.recording
    }

    /// Returns the number of turns that the run's tasks have taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the task that made a call.
    pub fn caller_label(&self, call: CallRef) -> Option<TaskLabel> {
        self.tasks.contains(call.slot as usize).then(|| self.label(call.slot))
    }

    /// Returns the number of the task that made a call.
    pub fn caller(&self, call: CallRef) -> Option<Tid> {
        self.tasks.get(call.slot as usize).map(|task| task.tid)
    }

    /// Draws random numbers from another seed after this number of draws, counted from the last
    /// such change.
    pub fn reseed_after(&mut self, draws: u64, seed: u64) {
        self.rare.reseeds.push_back((draws, seed));
    }

    #[cold]
    fn reseed_if_due(&mut self) {
        while let Some((left, seed)) = self.rare.reseeds.front_mut() {
            if *left > 0 {
                *left -= 1;
                return;
            }
            self.random = *seed;
            self.rare.reseeds.pop_front();
        }
    }

    /// The next random number (SplitMix64).
    pub(crate) fn random(&mut self) -> u64 {
        if !self.rare.reseeds.is_empty() {
            self.reseed_if_due();
        }
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Takes the events since the last call in exchange for an empty list, whose capacity the run
    /// reuses.
    pub fn swap_events(&mut self, empty: Vec<Event>) -> Vec<Event> {
        let kept = if self.is_ready() { empty } else { Vec::new() };
        std::mem::replace(&mut self.events, kept)
    }

    /// Sets the level of events that are left in the outbox from now on.
    pub fn want_events(&mut self, wanted: Events) {
        self.events_wanted = wanted;
        let watched = wanted == Events::All || self.recording != Recording::Off;
        self.careful = watched || self.rare.limits.max_calls.is_some();
        self.watched_turns = self.careful || wanted >= Events::Turns;
    }

    /// Returns the level of events that are left in the outbox.
    pub fn wanted_events(&self) -> Events {
        self.events_wanted
    }

    /// Takes the outcome of the run, which is available once it is fixed: at the latest when all
    /// tasks have ended.
    pub fn take_outcome(&mut self) -> Option<Result<Value, RunFailure>> {
        if let Some(failure) = &self.failure {
            return Some(Err((**failure).clone()));
        }
        match &mut self.tasks[self.root as usize].body {
            Body::Over { outcome, .. } => Some(outcome.take().map_err(RunFailure::Root)),
            Body::Live { .. } => None,
        }
    }

    /// Returns why the run will not end with its root's value, once that is known.
    pub fn failure(&self) -> Option<&RunFailure> {
        self.failure.as_deref()
    }

    /// Returns the outcome, once it is fixed. Some tasks may still be in their cleanup.
    pub fn fixed_outcome(&self) -> Option<Result<Value, RunFailure>> {
        if !self.is_decided && !self.is_over() {
            return None;
        }
        match &self.failure {
            Some(failure) => Some(Err((**failure).clone())),
            None => {
                let (outcome, _) = self.tasks[self.root as usize].end()?;
                Some(outcome.share().map_err(RunFailure::Root))
            }
        }
    }

    /// Whether the outcome is fixed while some tasks have not ended.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.is_decided && !self.is_over()
    }

    /// Returns the version of the rules about ends that the run follows.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Takes the failures that were not delivered to any task. After the end of the run they
    /// include failures of tasks whose handles still exist.
    pub fn take_unobserved(&mut self) -> Vec<TaskError> {
        let mut all = match self.rare.unobserved.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.rare.unobserved),
        };
        if self.is_over() {
            for (_, task) in self.tasks.iter_mut() {
                if let (TaskState::Failed, Body::Over { outcome: Outcome::Error(error), .. }) =
                    (task.state(), &task.body)
                    && !task.marks.set(Mark::Observed)
                {
                    all.push(error.clone());
                }
            }
            all.extend(self.rare.groups.iter().filter_map(|(_, group)| group.untold().cloned()));
        }
        all
    }

    /// Returns the state of a task, by number; `None` if it has ended and was forgotten, or never
    /// existed.
    pub fn task_state(&self, tid: Tid) -> Option<TaskState> {
        let slot = match &self.tids {
            Some(tids) => tids.get(tid)?,
            None => self.slots_by_tid().find(|(known, _)| *known == tid)?.1,
        };
        Some(self.tasks[slot as usize].state())
    }

    /// Returns the slot of a task, by number. Few programs look tasks up by number, so the index is
    /// built on first use.
    pub(crate) fn slot_of(&mut self, tid: Tid) -> Option<u32> {
        if self.tids.is_none() {
            self.tids = Some(Box::new(TidIndex::new(self.slots_by_tid())));
        }
        self.tids.as_ref().and_then(|tids| tids.get(tid))
    }

    fn slots_by_tid(&self) -> impl Iterator<Item = (Tid, u32)> {
        self.tasks.iter().map(|(slot, task)| (task.tid, slot as u32))
    }

    /// Returns all known tasks, ordered by number.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        let mut all: Vec<TaskInfo> = self
            .tasks
            .iter()
            .map(|(slot, task)| TaskInfo {
                label: self.label(slot as u32),
                state: task.state(),
                waits_for: self.waits_for(slot as u32, &|_| None),
                waits_at: task.first_wait().map(|(_, at)| self.site(slot as u32, at)),
            })
            .collect();
        all.sort_by_key(|info| info.label.tid);
        all
    }

    /// Sets the clock. It never goes back.
    pub fn set_clock(&mut self, now: Time) {
        self.clock = self.clock.max(now);
    }

    /// Cancels every task. The run then ends as cancelled unless its outcome was fixed before.
    pub fn cancel_all(&mut self) {
        let all = self.in_spawn_order(self.tasks.iter().map(|(slot, _)| slot as u32));
        for slot in all {
            if self.tasks.contains(slot as usize) {
                self.cancel_task(slot);
            }
        }
    }

    // Functions for the other files of the kernel.

    /// Adds a task to the table and the queue.
    pub(crate) fn add_task(
        &mut self,
        coroutine: BoxCoroutine,
        at: &'static Location<'static>,
        scope: Option<Rc<Scope>>,
        priority: Option<u8>,
    ) -> u32 {
        let tid = Tid(self.next_tid);
        self.next_tid += 1;
        let mut task = Task::new(tid, coroutine, at, scope);
        task.priority = priority.unwrap_or(0);
        task.marks.set(Mark::Queued);
        task.marks.set(Mark::Held);
        let slot = self.tasks.insert(task) as u32;
        if let Some(tids) = &mut self.tids {
            tids.insert(tid, slot);
        }
        self.live += 1;
        self.ready.push_yielded(slot);
        slot
    }

    pub(crate) fn announce_spawn(&mut self, slot: u32, parent: Option<Tid>) {
        if self.tells_tasks() {
            let at = self.label(slot).spawned_at;
            let name = self.name(slot);
            self.problem(slot, EventKind::Spawned { parent, name, at });
        }
    }

    pub(crate) fn set_name(&mut self, slot: u32, name: Rc<str>) {
        let tid = self.tasks[slot as usize].tid;
        self.order(Order::Name(tid, Some(Rc::clone(&name))));
        self.extra(slot).name = Some(name);
    }

    pub(crate) fn extra(&mut self, slot: u32) -> &mut Extra {
        self.tasks[slot as usize].marks.set(Mark::Extra);
        self.rare.extras.entry(slot).or_default()
    }

    pub(crate) fn name(&self, slot: u32) -> Option<Rc<str>> {
        self.rare.extras.get(&slot).and_then(|extra| extra.name.clone())
    }

    pub(crate) fn label(&self, slot: u32) -> TaskLabel {
        let task = &self.tasks[slot as usize];
        TaskLabel {
            tid: task.tid,
            name: self.name(slot).map(|name| name.to_string()),
            spawned_at: task
                .coroutine()
                .and_then(|coroutine| coroutine.spawned_at())
                .unwrap_or_else(|| task.spawned_at.into()),
        }
    }

    /// Returns the line of a call, as the coroutine or else the compiler knows it.
    pub(crate) fn site(&self, slot: u32, at: &'static Location<'static>) -> Site {
        let line = self.tasks[slot as usize].coroutine().and_then(|coroutine| coroutine.line());
        line.unwrap_or_else(|| at.into())
    }

    pub(crate) fn task_ref(&self, slot: u32) -> TaskRef {
        TaskRef { run: self.id, slot, tid: self.tasks[slot as usize].tid }
    }

    pub(crate) fn call_ref(&self, slot: u32, call: CallId) -> CallRef {
        CallRef { run: self.id, slot, call }
    }

    /// Returns the slot of the task that a handle refers to.
    pub(crate) fn find_task(&self, task: TaskRef) -> Result<u32, TaskError> {
        self.check_run(task.run, "task", task.tid.0)?;
        match self.tasks.get(task.slot as usize) {
            Some(found) if found.tid == task.tid => Ok(task.slot),
            _ => Err(task_gone(task.tid)),
        }
    }

    /// Returns an error if a handle belongs to another run.
    #[inline]
    pub(crate) fn check_run(&self, run: RunId, what: &str, id: u64) -> Result<(), TaskError> {
        if run == self.id { Ok(()) } else { Err(self.foreign_run(run, what, id)) }
    }

    #[cold]
    fn foreign_run(&self, run: RunId, what: &str, id: u64) -> TaskError {
        let message = format!("{what} {id} belongs to {run}, not to {}", self.id);
        TaskError::new(ErrorKind::ForeignRun, message)
    }

    /// Returns the number of a new promise, channel, semaphore or group.
    pub(crate) fn next_object_id(&mut self) -> u64 {
        let id = self.next_object;
        self.next_object += 1;
        id
    }

    pub(crate) fn object_ref(&self, slot: u32, id: u64) -> ObjectRef {
        ObjectRef { run: self.id, slot, id }
    }

    /// Returns the next position in the order in which tasks and promises end.
    pub(crate) fn next_end(&mut self) -> u64 {
        self.next_end += 1;
        self.next_end
    }

    pub(crate) fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    pub(crate) fn tells_problems(&self) -> bool {
        self.events_wanted != Events::Off
    }

    /// Whether every call is watched.
    #[inline]
    pub(crate) fn watched(&self) -> bool {
        self.events_wanted == Events::All
    }

    /// Reports an event about calls. Check `watched` first if the event is costly to build.
    #[inline]
    pub(crate) fn event(&mut self, slot: u32, kind: EventKind) {
        if self.watched() {
            self.problem(slot, kind);
        }
    }

    /// Whether the start and end of tasks are watched.
    #[inline]
    pub(crate) fn tells_tasks(&self) -> bool {
        self.events_wanted >= Events::Tasks
    }

    /// Reports the start or end of a task.
    #[inline]
    pub(crate) fn task_event(&mut self, slot: u32, kind: EventKind) {
        if self.tells_tasks() {
            self.problem(slot, kind);
        }
    }

    /// Reports an event about turns.
    #[inline]
    pub(crate) fn turn_event(&mut self, slot: u32, kind: EventKind) {
        if self.events_wanted >= Events::Turns {
            self.problem(slot, kind);
        }
    }

    /// Reports an event that needs attention.
    pub(crate) fn problem(&mut self, slot: u32, kind: EventKind) {
        self.problem_of(self.tasks[slot as usize].tid, kind);
    }

    /// Reports an event that needs attention about a task that may be unknown.
    pub(crate) fn problem_of(&mut self, tid: Tid, kind: EventKind) {
        if self.events_wanted != Events::Off {
            self.events.push(Event { at: self.clock, run: self.id, tid, kind });
        }
    }

    /// Keeps a failure for the end of the run, because it was not delivered to any task.
    pub(crate) fn keep_unobserved(&mut self, error: TaskError) {
        if self.rare.unobserved.len() < MAX_UNOBSERVED {
            self.rare.unobserved.push(error);
        } else {
            self.rare.counts.unobserved_dropped += 1;
        }
    }

    /// Finds a task or a promise in the tables.
    pub(crate) fn find(&self, on: Waitable) -> Result<Found, TaskError> {
        match on {
            Waitable::Task(task) => self.find_task(task).map(Found::Task),
            Waitable::Future(promise) => self.find_promise(promise).map(Found::Promise),
        }
    }
}

/// Coroutines are unwound only when they are cancelled or end normally. An unfinished durable
/// coroutine is leaked, because it will continue in another process, and its cleanup must not act
/// on the outside world here.
impl Drop for Run {
    fn drop(&mut self) {
        if self.mode == Mode::Durable {
            for task in self.tasks.drain() {
                if let Body::Live { coroutine, .. } = task.body {
                    std::mem::forget(coroutine);
                }
            }
        }
    }
}

/// A task or a promise in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Task(u32),
    Promise(u32),
}

#[cold]
fn task_gone(tid: Tid) -> TaskError {
    let message = format!("task {tid} is finished and its result was discarded");
    TaskError::new(ErrorKind::UnknownTask, message)
}
