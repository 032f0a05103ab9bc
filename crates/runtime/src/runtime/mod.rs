//! The runtime: hosts around the kernel, and the one loop that drives both. `runtime/runs.rs` takes runs in and forgets them.

pub(crate) mod api;
pub(crate) mod approvals;
pub(crate) mod asked_runs;
pub(crate) mod backpressure;
pub(crate) mod branch;
pub(crate) mod builder;
pub(crate) mod cancellation;
pub(crate) mod checkpoints;
pub(crate) mod commit;
pub(crate) mod continuation;
pub(crate) mod damage;
pub(crate) mod deadlines;
pub(crate) mod doubts;
pub(crate) mod dry_run;
pub(crate) mod durable;
pub(crate) mod durable_runs;
pub(crate) mod failed_log;
pub(crate) mod feed;
pub(crate) mod forks;
pub(crate) mod hold;
pub(crate) mod hosted_runs;
pub(crate) mod known_runs;
pub(crate) mod loop_state;
pub(crate) mod memory_gauge;
pub(crate) mod outbox;
pub(crate) mod outcome_waiters;
pub(crate) mod parts;
pub(crate) mod post;
pub(crate) mod removal;
pub(crate) mod requests;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod retention;
pub(crate) mod run_list;
pub(crate) mod runs;
pub(crate) mod service;
pub(crate) mod snapshots;
pub(crate) mod step_queue;
pub(crate) mod steps;
pub(crate) mod told;

use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tiffany_kernel::{BoxCoroutine, Completion, ErrorKind, Run, RunId, TaskError, Time, Value};

use crate::calls::call::wrong_type;
use crate::calls::context;
use crate::calls::context::Entered;
use crate::calls::future_task::{Fallible, FutureTask, Plain};
use crate::clock::{Clock, MAX_TIMER_WAIT};
use crate::handle::RuntimeHandle;
use crate::host::inbox::LoopMessage;
use crate::host::reactor::Ready;
use crate::host::{Host, Workers};
use crate::metrics::stretch::Stretch;
use crate::runtime::approvals::Approvals;
use crate::runtime::builder::Builder;
use crate::runtime::durable::Durable;
use crate::runtime::feed::Feed;
use crate::runtime::hosted_runs::HostedRuns;
use crate::runtime::memory_gauge::MemoryGauge;
use crate::runtime::parts::Parts;
use crate::runtime::post::Post;
use crate::runtime::run_list::RunsView;
use crate::runtime::steps::{Answered, Effects};
use crate::watchdog::Watched;
use tiffany_log::CurrentTurn;
use tiffany_records::RunError;

/// How many turns tasks may have before descriptors are looked at again.
const TURNS_PER_POLL: usize = 61;

/// Runs tasks on this thread.
///
/// ```
/// use tiffany::{Runtime, sleep, spawn};
/// use std::time::Duration;
///
/// let mut runtime = Runtime::new()?;
/// let sum = runtime.run(async {
///     let task = spawn(async {
///         sleep(Duration::from_millis(1)).await;
///         2
///     })
///     .await;
///     1 + task.await.unwrap()
/// })?;
/// assert_eq!(sum, 3);
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct Runtime {
    pub(crate) host: Rc<Host>,
    pub(crate) settings: Builder,
    pub(crate) watched: Option<Arc<Watched>>,
    pub(crate) runs: HostedRuns,
    pub(crate) durable: Option<Durable>,
    /// Steps that are not over, of all runs.
    pub(crate) effects: Effects,
    /// Questions that no person has answered, of all runs.
    pub(crate) approvals: Approvals,
    /// The run that is being stepped through by hand.
    stepping: Option<usize>,
    turns_since_poll: usize,
    stretch: Stretch,
    /// What runs take of the process's memory, if that is limited; and whether the rounds are measured.
    pub(crate) memory: Option<Box<MemoryGauge>>,
    pub(crate) measures_rounds: bool,
    /// Where the next process finds out in whose turn this one died.
    pub(crate) current_turn: Option<CurrentTurn>,
    messages: Vec<LoopMessage>,
    ready: Vec<Ready>,
    /// Messages between runs that can't be delivered yet.
    pub(crate) post: Post,
    /// What is on its way to those who watch.
    pub(crate) feed: Feed,
}

/// A run that was started, and the type of its root's value.
#[must_use = "a run makes progress only while the runtime is driven: pass it to `Runtime::finish`"]
pub struct RunHandle<T> {
    id: RunId,
    value: PhantomData<fn() -> T>,
}

impl<T> RunHandle<T> {
    /// The run's number.
    pub fn id(&self) -> RunId {
        self.id
    }
}

impl Runtime {
    /// A runtime with the default settings.
    pub fn new() -> Result<Runtime, RunError> {
        Builder::new().build()
    }

    /// Settings to build one from.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn with_host(
        host: Host,
        settings: Builder,
        watched: Option<Arc<Watched>>,
    ) -> Runtime {
        Runtime {
            watched,
            host: Rc::new(host),
            effects: Effects::new(&settings),
            approvals: Approvals::default(),
            post: Post::new(&settings),
            feed: Feed::new(settings.events),
            settings,
            runs: HostedRuns::default(),
            durable: None,
            stepping: None,
            turns_since_poll: 0,
            stretch: Stretch::new(),
            memory: None,
            measures_rounds: false,
            current_turn: None,
            messages: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// Runs a future as the root of a new run, to the end of that run, and gives its value.
    #[track_caller]
    pub fn run<F>(&mut self, root: F) -> Result<F::Output, RunError>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let run = self.start(root);
        self.finish(run)
    }

    /// Runs a future that can fail as the root of a new run: its error is the run's.
    #[track_caller]
    pub fn try_run<F, T, E>(&mut self, root: F) -> Result<T, RunError>
    where
        F: Future<Output = Result<T, E>> + 'static,
        T: 'static,
        E: std::fmt::Display + 'static,
    {
        let run = self.try_start(root);
        self.finish(run)
    }

    /// Starts a run. It makes progress while this runtime is driven by [`finish`](Runtime::finish)
    /// or [`run`](Runtime::run), beside all others.
    #[track_caller]
    pub fn start<F>(&mut self, root: F) -> RunHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.start_coroutine(Box::pin(FutureTask::<F, Plain>::new(root)))
    }

    /// Starts a run whose root can fail.
    #[track_caller]
    pub fn try_start<F, T, E>(&mut self, root: F) -> RunHandle<T>
    where
        F: Future<Output = Result<T, E>> + 'static,
        T: 'static,
        E: std::fmt::Display + 'static,
    {
        self.start_coroutine(Box::pin(FutureTask::<F, Fallible>::new(root)))
    }

    #[track_caller]
    pub(crate) fn start_coroutine<T>(&mut self, root: BoxCoroutine) -> RunHandle<T> {
        let mut config = self.settings.run_config(Location::caller());
        config.seed = self.host.entropy.seed();
        self.host.inbox.meters.started_ephemeral.add(1);
        let id = self.add_run(root, config, None, self.host.clock.now());
        RunHandle { id, value: PhantomData }
    }

    /// Drives all runs until this one is finished, and returns its value.
    #[track_caller]
    pub fn finish<T: 'static>(&mut self, run: RunHandle<T>) -> Result<T, RunError> {
        if !self.runs.has(run.id) {
            return Err(runs::unknown_run(run.id));
        }
        self.drive_until(Location::caller(), |runtime| runtime.is_over(run.id))?;
        let value = self.end_run(run.id)?;
        value.take::<T>().map_err(|value| RunError::Failed(wrong_type::<T>(&value)))
    }

    /// A handle with which other threads reach this runtime.
    pub fn handle(&self) -> RuntimeHandle {
        RuntimeHandle::new(&self.host)
    }

    /// The loop. (`step` does the same in single turns, for the test kit.)
    pub(crate) fn drive_until(
        &mut self,
        at: &'static Location<'static>,
        is_over: impl Fn(&Runtime) -> bool,
    ) -> Result<(), RunError> {
        let _entered = Entered::new(&self.host).ok_or_else(|| nested(at))?;
        let _awake = self.watched.as_ref().map(Watched::watch);
        // A log that has failed reports that once, and sends nothing more.
        if let Some(error) = self.log_failure().filter(|_| !is_over(self)) {
            return Err(error.into());
        }
        self.stretch.begin();
        while !is_over(self) {
            self.collect()?;
            match self.runs.take_next() {
                Some(run) if self.is_held_back(run) => {}
                Some(run) => self.round(run),
                // The last thing that was waited for may have been the log.
                None if is_over(self) => break,
                None => self.idle()?,
            }
        }
        self.end_stretch();
        Ok(())
    }

    /// The loop is busy from now on.
    pub(crate) fn begin_stretch(&mut self) {
        self.stretch.begin();
    }

    /// The loop has nothing to do.
    pub(crate) fn end_stretch(&mut self) {
        self.count_turns();
        self.stretch.end(&self.host.inbox.meters);
    }

    fn count_turns(&mut self) {
        let turns = std::mem::take(&mut self.turns_since_poll);
        self.stretch.looked(turns, &self.host.inbox.meters);
        if let Some(memory) = &mut self.memory {
            self.measures_rounds = memory.look();
        }
    }

    /// Whether no run is ready and no message has arrived.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.runs.has_next() && !self.host.inbox.has_mail()
    }

    /// Gives one task one turn, for the test kit's single steps. `false`: no task is ready.
    pub(crate) fn step(&mut self) -> bool {
        let Some(_entered) = Entered::new(&self.host) else { return false };
        let now = self.given_time();
        loop {
            if let Some(place) = self.stepping {
                let run = &mut self.runs[place].run;
                if context::with(|context| run.step_round(&context.port, now)) {
                    return true;
                }
                self.stepping = None;
                self.after_turns(place);
            }
            if self.collect().and_then(|()| self.poll_descriptors(Some(Duration::ZERO))).is_err() {
                return false;
            }
            let Some(place) = self.runs.take_next() else {
                if self.check_deadlocks() {
                    continue;
                }
                return false;
            };
            let run = &mut self.runs[place].run;
            context::with(|context| run.begin_round(&context.port, now));
            self.stepping = Some(place);
        }
    }

    /// Whether `step` is in the middle of a round.
    pub(crate) fn in_round(&self) -> bool {
        self.stepping.is_some()
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let runs = self.runs.next_deadline();
        let held = self.durable.as_ref().and_then(|durable| durable.held_deadlines.next());
        runs.into_iter().chain(self.effects.next_deadline()).chain(held).min()
    }

    /// When the loop's thread has to do the work of another thread, in a simulation.
    fn inline_due(&self) -> Option<Time> {
        let Workers::Inline(inline) = &self.host.workers else { return None };
        inline.due().into_iter().chain(self.log_due()).min()
    }

    /// When something happens next, where no other thread can make it happen.
    pub(crate) fn next_event(&self) -> Option<Time> {
        self.next_deadline().into_iter().chain(self.inline_due()).min()
    }

    /// Drives all runs as far as they get at the current time, without any other thread.
    pub(crate) fn drive_now(&mut self, at: &'static Location<'static>) -> Result<(), RunError> {
        let _entered = Entered::new(&self.host).ok_or_else(|| nested(at))?;
        loop {
            self.collect()?;
            if let Some(place) = self.runs.take_next() {
                if !self.is_held_back(place) {
                    self.round(place);
                }
                continue;
            }
            self.hand_in();
            let now = self.host.clock.now();
            let is_due = self.next_event().is_some_and(|due| due <= now);
            if !self.check_deadlocks() && !self.host.inbox.has_mail() && !is_due {
                return Ok(());
            }
        }
    }

    /// Does the work that other threads would have done by now, in a simulation.
    fn act_inline(&mut self) {
        let now = self.host.clock.now();
        self.act_for_log(now);
        if let Workers::Inline(inline) = &self.host.workers {
            while inline.act(now) {}
        }
    }

    pub(crate) fn run_of(&self, id: RunId) -> Option<&Run> {
        self.runs.of(id).map(|hosted| &hosted.run)
    }

    /// The time of a round if the clock is virtual; a system clock is read only by calls that need it.
    fn given_time(&self) -> Option<Time> {
        match &self.host.clock {
            Clock::Virtual(now) => Some(now.get()),
            Clock::System(_) => None,
        }
    }

    /// Takes completions, and reports ended runs to other threads.
    pub(crate) fn collect(&mut self) -> Result<(), RunError> {
        let taken = self.take_completions();
        self.tell_outcomes();
        taken
    }

    /// Takes completions: messages from other threads, then due timers, then descriptors.
    fn take_completions(&mut self) -> Result<(), RunError> {
        self.host.process.end_if_forked();
        self.feed.heed_watchers(&self.host, &mut self.runs);
        if self.host.inbox.has_mail() {
            self.read_messages();
            self.hand_in_held();
            if let Some(error) = self.log_failure() {
                return Err(error.into());
            }
        }
        if self.runs.next_deadline().is_some() {
            self.fire_timers();
        }
        if self.durable.as_ref().is_some_and(|durable| durable.held_deadlines.next().is_some()) {
            self.resume_past_deadline();
        }
        if self.effects.next_deadline().is_some() {
            self.fire_steps();
            self.hand_in_held();
        }
        if let Workers::Inline(_) = self.host.workers {
            self.act_inline();
        }
        if self.turns_since_poll >= TURNS_PER_POLL {
            self.poll_descriptors(Some(Duration::ZERO))?;
            self.check_deadlocks();
            self.hand_in_if_due();
        }
        Ok(())
    }

    /// Gives one run its turns, and executes the orders that it leaves.
    #[inline]
    pub(crate) fn round(&mut self, place: usize) {
        let now = self.given_time();
        // With another run in line, this one has a single round; alone it has turns until the next poll.
        let is_brief = self.runs.has_next() || self.measures_rounds;
        let turns = if is_brief { 1 } else { TURNS_PER_POLL };
        if self.measures_rounds {
            self.memory.iter_mut().for_each(|memory| memory.round_begins());
        }
        let hosted = &mut self.runs[place];
        let note = self.current_turn.as_ref().zip(hosted.durable_state.as_ref());
        if let Some((turn, durable_state)) = note {
            turn.begins(durable_state.uuid());
        }
        let run = &mut hosted.run;
        self.turns_since_poll +=
            context::with(|context| context.take_turns(|port| run.rounds(port, now, turns)));
        // Before anything is touched that is the parent's, such as the file of the current turn.
        self.host.process.end_if_forked();
        if let Some((turn, _)) = note {
            turn.ends();
        }
        if self.measures_rounds {
            let (run, memory) = (self.runs[place].run.id(), self.memory.as_mut());
            self.measures_rounds = memory.is_some_and(|memory| memory.round_ended(run));
        }
        match context::with(|context| context.interrupted.take()) {
            false => self.after_turns(place),
            true => self.interrupted(place),
        }
    }

    /// Empties the outbox of a run, and puts the run in line again.
    #[inline]
    fn after_turns(&mut self, place: usize) {
        let hosted = &mut self.runs[place];
        hosted.leave_turn();
        if hosted.run.has_outbox() {
            self.empty_outbox(place);
        }
        let run = &self.runs[place].run;
        if !run.is_ready() {
            let id = run.id();
            self.runs.stall(id);
        }
        self.line_up(place);
        if let Some(durable_state) = &self.runs[place].durable_state {
            let uuid = durable_state.uuid();
            self.inherit(place);
            self.check_limits(place);
            self.deliver_parked(uuid);
        }
    }

    /// Puts a run in line for a turn if one of its tasks is ready, and puts its deadline in the list.
    #[inline]
    pub(crate) fn line_up(&mut self, place: usize) {
        self.runs.line_up(place);
    }

    /// What can be seen of its runs.
    pub(crate) fn view(&self) -> RunsView<'_> {
        let durable = self.durable.as_ref();
        RunsView { host: &self.host, runs: &self.runs, steps: &self.effects, durable }
    }

    /// Says how it stands, for those who read the metrics.
    pub(crate) fn measure(&self) {
        self.host.inbox.meters.tell(self.view().standing());
    }

    /// Whether a run has to wait with its turn: until the disk has caught up, or until the run is released.
    #[inline]
    pub(crate) fn is_held_back(&mut self, place: usize) -> bool {
        match &mut self.durable {
            Some(durable) => durable.holds_back(&mut self.runs[place], place),
            None => false,
        }
    }

    /// The steps, and what they are lent.
    pub(crate) fn steps(&mut self) -> (&mut Effects, Parts<'_>) {
        let (durable, feed) = (self.durable.as_mut(), &mut self.feed);
        (&mut self.effects, Parts { host: &self.host, runs: &mut self.runs, durable, feed })
    }

    /// The messages between runs, and what is lent to deliver them.
    pub(crate) fn post(&mut self) -> (&mut Post, Parts<'_>) {
        let (durable, feed) = (self.durable.as_mut(), &mut self.feed);
        (&mut self.post, Parts { host: &self.host, runs: &mut self.runs, durable, feed })
    }

    /// The questions to people, and what they are lent.
    pub(crate) fn questions(&mut self) -> (&mut Approvals, Parts<'_>) {
        let (durable, feed) = (self.durable.as_mut(), &mut self.feed);
        (&mut self.approvals, Parts { host: &self.host, runs: &mut self.runs, durable, feed })
    }

    /// Waits for the next completion when no task is ready, unless none can come.
    fn idle(&mut self) -> Result<(), RunError> {
        let Some(timeout) = self.rest()? else { return Ok(()) };
        if self.host.inbox.may_sleep() {
            if let Some(watched) = &self.watched {
                watched.sleep();
            }
            self.end_stretch();
            let waited = self.wait(timeout);
            self.follow_wall_clock();
            self.stretch.waited(&self.host.inbox.meters);
            self.host.inbox.woke_up();
            if let Some(watched) = &self.watched {
                watched.wake();
            }
            waited?;
        }
        Ok(())
    }

    /// How long to wait for the next completion when no task is ready. `None`: not at all, because a task became ready.
    pub(crate) fn rest(&mut self) -> Result<Option<Option<Duration>>, RunError> {
        self.hand_in();
        self.feed.hand_over(&self.host.hub, true);
        if self.check_deadlocks() {
            return Ok(None);
        }
        let timeout =
            self.next_deadline().map(|deadline| deadline.saturating_since(self.host.clock.now()));
        match self.jump(timeout) {
            Some(later) => later.map(|()| None),
            None => Ok(Some(timeout.map(|timeout| timeout.min(MAX_TIMER_WAIT)))),
        }
    }

    /// The time. Checks the wall clock from time to time: if it was set ahead, the clock of all runs moves ahead with it.
    /// Attempts that are running keep the time they have left.
    pub(crate) fn follow_wall_clock(&mut self) -> Time {
        let (now, step) = self.host.clock.follow();
        if !step.is_zero() {
            tracing::warn!(
                target: "tiffany",
                "the system clock was set ahead by {step:?}; sleeps that end before now have ended",
            );
            self.effects.clock_stepped(now, step);
        }
        now
    }

    /// Moves a virtual clock to the next timer, once nothing else can happen before.
    fn jump(&mut self, timeout: Option<Duration>) -> Option<Result<(), RunError>> {
        let Clock::Virtual(now) = &self.host.clock else { return None };
        timeout?;
        let deadline = self.next_deadline()?;
        if self.effects_running() {
            return None;
        }
        now.set(now.get().max(deadline));
        Some(self.poll_descriptors(Some(Duration::ZERO)))
    }

    fn effects_running(&self) -> bool {
        let all: usize = self.runs.iter().map(|hosted| hosted.run.effects()).sum();
        all > self.effects.parked()
    }

    /// Looks at runs that have stopped moving. `true`: one of them failed, or there is mail that must be
    /// read first, so things move again.
    fn check_deadlocks(&mut self) -> bool {
        let mut moved = false;
        for id in self.runs.take_stalled() {
            let Some(place) = self.runs.place(id) else { continue };
            let (inbox, mut mail) = (&self.host.inbox, false);
            moved |= self.runs[place].run.check_deadlock(|| {
                mail = inbox.has_mail();
                mail
            });
            if mail {
                moved = true;
                self.runs.stall(id);
            }
            self.empty_outbox(place);
            self.line_up(place);
        }
        moved
    }

    /// Waits for descriptors and for the bell, perhaps for long.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<(), RunError> {
        let Some(waiting) = self.settings.waiting.clone() else {
            return self.poll_descriptors(timeout);
        };
        self.count_turns();
        let (mut reactor, ready) = (self.host.reactor.borrow_mut(), &mut self.ready);
        let mut waited = Ok(());
        waiting(&mut || waited = reactor.wait(timeout, ready));
        drop(reactor);
        waited.map_err(|error| RunError::system("waiting for descriptors", &error))?;
        self.deliver_ready();
        Ok(())
    }

    pub(crate) fn poll_descriptors(&mut self, timeout: Option<Duration>) -> Result<(), RunError> {
        self.count_turns();
        let waited = self.host.reactor.borrow_mut().wait(timeout, &mut self.ready);
        waited.map_err(|error| RunError::system("waiting for descriptors", &error))?;
        self.deliver_ready();
        Ok(())
    }

    pub(crate) fn deliver_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for (call, result) in ready.drain(..) {
            let result = result.map(|()| Value::Unit);
            self.complete(call.run, Completion::Call(call, result));
        }
        self.ready = ready;
    }

    pub(crate) fn read_messages(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        self.host.inbox.read(&mut messages);
        for message in messages.drain(..) {
            match message {
                LoopMessage::Wake(task) => self.complete(task.run, Completion::Wake(task)),
                LoopMessage::Settle(run, uuid, remote) => {
                    self.complete(run, Completion::Settle(uuid, remote()));
                }
                LoopMessage::Done(call, remote) => {
                    self.complete(call.run, Completion::Call(call, remote()));
                }
                LoopMessage::Attempted(call, number, tried, slot) => {
                    let (steps, mut parts) = self.steps();
                    let answered = steps.attempted(&mut parts, (call, number), tried, slot);
                    self.answer_step(answered);
                }
                LoopMessage::Checkpoint(call, number, json, receipt) => {
                    let (steps, mut parts) = self.steps();
                    steps.keep_checkpoint(&mut parts, (call, number), &json, receipt);
                    self.hand_in_held();
                }
                LoopMessage::Cancel(run) => self.cancel_run(run),
                LoopMessage::Release(release) => {
                    self.with_run(release.run(), |run| run.release(release))
                }
                LoopMessage::Request(request, tell) => self.serve(request, tell),
                LoopMessage::ClientRequest(request, tell) => self.serve_client(request, tell),
                LoopMessage::Await(run, tell) => self.await_outcome(run, tell),
                LoopMessage::Logged(notice) => self.logged(notice),
                LoopMessage::Measure => self.measure(),
                LoopMessage::GivenUp(run) => self.runs.stall(run),
            }
        }
        self.messages = messages;
    }

    /// Tells a task what came of its step, and lets others of its queue begin.
    fn answer_step(&mut self, answered: Option<Answered>) {
        if let Some(Answered { call, result, queue }) = answered {
            self.complete(call.run, Completion::Call(call, result));
            let (steps, mut parts) = self.steps();
            steps.serve_waiting(&mut parts, queue);
        }
    }

    /// Does what is due for steps.
    fn fire_steps(&mut self) {
        let now = self.follow_wall_clock();
        while let Some(due) = self.effects.take_due(now) {
            let (steps, mut parts) = self.steps();
            let answered = steps.fire(&mut parts, due, now);
            self.answer_step(answered);
        }
        self.hand_in();
    }

    fn fire_timers(&mut self) {
        let now = self.follow_wall_clock();
        while let Some((deadline, place)) = self.runs.fire_timer(now) {
            let late = now.saturating_since(deadline);
            self.host.inbox.meters.timer_late.0.observe_time(late);
            self.heed_deadline(place);
        }
    }

    pub(crate) fn complete(&mut self, id: RunId, completion: Completion) {
        let Some(place) = self.runs.durable_place(id) else {
            return self.runs.with(id, |run| run.complete(completion));
        };
        let (now, hosted) = (self.host.clock.now(), &mut self.runs[place]);
        let Some(durable) = &mut self.durable else { return };
        if hosted.tell(&mut durable.page, now, completion) {
            // A run that continues writes more, which shares a sync with this.
            if !hosted.run.is_ready() {
                self.empty_outbox(place);
            }
            self.line_up(place);
        }
    }

    /// Does something to a run, which may make it ready or change its timers.
    pub(crate) fn with_run(&mut self, id: RunId, act: impl FnOnce(&mut Run)) {
        self.runs.with(id, act);
    }

    pub(crate) fn is_over(&self, id: RunId) -> bool {
        self.run_of(id).is_none_or(Run::is_over)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.close_log();
        self.host.inbox.close();
        self.feed.hand_over(&self.host.hub, true);
        self.host.hub.close();
        // Unfinished tasks first: what they hold is given back to the port.
        self.runs.clear();
        context::with(|context| {
            for id in self.runs.ids() {
                context.live_runs.borrow_mut().remove(&id);
            }
            context.shrink();
        });
    }
}

#[cold]
pub(crate) fn nested(at: &'static Location<'static>) -> RunError {
    let message = "a runtime was started inside a task of another runtime";
    let mut error = TaskError::new(ErrorKind::NestedRuntime, message);
    context::place(&mut error, "run", at);
    RunError::Nested(error)
}
