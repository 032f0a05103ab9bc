//! The context that a call finds when it is polled: the port of its task and the host of its run.
//! There is one for each thread, because a task's code is ordinary Rust and gets no parameter for
//! it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Weak;
use std::task::Waker;

use tiffany_kernel::{
    CallId, ErrorKind, Names, Port, Release, RunId, TaskError, TaskRef, Tid, Time, Uuid,
};
use tracing::Span;
use tracing::level_filters::LevelFilter;

pub(crate) use crate::calls::current::current;
use crate::calls::waker::TaskWaker;
use crate::host::Host;
use crate::watchdog::{Outside, Pulse};

/// Where tasks get the time and UUIDs from while a log is replayed.
pub(crate) trait Sources {
    /// The time at which the next call that reads the clock was made.
    fn clock(&self) -> Option<Time>;

    /// The UUID that the next call of this task that draws one was given.
    fn uuid(&self, tid: Tid) -> Option<Uuid>;

    /// Whether a task takes the new branch of this change to the program.
    fn takes_new_way(&self, tid: Tid, id: &str) -> bool;

    /// Whether the tasks are being inspected.
    fn is_looked_at(&self) -> bool;
}

/// The context of the running task.
pub(crate) struct Context {
    pub(crate) port: Port,
    host: RefCell<Option<Rc<Host>>>,
    /// Whether the coroutine being resumed left something in the fields below.
    noted: Cell<bool>,
    thrown: Cell<Option<TaskError>>,
    wakers: RefCell<BTreeMap<CallId, Option<Waker>>>,
    /// The waker of the task being resumed and its task, if it has one.
    pub(crate) own_waker: RefCell<Option<(TaskRef, Weak<TaskWaker>)>>,
    /// Whether combinators are being woken for replies. If they wake their task then, that is
    /// nothing new.
    pub(crate) delivering: Cell<bool>,
    pub(crate) labels: RefCell<Vec<Cow<'static, str>>>,
    pulse: Cell<Option<&'static Pulse>>,
    /// Where the time and UUIDs come from while a log is replayed.
    pub(crate) sources: RefCell<Option<Rc<dyn Sources>>>,
    /// The unfinished runs of all runtimes of this thread.
    pub(crate) live_runs: RefCell<BTreeSet<RunId>>,
    /// The references that handles get while the state machines of a run are restored.
    pub(crate) restoring: RefCell<Option<Names>>,
    /// Whether a task was interrupted during its turn.
    pub(crate) interrupted: Cell<bool>,
}

/// What a coroutine left besides its calls.
pub(crate) struct Notes {
    pub(crate) thrown: Option<TaskError>,
    /// Combinators to wake when a call is answered; `None` if the call is gone.
    pub(crate) wakers: BTreeMap<CallId, Option<Waker>>,
    pub(crate) own_waker: Option<Weak<TaskWaker>>,
}

impl Context {
    pub(crate) const fn new() -> Context {
        Context {
            port: Port::new(),
            host: RefCell::new(None),
            noted: Cell::new(false),
            thrown: Cell::new(None),
            wakers: RefCell::new(BTreeMap::new()),
            own_waker: RefCell::new(None),
            delivering: Cell::new(false),
            labels: RefCell::new(Vec::new()),
            pulse: Cell::new(None),
            sources: RefCell::new(None),
            live_runs: RefCell::new(BTreeSet::new()),
            restoring: RefCell::new(None),
            interrupted: Cell::new(false),
        }
    }

    /// The host of the run whose task is being resumed.
    pub(crate) fn host(&self) -> Option<Rc<Host>> {
        self.host.borrow().clone()
    }

    /// Begins a turn, which the watchdog may observe. Returns whether it must run in the task's
    /// span.
    #[inline]
    pub(crate) fn begin_turn(&self) -> bool {
        if let (Some(pulse), Some(task)) = (self.pulse.get(), self.port.task()) {
            pulse.begin_turn(task, self.port.spawned_at());
        }
        LevelFilter::current() != LevelFilter::OFF
    }

    /// Runs the turns of tasks. What comes after them belongs to no task.
    #[inline]
    pub(crate) fn take_turns<T>(&self, turns: impl FnOnce(&Port) -> T) -> T {
        let taken = turns(&self.port);
        if let Some(pulse) = self.pulse.get() {
            pulse.end_turns();
        }
        taken
    }

    /// Runs code of the program outside turns. The watchdog observes it, and it is an error if the
    /// watchdog had to interrupt it. `what` says what the code produces.
    pub(crate) fn outside_turns<T>(
        &self,
        run: Option<RunId>,
        what: impl Fn() -> String,
        code: impl FnOnce() -> Result<T, TaskError>,
    ) -> Result<T, TaskError> {
        let Some(pulse) = self.pulse.get() else { return code() };
        let before = self.interrupted.take();
        let outside = Outside::Loop { run, what: what() };
        let made = pulse.outside_turns(outside, code);
        match self.interrupted.replace(before) {
            false => made,
            true => {
                let message = format!("the {} took longer than a task may keep its turn", what());
                Err(TaskError::new(ErrorKind::Interrupted, message))
            }
        }
    }

    /// The span of the task that has its turn.
    pub(crate) fn task_span(&self) -> Option<Span> {
        self.host.borrow().as_ref()?.tracer.task_span(self.port.task())
    }

    /// Notes the line of a call that has returned to the task that has its turn.
    #[inline]
    pub(crate) fn returned_from(&self, at: &'static Location<'static>) {
        if let Some(pulse) = self.pulse.get() {
            pulse.returned_from(at);
        }
    }

    /// The data that the watchdog reads of this thread.
    pub(crate) fn pulse(&self) -> &'static Pulse {
        let pulse = self.pulse.get().unwrap_or_else(Pulse::of_this_thread);
        self.pulse.set(Some(pulse));
        pulse
    }

    /// Frees memory that is not in use, because the context is never dropped.
    pub(crate) fn shrink(&self) {
        self.port.shrink();
        let mut wakers = self.wakers.borrow_mut();
        if wakers.is_empty() {
            *wakers = BTreeMap::new();
        }
        let mut live = self.live_runs.borrow_mut();
        if live.is_empty() {
            *live = BTreeSet::new();
        }
        self.labels.borrow_mut().shrink_to_fit();
    }

    /// Sets the round's clock if it is not set, for a call that reads it.
    pub(crate) fn set_clock(&self) {
        if let Some(host) = &*self.host.borrow() {
            let recorded = self.sources.borrow().as_ref().and_then(|sources| sources.clock());
            self.port.set_clock(|| recorded.unwrap_or_else(|| host.clock.now()));
        }
    }

    /// Whether the task being resumed is past what an older program recorded, or recorded that it
    /// took the new branch.
    pub(crate) fn takes_new_way(&self, id: &str) -> bool {
        let sources = self.sources.borrow();
        let replayed = sources.as_ref().zip(self.port.tid());
        replayed.is_none_or(|(sources, tid)| sources.takes_new_way(tid, id))
    }

    /// Draws a new UUID for the task being resumed.
    pub(crate) fn draw_uuid(&self) -> Uuid {
        let sources = self.sources.borrow();
        let recorded = sources.as_ref().zip(self.port.tid());
        let recorded = recorded.and_then(|(sources, tid)| sources.uuid(tid));
        recorded.unwrap_or_else(|| self.host().map_or(Uuid(0), |host| host.entropy.uuid()))
    }

    /// Ends a task with this error at the call it is in.
    pub(crate) fn throw(&self, error: TaskError) {
        let first = self.thrown.take();
        self.thrown.set(Some(first.unwrap_or(error)));
        self.noted.set(true);
    }

    /// Keeps the waker of a combinator for the call that was polled through it.
    pub(crate) fn keep_waker(&self, id: CallId, waker: Option<&Waker>) {
        self.wakers.borrow_mut().insert(id, waker.cloned());
        self.noted.set(true);
    }

    /// Keeps the waker that was made for the task being resumed.
    pub(crate) fn keep_own_waker(&self, task: TaskRef, waker: Weak<TaskWaker>) {
        *self.own_waker.borrow_mut() = Some((task, waker));
        self.noted.set(true);
    }

    /// Whether the coroutine left anything besides its calls.
    #[inline]
    pub(crate) fn has_notes(&self) -> bool {
        self.noted.get()
    }

    /// Takes what the coroutine left besides its calls.
    pub(crate) fn take_notes(&self) -> Option<Notes> {
        self.noted.replace(false).then(|| Notes {
            thrown: self.thrown.take(),
            wakers: self.wakers.take(),
            own_waker: self
                .own_waker
                .take()
                .filter(|(task, _)| self.port.is_running(*task))
                .map(|(_, waker)| waker),
        })
    }
}

/// Whether a task of this thread has its turn; adds the labels it is in.
pub(crate) fn labels_of_turn(labels: &mut Vec<Cow<'static, str>>) -> bool {
    let context = current();
    if let Ok(of_task) = context.labels.try_borrow() {
        labels.clone_from(&of_task);
    }
    context.port.task().is_some()
}

/// Calls a function with this thread's context.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&Context) -> R) -> R {
    look(current())
}

/// Adds a call, its line and the running task to an error that lacks them.
#[cold]
pub(crate) fn place(error: &mut TaskError, call: &'static str, at: &'static Location<'static>) {
    error.add_call(call, at);
    if let Some(task) = with(|context| context.port.label()) {
        error.add_task(task);
    }
}

/// Releases a handle. It reaches its run when a run of this thread has its next turn. If the run
/// has ended, the handle is gone already.
pub(crate) fn release(release: Release) {
    let context = current();
    if context.port.task().is_some() || context.live_runs.borrow().contains(&release.run()) {
        context.port.release(release);
    }
}

/// While this value lives, tasks of this thread use this host.
pub(crate) struct Entered {
    /// Whether an outer function has entered the host, and leaves it.
    is_nested: bool,
}

impl Entered {
    /// Enters the host. `None` if another runtime is running on this thread.
    pub(crate) fn new(host: &Rc<Host>) -> Option<Entered> {
        Entered::again(host).filter(|entered| !entered.is_nested)
    }

    /// Enters the host for work that a runtime may also do between the turns of its tasks.
    pub(crate) fn again(host: &Rc<Host>) -> Option<Entered> {
        with(|context| {
            let mut place = context.host.borrow_mut();
            match &*place {
                None => {
                    *place = Some(Rc::clone(host));
                    Some(Entered { is_nested: false })
                }
                Some(entered) => Rc::ptr_eq(entered, host).then_some(Entered { is_nested: true }),
            }
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if !self.is_nested {
            current().host.borrow_mut().take();
        }
    }
}
