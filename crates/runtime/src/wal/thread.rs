//! The writer on a thread of its own: batches are handed in and collect while the disk is busy, so that one
//! sync serves all of them. A second thread does the work of the background. Neither knows what a line says.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch::Batch;
use super::checkpoint::{Work, WorkDone};
use super::error::LogError;
use super::settings::SyncWhen;
use super::writer::Writer;

/// The number of a batch that was handed in. They grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What the log thread tells.
#[derive(Clone, Debug)]
pub enum Notice {
    /// All batches up to this one are durable.
    Durable(Ticket),
    /// The log has stopped. Whether batches after the last durable one are in it shows when it is opened again.
    Failed(LogError),
}

/// A writer on its own thread.
///
/// ```
/// # use std::sync::{Arc, mpsc};
/// # use tiffany::wal::sim::SimDisk;
/// # use tiffany::wal::{Batch, Chain, LogThread, Notice, RecordType, Settings, Stamp, Writer};
/// # use tiffany::{Tid, Uuid};
/// # let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
/// # let (writer, _) = Writer::open(Arc::new(SimDisk::new()), "/log".as_ref(), settings)?;
/// let (tell, told) = mpsc::channel();
/// let log = LogThread::start(writer, move |notice| tell.send(notice).unwrap()).unwrap();
/// let mut batch = Batch::new();
/// let mut chain = Chain::new(Uuid::from_random(7));
/// let now = Stamp::from_unix_nanos(0);
/// batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).end();
/// let ticket = log.submit(&mut batch);
/// assert!(batch.is_empty()); // ready for more
/// assert!(matches!(told.recv(), Ok(Notice::Durable(durable)) if durable >= ticket));
/// log.close()?;
/// # Ok::<(), tiffany::wal::LogError>(())
/// ```
pub struct LogThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), LogError>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    something_came: Condvar,
}

#[derive(Default)]
struct Queue {
    pending: Batch,
    last: Ticket,
    done: Option<WorkDone>,
    ending: Option<Ending>,
    failed: bool,
}

#[derive(Clone, Copy)]
enum Ending {
    /// With the index, so that the next opening has nothing to do.
    Close,
    /// When what was handed in is committed.
    Stop,
}

impl LogThread {
    /// Starts the threads. `notify` is called on one of them, and must be quick and not panic.
    pub fn start(
        writer: Writer,
        notify: impl Fn(Notice) + Send + 'static,
    ) -> io::Result<LogThread> {
        let queue = Queue {
            pending: Batch::with_blob_limit(writer.settings().blob_limit),
            ..Queue::default()
        };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), something_came: Condvar::new() });
        let (work, works) = mpsc::channel::<Work>();
        let home = Arc::clone(&shared);
        // It ends when the log thread does, which drops the sender.
        std::thread::Builder::new().name("tiffany-sync".into()).spawn(move || {
            for work in works {
                let done = work.run();
                home.queue.lock().done = Some(done);
                home.something_came.notify_one();
            }
        })?;
        let mut serving = Serving {
            shared: Arc::clone(&shared),
            writer,
            work,
            last_sync: Instant::now(),
            told: Ticket(0),
        };
        let thread = std::thread::Builder::new().name("tiffany-log".into()).spawn(move || {
            let outcome = serving.serve(&notify);
            if let Err(error) = &outcome {
                serving.shared.queue.lock().failed = true;
                notify(Notice::Failed(error.clone()));
            }
            match (outcome, serving.ending()) {
                (Ok(()), Ending::Close) => serving.writer.close(),
                (outcome, _) => outcome,
            }
        })?;
        Ok(LogThread { shared, thread: Some(thread) })
    }

    /// Hands in a batch, and gives back an empty one. It does not wait for the disk.
    pub fn submit(&self, batch: &mut Batch) -> Ticket {
        let mut queue = self.shared.queue.lock();
        // If something waits already, the thread knows or is about to look.
        let was_empty = queue.pending.is_empty();
        if queue.failed {
            batch.clear();
        } else {
            queue.pending.append(batch);
        }
        queue.last.0 += 1;
        let ticket = queue.last;
        drop(queue);
        if was_empty {
            self.shared.something_came.notify_one();
        }
        ticket
    }

    /// How many bytes wait for the disk, for who wants to slow down those who hand in.
    pub fn backlog(&self) -> usize {
        self.shared.queue.lock().pending.len()
    }

    /// Commits what was handed in, syncs everything and ends the threads.
    pub fn close(mut self) -> Result<(), LogError> {
        self.end(Ending::Close)
    }

    fn end(&mut self, ending: Ending) -> Result<(), LogError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.queue.lock().ending = Some(ending);
        self.shared.something_came.notify_one();
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Whoever drops it does not want to know; the notice was given.
            let _ = self.end(Ending::Stop);
        }
    }
}

/// What the log thread has.
struct Serving {
    shared: Arc<Shared>,
    writer: Writer,
    work: mpsc::Sender<Work>,
    last_sync: Instant,
    told: Ticket,
}

impl Serving {
    fn ending(&self) -> Ending {
        self.shared.queue.lock().ending.unwrap_or(Ending::Stop)
    }

    fn serve(&mut self, notify: &impl Fn(Notice)) -> Result<(), LogError> {
        let mut batch = Batch::with_blob_limit(self.writer.settings().blob_limit);
        loop {
            let (ticket, over) = self.next_batch(&mut batch)?;
            if ticket > self.told {
                self.writer.commit(&batch, |_| notify(Notice::Durable(ticket)))?;
                self.told = ticket;
                batch.clear();
            }
            self.sync_if_due()?;
            if over {
                self.wait_for_work()?;
                return self.writer.sync();
            }
            if let Some(work) = self.writer.work()? {
                // The other thread lives as long as this sender does.
                let _ = self.work.send(work);
            }
        }
    }

    /// Lets the background end what it does.
    fn wait_for_work(&mut self) -> Result<(), LogError> {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue.lock();
        while self.writer.is_work_under_way() {
            match queue.done.take() {
                Some(done) => self.writer.work_done(done)?,
                None => shared.something_came.wait(&mut queue),
            }
        }
        Ok(())
    }

    /// Waits for something to commit. True if nothing will come after it.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<(Ticket, bool), LogError> {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue.lock();
        loop {
            if let Some(done) = queue.done.take() {
                self.writer.work_done(done)?;
                // There may be more to do for the background now.
                break;
            }
            if self.writer.should_wait(&queue.pending) {
                shared.something_came.wait(&mut queue);
                continue;
            }
            if queue.last > self.told || queue.ending.is_some() {
                self.let_more_come(&mut queue);
                break;
            }
            if self.wait(&mut queue) {
                break;
            }
        }
        if self.writer.should_wait(&queue.pending) {
            return Ok((Ticket(0), false));
        }
        std::mem::swap(batch, &mut queue.pending);
        Ok((queue.last, queue.ending.is_some()))
    }

    fn let_more_come(&self, queue: &mut MutexGuard<'_, Queue>) {
        let window = self.writer.settings().batch_window;
        if window > Duration::ZERO && queue.ending.is_none() {
            let until = Instant::now() + window;
            while !self.shared.something_came.wait_until(queue, until).timed_out() {}
        }
    }

    /// Waits for anything. True if a sync is due instead.
    fn wait(&self, queue: &mut MutexGuard<'_, Queue>) -> bool {
        match self.sync_due() {
            Some(due) => self.shared.something_came.wait_until(queue, due).timed_out(),
            None => {
                self.shared.something_came.wait(queue);
                false
            }
        }
    }

    fn sync_due(&self) -> Option<Instant> {
        match self.writer.settings().sync {
            SyncWhen::Interval(interval) if self.writer.needs_sync() => {
                Some(self.last_sync + interval)
            }
            _ => None,
        }
    }

    fn sync_if_due(&mut self) -> Result<(), LogError> {
        if self.sync_due().is_some_and(|due| due <= Instant::now()) {
            self.writer.sync()?;
            self.last_sync = Instant::now();
        }
        Ok(())
    }
}
