//! A scheduler for tests: it is stepped by hand, its clock moves on request or jumps when no task
//! is ready, calls can get injected answers, and a trace records everything that happened.

mod simulation;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use tiffany_kernel::{
    BoxCoroutine, Counts, Event, EventKind, Events, Handler, Mode, Reply, RunId, SystemCall,
    TaskError, TaskInfo, TaskState, Tid, Time, Value, Verdict,
};

use crate::calls::future_task::{Fallible, FutureTask, Plain};
use crate::clock::Clock;
use crate::host::entropy::Entropy;
use crate::runtime::builder::Builder;
use crate::runtime::{RunHandle, Runtime};
use tiffany_records::RunError;
use tiffany_records::redact::{shown, shown_call};

pub use crate::host::inline::{Made, Watcher};
pub use crate::time_travel::capture::{
    CaptureError, Captured, Over, Redaction, capture, replay_log,
};
pub use simulation::{Answer, Machine, Receipt, Simulation};

/// Runs tasks step by step, on a virtual clock, and records what happens.
///
/// ```
/// use tiffany::testing::TestScheduler;
/// use tiffany::{TaskState, Tid, sleep, spawn};
/// use std::time::Duration;
///
/// let mut test = TestScheduler::new();
/// let run = test.start(async {
///     let child = spawn(sleep(Duration::from_secs(60))).await;
///     child.await
/// });
/// test.step_until_idle();
/// assert_eq!(test.task_state(Tid(2)).unwrap().to_string(), "Blocked(sleep)");
/// test.advance(Duration::from_secs(60));
/// assert_eq!(test.task_state(Tid(1)), Some(TaskState::Completed));
/// assert!(test.finish(run).is_ok());
/// ```
pub struct TestScheduler {
    runtime: Runtime,
    first_run: Option<RunId>,
    answers: Answers,
    trace: Vec<Event>,
}

type Answers = Rc<RefCell<BTreeMap<String, Rc<dyn Fn(&SystemCall) -> Reply>>>>;

impl Default for TestScheduler {
    fn default() -> TestScheduler {
        TestScheduler::new()
    }
}

impl TestScheduler {
    /// A scheduler with the default settings.
    pub fn new() -> TestScheduler {
        TestScheduler::with(Builder::new())
    }

    /// A scheduler with these settings. The clock starts at [`Time::ZERO`], and UUIDs are counted.
    pub fn with(settings: Builder) -> TestScheduler {
        let answers = Answers::default();
        let mut settings = settings.handler(Injected(Rc::clone(&answers)));
        settings.events = Events::All;
        TestScheduler::build(settings, answers)
    }

    /// A scheduler without a trace and injected answers, so that tasks take the same fast paths as
    /// in production.
    pub fn unwatched(settings: Builder) -> TestScheduler {
        TestScheduler::build(settings, Answers::default())
    }

    fn build(settings: Builder, answers: Answers) -> TestScheduler {
        let settings = settings.watchdog(None);
        let clock = Clock::Virtual(Cell::new(Time::ZERO));
        let runtime = settings
            .build_with(clock, Entropy::Counted(Cell::new(0)))
            .unwrap_or_else(|error| panic!("a test needs a reactor: {error}"));
        TestScheduler { runtime, first_run: None, answers, trace: Vec::new() }
    }

    /// A scheduler whose runs follow the rules of durable runs.
    pub fn durable_rules(mut settings: Builder) -> TestScheduler {
        settings.mode = Mode::Durable;
        TestScheduler::with(settings)
    }

    /// Starts a run.
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
        E: fmt::Display + 'static,
    {
        self.start_coroutine(Box::pin(FutureTask::<F, Fallible>::new(root)))
    }

    #[track_caller]
    pub(crate) fn start_coroutine<T>(&mut self, root: BoxCoroutine) -> RunHandle<T> {
        let run = self.runtime.start_coroutine(root);
        self.first_run.get_or_insert(run.id());
        run
    }

    /// Answers a call with this value from now on: a custom call or an effect by its name, any
    /// other call by its tag. The call then never reaches the kernel or the host.
    pub fn inject<T: Clone + 'static>(&mut self, call: &str, value: T) {
        self.inject_with(call, move |_| Reply::Value(Value::new(value.clone())));
    }

    /// Answers a call with the result of a closure from now on.
    pub fn inject_with(&mut self, call: &str, answer: impl Fn(&SystemCall) -> Reply + 'static) {
        self.answers.borrow_mut().insert(call.into(), Rc::new(answer));
    }

    /// Runs one turn of the next ready task. Returns `false` if no task is ready.
    pub fn step(&mut self) -> bool {
        let stepped = self.runtime.step();
        self.trace.append(&mut self.runtime.feed.kept);
        stepped
    }

    /// Runs turns until no task is ready. The clock does not move.
    pub fn step_until_idle(&mut self) {
        while self.step() {}
    }

    /// Advances the clock by this duration: each timer fires at its own time, with turns until no
    /// task is ready after each.
    pub fn advance(&mut self, by: Duration) {
        self.step_until_idle();
        let end = self.now().checked_add(by).unwrap_or(self.now());
        while let Some(next) = self.runtime.next_deadline().filter(|next| *next <= end) {
            self.set_clock(next);
            self.step_until_idle();
        }
        self.set_clock(end);
        self.step_until_idle();
    }

    /// Sets the clock, which never goes back. Timers that are due fire at the next step.
    pub fn set_clock(&mut self, time: Time) {
        if let Clock::Virtual(now) = &self.runtime.host.clock {
            now.set(now.get().max(time));
        }
    }

    /// The present time of the clock.
    pub fn now(&self) -> Time {
        self.runtime.host.clock.now()
    }

    /// Runs a future as the root of a run until the run is finished, with the clock jumping ahead
    /// whenever no task is ready.
    #[track_caller]
    pub fn run<F>(&mut self, root: F) -> Result<F::Output, RunError>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let run = self.start(root);
        self.finish(run)
    }

    /// Runs a root that can fail until the run is finished, like [`run`](TestScheduler::run).
    #[track_caller]
    pub fn try_run<F, T, E>(&mut self, root: F) -> Result<T, RunError>
    where
        F: Future<Output = Result<T, E>> + 'static,
        T: 'static,
        E: fmt::Display + 'static,
    {
        let run = self.try_start(root);
        self.finish(run)
    }

    /// Runs a run until it is finished, with the clock jumping ahead whenever no task is ready.
    #[track_caller]
    pub fn finish<T: 'static>(&mut self, run: RunHandle<T>) -> Result<T, RunError> {
        self.step_until_round_ends();
        let result = self.runtime.finish(run);
        self.trace.append(&mut self.runtime.feed.kept);
        result
    }

    /// Runs a run with any value until it is finished, or until `stop` returns true.
    pub(crate) fn drive(
        &mut self,
        at: &'static Location<'static>,
        run: &RunHandle<Value>,
        stop: impl Fn() -> bool,
    ) -> Option<Result<Value, RunError>> {
        self.step_until_round_ends();
        let id = run.id();
        let is_over = |runtime: &Runtime| runtime.is_over(id) || stop();
        let driven = self.runtime.drive_until(at, is_over);
        let ended = match driven {
            Err(error) => Some(Err(error)),
            Ok(()) if self.runtime.is_over(id) => Some(self.runtime.end_run(id)),
            Ok(()) => None,
        };
        self.trace.append(&mut self.runtime.feed.kept);
        ended
    }

    fn step_until_round_ends(&mut self) {
        while self.runtime.in_round() && self.step() {}
    }

    /// The state of a task of the first run, unless it was forgotten.
    pub fn task_state(&self, tid: Tid) -> Option<TaskState> {
        self.first_run.and_then(|run| self.task_state_in(run, tid))
    }

    /// The state of a task of any run, unless it was forgotten.
    pub fn task_state_in(&self, run: RunId, tid: Tid) -> Option<TaskState> {
        self.runtime.run_of(run).and_then(|run| run.task_state(tid))
    }

    /// All known tasks of a run.
    pub fn tasks(&self, run: RunId) -> Vec<TaskInfo> {
        self.runtime.run_of(run).map_or(Vec::new(), |run| run.tasks())
    }

    /// The counts of things that a run ignored so far.
    pub fn counts(&self, run: RunId) -> Counts {
        self.runtime.run_of(run).map_or(Counts::default(), |run| run.counts())
    }

    /// The runtime, for whatever has no method here.
    pub fn runtime(&mut self) -> &mut Runtime {
        &mut self.runtime
    }

    /// The trace so far.
    pub fn trace(&self) -> Trace<'_> {
        Trace(&self.trace)
    }
}

/// A trace, displayed with one line for each event.
#[derive(Clone, Copy)]
pub struct Trace<'a>(&'a [Event]);

impl Trace<'_> {
    /// The events.
    pub fn events(&self) -> &[Event] {
        self.0
    }
}

impl fmt::Display for Trace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| writeln!(f, "{}", shown_event(event)))
    }
}

/// A line of the trace, after redaction by the rules of this process.
fn shown_event(event: &Event) -> String {
    match &event.kind {
        EventKind::Called { id, call, .. } => {
            format!("{} task {} call {} {}", event.at, event.tid, id.0, shown_call(call))
        }
        _ => shown(event).to_string(),
    }
}

/// The outermost handler: answers the calls for which a test has injected answers.
struct Injected(Answers);

impl Handler for Injected {
    fn name(&self) -> &str {
        "injected answers"
    }

    fn handle(&self, call: &mut SystemCall, _: Tid) -> Verdict {
        let name = call.given_name().unwrap_or(call.kind().tag());
        let answer = self.0.borrow().get(name).cloned();
        answer.map_or(Verdict::Pass, |answer| Verdict::Answer(answer(call)))
    }
}

/// An error to inject.
pub fn failing(message: &str) -> Reply {
    Reply::Error(TaskError::failed(message))
}
