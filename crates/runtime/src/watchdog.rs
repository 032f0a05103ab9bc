//! The watchdog: one thread for the whole process that notices tasks which keep their turn for long. It
//! sleeps while no runtime is awake.
//!
//! This file has `unsafe` code because a line of source is told to another thread by its address.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tiffany_kernel::{ErrorKind, RunId, Site, TaskRef, Tid, panic_text};

use crate::lock::{Condvar, Mutex, MutexGuard};

/// What a thread is doing, for the watchdog to look at. Written at every turn, so it is a few words.
#[derive(Default)]
pub(crate) struct Pulse {
    turns: AtomicU64,
    run: AtomicU32,
    tid: AtomicU64,
    spawned_at: AtomicPtr<Location<'static>>,
    last_call: AtomicPtr<Location<'static>>,
}

impl Pulse {
    /// Threads that run tasks are few, so theirs are kept as long as the process lives.
    pub(crate) fn of_new_thread() -> &'static Pulse {
        static ALL: Mutex<Vec<&'static Pulse>> = Mutex::new(Vec::new());
        let pulse: &'static Pulse = Box::leak(Box::default());
        ALL.lock().push(pulse);
        pulse
    }

    #[inline]
    pub(crate) fn begin_turn(&self, task: TaskRef, spawned_at: &'static Location<'static>) {
        // One thread writes, so this needs no atomic addition.
        self.turns.store(self.turns.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.run.store(task.run.0, Ordering::Relaxed);
        self.tid.store(task.tid.0, Ordering::Relaxed);
        self.spawned_at.store(std::ptr::from_ref(spawned_at).cast_mut(), Ordering::Relaxed);
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

/// A task that has kept its turn for long.
#[derive(Clone, Debug)]
pub struct StuckTask {
    /// Its run.
    pub run: RunId,
    /// Its number.
    pub tid: Tid,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The line that spawned it.
    pub spawned_at: Option<Site>,
    /// The line of the last call that returned on its thread.
    pub last_call: Option<Site>,
    /// For how long it has had its turn, at least.
    pub running_for: Duration,
}

impl fmt::Display for StuckTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.tid)?;
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        if let Some(site) = &self.spawned_at {
            write!(f, " (spawned at {site})")?;
        }
        write!(f, " has run for {:.1?} without a call", self.running_for)?;
        if let Some(site) = &self.last_call {
            write!(f, ", the last one at {site}")?;
        }
        write!(f, " [{}]; {}", ErrorKind::Stuck.code(), ErrorKind::Stuck.next_step())
    }
}

/// What is done about a stuck task. It is called on the watchdog's thread.
pub(crate) type OnStuck = Arc<dyn Fn(&StuckTask) + Send + Sync>;

/// One runtime, as the watchdog knows it.
pub(crate) struct Watched {
    pulse: &'static Pulse,
    patience: Duration,
    on_stuck: OnStuck,
    awake: AtomicBool,
    names: Mutex<BTreeMap<(RunId, Tid), String>>,
}

/// A runtime is awake while this lives.
pub(crate) struct Awake(Arc<Watched>);

impl Watched {
    pub(crate) fn new(pulse: &'static Pulse, patience: Duration, on_stuck: OnStuck) -> Watched {
        let (awake, names) = (AtomicBool::new(false), Mutex::default());
        Watched { pulse, patience, on_stuck, awake, names }
    }

    /// Tells the watchdog what a task is called; `None`: it is over.
    pub(crate) fn name(&self, run: RunId, tid: Tid, name: Option<&str>) {
        match name {
            Some(name) => self.names.lock().insert((run, tid), name.into()),
            None => self.names.lock().remove(&(run, tid)),
        };
    }

    /// Begins to watch, until the answer is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> Awake {
        dog().watched.lock().push(Arc::clone(self));
        self.wake();
        Awake(Arc::clone(self))
    }

    /// The runtime is about to sleep: no turn can last meanwhile.
    pub(crate) fn sleep(&self) {
        self.awake.store(false, Ordering::SeqCst);
    }

    /// The runtime is awake again. The watchdog is woken only if it sleeps too.
    pub(crate) fn wake(&self) {
        self.awake.store(true, Ordering::SeqCst);
        let dog = dog();
        if dog.asleep.swap(false, Ordering::SeqCst) {
            // With the lock held, so that the watchdog is not between its look and its wait.
            let _watched = dog.watched.lock();
            dog.bell.notify_one();
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        dog().watched.lock().retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}

/// The one watchdog.
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
}

/// The watchdog of this process, or none yet.
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
            // Without a thread there is no watchdog, and nothing else suffers.
            let thread = std::thread::Builder::new().name("tiffany-watchdog".into());
            let _ = thread.spawn(|| new.patrol());
            new
        }
        // SAFETY: another thread was quicker, and leaked its own.
        Err(first) => unsafe { &*first },
    }
}

/// In a process that was forked there is no watchdog, and its lock may be held by a thread that is not there. The next one who needs one
/// gets another.
pub(crate) fn forked() {
    DOG.store(std::ptr::null_mut(), Ordering::Release);
}

impl Dog {
    /// Looks at all runtimes that are awake, again and again.
    fn patrol(&self) {
        let mut seen: BTreeMap<usize, Seen> = BTreeMap::new();
        let mut watched = self.watched.lock();
        loop {
            let now = Instant::now();
            let mut next_look = None;
            let mut reports = Vec::new();
            seen.retain(|key, _| watched.iter().any(|one| Arc::as_ptr(one) as usize == *key));
            for one in watched.iter().filter(|one| one.awake.load(Ordering::SeqCst)) {
                let turn = one.pulse.turns.load(Ordering::Relaxed);
                let key = Arc::as_ptr(one) as usize;
                let entry = seen.entry(key).or_insert(Seen { turn, since: now, reported: false });
                if entry.turn != turn {
                    *entry = Seen { turn, since: now, reported: false };
                }
                let running_for = now - entry.since;
                if running_for >= one.patience && !entry.reported {
                    entry.reported = true;
                    reports.push((Arc::clone(one), running_for));
                }
                let look = (one.patience / 4).max(Duration::from_millis(5));
                next_look = Some(next_look.map_or(look, |soonest: Duration| soonest.min(look)));
            }
            // What is done about them is user code, which may start a runtime itself.
            MutexGuard::unlocked(&mut watched, || {
                reports.into_iter().for_each(|(one, running_for)| one.report(running_for));
            });
            match next_look {
                Some(look) => {
                    self.bell.wait_for(&mut watched, look);
                }
                None => {
                    seen.clear();
                    self.sleep(&mut watched);
                }
            }
        }
    }

    /// Nobody is awake: sleeps until somebody is. Both sides say what they do before they look at the
    /// other, so one of them sees it.
    fn sleep(&self, watched: &mut MutexGuard<'_, Vec<Arc<Watched>>>) {
        self.asleep.store(true, Ordering::SeqCst);
        match watched.iter().any(|one| one.awake.load(Ordering::SeqCst)) {
            true => self.asleep.store(false, Ordering::SeqCst),
            false => self.bell.wait(watched),
        }
    }
}

impl Watched {
    fn report(&self, running_for: Duration) {
        let (run, tid) = (
            RunId(self.pulse.run.load(Ordering::Relaxed)),
            Tid(self.pulse.tid.load(Ordering::Relaxed)),
        );
        let name = self.names.lock().get(&(run, tid)).cloned();
        let spawned_at = Pulse::line(&self.pulse.spawned_at);
        let last_call = Pulse::line(&self.pulse.last_call);
        let stuck = StuckTask { run, tid, name, spawned_at, last_call, running_for };
        // It is user code, and there is one watchdog for all.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.on_stuck)(&stuck))) {
            panic_text(payload);
        }
    }
}
