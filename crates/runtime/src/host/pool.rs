//! Threads for blocking work: files, name look-ups, user closures, attempts at steps. Threads start
//! when there is work and no idle thread, and end after some time without work. A pool may have
//! more threads than it keeps ready: a thread of its own, the foreman, adds them while work has
//! waited for too long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tiffany_kernel::{CallRef, ErrorKind, Site, TaskError};

use crate::clock::Steady;
use crate::host::attempt::{Attempt, Blocking, StepError};
use crate::host::inbox::{Inbox, LoopMessage, Remote};
use crate::host::owner_process::OwnerProcess;
use crate::host::panics;
use crate::host::panics::panic_error;
use crate::host::slots::Slot;
use crate::host::step_output::working;
use crate::host::trace::Tracer;
use crate::line::Line;
use tiffany_log::sync::{Condvar, Mutex, MutexGuard};

/// How long a thread waits for work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long work waits before the pool gets more threads than it keeps ready.
const GROWTH_DELAY: Duration = Duration::from_millis(5);

/// How many of these delays work may wait, at the rate at which other work is begun.
const DELAYS_TO_WAIT: usize = 20;

/// How long the pool waits at most before it asks the system again for a thread that it did not get.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How much work is accepted beyond the number of threads while the system refuses more of them, so
/// that a thread whose work has finished finds more.
pub(crate) const MAX_WAITING: usize = 4;

/// Work that runs on a thread of the pool and produces a result there.
pub(crate) struct PoolWork {
    /// The name of the work, and the line that asked for it, for errors.
    pub(crate) name: &'static str,
    pub(crate) at: Site,
    pub(crate) job: Job,
}

/// What is to be done, and how the result is returned.
pub(crate) enum Job {
    /// Work for a task that waits for it; the result can be any value.
    Once(Box<dyn FnOnce() -> Remote + Send>),
    /// One attempt at a step; its result can be recorded, and its slot is returned with it.
    Attempt(Attempt, Blocking, Option<Slot>),
}

impl PoolWork {
    /// Does the work. A panic in it becomes an error with its line.
    pub(crate) fn run(self, call: CallRef) -> LoopMessage {
        let PoolWork { name, at, job } = self;
        // Converted here and not where the result is read, because this thread knows the line.
        let panicked = |payload| {
            let mut error = panic_error(payload, "blocking work panicked");
            error.add_call(name, at);
            error
        };
        match job {
            Job::Once(job) => match panics::noting(job) {
                Ok(remote) => LoopMessage::Done(call, remote),
                Err(payload) => {
                    let error = panicked(payload);
                    LoopMessage::Done(call, Box::new(move || Err(error)))
                }
            },
            Job::Attempt(attempt, job, slot) => {
                let (number, span) = (attempt.number(), attempt.span().clone());
                let work = || working(&attempt.clone(), || job(attempt));
                let tried = Tracer::inside(&span, || panics::noting(work))
                    .unwrap_or_else(|payload| Err(StepError::passing(panicked(payload))));
                LoopMessage::Attempted(call, number, tried, slot)
            }
        }
    }

    /// The slot of an attempt that will not be made.
    pub(crate) fn into_slot(self) -> Option<Slot> {
        match self.job {
            Job::Once(_) => None,
            Job::Attempt(_, _, slot) => slot,
        }
    }

    /// Fails the work with this error.
    fn fail(self, call: CallRef, mut error: TaskError) -> LoopMessage {
        error.add_call(self.name, self.at);
        match self.job {
            Job::Once(_) => LoopMessage::Done(call, Box::new(move || Err(error))),
            Job::Attempt(attempt, _, slot) => {
                LoopMessage::Attempted(call, attempt.number(), Err(StepError::passing(error)), slot)
            }
        }
    }
}

/// How many threads a pool has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// The number of threads that start as soon as there is work for them.
    pub(crate) ready: usize,
    /// The maximum number, up to which threads are added while work waits for longer than
    /// [`GROWTH_DELAY`].
    pub(crate) most: usize,
}

impl Threads {
    /// A pool that never has more threads than it keeps ready.
    pub(crate) fn fixed(threads: usize) -> Threads {
        Threads { ready: threads, most: threads }
    }
}

/// The threads and the work that waits for them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Threads,
    queue: Mutex<Queue>,
    work_came: Condvar,
    /// Wakes the foreman.
    work_waits: Condvar,
    inbox: Arc<Inbox>,
    /// The present time, if it is the system's.
    clock: Option<Arc<Steady>>,
    /// How many threads there are. Changed under the lock.
    threads: AtomicUsize,
    /// Whether the system refused a thread, and no more work was accepted since than there are
    /// threads. Changed under the lock.
    is_short: AtomicBool,
}

#[derive(Default)]
struct Queue {
    work: Backlog,
    /// The threads that wait for work, or are about to take it for the first time.
    idle: usize,
    foreman: Foreman,
    /// Whether the system refused the last thread.
    is_refused: bool,
    closed: bool,
}

/// The state of the thread that adds others.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Foreman {
    #[default]
    Absent,
    Asleep,
    Watching,
}

/// Work that has not begun, in order. Any of it can be taken back.
#[derive(Default)]
struct Backlog {
    line: Line<CallRef>,
    work: BTreeMap<CallRef, PoolWork>,
    pushed: u64,
}

impl Backlog {
    fn push(&mut self, call: CallRef, work: PoolWork) {
        self.line.push_back(call);
        self.work.insert(call, work);
        self.pushed += 1;
    }

    fn pop(&mut self) -> Option<(CallRef, PoolWork)> {
        let call = self.line.pop_front()?;
        self.work.remove(&call).map(|work| (call, work))
    }

    fn remove(&mut self, call: CallRef) -> Option<PoolWork> {
        self.line.remove(call);
        self.work.remove(&call)
    }

    fn len(&self) -> usize {
        self.work.len()
    }

    /// How much work has begun so far, or was taken back.
    fn taken(&self) -> u64 {
        self.pushed - self.work.len() as u64
    }
}

impl Pool {
    pub(crate) fn new(limits: Threads, inbox: Arc<Inbox>, clock: Option<Arc<Steady>>) -> Pool {
        let Threads { ready, most } = limits;
        let limits = Threads { ready: ready.clamp(1, most.max(1)), most: most.max(1) };
        let (work_came, work_waits) = (Condvar::new(), Condvar::new());
        let queue = Mutex::new(Queue::default());
        let (threads, is_short) = (AtomicUsize::new(0), AtomicBool::new(false));
        let shared =
            Shared { limits, queue, work_came, work_waits, inbox, clock, threads, is_short };
        Pool { shared: Arc::new(shared) }
    }

    /// Queues work; its result is sent to the inbox.
    pub(crate) fn start(&self, call: CallRef, work: PoolWork) {
        let mut queue = self.shared.lock();
        queue.work.push(call, work);
        if queue.idle >= queue.work.len() {
            drop(queue);
            self.shared.work_came.notify_one();
            return;
        }
        if self.shared.threads() < self.shared.limits.ready {
            self.shared.count_new(&mut queue, 1);
            drop(queue);
            return Shared::add_thread(&self.shared);
        }
        let foreman = queue.foreman;
        if self.shared.threads() >= self.shared.limits.most || foreman == Foreman::Watching {
            drop(queue);
            self.shared.work_came.notify_one();
            return;
        }
        queue.foreman = Foreman::Watching;
        drop(queue);
        self.shared.work_came.notify_one();
        match foreman {
            Foreman::Absent => Shared::add_foreman(&self.shared),
            _ => self.shared.work_waits.notify_one(),
        }
    }

    /// Returns how much work may be in the pool at once: any amount, unless the system refuses
    /// threads. `wanted` is how much there is about to be. As many threads as the pool keeps ready
    /// are started for it now, so that a refusal is known before the work is accepted.
    pub(crate) fn room(&self, wanted: usize) -> usize {
        let shared = &self.shared;
        if shared.threads() < wanted.min(shared.limits.ready) {
            let mut queue = shared.lock();
            shared.count_new(&mut queue, 1);
            drop(queue);
            Shared::add_thread(shared);
        }
        if !shared.is_short.load(Ordering::Relaxed) {
            return usize::MAX;
        }
        let queue = shared.lock();
        if !queue.is_refused && wanted <= shared.threads() {
            shared.is_short.store(false, Ordering::Relaxed);
            return usize::MAX;
        }
        shared.threads() + MAX_WAITING
    }

    /// Asks the system for one more thread, if work waits for one.
    pub(crate) fn ask_for_thread(&self) {
        let mut queue = self.shared.lock();
        if queue.idle < queue.work.len() && self.shared.threads() < self.shared.limits.most {
            self.shared.count_new(&mut queue, 1);
            drop(queue);
            Shared::add_thread(&self.shared);
        }
    }

    /// Takes back work that has not begun. `None` if it has begun or does not exist. Dropping it
    /// may run user code.
    pub(crate) fn abort(&self, call: CallRef) -> Option<PoolWork> {
        self.shared.lock().work.remove(call)
    }

    /// How many threads there are, and how much work waits for one.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queue = self.shared.lock();
        (self.shared.threads(), queue.work.len())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        let backlog = std::mem::take(&mut queue.work);
        drop(queue);
        self.shared.work_came.notify_all();
        self.shared.work_waits.notify_all();
        // Outside the lock, because it may run user code.
        drop(backlog);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// Counts threads that are about to be started.
    fn count_new(&self, queue: &mut Queue, threads: usize) {
        self.threads.fetch_add(threads, Ordering::Relaxed);
        queue.idle += threads;
    }

    /// Starts a thread that is counted already.
    fn add_thread(shared: &Arc<Shared>) {
        let serving = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("tiffany-pool".into());
        match thread.spawn(move || serving.serve()) {
            Ok(_) => shared.lock().is_refused = false,
            Err(error) => shared.no_thread(&error),
        }
    }

    /// Starts the foreman. Without one, work waits for the existing threads.
    fn add_foreman(shared: &Arc<Shared>) {
        let watching = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("tiffany-foreman".into());
        if let Err(error) = thread.spawn(move || Shared::watch(&watching)) {
            let mut queue = shared.lock();
            queue.foreman = Foreman::Absent;
            shared.note_refusal(queue, &error);
        }
    }

    /// Logs that the system refused a thread, unless that was logged for the last one already.
    fn note_refusal(&self, mut queue: MutexGuard<'_, Queue>, error: &std::io::Error) {
        let was_refused = std::mem::replace(&mut queue.is_refused, true);
        self.is_short.store(true, Ordering::Relaxed);
        let threads = self.threads();
        drop(queue);
        if !was_refused {
            tracing::warn!(
                target: "tiffany",
                "the system starts no more threads for blocking work ({error}), so the work waits for the {threads} that exist; raise the limit of processes (`ulimit -u`, `TasksMax=`)"
            );
        }
    }

    /// Handles the refusal of a thread. If there is no thread at all, the waiting work fails.
    fn no_thread(&self, error: &std::io::Error) {
        let mut queue = self.lock();
        queue.idle -= 1;
        if self.threads.fetch_sub(1, Ordering::Relaxed) > 1 {
            return self.note_refusal(queue, error);
        }
        self.is_short.store(true, Ordering::Relaxed);
        let mut backlog = std::mem::take(&mut queue.work);
        drop(queue);
        while let Some((call, work)) = backlog.pop() {
            let message = format!("the system cannot start a thread for blocking work: {error}");
            let error = TaskError::new(ErrorKind::Host, message);
            self.inbox.send(work.fail(call, error));
        }
    }

    /// The loop of the foreman. While work that waited one delay ago still waits, and won't begin
    /// soon at the present rate, it adds half as many threads as there are.
    fn watch(shared: &Arc<Shared>) {
        let mut queue = shared.lock();
        let mut pause = GROWTH_DELAY;
        while !queue.closed {
            if queue.work.len() == 0 || shared.threads() >= shared.limits.most {
                queue.foreman = Foreman::Asleep;
                let is_over = shared.work_waits.wait_for(&mut queue, IDLE_TIMEOUT);
                if is_over && queue.foreman == Foreman::Asleep {
                    break;
                }
                continue;
            }
            let (pushed, taken) = (queue.work.pushed, queue.work.taken());
            // If it is woken early, it waits for a moment more.
            shared.work_waits.wait_for(&mut queue, GROWTH_DELAY);
            let waiting = pushed.saturating_sub(queue.work.taken());
            let waiting = usize::try_from(waiting).unwrap_or(usize::MAX).min(queue.work.len());
            let begun = usize::try_from(queue.work.taken().saturating_sub(taken)).unwrap_or(0);
            if waiting <= begun.saturating_mul(DELAYS_TO_WAIT) {
                // The existing threads will have begun all of it soon; more would only slow them
                // down.
                continue;
            }
            let threads = shared.threads();
            let most = shared.limits.most.saturating_sub(threads);
            let more = waiting.min(threads / 2 + 1).min(most);
            shared.count_new(&mut queue, more);
            drop(queue);
            (0..more).for_each(|_| Shared::add_thread(shared));
            queue = shared.lock();
            match queue.is_refused {
                false => pause = GROWTH_DELAY,
                true => {
                    pause = (pause * 2).min(MAX_PAUSE);
                    shared.work_waits.wait_for(&mut queue, pause);
                }
            }
        }
        queue.foreman = Foreman::Absent;
    }

    /// The loop of a thread of the pool.
    fn serve(&self) {
        let process = OwnerProcess::current();
        let mut queue = self.lock();
        queue.idle -= 1;
        loop {
            if let Some((call, work)) = queue.work.pop() {
                drop(queue);
                if let (Job::Attempt(attempt, ..), Some(clock)) = (&work.job, &self.clock) {
                    attempt.begins(clock.now());
                }
                let letter = work.run(call);
                process.end_if_forked();
                self.inbox.send(letter);
                queue = self.lock();
                continue;
            }
            if queue.closed {
                break;
            }
            queue.idle += 1;
            let is_over = self.work_came.wait_for(&mut queue, IDLE_TIMEOUT);
            queue.idle -= 1;
            if is_over && queue.work.len() == 0 {
                break;
            }
        }
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }
}
