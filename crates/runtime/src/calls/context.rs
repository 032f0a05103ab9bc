//! What a call finds when it is polled: the port of its task and the host of its run. There is one for
//! each thread, because a task's code is ordinary Rust and is handed nothing.

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

/// What tasks are given while a log is replayed, instead of the time and fresh identities.
pub(crate) trait Sources {
    /// The time at which the next call that asks for it was made.
    fn clock(&self) -> Option<Time>;

    /// The identity that the next call of this task that draws one was given.
    fn uuid(&self, tid: Tid) -> Option<Uuid>;

    /// Whether a task that comes to a change of the program takes the new way.
    fn takes_new_way(&self, tid: Tid, id: &str) -> bool;

    /// Whether somebody looks at the tasks as they stand.
    fn is_looked_at(&self) -> bool;
}

/// The running task's surroundings.
pub(crate) struct Context {
    pub(crate) port: Port,
    host: RefCell<Option<Rc<Host>>>,
    /// Something below this line was left by the coroutine that is being resumed.
    noted: Cell<bool>,
    thrown: Cell<Option<TaskError>>,
    wakers: RefCell<BTreeMap<CallId, Option<Waker>>>,
    /// The waker of the task being resumed, if it has one, and whose it is.
    pub(crate) own_waker: RefCell<Option<(TaskRef, Weak<TaskWaker>)>>,
    /// Combinators are being told of replies; that they tell their task in turn is no news.
    pub(crate) delivering: Cell<bool>,
    pub(crate) labels: RefCell<Vec<Cow<'static, str>>>,
    pulse: Cell<Option<&'static Pulse>>,
    /// Where time and identities come from while a log is replayed.
    pub(crate) sources: RefCell<Option<Rc<dyn Sources>>>,
    /// The runs of all runtimes of this thread that are not over.
    pub(crate) live_runs: RefCell<BTreeSet<RunId>>,
    /// Where handles are found while the state machines of a run are made again.
    pub(crate) restoring: RefCell<Option<Names>>,
    /// A task was interrupted in the middle of its turn.
    pub(crate) interrupted: Cell<bool>,
}

/// What a coroutine left besides its calls.
pub(crate) struct Notes {
    pub(crate) thrown: Option<TaskError>,
    /// Combinators to wake when a call is answered; `None` where the call is no more.
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

    /// A turn begins; the watchdog may look who has it. `true`: it is to be in the task's span.
    #[inline]
    pub(crate) fn begin_turn(&self) -> bool {
        if let (Some(pulse), Some(task)) = (self.pulse.get(), self.port.task()) {
            pulse.begin_turn(task, self.port.spawned_at());
        }
        LevelFilter::current() != LevelFilter::OFF
    }

    /// Tasks have their turns, and what comes after them is nobody's.
    #[inline]
    pub(crate) fn take_turns<T>(&self, turns: impl FnOnce(&Port) -> T) -> T {
        let taken = turns(&self.port);
        if let Some(pulse) = self.pulse.get() {
            pulse.end_turns();
        }
        taken
    }

    /// Lets code of the program run outside turns: the watchdog sees it, and it is an error if that had to interrupt
    /// it. `what` is what the code makes.
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

    /// A call has returned to the task that has its turn.
    #[inline]
    pub(crate) fn returned_from(&self, at: &'static Location<'static>) {
        if let Some(pulse) = self.pulse.get() {
            pulse.returned_from(at);
        }
    }

    /// What the watchdog sees of this thread.
    pub(crate) fn pulse(&self) -> &'static Pulse {
        let pulse = self.pulse.get().unwrap_or_else(Pulse::of_this_thread);
        self.pulse.set(Some(pulse));
        pulse
    }

    /// Gives back memory that is not in use, as this is never dropped.
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

    /// Makes sure that the round's clock is set, for a call that reads it.
    pub(crate) fn set_clock(&self) {
        if let Some(host) = &*self.host.borrow() {
            let recorded = self.sources.borrow().as_ref().and_then(|sources| sources.clock());
            self.port.set_clock(|| recorded.unwrap_or_else(|| host.clock.now()));
        }
    }

    /// Whether the task being resumed is beyond what an older program wrote down, or wrote down that it took
    /// the new way.
    pub(crate) fn takes_new_way(&self, id: &str) -> bool {
        let sources = self.sources.borrow();
        let replayed = sources.as_ref().zip(self.port.tid());
        replayed.is_none_or(|(sources, tid)| sources.takes_new_way(tid, id))
    }

    /// A new identity, for the task being resumed.
    pub(crate) fn draw_uuid(&self) -> Uuid {
        let sources = self.sources.borrow();
        let recorded = sources.as_ref().zip(self.port.tid());
        let recorded = recorded.and_then(|(sources, tid)| sources.uuid(tid));
        recorded.unwrap_or_else(|| self.host().map_or(Uuid(0), |host| host.entropy.uuid()))
    }

    /// Lets a task end with this error at the call it is in.
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

    /// Whether the coroutine left something besides its calls.
    #[inline]
    pub(crate) fn has_notes(&self) -> bool {
        self.noted.get()
    }

    /// What the coroutine left, if it left anything.
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

/// Whether a task of this thread has its turn, and inside which labels.
pub(crate) fn labels_of_turn(labels: &mut Vec<Cow<'static, str>>) -> bool {
    let context = current();
    if let Ok(of_task) = context.labels.try_borrow() {
        labels.clone_from(&of_task);
    }
    context.port.task().is_some()
}

/// Looks at this thread's context.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(&Context) -> R) -> R {
    look(current())
}

/// Names a call, its line and the running task in an error that does not know better.
#[cold]
pub(crate) fn place(error: &mut TaskError, call: &'static str, at: &'static Location<'static>) {
    error.add_call(call, at);
    if let Some(task) = with(|context| context.port.label()) {
        error.add_task(task);
    }
}

/// Gives a handle back. It goes to its run when a run of this thread has its next turn; with a run that is
/// over, it is gone already.
pub(crate) fn release(release: Release) {
    let context = current();
    if context.port.task().is_some() || context.live_runs.borrow().contains(&release.run()) {
        context.port.release(release);
    }
}

/// While this lives, tasks of this thread find this host.
pub(crate) struct Entered {
    /// Somebody further out has entered it, and leaves it.
    is_nested: bool,
}

impl Entered {
    /// `None` if another runtime is running on this thread already.
    pub(crate) fn new(host: &Rc<Host>) -> Option<Entered> {
        Entered::again(host).filter(|entered| !entered.is_nested)
    }

    /// The same for what a runtime may do between the turns of its tasks too.
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
