//! The log of a runtime: on threads of its own, or on the loop's thread, where a simulation can
//! repeat everything. Both take batches, and report through the inbox which are durable.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tiffany_kernel::Time;

use crate::clock::Clock;
use crate::host::inbox::{Inbox, LoopMessage};
use crate::host::inline::Draws;
use tiffany_log::{Batch, Collected, CommitObserver, LogError, LogThread, Notice, Ticket, Writer};

/// Where the log is written.
pub(crate) enum Log {
    Threads(LogThread),
    Inline(Box<InlineLog>),
}

/// How long a commit takes on the loop's thread, drawn from a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitTime {
    pub(crate) seed: u64,
    pub(crate) longest: Duration,
}

impl Log {
    pub(crate) fn start(
        mut writer: Writer,
        inbox: Arc<Inbox>,
        inline: Option<CommitTime>,
    ) -> io::Result<Log> {
        writer.observe(Arc::clone(&inbox.meters.log) as Arc<dyn CommitObserver>);
        writer.tell_followers(Arc::clone(&inbox.followers));
        match inline {
            None => {
                let tell = move |notice| inbox.send(LoopMessage::Logged(notice));
                LogThread::start(writer, tell).map(Log::Threads)
            }
            Some(time) => Ok(Log::Inline(Box::new(InlineLog::new(writer, inbox, time)))),
        }
    }

    /// How many bytes wait for the disk.
    pub(crate) fn backlog(&self) -> usize {
        match self {
            Log::Threads(log) => log.backlog(),
            Log::Inline(log) => log.pending.len(),
        }
    }

    /// Hands in a batch, and returns an empty one.
    pub(crate) fn submit(&mut self, batch: &mut Batch, clock: &Clock) -> Ticket {
        match self {
            Log::Threads(log) => log.submit(batch),
            Log::Inline(log) => log.submit(batch, clock.now()),
        }
    }

    /// When the loop's thread has work to do for it.
    pub(crate) fn due(&self) -> Option<Time> {
        match self {
            Log::Threads(_) => None,
            Log::Inline(log) => log.due,
        }
    }

    /// Does the work that is due.
    pub(crate) fn act(&mut self, now: Time) {
        if let Log::Inline(log) = self
            && log.due.is_some_and(|due| due <= now)
        {
            log.commit();
        }
    }

    /// Whether it has no thread, as in a simulation.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self, Log::Inline(_))
    }

    /// Waits until the files of the runs have everything that is durable so far.
    pub(crate) fn catch_up(&mut self) -> Result<(), LogError> {
        match self {
            Log::Threads(log) => log.catch_up(),
            Log::Inline(log) => log.writer.sync(),
        }
    }

    /// Begins to remove blobs that no run names, and returns the number of that collection.
    pub(crate) fn collect_blobs(&mut self) -> u64 {
        match self {
            Log::Threads(log) => log.collect_blobs(),
            Log::Inline(log) => {
                log.collections += 1;
                log.collected = Some(log.writer.collect_blobs());
                log.collections
            }
        }
    }

    /// The result of a collection; `None` while it is running.
    pub(crate) fn collected(&self, number: u64) -> Option<Result<Collected, LogError>> {
        match self {
            Log::Threads(log) => log.collected(number),
            Log::Inline(log) => log.collected.clone(),
        }
    }

    /// Commits the batches that were handed in, and syncs everything.
    pub(crate) fn close(self) -> Result<(), LogError> {
        match self {
            Log::Threads(log) => log.close(),
            Log::Inline(mut log) => {
                log.commit();
                log.writer.close()
            }
        }
    }
}

/// A log without threads. As with threads, batches that come while the disk is busy are committed together.
pub(crate) struct InlineLog {
    writer: Writer,
    inbox: Arc<Inbox>,
    pending: Batch,
    last: Ticket,
    due: Option<Time>,
    draws: Draws,
    longest: Duration,
    collections: u64,
    collected: Option<Result<Collected, LogError>>,
}

impl InlineLog {
    fn new(writer: Writer, inbox: Arc<Inbox>, time: CommitTime) -> InlineLog {
        InlineLog {
            pending: Batch::with_blob_limit(writer.settings().blob_limit),
            writer,
            inbox,
            last: Ticket(0),
            due: None,
            draws: Draws::new(time.seed),
            longest: time.longest,
            collections: 0,
            collected: None,
        }
    }

    fn submit(&mut self, batch: &mut Batch, now: Time) -> Ticket {
        self.pending.append(batch);
        self.last.0 += 1;
        let draws = &self.draws;
        let due = *self.due.get_or_insert_with(|| now + draws.up_to(self.longest));
        if due <= now {
            self.commit();
        }
        self.last
    }

    fn commit(&mut self) {
        self.due = None;
        let (last, inbox) = (self.last, &self.inbox);
        let durable = |_| inbox.send(LoopMessage::Logged(Notice::Durable(last)));
        let done = self.writer.commit(&mut self.pending, durable);
        if let Err(error) = done.and_then(|()| self.writer.background()) {
            self.pending.clear();
            self.inbox.send(LoopMessage::Logged(Notice::Failed(error)));
        }
    }
}
