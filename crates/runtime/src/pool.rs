//! A few threads for work that blocks: files, name look-ups, a closure of the user's. Threads start
//! when there is work and nobody to do it, and end after a while without any.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tiffany_kernel::{CallRef, ErrorKind, Site, TaskError};

use crate::durable::{Attempt, Blocking, StepError, working};
use crate::future_task::panic_error;
use crate::inbox::{Inbox, Letter, Remote};
use crate::line::Line;
use crate::lock::{Condvar, Mutex, MutexGuard};
use crate::panics;
use crate::trace::Tracer;

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// Work that runs on a thread of the pool and makes a result there.
pub(crate) struct Work {
    /// What the work is called, and the line that asked for it, for errors.
    pub(crate) name: &'static str,
    pub(crate) at: Site,
    pub(crate) job: Job,
}

/// What is to be done, and how its result travels.
pub(crate) enum Job {
    /// Something for a task that waits for it; the result can be any value.
    Once(Box<dyn FnOnce() -> Remote + Send>),
    /// One attempt at a step; the result can be written down.
    Attempt(Attempt, Blocking),
}

impl Work {
    /// Does it. A panic in it is an error with the line it came from.
    pub(crate) fn run(self, call: CallRef) -> Letter {
        let Work { name, at, job } = self;
        // Here and not where it is read: this thread knows the line.
        let panicked = |payload| {
            let mut error = panic_error(payload, "blocking work panicked");
            error.add_call(name, at);
            error
        };
        match job {
            Job::Once(job) => match panics::noting(job) {
                Ok(remote) => Letter::Done(call, remote),
                Err(payload) => {
                    let error = panicked(payload);
                    Letter::Done(call, Box::new(move || Err(error)))
                }
            },
            Job::Attempt(attempt, job) => {
                let (number, span) = (attempt.number(), attempt.span().clone());
                let work = || working(&attempt.clone(), || job(attempt));
                let tried = Tracer::inside(&span, || panics::noting(work))
                    .unwrap_or_else(|payload| Err(StepError::passing(panicked(payload))));
                Letter::Attempted(call, number, tried)
            }
        }
    }

    /// It cannot be done.
    fn fail(self, call: CallRef, mut error: TaskError) -> Letter {
        error.add_call(self.name, self.at);
        match self.job {
            Job::Once(_) => Letter::Done(call, Box::new(move || Err(error))),
            Job::Attempt(attempt, _) => {
                Letter::Attempted(call, attempt.number(), Err(StepError::passing(error)))
            }
        }
    }
}

/// The threads and the work that waits for them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    limit: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    work_came: Condvar,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct Queue {
    work: Backlog,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// Work that has not begun, in order. Any of it can be taken back.
#[derive(Default)]
struct Backlog {
    line: Line<CallRef>,
    work: BTreeMap<CallRef, Work>,
}

impl Backlog {
    fn push(&mut self, call: CallRef, work: Work) {
        self.line.push_back(call);
        self.work.insert(call, work);
    }

    fn pop(&mut self) -> Option<(CallRef, Work)> {
        let call = self.line.pop_front()?;
        self.work.remove(&call).map(|work| (call, work))
    }

    fn remove(&mut self, call: CallRef) -> Option<Work> {
        self.line.remove(call);
        self.work.remove(&call)
    }

    fn len(&self) -> usize {
        self.work.len()
    }
}

impl Pool {
    pub(crate) fn new(limit: usize, inbox: Arc<Inbox>) -> Pool {
        let queue = Mutex::new(Queue::default());
        Pool { shared: Arc::new(Shared { queue, work_came: Condvar::new(), inbox }), limit }
    }

    /// Queues work; its result comes to the inbox.
    pub(crate) fn start(&self, call: CallRef, work: Work) {
        let mut queue = self.shared.lock();
        queue.work.push(call, work);
        if queue.idle >= queue.work.len() || queue.threads >= self.limit.max(1) {
            drop(queue);
            self.shared.work_came.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let shared = Arc::clone(&self.shared);
        let started =
            std::thread::Builder::new().name("tiffany-pool".into()).spawn(move || shared.serve());
        if let Err(error) = started {
            self.no_thread(&error);
        }
    }

    /// Takes back work that has not begun. `false`: it has, or there is none.
    pub(crate) fn abort(&self, call: CallRef) -> bool {
        let mut queue = self.shared.lock();
        let work = queue.work.remove(call);
        drop(queue);
        // Dropping it may run code of the user's, which must not happen under the lock.
        work.is_some()
    }

    /// How many threads there are, and how much work waits for one.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queue = self.shared.lock();
        (queue.threads, queue.work.len())
    }

    /// The system gives no thread: with none at all, the work that waits fails.
    fn no_thread(&self, error: &std::io::Error) {
        let mut queue = self.shared.lock();
        queue.threads -= 1;
        if queue.threads > 0 {
            return;
        }
        let mut backlog = std::mem::take(&mut queue.work);
        drop(queue);
        while let Some((call, work)) = backlog.pop() {
            let message = format!("the system gives no thread for blocking work: {error}");
            let error = TaskError::new(ErrorKind::Host, message);
            self.shared.inbox.send(work.fail(call, error));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        let backlog = std::mem::take(&mut queue.work);
        drop(queue);
        self.shared.work_came.notify_all();
        // Not under the lock: it may run code of the user's.
        drop(backlog);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// What a thread of the pool does.
    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some((call, work)) = queue.work.pop() {
                drop(queue);
                self.inbox.send(work.run(call));
                queue = self.lock();
                continue;
            }
            if queue.closed {
                break;
            }
            queue.idle += 1;
            let is_over = self.work_came.wait_for(&mut queue, IDLE);
            queue.idle -= 1;
            if is_over && queue.work.len() == 0 {
                break;
            }
        }
        queue.threads -= 1;
    }
}
