//! The background thread of the log: prepares segments, copies durable lines to the files of their
//! runs, makes checkpoints, and erases what removed runs left behind. It delays commits only when
//! it is far behind.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tiffany_kernel::Uuid;

use super::applier::Applier;
use super::error::LogError;
use super::segments::Segment;
use super::thread::{News, Queue, Shared, Wishes};
use crate::blob_gc::Collected;

/// The number of emptied batches that are kept for reuse.
const SPARE: usize = 2;
/// How long lines wait for more lines, so that a run with many small commits costs few writes.
const LINGER: Duration = Duration::from_millis(5);
/// The number of waiting bytes from which lines are written without delay.
pub(crate) const MAX_LINGERING_BYTES: usize = 1 << 20;

/// The delay after a removal before its erasure starts unrequested. Because of it, removing many
/// runs one by one overwrites segments once a second instead of once per run.
const ERASURE_DELAY: Duration = Duration::from_secs(1);

/// The next task of the background thread.
enum Work {
    Wishes(Box<Wishes>),
    /// One piece of an erasure.
    Piece,
}

/// The erasure in progress and its pacing. The search for blobs pauses for as long as it works, and
/// longer if there is other work.
#[derive(Default)]
struct Erasure {
    stage: Stage,
    /// The number of the request that it serves, and of one that arrived after it began.
    number: Option<u64>,
    next: Option<u64>,
    rests_until: Option<Instant>,
    /// The runs whose remains it erases.
    runs: BTreeSet<Uuid>,
    /// When the next erasure starts unrequested.
    due: Option<Instant>,
    /// Whether other work was done although a piece was due; next time, the piece takes precedence.
    is_passed_over: bool,
    /// Whether the last erasure was incomplete because a run is damaged. No erasure starts
    /// unrequested in that case.
    is_blocked: bool,
}

#[derive(Default)]
enum Stage {
    #[default]
    Idle,
    /// The search for unreferenced blobs.
    Collecting,
    /// The log thread is overwriting the segments.
    Overwriting(Collected),
}

impl Erasure {
    /// Starts or schedules an erasure if there is a reason for one.
    fn look(&mut self, applier: &mut Applier) {
        if !matches!(self.stage, Stage::Idle) {
            return;
        }
        if self.next.is_some() {
            self.begin(applier);
        } else if self.due.is_none()
            && !self.is_blocked
            && (!applier.unerased.is_empty() || applier.is_garbage_worth_it())
        {
            self.due = Some(Instant::now() + ERASURE_DELAY);
        }
    }

    /// Returns when the next piece is due; `None` if there is nothing to do.
    fn piece_at(&self, queue: &Queue, now: Instant) -> Option<Instant> {
        match self.stage {
            _ if queue.is_ending() => None,
            Stage::Idle => self.due,
            Stage::Collecting => Some(self.rests_until.unwrap_or(now)),
            Stage::Overwriting(_) => queue.erased.map(|_| now),
        }
    }

    /// Begins an erasure, requested or not.
    fn begin(&mut self, applier: &Applier) {
        self.number = self.next.take();
        self.runs.clone_from(&applier.unerased);
        self.stage = Stage::Collecting;
    }

    /// Does the next piece. No caller waits for it, so the thread does not count as busy.
    fn do_piece(&mut self, shared: &Shared, applier: &mut Applier) -> Result<(), LogError> {
        match &mut self.stage {
            Stage::Idle => self.begin(applier),
            // The erasure was not requested, and none of the runs had a blob.
            Stage::Collecting if self.number.is_none() && !applier.may_leave_blobs() => {
                self.overwrite(shared, Collected::default());
            }
            Stage::Collecting => {
                let began = Instant::now();
                let done = applier.collect_some();
                let now = Instant::now();
                self.rests_until = Some(now + (now - began));
                match done {
                    None => {}
                    Some(Ok(collected)) => self.overwrite(shared, collected),
                    Some(Err(error)) => self.end(shared, Err(error)),
                }
            }
            Stage::Overwriting(collected) => {
                let Some(segments) = shared.queue.lock().erased.take() else { return Ok(()) };
                collected.segments = u64::from(segments);
                let collected = std::mem::take(collected);
                if collected.damaged == 0 {
                    applier.note_erased(&self.runs);
                    applier.checkpoint(segments)?;
                }
                self.end(shared, Ok(collected));
            }
        }
        Ok(())
    }

    /// Continues with the segments if there is anything to erase in them.
    fn overwrite(&mut self, shared: &Shared, collected: Collected) {
        if self.runs.is_empty() && self.number.is_none() {
            return self.end(shared, Ok(collected));
        }
        self.stage = Stage::Overwriting(collected);
        shared.queue.lock().erase = true;
        shared.for_log.notify_one();
    }

    fn end(&mut self, shared: &Shared, outcome: Result<Collected, LogError>) {
        let is_blocked = !outcome.as_ref().is_ok_and(|collected| collected.damaged == 0);
        if let Some(number) = self.number {
            shared.queue.lock().collected = Some((number, outcome));
        }
        *self = Erasure { next: self.next.take(), is_blocked, ..Erasure::default() };
    }
}

/// Starts the thread. It ends on request or at the first failure.
pub(crate) fn start(shared: Arc<Shared>, mut applier: Applier) -> io::Result<JoinHandle<Applier>> {
    std::thread::Builder::new().name("tiffany-sync".into()).spawn(move || {
        let mut erasure = Erasure::default();
        loop {
            erasure.look(&mut applier);
            let Some(work) = next(&shared, &mut erasure) else { break };
            let mut news = News::default();
            match work {
                Work::Wishes(wishes) => {
                    erasure.next = wishes.collect.or(erasure.next);
                    news.read = wishes.reading;
                    if let Err(error) = fulfil(&mut applier, *wishes, &mut news) {
                        news.failed = Some(error);
                    }
                }
                Work::Piece => match erasure.do_piece(&shared, &mut applier) {
                    Ok(()) => continue,
                    Err(error) => news.failed = Some(error),
                },
            }
            let failed = news.failed.is_some();
            tell(&shared, news);
            if failed {
                break;
            }
        }
        applier
    })
}

/// Waits for work; `None` means that the thread should end.
fn next(shared: &Shared, erasure: &mut Erasure) -> Option<Work> {
    let mut queue = shared.queue.lock();
    let mut until = None;
    loop {
        let wishes = &queue.wishes;
        if wishes.end {
            return None;
        }
        let now = Instant::now();
        let late = until.is_some_and(|until| until <= now);
        let piece_at = erasure.piece_at(&queue, now);
        let is_piece_due = piece_at.is_some_and(|at| at <= now);
        let is_passed_over = std::mem::take(&mut erasure.is_passed_over);
        if is_piece_due && is_passed_over {
            return Some(Work::Piece);
        }
        if wishes.is_urgent() || (late && !wishes.apply.is_empty()) {
            erasure.is_passed_over = is_piece_due;
            queue.background_is_busy = true;
            return Some(Work::Wishes(Box::new(std::mem::take(&mut queue.wishes))));
        }
        if is_piece_due {
            return Some(Work::Piece);
        }
        until = match queue.wishes.apply.is_empty() {
            true => None,
            false => Some(until.unwrap_or(now + LINGER)),
        };
        match until.into_iter().chain(piece_at).min() {
            None => shared.for_background.wait(&mut queue),
            Some(at) => drop(shared.for_background.wait_until(&mut queue, at)),
        }
    }
}

fn fulfil(applier: &mut Applier, wishes: Wishes, news: &mut News) -> Result<(), LogError> {
    // The segment comes first: commits may need it soon.
    if let Some((name, size)) = wishes.segment {
        let dir = &applier.places.commit;
        news.segment = Some(Segment::make(&*applier.disk, dir, name, size)?);
    }
    applier.apply(wishes.apply.iter())?;
    match wishes.expect {
        // The checkpoint records it.
        Some(block) if wishes.checkpoint.is_some() && wishes.overwrite.is_none() => {
            applier.expected = block;
        }
        Some(block) => applier.expect(block)?,
        None => {}
    }
    if let Some(segment) = wishes.overwrite {
        segment.erase()?;
        news.overwritten = Some(segment.name);
    }
    if let Some(segments) = wishes.checkpoint {
        news.released = Some(applier.checkpoint(segments)?);
    }
    for mut committed in wishes.apply.into_iter().take(SPARE) {
        committed.batch.clear();
        news.spare.push(committed.batch);
    }
    Ok(())
}

fn tell(shared: &Shared, news: News) {
    let mut queue = shared.queue.lock();
    let known = &mut queue.news;
    known.segment = news.segment.or(known.segment.take());
    known.overwritten = news.overwritten.or(known.overwritten);
    known.released = news.released.or(known.released);
    known.failed = news.failed.or(known.failed.take());
    known.spare.extend(news.spare);
    known.spare.truncate(SPARE);
    queue.background_is_busy = false;
    // The same request may have been passed on twice; its second answer must not count for a later
    // request.
    if news.read.is_some_and(|up_to| up_to >= queue.read_up_to) {
        queue.reading = false;
        shared.for_reader.notify_all();
    }
    drop(queue);
    shared.for_log.notify_one();
}
