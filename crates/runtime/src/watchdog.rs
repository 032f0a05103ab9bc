//! The watchdog: one thread for the whole process that reports tasks which keep their turn for
//! long. It sleeps while no runtime is awake.
//!
//! This file has `unsafe` code because source lines are passed to another thread by address.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tiffany_kernel::{ErrorKind, RunId, Site, TaskRef, Tid, Uuid, panic_text};

use tiffany_log::sync::{Condvar, Mutex, MutexGuard};

/// What a thread is doing, for the watchdog to read. It is written at every turn, so it is a few
/// words.
#[derive(Default)]
pub(crate) struct Pulse {
    turns: AtomicU64,
    run: AtomicU32,
    tid: AtomicU64,
    spawned_at: AtomicPtr<Location<'static>>,
    last_call: AtomicPtr<Location<'static>>,
    /// Code of the program that runs outside turns.
    outside: Mutex<Option<Outside>>,
}

/// Code of the program that runs outside turns, such as code that reads the input of a run.
pub(crate) enum Outside {
    /// On the thread of the loop.
    Loop {
        /// The run that it belongs to, if any.
        run: Option<RunId>,
        /// What the code produces.
        what: String,
    },
    /// An async step or a callback of it, on the thread that all of them share. It is written
    /// whenever one is resumed, so it is not formatted yet.
    AsyncStep { name: &'static str, key: Arc<str> },
    /// A callback on that thread that belongs to no step.
    Callback,
}

/// How often the time for a turn may be doubled.
const MAX_DOUBLINGS: u32 = 20;

/// The number of no task: the loop itself is working.
const NOBODY: u64 = 0;

impl Pulse {
    /// The pulse of this thread. Few threads run tasks, so pulses are kept for the life of the
    /// process.
    pub(crate) fn of_this_thread() -> &'static Pulse {
        static ALL: Mutex<Vec<&'static Pulse>> = Mutex::new(Vec::new());
        thread_local! {
            static OWN: Cell<Option<&'static Pulse>> = const { Cell::new(None) };
        }
        OWN.get().unwrap_or_else(|| {
            let pulse: &'static Pulse = Box::leak(Box::default());
            ALL.lock().push(pulse);
            OWN.set(Some(pulse));
            pulse
        })
    }

    #[inline]
    pub(crate) fn begin_turn(&self, task: TaskRef, spawned_at: &'static Location<'static>) {
        self.count();
        self.run.store(task.run.0, Ordering::Relaxed);
        self.tid.store(task.tid.0, Ordering::Relaxed);
        self.spawned_at.store(std::ptr::from_ref(spawned_at).cast_mut(), Ordering::Relaxed);
    }

    /// Notes that the thread's work belongs to no task from now on.
    #[inline]
    pub(crate) fn end_turns(&self) {
        self.tid.store(NOBODY, Ordering::Relaxed);
        self.count();
    }

    /// Runs code of the program outside turns, and watches it like a turn.
    pub(crate) fn outside_turns<T>(&self, outside: Outside, code: impl FnOnce() -> T) -> T {
        struct End<'a>(&'a Pulse, u64);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                *self.0.outside.lock() = None;
                self.0.tid.store(self.1, Ordering::Relaxed);
                self.0.count();
            }
        }
        *self.outside.lock() = Some(outside);
        let _end = End(self, self.tid.swap(NOBODY, Ordering::Relaxed));
        self.count();
        code()
    }

    /// Notes that code of the program begins to run outside turns, on a thread that has no turns.
    pub(crate) fn begin_outside(&self, outside: Option<Outside>) {
        if let Some(outside) = outside {
            drop(self.outside.lock().replace(outside));
        }
        self.count();
    }

    /// Whether code of the program runs, for a task or outside turns.
    fn runs_code(&self) -> bool {
        self.tid.load(Ordering::Relaxed) != NOBODY || self.outside.lock().is_some()
    }

    /// Only one thread writes, so this needs no atomic addition.
    #[inline]
    fn count(&self) {
        self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn returned_from(&self, at: &'static Location<'static>) {
        self.last_call.store(std::ptr::from_ref(at).cast_mut(), Ordering::Relaxed);
    }

    /// A line that was stored above.
    fn line(at: &AtomicPtr<Location<'static>>) -> Option<Site> {
        // SAFETY: it is null, or was made of a `&'static Location`.
        unsafe { at.load(Ordering::Relaxed).as_ref() }.map(Site::from)
    }
}

/// A task that has kept its turn for long, or code of the program that has run for long outside
/// turns.
#[derive(Clone, Debug)]
pub struct StuckTask {
    /// Its run.
    pub run: RunId,
    /// The UUID of the run, if it is durable.
    pub uuid: Option<Uuid>,
    /// Its number; 0 for code outside turns.
    pub tid: Tid,
    /// Its name, if it has one. Code outside turns is named after what it produces.
    pub name: Option<String>,
    /// The line that spawned it.
    pub spawned_at: Option<Site>,
    /// The line of the last call that returned on its thread.
    pub last_call: Option<Site>,
    /// How long it has had its turn, at least.
    pub running_for: Duration,
    /// Whether it is an async step or a callback, which keeps the thread that all async steps share.
    pub is_async_step: bool,
}

impl StuckTask {
    /// Whether it is code outside turns.
    pub(crate) fn is_outside_turns(&self) -> bool {
        self.tid.0 == NOBODY
    }
}

impl fmt::Display for StuckTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref();
        match name {
            Some(what) if self.is_outside_turns() => write!(f, "the {what}")?,
            _ => write!(f, "task {}", self.tid)?,
        }
        if let Some(name) = name.filter(|_| !self.is_outside_turns()) {
            write!(f, " `{name}`")?;
        }
        if let Some(uuid) = &self.uuid {
            write!(f, " of run {uuid}")?;
        }
        if let Some(site) = &self.spawned_at {
            write!(f, " (spawned at {site})")?;
        }
        if self.is_async_step {
            let (kept, code) = (self.running_for, ErrorKind::Stuck.code());
            return write!(
                f,
                " has kept the loop that all async steps share for {kept:.1?} [{code}]; do long work in a plain step, \
                 which has a thread of its own"
            );
        }
        write!(f, " has run for {:.1?} without a call", self.running_for)?;
        if let Some(site) = &self.last_call {
            write!(f, ", the last one at {site}")?;
        }
        write!(f, " [{}]; {}", ErrorKind::Stuck.code(), ErrorKind::Stuck.next_step())
    }
}

/// Handles a stuck task. It is called on a thread of its own.
pub(crate) type OnStuck = Arc<dyn Fn(&StuckTask) + Send + Sync>;

/// A turn that took so long that the watchdog reported it.
#[derive(Clone, Debug)]
pub(crate) struct Long {
    pub(crate) task: StuckTask,
    /// When it was first noticed.
    pub(crate) since: SystemTime,
    /// Whether the turn has ended.
    pub(crate) is_over: bool,
    /// The watched runtime or thread that it belongs to, among those that share a list.
    by: usize,
}

impl Long {
    /// Updates how long an unfinished turn has lasted.
    fn measure(&mut self) {
        if let Some(running_for) = self.since.elapsed().ok().filter(|_| !self.is_over) {
            self.task.running_for = running_for;
        }
    }
}

/// The most recent long turns of a runtime, for requests that the loop does not answer.
#[derive(Default)]
pub(crate) struct LongTurns(Mutex<VecDeque<Long>>);

impl LongTurns {
    const MAX_TURNS: usize = 32;

    fn add(&self, by: usize, task: StuckTask) {
        let mut turns = self.0.lock();
        if turns.len() == LongTurns::MAX_TURNS {
            turns.pop_front();
        }
        let now = SystemTime::now();
        let since = now.checked_sub(task.running_for).unwrap_or(now);
        turns.push_back(Long { task, since, is_over: false, by });
    }

    /// Marks the last turn of this watched runtime as ended.
    fn end(&self, by: usize) {
        if let Some(last) = self.0.lock().iter_mut().rev().find(|turn| turn.by == by) {
            last.measure();
            last.is_over = true;
        }
    }

    /// All long turns, the oldest first.
    pub(crate) fn list(&self) -> Vec<Long> {
        let mut turns = self.0.lock();
        turns.iter_mut().for_each(Long::measure);
        turns.iter().cloned().collect()
    }
}

/// Whether the lines in the pulse are those of the task's own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    Tell,
    /// Its code is in another language, and the lines are those of the Rust code that runs it.
    Mislead,
}

/// Interrupts the code of the thread that it was made on, if the language can do that. Its argument
/// returns whether the turn in question still lasts.
pub type Interrupter = Arc<dyn Fn(&dyn Fn() -> bool) + Send + Sync>;

/// Called with a turn that takes too long when it is noticed, and with `None` when it has ended. It
/// runs on the watchdog's thread.
pub(crate) type NoteTurn = Box<dyn Fn(Option<&StuckTask>) + Send + Sync>;

/// The limit of turns, and what happens to a turn that exceeds it.
pub(crate) struct TurnLimit {
    pub(crate) limit: Duration,
    pub(crate) note: NoteTurn,
    pub(crate) interrupt: Option<Interrupter>,
}

/// One runtime, as the watchdog knows it.
pub(crate) struct Watched {
    pulse: &'static Pulse,
    patience: Duration,
    on_stuck: OnStuck,
    turns: Arc<LongTurns>,
    lines: Lines,
    awake: AtomicBool,
    turn_limit: Mutex<Option<Arc<TurnLimit>>>,
    /// Whether a long turn was noted whose end was not noted yet.
    is_noted: AtomicBool,
    /// Whether a thread is about to interrupt a turn.
    is_interrupting: AtomicBool,
    /// The last turn that was interrupted, or was to be.
    interrupted: Mutex<Option<StuckTask>>,
    names: Mutex<BTreeMap<(RunId, Tid), String>>,
    /// The UUIDs of durable runs, and how often the limit of their turns was doubled.
    uuids: Mutex<BTreeMap<RunId, (Uuid, u32)>>,
}

/// While this value lives, a runtime is awake.
pub(crate) struct Awake(Arc<Watched>);

impl Watched {
    pub(crate) fn new(
        pulse: &'static Pulse,
        patience: Duration,
        on_stuck: OnStuck,
        (turns, lines): (Arc<LongTurns>, Lines),
    ) -> Watched {
        let (awake, names, uuids) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        let (turn_limit, interrupted) = (Mutex::default(), Mutex::default());
        Watched {
            pulse,
            patience,
            on_stuck,
            turns,
            lines,
            awake,
            turn_limit,
            is_noted: AtomicBool::new(false),
            is_interrupting: AtomicBool::new(false),
            interrupted,
            names,
            uuids,
        }
    }

    /// A key that is different for each watched runtime.
    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Notes that code begins to run outside turns, on a thread that has no turns. `None`: it
    /// belongs to what the previous code belonged to.
    pub(crate) fn begin_outside(&self, outside: Option<Outside>) {
        self.pulse.begin_outside(outside);
    }

    /// Limits how long a task of a durable run may keep its turn.
    pub(crate) fn limit_turns(&self, limit: TurnLimit) {
        *self.turn_limit.lock() = Some(Arc::new(limit));
    }

    /// The last turn that was interrupted; returned once.
    pub(crate) fn take_interrupted(&self) -> Option<StuckTask> {
        self.interrupted.lock().take()
    }

    /// Sets the UUID of a durable run.
    pub(crate) fn run_begins(&self, run: RunId, uuid: Uuid) {
        self.uuids.lock().insert(run, (uuid, 0));
    }

    /// Doubles the limit of a run's turns this number of times.
    pub(crate) fn double_turns(&self, run: RunId, times: u32) {
        if let Some((_, doublings)) = self.uuids.lock().get_mut(&run) {
            *doublings = times;
        }
    }

    /// How long the task that has its turn may keep it.
    fn turn_limit_now(&self) -> Option<Duration> {
        let limit = self.turn_limit.lock().as_ref()?.limit;
        let run = RunId(self.pulse.run.load(Ordering::Relaxed));
        let doublings = self.uuids.lock().get(&run).map_or(0, |(_, doublings)| *doublings);
        Some(limit.saturating_mul(1 << doublings.min(MAX_DOUBLINGS)))
    }

    /// Forgets a run.
    pub(crate) fn run_ends(&self, run: RunId) {
        self.uuids.lock().remove(&run);
    }

    /// Sets the name of a task; `None`: the task has ended.
    pub(crate) fn name(&self, run: RunId, tid: Tid, name: Option<&str>) {
        match name {
            Some(name) => self.names.lock().insert((run, tid), name.into()),
            None => self.names.lock().remove(&(run, tid)),
        };
    }

    /// Begins to watch, until the returned value is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> Awake {
        dog().watched.lock().push(Arc::clone(self));
        self.wake();
        Awake(Arc::clone(self))
    }

    /// Notes that the runtime is about to sleep: no turn can last meanwhile.
    pub(crate) fn sleep(&self) {
        self.awake.store(false, Ordering::SeqCst);
    }

    /// Notes that the runtime is awake again. The watchdog is woken only if it sleeps too.
    pub(crate) fn wake(&self) {
        self.awake.store(true, Ordering::SeqCst);
        let dog = dog();
        if dog.asleep.swap(false, Ordering::SeqCst) {
            // With the lock held, so that the watchdog is not between its check and its wait.
            let _watched = dog.watched.lock();
            dog.bell.notify_one();
        }
    }
}

impl Awake {
    pub(crate) fn watched(&self) -> &Arc<Watched> {
        &self.0
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        dog().watched.lock().retain(|other| !Arc::ptr_eq(other, &self.0));
        self.0.turns.end(self.0.key());
        self.0.unnote();
    }
}

/// The watchdog of the process.
#[derive(Default)]
struct Dog {
    watched: Mutex<Vec<Arc<Watched>>>,
    asleep: AtomicBool,
    bell: Condvar,
}

/// What the watchdog saw of a runtime when it last looked.
struct Seen {
    turn: u64,
    since: Instant,
    reported: bool,
    /// How often the turn was beyond its limit.
    overruns: u32,
}

/// The watchdog of this process, if it was started.
static DOG: AtomicPtr<Dog> = AtomicPtr::new(std::ptr::null_mut());

fn dog() -> &'static Dog {
    // SAFETY: it is null, or was leaked below.
    if let Some(dog) = unsafe { DOG.load(Ordering::Acquire).as_ref() } {
        return dog;
    }
    let new: &'static Dog = Box::leak(Box::default());
    let place = std::ptr::from_ref(new).cast_mut();
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    match DOG.compare_exchange(std::ptr::null_mut(), place, success, failure) {
        Ok(_) => {
            // Without a thread there is no watchdog; nothing else depends on it.
            let thread = std::thread::Builder::new().name("tiffany-watchdog".into());
            let _ = thread.spawn(|| new.patrol());
            new
        }
        // SAFETY: another thread was quicker, and leaked its own.
        Err(first) => unsafe { &*first },
    }
}

/// Called in a process that was forked. It has no watchdog, and the lock may be held by a thread
/// that does not exist here. The next runtime starts another watchdog.
pub(crate) fn forked() {
    DOG.store(std::ptr::null_mut(), Ordering::Release);
}

impl Dog {
    /// Checks all runtimes that are awake, repeatedly.
    fn patrol(&self) {
        let mut seen: BTreeMap<usize, Seen> = BTreeMap::new();
        let mut watched = self.watched.lock();
        loop {
            let now = Instant::now();
            let mut next_look = None;
            let (mut reports, mut overruns) = (Vec::new(), Vec::new());
            seen.retain(|key, _| watched.iter().any(|one| one.key() == *key));
            for one in watched.iter() {
                let key = one.key();
                let turn = one.pulse.turns.load(Ordering::Relaxed);
                let is_awake = one.awake.load(Ordering::SeqCst);
                if let Some(last) = seen.get(&key).filter(|last| last.turn != turn || !is_awake) {
                    if last.reported {
                        one.turns.end(key);
                    }
                    if last.overruns > 0 {
                        overruns.push((Arc::clone(one), None));
                    }
                    seen.remove(&key);
                }
                if !is_awake {
                    continue;
                }
                let new = Seen { turn, since: now, reported: false, overruns: 0 };
                let entry = seen.entry(key).or_insert(new);
                let running_for = now - entry.since;
                let is_long = running_for >= one.patience && !entry.reported;
                if is_long && one.pulse.runs_code() {
                    entry.reported = true;
                    reports.push((Arc::clone(one), one.notice(running_for)));
                }
                let times = entry.overruns + 1;
                let limit = one.turn_limit_now();
                if limit.is_some_and(|limit| running_for >= limit.saturating_mul(times))
                    && entry.reported
                {
                    entry.overruns += 1;
                    overruns.push((Arc::clone(one), Some((turn, one.task(running_for)))));
                }
                let look = (one.patience / 4).max(Duration::from_millis(5));
                next_look = Some(next_look.map_or(look, |soonest: Duration| soonest.min(look)));
            }
            // The reaction is user code, which may start a runtime itself.
            MutexGuard::unlocked(&mut watched, || {
                reports.into_iter().for_each(|(one, stuck)| one.report(stuck));
                overruns.into_iter().for_each(|(one, turn)| one.overrun(turn));
            });
            match next_look {
                Some(look) => {
                    self.bell.wait_for(&mut watched, look);
                }
                None => self.sleep(&mut watched),
            }
        }
    }

    /// Sleeps until a runtime is awake. Both sides announce what they do before they check the
    /// other, so that one of them sees it.
    fn sleep(&self, watched: &mut MutexGuard<'_, Vec<Arc<Watched>>>) {
        self.asleep.store(true, Ordering::SeqCst);
        match watched.iter().any(|one| one.awake.load(Ordering::SeqCst)) {
            true => self.asleep.store(false, Ordering::SeqCst),
            false => self.bell.wait(watched),
        }
    }
}

impl Watched {
    /// Finds out whose turn it is. The end of the turn is not missed, because it can't be noted
    /// meanwhile.
    fn notice(&self, running_for: Duration) -> StuckTask {
        let stuck = self.task(running_for);
        self.turns.add(self.key(), stuck.clone());
        stuck
    }

    /// The task that has its turn, or the code that runs outside turns.
    fn task(&self, running_for: Duration) -> StuckTask {
        if let Some(outside) = &*self.pulse.outside.lock() {
            return self.outside(outside, running_for);
        }
        let (run, tid) = (
            RunId(self.pulse.run.load(Ordering::Relaxed)),
            Tid(self.pulse.tid.load(Ordering::Relaxed)),
        );
        let name = self.names.lock().get(&(run, tid)).cloned();
        let uuid = self.uuids.lock().get(&run).map(|(uuid, _)| *uuid);
        let line = |at| Pulse::line(at).filter(|_| self.lines == Lines::Tell);
        let (spawned_at, last_call) = (line(&self.pulse.spawned_at), line(&self.pulse.last_call));
        let is_async_step = false;
        StuckTask { run, uuid, tid, name, spawned_at, last_call, running_for, is_async_step }
    }

    fn outside(&self, outside: &Outside, running_for: Duration) -> StuckTask {
        let (run, uuid, what) = match outside {
            Outside::Loop { run, what } => {
                let uuid = run.and_then(|run| self.uuids.lock().get(&run).map(|(uuid, _)| *uuid));
                (run.unwrap_or(RunId(0)), uuid, what.clone())
            }
            Outside::AsyncStep { name, key } => {
                let uuid = key.split('/').next().and_then(Uuid::parse);
                (RunId(0), uuid, format!("async step `{name}`"))
            }
            Outside::Callback => {
                (RunId(0), None, "callback of asyncio that belongs to no step".into())
            }
        };
        let is_async_step = !matches!(outside, Outside::Loop { .. });
        let (tid, name, spawned_at, last_call) = (Tid(NOBODY), Some(what), None, None);
        StuckTask { run, uuid, tid, name, spawned_at, last_call, running_for, is_async_step }
    }

    /// Notes that a turn that took too long has ended.
    fn unnote(&self) {
        if self.is_noted.swap(false, Ordering::SeqCst)
            && let Some(limit) = self.turn_limit.lock().clone()
        {
            (limit.note)(None);
        }
    }

    /// Handles a turn that exceeds its limit, or its end. Tasks of durable runs have such a limit,
    /// and so has code outside turns, but no run is held for the latter.
    fn overrun(self: &Arc<Self>, turn: Option<(u64, StuckTask)>) {
        let Some(limit) = self.turn_limit.lock().clone() else { return };
        let Some((turn, stuck)) = turn else { return self.unnote() };
        let is_outside = stuck.is_outside_turns();
        if stuck.uuid.is_none() && !is_outside {
            return;
        }
        if !is_outside {
            self.is_noted.store(true, Ordering::SeqCst);
            (limit.note)(Some(&stuck));
        }
        let Some(interrupt) = limit.interrupt.clone() else { return };
        if !is_outside {
            *self.interrupted.lock() = Some(stuck);
        }
        if self.is_interrupting.swap(true, Ordering::SeqCst) {
            return; // The last attempt still waits for the interpreter.
        }
        let one = Arc::clone(self);
        // On a thread of its own, because it may have to wait for the interpreter, and there is one
        // watchdog for all.
        let interrupt = move || {
            interrupt(&|| one.pulse.turns.load(Ordering::SeqCst) == turn);
            one.is_interrupting.store(false, Ordering::SeqCst);
        };
        let thread = std::thread::Builder::new().name("tiffany-interrupt".into());
        if thread.spawn(interrupt).is_err() {
            self.is_interrupting.store(false, Ordering::SeqCst);
        }
    }

    /// Reports a stuck task. The report is user code, which may wait for anything the task holds.
    /// There is one watchdog for all, so this runs on a thread of its own.
    fn report(&self, stuck: StuckTask) {
        let on_stuck = Arc::clone(&self.on_stuck);
        let report = move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| on_stuck(&stuck))) {
                panic_text(payload);
            }
        };
        drop(std::thread::Builder::new().name("tiffany-report".into()).spawn(report));
    }
}
