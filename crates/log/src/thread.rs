//! The log on threads: batches collect while the disk is busy, so that one sync serves all of them.
//! This file has the thread that commits, `background.rs` the other one. Neither interprets lines.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::applier::Applier;
use super::background;
use super::batch::Batch;
use super::committer::{Committed, Committer};
use super::error::LogError;
use super::segments::{ErasureStep, Segment};
use super::settings::SyncWhen;
use super::writer::Writer;
use crate::blob_gc::Collected;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// The number of bytes that may wait for the background thread before commits wait for it.
const BACKLOG: usize = 32 << 20;

/// The number of a batch that was submitted. Later batches have higher numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A notice from the log thread.
#[derive(Clone, Debug)]
pub enum Notice {
    /// All batches up to this one are durable.
    Durable(Ticket),
    /// The log has stopped. Batches after the last durable one may or may not be in it; opening it
    /// again shows which.
    Failed(LogError),
}

/// A writer on threads of its own.
///
/// ```
/// # use std::sync::{Arc, mpsc};
/// # use tiffany_log::sim::SimDisk;
/// # use tiffany_log::{Batch, Chain, LogThread, Notice, RecordType, Settings, Stamp, Writer};
/// # use tiffany_kernel::{Tid, Uuid};
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
/// # Ok::<(), tiffany_log::LogError>(())
/// ```
pub struct LogThread {
    shared: Arc<Shared>,
    threads: Option<Threads>,
}

struct Threads {
    log: JoinHandle<(Result<(), LogError>, Committer)>,
    background: JoinHandle<Applier>,
}

/// The state that the threads share.
pub(crate) struct Shared {
    pub(crate) queue: Mutex<Queue>,
    /// Wakes the log thread: for a batch, a report from the background thread, or the end.
    pub(crate) for_log: Condvar,
    /// Wakes the background thread: for a request, or the end.
    pub(crate) for_background: Condvar,
    /// Wakes readers: the run files have all the lines they wait for, or never will.
    pub(crate) for_reader: Condvar,
}

#[derive(Default)]
pub(crate) struct Queue {
    pending: Batch,
    last: Ticket,
    ending: Option<Ending>,
    /// The failure that stopped the log.
    failed: Option<Arc<LogError>>,
    /// Whether a reader waits until the run files have all lines that were submitted up to this
    /// ticket.
    pub(crate) reading: bool,
    pub(crate) read_up_to: Ticket,
    pub(crate) wishes: Wishes,
    pub(crate) news: News,
    pub(crate) background_is_busy: bool,
    /// The number of collections of blobs that were requested, and the last one that has finished.
    collections: u64,
    pub(crate) collected: Option<(u64, Result<Collected, LogError>)>,
    /// Whether the background thread requests that everything in the current segments be erased,
    /// and the number of segments once this is done.
    pub(crate) erase: bool,
    pub(crate) erased: Option<u32>,
}

/// The requests to the background thread.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) apply: Vec<Committed>,
    pub(crate) apply_bytes: usize,
    pub(crate) segment: Option<(u32, u64)>,
    /// A segment to overwrite.
    pub(crate) overwrite: Option<Segment>,
    /// The block that the index should expect in the segments; 0 for none.
    pub(crate) expect: Option<u64>,
    /// A request for a checkpoint, with the number of segments.
    pub(crate) checkpoint: Option<u32>,
    /// A request not to delay lines, because a reader waits for everything up to this ticket.
    pub(crate) reading: Option<Ticket>,
    /// A request to remove unreferenced blobs, with its number.
    pub(crate) collect: Option<u64>,
    pub(crate) end: bool,
}

impl Queue {
    /// Stops collecting batches, because they would never be committed.
    fn stop(&mut self, error: LogError) {
        self.failed = Some(Arc::new(error));
        self.pending.clear();
    }

    /// Returns whether the threads are about to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }
}

impl Wishes {
    /// Returns whether there is a request that should not wait.
    pub(crate) fn is_urgent(&self) -> bool {
        self.segment.is_some()
            || self.overwrite.is_some()
            || self.checkpoint.is_some()
            || self.reading.is_some()
            || self.collect.is_some()
            || self.apply_bytes >= background::MAX_LINGERING_BYTES
    }
}

/// The results of the background thread.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) segment: Option<Segment>,
    /// The name of a segment that was overwritten.
    pub(crate) overwritten: Option<u32>,
    /// The last block that is no longer needed in the commit log.
    pub(crate) released: Option<u64>,
    pub(crate) failed: Option<LogError>,
    /// The ticket up to which the run files have all durable lines, for readers that wait for it.
    pub(crate) read: Option<Ticket>,
    /// Emptied batches, to be reused.
    pub(crate) spare: Vec<Batch>,
}

#[derive(Clone, Copy)]
enum Ending {
    /// Commits everything and writes the index, so that the next opening has nothing to do.
    Close,
    /// Commits what was submitted.
    Stop,
}

impl LogThread {
    /// Starts the threads. `notify` is called on one of them; it must return quickly and must not
    /// panic.
    pub fn start(
        writer: Writer,
        notify: impl Fn(Notice) + Send + 'static,
    ) -> io::Result<LogThread> {
        let Writer { committer, applier, .. } = writer;
        let pending = Batch::with_blob_limit(committer.settings.blob_limit);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { pending, ..Queue::default() }),
            for_log: Condvar::new(),
            for_background: Condvar::new(),
            for_reader: Condvar::new(),
        });
        let background = background::start(Arc::clone(&shared), applier)?;
        let mut serving = Serving {
            shared: Arc::clone(&shared),
            committer,
            unsynced: Vec::new(),
            last_sync: Instant::now(),
            told: Ticket(0),
            expected: 0,
            erasing: None,
        };
        let log = std::thread::Builder::new().name("tiffany-log".into()).spawn(move || {
            let outcome = serving.serve(&notify);
            if let Err(error) = &outcome {
                serving.shared.queue.lock().stop(error.clone());
                serving.shared.for_reader.notify_all();
                notify(Notice::Failed(error.clone()));
            }
            let shared = Arc::clone(&serving.shared);
            shared.queue.lock().wishes.end = true;
            shared.for_background.notify_one();
            (outcome, serving.committer)
        })?;
        Ok(LogThread { shared, threads: Some(Threads { log, background }) })
    }

    /// Submits a batch, and replaces it with an empty one. Does not wait for the disk.
    pub fn submit(&self, batch: &mut Batch) -> Ticket {
        let mut queue = self.shared.queue.lock();
        // If something waits already, the thread was notified or is about to look.
        let was_empty = queue.pending.is_empty();
        if queue.failed.is_some() {
            batch.clear();
        } else {
            queue.pending.append(batch);
        }
        queue.last.0 += 1;
        let ticket = queue.last;
        drop(queue);
        if was_empty {
            self.shared.for_log.notify_one();
        }
        ticket
    }

    /// Returns the number of bytes that wait for the disk, for callers that slow down their
    /// writers.
    pub fn backlog(&self) -> usize {
        self.shared.queue.lock().pending.len()
    }

    /// Waits until the run files have everything that was submitted so far. Readers of files that
    /// are being written need this. If the log has failed, returns an error: then the files may
    /// lack lines, and what was submitted may not be durable.
    pub fn catch_up(&self) -> Result<(), LogError> {
        let mut queue = self.shared.queue.lock();
        queue.reading = true;
        queue.read_up_to = queue.last;
        self.shared.for_log.notify_one();
        while queue.reading && queue.failed.is_none() {
            self.shared.for_reader.wait(&mut queue);
        }
        match &queue.failed {
            Some(first) if queue.reading => Err(LogError::Poisoned(Arc::clone(first))),
            _ => Ok(()),
        }
    }

    /// Requests the removal of unreferenced blobs, and of the lines that removed and compacted runs
    /// left in the commit log. The background thread does this in small pieces. Returns a number
    /// for [`collected`](LogThread::collected). It covers runs that were removed before the last
    /// [`catch_up`](LogThread::catch_up). Without a request, the work starts a second after a
    /// removal.
    pub fn collect_blobs(&self) -> u64 {
        let mut queue = self.shared.queue.lock();
        queue.collections += 1;
        queue.wishes.collect = Some(queue.collections);
        self.shared.for_background.notify_one();
        queue.collections
    }

    /// Returns the result of a collection; `None` while it is running. A failed collection does not
    /// stop the log, but a failure of the log ends the collection.
    pub fn collected(&self, number: u64) -> Option<Result<Collected, LogError>> {
        let queue = self.shared.queue.lock();
        let last = queue.collected.as_ref().filter(|(last, _)| *last >= number);
        let stopped = queue.failed.as_ref().map(|first| Err(LogError::Poisoned(Arc::clone(first))));
        last.map(|(_, collected)| collected.clone()).or(stopped)
    }

    /// Commits what was submitted, syncs everything and ends the threads. Erases lines of removed
    /// and compacted runs that are still in the commit log.
    pub fn close(mut self) -> Result<(), LogError> {
        self.end(Ending::Close)
    }

    fn end(&mut self, ending: Ending) -> Result<(), LogError> {
        let Some(Threads { log, background }) = self.threads.take() else { return Ok(()) };
        self.shared.queue.lock().ending = Some(ending);
        self.shared.for_log.notify_one();
        let outcome = log.join();
        // The background thread holds the lock of the directory, so it must have ended too.
        let other = background.join();
        match (outcome, other) {
            (Ok((Ok(()), committer)), Ok(applier)) => match ending {
                Ending::Close => Writer::new(committer, applier).close_quickly(),
                Ending::Stop => Ok(()),
            },
            (Ok((outcome, _)), Ok(_)) => outcome,
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // A caller that drops the log ignores its result; the notice was sent.
            let _ = self.end(Ending::Stop);
        }
    }
}

/// The state of the log thread.
struct Serving {
    shared: Arc<Shared>,
    committer: Committer,
    /// Batches that wait for the next sync before the background thread gets them.
    unsynced: Vec<Committed>,
    last_sync: Instant,
    told: Ticket,
    /// The block that the index expects in the segments, or will expect after a pending request.
    expected: u64,
    /// The block up to which everything is being erased from the segments.
    erasing: Option<u64>,
}

impl Serving {
    fn serve(&mut self, notify: &impl Fn(Notice)) -> Result<(), LogError> {
        let mut batch = Batch::with_blob_limit(self.committer.settings.blob_limit);
        loop {
            let (ticket, ending) = self.next_batch(&mut batch)?;
            if ticket > self.told {
                self.commit(&mut batch, || notify(Notice::Durable(ticket)))?;
                self.told = ticket;
            }
            let reading = {
                let queue = self.shared.queue.lock();
                // Lines that arrived during the commit are in the next one.
                queue.reading && queue.read_up_to <= self.told
            };
            if reading || self.sync_due().is_some_and(|due| due <= Instant::now()) {
                self.sync()?;
            }
            if reading {
                let mut queue = self.shared.queue.lock();
                queue.wishes.reading = Some(self.told);
                self.shared.for_background.notify_one();
            }
            match ending {
                Some(Ending::Close) => {
                    self.sync()?;
                    return self.last_checkpoint();
                }
                Some(Ending::Stop) => return self.sync(),
                None => {}
            }
        }
    }

    fn commit(&mut self, batch: &mut Batch, durable: impl FnOnce()) -> Result<(), LogError> {
        if batch.is_empty() {
            durable();
            return Ok(());
        }
        let mut offsets = Vec::new();
        let block = self.committer.append(batch, &mut offsets)?;
        durable();
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue.lock();
        let limit = self.committer.settings.blob_limit;
        let next = queue.news.spare.pop().unwrap_or_else(|| Batch::with_blob_limit(limit));
        let batch = std::mem::replace(batch, next);
        self.unsynced.push(Committed { batch, offsets, block });
        let was_idle = queue.wishes.apply.is_empty();
        self.hand_over(&mut queue);
        self.wish(&mut queue);
        let wake = was_idle || queue.wishes.is_urgent();
        drop(queue);
        if wake {
            shared.for_background.notify_one();
        }
        Ok(())
    }

    /// Passes batches to the background thread that may be written to the run files: those that are
    /// durable in the commit log, or all of them if the settings never sync.
    fn hand_over(&mut self, queue: &mut Queue) {
        let all = self.committer.settings.sync == SyncWhen::Never;
        let synced = self.committer.synced;
        let count = self.unsynced.iter().take_while(|one| all || one.block <= synced).count();
        for committed in self.unsynced.drain(..count) {
            queue.wishes.apply_bytes += committed.batch.len();
            queue.wishes.apply.push(committed);
        }
    }

    /// Asks the background thread to prepare what will be needed soon.
    fn wish(&mut self, queue: &mut Queue) {
        let first = self.committer.durable_first_block();
        if first > self.expected {
            self.expect(first, queue);
        }
        if queue.wishes.segment.is_none() {
            queue.wishes.segment = self.committer.wanted_segment();
        }
        if self.committer.segments.full() > 0 {
            queue.wishes.checkpoint = Some(self.committer.segments.count() as u32);
        }
    }

    fn expect(&mut self, block: u64, queue: &mut Queue) {
        self.expected = block;
        queue.wishes.expect = Some(block);
    }

    /// Waits for something to commit, and for the room to do so.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<(Ticket, Option<Ending>), LogError> {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue.lock();
        loop {
            self.take_news(&mut queue)?;
            self.erase(&mut queue)?;
            let reading =
                queue.reading && queue.wishes.reading.is_none() && !queue.background_is_busy;
            let something = queue.last > self.told || queue.ending.is_some() || reading;
            if something && self.can_commit(&mut queue) {
                self.let_more_come(&mut queue);
                // More may have arrived than there is room for.
                if self.committer.has_room(&queue.pending) {
                    break;
                }
            } else if !something && self.wait(&mut queue) {
                break;
            } else if something {
                shared.for_log.wait(&mut queue);
            }
        }
        std::mem::swap(batch, &mut queue.pending);
        Ok((queue.last, queue.ending))
    }

    fn take_news(&mut self, queue: &mut Queue) -> Result<(), LogError> {
        if let Some(error) = queue.news.failed.take() {
            return Err(error);
        }
        if let Some(segment) = queue.news.segment.take() {
            self.committer.segments.add(segment);
        }
        if let Some(name) = queue.news.overwritten.take() {
            self.committer.segments.erased(name);
        }
        if let Some(upto) = queue.news.released.take() {
            self.committer.segments.release(upto)?;
        }
        Ok(())
    }

    /// Takes the next step of an erasure. The background thread does the work, one segment at a
    /// time, while commits continue.
    fn erase(&mut self, queue: &mut Queue) -> Result<(), LogError> {
        if std::mem::take(&mut queue.erase) {
            self.committer.sync()?;
            self.hand_over(queue);
            self.erasing = Some(self.committer.written);
        }
        let Some(upto) = self.erasing else { return Ok(()) };
        if self.committer.segments.can_leave(upto) {
            self.committer.sync()?;
            self.hand_over(queue);
            self.committer.segments.leave(upto);
        }
        let segments = &mut self.committer.segments;
        let count = segments.count() as u32;
        match segments.erasure_step(upto) {
            ErasureStep::Overwrite(segment) => {
                queue.wishes.overwrite = Some(segment);
                // This segment may contain the expected block.
                self.expect(0, queue);
            }
            ErasureStep::NewSegment if segments.under_way == 0 => {
                queue.wishes.segment = Some(segments.new_name());
            }
            ErasureStep::Checkpoint if !queue.background_is_busy => {
                queue.wishes.checkpoint = Some(count);
            }
            ErasureStep::Done => {
                self.erasing = None;
                queue.erased = Some(count);
            }
            ErasureStep::NewSegment | ErasureStep::Checkpoint | ErasureStep::Wait => return Ok(()),
        }
        self.shared.for_background.notify_one();
        Ok(())
    }

    /// Returns whether there is room for the waiting batch. If not, the background thread is asked
    /// to make some.
    fn can_commit(&mut self, queue: &mut Queue) -> bool {
        if queue.wishes.apply_bytes > BACKLOG {
            return false;
        }
        if self.committer.has_room(&queue.pending) {
            return true;
        }
        let segments = &mut self.committer.segments;
        let few = segments.count() < self.committer.settings.segments.max(2);
        if few && segments.under_way == 0 {
            queue.wishes.segment = Some(segments.new_name());
        }
        queue.wishes.checkpoint = Some(segments.count() as u32);
        self.shared.for_background.notify_one();
        false
    }

    fn let_more_come(&self, queue: &mut MutexGuard<'_, Queue>) {
        let window = self.committer.settings.batch_window;
        if window > Duration::ZERO && queue.ending.is_none() {
            let until = Instant::now() + window;
            while !self.shared.for_log.wait_until(queue, until) {}
        }
    }

    /// Waits for a notification. Returns true if a sync is due instead.
    fn wait(&self, queue: &mut MutexGuard<'_, Queue>) -> bool {
        match self.sync_due() {
            Some(due) => self.shared.for_log.wait_until(queue, due),
            None => {
                self.shared.for_log.wait(queue);
                false
            }
        }
    }

    fn sync_due(&self) -> Option<Instant> {
        match self.committer.settings.sync {
            SyncWhen::Interval(interval) if self.committer.synced < self.committer.written => {
                Some(self.last_sync + interval)
            }
            _ => None,
        }
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.committer.sync()?;
        self.last_sync = Instant::now();
        let shared = Arc::clone(&self.shared);
        self.hand_over(&mut shared.queue.lock());
        shared.for_background.notify_one();
        Ok(())
    }

    /// Lets the background thread make the last checkpoint, and waits for it.
    fn last_checkpoint(&mut self) -> Result<(), LogError> {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.queue.lock();
        // After it, everything is in the run files, so nothing is lost if the segments are.
        self.expect(0, &mut queue);
        queue.wishes.checkpoint = Some(self.committer.segments.count() as u32);
        shared.for_background.notify_one();
        loop {
            self.take_news(&mut queue)?;
            // A checkpoint in progress may have begun before the last batch arrived.
            if !queue.background_is_busy && queue.wishes.checkpoint.is_none() {
                return Ok(());
            }
            shared.for_log.wait(&mut queue);
        }
    }
}
